/* SPDX-License-Identifier: BSD-2-Clause */
/* kept.h - unfinished files, kept for a while under their temporary names, so that a client can resume. They are
 * dropped if other files need the space. */
#ifndef FILES_KEPT_H
#define FILES_KEPT_H

#include <stdbool.h>
#include <sys/socket.h>
#include <xxhash.h>

#include "store.h"

enum { KEPT_MAX = 16 }; /* files, each with a descriptor */

/* Whether a file with this many bytes is kept. If there are too many, the shortest is dropped. */
bool kept_takes(const struct store *store, uint64_t written);
/* Takes over an unfinished file from this peer, and the state of its digest. False: it is not kept, and both stay the
 * caller's. */
bool kept_add(const struct incoming *file, XXH3_state_t *hash, const struct sockaddr_storage *peer);
/* Finds the file with this name, size and time that came from the peer's host. The caller then owns it and the state
 * of its digest. Clients of other hosts do not get it, because a name, a size and a time are easy to guess. */
bool kept_find(struct store *store, const char *name, const struct transfer_header *header,
               const struct sockaddr_storage *peer, struct incoming *file, XXH3_state_t **hash);
/* Bytes that dropping all of them would free. */
uint64_t kept_bytes(const struct store *store);
/* Drops the oldest; false: there is none. */
bool kept_drop(struct store *store);
/* To be called once a second. */
void kept_second(struct store *store);

#endif
