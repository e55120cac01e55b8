/* SPDX-License-Identifier: BSD-2-Clause */
/* outlet.h - the client's side of a conversation: files out with exs_sendfile, replies in; blocking calls. */
#ifndef FILES_OUTLET_H
#define FILES_OUTLET_H

#include <sys/socket.h>

#include "transfer.h"

/* Owned by main. */
struct outlet {
    int sock;                              /* -1: no conversation is under way */
    bool quiet;                            /* no progress bar is to be drawn */
    char device[32];                       /* what carries the connection */
    uint64_t resumed;                      /* bytes of the last file that were there from an earlier attempt */
    uint64_t size;                         /* bytes of the last file */
    double seconds;                        /* that the last file took, to the reply */
    unsigned char digest[TRANSFER_DIGEST]; /* of the last file */
    char error[TRANSFER_TEXT_MAX + 128];   /* after a failure: why, one line */
};

/* These return 0, or -1 with error filled in. After a failure in the midst of a file the conversation is over,
 * and closed. */
int outlet_open(struct outlet *outlet, const struct sockaddr *address, socklen_t length);
/* path: "-" is standard input. name: what it is to be stored under. */
int outlet_file(struct outlet *outlet, const char *path, const char *name);
int outlet_close(struct outlet *outlet);

#endif
