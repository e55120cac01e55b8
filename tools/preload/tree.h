/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tree.h - what a device of the kernel's has in /sys/class/infiniband and /dev/infiniband, of the embedded one.
 * It is nowhere in the file system: its files are written when somebody opens them, and its folders are lists
 * of names.
 */
#ifndef TREE_H
#define TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREE_PATH 256 /* bytes of the longest path, with its end */
#define TREE_NAME 32  /* bytes of the longest name, with its end */
#define TREE_NAMES 64 /* in a folder, at most */
#define TREE_TEXT 128 /* bytes of the longest file */

enum tree_kind {
    TREE_FOLDER,
    TREE_FILE,
    TREE_OTHER, /* the same as something that the system has */
};

/* A place in the tree; the caller's own, and needs no end. */
struct tree_place {
    char path[TREE_PATH];
    enum tree_kind kind;
    char other[TREE_PATH]; /* where it is, of TREE_OTHER; a folder with a slash behind it */
    const char *text;      /* of a file: what is in it, or */
    void (*write)(char text[TREE_TEXT], unsigned place); /* who writes it, of this place in the table of GIDs */
    unsigned place;
};

/* Whether an absolute path leads to a place in the tree; `folder` is put before a relative one. Keeps errno. */
bool tree_find(struct tree_place *place, const char *folder, const char *path);

/* Whether that place is a folder that the system may have, too, with the kernel's devices in it. */
bool tree_is_shared(const struct tree_place *place);

/* Whether a pattern may be about what is in the tree: one that names its folder. */
bool tree_may_match(const char *pattern);

/* The names in a folder. Returns how many. */
int tree_names(const struct tree_place *place, char names[TREE_NAMES][TREE_NAME]);

/* What the name in a folder is, as struct dirent's d_type says it: DT_UNKNOWN, the system is to be asked. */
unsigned char tree_type(const struct tree_place *place, const char *name);

/* What is in a file. Returns its bytes. */
size_t tree_read(const struct tree_place *place, char text[TREE_TEXT]);

/* A number that no other place has: of its path. Not 0. */
uint64_t tree_number(const struct tree_place *place);

/* A descriptor of the place, by open(2)'s flags. -1: errno. */
int tree_open(const struct tree_place *place, int flags);

/* Whether the descriptor is one of tree_open's of a file or a folder, and of which place. Keeps errno. */
bool tree_opened(struct tree_place *place, int fd);

/* The path that the system knows a descriptor by, or that tree_open gave it. False: none, or too long.
 * Keeps errno. */
bool tree_path_of(char path[TREE_PATH], int fd);

/* Whether a call that has just failed, on a path relative to that folder's descriptor (AT_FDCWD), was about a
 * place in the tree: the system itself is asked first, so nothing else changes, and a bad pointer is EFAULT as
 * ever. Keeps errno. */
bool tree_stands_in(struct tree_place *place, int folder, const char *path);

#endif
