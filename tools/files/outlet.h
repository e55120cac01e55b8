/* SPDX-License-Identifier: BSD-2-Clause */
/* outlet.h - the client's side of a conversation: files out with exs_sendfile, replies in; blocking calls. */
#ifndef FILES_OUTLET_H
#define FILES_OUTLET_H

#include "client.h"

/* Owned by main. */
struct outlet {
    struct client client;                  /* that has a conversation under way, when a file is sent */
    bool quiet;                            /* no progress bar is to be drawn */
    uint64_t resumed;                      /* bytes of the last file that were there from an earlier attempt */
    uint64_t size;                         /* bytes of the last file */
    double seconds;                        /* that the last file took, to the reply */
    unsigned char digest[TRANSFER_DIGEST]; /* of the last file */
};

/* 0, or -1 with the client's error filled in. After a failure in the midst of a file the conversation is over,
 * and closed. path: "-" is standard input. named: see struct pick. name: what it is to be stored under. */
int outlet_file(struct outlet *outlet, const char *path, size_t named, const char *name);

#endif
