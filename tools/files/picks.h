/* SPDX-License-Identifier: BSD-2-Clause */
/* picks.h - the files that exs-put is to send, each with the name that it is stored under: no two with one. */
#ifndef FILES_PICKS_H
#define FILES_PICKS_H

#include <stdbool.h>
#include <stddef.h>

struct pick {
    char *path;
    const char *name; /* the end of path, or somebody else's */
};

/* Owned by main; begins as zeros. */
struct picks {
    struct pick *list;
    size_t count, room;
};

/* Adds a file. Only without memory it fails, with -1 and errno. */
int picks_add(struct picks *picks, const char *path);
/* Two that would be stored under one name, in a and b; false: there are none. Sorts nothing. */
bool picks_collide(const struct picks *picks, const struct pick **a, const struct pick **b);
void picks_free(struct picks *picks);

#endif
