/* SPDX-License-Identifier: BSD-2-Clause */
/* bench.c - command line, clock and result of the benchmark programs; see bench.h. */
#include "bench.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define WARM_TRIPS 10000 /* maximum round trips that are not measured; the default of ucx_perftest */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns the loopback address, or EXS_TEST_ADDR: rxe, for example, has no address on lo. */
static struct in_addr test_address(void)
{
    const char *text = getenv("EXS_TEST_ADDR");
    struct in_addr address = {.s_addr = htonl(INADDR_LOOPBACK)};

    if (text != NULL && inet_pton(AF_INET, text, &address) != 1) {
        fprintf(stderr, "EXS_TEST_ADDR=%s is no IPv4 address\n", text);
        exit(2);
    }
    return address;
}

static double processor_seconds(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static bool counts_trips(const struct bench *bench)
{
    return bench->mode == BENCH_PING || bench->mode == BENCH_CALLS;
}

/* Raises the limit on descriptors for this number of connections; a privileged process may exceed the hard limit. */
static void allow_descriptors(size_t connections)
{
    struct rlimit limit, more = {.rlim_cur = 8 * connections + 100, .rlim_max = 8 * connections + 100};

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    if (more.rlim_max <= limit.rlim_max || setrlimit(RLIMIT_NOFILE, &more) == -1)
        setrlimit(RLIMIT_NOFILE, &limit);
}

static bool parse_work(struct bench *bench, const char *work)
{
    static const char *const modes[] = {"stream", "file", "ping", "calls", "connect"};
    size_t length = strcspn(work, "/");

    for (int mode = BENCH_STREAM; mode <= BENCH_CONNECT; mode++) {
        if (strlen(modes[mode]) == length && strncmp(work, modes[mode], length) == 0) {
            bench->mode = (enum bench_mode)mode;
            bench->connections = work[length] == '/' ? strtoul(work + length + 1, NULL, 10) : 1;
            return bench->connections == 1 ||
                   ((mode == BENCH_PING || mode == BENCH_CONNECT) && bench->connections > 1);
        }
    }
    return false;
}

/* Returns the number of outstanding sends or receives: BENCH_WINDOW; or else from 8 small ones down to 2 large ones,
 * because more do not fit into a CPU's cache, from which the other side reads them. */
static size_t window(size_t size)
{
    const size_t most = 8, least = 2, bytes = 2 << 20;
    const char *text = getenv("BENCH_WINDOW");

    if (text != NULL && strtoul(text, NULL, 10) > 0)
        return strtoul(text, NULL, 10);
    if (size * most <= bytes)
        return most;
    return size * least < bytes ? bytes / size : least;
}

void bench_parse(struct bench *bench, int argc, char **argv)
{
    memset(bench, 0, sizeof(*bench));
    bool is_good = argc >= 5 && parse_work(bench, argv[2]);

    bench->serve = argc == 5 && strcmp(argv[1], "serve") == 0;
    if (!is_good || (!bench->serve && argc != (bench->mode == BENCH_FILE ? 7 : 6))) {
        fprintf(stderr, "usage: serve WORK SIZE TOTAL | send WORK SIZE TOTAL PORT [PATH]; "
                        "WORK is stream, file, ping, ping/N, calls, connect or connect/N\n");
        exit(2);
    }
    bench->size = strtoull(argv[3], NULL, 10);
    bench->window = window(bench->size);
    bench->total = strtoull(argv[4], NULL, 10);
    bench->path = argc == 7 ? argv[6] : NULL;
    bench->address.sin_family = AF_INET;
    bench->address.sin_addr = test_address();
    bench->address.sin_port = htons(bench->serve ? 0 : (uint16_t)strtoul(argv[5], NULL, 10));
    bench->warm = bench->total / 10;
    if (counts_trips(bench)) {
        bench->warm = bench->total / 2 > WARM_TRIPS ? WARM_TRIPS : bench->total / 2;
        if (bench->connections > 1 && bench->total > 4 * bench->connections)
            bench->warm = 2 * bench->connections; /* each connection was used, and has its memory */
        bench->trips = calloc(bench->total + 1, sizeof(*bench->trips));
        if (bench->trips == NULL)
            bench_fail("memory for the round trips");
    }
    if (bench->mode == BENCH_FILE || (bench->mode == BENCH_STREAM && bench->warm < bench->window * bench->size))
        bench->warm = 0; /* one call sends all; or the warm-up would be shorter than the window */
    if (bench->connections > 1)
        allow_descriptors(bench->connections);
}

void bench_start(struct bench *bench)
{
    bench->processor = processor_seconds();
    if (bench->warm == 0)
        bench->started = bench->trip = now();
}

void bench_done(struct bench *bench, uint64_t done)
{
    if (bench->started == 0) {
        if (done < bench->warm)
            return;
        bench->before = done;
        bench->started = bench->trip = now();
    } else if (bench->trips != NULL && done > bench->before) {
        double over = now();

        bench->trips[done - bench->before - 1] = (float)((over - bench->trip) * 1e6);
        bench->trip = over;
    }
}

static int by_length(const void *a, const void *b)
{
    float one = *(const float *)a, other = *(const float *)b;

    return (one > other) - (one < other);
}

/* Returns a percentile of the round trips, which must be sorted. */
static double percentile(const struct bench *bench, double part)
{
    double count = (double)(bench->total - bench->before);

    return (double)bench->trips[(size_t)(part * (count - 1))];
}

void bench_print(const struct bench *bench)
{
    /* The time ends with the last round trip, not with the loop, which may busy-poll for a while. */
    double seconds = (bench->trips != NULL ? bench->trip : now()) - bench->started;
    double processor = processor_seconds() - bench->processor;
    uint64_t counted = bench->total - bench->before;

    if (bench->serve) {
        printf("%.6f\n", processor);
    } else if (bench->mode == BENCH_CONNECT) {
        printf("%.3f %.6f\n", seconds * 1e6 / (double)counted, processor);
    } else if (bench->trips == NULL) {
        printf("%.6g %.6f\n", (double)counted / 1e9 / seconds, processor);
    } else {
        qsort(bench->trips, counted, sizeof(*bench->trips), by_length);
        printf("%.3f %.6f %.2f %.2f %.2f\n", seconds * 1e6 / (double)counted, processor, percentile(bench, 0.5),
               percentile(bench, 0.99), percentile(bench, 0.999));
    }
}

void bench_fail(const char *what)
{
    perror(what);
    exit(1);
}
