/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink.h - the destination of an exs_recvfile: the elements of its vector, which are ranges of files or memory. They
 * are the pieces of the receive (conn/place.h); this module handles those that are ranges of files.
 *
 * On a STREAM the peer writes directly into the page cache if possible: blocks are allocated for a window of the file,
 * which is mapped, registered, and advertised as a place. The blocks are allocated first, so that a full disk is
 * detected before data is accepted from the peer, and no page is written to that the file system can't store. An
 * operation has one window at a time, so a file of any length pins no more than one. If the length of the file is not
 * known, the first windows are small.
 *
 * Otherwise bytes arrive in the ring buffer, and are written to the file from there. This happens
 *   - on the software device, unless EXS_MAP=1: a CPU copies the bytes anyway, and page faults, zeroed blocks and
 *     fault-safe copies (nofault.h) cost twice as much as a direct transfer saves;
 *   - if only few bytes are to come, if the descriptor is not open for reading, which a mapping requires, if the file
 *     system can't allocate blocks in advance, or if the device can't register the file's pages (since Linux 6.5 the
 *     kernel's own device can't for most disks).
 * Bytes that can't be written to the file stay in the stream for the next receive. A message of a SEQPACKET, which
 * needs a single place, is written to the files when it is complete.
 *
 * While a window extends beyond the end of its file, the file is longer than the received data; it is truncated
 * afterwards (grown.h).
 */
#ifndef XS_SINK_H
#define XS_SINK_H

#include <stdbool.h>
#include <stdint.h>
#include <exs.h>

struct domain;
struct piece;
struct sink; /* owned by its operation */

/* Checks a vector, duplicates descriptors and opens paths. Returns NULL and an errno of exs_recvfile on failure. */
struct sink *xs_sink_new(const exs_xferfile_t *vector, int count, bool is_stream, int flags);
/* Returns the pieces, one for each element; the base of a piece in a file is NULL. Owned by the sink. */
struct piece *xs_sink_pieces(struct sink *sink);
/* Returns true if the last element is a file that is filled until the end of the stream. */
bool xs_sink_is_open_ended(const struct sink *sink);

/* From now on opens no window: all bytes are copied. */
void xs_sink_copy_all(struct sink *sink);

/* Returns true if this piece is in a file. */
bool xs_sink_is_file(const struct sink *sink, uint32_t piece);
/* Returns true if this piece may have a window when `bytes` more bytes are expected. */
bool xs_sink_may_map(const struct sink *sink, uint32_t piece, uint64_t bytes);
/* A place: where the next bytes of a receive go (conn/place.h). */
struct place {
    uint8_t *addr;   /* its address; for a place in the ring buffer, the address by which the peer knows it */
    uint64_t length; /* bytes; 0: there is no place, because all pieces are full */
    uint32_t rkey;   /* the key by which the peer writes to the place, if the place is registered */
};
/* Opens a window that begins at byte `at` of the piece, unless a window is open, and sets *place to the part of the
 * window from byte `at` on. Returns 0, or -1 and errno; after a failure the sink opens no window any more. */
int xs_sink_window(struct sink *sink, uint32_t piece, uint64_t at, struct domain *domain, struct place *place);
/* Called when all bytes of the current piece before `at` have arrived: closes the window if it is full. Returns 0, or
 * EIO if the file has become shorter. */
int xs_sink_filled(struct sink *sink, uint64_t at, struct domain *domain);
/* Returns true if the file has become shorter than its window. */
bool xs_sink_is_cut(const struct sink *sink);

/* Writes *bytes bytes to the file of a piece, from byte `at` of the piece on, and sets *bytes to the number of bytes
 * written. Returns 0 or an errno. */
int xs_sink_write(const struct sink *sink, uint32_t piece, uint64_t at, const uint8_t *from, uint64_t *bytes);

/* Frees the sink. The bytes of the current piece from `at` on have not been received. Returns 0, or EIO if a file has
 * become shorter. */
int xs_sink_end(struct sink *sink, uint64_t at, struct domain *domain);

#endif
