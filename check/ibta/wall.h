/* SPDX-License-Identifier: BSD-2-Clause */
/* wall.h - a bench in real time: the tester's sockets, and a thread that receives packets and completions. */
#ifndef IBTA_WALL_H
#define IBTA_WALL_H

#include "bench.h"

/* Allocated by the function that opens the bench; freed when the bench is closed. */
struct wall {
    struct bench bench; /* must be the first member */
    int out;            /* UDP socket bound to the tester's port, for sending */
    int in;             /* socket for receiving: the same, or a raw socket */
    bool headers;       /* `in` receives IP and UDP headers, too */
    int quit;           /* eventfd that ends the thread */
    pthread_t thread;
    bool running;
    struct ibv_ah_attr way; /* address of the tester for the device */
    void (*close_device)(struct ibv_context *context);
};

/* Creates a UDP socket whose packets have the headers that the ICRC expects: it is unconnected and never fragments, so
 * their identification is 0. Returns -1 and errno on failure. */
int wall_socket(void);
/* The caller has set the sockets, device, context, way and to_dut. Sets the rest and starts the thread. */
struct bench *wall_start(struct wall *wall);

#endif
