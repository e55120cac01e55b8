/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model [-c CALLS] [-r SEED] [-n NUMBER] [-s SECONDS] [-t SECONDS] [FILE...] - runs random programs until they have
 * made this number of calls, or the programs in these files. The first program that fails is shortened and
 * printed as a file that can be run again.
 *
 *   -c CALLS    100000; "long": 10,000,000
 *   -r SEED     random seed of the programs; printed
 *   -n NUMBER   number of the first program
 *   -t SECONDS  a time instead of a number of calls
 *   -s SECONDS  time to search for a shorter program that still fails; 60
 */
#include "model.h"

#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define WARM 200           /* number of programs until caches are filled */
#define TRIES 12           /* runs of a program, since a run is not completely reproducible */
#define SHORT_PATIENCE_S 1 /* while a program is made shorter */

static struct {
    unsigned long calls;
    uint64_t seed;
    unsigned number;
    double shrink_s, until;
} options = {.calls = 100000, .shrink_s = 60, .until = 1e30};

static void make(struct program *program, unsigned number)
{
    program_make(program, chance_next(&(struct chance){.state = options.seed ^ (uint64_t)number << 32}));
}

/* ---- In a separate process ------------------------------------------------------------------- */

static void play_series(const void *unused)
{
    struct program program;

    for (unsigned number = options.number; figures->calls < options.calls && seconds_now() < options.until;
         number++) {
        figures->number = number;
        make(&program, number);
        play(&program);
        figures->resident_kib[number - options.number > WARM] = resident_kib();
    }
    (void)unused;
}

static void play_one(const void *program)
{
    for (int i = 0; i < TRIES; i++)
        play(program);
}

/* Returns whether the run failed; then figures->text contains the reason. */
static bool goes_wrong(void (*run)(const void *), const void *argument)
{
    int status;

    figures->text[0] = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        play_open();
        run(argument);
        play_close();
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("model");
        exit(2);
    }
    if (status != 0 && figures->text[0] == 0)
        snprintf(figures->text, sizeof figures->text, "the process ended with status %#x%s", (unsigned)status,
                 WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": the time was over" : "");
    return status != 0;
}

/* ---- Shorter programs ------------------------------------------------------------------------ */

static double shrink_until;

static bool try(struct program *best, const struct program *program)
{
    if (program->count == 0 || seconds_now() > shrink_until || !goes_wrong(play_one, program))
        return false;
    *best = *program;
    return true;
}

static struct program without(const struct program *program, int from, int count)
{
    struct program less = {.count = 0};

    for (int i = 0; i < program->count; i++)
        if (i < from || i >= from + count)
            less.steps[less.count++] = program->steps[i];
    return less;
}

/* Removes steps, many at first, then simplifies the remaining ones. */
static void shrink(struct program *program)
{
    char text[sizeof figures->text];

    patience_s = SHORT_PATIENCE_S * LATE_S;
    shrink_until = seconds_now() + options.shrink_s;
    memcpy(text, figures->text, sizeof text);
    for (int part = program->count / 2; part > 0; part = part > 1 ? part / 2 : 0)
        for (int from = 0; from < program->count;) {
            struct program less = without(program, from, part);
            if (!try(program, &less))
                from += part;
            else
                memcpy(text, figures->text, sizeof text);
        }
    for (int i = 0; i < program->count; i++)
        for (unsigned bit = 0; bit < 10; bit++) {
            struct program less = *program;
            less.steps[i].flags &= ~(1u << bit);
            if (less.steps[i].flags != program->steps[i].flags && try(program, &less))
                memcpy(text, figures->text, sizeof text);
        }
    for (int i = 0; i < program->count; i++)
        for (struct program less = *program; less.steps[i].length > 1;) {
            less.steps[i].length /= 2;
            if (!try(program, &less))
                break;
            memcpy(text, figures->text, sizeof text);
        }
    memcpy(figures->text, text, sizeof text);
}

/* ---- Output ------------------------------------------------------------------------------------ */

static int report(struct program *program, const char *again)
{
    printf("WRONG: %s\n    %s\n", figures->text, again);
    if (!goes_wrong(play_one, program)) {
        printf("By itself this program does not show it:\n");
        program_print(stdout, program);
        return 1;
    }
    shrink(program);
    printf("# %s\n", figures->text);
    program_print(stdout, program);
    return 1;
}

static int play_file(const char *name)
{
    struct program program;
    FILE *file = fopen(name, "re");

    if (!file || !program_read(file, &program)) {
        fprintf(stderr, "%s is no program\n", name);
        return 2;
    }
    fclose(file);
    return goes_wrong(play_one, &program) ? report(&program, name) : 0;
}

static int play_random(void)
{
    double begin = seconds_now();
    struct program program;
    char again[100];

    printf("seed %lu\n", (unsigned long)options.seed);
    if (goes_wrong(play_series, NULL)) {
        snprintf(again, sizeof again, "program %u, step %d; again: -r %lu -n %u", figures->number,
                 figures->step, (unsigned long)options.seed, figures->number);
        make(&program, figures->number);
        return report(&program, again);
    }
    printf("%lu calls in %lu programs, %lu connections, %lu events, %lu refused, %.1f s\n", figures->calls,
           figures->programs, figures->connections, figures->events, figures->refused, seconds_now() - begin);
    if (figures->resident_kib[1] > 0)
        printf("memory: %ld KiB, %+ld since the first %d programs\n", figures->resident_kib[1],
               figures->resident_kib[1] - figures->resident_kib[0], WARM);
    for (int i = 0; i < VERBS; i++)
        printf("%s %lu%s", verb_names[i], figures->started[i], i < VERBS - 1 ? ", " : "\n");
    return 0;
}

int main(int argc, char **argv)
{
    int option, bad = 0;

    options.seed = (uint64_t)(seconds_now() * 1e6) % 1000000007;
    patience_s *= LATE_S;
    while ((option = getopt(argc, argv, "c:r:n:s:t:")) != -1) {
        uint64_t number = strtoull(optarg ? optarg : "0", NULL, 10);

        if (option == 'c')
            options.calls = strcmp(optarg, "long") == 0 ? 10000000 : number;
        else if (option == 'r')
            options.seed = number;
        else if (option == 'n')
            options.number = (unsigned)number;
        else if (option == 't')
            options.calls = ULONG_MAX, options.until = seconds_now() + (double)number;
        else if (option == 's')
            options.shrink_s = (double)number;
        else
            return fprintf(stderr, "usage: model [-c CALLS|long] [-r SEED] [-n NUMBER] [-s SECONDS] [-t "
                                   "SECONDS] [FILE...]\n"),
                   2;
    }
    figures = mmap(NULL, sizeof *figures, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (figures == MAP_FAILED)
        return perror("mmap"), 2;
    if (optind == argc)
        return play_random();
    for (; optind < argc; optind++)
        bad |= play_file(argv[optind]);
    return bad;
}
