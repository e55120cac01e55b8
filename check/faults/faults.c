/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * faults [-v] [-n POINTS] [-t SECONDS] [-r SEED] [-c PATTERN] [-p POINT] [-j JOBS] - runs the cells and prints
 * the matrix: a cell is PASS, or its first failure with the command that repeats it.
 *
 *   -n POINTS   number of points over the matrix, shared between the faults; 1000. Each cell has at least one
 *   -t SECONDS  runs random cells for this time, with few points each unless -n is given
 *   -r SEED     repeats the points, and the order of -t
 *   -c PATTERN  only cells whose names FAULT/MOMENT/LINK match
 *   -p POINT    only this point
 *   -j JOBS     concurrent cells; 16, because most of the time they wait
 *   -v          prints each cell when it ends, and the time that it took
 */
#include "faults.h"

#include <fnmatch.h>
#include <poll.h>
#include <sys/wait.h>

#define JOBS_MAX 32
#define LINKS_MAX 8
#define START_S 10 /* s for the start of a cell, plus this for each point: */
#define POINT_S 3
#define POINTS 1000 /* over the matrix */
#define FEW 3       /* of a cell, with -t */
#define TEXT 600

struct result {
    struct cell cell;
    enum { NOT_YET, RUNNING, PASS, FAIL, NOT_HERE } state;
    pid_t pid;
    int output;
    double began;
    char text[TEXT];
};

static struct {
    unsigned points /* 0: not given */, jobs, seconds;
    uint64_t seed;
    const char *pattern;
    int point; /* -1: all */
    bool verbose;
} options = {.jobs = 16, .pattern = "*", .point = -1};
static struct result *results;
static int result_count;
static enum here here[LINKS_MAX]; /* of each link */

/* Reports an error outside of a test, where Check's functions cannot be used. */
static void have(long result, const char *what)
{
    if (result != -1)
        return;
    perror(what);
    exit(2);
}

/* ---- One cell, in a separate process ------------------------------------------------- */

static struct cell chosen;

START_TEST(a_cell)
{
    cell_run(&chosen);
}
END_TEST

static double bound_of(const struct cell *cell)
{
    const struct fault *fault = cell->fault;

    return START_S + cell->count * (POINT_S + fault->bound + fault->stopped);
}

static _Noreturn void run_here(const struct cell *cell, int output)
{
    Suite *suite = suite_create("faults");
    TCase *tests = add_bare_case(suite, cell->name, bound_of(cell));

    dup2(output, 1);
    chosen = *cell;
    tcase_add_test(tests, a_cell);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    if (failed) {
        TestResult **bad = srunner_failures(runner);
        printf("%s:%d: %s\n", tr_lfile(bad[0]), tr_lno(bad[0]), tr_msg(bad[0]));
    }
    fflush(stdout);
    _exit(failed != 0);
}

static void start(struct result *result)
{
    int ends[2];

    have(pipe(ends), "pipe");
    fflush(stdout);
    have(result->pid = fork(), "fork");
    if (result->pid == 0) {
        close(ends[0]);
        run_here(&result->cell, ends[1]);
    }
    close(ends[1]);
    result->output = ends[0];
    result->began = seconds_now();
    result->state = RUNNING;
}

static void finish(struct result *result)
{
    FILE *said = fdopen(result->output, "r");
    char line[TEXT], point[TEXT] = "0";
    int status;

    while (fgets(line, sizeof line, said)) {
        line[strcspn(line, "\n")] = 0;
        snprintf(strchr(line, ':') ? result->text : point, TEXT, "%s", line);
    }
    fclose(said);
    have(waitpid(result->pid, &status, 0), "waitpid");
    result->state = status == 0 ? PASS : FAIL;
    if (result->state == FAIL && result->text[0] == 0)
        snprintf(result->text, TEXT, "its runner ended with status %#x, and without a word", (unsigned)status);
    if (result->state == FAIL)
        printf("BAD %s: %s\n    check/faults/faults -c '%s' -r %lu -p %s\n", result->cell.name, result->text,
               result->cell.name, (unsigned long)options.seed, point);
    else if (options.verbose)
        printf("%s: %u points, %.1f s\n", result->cell.name, result->cell.count, seconds_now() - result->began);
    fflush(stdout);
}

