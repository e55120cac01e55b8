/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs_uring.h - an event queue as a request of an io_uring, through liburing [ours]. This header is all of it:
 * link with -luring.
 *
 *   static void events_cb(struct io_uring *ring, exs_uring *w, exs_event_t *events, int count) { ... }
 *
 *   exs_uring w;
 *   exs_uring_init(&w, events_cb, queue);
 *   exs_uring_start(ring, &w);
 *   ... io_uring_submit_and_wait(ring, 1); for each completion whose data is &w: exs_uring_complete(ring, &w)
 * ...
 *
 * The struct is the user's, with a data member. A poll request of one shot watches the queue's descriptor; when
 * it has completed, and the callback is done, another one is prepared, which the loop's next submit takes
 * along. A callback gets the events that are there, never none of them. Inside it is safe to stop and free the
 * struct, to close sockets and to delete the queue (once the struct is stopped). Stopped elsewhere, the struct
 * stays until its last completion has come.
 */
#ifndef EXS_URING_H
#define EXS_URING_H

#include <errno.h>
#include <exs.h>
#include <liburing.h>
#include <poll.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EXS_URING_BATCH 64 /* most events of one callback */

typedef struct exs_uring {
    void (*cb)(struct io_uring *ring, struct exs_uring *w, exs_event_t *events, int count);
    void *data; /* the user's */
    exs_qhandle_t queue;
    int active;   /* private: started, and not stopped since */
    int polled;   /* private: a request is prepared or under way, whose completion has not been given back */
    int *stopped; /* private: of the callback that is running, if one is */
} exs_uring;

typedef void (*exs_uring_cb)(struct io_uring *ring, exs_uring *w, exs_event_t *events, int count);

/* Initialise it; data is left as it is. */
static inline void exs_uring_init(exs_uring *w, exs_uring_cb cb, exs_qhandle_t queue)
{
    w->cb = cb;
    w->queue = queue;
    w->active = 0;
    w->polled = 0;
    w->stopped = NULL;
}

/* private: a place in the submission queue, which is submitted if it is full. NULL: there is none even so. */
static inline struct io_uring_sqe *exs_uring__sqe(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

    if (sqe == NULL && io_uring_submit(ring) >= 0)
        sqe = io_uring_get_sqe(ring);
    return sqe;
}

/* Prepares the request; the caller's next submit makes it so. 0, also if it is started already, or a negative
 * errno. Where it was stopped, and its last completion has not come, that one is what starts it again: there is
 * never more than one. In the callback of a started w this prepares nothing: exs_uring_complete does that after
 * the callback, unless the callback stops w, and then no request with w's data is left in the ring. */
static inline int exs_uring_start(struct io_uring *ring, exs_uring *w)
{
    int fd = exs_qfd(w->queue);

    if (fd == -1)
        return -errno;
    if (!w->polled && !w->stopped) {
        struct io_uring_sqe *sqe = exs_uring__sqe(ring);

        if (sqe == NULL)
            return -EBUSY;
        io_uring_prep_poll_add(sqe, fd, POLLIN);
        io_uring_sqe_set_data(sqe, w);
        w->polled = 1;
    }
    w->active = 1;
    return 0;
}

/* In its callback nothing follows, and w is not to be started again there. Elsewhere a request that removes the
 * poll is prepared: its own completion has the data NULL, and one with w's follows, which is given to
 * exs_uring_complete as any other. 0, or a negative errno. */
static inline int exs_uring_stop(struct io_uring *ring, exs_uring *w)
{
    if (!w->active)
        return 0;
    exs_qprepare(w->queue);
    if (w->stopped) {
        *w->stopped = 1;
        w->stopped = NULL;
    } else {
        struct io_uring_sqe *sqe = exs_uring__sqe(ring);

        if (sqe == NULL)
            return -EBUSY;
        io_uring_prep_cancel(sqe, w, 0);
        io_uring_sqe_set_data(sqe, NULL);
    }
    w->active = 0;
    return 0;
}

/* A completion with w's data has come. 0: w is watched on; 1: it was stopped, and is the user's; or a negative
 * errno: it can't be watched on. Busy polling goes on after a callback only if no other completion is there. */
static inline int exs_uring_complete(struct io_uring *ring, exs_uring *w)
{
    exs_event_t events[EXS_URING_BATCH];
    int count, stopped = 0;

    w->polled = 0;
    if (!w->active)
        return 1;
    while ((count = exs_qpoll(w->queue, events, EXS_URING_BATCH, EXS_LOOP_BUDGET)) > 0) {
        w->stopped = &stopped;
        w->cb(ring, w, events, count);
        if (stopped)
            return 1; /* w may have been freed */
        w->stopped = NULL;
        if (io_uring_cq_ready(ring) > 0)
            break;
    }
    w->active = 0;
    if (count < 0)
        return -errno; /* the queue was deleted, or this is a forked child */
    exs_qprepare(w->queue);
    return exs_uring_start(ring, w);
}

#ifdef __cplusplus
}
#endif
#endif
