/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * parcel.h - a batch of small files, links and folders that exs-put sends in one operation. Their replies are received
 * while the server stores the next parcel.
 *
 * For the server a parcel is a stream of files like any other. It replies to each file. After a refusal it reads no
 * more, so the files after the refused one must be sent again.
 */
#ifndef FILES_PARCEL_H
#define FILES_PARCEL_H

#include "outlet.h"
#include "picks.h"

enum {
    PARCEL_FILES = 64,         /* maximum files: the replies in flight then fit the smallest receive buffer */
    PARCEL_BYTES = 256 << 10,  /* maximum bytes of a parcel */
    PARCEL_FILE_MAX = 64 << 10 /* maximum bytes of a file in a parcel */
};

struct parcel {
    size_t length;            /* bytes */
    unsigned count, answered; /* files, and replies received */
    struct parcel_item {
        struct pick *pick;
        uint64_t size;  /* bytes */
        double started; /* seconds of the monotonic clock */
        unsigned char digest[TRANSFER_DIGEST];
    } items[PARCEL_FILES];
    unsigned char bytes[PARCEL_BYTES];
};

enum parcel_result {
    PARCEL_TAKEN,  /* the file was added */
    PARCEL_FULL,   /* the file does not fit into this parcel */
    PARCEL_LARGE,  /* the file must be sent by outlet_file() */
    PARCEL_FAILED, /* the file cannot be sent, and the client's error is set */
};

/* Reads a file, a link or a folder into the parcel. */
enum parcel_result parcel_add(struct parcel *parcel, struct outlet *outlet, struct pick *pick);
/* These functions return 0, or -1 and set the client's error. */
int parcel_send(const struct parcel *parcel, struct outlet *outlet);
/* Receives the reply to the first file that has none yet. */
int parcel_receive(struct parcel *parcel, struct outlet *outlet);

#endif
