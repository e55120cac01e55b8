/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vector.h - the segments of an exs_msghdr_t: the application's memory that one exs_sendmsg sends, or one exs_recvmsg
 * fills.
 */
#ifndef XS_VECTOR_H
#define XS_VECTOR_H

#include <stdint.h>
#include <exs.h>

struct piece;

/* Makes the checks that do not need the socket, and sets *length to the total number of bytes. Returns 0, or -1 and an
 * errno of exs_sendmsg. */
int xs_vector_check(const exs_msghdr_t *message, size_t *length);

/* Returns the segments as an array of pieces, with references to their regions; the caller frees the array.
 * `forbidden`: flags (EXS_MRF_) that no region may have. Returns NULL and an errno of xs_memory_use() on failure. */
struct piece *xs_vector_pieces(const exs_msghdr_t *message, int forbidden);

/* Drops the pieces' references to their regions. */
void xs_vector_leave(struct piece *pieces, int count);

/* Copies the bytes of all segments to `to`, which must have room for them. Returns 0, or -1 and errno; EACCES: some of
 * the bytes can't be read. */
int xs_vector_gather(const exs_msghdr_t *message, uint8_t *to);

#endif
