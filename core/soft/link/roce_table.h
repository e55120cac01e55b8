/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roce_table.h - which doors of connection management are open, in memory that all of a user's processes at RoCE's port
 * have mapped.
 *
 * Any of them may read a datagram that is for another one, or for none (qp1.h), and a stranger decides how many datagrams
 * come. Without the table a process tries to connect to the name of each door that might take it. With the table it knows
 * without a system call that no process has the door, and which process was asked for a connection.
 *
 * An entry counts the open doors whose names have one hash. It may be too high: a process that is killed does not count
 * its doors down, and names share entries. Then a process tries a name in vain, as it would without the table. It is
 * never too low, because a process counts a door before others can be told to come there.
 */
#ifndef SOFT_ROCE_TABLE_H
#define SOFT_ROCE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ROCE_DOORS 8192     /* entries, powers of two */
#define ROCE_REQUESTS 16384 /* likewise */

struct roce_table {
    /* seq_cst: roce_table_open()'s addition pairs with roce_table_is_open()'s load, so that a door's owner can tell its
     * user that it is open. */
    _Atomic uint32_t doors[ROCE_DOORS];
    /* The share, and 1, of the process that was last asked for a connection by a request of this hash; 0: none was.
     * Relaxed, pairs with nothing: a wrong one loses a message that the peer sends again or does without. */
    _Atomic uint8_t requests[ROCE_REQUESTS];
};

/* New memory for it. -1 and errno. */
int roce_table_make(void);
/* NULL and errno: this is no such memory. */
struct roce_table *roce_table_map(int memory);
void roce_table_unmap(struct roce_table *table);

/* The entry of a door with this name. */
uint32_t roce_table_place(const char *name);
void roce_table_open(struct roce_table *table, uint32_t place);
void roce_table_close(struct roce_table *table, uint32_t place);
bool roce_table_is_open(const struct roce_table *table, uint32_t place);

/* A peer's request has come to the process with this share. */
void roce_table_remember(struct roce_table *table, uint64_t guid, uint32_t id, unsigned share);
/* Which share was that? -1: none. */
int roce_table_recall(const struct roce_table *table, uint64_t guid, uint32_t id);

#endif
