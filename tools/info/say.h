/* SPDX-License-Identifier: BSD-2-Clause */
/* say.h - prints the results of exs-info, as text or as JSON. */
#ifndef INFO_SAY_H
#define INFO_SAY_H

#include "choice.h"
#include "limits.h"

/* Owned by main. */
struct info {
    const char *setting; /* EXS_DEVICE */
    const exs_device_t *devices;
    int count;
    struct limits limits;
    char *const *names;           /* addresses on the command line */
    const struct choice *choices; /* for each name; see struct choice */
    int asked;
};

void say_text(const struct info *info);
void say_json(const struct info *info);

#endif
