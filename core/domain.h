/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * domain.h - the protection domain of one connection, and the memory that is registered in it.
 *
 * A key opens memory to queue pairs of the domain that it was made in, and to no others. Each connection has a
 * domain of its own, so what one peer was given no other reaches, whatever it knows or guesses: the device sees
 * to it, any device. Memory windows of type 2 would bind one registration to many queue pairs, but not every
 * device has them, each costs a work request before it may be advertised, and the hidden buffer's would have to
 * be bound before the peer hears of it, when the queue pair can't send yet.
 *
 * The price: what the device is to read or write for a connection is registered in its domain, so a user's
 * region once for each connection that uses it, at first use. Bounce buffers are the connection's own for the
 * same reason; the first few lie in the memory that it has anyway (conn.c).
 *
 * A domain is guarded by the lock of its connection's home queue, but for the map of regions.
 */
#ifndef XS_DOMAIN_H
#define XS_DOMAIN_H

#include <stdint.h>
#include <sys/queue.h>
#include "nic.h"

#define BOUNCE_SIZE 8192 /* bytes: unregistered buffers up to this are copied, longer ones registered */

struct bounce { /* a piece of registered memory, BOUNCE_SIZE bytes */
    SLIST_ENTRY(bounce) link;
    uint8_t *data;
    struct ibv_mr *mr; /* not its own */
};

struct bounce_chunk;

struct region; /* a user's region, registered here (memory.c) */

enum memory_use { /* of a user's region on a connection */
    MEMORY_LOCAL,      /* sends and one-sided operations: the peer has no right to it */
    MEMORY_TO_RECEIVE, /* the peer may write to it */
    MEMORY_USES
};

struct domain { /* owned by its connection */
    struct nic *nic;
    struct ibv_pd *pd;
    SLIST_HEAD(, bounce) bounces;
    SLIST_HEAD(, bounce_chunk) chunks;
    struct region *regions; /* hash by memory; guarded by the nic's map_lock */
    struct {
        uint64_t number;   /* the memory that was used last, which need not be there any more; 0: none */
        struct ibv_mr *mr; /* and its registration, if it is */
    } last[MEMORY_USES];
};

/* -1 and errno; then there is nothing to close. */
int xs_domain_open(struct domain *domain, struct nic *nic);
/* The device uses nothing of it any more, and what others registered in it is gone. */
void xs_domain_close(struct domain *domain);

/* One more bounce buffer, in memory of the caller's. */
void xs_bounce_add(struct domain *domain, struct bounce *bounce, uint8_t *data, struct ibv_mr *mr);
struct bounce *xs_bounce_get(struct domain *domain); /* NULL and errno */
void xs_bounce_put(struct domain *domain, struct bounce *bounce);

#endif
