/* SPDX-License-Identifier: BSD-2-Clause */
/* fetch.h - the client's side of the protocol in exs-get: gets files and lists from the server with blocking calls.
 * All that the server sends is checked. */
#ifndef FILES_FETCH_H
#define FILES_FETCH_H

#include "block.h"
#include "client.h"
#include "landing.h"
#include "picks.h"

enum {
    FETCH_ASK_MAX = 16,             /* files requested in one message */
    FETCH_LISTED_MAX = 1000000,     /* maximum entries in all lists */
    FETCH_LISTED_BYTES = 128 << 20, /* maximum bytes of their paths, which are kept in memory */
};

/* Owned by main, which sets client.sock, limit and block; the rest is initially zero. */
struct fetch {
    struct client client;                  /* connected when a request is made */
    bool detailed;                         /* requests use version 4 of the protocol */
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

/* These functions return 0, or -1 and set the client's error. A connection that has failed is closed. */
/* Gets one file or link. path: its path on the server. */
int fetch_file(struct fetch *fetch, const char *path, struct landing *landing);
/* fetch_file() in two steps, for files without a part from an earlier attempt: fetch_ask() requests several files in
 * one message, fetch_asked() gets the next one. The order must be the same. */
int fetch_ask(struct fetch *fetch, const char *const *paths, int count);
int fetch_asked(struct fetch *fetch, const char *path, struct landing *landing);
/* Lists a folder, whose path ends in a slash. Calls found() for each entry, with a name that transfer_bad_name()
 * accepts; if the path is that of a file, once with an empty name. found() returns 0, or -1 and errno. */
int fetch_list(struct fetch *fetch, const char *path,
               int (*found)(void *context, const struct transfer_entry *entry, const char *name),
               void *context);

#endif
