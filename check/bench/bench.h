/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench.h - what exs_bench and tcp_bench share: the work, and how its result is printed.
 *
 *   PROGRAM serve stream|file|ping|calls SIZE TOTAL             prints its port, serves one connection
 *   PROGRAM send stream|file|ping|calls SIZE TOTAL PORT [PATH]  prints one number
 *
 * stream: TOTAL bytes in messages of SIZE, and one byte back when all have arrived: GB/s.
 * file:   the first TOTAL bytes of PATH by sendfile, received in pieces of SIZE; one byte back: GB/s.
 * ping:   TOTAL round trips of SIZE bytes: microseconds each, there and back.
 * calls:  the same without a loop, by calls that block.
 */
#ifndef BENCH_H
#define BENCH_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bench_mode { BENCH_STREAM, BENCH_FILE, BENCH_PING, BENCH_CALLS };

struct bench {
    bool serve;
    enum bench_mode mode;
    size_t size;    /* bytes */
    uint64_t total; /* bytes or round trips */
    const char *path;
    struct sockaddr_in address; /* EXS_TEST_ADDR, or loopback */
    double started;             /* seconds, of the monotonic clock */
};

/* Ends the program on a wrong command line. */
void bench_parse(struct bench *bench, int argc, char **argv);
void bench_start(struct bench *bench);
void bench_print(const struct bench *bench);
_Noreturn void bench_fail(const char *what);

#endif
