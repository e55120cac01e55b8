/* SPDX-License-Identifier: BSD-2-Clause */
/* close.c - tests of exs_close (5.3.7) and exs_blocking_close (5.3.3). */
#include "bodies.h"

/* ---- exs_close ------------------------------------------------------------------------------- */

static void close_uninitialized(struct trial *trial)
{
    outcome(trial, exs_close(0, trial->flags, NULL, trial));
}

static void close_uninitialized_bad(struct trial *trial)
{
    outcome(trial, exs_close(BAD_FD, BAD_FLAG, INVALID_QHANDLE, trial));
}

static void close_flag(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_close(trial->fd, trial->flags | BAD_FLAG, trial->queue, trial));
    outcome(trial, exs_close(trial->fd, trial->flags | MSG_OOB, trial->queue, trial));
    outcome(trial, exs_close(trial->fd, trial->flags | EXS_UNSIGNALED, trial->queue, trial));
    outcome(trial, exs_close(trial->fd, -1, trial->queue, trial));
}

static void close_queue(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_close(trial->fd, trial->flags, INVALID_QHANDLE, trial));
}

static void close_bad_fd(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_close(BAD_FD, trial->flags, trial->queue, trial));
    outcome(trial, exs_close(UNUSED_FD, trial->flags, trial->queue, trial));
}

static void close_foreign(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, exs_close(foreign_fd(trial), trial->flags, trial->queue, trial));
}

/* The peer receives the end of the stream, and the descriptor is closed. */
static void close_ok(struct trial *trial)
{
    unsigned char byte;

    ok_connected(trial);
    peer_tell(trial, PEER_DRAIN, 0);
    outcome(trial, done(trial, exs_close(trial->fd, trial->flags, trial->queue, trial), EXS_EVT_CLOSE));
    peer_hear(trial);
    require(trial, exs_recv(trial->fd, &byte, 1, EXS_BLOCK, NULL, NULL, NULL) == -1 && errno == EBADF,
            "the socket is still there");
}

static void close_listener(struct trial *trial)
{
    ok_listening(trial);
    trial->listening = false;
    outcome(trial, done(trial, exs_close(trial->fd, trial->flags, trial->queue, trial), EXS_EVT_CLOSE));
}

static void close_twice(struct trial *trial)
{
    ok_fresh(trial);
    int result = done(trial, exs_close(trial->fd, trial->flags, trial->queue, trial), EXS_EVT_CLOSE);

    require(trial, result == 0, "the first exs_close failed");
    outcome(trial, exs_close(trial->fd, trial->flags, trial->queue, trial));
    require(trial, exs_blocking_close(trial->fd) == -1 && errno == EBADF, "exs_blocking_close closes it again");
    require(trial, exs_listen(trial->fd, 1) == -1 && errno == EBADF, "a closed socket listens");
}

static void close_no_queue(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, exs_close(trial->fd, 0, NULL, NULL));
    require(trial, exs_close(trial->fd, 0, NULL, NULL) == -1 && errno == EBADF, "the socket is still there");
    if (trial->queue != NULL)
        no_event(trial, trial->queue);
}

/* The event of a pending receive, ECANCELED, precedes that of the close. */
static void close_pending(struct trial *trial)
{
    unsigned char byte;

    ok_connected(trial);
    require(trial, exs_recv(trial->fd, &byte, 1, 0, trial->queue, &byte, NULL) == 0, "exs_recv failed");
    peer_tell(trial, PEER_DRAIN, 0);
    outcome(trial, exs_close(trial->fd, 0, trial->queue, trial));
    exs_event_t event = ok_event(trial, trial->queue, EXS_EVT_RECV, &byte);

    require(trial, event.exs_evt_errno == ECANCELED, "the pending receive did not get ECANCELED");
    event = ok_event(trial, trial->queue, EXS_EVT_CLOSE, trial);
    require(trial, event.exs_evt_errno == 0, "the close has an error");
    no_event(trial, trial->queue);
}

