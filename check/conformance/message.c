/* SPDX-License-Identifier: BSD-2-Clause */
/* message.c - tests of exs_sendmsg, exs_recvmsg and their blocking forms, with one set of bodies for all. */
#include "bodies.h"

#define PIECES 3

struct call { /* arguments of a call, changed by the body */
    int fd;
    exs_msghdr_t *message;
    int flags; /* in addition to those of the mode */
    exs_msghdr_t own;
    exs_iovec_t pieces[PIECES];
};

static bool sends(const struct trial *trial)
{
    return trial->group == &group_sendmsg || trial->group == &group_blocking_sendmsg;
}

static int event_type(const struct trial *trial)
{
    return sends(trial) ? EXS_EVT_SENDMSG : EXS_EVT_RECVMSG;
}

/* Sets correct arguments: the whole buffer in elements of a few bytes, of none, and of the rest. */
static void correct(struct trial *trial, struct call *call)
{
    if (sends(trial))
        pattern(trial->buffer, BUFSIZE);
    *call = (struct call){.fd = trial->fd, .message = &call->own};
    call->own = (exs_msghdr_t){.exs_iov = call->pieces, .exs_iovlen = PIECES, .exs_msg_flags = -1};
    call->pieces[0] = (exs_iovec_t){.exs_base = trial->buffer, .exs_length = 100};
    call->pieces[2] = (exs_iovec_t){.exs_base = trial->buffer + 100, .exs_length = BUFSIZE - 100};
}

/* Calls the function of the row's group. */
static ssize_t do_call(struct trial *trial, const struct call *call)
{
    if (trial->group == &group_blocking_sendmsg)
        return exs_blocking_sendmsg(call->fd, call->message, call->flags);
    if (trial->group == &group_blocking_recvmsg)
        return exs_blocking_recvmsg(call->fd, call->message, call->flags);
    if (sends(trial))
        return exs_sendmsg(call->fd, call->message, trial->flags | call->flags, trial->queue, trial);
    return exs_recvmsg(call->fd, call->message, trial->flags | call->flags, trial->queue, trial);
}

/* Returns MSG_TRUNC and EXS_EOF of the completed receive. */
static int flags_told(const struct trial *trial, const struct call *call)
{
    return trial->flags & EXS_BLOCK ? call->own.exs_msg_flags : trial->event_flags;
}

static void uninitialized(struct trial *trial)
{
    struct call call;

    correct(trial, &call);
    call.fd = 0;
    outcome(trial, do_call(trial, &call));
}

static void uninitialized_bad(struct trial *trial)
{
    struct call call = {.fd = BAD_FD, .flags = BAD_FLAG};

    trial->queue = trial->flags & EXS_BLOCK ? NULL : INVALID_QHANDLE;
    outcome(trial, do_call(trial, &call));
}

static void forked(struct trial *trial)
{
    struct call call;

    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    correct(trial, &call);
    outcome(trial, do_call(trial, &call));
}

static void not_connected(struct trial *trial)
{
    struct call call;

    ok_fresh(trial);
    correct(trial, &call);
    outcome(trial, do_call(trial, &call));
}

static void listener(struct trial *trial)
{
    struct call call;

    ok_listening(trial);
    correct(trial, &call);
    outcome(trial, do_call(trial, &call));
}

/* ---- One argument is wrong ------------------------------------------------------------------- */

static void with_queue(struct trial *trial, exs_qhandle_t queue)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    if (sends(trial))
        outcome(trial, exs_sendmsg(trial->fd, &call.own, trial->flags, queue, trial));
    else
        outcome(trial, exs_recvmsg(trial->fd, &call.own, trial->flags, queue, trial));
}

static void queue_invalid(struct trial *trial)
{
    with_queue(trial, INVALID_QHANDLE);
}

static void queue_null(struct trial *trial)
{
    trial->flags = 0;
    with_queue(trial, NULL);
}

static void with_flags(struct trial *trial, int flags)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    call.flags = flags;
    outcome(trial, do_call(trial, &call));
}

static void flag(struct trial *trial)
{
    with_flags(trial, sends(trial) ? BAD_FLAG : MSG_OOB); /* 2 is MSG_PEEK */
}

static void flag_of_the_other(struct trial *trial)
{
    with_flags(trial, sends(trial) ? MSG_WAITALL : EXS_UNSIGNALED);
}

static void unsignaled_block(struct trial *trial)
{
    with_flags(trial, EXS_UNSIGNALED | EXS_BLOCK);
}

static void signal_without_block(struct trial *trial)
{
    with_flags(trial, EXS_INTR);
}

static void signal_ends(struct trial *trial)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    call.flags = EXS_INTR;
    signals_come(trial);
    ssize_t result = do_call(trial, &call);

    signals_end();
    outcome(trial, result);
}

static void peek_at_nothing(struct trial *trial)
{
    with_flags(trial, MSG_PEEK | MSG_DONTWAIT);
}

