/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * place.h - where the bytes of a receive go. A place is the memory that the next bytes of a receive are written to, as
 * a span (message.h) is the memory that the next bytes of a send are read from.
 *
 * A receive fills pieces of the application's memory in their order; an exs_recv has one. Its next place is the rest
 * of the first piece that is not full. Bytes arrive there in one of two ways. The peer writes them into a place that
 * was advertised to it (opened); then the device checks the access. Or EXS copies them out of the ring buffer; then
 * this module does, if the memory may be unmapped (nofault.h).
 *
 * A piece may also be a range of a file, see sink.h.
 *
 * A message of a SEQPACKET needs a single place. If the pieces are not one, the peer writes the message elsewhere,
 * and it is copied when it is complete. A short message is written into the ring buffer, which is otherwise unused on
 * a SEQPACKET; that saves a registration. A longer one that goes to several pieces gets memory for itself (`whole`).
 */
#ifndef XS_PLACE_H
#define XS_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include "core/file/sink.h"

struct conn;
struct op;
struct piece;

/* Sets the pieces of a receive. They must stay valid until it ends; the references to their regions are dropped
 * then. */
void xs_place_into(struct op *op, struct piece *pieces, uint32_t count);

/* On a SEQPACKET: allocates memory for a message that can't be written into its pieces. Returns 0, or -1 and errno. */
int xs_place_whole(struct conn *conn, struct op *op);

struct place xs_place_next(const struct op *op);
/* On a STREAM: returns true if the next place is worth advertising to the peer. A receive that peeks never is. If
 * not, its bytes are sent to the ring buffer. */
bool xs_place_is_large(const struct op *op);
/* Opens the next place to the peer: in the application's region, in the ring buffer, or registered for this operation
 * alone. Returns 0, or -1 and errno. */
int xs_place_open(struct conn *conn, struct op *op, struct place *place);

/* The functions below report errors in op->error. */

/* The peer has written `bytes` bytes into the place that was opened. EIO: the place is in a file that has become
 * shorter. */
void xs_place_written(struct conn *conn, struct op *op, uint64_t bytes);
/* Copies up to `bytes` bytes into the next place and returns how many. EFAULT: some of that memory is not mapped any
 * more; then none were received. */
uint64_t xs_place_copy(struct conn *conn, struct op *op, const uint8_t *from, uint64_t bytes);
/* Like xs_place_copy(), for a receive whose pieces may be in files. EFBIG: all pieces are full. For a file also the
 * errors of pwrite(2). */
uint64_t xs_place_copy_to_sink(struct conn *conn, struct op *op, const uint8_t *from, uint64_t bytes);
/* Checks, after the connection broke, whether the peer may have failed to write because the memory of the place is
 * not mapped any more, which the device can't report: EFAULT. For a file that became shorter: EIO. */
void xs_place_look(struct op *op);

/* Moves the slot in the ring buffer from one receive to another: a stand-in, whose bytes are discarded (rx.c). */
void xs_place_pass(struct op *from, struct op *to);
/* Releases all that the receive uses; the device does not use it any more. EACCES: the message can't be copied to the
 * memory of the pieces and is lost, except for op->posted bytes. EIO, and the errors of pwrite(2) for a message to
 * files: as in the functions above. */
void xs_place_end(struct conn *conn, struct op *op);

#endif