static void close_forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, exs_close(trial->fd, trial->flags, NULL, trial));
}

#define MANY 3000000 /* bytes; more than the peer buffers without a receive */
static unsigned char many[MANY];

/* Starts a send that cannot complete before the peer receives. */
static void send_many(struct trial *trial)
{
    ok_connected(trial);
    pattern(many, MANY);
    ssize_t result = exs_send(trial->fd, many, MANY, EXS_UNSIGNALED, NULL, NULL, NULL);

    require(trial, result == 0, "exs_send failed");
}

/* Checks that all sent bytes and then the end of the stream arrive. */
static void close_lingers(struct trial *trial, int flags)
{
    peer_tell(trial, PEER_DRAIN, 0);
    outcome(trial, done(trial, exs_close(trial->fd, trial->flags | flags, trial->queue, trial), EXS_EVT_CLOSE));
    struct peer_answer answer = peer_hear(trial);

    require(trial, answer.result == 0, "the peer saw no end");
    require(trial, answer.count == MANY && answer.sum == sum_of(many, MANY, SUM_START),
            "the peer received something else than was sent");
}

static void close_flag_lingers(struct trial *trial)
{
    send_many(trial);
    close_lingers(trial, EXS_LINGER);
}

static void set_linger(struct trial *trial, int seconds)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = seconds};

    require(trial, exs_setsockopt(trial->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0,
            "exs_setsockopt failed");
}

static void close_option_lingers(struct trial *trial)
{
    send_many(trial);
    set_linger(trial, 60);
    close_lingers(trial, 0);
}

/* The peer does not receive: the close fails with a timeout, and the socket is closed nevertheless. */
static void close_too_late(struct trial *trial)
{
    send_many(trial);
    set_linger(trial, 1);
    trial->connected = false;
    outcome(trial, done(trial, exs_close(trial->fd, trial->flags, trial->queue, trial), EXS_EVT_CLOSE));
    require(trial, exs_close(trial->fd, 0, NULL, NULL) == -1 && errno == EBADF, "the socket is still there");
}

/* SO_LINGER of 0 s: pending sends are aborted immediately. */
static void close_cuts(struct trial *trial)
{
    send_many(trial);
    set_linger(trial, 0);
    outcome(trial,
            done(trial, exs_close(trial->fd, trial->flags | EXS_LINGER, trial->queue, trial), EXS_EVT_CLOSE));
}

static const struct row close_rows[] = {
    {1, EPERM, "exs_close(fd, flags, qh, ah) [no exs_init]", BOTH, THESIS, close_uninitialized, NULL},
    {2, EINVAL, "exs_close(fd, BAD_FLAG, qh, ah)", BOTH, THESIS, close_flag, NULL},
    {3, EINVAL, "exs_close(fd, flags, INVALID_QHANDLE, ah)", BOTH, THESIS, close_queue, NULL},
    {4, EBADF, "exs_close(BAD_FD, flags, qh, ah)", BOTH, THESIS, close_bad_fd,
     "The thesis's heading has EINVAL, its text EBADF: the text stands."},
    {5, 0, "exs_close(fd, flags, qh, ah)", BOTH, THESIS, close_ok, NULL},
    {6, EBADF, "exs_close(fd, flags, qh, ah) [already closed]", BOTH, OURS, close_twice, NULL},
    {7, 0, "exs_close(fd, 0, NULL, NULL)", BOTH, OURS, close_no_queue,
     "The thesis calls it so in figure 2-2: no event is wanted."},
    {8, 0, "exs_close(fd, 0, qh, ah) [a receive pending, ECANCELED]", NONBLOCKING, OURS, close_pending, NULL},
    {9, 0, "exs_close(LISTENING_FD, flags, qh, ah)", BOTH, OURS, close_listener, NULL},
    {10, EBADF, "exs_close(FD_OF_A_FILE, flags, qh, ah)", BOTH, OURS, close_foreign, NULL},
    {11, EPERM, "exs_close(BAD_FD, BAD_FLAG, INVALID_QHANDLE, ah) [no exs_init]", BOTH, OURS,
     close_uninitialized_bad, NULL},
    {12, ECHILD, "exs_close(fd, flags, qh, ah) [in a forked child]", BOTH, OURS, close_forked, NULL},
    {13, 0, "exs_close(fd, flags | EXS_LINGER, qh, ah) [sends pending]", BOTH, OURS, close_flag_lingers, NULL},
    {14, 0, "exs_close(fd, flags, qh, ah) [sends pending, SO_LINGER]", BOTH, OURS, close_option_lingers, NULL},
    {15, ETIMEDOUT, "exs_close(fd, flags, qh, ah) [sends pending, SO_LINGER of 1 s]", BOTH, OURS,
     close_too_late, "The socket is closed all the same."},
    {16, 0, "exs_close(fd, flags | EXS_LINGER, qh, ah) [sends pending, SO_LINGER of 0 s]", BOTH, OURS,
     close_cuts, "They are cut off."},
};
static const char *const close_needs[] = {"exs_init", "exs_socket", NULL};
const struct group group_close = {"exs_close", "5.3.7", close_needs, ROWS(close_rows)};

