/* SPDX-License-Identifier: BSD-2-Clause */
/* budget.c - counts the memory of a server's clients; see budget.h. */
#include "budget.h"

struct budget budget_of(unsigned mebibytes)
{
    return (struct budget){.half = (size_t)mebibytes << 19};
}

int budget_connections(const struct budget *budget)
{
    return (int)(budget->half / CONNECTION_COST);
}

bool budget_take(struct budget *budget, size_t bytes)
{
    if (bytes > budget->half - budget->used)
        return false;
    budget->used += bytes;
    return true;
}

void budget_give(struct budget *budget, size_t bytes)
{
    budget->used -= bytes;
}
