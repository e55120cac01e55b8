/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * intake.h - the server's side of a conversation: bytes in, files and replies out, and what clients want.
 *
 * Knows nothing of sockets. Feed it what arrives, in pieces of any size; it stops at each reply, which is to be
 * sent before more is fed.
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
    INTAKE_DIGEST,
    INTAKE_REFUSED
};

/* Owned by one connection. */
struct intake {
    struct store *store;
    const struct sockaddr_storage *peer; /* whose file is kept for that host only */
    enum intake_state state;
    unsigned char
        fixed[TRANSFER_PATH_MAX]; /* a head, details, a name, an offset or a digest, as far as it is there */
    size_t have, want;            /* bytes of fixed, where all of them fit */
    struct transfer_header header;
    char name[TRANSFER_PATH_MAX + 1]; /* of what comes or is wanted, unchecked; or empty */
    uint64_t received;                /* bytes of data, those of an earlier attempt included ... */
    uint64_t from;                    /* ... which are these */
    double started;                   /* seconds, of the monotonic clock, at the header */
    XXH3_state_t *hash;
    struct incoming file;
    struct transfer_reply result; /* what the last reply says */
    unsigned char reply[TRANSFER_REPLY + TRANSFER_TEXT_MAX];
    size_t reply_length;   /* bytes; set when a reply is due, cleared by whoever sent it */
    struct giving *giving; /* what the client is to get now, in place of a reply; see intake_take_giving */
};

/* The store and the peer's address stay the caller's. 0, or -1 and ENOMEM. */
int intake_open(struct intake *intake, struct store *store, const struct sockaddr_storage *peer);
/* An unfinished file is kept if its client asked, else removed. */
void intake_close(struct intake *intake);
/* Returns the bytes taken, fewer than length only when a reply is due, or something to be given. */
size_t intake_feed(struct intake *intake, const unsigned char *data, size_t length);
/* What is to be given is the caller's now, and the next header may come. */
struct giving *intake_take_giving(struct intake *intake);
/* Answers at once, and takes nothing. */
void intake_refuse(struct intake *intake, const char *why);
/* The text of the last reply, a string. */
const char *intake_text(const struct intake *intake);
/* What has arrived of the file is kept when this ends. */
bool intake_keeps(const struct intake *intake);
/* Between files. */
bool intake_idle(const struct intake *intake);

#endif
