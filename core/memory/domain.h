/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * domain.h - the protection domain of one connection, and the memory that is registered in it.
 *
 * A key gives access only to queue pairs of the domain that the memory was registered in. Each connection has its own
 * domain, so no other peer can use a key that was given to one peer, even if it knows or guesses the key: any device
 * enforces that. Memory windows of type 2 would bind one registration to many queue pairs, but not every device has
 * them, each costs a work request before it may be advertised, and the window of the ring buffer would have to be
 * bound before the peer learns its address, when the queue pair can't send yet.
 *
 * The cost: memory that the device reads or writes for a connection must be registered in its domain, so a user's
 * region is registered once for each connection that uses it, at first use. For the same reason each connection has
 * its own bounce buffers; the first few are in memory that it has anyway (conn.c).
 *
 * A domain is guarded by the lock of its connection's home queue, except for the map of regions.
 */
#ifndef XS_DOMAIN_H
#define XS_DOMAIN_H

#include <stdint.h>
#include <sys/queue.h>
#include "core/queue/nic.h"

#define BOUNCE_SIZE 8192 /* bytes: an unregistered buffer up to this is copied, a longer one registered */

/* A bounce buffer: BOUNCE_SIZE bytes of registered memory. */
struct bounce {
    SLIST_ENTRY(bounce) link;
    uint8_t *data;
    struct ibv_mr *mr; /* owned by the connection or by a bounce_chunk */
};

struct bounce_chunk;

struct region; /* a user's region that is registered here (memory.c) */

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
    SLIST_HEAD(, bounce) bounces;
    SLIST_HEAD(, bounce_chunk) chunks;
    struct region *regions; /* hash by memory; guarded by the nic's map_lock */
    struct {                /* for each use, a cache: */
        uint64_t number;    /* of the memory that was used last, which may have been freed; 0: none */
        struct ibv_mr *mr;  /* its registration */
    } last[MEMORY_USES];
};

/* Returns 0, or -1 and errno; then there is nothing to close. */
int xs_domain_open(struct domain *domain, struct nic *nic);
/* Called when the device uses nothing of the domain any more, and other modules have deregistered their memory. */
void xs_domain_close(struct domain *domain);

/* Adds a bounce buffer, in memory that the caller owns. */
void xs_bounce_add(struct domain *domain, struct bounce *bounce, uint8_t *data, struct ibv_mr *mr);
struct bounce *xs_bounce_get(struct domain *domain); /* NULL and errno on failure */
void xs_bounce_put(struct domain *domain, struct bounce *bounce);

#endif
