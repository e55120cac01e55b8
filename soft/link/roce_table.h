/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roce_table.h - a table, in memory that all of a user's processes at RoCE's port share, of the open
 * connection-management listeners.
 *
 * A listener is an abstract unix socket of a listener or of a request, where other processes pass on datagrams for it
 * (ib_pass.h). Any process may receive a datagram that is for another one, or for none (qp1.h), and an untrusted peer
 * decides how many arrive. Without the table a process tries to connect to the name of each listener that could be meant.
 * The table shows without a system call that no process has opened the listener, and which process got a connection's
 * request.
 *
 * An entry counts the open listeners whose names have one hash value. It may be too high: a process that is killed does
 * not decrement it, and names share entries. Then a process tries a name that does not exist, as it would without the
 * table. It is never too low, because a process counts a listener before peers can learn of it.
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

/* The descriptor of new memory for a table. -1 and errno. */
int roce_table_make(void);
/* Maps a table. NULL and errno: it is no memory for one. */
struct roce_table *roce_table_map(int memory);
void roce_table_unmap(struct roce_table *table);

/* The entry of a listener with this name. */
uint32_t roce_table_place(const char *name);
void roce_table_open(struct roce_table *table, uint32_t place);
void roce_table_close(struct roce_table *table, uint32_t place);
bool roce_table_is_open(const struct roce_table *table, uint32_t place);

/* Records that the process with this share got a peer's request. */
void roce_table_remember(struct roce_table *table, uint64_t guid, uint32_t id, unsigned share);
/* The share that was recorded; -1: none. */
int roce_table_recall(const struct roce_table *table, uint64_t guid, uint32_t id);

#endif
