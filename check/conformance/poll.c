/* SPDX-License-Identifier: BSD-2-Clause */
/* poll.c - tests of exs_poll: errors, results for sockets in each state and for other descriptors, and its end by a
 * cancel or a close. */
#include <unistd.h>
#include "bodies.h"

static const char *const poll_needs[] = {"exs_init", "exs_socket", "exs_connect", "exs_recv", NULL};

static const struct timeval at_once = {0}, soon = {.tv_usec = 20000};

struct call { /* arguments of a call, changed by the body */
    exs_pollfd_t *fds;
    int count, flags; /* in addition to those of the mode */
    const struct timeval *timeout;
};

static int do_call(struct trial *trial, const struct call *call)
{
    return exs_poll(call->fds, call->count, trial->flags | call->flags, call->timeout, trial->queue, trial);
}

static exs_pollfd_t polled(int fd, short events)
{
    return (exs_pollfd_t){.exs_fd = fd, .exs_events = events, .exs_revents = -1};
}

/* Returns the number of ready descriptors: the result in blocking mode, otherwise that of the event. */
static int ready(struct trial *trial, int result)
{
    if (result < 0 || trial->flags & EXS_BLOCK)
        return result;
    exs_event_t event = ok_event(trial, trial->queue, EXS_EVT_POLL, trial);

    require(trial, event.exs_evt_errno == 0, "its event has an errno");
    return event.exs_evt_union.exs_evt_poll.exs_evt_ready;
}

/* Polls one descriptor for `events`, and checks that the result is `revents`. */
static void has(struct trial *trial, int fd, short events, const struct timeval *timeout, short revents)
{
    exs_pollfd_t one = polled(fd, events);
    int result = do_call(trial, &(struct call){.fds = &one, .count = 1, .timeout = timeout});

    outcome(trial, result);
    require(trial, ready(trial, result) == (revents != 0), "it counts another number of descriptors");
    require(trial, one.exs_revents == revents, "exs_revents is something else");
}

/* ---- Refused -------------------------------------------------------------------------------------------- */

static void refuse(struct trial *trial, const struct call *changed)
{
    exs_pollfd_t one = polled(trial->fd, EXS_POLLIN);
    struct call call = *changed;

    if (call.fds == NULL && call.count != 1)
        call.fds = &one;
    outcome(trial, do_call(trial, &call));
}

static void uninitialized(struct trial *trial)
{
    exs_pollfd_t one = polled(0, EXS_POLLIN);

    outcome(trial, do_call(trial, &(struct call){.fds = &one, .count = 1, .timeout = &at_once}));
}

static void uninitialized_bad(struct trial *trial)
{
    outcome(trial, exs_poll(NULL, -1, BAD_FLAG, NULL, INVALID_QHANDLE, trial));
}

static void forked(struct trial *trial)
{
    exs_pollfd_t one = polled(0, EXS_POLLIN);

    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, do_call(trial, &(struct call){.fds = &one, .count = 1, .timeout = &at_once}));
}

static void fds_null(struct trial *trial)
{
    ok_connected(trial);
    refuse(trial, &(struct call){.count = 1, .timeout = &at_once});
}

static void count_zero(struct trial *trial)
{
    ok_connected(trial);
    refuse(trial, &(struct call){.count = 0, .timeout = &at_once});
}

static void count_large(struct trial *trial)
{
    ok_connected(trial);
    refuse(trial, &(struct call){.count = EXS_POLLFD_MAX + 1, .timeout = &at_once});
}

static void flag(struct trial *trial)
{
    exs_pollfd_t one = polled(-1, 0);

    ok_connected(trial);
    refuse(trial, &(struct call){.fds = &one, .count = 1, .flags = BAD_FLAG, .timeout = &at_once});
}

static void time_bad(struct trial *trial)
{
    const struct timeval bad = {.tv_usec = 1000000};
    exs_pollfd_t one = polled(-1, 0);

    ok_connected(trial);
    refuse(trial, &(struct call){.fds = &one, .count = 1, .timeout = &bad});
}

