/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * torture [-c CALL [-e ERROR]] [-s SCENE] [-t SECONDS [-r SEED]] [-j JOBS] [-v] [-o AIM] - makes every call fail
 * in every scene, and prints the results.
 *
 * A series is one call with one error, once or for good, in one scene: the first such call fails, then the
 * second, until no call is left. "For good" advances in growing steps, because runs in which everything fails
 * from some call on are much like those for the next calls. With -t: random attempts for this time, which the
 * seed repeats. With -o: one attempt and its whole output: -o "calloc 12 ENOMEM once" -s "blocking stream client".
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <unistd.h>
#include "calls.h"
#include "core/base/clock.h"
#include "run.h"

#define JOBS_MAX 64
#define SERIES_MAX 4096
#define ERRORS_MAX 8
#define BASELINES 3
/* empty attempts in a row that end a series: the number of calls varies with the threads' timing */
#define MISSES 2

static const struct {
    int lasting[ERRORS_MAX], passing[ERRORS_MAX];
} errors[] = {
#define L(...)                                                                                                 \
    {                                                                                                          \
        __VA_ARGS__                                                                                            \
    }
#define P(...)                                                                                                 \
    {                                                                                                          \
        __VA_ARGS__                                                                                            \
    }
#define CALL(name, lasting, passing) {lasting, passing},
    TORTURE_CALLS(CALL)
#undef CALL
};

static struct scene scenes[] = {
    {.words = {"check/torture/talker", "blocking", "stream", "client"}},
    {.words = {"check/torture/talker", "blocking", "stream", "server"}},
    {.words = {"check/torture/talker", "blocking", "seqpacket", "client"}, .spins = true},
    {.words = {"check/torture/talker", "blocking", "seqpacket", "server"}},
    {.words = {"check/torture/talker", "events", "stream", "client"}},
    {.words = {"check/torture/talker", "events", "stream", "server"}},
    {.words = {"check/torture/talker", "events", "seqpacket", "client"}},
    {.words = {"check/torture/talker", "events", "seqpacket", "server"}, .spins = true},
    {.words = {"check/torture/files", "serve"}, .script = true},
    {.words = {"check/torture/files", "put"}, .script = true},
};
#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

static struct series {
    struct attempt next;
    int misses;
    bool busy;
} series[SERIES_MAX];
static int series_count;

static struct {
    unsigned tried, passed;
} table[CALLS_MAX][2]; /* of each call: once, for good */
static unsigned bad_count;

static struct {
    const char *call, *error, *scene, *once;
    unsigned long seconds, seed;
    int jobs;
    bool verbose;
} options = {.jobs = 4};

/* ---- Attempts ------------------------------------------------------------------------------------------- */

static void add_series(struct scene *scene, int call, int error, bool for_good, bool passing)
{
    if (series_count < SERIES_MAX &&
        (options.error == NULL || strcmp(options.error, strerrorname_np(error)) == 0))
        series[series_count++].next = (struct attempt){scene, call, error, for_good, passing, 1};
}

/* Returns whether the library must repeat the call, so that nothing else changes. A refusal concerns one
 * datagram, but it ends a TCP connection. */
static bool passes(int call, int error)
{
    const char *link = getenv("EXS_LINK");

    return error != ECONNREFUSED || link == NULL || strcmp(link, "tcp") != 0 ||
           strcmp(call_name(call), "recvmsg") != 0;
}

static void add_all(struct scene *scene)
{
    for (int call = 0; call_name(call) != NULL; call++) {
        if (scene->counts[call] == 0 || (options.call != NULL && strcmp(options.call, call_name(call)) != 0))
            continue;
        for (const int *error = errors[call].lasting; *error != 0; error++) {
            add_series(scene, call, *error, false, false);
            add_series(scene, call, *error, true, false);
        }
        for (const int *error = errors[call].passing; *error != 0; error++)
            add_series(scene, call, *error, false, passes(call, *error));
    }
}

