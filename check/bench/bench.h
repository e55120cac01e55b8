/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench.h - common parts of exs_bench, tcp_bench, verbs_bench and connect_bench: the work, and printing the result.
 *
 *   PROGRAM serve WORK SIZE TOTAL             prints its port, serves, and prints its CPU seconds
 *   PROGRAM send WORK SIZE TOTAL PORT [PATH]  prints its result, CPU seconds, and percentiles of round trips
 *
 * stream:  TOTAL bytes in messages of SIZE, and one byte back when all have arrived: GB/s.
 * file:    the first TOTAL bytes of PATH by sendfile, received in pieces of SIZE; one byte back: GB/s.
 * ping:    TOTAL round trips of SIZE bytes: microseconds of each round trip, and their 50th, 99th and 99.9th
 *          percentile. ping/N: over N connections in turn.
 * calls:   like ping, without a loop, by blocking calls.
 * connect: TOTAL connections without data: microseconds each. connect/N: N connects are pending at a time.
 *
 * The result does not include the warm-up: the first tenth of the bytes; or 10,000 round trips, half of them if there
 * are fewer than 20,000, two for each connection if there are several. CPU seconds are user and system time, including
 * the warm-up, after the (last) connection was established.
 */
#ifndef BENCH_H
#define BENCH_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bench_mode { BENCH_STREAM, BENCH_FILE, BENCH_PING, BENCH_CALLS, BENCH_CONNECT };

struct bench {
    bool serve;
    enum bench_mode mode;
    size_t connections; /* more than one: BENCH_PING, BENCH_CONNECT */
    size_t size;        /* bytes */
    size_t window;      /* outstanding sends or receives of EXS: 2 to 8, see window() in bench.c */
    uint64_t total;     /* bytes or round trips */
    const char *path;
    struct sockaddr_in address; /* EXS_TEST_ADDR, or loopback */
    uint64_t warm;              /* length of the warm-up, in units of total */
    uint64_t before;            /* part of the total that was done when the clock started */
    double started;             /* seconds of the monotonic clock; 0: not started */
    double trip;                /* end of the latest round trip, seconds */
    double processor;           /* CPU seconds used before the start */
    float *trips;               /* microseconds of each measured round trip; NULL: no round trips */
};

/* Parses the command line. Exits if it is invalid. */
void bench_parse(struct bench *bench, int argc, char **argv);
/* Marks the start of the work. */
void bench_start(struct bench *bench);
/* Records progress. done: bytes posted, or round trips completed, in all. */
void bench_done(struct bench *bench, uint64_t done);
void bench_print(const struct bench *bench);
_Noreturn void bench_fail(const char *what);

#endif
