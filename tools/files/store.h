/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.h - the directory in which exs-serve stores the files that it receives.
 *
 * A file is written under a temporary name, which no client can choose, and renamed when it is complete. The rename
 * atomically replaces a file or a link of the same name; anything else is not replaced (ENODEV, EISDIR). The temporary
 * file is in the target folder from the start, so that it gets the group and the ACL of that folder, also below a
 * mount point. Nothing outside the directory is changed: paths only descend, and symbolic links are not followed.
 */
#ifndef FILES_STORE_H
#define FILES_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "leftovers.h"
#include "recent.h"
#include "transfer.h"

enum { STORE_COPY = 128 << 10 }; /* bytes: fits a CPU's private cache */

/* Limits on what is stored while the server runs, and options. */
struct store_limits {
    uint64_t file;  /* bytes of one file; 0: what remains of `total` */
    uint64_t total; /* bytes of all files; 0: the free space at the start, except a reserve */
    uint64_t files; /* number of files and of the folders created for them */
    int keep;       /* seconds that an unfinished file is kept; 0: it is removed */
    bool gives;     /* clients may get files; see giving.h */
    bool archive;   /* clients may also store and get symbolic links and names that begin with a dot */
    bool syncs;     /* a file is synced to the disk before it is reported as stored */
};

struct store {
    struct store_limits limits;
    STAILQ_HEAD(, kept) kept; /* see kept.h */
    int kept_count;
    uint64_t bytes, files;          /* used so far, including files that are being received */
    int directory;                  /* locked while open: two servers cannot share a directory */
    struct recent recent;           /* folder of the last file; forgotten after each batch of events */
    unsigned next;                  /* number in the next temporary name */
    bool has_below;                 /* temporary files are or were in folders below the directory */
    unsigned char copy[STORE_COPY]; /* private copy of the data to write; used by the loop's thread only */
};

/* A file that is being received. Owned by the caller of store_begin(); fd is -1 if there is no file. */
struct incoming {
    struct store *store;
    int fd;
    int folder;       /* descriptor of the folder that contains the temporary file */
    size_t rest;      /* offset in `name` of the part relative to `folder`, bytes */
    uint64_t written; /* bytes */
    mode_t permitted; /* permissions that a file may have in `folder` */
    char temporary[LEFTOVERS_NAME];
    dev_t device; /* device and inode of the temporary file at its creation */
    ino_t inode;
    char name[TRANSFER_PATH_MAX + 1];
    struct transfer_header header; /* has the file's size, permissions and modification time */
};

/* Opens and locks the directory, and removes unfinished files of an earlier server. Returns 0, or -1 and errno: EBUSY
 * if another server uses the directory. */
int store_open(struct store *store, const char *path, const struct store_limits *limits);
/* Closes the directory, and removes the unfinished files that were kept. */
void store_close(struct store *store);

/* Checks the limits for a file of this size, of which `there` bytes are kept from an earlier attempt. Returns NULL if
 * the file is allowed, else the reason, a string in room. The space of kept files counts as free: they are removed when
 * data of other files need it, not when a client announces a file. */
const char *store_refuses(const struct store *store, uint64_t size, uint64_t there,
                          char room[TRANSFER_TEXT_MAX]);
/* The following functions return 0, or -1 and errno: EDQUOT at a limit. */
/* Creates the temporary file. name: header->name_length bytes, accepted by transfer_bad_path(). */
int store_begin(struct store *store, struct incoming *file, const char *name,
                const struct transfer_header *header);
/* Creates the link or the folder (header->kind). target: of a link. */
int store_special(struct store *store, const char *name, const struct transfer_header *header,
                  const char *target);
int store_write(struct incoming *file, const void *data, size_t length, uint64_t offset);
/* Truncates the file to 0 bytes. */
int store_rewind(struct incoming *file);
/* Gives the complete file its permissions, time and name. */
int store_commit(struct incoming *file);
/* Removes the temporary file and releases its space. Does nothing after a commit. */
void store_discard(struct incoming *file);

#endif
