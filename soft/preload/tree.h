/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tree.h - the software device's files in /sys/class/infiniband and /dev/infiniband, like those of a kernel device.
 * They do not exist in the file system: this library generates a file's text when the program opens it, and a directory
 * (in the code: folder) is a list of names. A "place" is one of these files or directories.
 */
#ifndef TREE_H
#define TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREE_PATH 256 /* bytes of the longest path, with the 0 */
#define TREE_NAME 32  /* bytes of the longest name, with the 0 */
#define TREE_NAMES 64 /* maximum names in a directory */
#define TREE_TEXT 128 /* bytes of the longest file */

enum tree_kind {
    TREE_FOLDER,
    TREE_FILE,
    TREE_OTHER, /* stands for an existing file or directory of the system */
};

/* A file or directory of the tree. Owned by the caller; need not be freed. */
struct tree_place {
    char path[TREE_PATH];
    enum tree_kind kind;
    char other[TREE_PATH]; /* for a TREE_OTHER: the system's path; a directory's ends with a slash */
    const char *text;      /* content of a file; if NULL, `write` generates it */
    void (*write)(char text[TREE_TEXT], unsigned place); /* `place`: index in the GID table */
    unsigned place;
};

/* Returns whether a path leads to a file or directory of the tree, and if so sets *place to it. A relative path is
 * relative to `folder`. Keeps errno. */
bool tree_find(struct tree_place *place, const char *folder, const char *path);

/* Returns whether the system may also have this directory, with the kernel's devices in it. */
bool tree_is_shared(const struct tree_place *place);

/* Returns whether a glob pattern may match in the tree, because it begins with one of the tree's directories. */
bool tree_may_match(const char *pattern);

/* Lists the names in a directory. Returns their number. */
int tree_names(const struct tree_place *place, char names[TREE_NAMES][TREE_NAME]);

/* Returns the d_type (struct dirent) of a name in a directory; DT_UNKNOWN: the program must ask the system. */
unsigned char tree_type(const struct tree_place *place, const char *name);

/* Writes the content of a file to `text`. Returns its length in bytes. */
size_t tree_read(const struct tree_place *place, char text[TREE_TEXT]);

/* Returns an inode number: a hash of the path, not 0. */
uint64_t tree_number(const struct tree_place *place);

/* Opens a file or directory of the tree, with open(2)'s flags. Returns a descriptor, or -1 and errno. */
int tree_open(const struct tree_place *place, int flags);

/* Returns whether tree_open() has returned this descriptor, and if so sets *place to the file or directory. Keeps
 * errno. */
bool tree_opened(struct tree_place *place, int fd);

/* Stores the path of a descriptor, according to the system or tree_open(). False: it has none, or the path is too long.
 * Keeps errno. */
bool tree_path_of(char path[TREE_PATH], int fd);

/* Called after a system call on a path failed. Returns whether it failed with ENOENT or ENOTDIR, and the path, relative
 * to this directory's descriptor (or AT_FDCWD), is one of the tree; *place is then the file or directory. Because the
 * system is asked first, all other paths behave as without this library, and an invalid pointer fails with EFAULT.
 * Keeps errno. */
bool tree_stands_in(struct tree_place *place, int folder, const char *path);

#endif
