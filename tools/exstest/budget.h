/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * budget.h - limits the memory of all clients of a server.
 *
 * One half is for the connections, the other for the buffers of their tests. If the second half is used up, another
 * client can therefore still connect and get an error message.
 */
#ifndef EXSTEST_BUDGET_H
#define EXSTEST_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

enum {
    BUDGET_MIN = 1, /* MiB */
    BUDGET_DEFAULT = 2048,
    BUDGET_MAX = 1 << 20,
    CONNECTION_COST = 384 << 10, /* bytes: of EXS, its device, and struct client */
};

struct budget {  /* owned by the server, used only by its loop's thread */
    size_t half; /* bytes */
    size_t used; /* bytes of the half for buffers */
};

struct budget budget_of(unsigned mebibytes);
/* Returns the maximum number of connections. */
int budget_connections(const struct budget *budget);
/* Reserves memory for buffers. Returns false and reserves nothing if less than that is left. */
bool budget_take(struct budget *budget, size_t bytes);
void budget_give(struct budget *budget, size_t bytes);

#endif
