/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink.h - the files that an exs_recvfile fills, and the memory between them. They are the pieces of the receive
 * (place.h); this module handles pieces that are ranges of files.
 *
 * On a STREAM the peer writes directly into the page cache if possible: blocks are allocated for a window of the file,
 * which is mapped, registered, and advertised as a place. The blocks are allocated first, so that a full disk is
 * detected before data is accepted from the peer, and no page is written to that the file system can't store. An
 * operation has one window at a time, so a file of any length pins no more than one. If the length of the file is not
 * known, the first windows are small.
 *
 * Otherwise bytes arrive in the ring buffer and are written to the file from there. That is so
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

/* Checks a vector, duplicates descriptors and opens paths. Returns NULL and one of exs_recvfile's errno on failure. */
struct sink *xs_sink_new(const exs_xferfile_t *vector, int count, bool is_stream, int flags);
/* Returns the pieces, one for each element; the base of one in a file is NULL. Owned by the sink. */
struct piece *xs_sink_pieces(struct sink *sink);
/* Returns true if the last element is a file that is filled until the end of the stream. */
bool xs_sink_is_open_ended(const struct sink *sink);

/* From now on no file is mapped. */
void xs_sink_copy_all(struct sink *sink);

/* Return true if this piece is in a file, and if it may have a window when `bytes` more bytes are expected. */
bool xs_sink_is_file(const struct sink *sink, uint32_t piece);
bool xs_sink_may_map(const struct sink *sink, uint32_t piece, uint64_t bytes);
/* Where the next bytes of a receive go (conn/place.h). */
struct place {
    uint8_t *addr;   /* in the ring buffer: the address by which the peer knows it */
    uint64_t length; /* bytes; 0: there is no place, all pieces are full */
    uint32_t rkey;   /* of a place that was opened */
};
/* Opens the window over byte `at` of the piece, unless it is open, and sets *place to its rest from there. Returns 0,
 * or -1 and errno: no file of this sink will be mapped from now on. */
int xs_sink_window(struct sink *sink, uint32_t piece, uint64_t at, struct domain *domain, struct place *place);
/* All bytes of the piece before `at` have arrived. Returns 0, or EIO if the file has become shorter since. */
int xs_sink_filled(struct sink *sink, uint64_t at, struct domain *domain);
/* Returns true if the file has become shorter than its window. */
bool xs_sink_is_cut(const struct sink *sink);

/* Writes bytes at byte `at` of a piece. Returns 0 or an errno; *bytes is the number of bytes written. */
int xs_sink_write(const struct sink *sink, uint32_t piece, uint64_t at, const uint8_t *from, uint64_t *bytes);

/* Frees the sink; bytes of the current piece from `at` on were not received. Returns 0, or EIO as above. */
int xs_sink_end(struct sink *sink, uint64_t at, struct domain *domain);

#endif
