/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * waitset.h - a set of things that a thread waits for: descriptors (its members), a time, and a flag. The set is ready
 * when a member has an event, the time has passed, or the flag is set.
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
    int epoll; /* contains all members and `wakefd`; -1: there is none */
    struct {
        int fd;
        uint32_t events; /* EPOLLIN and EPOLLOUT, which are POLLIN and POLLOUT */
        void *tag;
    } members[WAITSET_LISTED];
    int count;                    /* entries of `members` in use */
    int unlisted;                 /* members that are only in the epoll */
    int next;                     /* index of the member that is checked first, so that each gets its turn */
    struct doorbell wakefd;       /* the flag and the time; has a descriptor while there is an epoll */
    void (*wake)(void *sleepers); /* wakes the threads that sleep by waitset_list(); or NULL */
    void *sleepers;               /* argument of `wake` */
};

/* Initializes an empty set. `kind` is the kind of its doorbell. */
void waitset_init(struct waitset *set, enum doorbell_kind kind);
/* Closes the set's descriptors, not the members. */
void waitset_end(struct waitset *set);

/* Adds a member. Returns 0 or an errno. */
int waitset_add(struct waitset *set, int fd, uint32_t events, void *tag);
/* Changes a member's events and tag. */
void waitset_change(struct waitset *set, int fd, uint32_t events, void *tag);
/* Removes a member; does nothing if fd is not a member. */
void waitset_remove(struct waitset *set, int fd);
/* Sets (`up`) or clears the flag. */
void waitset_flag(struct waitset *set, bool up);
/* Sets the time (ns, clock.h) from which on the set is ready, NEVER_NS for none. */
void waitset_time(struct waitset *set, uint64_t at);
/* Sets *event to the events and the tag (data.ptr) of a member that is ready. The tag is NULL if the time has passed,
 * and may be NULL if the flag is set. Never waits. Returns false if nothing is ready. */
bool waitset_next(struct waitset *set, struct epoll_event *event);

/* Returns the descriptor that is readable while the set is ready, and makes it if necessary. -1 and errno on
 * failure. */
int waitset_fd(struct waitset *set);
/* Called when no event loop watches the descriptor any more: closes the epoll, unless some members are only in it.
 * Returns true if it was closed. */
bool waitset_hide(struct waitset *set);
/* Fills fds with the descriptors that a thread must sleep on, WAITSET_LISTED at most, and returns their number.
 * *deadline: the time when it must wake up, ns; 0: the flag is set. */
int waitset_list(struct waitset *set, struct pollfd *fds, uint64_t *deadline);
/* Sets `wake`. It is called, with the set's lock held, when the result of waitset_list() has changed. */
void waitset_sleepers(struct waitset *set, void (*wake)(void *sleepers), void *sleepers);

#endif
