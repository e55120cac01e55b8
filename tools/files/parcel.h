/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * parcel.h - small files, links and folders that exs-put sends together: one send for many, and the replies are
 * received while the server stores the next parcel.
 *
 * The server sees no difference: a stream of files. It answers each, and after a refusal it reads no more: what is
 * behind that must be sent again.
 */
#ifndef FILES_PARCEL_H
#define FILES_PARCEL_H

#include "outlet.h"
#include "picks.h"

enum {
    PARCEL_FILES = 64,         /* so the replies that are under way are short of any receive buffer */
    PARCEL_BYTES = 256 << 10,  /* of a parcel */
    PARCEL_FILE_MAX = 64 << 10 /* bytes of a file that goes into one */
};

struct parcel {
    size_t length;            /* bytes */
    unsigned count, answered; /* files, and those that have their reply */
    struct parcel_item {
        struct pick *pick;
        uint64_t size;  /* bytes */
        double started; /* seconds of the monotonic clock */
        unsigned char digest[TRANSFER_DIGEST];
    } items[PARCEL_FILES];
    unsigned char bytes[PARCEL_BYTES];
};

enum parcel_result {
    PARCEL_TAKEN,  /* it is in the parcel */
    PARCEL_FULL,   /* there is no room for it */
    PARCEL_LARGE,  /* outlet_file() has to send it */
    PARCEL_FAILED, /* it can't be sent, and the client's error says why */
};

/* Reads a file, a link or a folder into the parcel. */
enum parcel_result parcel_add(struct parcel *parcel, struct outlet *outlet, struct pick *pick);
/* These return 0, or -1 and set the client's error. */
int parcel_send(const struct parcel *parcel, struct outlet *outlet);
/* Receives the reply to the next one that has none yet. */
int parcel_receive(struct parcel *parcel, struct outlet *outlet);

#endif
