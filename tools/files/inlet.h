/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inlet.h - the connections of exs-serve: receives into registered memory, replies, idle time.
 *
 * All of it runs in one loop, on one event queue. An inlet lives from inlet_open to its close event.
 */
#ifndef FILES_INLET_H
#define FILES_INLET_H

#include <exs_ev.h>
#include <sys/queue.h>

#include "store.h"

struct inlet;

/* Receive buffers of one connection, registered once and used again by the next. */
struct inlet_block {
    SLIST_ENTRY(inlet_block) link;
    unsigned char *memory;
    exs_mhandle_t region;
};

/* What all connections share; owned by main. */
struct inlets {
    struct ev_loop *loop;
    exs_qhandle_t queue;
    struct store store;
    double patience; /* seconds without a byte before a connection is closed */
    int count;       /* of connections, those that are closing included */
    LIST_HEAD(, inlet) list;
    SLIST_HEAD(, inlet_block) blocks;    /* free ones */
    void (*gone)(struct inlets *inlets); /* a connection is no more */
};

/* Takes the socket over; on failure it is closed. */
void inlet_open(struct inlets *inlets, int sock, const struct sockaddr_storage *peer);
/* An event whose ahandle is an inlet. */
void inlet_event(struct inlet *inlet, const exs_event_t *event);
void inlets_close_all(struct inlets *inlets);
/* When count is 0. */
void inlets_free(struct inlets *inlets);

#endif
