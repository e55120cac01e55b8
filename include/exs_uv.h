/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs_uv.h - an event queue as a handle of a libuv loop [ours]. The header has no library: link with -luv.
 *
 *   static void events_cb(exs_uv_t *handle, exs_event_t *events, int count) { ... }
 *
 *   exs_uv_t handle;
 *   exs_uv_init(loop, &handle, queue);
 *   exs_uv_start(&handle, events_cb);
 *
 * The handle is a plain struct that the application owns, with a data member, like libuv's handles. It must stay
 * valid until the callback of exs_uv_close. Its callback gets one event or more. The callback may stop or close
 * the handle, and then delete the queue; it may also close sockets. The handle may be closed after the queue was
 * deleted.
 */
#ifndef EXS_UV_H
#define EXS_UV_H

#include <errno.h>
#include <exs.h>
#include <fcntl.h>
#include <unistd.h>
#include <uv.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EXS_UV_BATCH 64 /* maximum number of events that one callback gets */

typedef struct exs_uv_s {
    uv_poll_t poll; /* private */
    void (*cb)(struct exs_uv_s *handle, exs_event_t *events, int count);
    void (*closed)(struct exs_uv_s *handle);
    void *data; /* for the application */
    exs_qhandle_t queue;
    int fd; /* private: a duplicate of the queue's descriptor, closed with the handle */
} exs_uv_t;

typedef void (*exs_uv_cb)(exs_uv_t *handle, exs_event_t *events, int count);
typedef void (*exs_uv_close_cb)(exs_uv_t *handle);

/* Initializes a handle, except its data member. This and the other functions return 0, or a negative error of libuv.
 * When a handle is closed, libuv removes its descriptor from the epoll set by number. The application may have
 * deleted the queue by then, and another file may have the number. Therefore the handle watches a duplicate of the
 * queue's descriptor, and closes it itself. */
static inline int exs_uv_init(uv_loop_t *loop, exs_uv_t *handle, exs_qhandle_t queue)
{
    int fd = exs_qfd(queue), result;

    if (fd == -1)
        return -errno;
    handle->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (handle->fd == -1)
        return -errno;
    handle->queue = queue;
    result = uv_poll_init(loop, &handle->poll, handle->fd);
    if (result < 0)
        close(handle->fd);
    return result;
}

/* private */
static inline int exs_uv__is_active(exs_uv_t *handle)
{
    return uv_is_active((uv_handle_t *)&handle->poll);
}

static inline int exs_uv_stop(exs_uv_t *handle)
{
    if (exs_uv__is_active(handle))
        exs_qprepare(handle->queue);
    return uv_poll_stop(&handle->poll);
}

/* private */
static inline void exs_uv__ready(uv_poll_t *poll, int status, int revents)
{
    exs_uv_t *handle = (exs_uv_t *)poll; /* its first member */
    exs_event_t events[EXS_UV_BATCH];
    int count = -1;

    (void)revents;
    while (status == 0 && (count = exs_qpoll(handle->queue, events, EXS_UV_BATCH, EXS_LOOP_BUDGET)) > 0) {
        handle->cb(handle, events, count);
        if (!exs_uv__is_active(handle))
            return; /* the queue may have been deleted */
    }
    if (count < 0)
        exs_uv_stop(handle); /* the queue was deleted, or this is a forked child */
    else
        exs_qprepare(handle->queue);
}

static inline int exs_uv_start(exs_uv_t *handle, exs_uv_cb cb)
{
    handle->cb = cb;
    return uv_poll_start(&handle->poll, UV_READABLE, exs_uv__ready);
}

/* private */
static inline void exs_uv__closed(uv_handle_t *poll)
{
    exs_uv_t *handle = (exs_uv_t *)poll;

    close(handle->fd);
    if (handle->closed)
        handle->closed(handle);
}

/* Stops the handle at once. The loop calls `closed`, which may be NULL, later; from then on the handle may be
 * freed. */
static inline void exs_uv_close(exs_uv_t *handle, exs_uv_close_cb closed)
{
    if (exs_uv__is_active(handle))
        exs_qprepare(handle->queue);
    handle->closed = closed;
    uv_close((uv_handle_t *)&handle->poll, exs_uv__closed);
}

#ifdef __cplusplus
}
#endif
#endif
