/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_pass.h - what comes to queue pair 1 is read by any of the processes that have RoCE's port (qp1.h), and
 * passed on from there to the one that it is for, over abstract unix sockets.
 *
 * Each process has one for what belongs to its connections, whose numbers say which share of the port it has,
 * and one for each of its listeners; and one for each connection or look-up whose listener has gone, of so
 * many, since its request may come again. Their names end with the process. Anybody may have taken one of these
 * names before, so both sides ask the kernel who is at the other end: only programs of the same user are
 * believed, or told.
 *
 * All of it is guarded by the port's lock.
 */
#ifndef SOFT_IB_PASS_H
#define SOFT_IB_PASS_H

#include <stdbool.h>
#include "core/soft/engine/wire.h"
#include "ib_address.h"
#include "ib_message.h"
#include "core/soft/link/roce_table.h"

struct ib_pass_name {
    char text[104];
};

struct ib_pass_name ib_pass_to_share(unsigned share);
/* A wildcard address has a name of its own, which is IPv6's as well as IPv4's. */
struct ib_pass_name ib_pass_to_listener(enum ib_space space, const union soft_addr *addr, in_port_t port);
/* By the peer's host, its node and its number there: a node's name is only what it says. */
struct ib_pass_name ib_pass_to_request(const union soft_addr *addr, uint64_t guid, uint32_t id);
/* By the peer's host, and how that has numbered its question. */
struct ib_pass_name ib_pass_to_question(const union soft_addr *addr, uint64_t transaction, uint32_t id);

/* A socket with this name, at which others stand. -1 and errno: EADDRINUSE, one of this user's has it; EPERM,
 * another user's. */
int ib_pass_open(const struct ib_pass_name *name);
/* Where a door with this name is counted, for ib_pass_close. */
uint32_t ib_pass_place(const struct ib_pass_name *name);
void ib_pass_close(int door, uint32_t place);

/* From now on doors are counted here, and names of which no door is open are not tried. NULL: they are. */
void ib_pass_use(struct roce_table *shared);

#define IB_ANY_SHARE (-2)
/* A peer's request has come to this process. */
void ib_pass_remember(uint64_t guid, uint32_t id, unsigned share);
/* To which share did it come? -1: to none; IB_ANY_SHARE: nothing tells. */
int ib_pass_recall(uint64_t guid, uint32_t id);

enum ib_passed {
    IB_NOBODY, /* of this user has the name */
    IB_LOST,   /* somebody has it and doesn't read, or there is no descriptor for that: it may come again */
    IB_PASSED
};
enum ib_passed ib_pass_on(const struct ib_pass_name *name, const struct soft_path *path,
                          const uint8_t mad[IB_MAD_BYTES]);
/* The next one that has come to this door. 1; 0: it is nothing of ours; -1: there is none. */
int ib_pass_receive(int door, struct soft_path *path, uint8_t mad[IB_MAD_BYTES]);
/* In the child of a fork. */
void ib_pass_forget(void);
/* The port is closed: nothing is kept for it any more. */
void ib_pass_end(void);

#endif
