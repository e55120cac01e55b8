/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * waitset.h - what somebody waits for: descriptors, a time, and a flag.
 *
 * There are two ways to wait. A thread of the library's own sleeps on the descriptors themselves, until the
 * time, and is woken by whoever changes anything meanwhile (`wake`): that takes no descriptor. Whoever has a
 * loop needs one that stands for all of them, an epoll, with a doorbell for the flag and the time: it is made
 * when somebody asks for it, or when there are more than a few members.
 *
 * The members and their events are its owner's business, under whatever lock that has; its own lock guards
 * what others see of it, and nothing is locked behind it but what `wake` locks.
 */
#ifndef XS_WAITSET_H
#define XS_WAITSET_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include "doorbell.h"

#define WAITSET_LISTED 4 /* members that need no epoll */

struct waitset {
    pthread_mutex_t lock;
    int epoll; /* -1: none. Else the members are in it, too, */
    struct {
        int fd;
        uint32_t events; /* EPOLLIN and EPOLLOUT, which are POLLIN and POLLOUT */
        void *tag;
    } members[WAITSET_LISTED];
    int count;    /* listed here; */
    int unlisted; /* and these in it alone */
    int next;     /* to be looked at */
    struct doorbell bell; /* its descriptor comes with the epoll */
    void (*wake)(void *sleepers);
    void *sleepers;
};

/* The kind of its doorbell. */
void waitset_init(struct waitset *set, enum doorbell_kind kind);
void waitset_end(struct waitset *set);

/* 0 or an errno. */
int waitset_add(struct waitset *set, int fd, uint32_t events, void *tag);
/* Of a member. */
void waitset_change(struct waitset *set, int fd, uint32_t events, void *tag);
/* Whether it is one or not. */
void waitset_remove(struct waitset *set, int fd);
/* The flag is up while somebody is to look. */
void waitset_flag(struct waitset *set, bool up);
/* Ready at this time (clock.h), NEVER_NS for none. */
void waitset_time(struct waitset *set, uint64_t at);
/* A member that is ready, in `event`, with its tag; NULL is for the time, and perhaps for the flag. Doesn't
 * wait; false: nothing is. */
bool waitset_next(struct waitset *set, struct epoll_event *event);

/* The descriptor that is readable while anything is ready, made if need be. -1 and errno. */
int waitset_fd(struct waitset *set);
/* Nobody watches that descriptor any more: close it, unless there are too many members for a list. True: it is
 * closed. */
bool waitset_hide(struct waitset *set);
/* Sleep on these, until `deadline` at most; how many, WAITSET_LISTED at most. */
int waitset_list(struct waitset *set, struct pollfd *fds, uint64_t *deadline);
/* Whom to call, with locks held, when that list is not what it was. */
void waitset_sleepers(struct waitset *set, void (*wake)(void *sleepers), void *sleepers);

#endif
