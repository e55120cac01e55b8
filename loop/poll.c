/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll.c - exs_poll(). A blocking call that finds nothing ready makes a temporary queue and waits for the poll's event
 * on it. The homes of the sockets are attached to the temporary queue, so the call drives them, too, and also learns
 * what other threads find that run them.
 */
#include <errno.h>
#include "core/base/clock.h"
#include "core/api/core.h"
#include "wait.h"

/* Wait for the one event of the temporary queue. Returns how many elements are ready, or -1 and errno. */
static int wait_for_poll(exs_qhandle_t queue)
{
    exs_event_t event;

    while (xs_dequeue(queue, &event, 1) == 0)
        wait_readable(exs_qfd(queue), NEVER_NS);
    errno = event.exs_evt_errno;
    return errno == 0 ? event.exs_evt_union.exs_evt_poll.exs_evt_ready : -1;
}

static int wait_in_queue(struct polling *polling, uint64_t limit)
{
    exs_qhandle_t queue = xs_queue_make(1);

    if (queue == EXS_QHANDLE_INVALID)
        return -1;
    int ready = xs_poll_wait(polling, limit, queue) < 0 ? -1 : wait_for_poll(queue);
    int saved = errno;

    exs_qdelete(queue);
    errno = saved;
    return ready;
}

static int poll_blocking(exs_pollfd_t *fds, int count, uint64_t limit)
{
    int ready = 0;
    struct polling *polling = xs_poll_now(fds, count, &ready);

    if (polling == NULL)
        return -1;
    if (ready == 0 && limit != 0)
        ready = wait_in_queue(polling, limit);
    int saved = errno;

    xs_poll_put(polling);
    errno = saved;
    return ready;
}

int exs_poll(exs_pollfd_t *fds, int count, int flags, const struct timeval *timeout, exs_qhandle_t qhandle,
             exs_ahandle_t ahandle)
{
    uint64_t limit;

    if (xs_enter(__func__) < 0 || xs_poll_check(fds, count, flags, timeout, &limit) < 0)
        return -1;
    xs_loop_end_batch(); /* a socket whose sends are held is not writable */
    if (!(flags & EXS_BLOCK))
        return xs_poll_start(fds, count, limit, qhandle, ahandle);
    if (qhandle != NULL) {
        struct queue *queue = xs_queue_get(qhandle);

        if (queue == NULL)
            return xs_no_queue(qhandle);
        xs_queue_put(queue);
    }
    return poll_blocking(fds, count, limit);
}
