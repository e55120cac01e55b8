/* SPDX-License-Identifier: BSD-2-Clause */
/* poll.c - exs_poll: waiting for sockets and ordinary descriptors together. See poll.h. */
#include <errno.h>
#include <stdlib.h>
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/conn/conn.h"
#include "core/conn/upcalls.h"
#include "core/queue/wait.h"
#include "calls.h"
#include "poll.h"
#include "sock.h"

/* reported also if the application did not ask for them */
#define ALWAYS (EXS_POLLERR | EXS_POLLHUP | EXS_POLLNVAL)

_Static_assert(EXS_POLLIN == POLLIN && EXS_POLLOUT == POLLOUT && EXS_POLLERR == POLLERR &&
                   EXS_POLLHUP == POLLHUP && EXS_POLLNVAL == POLLNVAL,
               "what poll(2) says of ordinary descriptors");

static short wanted_events(short events, short ready)
{
    return (short)(ready & (events | ALWAYS));
}

/* ---- The end of a poll ----------------------------------------------------------------------------------- */

void xs_poll_put(struct polling *polling)
{
    if (atomic_fetch_sub_explicit(&polling->refs, 1, memory_order_acq_rel) != 1)
        return;
    free(polling->others);
    free(polling);
}

void xs_poll_release(struct polling *polling)
{
    struct queue *queue = polling->op->pool;

    mutex_lock(&queue->events.lock);
    polling->is_released = true;
    for (int i = 0; i < polling->count; i++) {
        if (polling->polled[i].attachment != NULL)
            xs_attachment_use(polling->polled[i].attachment, -1);
        polling->polled[i].attachment = NULL;
    }
    mutex_unlock(&queue->events.lock);
}

bool xs_poll_claim(struct polling *polling)
{
    return !atomic_exchange(&polling->over, true);
}

int xs_poll_tell(exs_pollfd_t *fd, short ready)
{
    fd->exs_revents = wanted_events(fd->exs_events, ready);
    return fd->exs_revents != 0;
}

void xs_poll_finish(struct polling *polling, const struct queue *locked)
{
    int *ready = &polling->op->event.exs_evt_union.exs_evt_poll.exs_evt_ready;

    for (int i = 0; i < polling->count && locked != NULL; i++) {
        struct polled *polled = &polling->polled[i];

        if (atomic_load(&polled->home) == locked)
            *ready += xs_poll_tell(&polling->fds[polled->index], xs_ready(polled->sock));
    }
    *ready += xs_poll_tell_others(polling);
    xs_poll_release(polling);
    xs_op_complete(polling->op, 0);
}

static void leave_socket(struct polled *polled)
{
    LIST_REMOVE(polled, link);
    atomic_store(&polled->home, NULL);
    xs_poll_put(polled->polling);
}

void xs_poll_look(struct sock *sock)
{
    struct polled *polled, *next;

    for (polled = LIST_FIRST(&sock->polls); polled != NULL; polled = next) {
        struct polling *polling = polled->polling;

        next = LIST_NEXT(polled, link);
        if (wanted_events(polled->events, xs_ready(sock)) != 0 && xs_poll_claim(polling))
            xs_poll_finish(polling, atomic_load(&sock->home));
        if (atomic_load(&polling->over))
            leave_socket(polled);
    }
    sock->is_followed = sock->state == SOCK_CLOSING || !LIST_EMPTY(&sock->polls);
}

bool xs_poll_waits(const struct sock *sock, const struct queue *queue)
{
    const struct polled *polled;

    LIST_FOREACH (polled, &sock->polls, link) {
        if (polled->polling->queue == queue && !atomic_load(&polled->polling->over))
            return true;
    }
    return false;
}

int xs_poll_stop(struct sock *sock, const struct stop *stop)
{
    struct polled *polled;
    int count = 0;

    LIST_FOREACH (polled, &sock->polls, link) {
        struct polling *polling = polled->polling;

        if (!(stop->all || polling->ahandle == stop->ahandle) || !xs_poll_claim(polling))
            continue;
        xs_poll_release(polling);
        xs_op_complete(polling->op, stop->error);
        count++;
    }
    if (count > 0)
        xs_poll_look(sock);
    return count;
}

