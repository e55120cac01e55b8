/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_wakefd.h - the peers' wake-up eventfds ("wakefds"), which they sent over a unix socket (shm_setup.h).
 *
 * A context has one eventfd for all of its peers, so each connection between the same two contexts brings the same one
 * again. One descriptor of it is kept, with a count of the peers that use it. The kernel's number of an eventfd
 * (/proc/self/fdinfo) shows that two are the same; without that number each connection keeps the descriptor that it
 * got.
 */
#ifndef SOFT_SHM_WAKEFD_H
#define SOFT_SHM_WAKEFD_H

#include <sys/queue.h>

struct shm_wakefd {
    int fd;
    int number;     /* the kernel's, of this eventfd; -1: not known */
    unsigned users; /* guarded, like the list entry, by a lock in shm_wakefd.c */
    LIST_ENTRY(shm_wakefd) wakefds;
};

/* Takes over a descriptor that a peer sent as its eventfd: it is kept, or closed as a duplicate. Returns the eventfd
 * with one more user. NULL and errno: the descriptor stays the caller's; EPROTO: it is no nonblocking eventfd. */
struct shm_wakefd *shm_wakefd_take(int fd);
/* Ends one use; the last one closes the descriptor and frees it. */
void shm_wakefd_give_back(struct shm_wakefd *wakefd);
/* Writes an eventfd, of a peer or of this context. Never blocks. */
void shm_wakefd_ring(int fd);
/* In the child of a fork, where the descriptors are closed: no eventfd is found by its number again. */
void shm_wakefd_forget(void);

#endif