/* ---- exs_blocking_close ---------------------------------------------------------------------- */

static void blocking_close_uninitialized(struct trial *trial)
{
    outcome(trial, exs_blocking_close(0));
}

static void blocking_close_ok(struct trial *trial)
{
    ok_connected(trial);
    peer_tell(trial, PEER_DRAIN, 0);
    outcome(trial, exs_blocking_close(trial->fd));
    peer_hear(trial);
    require(trial, exs_blocking_close(trial->fd) == -1 && errno == EBADF, "the socket is still there");
}

static void blocking_close_fresh(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, exs_blocking_close(trial->fd));
}

static void blocking_close_bad_fd(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_blocking_close(BAD_FD));
    outcome(trial, exs_blocking_close(UNUSED_FD));
    outcome(trial, exs_blocking_close(foreign_fd(trial)));
}

static void blocking_close_forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    outcome(trial, exs_blocking_close(trial->fd));
}

static void blocking_close_flag(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_close(trial->fd, EXS_BLOCK | BAD_FLAG, NULL, NULL));
}

static void blocking_close_queue(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_close(trial->fd, EXS_BLOCK, INVALID_QHANDLE, NULL));
}

#define NO_PARAMETER "exs_blocking_close has no such parameter: asked of the call that it stands for."

static const struct row blocking_close_rows[] = {
    {1, EPERM, "exs_blocking_close(fd) [no exs_init]", BLOCKING, THESIS, blocking_close_uninitialized, NULL},
    {2, 0, "exs_blocking_close(fd)", BLOCKING, THESIS, blocking_close_ok, NULL},
    {3, EINVAL, "exs_close(fd, EXS_BLOCK | BAD_FLAG, NULL, NULL)", BLOCKING, UNIMPLEMENTED, blocking_close_flag,
     NO_PARAMETER},
    {4, EINVAL, "exs_close(fd, EXS_BLOCK, INVALID_QHANDLE, NULL)", BLOCKING, UNIMPLEMENTED,
     blocking_close_queue, NO_PARAMETER},
    {5, EBADF, "exs_blocking_close(BAD_FD)", BLOCKING, UNIMPLEMENTED, blocking_close_bad_fd, NULL},
    {6, 0, "exs_blocking_close(fd) [never connected]", BLOCKING, OURS, blocking_close_fresh, NULL},
    {7, ECHILD, "exs_blocking_close(fd) [in a forked child]", BLOCKING, OURS, blocking_close_forked, NULL},
};
const struct group group_blocking_close = {"exs_blocking_close", "5.3.3", close_needs,
                                           ROWS(blocking_close_rows)};
