/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flights.h - the packets that are on their way through the virtual network, in the order in which they arrive.
 *
 * Those that are held back wait beside the queue, until a later packet of their direction overtakes them.
 */
#ifndef CHECK_FLIGHTS_H
#define CHECK_FLIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One packet. Owned by the struct flights it is in; whoever takes it out frees it. */
struct flight {
    uint64_t time, order; /* when it arrives, and among those of one time */
    unsigned from, to;
    bool corrupt;
    struct flight *next; /* of those held back */
    size_t length;
    uint8_t *packet; /* ends with the allocation: a sanitizer sees the first byte read behind it */
    uint8_t room[];
};

/* Owned by the network, whose lock guards it. All zero is an empty one. */
struct flights {
    struct flight **heap;
    size_t count, room;
    struct flight *held;
    uint64_t order;
};

/* A copy of the packet that arrives at `time`: put into the queue, or held back until then at the latest. */
struct flight *flights_add(struct flights *flights, uint64_t time, const void *packet, size_t length,
                           unsigned from, unsigned to);
void flights_hold(struct flights *flights, uint64_t time, const void *packet, size_t length, unsigned from,
                  unsigned to);
/* A packet of this direction overtook those that were held back: they arrive at `time`, the last one held
 * first. */
void flights_release(struct flights *flights, uint64_t time, unsigned from, unsigned to);
/* When the next one arrives, UINT64_MAX when none is on its way. */
uint64_t flights_next(const struct flights *flights);
/* Takes out the next one that has arrived by `now`, if it goes to `to` (negative: anywhere); or NULL. */
struct flight *flights_take(struct flights *flights, uint64_t now, int to);
/* Frees all that are on their way, and what held them. */
void flights_drop(struct flights *flights);

void *flights_must(void *memory); /* aborts where there is none */

#endif
