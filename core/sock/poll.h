/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll.h - exs_poll: waiting for sockets and ordinary descriptors together.
 *
 * A poll is one operation of the queue that its event goes to, and is in a list of each socket that it names. A
 * thread that changes such a socket, with its lock, checks whether that ends the poll. The poll's ordinary
 * descriptors and its timeout are in an epoll that the queue watches. The first thread that finds something claims
 * the poll and fills the user's array. It can check only sockets whose home it has locked; other sockets are reported
 * as not ready.
 *
 * A poll has a reference for each list that it is in, and is freed with the last. When it is over it stays in a
 * socket's list until that list is checked again.
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

/* A socket, or another descriptor, of a poll. Guarded by the socket's lock. */
struct polled {
    LIST_ENTRY(polled) link;
    struct polling *polling;
    struct sock *sock;
    /* The attachment by which the poll's queue drives the socket until the poll is over; or NULL. Guarded by that
     * queue's events.lock. */
    struct attachment *attachment;
    /* The socket's home while this is in the socket's list, else NULL. A thread that finds its own home here holds
     * the lock under which that was stored, and so pairs with the store by that lock. */
    _Atomic(struct queue *) home;
    /* in the user's array; number and events are copies, since the array may be gone when the poll is over */
    int index;
    int number;
    short events;
    bool is_other; /* not a socket: its descriptor is in `others`, which has the same order */
};

struct polling {
    /* References: the lists' and its starter's. Each decrement pairs with the last one, whose thread frees the poll. */
    _Atomic int refs;
    /* Set once, by the thread that claims the poll; only that thread may use `op` and `fds` then. Each exchange pairs
     * with the other threads' exchanges and loads. */
    _Atomic bool over;
    bool is_released; /* xs_poll_release() was called; guarded by the queue's events.lock */
    struct op *op;
    /* where its event goes; may be freed when the poll is over, so it is only compared */
    const struct queue *queue;
    exs_ahandle_t ahandle;
    exs_pollfd_t *fds; /* owned by the user */
    int count;

    /* The ordinary descriptors in the array's order, with capacity for `count`. Only the starter, until the poll
     * waits, and then the thread that has claimed it may write revents. */
    struct pollfd *others;
    int other_count;
    LIST_ENTRY(polling) of_queue;
    int epoll; /* its queue watches it; -1: there are neither ordinary descriptors nor a timeout */
    struct doorbell timer;
    uint64_t deadline; /* ns, clock.h */

    struct polled polled[]; /* one for each of `fds` */
};

void xs_poll_put(struct polling *polling);
/* Returns true if the caller has claimed the poll and must complete it; false if another thread has. */
bool xs_poll_claim(struct polling *polling);
/* Completes a poll that the caller has claimed. `locked` is the queue whose lock is held, or NULL. */
void xs_poll_finish(struct polling *polling, const struct queue *locked);
/* Drops the uses of the poll's attachments. Called after it was claimed and before it is completed. */
void xs_poll_release(struct polling *polling);
/* Sets an element's exs_revents from what is ready. Returns 1 if that is not 0, else 0. The caller has claimed the
 * poll, or it has not started. */
int xs_poll_tell(exs_pollfd_t *fd, short ready);
/* Polls all ordinary descriptors once, sets their exs_revents, and returns how many are ready (poll_others.c). */
int xs_poll_tell_others(struct polling *polling);
/* Makes the queue watch the ordinary descriptors and the timeout. Returns 0, or -1 and errno. */
int xs_poll_begin_others(struct polling *polling, struct queue *queue);

/* The functions from here to xs_poll_stop() are called with the socket's lock. */

/* Returns what a socket is ready for, EXS_POLL (ready.c). */
short xs_ready(const struct sock *sock);
/* Returns true if a poll in the socket's list is not over, and its event goes to this queue. */
bool xs_poll_waits(const struct sock *sock, const struct queue *queue);
/* Ends the polls in the socket's list that `stop` selects. Returns their number. */
int xs_poll_stop(struct sock *sock, const struct stop *stop);
/* Like xs_poll_stop(), for polls on any queue that name this ordinary descriptor. Called without locks. */
int xs_polls_stop(int fd, const struct stop *stop);

#endif
