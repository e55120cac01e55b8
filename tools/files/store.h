/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.h - the directory in which files arrive.
 *
 * A file is written under a temporary name, which no client can choose, and renamed when it is complete. It is in its
 * own folder from the start, so that it gets the group and the ACL that the folder's files have, also below a mount
 * point. That
 * atomically replaces a file or a link of the same name; anything else is not replaced (ENODEV, EISDIR). Nothing
 * outside the directory is ever touched: paths only descend, and no symbolic link is followed.
 */
#ifndef FILES_STORE_H
#define FILES_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "leftovers.h"
#include "transfer.h"

enum { STORE_COPY = 128 << 10 }; /* bytes: fits a CPU's private cache */

/* Limits on what is stored while the server runs, and options. */
struct store_limits {
    uint64_t file;  /* bytes of one file; 0: what is left of `total` */
    uint64_t total; /* bytes of all files; 0: the free space at the start, but for a reserve */
    uint64_t files; /* number of files and of folders that are created for them */
    int keep;       /* seconds that an unfinished file is kept; 0: it is not */
    bool gives;     /* clients may get files; see giving.h */
    bool archive;   /* symbolic links and names that begin with a dot are taken and given, too */
    bool syncs;     /* a file is synced to the disk before it is reported as stored */
};

struct store {
    struct store_limits limits;
    STAILQ_HEAD(, kept) kept; /* see kept.h */
    int kept_count;
    uint64_t bytes, files;          /* used so far, including files that are still arriving */
    int directory;                  /* locked while open: two servers can't share one */
    unsigned next;                  /* for temporary names */
    bool has_below;                 /* temporary files are, or were, in folders below the directory */
    mode_t mask;                    /* permissions that no file gets, as in umask(2) */
    unsigned char copy[STORE_COPY]; /* the data written next; used by one thread */
};

/* A file that is arriving. Owned by the caller of store_begin(); fd is -1 if there is none. */
struct incoming {
    struct store *store;
    int fd;
    int folder;       /* descriptor of the folder that the temporary file is in ... */
    size_t rest;      /* ... and where the name goes on from there; in bytes */
    uint64_t written; /* bytes */
    mode_t permitted; /* permissions that it may have in its folder */
    char temporary[LEFTOVERS_NAME];
    dev_t device; /* of the file that had the name at store_begin() ... */
    ino_t inode;  /* ... */
    char name[TRANSFER_PATH_MAX + 1];
    struct transfer_header header; /* its size, permissions and time */
};

/* Removes unfinished files of an earlier server. 0, or -1 and errno: EBUSY if another server uses the directory. */
int store_open(struct store *store, const char *path, const struct store_limits *limits);
/* Also drops the kept files. */
void store_close(struct store *store);

/* Whether a file of this size may arrive, of which `there` bytes are kept. NULL: yes; else the reason, a string in
 * room. The space of kept files counts as free; they are dropped only when data arrive, not when a client announces a
 * file. */
const char *store_refuses(const struct store *store, uint64_t size, uint64_t there,
                          char room[TRANSFER_TEXT_MAX]);
/* name: header->name_length bytes, accepted by transfer_bad_path(). These return 0, or -1 and errno: EDQUOT at a
 * limit. */
int store_begin(struct store *store, struct incoming *file, const char *name,
                const struct transfer_header *header);
/* A link or a folder that has come, with header->kind. target: of a link. */
int store_special(struct store *store, const char *name, const struct transfer_header *header,
                  const char *target);
int store_write(struct incoming *file, const void *data, size_t length, uint64_t offset);
/* Discards what was written, and starts at offset 0 again. */
int store_rewind(struct incoming *file);
int store_commit(struct incoming *file);
/* Removes the file and frees its space; does nothing after a commit. */
void store_discard(struct incoming *file);

#endif