/* ---- Starting ------------------------------------------------------------------------------------ */

static struct polling *new_polling(exs_pollfd_t *fds, int count)
{
    struct polling *polling = calloc(1, sizeof(*polling) + (size_t)count * sizeof(polling->polled[0]));

    if (polling == NULL)
        return NULL;
    polling->others = calloc((size_t)count, sizeof(polling->others[0]));
    if (polling->others == NULL) {
        free(polling);
        return NULL;
    }
    atomic_init(&polling->refs, 1);
    polling->fds = fds;
    polling->count = count;
    polling->epoll = -1;
    polling->timer = (struct doorbell)DOORBELL_INIT(DOORBELL_TIMED);
    return polling;
}

/* Get the socket of this number, with a reference. NULL: no socket, or its number was closed by close(2). */
static struct sock *find_sock(int number)
{
    struct sock *sock = number >= 0 ? xs_sock_get(number) : NULL;

    if (sock == NULL || xs_sock_has_number(sock))
        return sock;
    xs_sock_put(sock);
    return NULL;
}

/* The thread that polls sockets also runs their queues. */
static void run_home(struct sock *sock)
{
    xs_sock_lock(sock);
    struct queue *home = atomic_load(&sock->home);

    if (home != NULL)
        xs_queue_ref(home);
    xs_sock_unlock(sock);
    if (home == NULL)
        return;
    xs_run(home);
    xs_queue_unref(home);
}

static short look_at_sock(struct sock *sock, bool runs)
{
    if (runs)
        run_home(sock);
    xs_sock_lock(sock);
    short ready = xs_ready(sock);

    xs_sock_unlock(sock);
    return ready;
}

/* Check all elements once, and record which of them are sockets. Returns how many are ready. */
static int scan_elements(struct polling *polling, bool runs)
{
    int ready = 0;

    polling->other_count = 0;
    for (int i = 0; i < polling->count; i++) {
        exs_pollfd_t *fd = &polling->fds[i];
        struct sock *sock = find_sock(fd->exs_fd);
        /* The poll's queue may have been given the number of a socket that was closed since. */
        bool was_socket = polling->polled[i].polling != NULL;
        bool has_left = sock == NULL && (was_socket || xs_sock_has_left(fd->exs_fd));

        fd->exs_revents = 0;
        polling->polled[i].is_other = sock == NULL && !has_left && fd->exs_fd >= 0;
        if (polling->polled[i].is_other)
            polling->others[polling->other_count++] =
                (struct pollfd){.fd = fd->exs_fd, .events = fd->exs_events};
        if (has_left)
            ready += xs_poll_tell(fd, EXS_POLLNVAL);
        if (sock == NULL)
            continue;
        ready += xs_poll_tell(fd, look_at_sock(sock, runs));
        xs_sock_put(sock);
        polling->polled[i].index = i;
        polling->polled[i].number = fd->exs_fd;
        polling->polled[i].events = fd->exs_events;
        polling->polled[i].polling = polling;
    }
    return ready + xs_poll_tell_others(polling);
}

int xs_poll_check(const exs_pollfd_t *fds, int count, int flags, const struct timeval *timeout, uint64_t *limit)
{
    if (flags & ~EXS_BLOCK)
        return xs_bad_flags(flags, EXS_BLOCK);
    if (fds == NULL)
        return xs_invalid("fds is NULL");
    if (count < 1 || count > EXS_POLLFD_MAX)
        return xs_invalid("count is %d: from 1 to EXS_POLLFD_MAX, %d", count, EXS_POLLFD_MAX);
    *limit = NEVER_NS;
    if (timeout != NULL && !ns_timeval(timeout, limit))
        return xs_invalid("timeout is not a valid time");
    return 0;
}

struct polling *xs_poll_now(exs_pollfd_t *fds, int count, int *ready)
{
    struct polling *polling = new_polling(fds, count);

    if (polling != NULL)
        *ready = scan_elements(polling, true);
    return polling;
}

