/* SPDX-License-Identifier: BSD-2-Clause */
/* kept.h - files that were broken off, kept for a while under their temporary names, so that a client may go on
 * where it was. They give way where others need their room. */
#ifndef FILES_KEPT_H
#define FILES_KEPT_H

#include <stdbool.h>
#include <sys/socket.h>
#include <xxhash.h>

#include "store.h"

enum { KEPT_MAX = 16 }; /* files, each with a descriptor */

/* Is so much of a file kept? Of too many the longest are, so that a few bytes drive nobody's out. */
bool kept_takes(const struct store *store, uint64_t written);
/* Takes over what has arrived of a file from this peer, and its digest so far; false: it is not kept, and both are
 * still the caller's. */
bool kept_add(const struct incoming *file, XXH3_state_t *hash, const struct sockaddr_storage *peer);
/* The file of this name, size and time that came from the peer's host, if it is there: it is the caller's then, with
 * what its digest is so far. A client of another host learns nothing of it and can't take it away: a name, a size and
 * a time are easily guessed. */
bool kept_find(struct store *store, const char *name, const struct transfer_header *header,
               const struct sockaddr_storage *peer, struct incoming *file, XXH3_state_t **hash);
/* What dropping all of them gives. */
uint64_t kept_bytes(const struct store *store);
/* Drops the oldest; false: there is none. */
bool kept_drop(struct store *store);
/* Once a second. */
void kept_second(struct store *store);

#endif