/* ---- All cells ----------------------------------------------------------------------- */

static uint64_t seed_of(const char *name)
{
    uint64_t seed = options.seed;

    for (const char *c = name; *c; c++)
        seed = chance_next(&(struct chance){.state = seed ^ (uint64_t)(unsigned char)*c});
    return seed;
}

static const struct fault *fault_of(int index)
{
    return &fault_rows[index / moment_count / link_count];
}

static bool can_be(const struct cell *cell)
{
    return (!cell->fault->packets || cell->link->packets) && (!cell->fault->network || cell->link->network) &&
           (!cell->fault->forwarded || cell->link->stream) && (!cell->fault->files || cell->moment->files) &&
           !(cell->link->adapter ? cell->fault->embedded : cell->fault->adapter);
}

static unsigned count_for(const struct cell *cell, unsigned shares)
{
    unsigned points = options.points > 0 ? options.points : POINTS, most = cell->fault->most;
    unsigned count = (points * (unsigned)cell->fault->share + shares - 1) / shares;

    if (options.seconds > 0 && options.points == 0)
        count = cell->fault->fate == SILENT ? 1 : FEW;
    return most > 0 && count > most ? most : count;
}

static void fill_results(void)
{
    unsigned shares = 0;

    for (int i = 0; i < link_count; i++)
        here[i] = link_ask(&link_rows[i]);
    result_count = fault_count * moment_count * link_count;
    results = calloc((size_t)result_count, sizeof *results);
    have(results ? 0 : -1, "calloc");
    for (int i = 0; i < result_count; i++) {
        int link = i % link_count;
        struct cell *cell = &results[i].cell;

        cell->fault = fault_of(i);
        cell->moment = &moment_rows[i / link_count % moment_count];
        cell->link = &link_rows[link];
        snprintf(cell->name, sizeof cell->name, "%s/%s/%s", cell->fault->name, cell->moment->name,
                 cell->link->name);
        cell->seed = seed_of(cell->name);
        if (here[link] != HERE || !can_be(cell) || fnmatch(options.pattern, cell->name, 0) != 0)
            results[i].state = NOT_HERE;
        else
            shares += (unsigned)cell->fault->share;
    }
    for (int i = 0; i < result_count && shares > 0; i++) {
        struct cell *cell = &results[i].cell;

        cell->first = options.point >= 0 ? (unsigned)options.point : 1;
        cell->count = options.point >= 0 ? 1 : count_for(cell, shares);
    }
}

/* Returns the next cell: in order, or with -t a random one of those left. */
static struct result *next_result(struct chance *chance)
{
    size_t left = 0;

    for (int i = 0; i < result_count; i++)
        left += results[i].state == NOT_YET;
    if (left == 0)
        return NULL;
    struct result *result = results;

    for (size_t skip = options.seconds ? chance_below(chance, left) : 0;; result++)
        if (result->state == NOT_YET && skip-- == 0)
            return result;
}

static void run_all(double until)
{
    struct chance chance = {.state = options.seed};
    struct result *running[JOBS_MAX] = {NULL};
    unsigned count;

    do {
        struct pollfd wait[JOBS_MAX];

        count = 0;
        for (unsigned i = 0; i < options.jobs; i++) {
            if (!running[i] && seconds_now() < until && (running[i] = next_result(&chance)) != NULL)
                start(running[i]);
            wait[i] = (struct pollfd){.fd = running[i] ? running[i]->output : -1};
            count += running[i] != NULL;
        }
        if (count > 0)
            have(poll(wait, options.jobs, -1), "poll");
        for (unsigned i = 0; i < options.jobs; i++)
            if (running[i] && (wait[i].revents & POLLHUP)) { /* it and all its processes have ended */
                finish(running[i]);
                running[i] = NULL;
            }
    } while (count > 0);
}

