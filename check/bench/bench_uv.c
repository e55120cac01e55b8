/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_uv.c - the loop libuv, by exs_uv.h. */
#include <exs_uv.h>

#include "bench_loops.h"

static uv_loop_t uv;
static exs_uv_t handle_of_queue;
static void (*handle_events)(exs_event_t *events, int count);

static void events_cb(exs_uv_t *handle, exs_event_t *events, int count)
{
    (void)handle;
    handle_events(events, count);
}

static int uv_open(exs_qhandle_t queue, void (*handle)(exs_event_t *events, int count))
{
    handle_events = handle;
    int result = uv_loop_init(&uv);

    if (result == 0)
        result = exs_uv_init(&uv, &handle_of_queue, queue);
    if (result == 0)
        result = exs_uv_start(&handle_of_queue, events_cb);
    errno = -result; /* libuv's errors are negative errnos */
    return result == 0 ? 0 : -1;
}

static void uv_loop_run(void)
{
    uv_run(&uv, UV_RUN_DEFAULT);
}

static void uv_leave(void)
{
    uv_stop(&uv);
}

static void uv_end(void)
{
    exs_uv_close(&handle_of_queue, NULL);
    uv_run(&uv, UV_RUN_DEFAULT);
    uv_loop_close(&uv);
}

const struct bench_loop bench_loop_uv = {"uv", uv_open, uv_loop_run, uv_leave, uv_end};
