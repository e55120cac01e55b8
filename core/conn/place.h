/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * place.h - where the bytes of a receive go. A place is the memory that the next bytes of a receive are written to, as
 * a span (message.h) is the memory that the next bytes of a send are read from.
 *
 * A receive fills pieces of the application's memory in their order; an exs_recv has one. Its next place is the rest
 * of the first piece that is not full. Bytes get there in one of two ways. The peer writes them into a place that was
 * opened (registered) and advertised to it; the device checks each access. Or EXS copies them out of the ring buffer;
 * if the memory may be unmapped, this module makes fault-safe copies (nofault.h).
 *
 * A piece may also be a range of a file, see sink.h.
 *
 * A message of a SEQPACKET needs a single place. If there are several pieces, the peer writes the message elsewhere,
 * and EXS copies it when it is complete. A short message is written into a slot of the ring buffer, which is otherwise
 * unused on a SEQPACKET; that saves a registration. A longer message that goes to several pieces gets separate memory
 * (`whole`).
 */
#ifndef XS_PLACE_H
#define XS_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include "core/file/sink.h"

struct conn;
struct op;
struct piece;

/* Sets the pieces of a receive. The array must stay valid until the receive ends; xs_place_end() then drops the
 * references to the regions. */
void xs_place_into(struct op *op, struct piece *pieces, uint32_t count);

/* On a SEQPACKET: allocates memory for a message that can't be written into its pieces. Returns 0, or -1 and errno. */
int xs_place_whole(struct conn *conn, struct op *op);

/* Returns the next place of a receive. */
struct place xs_place_next(const struct op *op);
/* On a STREAM: returns true if the next place is so large that it should be advertised to the peer. Returns false for a
 * receive that peeks. */
bool xs_place_is_large(const struct op *op);
/* Opens the next place to the peer: in the application's region, in the ring buffer, or registered for this operation
 * alone. Returns 0, or -1 and errno. */
int xs_place_open(struct conn *conn, struct op *op, struct place *place);

/* The functions below report errors in op->error. */

/* Called when the peer has written `bytes` bytes into the place that was opened. EIO: the place is in a file that has
 * become shorter. */
void xs_place_written(struct conn *conn, struct op *op, uint64_t bytes);
/* Copies up to `bytes` bytes into the next place, and returns their number. EFAULT: some of that memory is not mapped
 * any more; no byte counts as received then. */
uint64_t xs_place_copy(struct conn *conn, struct op *op, const uint8_t *from, uint64_t bytes);
/* Like xs_place_copy(), for a receive whose pieces may be in files. EFBIG: all pieces are full. For a file also the
 * errors of pwrite(2). */
uint64_t xs_place_copy_to_sink(struct conn *conn, struct op *op, const uint8_t *from, uint64_t bytes);
/* Called after the connection broke: checks whether the peer may have failed to write because the memory of the place
 * is not mapped any more (EFAULT), or its file has become shorter (EIO). The device can't report that. */
void xs_place_look(struct op *op);

/* Moves the slot in the ring buffer from one receive to another that the library has made, and whose bytes are
 * discarded (rx.c). */
void xs_place_pass(struct op *from, struct op *to);
/* Called when the device does not use the receive's memory any more: copies a complete message to the pieces if
 * necessary, and releases the receive's resources. EACCES: the message can't be copied to the memory of the pieces and
 * is lost, except for op->posted bytes. EIO, and the errors of pwrite(2) for a message to files: as in the functions
 * above. */
void xs_place_end(struct conn *conn, struct op *op);

#endif
