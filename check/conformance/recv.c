/* SPDX-License-Identifier: BSD-2-Clause */
/* recv.c - tests of exs_recv (5.2.9), exs_blocking_recv (5.3.5) and exs_read (5.3.9), with one set of bodies for
 * all. */
#include <fcntl.h>
#include "bodies.h"

struct receive { /* arguments of a call, changed by the body */
    int fd;
    void *buffer;
    size_t length; /* bytes */
    int flags;     /* in addition to those of the mode */
    exs_mhandle_t mhandle;
};

static struct receive correct(struct trial *trial)
{
    return (struct receive){.fd = trial->fd, .buffer = trial->buffer, .length = BUFSIZE};
}

/* Calls the function of the row's group. */
static ssize_t call(struct trial *trial, const struct receive *r)
{
    if (trial->group == &group_read)
        return exs_read(r->fd, r->buffer, r->length);
    if (trial->group == &group_blocking_recv)
        return exs_blocking_recv(r->fd, r->buffer, r->length, r->flags, r->mhandle);
    return exs_recv(r->fd, r->buffer, r->length, trial->flags | r->flags, trial->queue, trial, r->mhandle);
}

static void uninitialized(struct trial *trial)
{
    struct receive receive = correct(trial);

    receive.fd = 0;
    outcome(trial, call(trial, &receive));
}

static void uninitialized_bad(struct trial *trial)
{
    struct receive receive = {.fd = BAD_FD, .flags = BAD_FLAG};

    trial->queue = trial->flags & EXS_BLOCK ? NULL : INVALID_QHANDLE;
    outcome(trial, call(trial, &receive));
}

static void queue_invalid(struct trial *trial)
{
    ok_accepted(trial);
    outcome(trial, exs_recv(trial->fd, trial->buffer, BUFSIZE, trial->flags, INVALID_QHANDLE, trial, NULL));
}

static void queue_null(struct trial *trial)
{
    ok_accepted(trial);
    outcome(trial, exs_recv(trial->fd, trial->buffer, BUFSIZE, 0, NULL, trial, NULL));
}

static void length_zero(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.length = 0;
    outcome(trial, call(trial, &receive));
}

static void too_long(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.length = MAX_LENGTH;
    outcome(trial, call(trial, &receive));
}

static void buffer_null(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.buffer = NULL;
    outcome(trial, call(trial, &receive));
}

static void flag(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.flags = MSG_OOB; /* the thesis's invalid flag, 2, is MSG_PEEK here */
    outcome(trial, call(trial, &receive));
    receive.flags = -1;
    outcome(trial, call(trial, &receive));
}

/* MSG_PEEK returns the data that have arrived; they can then be received. */
static void peek(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    peer_do(trial, PEER_SEND, 10);
    receive.flags = MSG_PEEK;
    for (int i = 0; i < 2; i++)
        require(trial, moved(trial, call(trial, &receive), EXS_EVT_RECV) == 10,
                "it does not see what has come");
    receive.flags = 0;
    ssize_t result = call(trial, &receive);

    outcome(trial, result);
    require(trial, moved(trial, result, EXS_EVT_RECV) == 10, "it does not receive what was seen");
}

static void peek_at_nothing(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.flags = MSG_PEEK | MSG_DONTWAIT;
    outcome(trial, call(trial, &receive));
}

/* No data have arrived; data that then arrive are received. */
static void dont_wait(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.flags = MSG_DONTWAIT;
    outcome(trial, call(trial, &receive));
    ssize_t result;

    peer_do(trial, PEER_SEND, 10);
    do {
        result = call(trial, &receive);
    } while (result < 0 && errno == EAGAIN);
    require(trial, moved(trial, result, EXS_EVT_RECV) == 10, "it does not receive what has come");
}

static void signal_ends(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.flags = EXS_INTR;
    signals_come(trial);
    ssize_t result = call(trial, &receive);

    signals_end();
    outcome(trial, result);
}

static void signal_without_block(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.flags = EXS_INTR;
    outcome(trial, call(trial, &receive));
}

static void flag_unsignaled(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.flags = EXS_UNSIGNALED;
    outcome(trial, call(trial, &receive));
}

static void bad_fd(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.fd = BAD_FD;
    outcome(trial, call(trial, &receive));
    receive.fd = UNUSED_FD;
    outcome(trial, call(trial, &receive));
    receive.fd = foreign_fd(trial);
    outcome(trial, call(trial, &receive));
}

static void foreign(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.fd = foreign_fd(trial);
    outcome(trial, call(trial, &receive));
}

