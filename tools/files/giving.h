/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * giving.h - the answer of exs-serve to a client's request: a regular file in pieces, the target of a symbolic link, or
 * the list of a folder.
 *
 * Only the served directory is opened: paths only descend, symbolic links are not followed, and a file whose name a
 * client could not store is reported as missing. A client that asks for all (TRANSFER_ALL) also gets links, as links.
 * This code does not use sockets. It builds vectors for exs_sendfile(), which point into struct giving until their
 * completion events.
 */
#ifndef FILES_GIVING_H
#define FILES_GIVING_H

#include <dirent.h>
#include <exs.h>
#include <stdbool.h>
#include <stdint.h>

#include "store.h"
#include "transfer.h"

enum {
    GIVING_PIECE = 1 << 20, /* maximum bytes of a file in one vector, and that the loop reads at once */
    GIVING_LIST = 16 << 10, /* bytes of a list in one vector */
    GIVING_FLYING = 8,      /* maximum vectors in flight; each completes a round trip later */
    GIVING_PARTS = 3,       /* elements of a vector */
};

/* Owned by one connection. */
struct giving {
    char name[TRANSFER_PATH_MAX + 1]; /* the requested path */
    int fd;                           /* of a file, or -1 */
    DIR *folder;                      /* of a list, or NULL */
    uint64_t size, from, sent;        /* bytes: the file; first byte to send; end of the last vector */
    uint64_t there, read;             /* bytes that the client claims to have; how many of them were read */
    size_t piece;                     /* bytes in the next vector, at most GIVING_PIECE */
    double started;                   /* seconds of the monotonic clock */
    bool over;                        /* the last vector was built */
    bool knows_links;                 /* version 4: the client supports links, and entries have details */
    bool archive;                     /* TRANSFER_ALL: the list includes links and hidden names */
    bool is_link;                     /* the requested name is a link; its target is sent from `target` */
    char target[TRANSFER_PATH_MAX + 1];
    XXH3_state_t *hash;            /* of a file */
    struct transfer_header header; /* the file's size and details; until they are known, the client's header */
    unsigned char front[TRANSFER_REPLY + TRANSFER_COMING], digest[TRANSFER_DIGEST];
    size_t front_length;                 /* bytes of `front` to send before the next vector */
    unsigned turn;                       /* index of the next buffer in `lists` */
    unsigned char (*lists)[GIVING_LIST]; /* GIVING_FLYING of them, for a list; else NULL */
};

/* Opens the requested file, link or folder. name: header->name_length bytes, unchecked. On failure returns NULL and
 * sets *why to the reason, a string; *failed is true if the cause is on the server, for example a lack of memory. */
struct giving *giving_open(struct store *store, const char *name, const struct transfer_header *header,
                           const char **why, bool *failed);
/* Whether the file is shorter than it was when the transfer began, which the transfer reports as EIO. */
bool giving_is_shorter(const struct giving *giving);
/* Frees it. No vector may be in flight. NULL is ignored. */
void giving_close(struct giving *giving);

/* Builds the next vector. Fewer than GIVING_FLYING vectors may be in flight. Returns its number of elements; 0 if none
 * is available now or, if giving->over, none remains; or -1 and errno. */
int giving_next(struct giving *giving, exs_xferfile_t vector[GIVING_PARTS]);
/* Whether the server must first read the bytes that the client claims to have: by giving_read(), until this is
 * false. */
bool giving_reads(const struct giving *giving);
/* Reads and hashes the next piece of these bytes. Returns 0, or -1 and errno. */
int giving_read(struct giving *giving);

#endif
