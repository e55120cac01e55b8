/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * budget.h - the memory that a server's clients may make it hold, all together.
 *
 * Half of it is for connections as such, half for the buffers of their tests; so whoever has taken all buffers
 * leaves the others a connection on which they are told so.
 */
#ifndef EXSTEST_BUDGET_H
#define EXSTEST_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

enum {
    BUDGET_MIN = 1, /* MiB */
    BUDGET_DEFAULT = 2048,
    BUDGET_MAX = 1 << 20,
    CONNECTION_COST = 384 << 10, /* bytes: what EXS and its device have, and struct client */
};

struct budget {  /* the server's, used by its loop's thread only */
    size_t half; /* bytes */
    size_t used; /* of the half for buffers */
};

struct budget budget_of(unsigned mebibytes);
/* How many connections there may be. */
int budget_connections(const struct budget *budget);
/* False, and nothing is taken: there is not so much left. */
bool budget_take(struct budget *budget, size_t bytes);
void budget_give(struct budget *budget, size_t bytes);

#endif