static uint64_t random_next(void)
{
    static uint64_t state;

    state = state == 0 ? options.seed * 2 + 1 : state;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

/* Returns the next attempt, or NULL if there is none now. */
static struct series *next_attempt(void)
{
    static int last;

    if (options.seconds > 0) {
        struct series *one = &series[random_next() % (uint64_t)series_count];
        static struct series any[JOBS_MAX];
        static int at;

        any[at] = *one;
        any[at].next.number = 1 + random_next() % one->next.scene->counts[one->next.call];
        at = (at + 1) % JOBS_MAX;
        return &any[(at + JOBS_MAX - 1) % JOBS_MAX];
    }
    for (int i = 0; i < series_count; i++) {
        struct series *one = &series[(last + i) % series_count];

        if (one->busy || one->misses >= MISSES)
            continue;
        last = (last + i + 1) % series_count;
        return one;
    }
    return NULL;
}

/* ---- Results --------------------------------------------------------------------------------------------- */

static void tell_bad(const struct run *run, const struct verdict *verdict)
{
    char aim[96], path[64];

    bad_count++;
    run_aim(&run->attempt, aim, sizeof(aim));
    snprintf(path, sizeof(path), "check/torture/bad/%u.log", bad_count);
    run_keep(run, path);
    printf("BAD %s\n    check/torture/torture -o '%s' -s '%s'\n    output: %s\n", verdict->reason, aim,
           run->attempt.scene->name, path);
    fflush(stdout);
}

static void tell_good(const struct run *run, const struct verdict *verdict)
{
    char aim[96];

    run_aim(&run->attempt, aim, sizeof(aim));
    printf("%s, %s: %s\n", run->attempt.scene->name, aim,
           !verdict->fired            ? "there is none"
           : verdict->failure[0] != 0 ? verdict->failure
                                      : "unnoticed");
}

static void ended(struct run *run, struct series *one, int status, const struct rusage *used)
{
    struct verdict verdict = run_judge(run, status, used);
    struct attempt *next = &one->next;

    one->busy = false;
    if (verdict.fired || !verdict.good) {
        table[next->call][next->for_good].tried++;
        table[next->call][next->for_good].passed += verdict.good;
    }
    if (!verdict.good)
        tell_bad(run, &verdict);
    else if (options.verbose)
        tell_good(run, &verdict);
    one->misses = verdict.fired ? 0 : one->misses + 1;
    next->number += next->for_good && verdict.fired ? 1 + next->number / 3 : 1;
}

/* ---- Runs ------------------------------------------------------------------------------------------------ */

static struct run runs[JOBS_MAX];
static struct series *run_of[JOBS_MAX];

/* Waits until a run has ended. Kills those whose time is over. */
static void wait_for_one(void)
{
    const struct timespec second = {.tv_sec = 1};
    struct rusage used;
    sigset_t children;
    int status;
    pid_t pid = wait4(-1, &status, WNOHANG, &used);

    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    if (pid <= 0)
        sigtimedwait(&children, NULL, &second);
    for (int i = 0; i < options.jobs; i++) {
        if (runs[i].pid == 0)
            continue;
        if (runs[i].pid != pid) {
            if (now_ns() > runs[i].deadline)
                run_kill(&runs[i]);
            continue;
        }
        kill(-pid, SIGKILL); /* processes that it has left */
        ended(&runs[i], run_of[i], status, &used);
        close(runs[i].output);
        runs[i].pid = 0;
    }
}

static int free_run(void)
{
    for (int i = 0; i < options.jobs; i++)
        if (runs[i].pid == 0)
            return i;
    return -1;
}

static void try_all(uint64_t end)
{
    bool working = true;

    while (working) {
        int at = free_run();
        struct series *one = at >= 0 && now_ns() < end ? next_attempt() : NULL;

        if (one != NULL) {
            one->busy = true;
            run_of[at] = one;
            run_start(&runs[at], &one->next);
            continue;
        }
        working = false;
        for (int i = 0; i < options.jobs; i++)
            working = working || runs[i].pid != 0;
        if (working)
            wait_for_one();
    }
}

/* Runs the scene without failures, and records its properties. */
static void learn(struct scene *scene)
{
    const struct attempt nothing = {.scene = scene, .call = -1};
    int status;
    struct rusage used;
    struct run run;

    for (int i = 0; i < BASELINES; i++) {
        run_start(&run, &nothing);
        if (wait4(run.pid, &status, 0, &used) != run.pid)
            exit(2);
        struct verdict verdict = run_judge(&run, status, &used);

        if (!verdict.good) {
            run_keep(&run, "check/torture/bad/0.log");
            printf("%s: even when nothing fails: %s (check/torture/bad/0.log)\n", scene->name, verdict.reason);
            exit(1);
        }
        close(run.output);
    }
}

/* ---- The table ------------------------------------------------------------------------------------------- */

static int print_table(void)
{
    unsigned tried = 0, passed = 0;

    printf("%-20s %24s %24s\n%-20s %8s%8s%8s %8s%8s%8s\n", "", "once", "for good", "call", "tried", "passed",
           "bad", "tried", "passed", "bad");
    for (int call = 0; call_name(call) != NULL; call++) {
        if (table[call][0].tried + table[call][1].tried == 0)
            continue;
        printf("%-20s", call_name(call));
        for (int i = 0; i < 2; i++) {
            printf(" %8u%8u%8u", table[call][i].tried, table[call][i].passed,
                   table[call][i].tried - table[call][i].passed);
            tried += table[call][i].tried;
            passed += table[call][i].passed;
        }
        printf("\n");
    }
    printf("%u tried, %u passed, %u bad\n", tried, passed, tried - passed);
    return tried > 0 && tried == passed ? 0 : 1;
}

static void read_options(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "c:e:s:t:r:j:o:v")) != -1) {
        unsigned long number = strtoul(optarg != NULL ? optarg : "0", NULL, 10);

        if (option == 'c')
            options.call = optarg;
        else if (option == 'v')
            options.verbose = true;
        else if (option == 'e')
            options.error = optarg;
        else if (option == 'o')
            options.once = optarg;
        else if (option == 's')
            options.scene = optarg;
        else if (option == 't')
            options.seconds = number;
        else if (option == 'r')
            options.seed = number;
        else if (option == 'j' && number > 0 && number <= JOBS_MAX)
            options.jobs = (int)number;
        else
            exit(2);
    }
    if (options.seconds > 0 && options.seed == 0)
        options.seed = (unsigned long)time(NULL);
}

