/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transfer.h - what exs-put and exs-get say to exs-serve over an EXS stream, and it to them.
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
 *
 * Version 3 asks for a file:
 *
 *   client   magic 4 | version 2 | name length 2 | bytes there 8 | their digest 16 | name
 *   server   magic 4 | status 2 | text length 2 | zeros 16 | size 8 | from 8 | details 16 | data | digest 16
 *
 * with the status TRANSFER_COMES, and what is from size to details as its text. The client says what it has
 * from an attempt that was broken off; the server sends what is behind that if that is what the file begins
 * with, and else from 0, and at the end the digest of the whole file. If it can't go on it closes the
 * connection.
 *
 * With a slash at the end of the name, or as the name, the folder is asked for, or all that is served, and no
 * bytes are there. The answer is a reply TRANSFER_LISTS without a text, and entries of what is in the folder:
 *
 *   server   kind 1 | name length 2 | size 8 | name
 *
 * the last of the kind TRANSFER_NO_MORE. If the name is a file's there is one entry, the file, with no name.
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
    TRANSFER_COMING = 16 + TRANSFER_DETAILS,            /* bytes of TRANSFER_COMES's text */
    TRANSFER_ENTRY = 11,                                /* of an entry, without its name */
};

enum transfer_version { TRANSFER_PLAIN = 1, TRANSFER_DETAILED, TRANSFER_WANTS };
enum transfer_kind { TRANSFER_NO_MORE, TRANSFER_FILE, TRANSFER_FOLDER };

enum transfer_status {
    TRANSFER_STORED,    /* under its name, digests agreed */
    TRANSFER_MALFORMED, /* no header of ours, or another version's */
    TRANSFER_REFUSED,   /* a name or size that the server does not take */
    TRANSFER_FAILED,    /* the server could not write */
    TRANSFER_DIFFERS,   /* digests disagreed, nothing was stored */
    TRANSFER_GO,        /* no end yet: the data may come */
    TRANSFER_COMES,     /* a file that was asked for */
    TRANSFER_LISTS,     /* what a folder has */
};

struct transfer_header {
    enum transfer_version version;
    size_t name_length;   /* bytes, 1 to TRANSFER_PATH_MAX, in version 1 to TRANSFER_NAME_MAX */
    uint64_t size;        /* bytes of data, at most INT64_MAX; of TRANSFER_WANTS, those that are there */
    bool asks;            /* where to go on */
    unsigned mode;        /* permissions, none but those of 0777 */
    int64_t seconds;      /* since 1970 began, of a year with four digits */
    uint32_t nanoseconds; /* under a second's */
    unsigned char digest[TRANSFER_DIGEST]; /* of TRANSFER_WANTS: of what is there */
};

struct transfer_entry {
    enum transfer_kind kind;
    size_t name_length; /* bytes, at most TRANSFER_NAME_MAX; 0: what was asked for */
    uint64_t size;      /* bytes of a file, at most INT64_MAX */
};

struct transfer_reply {
    enum transfer_status status;
    unsigned char digest[TRANSFER_DIGEST]; /* the server's; zeros before there is one */
    size_t text_length;                    /* bytes, at most TRANSFER_TEXT_MAX */
};

/* As TRANSFER_WANTS if that is its version, else as TRANSFER_DETAILED. */
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

/* What TRANSFER_COMES has as its text: header's size and details, and where the data begin. The second returns
 * NULL, or what is wrong. */
void transfer_put_coming(unsigned char out[TRANSFER_COMING], const struct transfer_header *header,
                         uint64_t from);
const char *transfer_get_coming(const unsigned char in[TRANSFER_COMING], struct transfer_header *header,
                                uint64_t *from);
void transfer_put_entry(unsigned char out[TRANSFER_ENTRY], const struct transfer_entry *entry);
/* False where the bytes are no entry. */
bool transfer_get_entry(const unsigned char in[TRANSFER_ENTRY], struct transfer_entry *entry);

/* NULL when a file may have this name in any directory, else why not. */
const char *transfer_bad_name(const char *name, size_t length);
/* The same of names with slashes between them. */
const char *transfer_bad_path(const char *path, size_t length);

void transfer_digest(XXH3_state_t *state, unsigned char out[TRANSFER_DIGEST]);
/* As text; out is a string then. */
void transfer_digest_text(const unsigned char digest[TRANSFER_DIGEST], char out[2 * TRANSFER_DIGEST + 1]);

#endif
