/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs_uring.h - an event queue as a request of an io_uring, through liburing [ours]. The header has no library:
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
 * The application owns the struct, which has a data member. A one-shot poll request watches the queue's
 * descriptor. When it has completed, and the callback has returned, exs_uring_complete prepares another one,
 * which the application's next submit submits. A callback gets one event or more. It may stop the struct, and
 * then free it and delete the queue; it may also close sockets. If the struct is stopped outside of its
 * callback, it must stay valid until its last completion has arrived.
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

#define EXS_URING_BATCH 64 /* maximum number of events that one callback gets */

typedef struct exs_uring {
    void (*cb)(struct io_uring *ring, struct exs_uring *w, exs_event_t *events, int count);
    void *data; /* for the application */
    exs_qhandle_t queue;
    int active; /* private: it was started, and not stopped since */
    int polled; /* private: a request is prepared or submitted, and exs_uring_complete was not called for it */
    int *stopped; /* private: a flag of the callback that is running; or NULL */
} exs_uring;

typedef void (*exs_uring_cb)(struct io_uring *ring, exs_uring *w, exs_event_t *events, int count);

/* Initializes the struct, except its data member. */
static inline void exs_uring_init(exs_uring *w, exs_uring_cb cb, exs_qhandle_t queue)
{
    w->cb = cb;
    w->queue = queue;
    w->active = 0;
    w->polled = 0;
    w->stopped = NULL;
}

/* private: returns an entry of the submission queue, which it submits if it is full. NULL: there is none. */
static inline struct io_uring_sqe *exs_uring__sqe(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

    if (sqe == NULL && io_uring_submit(ring) >= 0)
        sqe = io_uring_get_sqe(ring);
    return sqe;
}

/* Prepares the poll request, which the caller's next submit submits. Returns 0, or a negative errno. Does nothing
 * if w is started already. If w was stopped and its last completion has not arrived, that completion starts w
 * again, so that there is at most one request. In the callback of a started w this prepares nothing, because
 * exs_uring_complete prepares the request after the callback, unless the callback stops w; in that case no request
 * with w's data is left in the ring. */
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

/* Stops w. Returns 0, or a negative errno. In its callback w is stopped at once, and must not be started again
 * there. Outside of its callback this prepares a request that cancels the poll request. The completion of that
 * request has the data NULL. A completion with w's data follows, for which exs_uring_complete must be called as for
 * any other. */
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

/* Called when a completion with w's data has arrived. Returns 0: w stays started; 1: w was stopped, and may be
 * freed; or a negative errno: w can't be started again. After a callback it continues to busy-poll only if the ring
 * has no other completion. */
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
