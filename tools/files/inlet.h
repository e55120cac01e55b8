/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inlet.h - the connections of exs-serve: receives into registered memory, replies, files that are given, and
 * how slow a client may be.
 *
 * All of it runs in one loop, on one event queue. An inlet lives from inlet_open to its close event.
 */
#ifndef FILES_INLET_H
#define FILES_INLET_H

#include <exs_ev.h>
#include <sys/queue.h>

#include "block.h"
#include "hosts.h"
#include "store.h"
#include "tools/common/lines.h"

struct inlet;

/* What all connections share; owned by main. */
struct inlets {
    struct ev_loop *loop;
    exs_qhandle_t queue;
    struct store store;
    struct lines lines; /* of standard error */
    struct lines given; /* of standard output, of files that were given */
    int patience;       /* seconds without a byte before a connection is closed */
    uint64_t rate;      /* bytes a second that each must bring or take, on an average over so many seconds */
    int most;           /* connections that there may be */
    int of_one;         /* of these, that one address may have */
    bool ending;        /* no other file is begun */
    int count;          /* of connections, those that are closing included */
    LIST_HEAD(, inlet) list;
    struct blocks blocks;
    struct hosts hosts;                   /* what they have had read */
    STAILQ_HEAD(, inlet) readers;         /* who waits until what it has from an earlier attempt was read */
    void (*again)(struct inlets *inlets); /* inlets_read is to be called soon */
    void (*gone)(struct inlets *inlets);  /* a connection is no more */
};

/* Before the first connection. */
void inlets_begin(struct inlets *inlets);
/* Takes the socket over; on failure it is closed. */
void inlet_open(struct inlets *inlets, int sock, const struct sockaddr_storage *peer);
/* An event whose ahandle is an inlet. */
void inlet_event(struct inlet *inlet, const exs_event_t *event);
/* Reads a piece for one of the readers, the next time for the next. */
void inlets_read(struct inlets *inlets);
/* Once a second. */
void inlets_second(struct inlets *inlets);
/* A line on standard error, if there aren't too many. */
void inlets_say(struct inlets *inlets, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Files that are under way are the last ones; returns of how many connections. The others are closed. */
int inlets_finish(struct inlets *inlets);
/* At once: unfinished files are dropped. */
void inlets_close_all(struct inlets *inlets);
/* When count is 0. */
void inlets_free(struct inlets *inlets);

#endif
