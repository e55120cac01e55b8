/* SPDX-License-Identifier: BSD-2-Clause */
/* outlet.h - the client's side of the protocol in exs-put: sends files by exs_sendfile() and receives replies. */
#ifndef FILES_OUTLET_H
#define FILES_OUTLET_H

#include "client.h"

/* Owned by main. */
struct outlet {
    struct client client;                  /* connected when a file is sent */
    exs_qhandle_t queue;                   /* for the events of exs_sendfile(); NULL: not created yet */
    bool quiet;                            /* draw no progress bar */
    bool hidden;                           /* names may begin with a dot */
    bool may_grow;                         /* a file may grow while it is sent; otherwise that is a failure */
    uint64_t resumed;                      /* bytes of the last file from an earlier attempt */
    uint64_t size;                         /* bytes of the last file */
    double seconds;                        /* duration of the last file, until the reply */
    unsigned char digest[TRANSFER_DIGEST]; /* of the last file */
};

/* Sends a file. Returns 0, or -1 and sets the client's error; a failure in the middle of a file closes the connection.
 * path: "-" is standard input. named: see struct pick. name: the name under which the server stores the file. */
int outlet_file(struct outlet *outlet, const char *path, size_t named, const char *name);
/* Receives the reply to a file that was sent. Returns 0 if the server has stored the file and its digest is
 * outlet->digest, else -1 and sets the client's error. */
int outlet_receive_reply(struct outlet *outlet);
/* Frees the queue of outlet_file(). The caller has closed the connection. */
void outlet_end(struct outlet *outlet);

#endif
