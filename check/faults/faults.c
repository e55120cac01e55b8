/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * faults [-v] [-n POINTS] [-t SECONDS] [-r SEED] [-c PATTERN] [-p POINT] [-j JOBS] - prints the matrix: a cell
 * is PASS, or what went wrong first, with the command that shows it again.
 *
 *   -n POINTS   over the matrix, each fault's share of them; 1000. Each cell has one at least
 *   -t SECONDS  cells at random, with few points, as many as there is time for
 *   -r SEED     repeats the points, and the order of -t
 *   -c PATTERN  those cells whose names FAULT/MOMENT/LINK it matches
 *   -p POINT    this one only
 *   -j JOBS     cells at once; 16, since most of the time they wait
 *   -v          each cell when it ends, and how long it took
 */
#include "faults.h"

#include <fnmatch.h>
#include <poll.h>
#include <sys/wait.h>

#define JOBS_MAX 32
#define START_S 10 /* of a cell's bound, and beside it for each point: */
#define POINT_S 3
#define FEW 3 /* points of a cell, of -t */
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
    unsigned points, jobs, seconds;
    uint64_t seed;
    const char *pattern;
    int point; /* -1: all */
    bool verbose;
} options = {.points = 1000, .jobs = 16, .pattern = "*", .point = -1};
static struct result *results;
static int result_count;

/* Outside of a test Check can't be told. */
static void have(long result, const char *what)
{
    if (result != -1)
        return;
    perror(what);
    exit(2);
}

/* ---- One cell, in a process of its own ----------------------------------------------- */

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

/* ---- All of them --------------------------------------------------------------------- */

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

/* The kernel's or an adapter's RDMA; asked in a process of its own, since exs_init is once. */
static bool is_here(const struct link_row *link)
{
    int status;
    pid_t pid;

    have(pid = fork(), "fork");
    if (pid == 0) {
        setenv("EXS_DEVICE", link->device, 1);
        _exit(exs_init(EXS_VERSION) == 0 && exs_getdevices(NULL, 0) > 0 ? 0 : 1);
    }
    have(waitpid(pid, &status, 0), "waitpid");
    return status == 0;
}

static bool can_be(const struct cell *cell)
{
    return (!cell->fault->packets || cell->link->packets) && (!cell->fault->files || cell->moment->files) &&
           (!cell->fault->embedded || strcmp(cell->link->device, "soft") == 0);
}

static void fill_results(void)
{
    unsigned shares = 0;
    bool here[8];

    for (int i = 0; i < link_count; i++)
        here[i] = is_here(&link_rows[i]);
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
        if (!here[link] || !can_be(cell) || fnmatch(options.pattern, cell->name, 0) != 0)
            results[i].state = NOT_HERE;
        else
            shares += (unsigned)cell->fault->share;
    }
    for (int i = 0; i < result_count && shares > 0; i++) {
        struct cell *cell = &results[i].cell;
        unsigned count = (options.points * (unsigned)cell->fault->share + shares - 1) / shares;

        cell->first = options.point >= 0 ? (unsigned)options.point : 1;
        cell->count = options.point >= 0 ? 1 : options.seconds ? FEW : count;
        if (cell->fault->fate == SILENT && options.seconds)
            cell->count = 1;
        if (cell->fault->most > 0 && cell->count > cell->fault->most)
            cell->count = cell->fault->most;
    }
}

/* In order; of -t at random. */
static struct result *next_result(struct chance *chance)
{
    int from = options.seconds ? (int)chance_below(chance, (size_t)result_count) : 0;

    for (int i = 0; i < result_count; i++) {
        struct result *result = &results[(from + i) % result_count];
        if (result->state == NOT_YET)
            return result;
    }
    return NULL;
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
            if (running[i] && (wait[i].revents & POLLHUP)) { /* it has ended, and all of its processes */
                finish(running[i]);
                running[i] = NULL;
            }
    } while (count > 0);
}

/* ---- The matrix ---------------------------------------------------------------------- */

static int print_matrix(void)
{
    static const char *const words[] = {".", "?", "PASS", "FAIL", "-"};
    unsigned count[5] = {0}, points = 0;

    for (int link = 0; link < link_count; link++) {
        printf("\n%-16s", link_rows[link].name);
        for (int m = 0; m < moment_count; m++)
            printf(" %9s", moment_rows[m].name);
        for (int f = 0; f < fault_count; f++) {
            printf("\n%-16s", fault_rows[f].name);
            for (int m = 0; m < moment_count; m++) {
                const struct result *result = &results[(f * moment_count + m) * link_count + link];
                printf(" %9s", words[result->state]);
                count[result->state]++;
                points += result->state == PASS ? result->cell.count : 0;
            }
        }
        printf("\n");
    }
    printf("\n-: not run. Packets get lost on udp only; in the guest netem would do it to rxe, which nobody "
           "has tried. A disk is short of room only where something is written to it. Only the embedded device "
           "is taken "
           "away\n");
    if (!is_here(&link_rows[link_count - 1]))
        printf("-: rxe is not run: this machine has no RDMA device\n");
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
