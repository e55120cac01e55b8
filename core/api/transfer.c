/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transfer.c - starts sends, receives and file transfers: checks everything, then adds an operation to the
 * connection.
 */
#include <errno.h>
#include <stdlib.h>
#include "core/base/clock.h"
#include "core/base/nofault.h"
#include "core/base/log.h"
#include "core/base/settings.h"
#include "core/conn/conn.h"
#include "core/conn/place.h"
#include "core/conn/progress.h"
#include "core/file/file.h"
#include "core/file/sink.h"
#include "core/file/vector.h"
#include "core/memory/memory.h"
#include "core/queue/ask.h"
#include "core/queue/nic.h"
#include "core/queue/wait.h"
#include "core/sock/sock.h"
#include "core.h"
#include "transfer.h"

/* ---- Checks that need the socket; called with its lock --------------------------------------------- */

static inline int check_direction(const struct conn *conn, bool receives)
{
    return receives ? xs_conn_may_receive(conn) : xs_conn_may_send(conn);
}

/* Returns 0, or -1 and errno. */
static inline int check_connected(const struct sock *sock, bool receives)
{
    int error = sock->state != SOCK_CONNECTED ? ENOTCONN : check_direction(sock->conn, receives);

    if (error == 0)
        return 0;
    if (sock->state == SOCK_LISTENING)
        return xs_refuse(ENOTCONN, "socket %d listens: transfer data on the sockets that exs_accept returns",
                         sock->number);
    return error == ECANCELED ? xs_unreported(sock) : xs_fails(error);
}

/* ---- Sending ----------------------------------------------------------------------------------- */

/* A send that is started now must wait for another one. */
static bool has_to_wait(const struct conn *conn)
{
    return conn->tx.current != NULL;
}

/* A short message is gathered into one bounce buffer; the elements of a longer one are sent from their own
 * memory. */
static int prepare_message(struct conn *conn, struct op *op, const struct ask *ask)
{
    op->event.exs_evt_union.exs_evt_xfermsg.exs_evt_msg = ask->message;
    op->length = ask->length;
    if (op->length > BOUNCE_SIZE) {
        struct piece *pieces = xs_vector_pieces(ask->message, EXS_MRF_SEND_DISABLE);

        if (pieces != NULL)
            op->out.files = xs_files_of_memory(pieces, ask->message->exs_iovlen);
        if (pieces != NULL && op->out.files == NULL)
            xs_vector_leave(pieces, ask->message->exs_iovlen);
        free(pieces); /* free() preserves errno */
        return op->out.files != NULL ? 0 : -1;
    }
    if (has_to_wait(conn))
        return xs_deferred_begin(op, ask->message);
    op->out.bounce = xs_bounce_get(&conn->domain);
    if (op->out.bounce == NULL)
        return -1;
    if (xs_vector_gather(ask->message, op->out.bounce->data) == 0)
        return 0;
    int saved = errno;

    xs_bounce_put(&conn->domain, op->out.bounce);
    errno = saved;
    return -1;
}

static int prepare_send(struct conn *conn, struct op *op, const struct ask *ask)
{
    if (ask->type == EXS_EVT_SENDMSG)
        return prepare_message(conn, op, ask);
    if (ask->type == EXS_EVT_SENDFILE) {
        op->event.exs_evt_union.exs_evt_xferfile.exs_evt_vec = (exs_xferfile_t *)(uintptr_t)ask->files;
        op->event.exs_evt_union.exs_evt_xferfile.exs_evt_vec_cnt = ask->count;
        bool last = false;

        op->out.files = xs_files_new(ask->files, ask->count, ask->flags, &op->length, &last);
        op->out.last = last;
        return op->out.files != NULL ? 0 : -1;
    }
    op->out.buffer = ask->buffer;
    op->length = ask->length;
    op->event.exs_evt_union.exs_evt_xfer.exs_evt_buffer = ask->buffer;
    if (has_to_wait(conn) && xs_memory_is_none(ask->mhandle) && op->length <= BOUNCE_SIZE)
        return xs_deferred_begin(op, NULL);
    return xs_make_usable(conn, op, ask->mhandle, 0);
}

