/* SPDX-License-Identifier: BSD-2-Clause */
/* picks.h - the files that exs-put is to send or exs-get to get, each with the name that it is stored under: no
 * two with one. */
#ifndef FILES_PICKS_H
#define FILES_PICKS_H

#include <stdbool.h>
#include <stddef.h>

#define PICKS_STDIN "-" /* the path of standard input */

struct pick {
    char *path;
    const char *name;    /* the end of path; of standard input, somebody else's */
    const char *problem; /* why it can't be sent, a literal; NULL: it may be tried */
    size_t named;        /* bytes of path that were named, a folder with its slash; 0: all of them were */
};

/* Owned by main; begins as zeros. */
struct picks {
    struct pick *list;
    size_t count, room;
};

/* Where the last name of a path begins. */
size_t picks_base(const char *path);
/* These fail only without memory, with -1 and errno. */
int picks_add(struct picks *picks, const char *path);
int picks_add_stdin(struct picks *picks, const char *name);
/* Under the end of the path, which is taken over. problem: see struct pick. */
int picks_add_end(struct picks *picks, char *path, size_t name_at, const char *problem);
/* If it is a folder, all files in it and below, named from the folder's own name on; of . and .., from theirs.
 */
int picks_add_tree(struct picks *picks, const char *path);
/* Two that would be stored under one name, in a and b; false: there are none. */
bool picks_collide(const struct picks *picks, const struct pick **a, const struct pick **b);
void picks_free(struct picks *picks);

#endif
