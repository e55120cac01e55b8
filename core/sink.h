/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink.h - the files, and the memory between them, that an exs_recvfile fills. They are the pieces of a receive
 * (place.h); what is different of a piece that lies in a file is here.
 *
 * On a STREAM the peer writes into the page cache itself, where that can be: a window of the file is given its
 * blocks, mapped, registered and opened as a place. The blocks come first, so that a disk that is full is found
 * before anything is taken from the peer, and nobody touches pages that can't be had. The windows of an
 * operation follow each other, so that a file of any length pins no more than one; they are small at first
 * where nobody knows how long the file will be.
 *
 * Else bytes come by the hidden buffer and are written from there. On the embedded device, always, unless
 * EXS_MAP=1: there a processor copies anyway, and page faults, zeroed blocks and guarded copies
 * (fragile.h) cost twice what is saved. On others where only little is to come, where the descriptor may not be
 * read, which a mapping needs, where the file system can't give blocks beforehand or the device can't register
 * its pages (the kernel's own doesn't those of most disks, since 6.5). What can't be written stays in the
 * stream, for the next receive. A message of a SEQPACKET, which has to have one place, is written when it is
 * complete.
 *
 * While a window lies beyond the end of its file, the file is longer than what came; it is cut back then.
 */
#ifndef XS_SINK_H
#define XS_SINK_H

#include <stdbool.h>
#include <stdint.h>
#include <exs.h>

struct domain;
struct piece;
struct place;
struct sink; /* owned by its operation */

/* Everything checked, descriptors duplicated, paths opened. NULL and errno as exs_recvfile has them. */
struct sink *xs_sink_new(const exs_xferfile_t *vector, int count, bool is_stream, int flags);
/* As many as elements; the base of one in a file is NULL. The sink's. */
struct piece *xs_sink_pieces(struct sink *sink);
/* The last one is a file that is filled as long as something comes. */
bool xs_sink_is_open_ended(const struct sink *sink);

/* Map nothing. */
void xs_sink_copy_all(struct sink *sink);

/* Does this piece lie in a file? And may there be a window over it, with so many bytes to come? */
bool xs_sink_is_file(const struct sink *sink, uint32_t piece);
bool xs_sink_may_map(const struct sink *sink, uint32_t piece, uint64_t bytes);
/* The window over byte `at` of the piece, and what follows. 0, or -1 and errno: there is none, and won't be. */
int xs_sink_window(struct sink *sink, uint32_t piece, uint64_t at, struct domain *domain, struct place *place);
/* All of the piece before `at` is there. 0, or EIO: it was, and the file has become shorter. */
int xs_sink_filled(struct sink *sink, uint64_t at, struct domain *domain);
/* Has the file become shorter than what the peer may write into? */
bool xs_sink_is_cut(const struct sink *sink);

/* Write them at byte `at` of a piece: 0 or an errno, and *bytes were written. */
int xs_sink_write(const struct sink *sink, uint32_t piece, uint64_t at, const uint8_t *from, uint64_t *bytes);

/* Nothing comes any more behind byte `at` of the piece that was being filled. 0, or EIO as above. */
int xs_sink_end(struct sink *sink, uint64_t at, struct domain *domain);

#endif