/* Sets the scenes' names and the scripts' paths. */
static void name_scenes(void)
{
    static char script[400];
    const char *tree = getenv("EXS_SRCDIR");

    snprintf(script, sizeof(script), "%s/check/torture/files", tree != NULL ? tree : "..");
    for (size_t i = 0; i < SCENES; i++) {
        struct scene *scene = &scenes[i];
        int at = 0;

        if (scene->script)
            scene->words[0] = script;
        for (int word = 1; scene->words[word] != NULL; word++)
            at += snprintf(scene->name + at, sizeof(scene->name) - (size_t)at, "%s%s", at > 0 ? " " : "",
                           scene->words[word]);
    }
}

static int try_one(struct scene *scene)
{
    struct attempt attempt = {.scene = scene};
    struct rusage used;
    struct run run;
    int status;

    if (!run_aim_parse(&attempt, options.once))
        return 2;
    learn(scene);
    run_start(&run, &attempt);
    if (wait4(run.pid, &status, 0, &used) != run.pid)
        return 2;
    kill(-run.pid, SIGKILL);
    run_keep(&run, "/dev/stdout");
    struct verdict verdict = run_judge(&run, status, &used);

    printf("%s\n", verdict.good ? "good" : verdict.reason);
    return verdict.good ? 0 : 1;
}

static int try_scenes(uint64_t begin)
{
    for (size_t i = 0; i < SCENES; i++) {
        if (options.scene != NULL && strstr(scenes[i].name, options.scene) == NULL)
            continue;
        if (options.once != NULL)
            return try_one(&scenes[i]);
        learn(&scenes[i]);
        add_all(&scenes[i]);
    }
    if (options.seconds > 0)
        printf("seed %lu\n", options.seed);
    if (series_count == 0)
        return 2;
    try_all(options.seconds > 0 ? begin + options.seconds * NS_PER_S : NEVER_NS);
    return print_table();
}

int main(int argc, char **argv)
{
    uint64_t begin = now_ns();
    sigset_t children;

    read_options(argc, argv);
    if (!run_prepare()) {
        fprintf(stderr, "torture: run it by make torture, or in the build folder after that\n");
        return 2;
    }
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    setenv("EXS_DEVICE", "soft", 1);
    setenv("EXS_SRCDIR", "..", 0);
    setenv("EXS_BUILDDIR", ".", 0);
    mkdir("check/torture/bad", 0777);
    name_scenes();
    int status = try_scenes(begin);

    printf("%.0f s\n", (double)(now_ns() - begin) / (double)NS_PER_S);
    return status;
}
