/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transfer.h - what exs-put and exs-serve say to each other over an EXS stream.
 *
 * For each file, integers big-endian and of fixed width:
 *
 *   client   magic 4 | version 2 | name length 2 | size 8 | name | data | digest 16
 *   server   magic 4 | status 2 | text length 2 | digest 16 | text
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
    TRANSFER_HEADER = 16,    /* bytes of a header, without the name */
    TRANSFER_NAME_MAX = 255, /* bytes; what Linux file systems allow */
    TRANSFER_DIGEST = 16,    /* bytes of a digest */
    TRANSFER_REPLY = 24,     /* bytes of a reply, without the text */
    TRANSFER_TEXT_MAX = 200, /* bytes */
};

enum transfer_status {
    TRANSFER_STORED,    /* under its name, digests agreed */
    TRANSFER_MALFORMED, /* no header of ours, or another version's */
    TRANSFER_REFUSED,   /* a name or size that the server does not take */
    TRANSFER_FAILED,    /* the server could not write */
    TRANSFER_DIFFERS,   /* digests disagreed, nothing was stored */
};

struct transfer_header {
    size_t name_length; /* bytes, 1 to TRANSFER_NAME_MAX */
    uint64_t size;      /* bytes of data, at most INT64_MAX */
};

struct transfer_reply {
    enum transfer_status status;
    unsigned char digest[TRANSFER_DIGEST]; /* the server's; zeros before there is one */
    size_t text_length;                    /* bytes, at most TRANSFER_TEXT_MAX */
};

void transfer_put_header(unsigned char out[TRANSFER_HEADER], const struct transfer_header *header);
/* NULL, or what is wrong with it. */
const char *transfer_get_header(const unsigned char in[TRANSFER_HEADER], struct transfer_header *header);
void transfer_put_reply(unsigned char out[TRANSFER_REPLY], const struct transfer_reply *reply);
/* False where the bytes are no reply. */
bool transfer_get_reply(const unsigned char in[TRANSFER_REPLY], struct transfer_reply *reply);

/* NULL when a file may have this name in any directory, else why not. */
const char *transfer_bad_name(const char *name, size_t length);

void transfer_digest(XXH3_state_t *state, unsigned char out[TRANSFER_DIGEST]);
/* As text; out is a string then. */
void transfer_digest_text(const unsigned char digest[TRANSFER_DIGEST], char out[2 * TRANSFER_DIGEST + 1]);

#endif