static void not_connected(struct trial *trial)
{
    ok_fresh(trial);
    struct receive receive = correct(trial);

    outcome(trial, call(trial, &receive));
    ok_bind(trial, trial->fd, "0");
    outcome(trial, call(trial, &receive));
    ok_listen(trial, trial->fd);
    outcome(trial, call(trial, &receive));
}

static void not_connected_listener(struct trial *trial)
{
    ok_listening(trial);
    struct receive receive = correct(trial);

    outcome(trial, call(trial, &receive));
}

/* Checks that all data of the peer arrive. */
static void received(struct trial *trial, struct receive *receive)
{
    unsigned char expected[BUFSIZE];

    pattern(expected, BUFSIZE);
    peer_tell(trial, PEER_SEND, BUFSIZE);
    ssize_t got = moved(trial, call(trial, receive), EXS_EVT_RECV);

    outcome(trial, got);
    peer_hear(trial);
    require(trial, got >= 1 && got <= BUFSIZE, "the number of bytes is none that the peer sent");
    if (got < BUFSIZE && !(receive->flags & MSG_WAITALL))
        ok_receive(trial, trial->buffer + got, (size_t)(BUFSIZE - got));
    else
        require(trial, got == BUFSIZE, "MSG_WAITALL, and not all bytes came");
    require(trial, memcmp(trial->buffer, expected, BUFSIZE) == 0, "other bytes came than the peer sent");
}

static void ok(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    received(trial, &receive);
}

static void ok_all(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.flags = MSG_WAITALL;
    received(trial, &receive);
}

static void ok_region(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.mhandle = ok_mregister(trial, trial->buffer, BUFSIZE, EXS_MRF_SEND_DISABLE);
    received(trial, &receive);
}

/* At the end of the stream the result is 0 bytes. */
static void at_end(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    peer_tell(trial, PEER_SHUTDOWN, 0);
    ssize_t got = moved(trial, call(trial, &receive), EXS_EVT_RECV);

    outcome(trial, got);
    require(trial, got == 0, "the end is not 0 bytes");
    require(trial, trial->flags & EXS_BLOCK || trial->event_flags == EXS_EOF,
            "the event has not EXS_EOF alone");
}

/* The rest of a message that is too long is discarded, which the event reports. A blocking program can use exs_recvmsg
 * to detect it. */
static void too_long_a_message(struct trial *trial)
{
    trial->type = SOCK_SEQPACKET;
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.length = 10;
    peer_tell(trial, PEER_SEND, BUFSIZE);
    ssize_t got = moved(trial, call(trial, &receive), EXS_EVT_RECV);

    outcome(trial, got);
    peer_hear(trial);
    require(trial, got == 10, "the buffer is not full");
    require(trial, trial->flags & EXS_BLOCK || trial->event_flags == MSG_TRUNC,
            "the event has not MSG_TRUNC alone");
    peer_tell(trial, PEER_SEND, 7);
    receive.length = BUFSIZE;
    got = moved(trial, call(trial, &receive), EXS_EVT_RECV);
    peer_hear(trial);
    require(trial, got == 7 && trial->event_flags == 0, "the next message is not whole");
}

static void after_reset(struct trial *trial)
{
    ok_accepted(trial);
    ok_reset(trial);
    struct receive receive = correct(trial);

    outcome(trial, call(trial, &receive));
}

static void region_invalid(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.mhandle = EXS_MHANDLE_INVALID;
    outcome(trial, call(trial, &receive));
}

static void region_elsewhere(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.mhandle = ok_mregister(trial, trial->buffer, BUFSIZE - 1, 0);
    outcome(trial, call(trial, &receive));
    receive.mhandle = ok_mregister(trial, trial->buffer + 1, BUFSIZE - 1, 0);
    receive.length = 1;
    outcome(trial, call(trial, &receive));
}

static void region_no_receive(struct trial *trial)
{
    ok_accepted(trial);
    struct receive receive = correct(trial);

    receive.mhandle = ok_mregister(trial, trial->buffer, BUFSIZE, EXS_MRF_RECV_DISABLE);
    outcome(trial, call(trial, &receive));
}

static void forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    struct receive receive = correct(trial);

    trial->queue = NULL;
    outcome(trial, call(trial, &receive));
}

static void nonblocking_read(struct trial *trial)
{
    unsigned char byte;

    ok_connected(trial);
    require(trial, exs_fcntl(trial->fd, F_SETFL, O_NONBLOCK) == 0, "it can't be set");
    trial->connected = false; /* the check that it still works would block */
    outcome(trial, exs_read(trial->fd, &byte, 1));
}

#include "recv_rows.h"
