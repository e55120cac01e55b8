/* SPDX-License-Identifier: BSD-2-Clause */
/* send.c - tests of exs_send (5.2.10), exs_blocking_send (5.3.6) and exs_write (5.3.12), with one set of bodies for
 * all. */
#include <stdlib.h>
#include "bodies.h"

struct send { /* arguments of a call, changed by the body */
    int fd;
    const void *buffer;
    size_t length; /* bytes */
    int flags;     /* in addition to those of the mode */
    exs_mhandle_t mhandle;
};

static struct send correct(struct trial *trial)
{
    pattern(trial->buffer, BUFSIZE);
    return (struct send){.fd = trial->fd, .buffer = trial->buffer, .length = BUFSIZE};
}

/* Calls the function of the row's group. */
static ssize_t call(struct trial *trial, const struct send *s)
{
    if (trial->group == &group_write)
        return exs_write(s->fd, s->buffer, s->length);
    if (trial->group == &group_blocking_send)
        return exs_blocking_send(s->fd, s->buffer, s->length, s->flags, s->mhandle);
    return exs_send(s->fd, s->buffer, s->length, trial->flags | s->flags, trial->queue, trial, s->mhandle);
}

static void uninitialized(struct trial *trial)
{
    struct send send = correct(trial);

    send.fd = 0;
    outcome(trial, call(trial, &send));
}

static void uninitialized_bad(struct trial *trial)
{
    struct send send = {.fd = BAD_FD, .flags = BAD_FLAG};

    trial->queue = trial->flags & EXS_BLOCK ? NULL : INVALID_QHANDLE;
    outcome(trial, call(trial, &send));
}

static void correctly(struct trial *trial)
{
    struct send send = correct(trial);

    outcome(trial, call(trial, &send));
}

static void not_connected(struct trial *trial)
{
    ok_fresh(trial);
    correctly(trial);
    ok_bind(trial, trial->fd, "0");
    correctly(trial);
    ok_listen(trial, trial->fd);
    correctly(trial);
}

static void not_connected_listener(struct trial *trial)
{
    ok_listening(trial);
    correctly(trial);
}

static void queue_invalid(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_send(trial->fd, trial->buffer, BUFSIZE, trial->flags, INVALID_QHANDLE, trial, NULL));
    outcome(trial, exs_send(trial->fd, trial->buffer, BUFSIZE, EXS_UNSIGNALED, INVALID_QHANDLE, trial, NULL));
}

static void queue_null(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_send(trial->fd, trial->buffer, BUFSIZE, 0, NULL, trial, NULL));
}

static void buffer_null(struct trial *trial)
{
    ok_connected(trial);
    struct send send = correct(trial);

    send.buffer = NULL;
    outcome(trial, call(trial, &send));
}

static void flag(struct trial *trial)
{
    ok_connected(trial);
    struct send send = correct(trial);

    send.flags = BAD_FLAG;
    outcome(trial, call(trial, &send));
    send.flags = MSG_OOB;
    outcome(trial, call(trial, &send));
    send.flags = -1;
    outcome(trial, call(trial, &send));
}

/* The peer's buffer is full. */
static void dont_wait(struct trial *trial)
{
    static unsigned char many[3000000];
    ssize_t sent;

    ok_connected(trial);
    sent = moved(
        trial, exs_send(trial->fd, many, sizeof(many), trial->flags | MSG_DONTWAIT, trial->queue, trial, NULL),
        EXS_EVT_SEND);
    require(trial, sent > 0 && sent < (ssize_t)sizeof(many), "not as much was sent as there is room for");
    trial->connected = false; /* the peer's buffer is full */
    outcome(trial, exs_send(trial->fd, many, 1, trial->flags | MSG_DONTWAIT, trial->queue, trial, NULL));
    require(trial, peer_do(trial, PEER_RECEIVE, (size_t)sent).count == (size_t)sent,
            "the peer received another number of bytes");
}

static void flag_receive(struct trial *trial)
{
    ok_connected(trial);
    struct send send = correct(trial);

    send.flags = MSG_WAITALL;
    outcome(trial, call(trial, &send));
}

/* exs_write() has no flags, so exs_send() is called. */
static void unsignaled_block(struct trial *trial)
{
    ok_connected(trial);
    pattern(trial->buffer, BUFSIZE);
    if (trial->group == &group_blocking_send)
        for (int i = 0; i < 2; i++)
            outcome(trial, exs_blocking_send(trial->fd, trial->buffer, BUFSIZE,
                                             EXS_UNSIGNALED | (i ? EXS_BLOCK : 0), NULL));
    else
        outcome(trial, exs_send(trial->fd, trial->buffer, BUFSIZE, EXS_UNSIGNALED | EXS_BLOCK, trial->queue,
                                trial, NULL));
}

static void with_fd(struct trial *trial, int fd)
{
    ok_connected(trial);
    struct send send = correct(trial);

    send.fd = fd;
    outcome(trial, call(trial, &send));
}

static void bad_fd(struct trial *trial)
{
    with_fd(trial, BAD_FD);
    struct send send = correct(trial);

    send.fd = UNUSED_FD;
    outcome(trial, call(trial, &send));
    send.fd = foreign_fd(trial);
    outcome(trial, call(trial, &send));
}

static void foreign(struct trial *trial)
{
    with_fd(trial, foreign_fd(trial));
}