static void with_queue(struct trial *trial, int flags, exs_qhandle_t queue)
{
    exs_pollfd_t one = polled(-1, 0);

    ok_connected(trial);
    outcome(trial, exs_poll(&one, 1, flags, &at_once, queue, trial));
}

static void queue_invalid(struct trial *trial)
{
    with_queue(trial, trial->flags, INVALID_QHANDLE);
}

static void queue_null(struct trial *trial)
{
    with_queue(trial, 0, NULL);
}

static void no_descriptor(struct trial *trial)
{
    exs_pollfd_t one;

    ok_connected(trial);
    one = polled(trial->fd, EXS_POLLIN);
    use_up_descriptors(trial);
    trial->connected = false; /* checking the connection would need descriptors */
    outcome(trial, do_call(trial, &(struct call){.fds = &one, .count = 1, .timeout = &soon}));
}

/* ---- Ready descriptors ---------------------------------------------------------------------------------- */

static void writable(struct trial *trial)
{
    ok_connected(trial);
    has(trial, trial->fd, EXS_POLLIN | EXS_POLLOUT, NULL, EXS_POLLOUT);
}

static void readable(struct trial *trial)
{
    ok_connected(trial);
    peer_do(trial, PEER_SEND, 1);
    has(trial, trial->fd, EXS_POLLIN, NULL, EXS_POLLIN);
    ok_receive(trial, trial->buffer, 1);
}

static void at_end(struct trial *trial)
{
    ok_connected(trial);
    trial->connected = false; /* usable in one direction only */
    peer_do(trial, PEER_SHUTDOWN, 0);
    has(trial, trial->fd, EXS_POLLIN, NULL, EXS_POLLIN);
}

static void after_reset(struct trial *trial)
{
    ok_connected(trial);
    ok_reset(trial);
    has(trial, trial->fd, EXS_POLLIN, NULL, EXS_POLLIN | EXS_POLLERR | EXS_POLLHUP);
}

static void accepts(struct trial *trial)
{
    ok_listening(trial);
    peer_tell(trial, PEER_CONNECT, 0);
    has(trial, trial->fd, EXS_POLLIN, NULL, EXS_POLLIN);
    ok_accept(trial);
}

static void not_connected(struct trial *trial)
{
    ok_fresh(trial);
    has(trial, trial->fd, EXS_POLLIN | EXS_POLLOUT, NULL, EXS_POLLOUT | EXS_POLLHUP);
}

static void bad_fd(struct trial *trial)
{
    ok_connected(trial);
    has(trial, 9999, EXS_POLLIN, NULL, EXS_POLLNVAL);
}

static void a_pipe(struct trial *trial)
{
    int ends[2];

    ok_connected(trial);
    require(trial, pipe(ends) == 0 && write(ends[1], "x", 1) == 1, "there is no pipe");
    has(trial, ends[0], EXS_POLLIN, NULL, EXS_POLLIN);
}

static void time_over(struct trial *trial)
{
    ok_connected(trial);
    has(trial, trial->fd, EXS_POLLIN, &soon, 0);
}

/* ---- End of the call ------------------------------------------------------------------------- */

static void cancelled(struct trial *trial)
{
    exs_pollfd_t one;

    ok_connected(trial);
    one = polled(trial->fd, EXS_POLLIN);
    outcome(trial, do_call(trial, &(struct call){.fds = &one, .count = 1}));
    require(trial, exs_cancel(trial->fd, trial, 0) == 1, "exs_cancel does not find it");
    require(trial, ok_event(trial, trial->queue, EXS_EVT_POLL, trial).exs_evt_errno == ECANCELED,
            "its event has another errno");
}

static void closed(struct trial *trial)
{
    exs_pollfd_t one;

    ok_connected(trial);
    one = polled(trial->fd, EXS_POLLIN);
    outcome(trial, do_call(trial, &(struct call){.fds = &one, .count = 1}));
    trial->connected = false;
    require(trial, exs_close(trial->fd, 0, trial->queue, &one) == 0, "exs_close failed");
    ok_event(trial, trial->queue, EXS_EVT_POLL, trial);
    require(trial, one.exs_revents == EXS_POLLNVAL, "exs_revents is something else");
    ok_event(trial, trial->queue, EXS_EVT_CLOSE, &one);
}

