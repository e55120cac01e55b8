/* SPDX-License-Identifier: BSD-2-Clause */
/* Command line, clock and result of the benchmark programs. */
#include "bench.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Loopback, or the address that the tests use: rxe, for one, has none on lo. */
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

void bench_parse(struct bench *bench, int argc, char **argv)
{
    static const char *const modes[] = {"stream", "file", "ping", "calls"};
    int mode = 0;

    memset(bench, 0, sizeof(*bench));
    while (argc >= 5 && mode < 4 && strcmp(argv[2], modes[mode]) != 0)
        mode++;
    bench->serve = argc == 5 && strcmp(argv[1], "serve") == 0;
    if (argc < 5 || mode == 4 || (!bench->serve && argc != (mode == BENCH_FILE ? 7 : 6))) {
        fprintf(stderr, "usage: serve stream|file|ping|calls SIZE TOTAL | send stream|file|ping|calls SIZE "
                        "TOTAL PORT [PATH]\n");
        exit(2);
    }
    bench->mode = (enum bench_mode)mode;
    bench->size = strtoull(argv[3], NULL, 10);
    bench->total = strtoull(argv[4], NULL, 10);
    bench->path = argc == 7 ? argv[6] : NULL;
    bench->address.sin_family = AF_INET;
    bench->address.sin_addr = test_address();
    bench->address.sin_port = htons(bench->serve ? 0 : (uint16_t)strtoul(argv[5], NULL, 10));
}

void bench_start(struct bench *bench)
{
    bench->started = now();
}

void bench_print(const struct bench *bench)
{
    double seconds = now() - bench->started;

    if (bench->mode == BENCH_PING || bench->mode == BENCH_CALLS)
        printf("%.3f\n", seconds * 1e6 / (double)bench->total);
    else
        printf("%.4f\n", (double)bench->total / 1e9 / seconds);
}

void bench_fail(const char *what)
{
    perror(what);
    exit(1);
}
