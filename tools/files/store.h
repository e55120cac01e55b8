/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.h - a directory that files arrive in.
 *
 * A file is written under a temporary name, which no client can choose, and gets its own name when it is whole;
 * a file or a link that had that name is replaced in one step, anything else is left alone (ENODEV, EISDIR).
 * Nothing outside the directory is ever touched: names go down only, and no symbolic link is followed.
 */
#ifndef FILES_STORE_H
#define FILES_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "transfer.h"

enum { STORE_COPY = 128 << 10 }; /* bytes: stays in a processor's own cache */

/* What may be stored while the server runs, and whether it may be read. */
struct store_limits {
    uint64_t file;  /* bytes of one file; 0: what is left of all */
    uint64_t total; /* bytes of all files; 0: half of what the file system has free at the start */
    uint64_t files; /* how many, and how many folders were made for them */
    int keep;       /* seconds that a file that was broken off is kept; 0: it is not */
    bool gives;     /* clients may have what is there; see giving.h */
    bool syncs;     /* a file is on the disk before it is stored */
};

struct store {
    struct store_limits limits;
    STAILQ_HEAD(, kept) kept; /* see kept.h */
    int kept_count;
    uint64_t bytes, files;          /* taken so far; those of files that are still arriving included */
    int directory;                  /* locked while open, so that two servers never share one */
    unsigned next;                  /* for temporary names */
    mode_t mask;                    /* of permissions that no file gets, as umask */
    unsigned char copy[STORE_COPY]; /* of what is written next; of use to one thread */
};

/* A file on its way. Owned by whoever began it; fd is -1 when there is none. */
struct incoming {
    struct store *store;
    int fd;
    uint64_t written; /* bytes */
    char temporary[32];
    dev_t device; /* of what had that name when it began ... */
    ino_t inode;  /* ... */
    char name[TRANSFER_PATH_MAX + 1];
    struct transfer_header header; /* what it is to be */
};

/* Removes what an earlier server left unfinished. 0, or -1 and errno: EBUSY when another server has it. */
int store_open(struct store *store, const char *path, const struct store_limits *limits);
/* With all that is kept. */
void store_close(struct store *store);

/* May a file of this size come, of which so much is there? NULL, or why not: a string in room. What is kept
 * is room as well: it gives way when data comes, and not to who only says so. */
const char *store_refuses(const struct store *store, uint64_t size, uint64_t there,
                          char room[TRANSFER_TEXT_MAX]);
/* name: of header->name_length bytes, checked by transfer_bad_path. These return 0, or -1 and errno: EDQUOT at
 * a limit. */
int store_begin(struct store *store, struct incoming *file, const char *name,
                const struct transfer_header *header);
int store_write(struct incoming *file, const void *data, size_t length, uint64_t offset);
/* What was written is no more. */
int store_rewind(struct incoming *file);
int store_commit(struct incoming *file);
/* As if it had never begun; nothing to do after a commit. */
void store_discard(struct incoming *file);

#endif
