/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.h - the resources of the limit test: how one of each is acquired and released. */
#ifndef EXSTEST_LIMITS_H
#define EXSTEST_LIMITS_H

#include <exs.h>
#include "sets.h"

/* The resource acquired by one attempt. */
struct thing {
    int socket;
    exs_qhandle_t queue;
    exs_mhandle_t region;
    exs_token_t token;
    struct ends ends;
};

struct limit {
    const char *name, *alias[2];                            /* alias: names in dapltest */
    const char *title;                                      /* "event queues created" */
    int (*get)(struct set *set, struct thing *thing);       /* returns 0, or -1 and errno */
    int (*give_back)(struct set *set, struct thing *thing); /* NULL: released with the set */
};

enum { LIMITS = 8 };
extern const struct limit limits[LIMITS];

#endif
