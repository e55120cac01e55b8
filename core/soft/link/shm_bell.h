/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm_bell.h - the bells of peers in shared memory: eventfds that came over a unix socket (shm_meet.h).
 *
 * A context has one bell for all of its peers, so each connection between two of them brings the same one
 * again: one descriptor of it is kept, for as long as somebody rings it. That it is the same the kernel tells;
 * where it doesn't, each connection keeps what came with it.
 */
#ifndef SOFT_SHM_BELL_H
#define SOFT_SHM_BELL_H

#include <sys/queue.h>

struct shm_bell {
    int fd;
    int number;     /* the kernel's, of this eventfd; -1: not known */
    unsigned users; /* guarded by a lock of shm_bell.c's, as the next are */
    LIST_ENTRY(shm_bell) bells;
};

/* What came for a bell. The descriptor is the bell's then, or closed. NULL and errno: it stays the caller's;
 * EPROTO: it is none. */
struct shm_bell *shm_bell_take(int fd);
void shm_bell_give_back(struct shm_bell *bell);
/* Put it up, whosever it is. */
void shm_bell_ring(int fd);
/* In the child of a fork, whose descriptors are closed: nobody finds those of before. */
void shm_bell_forget(void);

#endif
