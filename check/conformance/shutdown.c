/* SPDX-License-Identifier: BSD-2-Clause */
/* shutdown.c - tests of exs_shutdown (5.3.10). */
#include "bodies.h"

static int given(struct trial *trial, int fd, int how, int flags, exs_qhandle_t queue)
{
    return exs_shutdown(fd, how, flags, queue, trial);
}

static void uninitialized(struct trial *trial)
{
    outcome(trial, given(trial, 0, SHUT_RDWR, trial->flags, NULL));
}

static void uninitialized_bad(struct trial *trial)
{
    outcome(trial, given(trial, BAD_FD, -1, BAD_FLAG, INVALID_QHANDLE));
}

static void flag(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, given(trial, trial->fd, SHUT_RDWR, trial->flags | BAD_FLAG, trial->queue));
    outcome(trial, given(trial, trial->fd, SHUT_RDWR, trial->flags | MSG_OOB, trial->queue));
    outcome(trial, given(trial, trial->fd, SHUT_RDWR, trial->flags | EXS_UNSIGNALED, trial->queue));
    outcome(trial, given(trial, trial->fd, SHUT_RDWR, -1, trial->queue));
}

static void queue_invalid(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, given(trial, trial->fd, SHUT_RDWR, trial->flags, INVALID_QHANDLE));
}

static void queue_null(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, given(trial, trial->fd, SHUT_RDWR, 0, NULL));
}

static void bad_fd(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, given(trial, BAD_FD, SHUT_RDWR, trial->flags, trial->queue));
    outcome(trial, given(trial, UNUSED_FD, SHUT_RDWR, trial->flags, trial->queue));
    outcome(trial, given(trial, foreign_fd(trial), SHUT_RDWR, trial->flags, trial->queue));
}

static void how(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, given(trial, trial->fd, 3, trial->flags, trial->queue));
}

static void how_negative(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, given(trial, trial->fd, -1, trial->flags, trial->queue));
}

static void not_connected(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, given(trial, trial->fd, SHUT_RDWR, trial->flags, trial->queue));
    ok_bind(trial, trial->fd, "0");
    outcome(trial, given(trial, trial->fd, SHUT_RDWR, trial->flags, trial->queue));
}

static void listener(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial, trial->fd, SHUT_RDWR, trial->flags, trial->queue));
}

/* The peer receives the end of the stream; further sends fail. */
static void both(struct trial *trial)
{
    ok_connected(trial);
    peer_tell(trial, PEER_DRAIN, 0);
    outcome(trial,
            done(trial, given(trial, trial->fd, SHUT_RDWR, trial->flags, trial->queue), EXS_EVT_SHUTDOWN));
    peer_hear(trial);
    require(trial, exs_write(trial->fd, "x", 1) == -1 && errno == EPIPE, "bytes can still be sent");
    require(trial, exs_read(trial->fd, trial->buffer, 1) == 0, "reading has not ended");
}

/* The other direction still works. */
static void writing(struct trial *trial)
{
    ok_connected(trial);
    peer_tell(trial, PEER_DRAIN, 0);
    outcome(trial, done(trial, given(trial, trial->fd, SHUT_WR, trial->flags, trial->queue), EXS_EVT_SHUTDOWN));
    peer_hear(trial);
    peer_tell(trial, PEER_SEND, 1);
    ok_receive(trial, trial->buffer, 1);
    peer_hear(trial);
}

static void reading(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, done(trial, given(trial, trial->fd, SHUT_RD, trial->flags, trial->queue), EXS_EVT_SHUTDOWN));
    require(trial, exs_read(trial->fd, trial->buffer, 1) == 0, "reading has not ended");
    peer_tell(trial, PEER_RECEIVE, 1);
    ok_send(trial, "x", 1);
    peer_hear(trial);
}

/* Data that were sent before the shutdown are delivered first. */
static void behind_data(struct trial *trial)
{
    static unsigned char data[1 << 20];

    ok_connected(trial);
    pattern(data, sizeof(data));
    require(trial, exs_send(trial->fd, data, sizeof(data), 0, trial->queue, data, NULL) == 0,
            "exs_send failed");
    outcome(trial, given(trial, trial->fd, SHUT_WR, 0, trial->queue));
    peer_tell(trial, PEER_DRAIN, 0);
    ok_event(trial, trial->queue, EXS_EVT_SEND, data);
    ok_event(trial, trial->queue, EXS_EVT_SHUTDOWN, trial);
    struct peer_answer answer = peer_hear(trial);

    require(trial, answer.count == sizeof(data) && answer.sum == sum_of(data, sizeof(data), SUM_START),
            "the peer did not receive what was sent before");
}

static void forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, given(trial, trial->fd, SHUT_RDWR, trial->flags, NULL));
}

static const struct row rows[] = {
    {1, EPERM, "exs_shutdown(fd, SHUT_RDWR, flags, qh, ah) [no exs_init]", BOTH, THESIS, uninitialized, NULL},
    {2, EINVAL, "exs_shutdown(fd, SHUT_RDWR, BAD_FLAG, qh, ah)", BOTH, THESIS, flag, NULL},
    {3, EINVAL, "exs_shutdown(fd, SHUT_RDWR, flags, INVALID_QHANDLE, ah)", BOTH, THESIS, queue_invalid, NULL},
    {4, EBADF, "exs_shutdown(BAD_FD, SHUT_RDWR, flags, qh, ah)", BOTH, THESIS, bad_fd, NULL},
    {5, 0, "exs_shutdown(fd, SHUT_RDWR, flags, qh, ah)", BOTH, THESIS, both, NULL},
    {6, 0, "exs_shutdown(fd, SHUT_WR, flags, qh, ah)", BOTH, OURS, writing, NULL},
    {7, 0, "exs_shutdown(fd, SHUT_RD, flags, qh, ah)", BOTH, OURS, reading, NULL},
    {8, 0, "exs_shutdown(fd, SHUT_WR, 0, qh, ah) [behind a send]", NONBLOCKING, OURS, behind_data, NULL},
    {9, EINVAL, "exs_shutdown(fd, 3, flags, qh, ah)", BOTH, OURS, how, NULL},
    {10, EINVAL, "exs_shutdown(fd, -1, flags, qh, ah)", BOTH, OURS, how_negative, NULL},
    {11, EINVAL, "exs_shutdown(fd, SHUT_RDWR, 0, NULL, ah)", BOTH, OURS, queue_null, NULL},
    {12, ENOTCONN, "exs_shutdown(NOT_CONNECTED_FD, SHUT_RDWR, flags, qh, ah)", BOTH, OURS, not_connected, NULL},
    {13, ENOTCONN, "exs_shutdown(LISTENING_FD, SHUT_RDWR, flags, qh, ah)", BOTH, OURS, listener, NULL},
    {14, EPERM, "exs_shutdown(BAD_FD, -1, BAD_FLAG, INVALID_QHANDLE, ah) [no exs_init]", BOTH, OURS,
     uninitialized_bad, NULL},
    {15, ECHILD, "exs_shutdown(fd, SHUT_RDWR, flags, qh, ah) [in a forked child]", BOTH, OURS, forked, NULL},
};
static const char *const needs[] = {"exs_init",   "exs_socket", "exs_connect", "exs_bind",
                                    "exs_listen", "exs_accept", NULL};
const struct group group_shutdown = {"exs_shutdown", "5.3.10", needs, ROWS(rows)};