/* ---- The matrix ---------------------------------------------------------------------- */

static const struct result *result_at(int fault, int moment, int link)
{
    return &results[(fault * moment_count + moment) * link_count + link];
}

/* Returns whether the fault is run on this link; otherwise it has no row. */
static bool is_shown(int fault, int link)
{
    for (int m = 0; m < moment_count; m++)
        if (result_at(fault, m, link)->state != NOT_HERE)
            return true;
    return false;
}

static void print_row(int fault, int link)
{
    static const char *const words[] = {".", "?", "PASS", "FAIL", "-"};

    printf("%-17s", fault_rows[fault].name);
    for (int m = 0; m < moment_count; m++)
        printf(" %9s", words[result_at(fault, m, link)->state]);
    printf("\n");
}

static void print_link(int link)
{
    bool begun = false;

    for (int f = 0; f < fault_count; f++) {
        if (!is_shown(f, link))
            continue;
        if (!begun) {
            printf("\n%-17s", link_rows[link].name);
            for (int m = 0; m < moment_count; m++)
                printf(" %9s", moment_rows[m].name);
            printf("\n");
        }
        begun = true;
        print_row(f, link);
    }
}

/* Prints why the third table is missing, and what it needs. */
static void explain_rxe(void)
{
    const struct link_row *rxe = &link_rows[link_count - 1];

    if (here[link_count - 1] == NO_DEVICE)
        printf("%s is not run: this machine has no RDMA device. A guest has one: make check-faults "
               "FAULTS_GUEST=1\n",
               rxe->name);
    if (here[link_count - 1] == NO_NAME)
        printf("%s is not run: EXS_TEST_ADDR must be an IPv4 address of the RDMA device here, and /etc/hosts "
               "have it "
               "as %s\n",
               rxe->name, rxe->host);
}

static int print_matrix(void)
{
    unsigned count[NOT_HERE + 1] = {0}, points = 0;

    for (int i = 0; i < result_count; i++) {
        count[results[i].state]++;
        points += results[i].state == PASS ? results[i].cell.count : 0;
    }
    for (int link = 0; link < link_count; link++)
        print_link(link);
    printf("\n-: not run. Packets get lost on udp only, where these programs send them. A path is that of a "
           "forwarder, "
           "which only tcp has. A disk is short of room only where something is written to it. Only the "
           "embedded device is taken away, and falls silent with its "
           "process\n");
    explain_rxe();
    if (count[NOT_YET] > 0)
        printf(".: not run: the time was over\n");
    printf("%u cells passed with %u points, %u failed, %u not run; seed %lu\n", count[PASS], points,
           count[FAIL], count[NOT_HERE] + count[NOT_YET], (unsigned long)options.seed);
    return count[FAIL] > 0 || count[PASS] == 0;
}

static bool read_options(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "n:t:r:c:p:j:v")) != -1) {
        uint64_t number = strtoull(optarg ? optarg : "0", NULL, 10);

        if (option == 'n')
            options.points = strcmp(optarg, "long") == 0 ? 10000 : (unsigned)number;
        else if (option == 't')
            options.seconds = (unsigned)number;
        else if (option == 'r')
            options.seed = number;
        else if (option == 'c')
            options.pattern = optarg;
        else if (option == 'p')
            options.point = (int)number;
        else if (option == 'j' && number > 0 && number <= JOBS_MAX)
            options.jobs = (unsigned)number;
        else if (option == 'v')
            options.verbose = true;
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    double begin = seconds_now();

    options.seed = (uint64_t)(begin * 1e6) % 1000000007;
    if (!read_options(argc, argv)) {
        fprintf(
            stderr,
            "usage: faults [-v] [-n POINTS|long] [-t SECONDS] [-r SEED] [-c PATTERN] [-p POINT] [-j JOBS]\n");
        return 2;
    }
    printf("seed %lu\n", (unsigned long)options.seed);
    fill_results();
    run_all(options.seconds ? begin + options.seconds : 1e30);
    int bad = print_matrix();
    printf("%.0f s\n", seconds_now() - begin);
    return bad;
}
