/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll.h - exs_poll: waiting for sockets and ordinary descriptors together.
 *
 * A poll is an operation whose event goes to a queue, and it is in a list of each socket that it names. A thread that
 * changes such a socket, with the socket's lock, checks whether the poll ends. The poll's ordinary descriptors and its
 * timeout are in an epoll that the queue watches. The first thread that finds something ready claims the poll and fills
 * the user's array. It can check only sockets whose home it has locked, and reports the other sockets as not ready.
 *
 * A poll has a reference for each list that it is in, and is freed when the last one is dropped. A poll that has ended
 * stays in a socket's list until that list is checked again.
 */
#ifndef XS_POLL_H
#define XS_POLL_H

#include <poll.h>
#include <stdbool.h>
#include <sys/queue.h>
#include "core/base/doorbell.h"
#include "core/queue/op.h"

struct attachment;
struct queue;
struct sock;
struct stop;

/* One element of a poll: a socket or an ordinary descriptor. Guarded by the socket's lock. */
struct polled {
    LIST_ENTRY(polled) link;
    struct polling *polling;
    struct sock *sock;
    /* The attachment by which the poll's queue drives the socket until the poll is over; or NULL. Guarded by that
     * queue's events.lock. */
    struct attachment *attachment;
    /* The socket's home queue while this is in the socket's list, else NULL. A thread compares it with the queue that
     * it has locked. If they are equal, the load pairs with the store by that lock, which was held for the store,
     * too. */
    _Atomic(struct queue *) home;
    int index; /* index of the element in the user's array */
    /* Copies of the element's descriptor and requested events, because the array may be freed when the poll has
     * ended. */
    int number;
    short events;
    bool is_other; /* an ordinary descriptor, which is also in `others` of the poll, in the same order */
};

/* A poll. */
struct polling {
    /* References: one for each list, and one of the thread that started the poll. Each decrement pairs with the last
     * one, whose thread frees the poll. */
    _Atomic int refs;
    /* Set once, by the thread that claims the poll; only that thread may use `op` and `fds` then. Each exchange pairs
     * with the other threads' exchanges and loads. */
    _Atomic bool over;
    bool is_released; /* xs_poll_release() was called; guarded by the queue's events.lock */
    struct op *op;    /* the operation whose event reports the poll */
    /* The queue that the event goes to. It may be freed when the poll has ended, so the pointer is only compared. */
    const struct queue *queue;
    exs_ahandle_t ahandle;
    exs_pollfd_t *fds; /* owned by the user */
    int count;         /* elements of `fds` */

    /* The ordinary descriptors in the array's order, with capacity for `count`. Their revents are written by the thread
     * that started the poll, until the poll waits, and after that by the thread that has claimed it. */
    struct pollfd *others;
    int other_count;
    LIST_ENTRY(polling) of_queue; /* entry in the queue's list of polls */
    int epoll;                    /* of `others` and `timer`, watched by the queue; -1: the poll has neither */
    struct doorbell timer;
    uint64_t deadline; /* ns, clock.h */

    struct polled polled[]; /* one for each of `fds` */
};

void xs_poll_put(struct polling *polling);
/* Returns true if the caller has claimed the poll and must complete it; false if another thread has. */
bool xs_poll_claim(struct polling *polling);
/* Completes a poll that the caller has claimed. `locked` is the queue whose lock the caller holds, or NULL. */
void xs_poll_finish(struct polling *polling, const struct queue *locked);
/* Drops the uses of the poll's attachments. Called after the poll was claimed and before it is completed. */
void xs_poll_release(struct polling *polling);
/* Sets an element's exs_revents to those events of `ready` (EXS_POLL) that it asks for, or that are always reported.
 * Returns 1 if there are any, else 0. The caller has claimed the poll, or the poll has not started. */
int xs_poll_tell(exs_pollfd_t *fd, short ready);
/* Polls all ordinary descriptors once, sets their exs_revents, and returns how many are ready (poll_others.c). */
int xs_poll_tell_others(struct polling *polling);
/* Makes the queue watch the ordinary descriptors and the timeout. Returns 0, or -1 and errno. */
int xs_poll_begin_others(struct polling *polling, struct queue *queue);

/* The functions from here to xs_poll_stop() are called with the socket's lock. */

/* Returns the events (EXS_POLL) for which a socket is ready (ready.c). */
short xs_ready(const struct sock *sock);
/* Returns true if the socket's list has a poll that has not ended and whose event goes to this queue. */
bool xs_poll_waits(const struct sock *sock, const struct queue *queue);
/* Ends the polls in the socket's list that `stop` selects. Returns their number. */
int xs_poll_stop(struct sock *sock, const struct stop *stop);
/* Like xs_poll_stop(), for polls on any queue that name this ordinary descriptor. Called without locks. */
int xs_polls_stop(int fd, const struct stop *stop);

#endif
