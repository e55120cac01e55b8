/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_uring.c - a loop on io_uring, by exs_uring.h. */
#include <exs_uring.h>
#include <stdbool.h>

#include "bench_loops.h"

static struct io_uring ring;
static exs_uring request;
static bool leaves;
static void (*handle_events)(exs_event_t *events, int count);

static void events_cb(struct io_uring *same, exs_uring *w, exs_event_t *events, int count)
{
    (void)same;
    (void)w;
    handle_events(events, count);
}

static int uring_open(exs_qhandle_t queue, void (*handle)(exs_event_t *events, int count))
{
    handle_events = handle;
    int result = io_uring_queue_init(8, &ring, 0);

    if (result == 0) {
        exs_uring_init(&request, events_cb, queue);
        result = exs_uring_start(&ring, &request);
    }
    errno = -result; /* liburing's errors are negative errnos */
    return result == 0 ? 0 : -1;
}

static void uring_run(void)
{
    struct io_uring_cqe *cqe;

    while (!leaves && io_uring_submit_and_wait(&ring, 1) >= 0) {
        while (!leaves && io_uring_peek_cqe(&ring, &cqe) == 0) {
            exs_uring *w = io_uring_cqe_get_data(cqe);

            io_uring_cqe_seen(&ring, cqe);
            if (w != NULL && exs_uring_complete(&ring, w) < 0)
                return;
        }
    }
}

static void uring_leave(void)
{
    leaves = true;
}

static void uring_close(void)
{
    io_uring_queue_exit(&ring);
}

const struct bench_loop bench_loop_uring = {"uring", uring_open, uring_run, uring_leave, uring_close};
