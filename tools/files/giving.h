/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * giving.h - what exs-serve sends to a client that asks for it: a regular file, piece by piece, or the list of a
 * folder.
 *
 * Nothing outside of the served directory is ever opened: paths only descend, no symbolic link is followed, and a file
 * whose name a client could not store is reported as missing. A link itself is given to a client that wants all. This code does not know sockets: it makes vectors for
 * exs_sendfile(), which point into struct giving until their events.
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
    GIVING_PIECE = 1 << 20, /* bytes of a file in one vector; also the most that the loop reads at once */
    GIVING_LIST = 16 << 10, /* bytes of a list in one vector */
    GIVING_FLYING = 8,      /* vectors that may be in flight at once: each is done a round trip later */
    GIVING_PARTS = 3,       /* elements of a vector */
};

/* Owned by one connection. */
struct giving {
    char name[TRANSFER_PATH_MAX + 1]; /* the path that was asked for */
    int fd;                           /* of a file, or -1 */
    DIR *folder;                      /* of a list, or NULL */
    uint64_t size, from, sent;        /* bytes: of the file; first byte to send; end of the last vector */
    uint64_t there, read;             /* bytes that the client says it has; of these, read so far */
    size_t piece;                     /* bytes in the next vector, at most GIVING_PIECE */
    double started;                   /* seconds of the monotonic clock */
    bool over;                        /* the last vector was made */
    bool knows_links;                 /* the client does, so entries have details */
    bool archive;                     /* the client wants links and hidden names, too */
    bool is_link;                     /* it is a link, and `target` is what it gets */
    char target[TRANSFER_PATH_MAX + 1];
    XXH3_state_t *hash;            /* of a file */
    struct transfer_header header; /* the file's details; before they are known, the client's header */
    unsigned char front[TRANSFER_REPLY + TRANSFER_COMING], digest[TRANSFER_DIGEST];
    size_t front_length;                 /* bytes of `front` to send before the next vector */
    unsigned turn;                       /* number of the next list buffer */
    unsigned char (*lists)[GIVING_LIST]; /* GIVING_FLYING of them, for a list; else NULL */
};

/* Opens what a client asks for. name: header->name_length bytes, unchecked. NULL: *why is the reason, a string, and
 * *failed is true if the server is at fault, for example short of memory. */
struct giving *giving_open(const struct store *store, const char *name, const struct transfer_header *header,
                           const char **why, bool *failed);
/* Frees it. No vector may be in flight. NULL is ignored. */
void giving_close(struct giving *giving);

/* Makes the next vector. Returns its number of elements; 0: there is none at the moment or, if giving->over, none
 * left; -1 and errno. Fewer than GIVING_FLYING vectors may be in flight. */
int giving_next(struct giving *giving, exs_xferfile_t vector[GIVING_PARTS]);
/* Whether the bytes that the client has must be read first: by giving_read(), until this is false. */
bool giving_reads(const struct giving *giving);
/* Reads the next piece of them, for their digest. 0, or -1 and errno. */
int giving_read(struct giving *giving);

#endif
