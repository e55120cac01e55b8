/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * intake.h - the server's side of the protocol: parses the bytes of a client, writes its files, and builds replies
 * or opens the file or list that the client asked for (giving.h).
 *
 * This code does not use sockets. The caller passes the received bytes to intake_feed(), in pieces of any size. The
 * parser stops at each reply, which the caller must send before it passes more bytes.
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
    const struct sockaddr_storage *peer; /* not owned; an unfinished file is kept for this host only */
    enum intake_state state;
    unsigned char fixed[TRANSFER_PATH_MAX]; /* the received part of a head, details, name, ... digest */
    size_t have, want;                      /* bytes received into `fixed`, and needed */
    struct transfer_header header;
    char name[TRANSFER_PATH_MAX + 1];   /* of the current file or request, unchecked; or empty */
    char target[TRANSFER_PATH_MAX + 1]; /* of the link that is received */
    uint64_t received;                  /* bytes of data, including those of an earlier attempt */
    uint64_t from;                      /* bytes of an earlier attempt */
    double started;                     /* arrival of the header, seconds of the monotonic clock */
    XXH3_state_t *hash;
    struct incoming file;
    struct transfer_reply result; /* the last reply */
    unsigned char reply[TRANSFER_REPLY + TRANSFER_TEXT_MAX];
    size_t reply_length;   /* bytes; not 0 while a reply must be sent; the caller resets it to 0 */
    struct giving *giving; /* must be sent instead of a reply; see intake_take_giving() */
};

/* The store and the peer's address must live longer than the intake. Returns 0, or -1 and ENOMEM. */
int intake_open(struct intake *intake, struct store *store, const struct sockaddr_storage *peer);
/* Keeps an unfinished file if its client asked for that (TRANSFER_ASKS), else removes it. */
void intake_close(struct intake *intake);
/* Returns the number of bytes consumed: fewer than length only if a reply must be sent or `giving` is set. */
size_t intake_feed(struct intake *intake, const unsigned char *data, size_t length);
/* Returns `giving`, which the caller then owns; the intake expects the next header. */
struct giving *intake_take_giving(struct intake *intake);
/* Builds a reply that refuses the connection, and ignores all further bytes. */
void intake_refuse(struct intake *intake, const char *why);
/* Returns the text of the last reply, as a string. */
const char *intake_text(const struct intake *intake);
/* Whether intake_close() would keep the unfinished file. */
bool intake_keeps(const struct intake *intake);
/* Whether the client is between two files. */
bool intake_idle(const struct intake *intake);

#endif
