/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_budget.h - a rate limit on the management datagrams of one sender: any host can send them, and each costs a
 * process at RoCE's port more than it costs the sender.
 *
 * A sender (address and port) may send IB_BUDGET_BURST datagrams at once, and IB_BUDGET_RATE a second after that. All
 * ports of an address together have IB_BUDGET_HOST times as much, so that a program that sends too much does not use
 * up the limit of other programs on its host. Datagrams over the limit are dropped before anything is looked up; a
 * legitimate sender sends them again.
 */
#ifndef SOFT_IB_BUDGET_H
#define SOFT_IB_BUDGET_H

#include <stdbool.h>
#include "soft/engine/wire.h"

#define IB_BUDGET_BURST 2048   /* datagrams */
#define IB_BUDGET_RATE 2000    /* datagrams per second */
#define IB_BUDGET_HOST 4       /* the limit of an address is that of a sender times this */
#define IB_BUDGET_SENDERS 1024 /* entries of the tables, a power of two; senders may share an entry */

/* The tables of senders and of their addresses. Guarded by the port's lock (ib_port.h). */
struct ib_budget {
    uint64_t key[2]; /* of the hash that selects an entry; random, so that a sender can't choose its entry */
    /* For each entry the time, ns, until which its accepted datagrams use up IB_BUDGET_RATE. */
    uint64_t senders[IB_BUDGET_SENDERS], hosts[IB_BUDGET_SENDERS];
};

/* Counts a datagram from this sender. False: the sender is over the limit, and the caller must drop the datagram. */
bool ib_budget_take(struct ib_budget *budget, const union soft_addr *sender, uint64_t now);

#endif
