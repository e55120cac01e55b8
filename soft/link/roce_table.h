/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roce_table.h - a table, in memory that all of a user's processes at RoCE's port share, of the open
 * connection-management listeners.
 *
 * A listener here is an abstract unix socket to which other processes pass on the datagrams for one RDMA listener or
 * request (an inbox, soft/cm/ib_pass.h). Any process may receive a datagram that is for another process, or for none
 * (qp1.h), and an untrusted peer decides how many arrive. Without the table a process would have to try to connect to
 * the name of each listener that could be meant. The table shows without a system call that no process has opened the
 * listener, and which process got a connection's request.
 *
 * An entry counts the open listeners whose names have the same hash value. The count may be too high, because a process
 * that is killed does not decrement it. A process then tries a name that does not exist, as it would without the table.
 * The count is never too low, because a process counts a listener before peers can learn of it.
 */
#ifndef SOFT_ROCE_TABLE_H
#define SOFT_ROCE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define ROCE_LISTENERS 8192 /* entries, a power of two */
#define ROCE_REQUESTS 16384 /* entries, a power of two */

struct roce_table {
    /* seq_cst: roce_table_open()'s addition pairs with roce_table_is_open()'s load, so that a listener is found once
     * roce_table_open() has returned. */
    _Atomic uint32_t listeners[ROCE_LISTENERS];
    /* 1 + the share of the process that last got a connection request with this hash value; 0: none. Relaxed, pairs
     * with nothing: a wrong value loses a message that the peer sends again or does not need. */
    _Atomic uint8_t requests[ROCE_REQUESTS];
};

/* Creates memory for a table, and returns its descriptor. -1 and errno on failure. */
int roce_table_make(void);
/* Maps a table. Returns NULL and errno if the descriptor is not that of a table. */
struct roce_table *roce_table_map(int memory);
void roce_table_unmap(struct roce_table *table);

/* Returns the index of the entry for a listener with this name. */
uint32_t roce_table_place(const char *name);
/* Count an open listener in this entry, and uncount it. */
void roce_table_open(struct roce_table *table, uint32_t place);
void roce_table_close(struct roce_table *table, uint32_t place);
/* Returns false if no listener of this entry is open. */
bool roce_table_is_open(const struct roce_table *table, uint32_t place);

/* Records that the process with this share got a peer's request. */
void roce_table_remember(struct roce_table *table, uint64_t guid, uint32_t id, unsigned share);
/* Returns the share that was recorded for this request, or -1. */
int roce_table_recall(const struct roce_table *table, uint64_t guid, uint32_t id);

#endif
