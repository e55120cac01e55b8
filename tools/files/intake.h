/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * intake.h - the server's side of the protocol: parses the bytes of a client, writes its files, and makes replies
 * or opens the file or list that the client gets (giving.h).
 *
 * This code does not know sockets. The caller feeds it the bytes that arrive, in pieces of any size. It stops at each
 * reply, which the caller must send before it feeds more.
 */
#ifndef FILES_INTAKE_H
#define FILES_INTAKE_H

#include <sys/socket.h>

#include "giving.h"
#include "store.h"
#include "transfer.h"

enum intake_state {
    INTAKE_HEADER,
    INTAKE_DETAILS,
    INTAKE_NAME,
    INTAKE_OFFSET,
    INTAKE_DATA,
    INTAKE_TARGET,
    INTAKE_DIGEST,
    INTAKE_REFUSED
};

/* Owned by one connection. */
struct intake {
    struct store *store;
    const struct sockaddr_storage *peer; /* an unfinished file is kept for this host only */
    enum intake_state state;
    unsigned char fixed[TRANSFER_PATH_MAX]; /* a head, details, a name, ... digest, as far as it has arrived */
    size_t have, want;                      /* bytes of `fixed` that are there, and that are needed */
    struct transfer_header header;
    char name[TRANSFER_PATH_MAX + 1];   /* of the file that arrives or is asked for, unchecked; or empty */
    char target[TRANSFER_PATH_MAX + 1]; /* of a link that arrives */
    uint64_t received;                  /* bytes of data, including those of an earlier attempt ... */
    uint64_t from;                      /* ... which are these */
    double started;                     /* when the header arrived, seconds of the monotonic clock */
    XXH3_state_t *hash;
    struct incoming file;
    struct transfer_reply result; /* the last reply */
    unsigned char reply[TRANSFER_REPLY + TRANSFER_TEXT_MAX];
    size_t reply_length;   /* bytes; set when a reply must be sent, cleared by the caller */
    struct giving *giving; /* what must be sent instead of a reply; see intake_take_giving() */
};

/* The store and the peer's address must outlive it. 0, or -1 and ENOMEM. */
int intake_open(struct intake *intake, struct store *store, const struct sockaddr_storage *peer);
/* Keeps an unfinished file if its client has asked for that, else removes it. */
void intake_close(struct intake *intake);
/* Returns the bytes consumed: fewer than length only if a reply must be sent, or `giving` is set. */
size_t intake_feed(struct intake *intake, const unsigned char *data, size_t length);
/* Returns `giving`, which the caller then owns. The next header may follow. */
struct giving *intake_take_giving(struct intake *intake);
/* Makes a reply that refuses the connection, and ignores all further bytes. */
void intake_refuse(struct intake *intake, const char *why);
/* The text of the last reply, as a string. */
const char *intake_text(const struct intake *intake);
/* Whether an unfinished file would be kept by intake_close(). */
bool intake_keeps(const struct intake *intake);
/* Whether it is between two files. */
bool intake_idle(const struct intake *intake);

#endif
