/* SPDX-License-Identifier: BSD-2-Clause */
/* outlet.h - exs-put's side of the protocol: sends files by exs_sendfile() and receives replies. */
#ifndef FILES_OUTLET_H
#define FILES_OUTLET_H

#include "client.h"

/* Owned by main. */
struct outlet {
    struct client client;                  /* connected when a file is sent */
    exs_qhandle_t queue;                   /* of the files' events; NULL: not made yet */
    bool quiet;                            /* draw no progress bar */
    bool hidden;                           /* names may begin with a dot */
    bool may_grow;                         /* bytes added to a file while it is sent are no failure */
    uint64_t resumed;                      /* bytes of the last file from an earlier attempt */
    uint64_t size;                         /* bytes of the last file */
    double seconds;                        /* duration of the last file, until the reply */
    unsigned char digest[TRANSFER_DIGEST]; /* of the last file */
};

/* Sends a file. 0, or -1 and sets the client's error; the connection is closed if it failed within a file. path: "-" is
 * standard input. named: see struct pick. name: the name under which the server stores it. */
int outlet_file(struct outlet *outlet, const char *path, size_t named, const char *name);
/* Receives the reply to a file that was sent: 0 if the server has stored it, and has computed outlet->digest. Else -1 and
 * sets the client's error. */
int outlet_receive_reply(struct outlet *outlet);
/* Frees what outlet_file() has made; the connection is closed. */
void outlet_end(struct outlet *outlet);

#endif
