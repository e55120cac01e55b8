/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.h - what there is to exhaust, for the limit test: how one of each is got and given back. */
#ifndef EXSTEST_LIMITS_H
#define EXSTEST_LIMITS_H

#include <exs.h>
#include "sets.h"

/* What one attempt got. */
struct thing {
    int socket;
    exs_qhandle_t queue;
    exs_mhandle_t region;
    exs_token_t token;
    struct ends ends;
};

struct limit {
    const char *name, *alias[2];                            /* alias: dapltest's */
    const char *title;                                      /* "event queues created" */
    int (*get)(struct set *set, struct thing *thing);       /* -1 and errno */
    int (*give_back)(struct set *set, struct thing *thing); /* NULL: comes back with the set */
};

enum { LIMITS = 8 };
extern const struct limit limits[LIMITS];

#endif
