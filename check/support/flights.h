/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flights.h - the packets in the virtual network, in the order in which they arrive.
 *
 * Delayed packets wait in a separate list until a later packet of the same direction overtakes them.
 */
#ifndef CHECK_FLIGHTS_H
#define CHECK_FLIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One packet. Owned by the struct flights that contains it; flights_take() passes the ownership to its caller, which
 * frees it. */
struct flight {
    uint64_t time, order; /* arrival time, and order among packets of the same time */
    unsigned from, to;
    bool corrupt;
    struct flight *next; /* the next delayed packet */
    size_t length;
    uint8_t *packet; /* ends with the allocation, so that a sanitizer reports a read behind it */
    uint8_t room[];
};

/* Owned by the network, and guarded by its lock. All zero: empty. */
struct flights {
    struct flight **heap;
    size_t count, room;
    struct flight *held;
    uint64_t order;
};

/* Copies the packet, which arrives at `time`: adds it to the queue (flights_add), or delays it until then at the latest
 * (flights_hold). */
struct flight *flights_add(struct flights *flights, uint64_t time, const void *packet, size_t length,
                           unsigned from, unsigned to);
void flights_hold(struct flights *flights, uint64_t time, const void *packet, size_t length, unsigned from,
                  unsigned to);
/* A packet of this direction has overtaken the delayed ones: they arrive at `time`, the last one first. */
void flights_release(struct flights *flights, uint64_t time, unsigned from, unsigned to);
/* Returns when the next packet arrives, or UINT64_MAX if there is none. */
uint64_t flights_next(const struct flights *flights);
/* Removes and returns the next packet that has arrived by `now`, if its destination is `to` (negative: any); or
 * NULL. */
struct flight *flights_take(struct flights *flights, uint64_t now, int to);
/* Frees all packets, and the queue. */
void flights_drop(struct flights *flights);

void *flights_must(void *memory); /* returns its argument, and aborts if that is NULL */

#endif
