/* SPDX-License-Identifier: BSD-2-Clause */
/* wall.h - a bench in real time: the tester's sockets, and one thread that takes in what comes. */
#ifndef IBTA_WALL_H
#define IBTA_WALL_H

#include "bench.h"

/* Owned by whoever opened it, until its bench is closed. */
struct wall {
    struct bench bench; /* first */
    int out;            /* a UDP socket: the tester's port */
    int in;             /* where the device's packets are read: the same, or a raw socket */
    bool headers;       /* `in` shows IP and UDP headers */
    int quit;           /* eventfd */
    pthread_t thread;
    bool running;
    struct ibv_ah_attr way; /* from the device to the tester */
    void (*close_device)(struct ibv_context *context);
};

/* A UDP socket that sends as the ICRC supposes: unconnected and never in fragments, its packets have
 * identification 0. -1 and errno. */
int wall_socket(void);
/* Sockets, device, context, way and to_dut are there: fills in the rest and starts the thread. */
struct bench *wall_start(struct wall *wall);

#endif
