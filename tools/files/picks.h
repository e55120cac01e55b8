/* SPDX-License-Identifier: BSD-2-Clause */
/* picks.h - the list of files that exs-put sends or exs-get gets, each with the name under which it is stored. The
 * names must be different. */
#ifndef FILES_PICKS_H
#define FILES_PICKS_H

#include <stdbool.h>
#include <stddef.h>

#include "transfer.h"

#define PICKS_STDIN "-" /* the path of standard input */

struct pick {
    char *path;
    const char *name;        /* a suffix of path; for standard input, a string that the caller owns */
    const char *problem;     /* the reason why it cannot be sent, a string literal; NULL: no problem */
    enum transfer_kind kind; /* 0: unknown until it is opened */
    struct {
        bool known;
        uint64_t size; /* bytes */
        int64_t seconds;
        uint32_t nanoseconds;
        unsigned mode;
    } details;       /* from a server's list */
    bool is_settled; /* it was transferred or has failed, and the result was printed */
    size_t named;    /* bytes of path that are from the command line: a folder and a slash; 0: all */
};

/* What is transferred in addition to files whose names do not begin with a dot. */
enum { PICKS_LINKS = 1, PICKS_HIDDEN = 2, PICKS_FOLDERS = 4, PICKS_ALL = 7 };

/* Owned by main, which sets `takes`; the rest is initially zero. */
struct picks {
    unsigned takes; /* a set of PICKS_... */
    struct pick *list;
    size_t count, room;
};

/* Returns the offset of the last component of a path. */
size_t picks_base(const char *path);
/* The picks_add functions return 0, or -1 and errno if memory allocation failed. */
int picks_add(struct picks *picks, const char *path);
int picks_add_stdin(struct picks *picks, const char *name);
/* Adds a path, and takes ownership of it. The name is the path from offset name_at. problem: see struct pick. */
int picks_add_end(struct picks *picks, char *path, size_t name_at, const char *problem);
/* Adds a file or, for a folder, all files below it. Their names begin with the name of the folder, unless that is .
 * or .. */
int picks_add_tree(struct picks *picks, const char *path);
/* Finds two picks that would be stored under the same name. Returns false if there are none. */
bool picks_collide(const struct picks *picks, const struct pick **a, const struct pick **b);
void picks_free(struct picks *picks);

#endif
