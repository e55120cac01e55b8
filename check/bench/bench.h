/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench.h - what exs_bench, tcp_bench, verbs_bench and connect_bench share: the work, and how its result is printed.
 *
 *   PROGRAM serve WORK SIZE TOTAL             prints its port, serves, and prints its processor seconds
 *   PROGRAM send WORK SIZE TOTAL PORT [PATH]  prints its figure, processor seconds, and what trips tell
 *
 * stream:  TOTAL bytes in messages of SIZE, and one byte back when all have arrived: GB/s.
 * file:    the first TOTAL bytes of PATH by sendfile, received in pieces of SIZE; one byte back: GB/s.
 * ping:    TOTAL round trips of SIZE bytes: microseconds each, there and back, and their 50th, 99th and 99.9th
 *          percentile. ping/N: over N connections in turn.
 * calls:   the same without a loop, by calls that block.
 * connect: TOTAL connections, and nothing is sent: microseconds each. connect/N: N under way at once.
 *
 * The first tenth of the bytes, or of the round trips (1,000 at most; two a connection where there are many), is
 * not in the figure; processor seconds are user's and system's of the whole, from the (last) connection on.
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
    size_t window;      /* EXS's sends, or receives, under way: eight that stay in a cache, else two */
    uint64_t total;     /* bytes or round trips */
    const char *path;
    struct sockaddr_in address; /* EXS_TEST_ADDR, or loopback */
    uint64_t warm;              /* so much of the total comes first, */
    uint64_t before;            /* and so much of it came before the clock started */
    double started;             /* seconds, of the monotonic clock; 0: not yet */
    double trip;                /* when the latest round trip ended */
    double processor;           /* seconds that were used before */
    float *trips;               /* microseconds, each of those that count; NULL: bytes are sent */
};

/* Ends the program on a wrong command line. */
void bench_parse(struct bench *bench, int argc, char **argv);
/* The work begins. */
void bench_start(struct bench *bench);
/* So much of it is done: bytes posted, or round trips that are over. */
void bench_done(struct bench *bench, uint64_t done);
void bench_print(const struct bench *bench);
_Noreturn void bench_fail(const char *what);

#endif
