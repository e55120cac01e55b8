/* SPDX-License-Identifier: BSD-2-Clause */
/* fetch.h - exs-get's side of a conversation: wishes out, files and lists in; blocking calls. Nothing that the
 * server says is taken on trust. */
#ifndef FILES_FETCH_H
#define FILES_FETCH_H

#include "block.h"
#include "client.h"
#include "landing.h"

/* What a server may list in all. */
enum {
    FETCH_LISTED_MAX = 1000000,     /* entries */
    FETCH_LISTED_BYTES = 128 << 20, /* of their paths, which are kept */
};

/* Owned by main; begins as zeros, but for sock, limit and block. */
struct fetch {
    struct client client;                  /* that has a conversation under way, when something is asked for */
    bool quiet;                            /* no progress bar is to be drawn */
    uint64_t limit;                        /* bytes that a file may have */
    struct block *block;                   /* what data comes into */
    uint64_t listed, listed_bytes;         /* entries so far, and bytes of their paths */
    uint64_t resumed;                      /* bytes of the last file that were there from an earlier attempt */
    uint64_t size;                         /* bytes of the last file */
    double seconds;                        /* that the last file took */
    unsigned char digest[TRANSFER_DIGEST]; /* of the last file */
};

/* These return 0, or -1 with the client's error filled in. After a failure of the conversation that is over,
 * and closed. */
/* path: the server's name of it. */
int fetch_file(struct fetch *fetch, const char *path, struct landing *landing);
/* What the folder has whose path this is, with a slash at its end: found is called for each entry, its name
 * being checked by transfer_bad_name, or for the only one of a file empty. found returns 0, or -1 and errno. */
int fetch_list(struct fetch *fetch, const char *path,
               int (*found)(void *context, const struct transfer_entry *entry, const char *name),
               void *context);

#endif