/* Send: the peer's buffer is full. Receive: no data have arrived; data that then arrive are received. */
static void dont_wait(struct trial *trial)
{
    static unsigned char many[3000000];
    struct call call;
    ssize_t result;

    ok_connected(trial);
    correct(trial, &call);
    call.flags = MSG_DONTWAIT;
    if (sends(trial)) {
        call.pieces[1] = (exs_iovec_t){.exs_base = many, .exs_length = sizeof(many)};
        result = moved(trial, do_call(trial, &call), EXS_EVT_SENDMSG);
        require(trial, result > 0 && result < (ssize_t)sizeof(many),
                "not as much was sent as there is room for");
        trial->connected = false; /* the peer's buffer is full */
        outcome(trial, do_call(trial, &call));
        require(trial, peer_do(trial, PEER_RECEIVE, (size_t)result).count == (size_t)result,
                "the peer received another number of bytes");
        return;
    }
    outcome(trial, do_call(trial, &call));
    peer_do(trial, PEER_SEND, 10);
    do {
        result = do_call(trial, &call);
    } while (result < 0 && errno == EAGAIN);
    require(trial, moved(trial, result, EXS_EVT_RECVMSG) == 10, "it does not receive what has come");
}

static void with_fd(struct trial *trial, int fd)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    call.fd = fd;
    outcome(trial, do_call(trial, &call));
}

static void bad_fd(struct trial *trial)
{
    with_fd(trial, BAD_FD);
}

static void foreign(struct trial *trial)
{
    with_fd(trial, foreign_fd(trial));
}

static void message_null(struct trial *trial)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    call.message = NULL;
    outcome(trial, do_call(trial, &call));
}

static void with_pieces(struct trial *trial, exs_iovec_t *pieces, int count)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    call.own.exs_iov = pieces;
    call.own.exs_iovlen = count;
    outcome(trial, do_call(trial, &call));
}

static void pieces_null(struct trial *trial)
{
    with_pieces(trial, NULL, 1);
}

static void pieces_none(struct trial *trial)
{
    exs_iovec_t none;

    with_pieces(trial, &none, 0);
}

static void pieces_many(struct trial *trial)
{
    static exs_iovec_t many[EXS_IOV_MAX + 1];

    for (int i = 0; i <= EXS_IOV_MAX; i++)
        many[i] = (exs_iovec_t){.exs_base = trial->buffer, .exs_length = 1};
    with_pieces(trial, many, EXS_IOV_MAX + 1);
}

static void with_piece(struct trial *trial, exs_iovec_t piece)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    call.pieces[1] = piece;
    outcome(trial, do_call(trial, &call));
}

static void base_null(struct trial *trial)
{
    with_piece(trial, (exs_iovec_t){.exs_length = 1});
}

static void piece_flags(struct trial *trial)
{
    with_piece(trial, (exs_iovec_t){.exs_flags = EXS_SHUT_WR});
}

/* An element so long that the sum of all lengths overflows. */
static void piece_too_long(struct trial *trial)
{
    with_piece(trial, (exs_iovec_t){.exs_base = trial->buffer, .exs_length = SIZE_MAX});
}

/* Each element has a valid length, but their sum is too large. */
static void all_too_long(struct trial *trial)
{
    with_piece(trial, (exs_iovec_t){.exs_base = trial->buffer, .exs_length = EXS_MSG_MAX});
}

static void no_bytes(struct trial *trial)
{
    exs_iovec_t empty[2] = {{.exs_base = trial->buffer}};

    with_pieces(trial, empty, 2);
}

static void region_invalid(struct trial *trial)
{
    with_piece(trial,
               (exs_iovec_t){.exs_base = trial->buffer, .exs_length = 1, .exs_mhandle = EXS_MHANDLE_INVALID});
}

static void with_region(struct trial *trial, size_t size, int flags)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    call.pieces[2].exs_mhandle = ok_mregister(trial, trial->buffer, size, flags);
    outcome(trial, do_call(trial, &call));
}

static void region_elsewhere(struct trial *trial)
{
    with_region(trial, BUFSIZE - 1, 0);
}

static void region_disabled(struct trial *trial)
{
    with_region(trial, BUFSIZE, sends(trial) ? EXS_MRF_SEND_DISABLE : EXS_MRF_RECV_DISABLE);
}

static void unreadable(struct trial *trial)
{
    with_piece(trial, (exs_iovec_t){.exs_base = (void *)8, .exs_length = 8});
}

static void after_shutdown(struct trial *trial)
{
    struct call call;

    ok_connected(trial);
    ok_shutdown(trial, SHUT_WR);
    correct(trial, &call);
    outcome(trial, do_call(trial, &call));
}

static void after_reset(struct trial *trial)
{
    struct call call;

    ok_connected(trial);
    ok_reset(trial);
    correct(trial, &call);
    outcome(trial, do_call(trial, &call));
}

/* ---- Correct calls --------------------------------------------------------------------------- */

