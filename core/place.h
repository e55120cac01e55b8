/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * place.h - where the bytes of a receive go, one place after the other: the mirror of a send's spans
 * (message.h).
 *
 * A receive fills pieces of the application's memory in their order; that of an exs_recv is one. Its next place
 * is what still lies empty in the first piece that is not full. Bytes come there in one of two ways. The peer
 * writes them itself, into a place that was opened to it: the device guards what it writes. Or EXS copies them,
 * out of the hidden buffer: that is guarded here, where the memory may have gone (fragile.h).
 *
 * A piece may also lie in a file: sink.h.
 *
 * A message of a SEQPACKET has one place. Where that is not what it is to fill, it goes both ways: the peer
 * writes it elsewhere, and it is copied when it is complete. A short one is written into the hidden buffer,
 * which holds no stream there: that saves a registration. A longer one for several pieces has memory of its
 * own.
 */
#ifndef XS_PLACE_H
#define XS_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct op;
struct piece;

struct place {
    uint8_t *addr;   /* in the hidden buffer as the peer names it */
    uint64_t length; /* bytes; 0: there is none, all pieces are full */
    uint32_t rkey;   /* of one that is open */
};

/* A receive into these pieces, which stay where they are until it is over; their regions are in use, and given
 * back then. */
void xs_place_into(struct op *op, struct piece *pieces, uint32_t count);

/* On a SEQPACKET: memory for the message where it can't be written into its pieces. 0, or -1 and errno. */
int xs_place_whole(struct conn *conn, struct op *op);

struct place xs_place_next(const struct op *op);
/* Is it worth opening to the peer, on a STREAM? One that peeks is not. Else the bytes come by the hidden buffer. */
bool xs_place_is_large(const struct op *op);
/* Open it to the peer: in the application's region, in the hidden buffer, or registered for this operation
 * alone. 0, or -1 and errno. */
int xs_place_open(struct conn *conn, struct op *op, struct place *place);
/* What goes wrong in the following is in op->error then. */

/* The peer has written so many bytes into the place that was opened to it. EIO: into a file that has become
 * shorter meanwhile. */
void xs_place_written(struct conn *conn, struct op *op, uint64_t bytes);
/* Copy so many bytes there: how many were copied. EFAULT: some of that memory has gone, and none of them count.
 */
uint64_t xs_place_copy(struct conn *conn, struct op *op, const uint8_t *from, uint64_t bytes);
/* The same where pieces may lie in files. EFBIG: all pieces are full. Of a file what pwrite(2) has. */
uint64_t xs_place_copy_to_sink(struct conn *conn, struct op *op, const uint8_t *from, uint64_t bytes);
/* Is the first or the last of the bytes gone that the peer was to write? The device can't say that the
 * connection broke by that, but whoever looks can. EFAULT; of a file EIO. */
void xs_place_look(struct op *op);

/* The place in the hidden buffer goes to another receive, whose bytes nobody wants. */
void xs_place_pass(struct op *from, struct op *to);
/* The receive is over, and the device is done with it: give back all that it had. EACCES: the message that it
 * got can't be copied to memory that it was to go to, and is lost, but for what op->posted says then. EIO, and
 * of a message for files what pwrite(2) has: as above. */
void xs_place_end(struct conn *conn, struct op *op);

#endif
