/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_budget.c - a token bucket for each sender, and one for each host: ib_budget.h. */
#include "ib_budget.h"
#include "soft/engine/shuffle.h"

#define COST (UINT64_C(1000000000) / IB_BUDGET_RATE) /* ns that one datagram of a sender costs */

/* An IPv6 /64 counts as one host. */
static uint64_t hash_host(const uint64_t key[2], const union soft_addr *sender)
{
    uint64_t prefix = sender->in.sin_addr.s_addr;

    if (sender->sa.sa_family == AF_INET6)
        memcpy(&prefix, &sender->in6.sin6_addr, sizeof prefix);
    return soft_keyed_hash(key, prefix);
}

/* Adds a cost. False: more than a burst is unpaid already. */
static bool add_cost(uint64_t *paid, uint64_t now, uint64_t cost)
{
    uint64_t from = *paid > now ? *paid : now;

    if (from - now >= IB_BUDGET_BURST * COST)
        return false;
    *paid = from + cost;
    return true;
}

bool ib_budget_take(struct ib_budget *budget, const union soft_addr *sender, uint64_t now)
{
    uint64_t host = hash_host(budget->key, sender);
    uint64_t port =
        soft_keyed_hash(budget->key, host ^ sender->in.sin_port); /* at the same place in sockaddr_in6 */

    return add_cost(&budget->senders[port % IB_BUDGET_SENDERS], now, COST) &&
           add_cost(&budget->hosts[host % IB_BUDGET_SENDERS], now, COST / IB_BUDGET_HOST);
}
