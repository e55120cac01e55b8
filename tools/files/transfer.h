/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transfer.h - the protocol between exs-put or exs-get and exs-serve, over an EXS stream.
 *
 * For each file (integers are big-endian and of fixed width; the numbers are sizes in bytes):
 *
 *   client   magic 4 | version 2 | name length 2 | size 8 | details | name | data | digest 16
 *   server   magic 4 | status 2 | text length 2 | digest 16 | text
 *
 * Version 2 has details: mode 2 | flags 2 | nanoseconds 4 | seconds 8 (the file's modification time), and its name may
 * be a path with slashes. In version 1 there are no details and no paths. The server accepts both versions.
 *
 * With the flag TRANSFER_ASKS the client waits after the name for a reply TRANSFER_GO: the number of bytes that the
 * server has from an unfinished attempt (8, as the text), and their digest. The client then sends the offset from
 * which it continues (8), which is that number or 0, and the data from there.
 *
 * The flag TRANSFER_IS_LINK marks a symbolic link: the data are its target. TRANSFER_IS_FOLDER marks a folder, which
 * has no data. A server of release 2.1 refuses both as unknown flags.
 *
 * The digest is the 128-bit XXH3 hash of the data. The server replies after it has compared its digest with the
 * client's, or as soon as it refuses the file. After a refusal it closes the connection. A connection carries any
 * number of files, one after the other.
 *
 * Version 3 asks for a file:
 *
 *   client   magic 4 | version 2 | name length 2 | bytes there 8 | their digest 16 | name
 *   server   magic 4 | status 2 | text length 2 | zeros 16 | size 8 | from 8 | details 16 | data | digest 16
 *
 * with the status TRANSFER_COMES; the fields from size to details are the reply's text. "Bytes there" is the number of
 * bytes that the client has from an unfinished attempt. If the file begins with these bytes, the server sends the bytes
 * after them, otherwise all bytes from offset 0. The digest at the end is that of the whole file. If the server cannot
 * continue in the middle of a file, it closes the connection.
 *
 * A name that ends in a slash asks for the list of a folder, and the name "/" for that of the served directory; "bytes
 * there" is then 0. The server sends a reply TRANSFER_LISTS without a text, then an entry for each file and folder:
 *
 *   server   kind 1 | name length 2 | size 8 | name
 *
 * The last entry has the kind TRANSFER_NO_MORE. If the name is that of a file, the list has one entry for this file,
 * with an empty name.
 *
 * Version 4 is version 3 for a client that supports symbolic links. A link is sent like a file, with TRANSFER_IS_LINK
 * in its details and its target as the data. For a list "bytes there" is 0, or TRANSFER_ALL if the list must include
 * links and names that begin with a dot. The entries have details:
 *
 *   server   kind 1 | name length 2 | size 8 | details 16 | name
 *
 * The details of the last entry are those of the folder itself.
 * A server of release 2.1 refuses version 4 as unknown.
 */
#ifndef FILES_TRANSFER_H
#define FILES_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#define TRANSFER_PORT "7470" /* the default of client and server */

enum {
    TRANSFER_HEAD = 16,                                 /* bytes at the start of a header, in every version */
    TRANSFER_DETAILS = 16,                              /* bytes */
    TRANSFER_HEADER = TRANSFER_HEAD + TRANSFER_DETAILS, /* of a header, without the name */
    TRANSFER_NAME_MAX = 255,                            /* bytes; the limit of Linux file systems */
    TRANSFER_PATH_MAX = 4095,                           /* bytes of a path, and of a link's target */
    TRANSFER_FOLDERS_MAX = 256,                         /* folders in a path */
    TRANSFER_DIGEST = 16,                               /* bytes of a digest */
    TRANSFER_REPLY = 24,                                /* bytes of a reply, without the text */
    TRANSFER_TEXT_MAX = 200,                            /* bytes */
    TRANSFER_OFFSET = 8,                                /* bytes */
    TRANSFER_ASKS = 1,                                  /* a flag in the details; see above */
    TRANSFER_ALL = 1,                                   /* "bytes there" of a list; see above */
    TRANSFER_IS_LINK = 2,                               /* a flag in the details */
    TRANSFER_IS_FOLDER = 4,                             /* a flag in the details */
    TRANSFER_COMING = 16 + TRANSFER_DETAILS,            /* bytes of TRANSFER_COMES's text */
    TRANSFER_ENTRY = 11,                                /* bytes of an entry, without its details and name */
};

enum transfer_version { TRANSFER_PLAIN = 1, TRANSFER_DETAILED, TRANSFER_WANTS, TRANSFER_WANTS_LINKS };
enum transfer_kind { TRANSFER_NO_MORE, TRANSFER_FILE, TRANSFER_FOLDER, TRANSFER_LINK };

enum transfer_status {
    TRANSFER_STORED,    /* the digests are equal, and the file has its name */
    TRANSFER_MALFORMED, /* the header is invalid, or its version unknown */
    TRANSFER_REFUSED,   /* a name or size that the server does not accept */
    TRANSFER_FAILED,    /* the server could not write */
    TRANSFER_DIFFERS,   /* the digests differ, nothing was stored */
    TRANSFER_GO,        /* not final: the client may send the data */
    TRANSFER_COMES,     /* a requested file follows */
    TRANSFER_LISTS,     /* the list of a folder follows */
};

struct transfer_header {
    enum transfer_version version;
    size_t name_length;      /* bytes, 1 to TRANSFER_PATH_MAX, in version 1 to TRANSFER_NAME_MAX */
    uint64_t size;           /* bytes of data, at most INT64_MAX; in a request, those that the client has */
    bool asks;               /* flag TRANSFER_ASKS */
    enum transfer_kind kind; /* 0 also means TRANSFER_FILE */
    unsigned mode;           /* permissions, a subset of 0777 */
    int64_t seconds;         /* since 1970, in a year with four digits */
    uint32_t nanoseconds;    /* less than a second */
    unsigned char digest[TRANSFER_DIGEST]; /* in a request: of the bytes that the client has */
};

struct transfer_entry {
    enum transfer_kind kind;
    size_t name_length;             /* bytes, at most TRANSFER_NAME_MAX; 0: the requested name is a file */
    uint64_t size;                  /* bytes of a file or of a link's target, at most INT64_MAX */
    struct transfer_header details; /* set in a list of version 4; else zeros */
};

struct transfer_reply {
    enum transfer_status status;
    unsigned char digest[TRANSFER_DIGEST]; /* the server's digest; zeros if there is none yet */
    size_t text_length;                    /* bytes, at most TRANSFER_TEXT_MAX */
};

/* Whether the client asks for a file or a list. */
static inline bool transfer_is_wish(const struct transfer_header *header)
{
    return header->version >= TRANSFER_WANTS;
}

/* Encodes the header: as a request ("wish") if transfer_is_wish(), else as TRANSFER_DETAILED. */
void transfer_put_header(unsigned char out[TRANSFER_HEADER], const struct transfer_header *header);
/* Decode and check a header. Return NULL, or the error as a string. transfer_get_head() sets all fields. In version 2
 * the caller then passes the details to transfer_get_details(). */
const char *transfer_get_head(const unsigned char in[TRANSFER_HEAD], struct transfer_header *header);
const char *transfer_get_details(const unsigned char in[TRANSFER_DETAILS], struct transfer_header *header);
void transfer_put_reply(unsigned char out[TRANSFER_REPLY], const struct transfer_reply *reply);
/* Returns false if the bytes are not a valid reply. */
bool transfer_get_reply(const unsigned char in[TRANSFER_REPLY], struct transfer_reply *reply);

/* Encode and decode the offset: the text of TRANSFER_GO, and the client's answer to it. */
void transfer_put_offset(unsigned char out[TRANSFER_OFFSET], uint64_t offset);
uint64_t transfer_get_offset(const unsigned char in[TRANSFER_OFFSET]);

/* Encode and decode the text of TRANSFER_COMES: the header's size and details, and the offset of the data.
 * transfer_get_coming() returns NULL, or the error as a string. */
void transfer_put_coming(unsigned char out[TRANSFER_COMING], const struct transfer_header *header,
                         uint64_t from);
const char *transfer_get_coming(const unsigned char in[TRANSFER_COMING], struct transfer_header *header,
                                uint64_t *from);
void transfer_put_entry(unsigned char out[TRANSFER_ENTRY], const struct transfer_entry *entry);
/* Returns false if the bytes are not a valid entry. */
bool transfer_get_entry(const unsigned char in[TRANSFER_ENTRY], struct transfer_entry *entry);
/* Encode and decode the details of an entry in a list of version 4. transfer_read_details() returns NULL, or the error
 * as a string; the caller has set the size in the header. */
void transfer_put_details(unsigned char out[TRANSFER_DETAILS], const struct transfer_header *header);
const char *transfer_read_details(const unsigned char in[TRANSFER_DETAILS], struct transfer_header *header);

/* Returns NULL if a file may have this name in any directory, else the error as a string. hidden: the name may begin
 * with a dot, unless it is . or .. or that of a temporary file of these programs. */
const char *transfer_check_name(const char *name, size_t length, bool hidden);
/* Like transfer_check_name(), for a path. */
const char *transfer_check_path(const char *path, size_t length, bool hidden);

static inline const char *transfer_bad_name(const char *name, size_t length)
{
    return transfer_check_name(name, length, false);
}

static inline const char *transfer_bad_path(const char *path, size_t length)
{
    return transfer_check_path(path, length, false);
}

/* Computes the digest of these bytes. */
void transfer_hash(const void *bytes, size_t length, unsigned char out[TRANSFER_DIGEST]);
/* Writes the digest of the bytes that `state` has hashed so far. */
void transfer_digest(XXH3_state_t *state, unsigned char out[TRANSFER_DIGEST]);
/* Writes a digest as a hexadecimal string. */
void transfer_digest_text(const unsigned char digest[TRANSFER_DIGEST], char out[2 * TRANSFER_DIGEST + 1]);

#endif
