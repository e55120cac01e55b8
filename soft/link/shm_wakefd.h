/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_wakefd.h - the eventfds that wake the peers ("wakefds"). Each peer sends a descriptor of its eventfd over a unix
 * socket (shm_setup.h).
 *
 * A context has one eventfd for all of its peers, so each connection between the same two contexts receives a
 * descriptor of the same eventfd. This module keeps one descriptor of each eventfd, with a count of the peers that use
 * it. The kernel's number of an eventfd (/proc/self/fdinfo) shows that two descriptors are of the same one; without
 * that number each connection keeps the descriptor that it received.
 */
#ifndef SOFT_SHM_WAKEFD_H
#define SOFT_SHM_WAKEFD_H

#include <sys/queue.h>

struct shm_wakefd {
    int fd;         /* the descriptor that this process keeps */
    int number;     /* the number that the kernel gave the eventfd; -1: not known */
    unsigned users; /* peers that use it; guarded, like the list entry, by a lock in shm_wakefd.c */
    LIST_ENTRY(shm_wakefd) wakefds;
};

/* Takes over a descriptor that a peer sent as its eventfd: keeps it, or closes it if the eventfd is known already.
 * Returns the eventfd with one more user. On failure returns NULL and errno, and the caller still owns the descriptor;
 * EPROTO: it is not a nonblocking eventfd. */
struct shm_wakefd *shm_wakefd_take(int fd);
/* Drops one user; the last one closes the descriptor and frees the struct. */
void shm_wakefd_give_back(struct shm_wakefd *wakefd);
/* Writes 1 to an eventfd, of a peer or of this context. Never blocks. */
void shm_wakefd_ring(int fd);
/* In the child of a fork, where the descriptors are closed: empties the list of known eventfds. */
void shm_wakefd_forget(void);

#endif
