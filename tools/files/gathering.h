/* SPDX-License-Identifier: BSD-2-Clause */
/* gathering.h - gets all files of exs-get's command line. Files without a part from an earlier attempt are requested
 * before the previous ones have arrived, so that the server always has a request to work on. */
#ifndef FILES_GATHERING_H
#define FILES_GATHERING_H

#include "account.h"
#include "fetch.h"
#include "picks.h"

/* The place where files are stored. Owned by main. */
struct target {
    int folder;       /* descriptor */
    const char *name; /* local name of the only file; NULL: each file keeps its name */
    int output;       /* descriptor to which the only file is written as it arrives; -1: files are stored */
    bool skips;       /* files that exist with the same size and time are not transferred */
};

/* Gets each pick, and accounts for it. A failed connection is replaced by a new one; if the server is unreachable, the
 * remaining picks are accounted as left out. */
void gathering_get(struct fetch *fetch, const struct addrinfo *addresses, struct picks *picks,
                   const struct target *target, struct account *account);
/* Accounts for the failure of a path that is not a file, for example of a list that was not received. */
void gathering_account_failed(struct account *account, const struct fetch *fetch, const char *path);

#endif
