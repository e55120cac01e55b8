/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vector.h - an exs_msghdr_t: pieces of the application's memory that one exs_sendmsg sends, or one exs_recvmsg
 * fills.
 */
#ifndef XS_VECTOR_H
#define XS_VECTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <exs.h>

struct piece;

/* All that can be said of it without the socket. *length: bytes in all. 0, or -1 and errno as exs_sendmsg has
 * them. */
int xs_vector_check(const exs_msghdr_t *message, size_t *length);

/* Its pieces, each in a region that is counted as used; the caller's, to free. `forbidden`: EXS_MRF_. NULL and
 * errno as xs_memory_use has them. */
struct piece *xs_vector_pieces(const exs_msghdr_t *message, int forbidden);

/* They are not used any more. */
void xs_vector_leave(struct piece *pieces, int count);

/* Copy all of its bytes to where there is room for them. 0, or -1 and errno: EACCES, some of them can't be
 * read, or as above. */
int xs_vector_gather(const exs_msghdr_t *message, uint8_t *to);

#endif