/* End the poll, because an element is ready already. */
static int end_at_once(struct polled *polled, short ready)
{
    struct polling *polling = polled->polling;

    if (xs_poll_claim(polling)) {
        polling->op->event.exs_evt_union.exs_evt_poll.exs_evt_ready +=
            xs_poll_tell(&polling->fds[polled->index], ready);
        xs_poll_finish(polling, NULL);
    }
    return 0;
}

/* Have the poll's queue drive the socket until the poll is over, which it may be already. */
static void use_attachment(struct polled *polled, struct attachment *attachment)
{
    mutex_lock(&attachment->host->events.lock);
    if (!polled->polling->is_released) {
        polled->attachment = attachment;
        xs_attachment_use(attachment, 1);
    }
    mutex_unlock(&attachment->host->events.lock);
}

/* Put the element into the socket's list if the socket has a queue; a socket without one is ready at once.
 * Returns 0, or -1 and errno. Called with the socket's lock. */
static int begin_sock(struct polled *polled, struct sock *sock, struct queue *queue)
{
    struct polling *polling = polled->polling;
    struct queue *home = atomic_load(&sock->home);

    if (home == NULL)
        return end_at_once(polled, xs_ready(sock));
    if (xs_queue_host(queue, home) < 0)
        return -1;
    if (home != queue)
        use_attachment(polled, xs_queue_attachment(queue, home));
    polled->sock = sock;
    atomic_store(&polled->home, home);
    atomic_fetch_add(&polling->refs, 1);
    LIST_INSERT_HEAD(&sock->polls, polled, link);
    xs_poll_look(sock);
    return 0;
}

/* Returns 0, or -1 and errno; the poll may be over in both cases. */
static int begin_poll(struct polling *polling, struct queue *queue)
{
    if (xs_poll_begin_others(polling, queue) < 0)
        return -1;
    for (int i = 0; i < polling->count && !atomic_load(&polling->over); i++) {
        if (polling->polled[i].polling == NULL)
            continue;
        struct sock *sock = xs_sock_get_locked(polling->polled[i].number);

        if (sock == NULL) /* another thread has closed the socket */
            return end_at_once(&polling->polled[i], EXS_POLLNVAL);
        int result = begin_sock(&polling->polled[i], sock, queue);

        xs_sock_put_locked(sock);
        if (result < 0)
            return -1;
    }
    return 0;
}

static int start_poll(struct polling *polling, struct queue *queue, uint64_t limit, exs_ahandle_t ahandle)
{
    polling->op = xs_op_new(queue, NULL, EXS_EVT_POLL, -1, ahandle, NULL);
    if (polling->op == NULL)
        return -1;
    exs_evt_poll_t *event = &polling->op->event.exs_evt_union.exs_evt_poll;

    polling->queue = queue;
    polling->ahandle = ahandle;
    polling->deadline = ns_after(now_ns(), limit);
    event->exs_evt_pollfds = polling->fds;
    event->exs_evt_pollfd_cnt = polling->count;
    event->exs_evt_ready = scan_elements(polling, false);
    if (event->exs_evt_ready > 0) {
        xs_op_complete(polling->op, 0);
        return 0;
    }
    if (begin_poll(polling, queue) == 0 || !xs_poll_claim(polling))
        return 0;
    int saved = errno;

    xs_poll_release(polling);
    xs_op_cancel(polling->op);
    errno = saved;
    return -1;
}

int xs_poll_wait(struct polling *polling, uint64_t limit, exs_qhandle_t qhandle)
{
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return xs_no_queue(qhandle);
    int result = start_poll(polling, queue, limit, NULL);

    xs_queue_put(queue);
    return result;
}

int xs_poll_start(exs_pollfd_t *fds, int count, uint64_t limit, exs_qhandle_t qhandle, exs_ahandle_t ahandle)
{
    struct queue *queue = xs_queue_get(qhandle);

    if (queue == NULL)
        return qhandle == NULL ? xs_invalid("qhandle is NULL, and flags has no EXS_BLOCK")
                               : xs_no_queue(qhandle);
    struct polling *polling = new_polling(fds, count);
    int result = polling != NULL ? start_poll(polling, queue, limit, ahandle) : -1;

    if (polling != NULL)
        xs_poll_put(polling);
    xs_queue_put(queue);
    return result;
}
