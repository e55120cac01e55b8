/* SPDX-License-Identifier: BSD-2-Clause */
/* picks.h - the list of files that exs-put sends or exs-get gets, each with the name under which it is stored. No two
 * may have the same name. */
#ifndef FILES_PICKS_H
#define FILES_PICKS_H

#include <stdbool.h>
#include <stddef.h>

#include "transfer.h"

#define PICKS_STDIN "-" /* the path of standard input */

struct pick {
    char *path;
    const char *name;        /* the end of path; of standard input, a string of the caller's */
    const char *problem;     /* why it can't be sent, a string literal; NULL: no problem */
    enum transfer_kind kind; /* 0: a file, or whatever opening it shows */
    struct {
        bool known;
        uint64_t size; /* bytes */
        int64_t seconds;
        uint32_t nanoseconds;
        unsigned mode;
    } details;       /* that a server has listed */
    bool is_settled; /* it was sent or got, or has failed, and that was printed */
    size_t named;    /* bytes of path from the command line: a folder and a slash; 0: all */
};

/* What is sent, or got, beside files whose names don't begin with a dot. */
enum { PICKS_LINKS = 1, PICKS_HIDDEN = 2, PICKS_FOLDERS = 4, PICKS_ALL = 7 };

/* Owned by main; initially zero, but for `takes`. */
struct picks {
    unsigned takes; /* a set of these */
    struct pick *list;
    size_t count, room;
};

/* Offset of the last component of a path. */
size_t picks_base(const char *path);
/* These fail only if there is no memory, with -1 and errno. */
int picks_add(struct picks *picks, const char *path);
int picks_add_stdin(struct picks *picks, const char *name);
/* Adds a path, which is taken over, named by its part from name_at on. problem: see struct pick. */
int picks_add_end(struct picks *picks, char *path, size_t name_at, const char *problem);
/* Adds a file; or, of a folder, all files below it. Their names begin with the folder's name, but for the folders .
 * and .. */
int picks_add_tree(struct picks *picks, const char *path);
/* Finds two that would be stored under the same name. False: there are none. */
bool picks_collide(const struct picks *picks, const struct pick **a, const struct pick **b);
void picks_free(struct picks *picks);

#endif