/* Undo a send whose buffer was prepared. Preserves errno. */
static void undo_send(struct conn *conn, struct op *op, struct waiter *waiter)
{
    int saved = errno;

    xs_tx_release(conn, op);
    op->memory = NULL;
    errno = saved;
    xs_undo(op, waiter);
}

static int begin_send(struct sock *sock, struct queue *queue, const struct ask *ask)
{
    struct conn *conn = sock->conn;
    struct op *op = xs_sock_op(sock, queue, ask->type, ask->ahandle, ask->waiter);

    if (op == NULL)
        return -1;
    if (ask->flags & EXS_UNSIGNALED)
        op->unsignaled = true;
    if (prepare_send(conn, op, ask) < 0) {
        xs_undo(op, ask->waiter);
        return -1;
    }
    if (sock->sends_bounded && xs_send_bound(sock, op, ask) < 0) {
        undo_send(conn, op, ask->waiter);
        return -1;
    }
    if (op->out.last)
        conn->state.writing = WRITE_SHUT;
    op->out.number = conn->tx.started++;
    STAILQ_INSERT_TAIL(&conn->tx.sends, op, link);
    if (conn->tx.current == NULL)
        conn->tx.current = op;
    if (queue == atomic_load_explicit(&sock->home, memory_order_relaxed) && ask->waiter == NULL &&
        !(ask->flags & MSG_DONTWAIT) && xs_batch_hold(conn, op))
        return 0;
    xs_batch_release(conn);
    xs_conn_run_sends(conn);
    if (sock->owner == NULL && queue == NULL && ask->waiter == NULL)
        xs_progress_ensure(sock);
    return 0;
}

/* ---- Receiving --------------------------------------------------------------------------------- */

static int into_buffer(struct op *op, const struct ask *ask)
{
    op->event.exs_evt_union.exs_evt_xfer.exs_evt_buffer = ask->buffer;
    if (xs_memory_use(ask->mhandle, ask->buffer, ask->length, EXS_MRF_RECV_DISABLE, &op->only.memory) < 0)
        return -1;
    op->only.base = ask->buffer;
    op->only.length = ask->length;
    xs_place_into(op, &op->only, 1);
    return 0;
}

static int into_message(struct conn *conn, struct op *op, const struct ask *ask)
{
    int count = ask->message->exs_iovlen;

    op->event.exs_evt_union.exs_evt_xfermsg.exs_evt_msg = ask->message;
    op->many = xs_vector_pieces(ask->message, EXS_MRF_RECV_DISABLE);
    if (op->many == NULL)
        return -1;
    xs_place_into(op, op->many, (uint32_t)count);
    if (xs_place_whole(conn, op) == 0)
        return 0;
    xs_vector_leave(op->many, count);
    free(op->many); /* free() preserves errno */
    return -1;
}

static int into_files(struct conn *conn, struct op *op, const struct ask *ask)
{
    bool is_stream = sock_is_stream(conn->sock);

    op->event.exs_evt_union.exs_evt_xferfile.exs_evt_vec = (exs_xferfile_t *)(uintptr_t)ask->files;
    op->event.exs_evt_union.exs_evt_xferfile.exs_evt_vec_cnt = ask->count;
    op->in.waitall = is_stream;
    op->in.apart = true;
    op->in.sink = xs_sink_new(ask->files, ask->count, is_stream, ask->flags);
    if (op->in.sink == NULL)
        return -1;
    if (conn->device->holds_no_pages ? !settings()->map_always : settings()->map_never)
        xs_sink_copy_all(op->in.sink);
    xs_place_into(op, xs_sink_pieces(op->in.sink), (uint32_t)ask->count);
    if (xs_place_whole(conn, op) < 0) {
        xs_sink_end(op->in.sink, 0, &conn->domain); /* xs_sink_end() preserves errno */
        return -1;
    }
    if (xs_sink_is_open_ended(op->in.sink))
        op->length = UINT64_MAX; /* it must end only at the end of the stream */
    return 0;
}

static int set_targets(struct conn *conn, struct op *op, const struct ask *ask)
{
    if (ask->type == EXS_EVT_RECV)
        return into_buffer(op, ask);
    return ask->type == EXS_EVT_RECVMSG ? into_message(conn, op, ask) : into_files(conn, op, ask);
}

