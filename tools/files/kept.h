/* SPDX-License-Identifier: BSD-2-Clause */
/* kept.h - unfinished files that the server keeps for a limited time under their temporary names, so that a client can
 * resume. They are removed if other files need the space. */
#ifndef FILES_KEPT_H
#define FILES_KEPT_H

#include <stdbool.h>
#include <sys/socket.h>
#include <xxhash.h>

#include "store.h"

enum { KEPT_MAX = 16 }; /* files, each with a descriptor */

/* Whether a file with this many bytes would be kept. If there are KEPT_MAX files, the shortest is dropped. */
bool kept_takes(const struct store *store, uint64_t written);
/* Takes ownership of an unfinished file of this peer, and of the state of its digest. Returns false if the file is not
 * kept; the caller then still owns both. */
bool kept_add(const struct incoming *file, XXH3_state_t *hash, const struct sockaddr_storage *peer);
/* Finds the file with this name, size and time that was sent by the peer's host. The caller then owns the file and the
 * state of its digest. Clients on other hosts cannot resume it, because a name, a size and a time are easy to guess. */
bool kept_find(struct store *store, const char *name, const struct transfer_header *header,
               const struct sockaddr_storage *peer, struct incoming *file, XXH3_state_t **hash);
/* Returns the number of bytes that dropping all kept files would free. */
uint64_t kept_bytes(const struct store *store);
/* Drops the oldest file. Returns false if there is none. */
bool kept_drop(struct store *store);
/* To be called once a second. */
void kept_second(struct store *store);

#endif
