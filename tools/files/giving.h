/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * giving.h - what exs-serve gives to a client that asks for it: a regular file, piece by piece, or the list of
 * what a folder has.
 *
 * Nothing outside of the served directory is ever opened: names go down only, no symbolic link is followed, and
 * what has a name that no client may give to a file is not there. Knows nothing of sockets: makes vectors for
 * exs_sendfile, which point into it until their events.
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
    GIVING_PIECE = 1 << 20, /* bytes of a file in one vector; also the longest that the loop reads in one go */
    GIVING_LIST = 16 << 10, /* bytes of a list in one vector */
    GIVING_FLYING = 2,      /* vectors that may be under way at once */
    GIVING_PARTS = 3,       /* elements of a vector */
};

/* Owned by one connection. */
struct giving {
    char name[TRANSFER_PATH_MAX + 1]; /* what was asked for */
    int fd;                           /* of a file, or -1 */
    DIR *folder;                      /* of a list, or NULL */
    uint64_t size, from, sent;        /* bytes: of the file, from where, and to where handed out */
    uint64_t there, read;             /* bytes that the client says it has, and read of those so far */
    size_t piece;                     /* bytes of a file in one vector, at most GIVING_PIECE */
    double started;                   /* seconds, of the monotonic clock */
    bool over;                        /* everything was handed out */
    XXH3_state_t *hash;               /* of a file */
    struct transfer_header header;    /* of a file: its details; before that, what the client has */
    unsigned char front[TRANSFER_REPLY + TRANSFER_COMING], digest[TRANSFER_DIGEST];
    size_t front_length; /* bytes that go before what is next */
    unsigned turn;       /* of lists */
    unsigned char lists[GIVING_FLYING][GIVING_LIST];
};

/* name: of header->name_length bytes, unchecked. NULL: why not is a string in room, and failed says whose fault
 * it is, a server's that is short of something. */
struct giving *giving_open(const struct store *store, const char *name, const struct transfer_header *header,
                           const char **why, bool *failed);
/* When nothing of it is under way. NULL: nothing happens. */
void giving_close(struct giving *giving);

/* The next vector: its elements, 0 when there is none now or, if giving->over, any more; -1 and errno. Not
 * while GIVING_FLYING are under way. */
int giving_next(struct giving *giving, exs_xferfile_t vector[GIVING_PARTS]);
/* What the client has is to be read first: by giving_read, until this is false. */
bool giving_reads(const struct giving *giving);
/* A piece of it. 0, or -1 and errno. */
int giving_read(struct giving *giving);

#endif
