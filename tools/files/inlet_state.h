/* SPDX-License-Identifier: BSD-2-Clause */
/* inlet_state.h - a connection of exs-serve, private to its implementation: inlet.c handles a single connection,
 * inlets.c the set of all connections. */
#ifndef FILES_INLET_STATE_H
#define FILES_INLET_STATE_H

#include <sys/socket.h>

#include "inlet.h"
#include "intake.h"
#include "outbox.h"

/* Allocated by inlet_open(), freed by its close event; used only by the loop's thread. */
struct inlet {
    LIST_ENTRY(inlet) link;
    STAILQ_ENTRY(inlet) reader_link;
    struct inlets *inlets;
    struct block *block;
    struct intake intake;
    struct outbox *outbox; /* replies, and small files */
    struct giving *giving; /* the file or list that is being sent, or NULL */
    int flying;            /* vectors of `giving` that are in flight */
    int sock;
    /* replying: a reply or a file is being sent; ended: the client has shut down its direction; refused: the client's
     * host has too many connections */
    bool closing, replying, ended, refused;
    bool is_reader;
    int silent, seconds;               /* seconds since the last traffic; since `brought` was reset to 0 */
    uint64_t brought;                  /* bytes that the client has sent or received */
    unsigned filled, consumed;         /* slots, counted without wrapping; slot n is at n % BLOCK_SLOTS */
    size_t lengths[BLOCK_SLOTS], used; /* bytes received in each slot; bytes consumed of the oldest slot */
    struct sockaddr_storage peer;
    char device[32];
};

/* Posts the receives, or sends the reason if the connection is refused. Returns false and errno on failure. */
bool inlet_begin(struct inlet *inlet);
/* Called once a second: enforces the time limits. */
void inlet_second(struct inlet *inlet);
/* Sends the next vectors of `giving`. Returns -1 and errno on failure. */
int inlet_give(struct inlet *inlet);
/* Whether all connections are in use and the client's host has more than its share of them. */
bool inlets_are_crowded_by(const struct inlet *inlet);
/* Closes the connection immediately. The close event frees the inlet. */
void inlet_close(struct inlet *inlet);
/* Like inlet_close(), and prints the reason: `what`, a few words. */
void inlet_broken(struct inlet *inlet, const char *what);
/* Like inlet_broken(), with the text of an errno, or with the name of the file that became shorter. */
void inlet_failed(struct inlet *inlet, int error);
/* Whether the server is shutting down and the client is between two files: received bytes of a further file are
 * ignored. */
bool inlet_is_over(const struct inlet *inlet);

#endif
