/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll.h - waiting for sockets and ordinary descriptors together: exs_poll.
 *
 * A poll is one operation of the queue that its event goes to, and stands in a list of each socket that it
 * names. Whoever changes one of these, with its lock, looks whether a poll is over by that. Its ordinary
 * descriptors and its time are in an epoll of its own, which its queue watches. The first who finds something
 * claims the poll, and fills the user's array: of sockets only those of the same home can be looked at then.
 *
 * It is shared by the lists that it is in, and freed with the last. What is over leaves a socket's list when
 * that is looked at the next time.
 */
#ifndef XS_POLL_H
#define XS_POLL_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include "doorbell.h"
#include "op.h"

struct guest;
struct queue;
struct sock;
struct stop;

struct polled { /* a socket of a poll; guarded by the socket's lock */
    LIST_ENTRY(polled) link;
    struct polling *polling;
    struct sock *sock;
    struct guest *guest; /* by which its queue drives the socket, until the poll is over; or NULL. Guarded by the
                          * events_lock of that queue */
    _Atomic(struct queue *) home; /* the socket's, while it stands in its list. Another thread that reads its
                                   * own home here holds the lock under which that was written, and pairs
                                   * with it by that */
    int index;                    /* of the user's array. What it says is here, too, */
    int number;                   /* since it may be gone when the poll is over */
    short events;
    bool is_other; /* no socket: the next of `others` */
};

struct polling {
    _Atomic int refs;  /* the lists' and its starter's. One less pairs with the last one less, which frees it */
    _Atomic bool over; /* set once: who sets it completes the operation, and nobody else uses it or `fds` */
    bool is_released;  /* it uses no guest any more; guarded by its queue's events_lock */
    struct op *op;
    const struct queue *queue; /* where its event goes; to be compared alone, since that may be gone with it */
    exs_ahandle_t ahandle;
    exs_pollfd_t *fds; /* the user's */
    int count;

    struct pollfd *others; /* the ordinary descriptors, in the array's order; room for as many. What is ready is
                            * written by its starter until it waits, then by the thread that has claimed it */
    int other_count;
    LIST_ENTRY(polling) of_queue;
    int epoll; /* what its queue watches; -1: it has neither ordinary descriptors nor a time */
    struct doorbell timer;
    uint64_t deadline; /* ns */

    struct polled polled[]; /* as many as `fds` */
};

void xs_poll_put(struct polling *polling);
/* True: the caller's to complete. */
bool xs_poll_claim(struct polling *polling);
/* It was claimed: complete it. `locked` is the queue whose lock is held, or NULL. */
void xs_poll_finish(struct polling *polling, const struct queue *locked);
/* The same, before it is completed: its queue need not drive the sockets for it any more. */
void xs_poll_release(struct polling *polling);
/* What is ready of one that was claimed, or has not begun: how many elements that are, 0 or 1. */
int xs_poll_tell(exs_pollfd_t *fd, short ready);
/* The same of all its ordinary descriptors (poll_others.c). */
int xs_poll_tell_others(struct polling *polling);
/* Have the queue look at those, and at the time. 0, or -1 and errno. */
int xs_poll_begin_others(struct polling *polling, struct queue *queue);

/* What of a socket is ready, EXS_POLL; with its lock (ready.c). */
short xs_ready(const struct sock *sock);
/* Something of it has changed, with its lock. */
void xs_poll_look(struct sock *sock);
/* Is there one in its list that is not over, and whose event goes to this queue? With its lock. */
bool xs_poll_waits(const struct sock *sock, const struct queue *queue);
/* End those that are meant: how many. With its lock. */
int xs_poll_stop(struct sock *sock, const struct stop *stop);
/* The same of those that name this descriptor, which is no socket, on any queue. Called without locks. */
int xs_polls_stop(int fd, const struct stop *stop);
/* A turn of a queue that has polls with descriptors; with its lock. */
void xs_polls_run(struct queue *queue);
/* The queue is gone, and all of them are over. */
void xs_polls_leave(struct queue *queue);

#endif