static int begin_recv(struct sock *sock, struct queue *queue, const struct ask *ask)
{
    struct conn *conn = sock->conn;
    struct op *op = xs_sock_op(sock, queue, ask->type, ask->ahandle, ask->waiter);

    if (op == NULL)
        return -1;
    if ((ask->flags & (MSG_WAITALL | MSG_DONTWAIT)) == MSG_WAITALL && sock_is_stream(sock))
        op->in.waitall = true;
    if (ask->flags & (MSG_PEEK | EXS_INTR)) {
        op->deadline = ask->flags & EXS_INTR ? NEVER_NS : 0;
        op->in.peeks = op->in.apart = (ask->flags & MSG_PEEK) != 0;
    }
    if (set_targets(conn, op, ask) < 0) {
        xs_undo(op, ask->waiter);
        return -1;
    }
    if (sock->receives_bounded)
        xs_receive_bound(sock, op, ask);
    STAILQ_INSERT_TAIL(&conn->rx.recvs, op, link);
    conn->rx.started++;
    xs_conn_run_recvs(conn);
    return 0;
}

/* ---- Entry points ------------------------------------------------------------------------------ */

/* Checks for MSG_DONTWAIT and MSG_PEEK. Returns 0, or -1 and errno. */
static __attribute__((noinline)) int check_with_flags(struct sock *sock, const struct ask *ask, bool receives)
{
    bool at_once = (ask->flags & MSG_DONTWAIT) != 0;

    /* A SEQPACKET message arrives only after a receive has advertised a buffer for all of it, so there is
     * nothing to peek at. */
    if (ask->flags & MSG_PEEK && !sock_is_stream(sock))
        return xs_fails(EOPNOTSUPP);
    if (at_once)
        xs_dontwait_look(sock);
    if (check_connected(sock, receives) < 0)
        return -1;
    if (receives)
        return at_once ? xs_dontwait_recv(sock->conn) : 0;
    return xs_dontwait_send(sock->conn);
}

/* May the transfer start now? Returns 0, or -1 and errno. */
static inline int check_now(struct sock *sock, const struct ask *ask, bool receives)
{
    if (ask->flags & (MSG_DONTWAIT | MSG_PEEK))
        return check_with_flags(sock, ask, receives);
    return check_connected(sock, receives);
}

/* Get and lock the socket. Called if another thread holds its lock (`closing` is NULL), or if this thread has
 * locked a socket that is closing. */
static __attribute__((noinline)) struct sock *get_locked(struct sock *closing, int number)
{
    if (closing == NULL)
        return xs_sock_get_locked(number);
    xs_sock_unlock(closing);
    errno = EBADF;
    return NULL;
}

/* Implements the next two functions; `receives` is a compile-time constant. */
static inline __attribute__((always_inline)) int start_transfer(const struct ask *ask, bool receives,
                                                                bool may_be_silent)
{
    int result = -1;
    struct sock *sock = xs_sock_lock_at_once(ask->sockno);
    bool is_counted = sock == NULL || sock->state == SOCK_CLOSING;

    if (is_counted)
        sock = get_locked(sock, ask->sockno);
    if (sock == NULL)
        return -1;
    struct queue *home = atomic_load_explicit(&sock->home, memory_order_relaxed), *queue = home;
    /* The handle stays valid as long as the queue's lock is held. */
    bool names_home = home != NULL && home->handle != NULL && home->handle == ask->qhandle;

    if (names_home || xs_check_queue(ask->qhandle, ask->waiter, may_be_silent, &queue)) {
        result = check_now(sock, ask, receives);
        if (result == 0)
            result = receives ? begin_recv(sock, queue, ask) : begin_send(sock, queue, ask);
        if (result == 0 && !receives && ask->flags & MSG_DONTWAIT)
            xs_dontwait_sent(sock->conn);
    }
    xs_sock_unlock(sock);
    if (is_counted)
        xs_sock_put(sock);
    if (!names_home)
        xs_queue_put(queue);
    return result;
}