static void own_queue(struct trial *trial)
{
    exs_pollfd_t one;

    ok_connected(trial);
    one = polled(exs_qfd(trial->queue), EXS_POLLIN);
    outcome(trial, do_call(trial, &(struct call){.fds = &one, .count = 1}));
}

#define POLL(fds, count, flags, timeout, qh) "exs_poll(" fds ", " count ", " flags ", " timeout ", " qh ", ah)"
#define GOOD POLL("fds", "count", "flags", "timeout", "qh")

static const struct row poll_rows[] = {
    {1, EPERM, GOOD " [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, EPERM, POLL("NULL", "-1", "BAD_FLAG", "NULL", "INVALID_QHANDLE") " [no exs_init]", BOTH, OURS,
     uninitialized_bad, NULL},
    {3, ECHILD, GOOD " [in a forked child]", BOTH, OURS, forked, NULL},
    {4, EINVAL, POLL("NULL", "1", "flags", "timeout", "qh"), BOTH, OURS, fds_null, NULL},
    {5, EINVAL, POLL("fds", "0", "flags", "timeout", "qh"), BOTH, OURS, count_zero, NULL},
    {6, EINVAL, POLL("fds", "EXS_POLLFD_MAX + 1", "flags", "timeout", "qh"), BOTH, OURS, count_large, NULL},
    {7, EINVAL, POLL("fds", "count", "BAD_FLAG", "timeout", "qh"), BOTH, OURS, flag, NULL},
    {8, EINVAL, POLL("fds", "count", "flags", "a second of microseconds", "qh"), BOTH, OURS, time_bad, NULL},
    {9, EINVAL, POLL("fds", "count", "flags", "timeout", "INVALID_QHANDLE"), BOTH, OURS, queue_invalid, NULL},
    {10, EINVAL, POLL("fds", "count", "0", "timeout", "NULL"), BOTH, OURS, queue_null, NULL},
    {11, 0, GOOD " [a send would not wait]", BOTH, OURS, writable, "EXS_POLLOUT."},
    {12, 0, GOOD " [a byte has come]", BOTH, OURS, readable, "EXS_POLLIN."},
    {13, 0, GOOD " [the peer has shut down]", BOTH, OURS, at_end, "EXS_POLLIN."},
    {14, 0, GOOD " [the peer was killed]", BOTH, OURS, after_reset, "EXS_POLLIN, EXS_POLLERR, EXS_POLLHUP."},
    {15, 0, GOOD " [a listener, and somebody connects]", BOTH, OURS, accepts, "EXS_POLLIN."},
    {16, 0, GOOD " [not connected]", BOTH, OURS, not_connected, "EXS_POLLOUT, EXS_POLLHUP."},
    {17, 0, GOOD " [a number that is not open]", BOTH, OURS, bad_fd, "EXS_POLLNVAL."},
    {18, 0, GOOD " [a pipe with a byte]", BOTH, OURS, a_pipe, "EXS_POLLIN."},
    {19, 0, GOOD " [nothing comes in time]", BOTH, OURS, time_over, "It is no error: none is ready."},
    {20, 0, GOOD " [cancelled]", NONBLOCKING, OURS, cancelled, "The event has ECANCELED."},
    {21, 0, GOOD " [the socket is closed]", NONBLOCKING, OURS, closed, "EXS_POLLNVAL."},
    {22, EMFILE, GOOD " [no descriptor is left]", BOTH, OURS, no_descriptor, "It has a time-out."},
    {23, ELOOP, GOOD " [the descriptor of qh itself]", NONBLOCKING, OURS, own_queue, NULL},
};
const struct group group_poll = {"exs_poll", NULL, poll_needs, ROWS(poll_rows)};
