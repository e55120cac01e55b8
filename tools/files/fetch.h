/* SPDX-License-Identifier: BSD-2-Clause */
/* fetch.h - exs-get's requests: gets files and lists from the server, by blocking calls. Everything that the server
 * sends is checked. */
#ifndef FILES_FETCH_H
#define FILES_FETCH_H

#include "block.h"
#include "client.h"
#include "landing.h"
#include "picks.h"

/* The maximum that a server may list in all. */
enum {
    FETCH_ASK_MAX = 16,             /* files that are asked for in one message */
    FETCH_LISTED_MAX = 1000000,     /* entries */
    FETCH_LISTED_BYTES = 128 << 20, /* of their paths, which are kept in memory */
};

/* Owned by main; initially zero, but for client.sock, limit and block. */
struct fetch {
    struct client client;                  /* connected when a request is made */
    bool detailed;                         /* version 4 is spoken */
    unsigned takes;                        /* a set of PICKS_...; if it isn't 0, `detailed` is set */
    bool quiet;                            /* draw no progress bar */
    uint64_t limit;                        /* maximum bytes of a file */
    struct block *block;                   /* receive buffers */
    uint64_t listed, listed_bytes;         /* entries so far, and bytes of their paths */
    struct transfer_header folder;         /* details of the folder that was listed last */
    uint64_t resumed;                      /* bytes of the last file from an earlier attempt */
    uint64_t size;                         /* bytes of the last file */
    double seconds;                        /* duration of the last file */
    unsigned char digest[TRANSFER_DIGEST]; /* of the last file */
};

/* These return 0, or -1 and set the client's error. If the connection has failed it is closed. */
/* Gets one file or link. path: its path on the server. */
int fetch_file(struct fetch *fetch, const char *path, struct landing *landing);
/* The same in two steps, for a file of which nothing is there: asks for several in one message, then gets each, in
 * this order. */
int fetch_ask(struct fetch *fetch, const char *const *paths, int count);
int fetch_asked(struct fetch *fetch, const char *path, struct landing *landing);
/* Lists a folder, whose path ends in a slash. Calls found() for each entry, with a name that transfer_bad_name()
 * accepts; if the path is a file's, once with an empty name. found() returns 0, or -1 and errno. */
int fetch_list(struct fetch *fetch, const char *path,
               int (*found)(void *context, const struct transfer_entry *entry, const char *name),
               void *context);

#endif