/* With MSG_DONTWAIT the application must learn how many bytes were sent, so a queue is required. */
static int start_sending(const struct ask *ask)
{
    return start_transfer(ask, false, (ask->flags & (EXS_UNSIGNALED | MSG_DONTWAIT)) == EXS_UNSIGNALED);
}

static int start_receiving(const struct ask *ask)
{
    return start_transfer(ask, true, false);
}

static int check_signaling(int flags)
{
    if (flags & EXS_UNSIGNALED && flags & EXS_BLOCK)
        return xs_invalid("flags has both EXS_BLOCK and EXS_UNSIGNALED");
    return 0;
}

int xs_check_transfer(const struct ask *ask)
{
    if (check_signaling(ask->flags) < 0)
        return -1;
    if (ask->buffer == NULL)
        return xs_invalid("the buffer is NULL");
    return ask->length > EXS_MSG_MAX ? xs_too_long(ask->length) : 0;
}

static __attribute__((cold)) int refuse_flags(int unknown)
{
    if (unknown & MSG_OOB)
        return xs_refuse(EOPNOTSUPP, "flags has MSG_OOB: EXS has no urgent data; use a second connection");
    if (unknown & MSG_MORE)
        return xs_refuse(EOPNOTSUPP, "flags has MSG_MORE: pass the parts of a message to one exs_sendmsg");
    return xs_refuse(EOPNOTSUPP, "flags has 0x%x, which this call does not support", (unsigned)unknown);
}

/* MSG_NOSIGNAL is accepted and changes nothing: no send raises a signal. */
static int check_send_flags(int flags)
{
    const int known = EXS_BLOCK | EXS_INTR | EXS_UNSIGNALED | MSG_NOSIGNAL | MSG_DONTWAIT;

    return flags & ~known ? refuse_flags(flags & ~known) : check_signaling(flags);
}

static int check_recv_flags(int flags)
{
    const int known = EXS_BLOCK | EXS_INTR | MSG_WAITALL | MSG_DONTWAIT | MSG_PEEK;

    return flags & ~known ? refuse_flags(flags & ~known) : 0;
}

inline int xs_start_send(const struct ask *ask)
{
    if (check_send_flags(ask->flags) < 0 || xs_check_transfer(ask) < 0)
        return -1;
    return start_sending(ask);
}

inline int xs_start_recv(const struct ask *ask)
{
    if (check_recv_flags(ask->flags) < 0 || xs_check_transfer(ask) < 0)
        return -1;
    if (ask->length == 0)
        return xs_invalid("length is 0");
    return start_receiving(ask);
}

int xs_start_sendmsg(const struct ask *ask)
{
    struct ask sized = *ask;

    if (check_send_flags(ask->flags) < 0 || xs_vector_check(ask->message, &sized.length) < 0)
        return -1;
    return start_sending(&sized);
}

int xs_start_recvmsg(const struct ask *ask)
{
    size_t length = 0;

    if (check_recv_flags(ask->flags) < 0 || xs_vector_check(ask->message, &length) < 0)
        return -1;
    if (length == 0)
        return xs_invalid("the pieces have no bytes");
    return start_receiving(ask);
}

static int check_files(const struct ask *ask, int known, const char *vector)
{
    if (ask->flags & ~known)
        return xs_bad_flags(ask->flags, known);
    if (check_signaling(ask->flags) < 0)
        return -1;
    if (ask->files == NULL)
        return xs_invalid("%s is NULL", vector);
    if (ask->count < 1 || ask->count > EXS_XFV_MAX)
        return xs_invalid("%s_cnt is %d: from 1 to EXS_XFV_MAX, %d", vector, ask->count, EXS_XFV_MAX);
    return 0;
}

int xs_start_sendfile(const struct ask *ask)
{
    if (check_files(ask, EXS_BLOCK | EXS_INTR | EXS_UNSIGNALED | EXS_BIGFILE | MSG_NOSIGNAL, "sendvec") < 0)
        return -1;
    return start_sending(ask);
}

int xs_start_recvfile(const struct ask *ask)
{
    return check_files(ask, EXS_BLOCK | EXS_INTR | EXS_BIGFILE, "recvvec") < 0 ? -1 : start_receiving(ask);
}
