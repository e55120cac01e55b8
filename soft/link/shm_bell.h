/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_bell.h - the peers' wake-up eventfds ("bells"), which they sent over a unix socket (shm_meet.h).
 *
 * A context has one eventfd for all of its peers, so each connection between the same two contexts brings the same one
 * again. One descriptor of it is kept, with a count of the peers that use it. The kernel's number of an eventfd
 * (/proc/self/fdinfo) shows that two are the same; without that number each connection keeps the descriptor that it
 * got.
 */
#ifndef SOFT_SHM_BELL_H
#define SOFT_SHM_BELL_H

#include <sys/queue.h>

struct shm_bell {
    int fd;
    int number;     /* the kernel's, of this eventfd; -1: not known */
    unsigned users; /* guarded, like the list entry, by a lock in shm_bell.c */
    LIST_ENTRY(shm_bell) bells;
};

/* Takes over a descriptor that a peer sent as its eventfd: it is kept, or closed as a duplicate. Returns the eventfd
 * with one more user. NULL and errno: the descriptor stays the caller's; EPROTO: it is no nonblocking eventfd. */
struct shm_bell *shm_bell_take(int fd);
/* Ends one use; the last one closes the descriptor and frees it. */
void shm_bell_give_back(struct shm_bell *bell);
/* Writes an eventfd, of a peer or of this context. Never blocks. */
void shm_bell_ring(int fd);
/* In the child of a fork, where the descriptors are closed: no eventfd is found by its number again. */
void shm_bell_forget(void);

#endif