static void sent(struct trial *trial, const struct call *call)
{
    peer_tell(trial, PEER_RECEIVE, BUFSIZE);
    ssize_t result = moved(trial, do_call(trial, call), EXS_EVT_SENDMSG);

    outcome(trial, result);
    require(trial, result == BUFSIZE, "not all bytes were sent");
    struct peer_answer answer = peer_hear(trial);

    require(trial, answer.count == BUFSIZE && answer.sum == sum_of(trial->buffer, BUFSIZE, SUM_START),
            "the peer did not receive what was sent");
}

static void received(struct trial *trial, const struct call *call)
{
    unsigned char expected[BUFSIZE];

    pattern(expected, BUFSIZE);
    peer_tell(trial, PEER_SEND, BUFSIZE);
    ssize_t got = moved(trial, do_call(trial, call), EXS_EVT_RECVMSG);

    outcome(trial, got);
    peer_hear(trial);
    require(trial, got >= 1 && got <= BUFSIZE, "the number of bytes is none that the peer sent");
    require(trial, got == BUFSIZE || !(call->flags & MSG_WAITALL), "MSG_WAITALL, and not all bytes came");
    if (got < BUFSIZE)
        ok_receive(trial, trial->buffer + got, (size_t)(BUFSIZE - got));
    require(trial, memcmp(trial->buffer, expected, BUFSIZE) == 0, "other bytes came than the peer sent");
    require(trial, call->own.exs_msg_flags == (trial->flags & EXS_BLOCK ? 0 : -1),
            "exs_msg_flags is not 0, or was written where the event has it");
}

static void moved_with(struct trial *trial, int flags)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    call.flags = flags;
    if (sends(trial))
        sent(trial, &call);
    else
        received(trial, &call);
}

static void ok(struct trial *trial)
{
    moved_with(trial, 0);
}

static void ok_flag(struct trial *trial)
{
    moved_with(trial, sends(trial) ? MSG_NOSIGNAL : MSG_WAITALL);
}

static void ok_region(struct trial *trial)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    call.pieces[2].exs_mhandle = ok_mregister(trial, trial->buffer, BUFSIZE, 0);
    if (sends(trial))
        sent(trial, &call);
    else
        received(trial, &call);
}

static void at_end(struct trial *trial)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    peer_tell(trial, PEER_SHUTDOWN, 0);
    ssize_t got = moved(trial, do_call(trial, &call), EXS_EVT_RECVMSG);

    outcome(trial, got);
    require(trial, got == 0, "the end is not 0 bytes");
    require(trial, flags_told(trial, &call) == EXS_EOF, "it is not told by EXS_EOF alone");
}

/* The rest of a message that is too long is discarded, which is reported by MSG_TRUNC. */
static void too_long_a_message(struct trial *trial)
{
    struct call call;

    trial->type = SOCK_SEQPACKET;
    ok_connected(trial);
    correct(trial, &call);
    call.pieces[2].exs_length = 11;
    peer_tell(trial, PEER_SEND, BUFSIZE);
    ssize_t got = moved(trial, do_call(trial, &call), EXS_EVT_RECVMSG);

    outcome(trial, got);
    peer_hear(trial);
    require(trial, got == 111, "the pieces are not full");
    require(trial, flags_told(trial, &call) == MSG_TRUNC, "it is not told by MSG_TRUNC alone");
    peer_tell(trial, PEER_SEND, 7);
    got = moved(trial, do_call(trial, &call), EXS_EVT_RECVMSG);
    peer_hear(trial);
    require(trial, got == 7 && flags_told(trial, &call) == 0, "the next message is not whole");
}

/* MSG_PEEK returns the data that have arrived; they can then be received. */
static void peek(struct trial *trial)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    peer_do(trial, PEER_SEND, 10);
    call.flags = MSG_PEEK;
    for (int i = 0; i < 2; i++)
        require(trial, moved(trial, do_call(trial, &call), EXS_EVT_RECVMSG) == 10,
                "it does not see what has come");
    call.flags = 0;
    ssize_t result = do_call(trial, &call);

    outcome(trial, result);
    require(trial, moved(trial, result, EXS_EVT_RECVMSG) == 10, "it does not receive what was seen");
}

static void unsignaled(struct trial *trial)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    outcome(trial, exs_sendmsg(trial->fd, &call.own, EXS_UNSIGNALED, NULL, trial));
    peer_tell(trial, PEER_RECEIVE, BUFSIZE + 1);
    ok_send(trial, trial->buffer, 1); /* its event must be the first */
    require(trial, peer_hear(trial).count == BUFSIZE + 1, "the peer did not receive what was sent");
    no_event(trial, trial->queue);
}

/* A transfer of 0 bytes on a stream also has an event. */
static void nothing(struct trial *trial)
{
    struct call call;

    ok_connected(trial);
    correct(trial, &call);
    call.own.exs_iovlen = 2;
    call.pieces[0].exs_length = 0;
    outcome(trial, moved(trial, do_call(trial, &call), event_type(trial)));
}

#include "message_rows.h"