static void after_shutdown(struct trial *trial)
{
    ok_connected(trial);
    ok_shutdown(trial, SHUT_WR);
    correctly(trial);
    if (trial->queue != NULL)
        outcome(trial, exs_send(trial->fd, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
}

static void after_reset(struct trial *trial)
{
    ok_connected(trial);
    ok_reset(trial);
    correctly(trial);
}

/* Checks that the peer has received exactly these bytes. */
static void received(struct trial *trial, const struct peer_answer *answer, const void *buffer, size_t length)
{
    require(trial, answer->count == length && answer->sum == sum_of(buffer, length, SUM_START),
            "the peer did not receive what was sent");
}

static void sent_with(struct trial *trial, exs_mhandle_t region, int flags)
{
    struct send send = correct(trial);

    send.mhandle = region;
    send.flags = flags;
    peer_tell(trial, PEER_RECEIVE, BUFSIZE);
    ssize_t result = moved(trial, call(trial, &send), EXS_EVT_SEND);

    outcome(trial, result);
    require(trial, result == BUFSIZE, "not all bytes were sent");
    struct peer_answer answer = peer_hear(trial);

    received(trial, &answer, trial->buffer, BUFSIZE);
}

static void sent(struct trial *trial, exs_mhandle_t region)
{
    sent_with(trial, region, 0);
}

static void ok(struct trial *trial)
{
    ok_connected(trial);
    sent(trial, NULL);
}

static void ok_region(struct trial *trial)
{
    ok_connected(trial);
    sent(trial, ok_mregister(trial, trial->buffer, BUFSIZE, 0));
}

static void ok_unregistered(struct trial *trial)
{
    ok_connected(trial);
    sent(trial, EXS_MHANDLE_UNREGISTERED);
}

static void ok_no_signal(struct trial *trial)
{
    ok_connected(trial);
    sent_with(trial, NULL, MSG_NOSIGNAL);
}

static void no_signal_after_shutdown(struct trial *trial)
{
    ok_connected(trial);
    ok_shutdown(trial, SHUT_WR);
    struct send send = correct(trial);

    send.flags = MSG_NOSIGNAL;
    outcome(trial, call(trial, &send));
}

/* A successful unsignaled send has no event. */
static void unsignaled_to(struct trial *trial, exs_qhandle_t queue)
{
    pattern(trial->buffer, BUFSIZE);
    outcome(trial, exs_send(trial->fd, trial->buffer, BUFSIZE, EXS_UNSIGNALED, queue, trial, NULL));
    peer_tell(trial, PEER_RECEIVE, BUFSIZE + 1);
    ok_send(trial, trial->buffer, 1); /* its event must be the first */
    require(trial, peer_hear(trial).count == BUFSIZE + 1, "the peer did not receive what was sent");
    no_event(trial, trial->queue);
}

static void unsignaled(struct trial *trial)
{
    ok_connected(trial);
    unsignaled_to(trial, NULL);
}

static void unsignaled_queue(struct trial *trial)
{
    ok_connected(trial);
    unsignaled_to(trial, trial->queue);
}

#define MANY 1000

/* More sends than the maximum of credits, before the peer receives. */
static void many_sends(struct trial *trial)
{
    long result = 0;

    for (int i = 0; i < MANY && result >= 0; i++)
        result = exs_send(trial->fd, trial->buffer, BUFSIZE, 0, trial->queue, trial, NULL);
    outcome(trial, result);
    peer_tell(trial, PEER_RECEIVE, (size_t)MANY * BUFSIZE);
    for (int i = 0; i < MANY; i++)
        require(trial, ok_event(trial, trial->queue, EXS_EVT_SEND, trial).exs_evt_errno == 0, "a send failed");
    no_event(trial, trial->queue);
}

/* A send that needs more credits than their maximum. */
static void large_send(struct trial *trial)
{
    struct send send = {.fd = trial->fd, .length = (size_t)MANY * BUFSIZE};

    send.buffer = calloc(1, send.length);
    peer_tell(trial, PEER_RECEIVE, send.length);
    outcome(trial, call(trial, &send));
}

static void no_credits(struct trial *trial)
{
    ok_connected(trial);
    if (trial->flags & EXS_BLOCK)
        large_send(trial);
    else
        many_sends(trial);
    require(trial, peer_hear(trial).count == (size_t)MANY * BUFSIZE, "the peer did not receive all");
}

static void with_region(struct trial *trial, exs_mhandle_t region, size_t length)
{
    struct send send = correct(trial);

    send.mhandle = region;
    send.length = length;
    outcome(trial, call(trial, &send));
}

static void too_long(struct trial *trial)
{
    ok_connected(trial);
    with_region(trial, NULL, MAX_LENGTH);
}

static void region_invalid(struct trial *trial)
{
    ok_connected(trial);
    with_region(trial, EXS_MHANDLE_INVALID, BUFSIZE);
}

static void region_elsewhere(struct trial *trial)
{
    ok_connected(trial);
    with_region(trial, ok_mregister(trial, trial->buffer, BUFSIZE - 1, 0), BUFSIZE);
}

static void region_before(struct trial *trial)
{
    ok_connected(trial);
    with_region(trial, ok_mregister(trial, trial->buffer + 1, BUFSIZE - 1, 0), 1);
}

static void region_no_send(struct trial *trial)
{
    ok_connected(trial);
    with_region(trial, ok_mregister(trial, trial->buffer, BUFSIZE, EXS_MRF_SEND_DISABLE), BUFSIZE);
}

static void forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    struct send send = correct(trial);

    trial->queue = NULL;
    outcome(trial, call(trial, &send));
}

#include "send_rows.h"
