/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_pass.h - passes datagrams of connection management on to another process of the same host. A datagram to queue
 * pair 1 is read by any of the processes that share RoCE's port (qp1.h), and passed on over an abstract unix socket
 * ("inbox") to the process that it is for.
 *
 * Each process has one inbox for all its connections, whose numbers contain the process's share of the port, and one
 * for each listener. A connection or look-up whose listener is closed has one, too, for a limited number of them,
 * because its request may arrive again. The names of the inboxes are free when their process ends. Any user may have
 * bound one of these names before, so both sides ask the kernel for the other's credentials and exchange datagrams
 * only with processes of the same user.
 *
 * The port's lock guards all of it.
 */
#ifndef SOFT_IB_PASS_H
#define SOFT_IB_PASS_H

#include "soft/engine/wire.h"
#include "ib_address.h"
#include "ib_message.h"
#include "soft/link/roce_table.h"

struct ib_pass_name {
    char text[104];
};

struct ib_pass_name ib_pass_to_share(unsigned share);
/* All wildcard addresses have one name, of IPv4 and IPv6. */
struct ib_pass_name ib_pass_to_listener(enum ib_space space, const union soft_addr *addr, in_port_t port);
/* Named by the peer's address, GUID and connection number. The address is needed because a peer can claim any GUID. */
struct ib_pass_name ib_pass_to_request(const union soft_addr *addr, uint64_t guid, uint32_t id);
/* Named by the peer's address, and the numbers that the peer gave the look-up. */
struct ib_pass_name ib_pass_to_question(const union soft_addr *addr, uint64_t transaction, uint32_t id);

/* Opens a inbox: a listening unix socket with this name. -1 and errno: EADDRINUSE, a process of this user has the name;
 * EPERM, another user has it. */
int ib_pass_open(const struct ib_pass_name *name);
/* The entry of struct roce_table that counts inboxes with this name; an argument of ib_pass_close(). */
uint32_t ib_pass_place(const struct ib_pass_name *name);
void ib_pass_close(int inbox, uint32_t place);

/* Sets the table in which inboxes are counted; names for which it counts none are not tried. NULL: every name is
 * tried. */
void ib_pass_use(struct roce_table *shared);

#define IB_ANY_SHARE (-2)
/* Records that the process with this share got a peer's request. */
void ib_pass_remember(uint64_t guid, uint32_t id, unsigned share);
/* The share that was recorded; -1: none; IB_ANY_SHARE: there is no table. */
int ib_pass_recall(uint64_t guid, uint32_t id);

enum ib_passed {
    IB_NOBODY, /* no process of this user has the name */
    IB_LOST,   /* its process does not read, or no descriptor is left; the peer may send again */
    IB_PASSED
};
enum ib_passed ib_pass_on(const struct ib_pass_name *name, const struct soft_path *path,
                          const uint8_t mad[IB_MAD_BYTES]);
/* Receives the next datagram that was passed to this inbox. 1; 0: an invalid one; -1: there is none. */
int ib_pass_receive(int inbox, struct soft_path *path, uint8_t mad[IB_MAD_BYTES]);
/* In the child of a fork: forgets the table and the spare descriptor. */
void ib_pass_forget(void);
/* When the port is closed: forgets the table and closes the spare descriptor. */
void ib_pass_end(void);

#endif
