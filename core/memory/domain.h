/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * domain.h - the protection domain of one connection, and the memory that is registered in it.
 *
 * A key gives access only to queue pairs of the domain that the memory was registered in. Each connection has its own
 * domain, so no other peer can use a key that was given to one peer, even if it knows or guesses the key: any device
 * enforces that. Memory windows of type 2 would let one registration serve many queue pairs. But not every device has
 * them, each costs a work request before it may be advertised, and the window of the ring buffer would have to be
 * bound before the peer learns its address, when the queue pair can't send yet.
 *
 * The cost: memory that the device reads or writes for a connection must be registered in its domain, so a user's
 * region is registered once for each connection that uses it, at first use. For the same reason each connection has
 * its own bounce buffers; the first four are in the memory that a connection registers for its own buffers (conn.c).
 *
 * A domain is guarded by the lock of its connection's home queue, except for the map of regions.
 */
#ifndef XS_DOMAIN_H
#define XS_DOMAIN_H

#include <stdint.h>
#include <sys/queue.h>
#include "core/queue/nic.h"

#define BOUNCE_SIZE 8192 /* bytes: a longer unregistered buffer is registered instead of being copied */

/* A bounce buffer: BOUNCE_SIZE bytes of registered memory. */
struct bounce {
    SLIST_ENTRY(bounce) link;
    uint8_t *data;
    struct ibv_mr *mr; /* owned by the connection or by a bounce_chunk */
};

struct bounce_chunk;

struct region; /* the registrations of a user's region in one domain (memory.c) */

/* How a connection uses a user's region. */
enum memory_use {
    MEMORY_LOCAL,      /* sends and one-sided operations: the peer has no access */
    MEMORY_TO_RECEIVE, /* the peer may write to it */
    MEMORY_USES
};

/* Owned by its connection. */
struct domain {
    struct nic *nic;
    struct ibv_pd *pd;
    SLIST_HEAD(, bounce) bounces;      /* free bounce buffers */
    SLIST_HEAD(, bounce_chunk) chunks; /* memory of bounce buffers that the domain has allocated */
    struct region *regions;            /* hash table by struct memory; guarded by the nic's map_lock */
    /* A cache: the region that was used last for each use, and its registration here. `number` is that of struct
     * memory, which may have been freed since; 0: no region yet. */
    struct {
        uint64_t number;
        struct ibv_mr *mr;
    } last[MEMORY_USES];
};

/* Allocates the protection domain. Returns 0, or -1 and errno; the domain need not be closed then. */
int xs_domain_open(struct domain *domain, struct nic *nic);
/* Deregisters all regions and bounce buffers, and frees the protection domain. Called when no queue pair uses it any
 * more, and other modules have deregistered the memory that they registered in it. */
void xs_domain_close(struct domain *domain);

/* Adds a bounce buffer, in memory that the caller owns. */
void xs_bounce_add(struct domain *domain, struct bounce *bounce, uint8_t *data, struct ibv_mr *mr);
/* Takes a bounce buffer; if none is free, registers 32 more. Returns NULL and errno on failure. */
struct bounce *xs_bounce_get(struct domain *domain);
/* Gives a bounce buffer back. */
void xs_bounce_put(struct domain *domain, struct bounce *bounce);

#endif
