/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scale.h - how much of everything there can be, and what it costs then: a table.
 *
 * Connections are between pairs of processes, a server with a loop in each of some threads, and a client; each
 * answers the process that measures over a socket. A round trip is so many bytes there and the same back, on a
 * connection that is chosen at random. Queue pairs without connections are in engine.c, on the virtual network.
 */
#ifndef CHECK_SCALE_H
#define CHECK_SCALE_H

#include "check/support/support.h"

#define LOOPS_MAX 16
#define WINDOW 32         /* connects, or round trips, at once */
#define SMALL 64          /* bytes of a round trip that is counted, */
#define LARGE (64 * 1024) /* and of those that every connection has had when it is called busy */

enum wish { CONNECT, SMALL_TRIPS, LARGE_TRIPS, CLOSE, CHURN, LISTEN, MEASURE, END };

struct order { /* to a client; a server has MEASURE and END only */
    enum wish wish;
    unsigned long count; /* connections, round trips, listeners; of LARGE_TRIPS one for each connection; of
                            CHURN seconds */
    unsigned window;     /* round trips at once */
    struct sockaddr_in to;
};

struct measure {
    unsigned long done; /* of what was ordered; less: `error` says why */
    int error;
    double seconds, cpu_s; /* the order took; of this process, ever */
    long resident_kib;
    int descriptors, threads;
};

struct process {
    pid_t pid;
    int fd;
    struct sockaddr_in address; /* of a server */
};

/* A server with so many loops, at this address; a client. */
struct process server_start(int loops, uint32_t address);
struct process client_start(void);
void order_give(const struct process *process, struct order order);
struct measure order_done(const struct process *process); /* waits */
struct measure order(const struct process *process, struct order order);
void process_end(struct process *process);

struct measure measure_now(void); /* of this process */
_Noreturn void give_up(const char *what);

#endif
