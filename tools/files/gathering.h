/* SPDX-License-Identifier: BSD-2-Clause */
/* gathering.h - gets all files that exs-get was asked for. Files of which nothing is there yet are asked for before
 * those in front of them have come, so that the server never waits for a question. */
#ifndef FILES_GATHERING_H
#define FILES_GATHERING_H

#include "account.h"
#include "fetch.h"
#include "picks.h"

/* Where files go. Owned by main. */
struct target {
    int folder;       /* descriptor */
    const char *name; /* what the only file is stored under; NULL: each has its own */
    int output;       /* descriptor that the only file is written to as it comes; -1: files are stored */
    bool skips;       /* files that are there already, by size and time, are not got */
};

/* Gets each pick, and accounts for it. A connection that failed is replaced by another one; if the server can't be
 * reached, the rest is left out. */
void gathering_get(struct fetch *fetch, const struct addrinfo *addresses, struct picks *picks,
                   const struct target *target, struct account *account);
/* Accounts for a path that is no file, like that of a list that did not come. */
void gathering_account_failed(struct account *account, const struct fetch *fetch, const char *path);

#endif
