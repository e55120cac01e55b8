/* SPDX-License-Identifier: BSD-2-Clause */
/* inlet_state.h - a connection of exs-serve, for its implementation: inlet.c handles one, inlets.c all of them. */
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
    struct giving *giving; /* what it is being sent; NULL: nothing */
    int flying;            /* vectors of `giving` that are in flight */
    int sock;
    bool closing, replying, ended, refused; /* replying: or sending; refused: too many of its host */
    bool is_reader;
    int silent, seconds;               /* since the last byte was received or sent; since `brought` was 0 */
    uint64_t brought;                  /* bytes sent or received by the client */
    unsigned filled, consumed;         /* slots, counted without wrapping; slot n is at n % BLOCK_SLOTS */
    size_t lengths[BLOCK_SLOTS], used; /* bytes received in each; consumed of the oldest */
    struct sockaddr_storage peer;
    char device[32];
};

/* Posts the receives; sends the reason if the connection is refused. False and errno. */
bool inlet_begin(struct inlet *inlet);
void inlet_second(struct inlet *inlet);
/* Starts its next vectors. -1 and errno. */
int inlet_give(struct inlet *inlet);
/* Whether all connections are in use, and this one's host has more than its share. */
bool inlets_are_crowded_by(const struct inlet *inlet);
/* Closes it immediately. Its close event frees it. */
void inlet_close(struct inlet *inlet);
/* Like inlet_close(), and prints why. what: a few words. */
void inlet_broken(struct inlet *inlet, const char *what);
/* Whether the server is ending and this one is between files: it starts no other, even if one has arrived. */
bool inlet_is_over(const struct inlet *inlet);

#endif
