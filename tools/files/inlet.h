/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inlet.h - the connections ("inlets") of exs-serve: receives into registered memory, replies, sending of files, and
 * limits on slow clients.
 *
 * All code runs in the thread of one event loop, with one event queue. An inlet lives from inlet_open() to its close
 * event.
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

/* State shared by all connections; owned by main. */
struct inlets {
    struct ev_loop *loop;
    exs_qhandle_t queue;
    struct store store;
    struct lines lines; /* rate limit for lines on standard error */
    struct lines given; /* rate limit for lines on standard output about files that were sent */
    int patience;       /* timeout in seconds of a connection without traffic */
    uint64_t rate;      /* minimum bytes a second of each connection, averaged over `patience` seconds */
    int most;           /* maximum connections */
    int of_one;         /* maximum connections of one host */
    bool ending;        /* the server is shutting down: no further file is started */
    int count;          /* connections, including those that are closing */
    LIST_HEAD(, inlet) list;
    struct blocks blocks;
    struct hosts hosts;                   /* bytes read from the disk for each host */
    STAILQ_HEAD(, inlet) readers;         /* connections that resume: giving_read() must run first */
    void (*again)(struct inlets *inlets); /* callback: the owner must call inlets_read() soon */
    void (*gone)(struct inlets *inlets);  /* callback: a connection was freed */
};

/* To be called before the first connection. */
void inlets_begin(struct inlets *inlets);
/* Takes ownership of the socket; closes it on failure. */
void inlet_open(struct inlets *inlets, int sock, const struct sockaddr_storage *peer);
/* Handles an event whose ahandle is an inlet. */
void inlet_event(struct inlet *inlet, const exs_event_t *event);
/* Reads one piece for the first of the readers, and moves it to the end of the list. */
void inlets_read(struct inlets *inlets);
/* To be called once a second. */
void inlets_second(struct inlets *inlets);
/* Prints a line on standard error, unless the rate limit is exceeded. */
void inlets_say(struct inlets *inlets, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Starts the shutdown: closes idle connections, and lets the others finish their file. Returns the number of the
 * latter. */
int inlets_finish(struct inlets *inlets);
/* Closes all connections immediately, and removes unfinished files. */
void inlets_close_all(struct inlets *inlets);
/* To be called when count is 0. */
void inlets_free(struct inlets *inlets);

#endif
