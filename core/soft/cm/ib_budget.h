/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_budget.h - how many management datagrams of one sender are taken in: any host can send them, and each costs a process
 * of the port more than it costs the sender.
 *
 * A sender may send IB_BUDGET_BURST at once, and IB_BUDGET_RATE a second after that. All ports of an address together have
 * IB_BUDGET_HOST times as much, so that a program that sends too much does not use up what others on its host have. What
 * is over that is dropped before anything is looked up; an honest sender sends it again.
 */
#ifndef SOFT_IB_BUDGET_H
#define SOFT_IB_BUDGET_H

#include <stdbool.h>
#include "core/soft/engine/wire.h"

#define IB_BUDGET_BURST 2048
#define IB_BUDGET_RATE 2000 /* a second */
#define IB_BUDGET_HOST 4
#define IB_BUDGET_SENDERS 1024 /* a power of two; senders may share an entry */

struct ib_budget {
    uint64_t key[2]; /* so that a sender can't choose its entry */
    uint64_t senders[IB_BUDGET_SENDERS], hosts[IB_BUDGET_SENDERS]; /* when all that was taken in is paid for, ns */
};

/* A datagram of this sender has come. False: drop it. */
bool ib_budget_take(struct ib_budget *budget, const union soft_addr *sender, uint64_t now);

#endif
