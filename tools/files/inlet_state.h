/* SPDX-License-Identifier: BSD-2-Clause */
/* inlet_state.h - a connection of exs-serve from within: inlet.c is one of them, inlets.c all of them. */
#ifndef FILES_INLET_STATE_H
#define FILES_INLET_STATE_H

#include <sys/socket.h>

#include "inlet.h"
#include "intake.h"

/* Owned by itself, from inlet_open to its close event; used by the loop's thread only. */
struct inlet {
    LIST_ENTRY(inlet) link;
    STAILQ_ENTRY(inlet) reader_link;
    struct inlets *inlets;
    struct block *block;
    struct intake intake;
    struct giving *giving; /* what it gets; NULL: nothing */
    int flying;            /* vectors of that which are under way */
    int sock;
    bool closing, replying, ended, refused; /* replying: or giving; refused: one too many of its address */
    bool is_reader;
    int silent, seconds;               /* since the last byte came or went; since `brought` was 0 */
    uint64_t brought;                  /* bytes, or taken */
    unsigned filled, consumed;         /* slots, counted for ever; slot n is at n % BLOCK_SLOTS */
    size_t lengths[BLOCK_SLOTS], used; /* bytes arrived in each, and consumed of the oldest */
    struct sockaddr_storage peer;
    char device[32];
};

/* Receives are posted; who is refused is told so. False and errno. */
bool inlet_begin(struct inlet *inlet);
void inlet_second(struct inlet *inlet);
/* Its next vectors are started. -1 and errno. */
int inlet_give(struct inlet *inlet);
/* All connections are taken, and the address of this one has more than its share of them. */
bool inlets_are_crowded_by(const struct inlet *inlet);
/* At once. Its close event is its end. */
void inlet_close(struct inlet *inlet);
/* The same, and says so. what: a few words. */
void inlet_broken(struct inlet *inlet, const char *what);
/* The server is ending, and this one is between files: it begins no other, though one may have arrived. */
bool inlet_is_over(const struct inlet *inlet);

#endif
