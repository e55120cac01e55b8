/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * waitset.h - what a thread waits for: descriptors, a time, and a flag.
 *
 * There are two ways to wait. A thread of the library sleeps on the member descriptors themselves, until the time; a
 * thread that changes the set wakes it with `wake`. That needs no descriptor. An event loop needs a single
 * descriptor, so it uses an epoll that contains the members, and a doorbell for the flag and the time. The epoll is
 * made when it is first needed, or when there are more than WAITSET_LISTED members.
 *
 * The owner's lock guards the membership and the handling of events. The set's own lock guards the fields that other
 * threads see; no lock is taken while it is held, except those that `wake` takes.
 */
#ifndef XS_WAITSET_H
#define XS_WAITSET_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include "doorbell.h"

#define WAITSET_LISTED 4 /* maximum number of members without an epoll */

struct waitset {
    pthread_mutex_t lock;
    int epoll; /* contains all members; -1: there is none */
    struct {
        int fd;
        uint32_t events; /* EPOLLIN and EPOLLOUT, which are POLLIN and POLLOUT */
        void *tag;
    } members[WAITSET_LISTED];
    int count;                    /* of `members` */
    int unlisted;                 /* members that are only in the epoll */
    int next;                     /* index of the member that is checked first, for fairness */
    struct doorbell wakefd;       /* the flag and the time; has a descriptor while there is an epoll */
    void (*wake)(void *sleepers); /* called when the list that waitset_list() returns has changed; or NULL */
    void *sleepers;               /* its argument */
};

/* `kind` is the kind of its doorbell. */
void waitset_init(struct waitset *set, enum doorbell_kind kind);
void waitset_end(struct waitset *set);

/* Adds a member. Returns 0 or an errno. */
int waitset_add(struct waitset *set, int fd, uint32_t events, void *tag);
/* Changes a member's events and tag. */
void waitset_change(struct waitset *set, int fd, uint32_t events, void *tag);
/* Removes a member; does nothing if fd is not a member. */
void waitset_remove(struct waitset *set, int fd);
/* Sets or clears the flag: the set is ready while it is set. */
void waitset_flag(struct waitset *set, bool up);
/* Sets the time (ns, clock.h) from which on the set is ready, NEVER_NS for none. */
void waitset_time(struct waitset *set, uint64_t at);
/* Sets *event to the events and the tag (data.ptr) of a member that is ready. The tag is NULL if the time has passed,
 * and may be NULL if the flag is set. Never waits. Returns false if nothing is ready. */
bool waitset_next(struct waitset *set, struct epoll_event *event);

/* Returns the descriptor that is readable while the set is ready, and makes it if necessary. -1 and errno on
 * failure. */
int waitset_fd(struct waitset *set);
/* The descriptor is not watched any more: closes it, unless there are more than WAITSET_LISTED members. Returns true if
 * it was closed. */
bool waitset_hide(struct waitset *set);
/* Fills fds with the descriptors to sleep on, WAITSET_LISTED at most, and returns their number. *deadline: when to
 * wake up, ns. */
int waitset_list(struct waitset *set, struct pollfd *fds, uint64_t *deadline);
/* Sets the function that is called, with the set's lock held, when that list has changed. */
void waitset_sleepers(struct waitset *set, void (*wake)(void *sleepers), void *sleepers);

#endif
