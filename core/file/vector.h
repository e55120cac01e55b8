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

/* Checks what can be checked without the socket. *length: the total number of bytes. Returns 0, or -1 and one of
 * exs_sendmsg's errno. */
int xs_vector_check(const exs_msghdr_t *message, size_t *length);

/* Returns the segments as an array of pieces, with references to their regions; the caller frees it. `forbidden`:
 * flags (EXS_MRF_) that no region may have. NULL and one of xs_memory_use()'s errno on failure. */
struct piece *xs_vector_pieces(const exs_msghdr_t *message, int forbidden);

/* Drops the pieces' references to their regions. */
void xs_vector_leave(struct piece *pieces, int count);

/* Copies all bytes to `to`, which must have room for them. Returns 0, or -1 and errno; EACCES: some of them can't be
 * read. */
int xs_vector_gather(const exs_msghdr_t *message, uint8_t *to);

#endif
