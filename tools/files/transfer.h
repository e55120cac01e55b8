/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transfer.h - what exs-put and exs-serve say to each other over an EXS stream.
 *
 * For each file, integers big-endian and of fixed width:
 *
 *   client   magic 4 | version 2 | name length 2 | size 8 | details | name | data | digest 16
 *   server   magic 4 | status 2 | text length 2 | digest 16 | text
 *
 * Version 2 has details: mode 2 | flags 2 | nanoseconds 4 | seconds 8, of the file's last change; and a name
 * may be a path, with slashes. Version 1 has neither, and is taken, too.
 *
 * With the flag TRANSFER_ASKS the client waits behind the name, for a reply TRANSFER_GO: how many bytes are
 * there from an attempt that was broken off (8, as its text), and their digest. Then it says where it goes on
 * (8), which is there or at 0, and sends the data from there.
 *
 * The digest is XXH3's, 128 bits, of the data. The server answers when it has compared its own with the
 * client's, or as soon as it refuses; after a refusal it ends the conversation. One connection carries as many
 * files as the client likes, one after the other.
 */
#ifndef FILES_TRANSFER_H
#define FILES_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#define TRANSFER_PORT "7470" /* what both ends use unless told */

enum {
    TRANSFER_HEAD = 16,                                 /* bytes that a header begins with in every version */
    TRANSFER_DETAILS = 16,                              /* bytes */
    TRANSFER_HEADER = TRANSFER_HEAD + TRANSFER_DETAILS, /* of a header, without the name */
    TRANSFER_NAME_MAX = 255,                            /* bytes; what Linux file systems allow */
    TRANSFER_PATH_MAX = 1023,                           /* bytes, of names with slashes between them */
    TRANSFER_FOLDERS_MAX = 32,                          /* that a path may name */
    TRANSFER_DIGEST = 16,                               /* bytes of a digest */
    TRANSFER_REPLY = 24,                                /* bytes of a reply, without the text */
    TRANSFER_TEXT_MAX = 200,                            /* bytes */
    TRANSFER_OFFSET = 8,                                /* bytes */
    TRANSFER_ASKS = 1,                                  /* a flag */
};

enum transfer_status {
    TRANSFER_STORED,    /* under its name, digests agreed */
    TRANSFER_MALFORMED, /* no header of ours, or another version's */
    TRANSFER_REFUSED,   /* a name or size that the server does not take */
    TRANSFER_FAILED,    /* the server could not write */
    TRANSFER_DIFFERS,   /* digests disagreed, nothing was stored */
    TRANSFER_GO,        /* no end yet: the data may come */
};

struct transfer_header {
    unsigned version;     /* 1 or 2; what is sent is 2 */
    size_t name_length;   /* bytes, 1 to TRANSFER_PATH_MAX, in version 1 to TRANSFER_NAME_MAX */
    uint64_t size;        /* bytes of data, at most INT64_MAX */
    bool asks;            /* where to go on */
    unsigned mode;        /* permissions, none but those of 0777 */
    int64_t seconds;      /* since 1970 began, of a year with four digits */
    uint32_t nanoseconds; /* under a second's */
};

struct transfer_reply {
    enum transfer_status status;
    unsigned char digest[TRANSFER_DIGEST]; /* the server's; zeros before there is one */
    size_t text_length;                    /* bytes, at most TRANSFER_TEXT_MAX */
};

void transfer_put_header(unsigned char out[TRANSFER_HEADER], const struct transfer_header *header);
/* These return NULL, or what is wrong with it. The first one fills all in; with version 2 there are details. */
const char *transfer_get_head(const unsigned char in[TRANSFER_HEAD], struct transfer_header *header);
const char *transfer_get_details(const unsigned char in[TRANSFER_DETAILS], struct transfer_header *header);
void transfer_put_reply(unsigned char out[TRANSFER_REPLY], const struct transfer_reply *reply);
/* False where the bytes are no reply. */
bool transfer_get_reply(const unsigned char in[TRANSFER_REPLY], struct transfer_reply *reply);

/* What TRANSFER_GO has as its text, and what answers it. */
void transfer_put_offset(unsigned char out[TRANSFER_OFFSET], uint64_t offset);
uint64_t transfer_get_offset(const unsigned char in[TRANSFER_OFFSET]);

/* NULL when a file may have this name in any directory, else why not. */
const char *transfer_bad_name(const char *name, size_t length);
/* The same of names with slashes between them. */
const char *transfer_bad_path(const char *path, size_t length);

void transfer_digest(XXH3_state_t *state, unsigned char out[TRANSFER_DIGEST]);
/* As text; out is a string then. */
void transfer_digest_text(const unsigned char digest[TRANSFER_DIGEST], char out[2 * TRANSFER_DIGEST + 1]);

#endif
