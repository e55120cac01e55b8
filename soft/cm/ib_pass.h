/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_pass.h - passes datagrams of connection management on to another process of the same host. A datagram to queue
 * pair 1 is read by any of the processes that share RoCE's port (qp1.h), and passed on over an abstract unix socket
 * ("inbox") to the process that it is for.
 *
 * Each process has one inbox for all its connections, whose numbers contain the process's share of the port, and one
 * for each listener. A limited number of connections and look-ups whose listener is closed have an inbox, too, because
 * their request may arrive again. The names of the inboxes are free when their process ends. Any user may have bound
 * one of these names before, so both sides ask the kernel for the other's credentials and exchange datagrams only with
 * processes of the same user.
 *
 * All functions are called with the port's lock (ib_port.h).
 */
#ifndef SOFT_IB_PASS_H
#define SOFT_IB_PASS_H

#include "soft/engine/wire.h"
#include "ib_address.h"
#include "ib_message.h"
#include "soft/link/roce_table.h"

/* The name of an inbox. */
struct ib_pass_name {
    char text[104];
};

/* Returns the name of the inbox for the connections of the process with this share. */
struct ib_pass_name ib_pass_to_share(unsigned share);
/* Returns the name of a listener's inbox. The wildcard addresses of IPv4 and IPv6 have the same name. */
struct ib_pass_name ib_pass_to_listener(enum ib_space space, const union soft_addr *addr, in_port_t port);
/* Returns the name of a request's inbox, which contains the peer's address, GUID and connection number. The address is
 * needed because a peer can claim any GUID. */
struct ib_pass_name ib_pass_to_request(const union soft_addr *addr, uint64_t guid, uint32_t id);
/* Returns the name of a look-up's inbox, which contains the peer's address and the numbers that the peer gave it. */
struct ib_pass_name ib_pass_to_question(const union soft_addr *addr, uint64_t transaction, uint32_t id);

/* Opens an inbox: a listening unix socket with this name. Returns -1 and errno on failure: EADDRINUSE, a process of
 * this user has the name; EPERM, another user has it. */
int ib_pass_open(const struct ib_pass_name *name);
/* Returns the entry of struct roce_table that counts inboxes with this name; an argument of ib_pass_close(). */
uint32_t ib_pass_place(const struct ib_pass_name *name);
void ib_pass_close(int inbox, uint32_t place);

/* Sets the table in which inboxes are counted; names for which it counts none are not tried. NULL: every name is
 * tried. */
void ib_pass_use(struct roce_table *shared);

#define IB_ANY_SHARE (-2)
/* Records that the process with this share got a peer's request. */
void ib_pass_remember(uint64_t guid, uint32_t id, unsigned share);
/* Returns the share that was recorded for this request; -1: none; IB_ANY_SHARE: there is no table. */
int ib_pass_recall(uint64_t guid, uint32_t id);

enum ib_passed {
    IB_NOBODY, /* no process of this user has the name */
    IB_LOST,   /* its process does not read, or no descriptor is left; the peer may send again */
    IB_PASSED
};
/* Passes a datagram on to the inbox with this name. */
enum ib_passed ib_pass_on(const struct ib_pass_name *name, const struct soft_path *path,
                          const uint8_t mad[IB_MAD_BYTES]);
/* Receives the next datagram that was passed to this inbox. Returns 1; 0: it is invalid; -1: there is none. */
int ib_pass_receive(int inbox, struct soft_path *path, uint8_t mad[IB_MAD_BYTES]);
/* Called in a forked child: forgets the table and the spare descriptor. */
void ib_pass_forget(void);
/* Called when the port is closed: forgets the table and closes the spare descriptor. */
void ib_pass_end(void);

#endif
