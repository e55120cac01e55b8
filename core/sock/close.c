/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * close.c - closing a socket. In order: the peer receives what was sent, and the end of the stream; the queue pair
 * goes to the error state and is drained; each remaining operation gets its event (ECANCELED); then the close gets
 * its event.
 *
 * Pending sends are cut off at once, unless the close lingers (EXS_LINGER, SO_LINGER): then it waits for them until
 * its timeout, and its event reports whether they have arrived.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/conn/conn.h"
#include "core/conn/progress.h"
#include "core/conn/upcalls.h"
#include "core/device/registry.h"
#include "core/queue/ask.h"
#include "core/queue/upcalls.h"
#include "core/queue/wait.h"
#include "poll.h"
#include "sock.h"

/* The peer's device has this long to acknowledge the end of the stream. Other devices send a packet again for up to 17 s
 * (the kernel's rxe) before they report that the peer's host is silent. By TCP the end arrives even after the close. */
#define END_NS (20 * NS_PER_S)
#define END_BY_TCP_NS (5 * NS_PER_S)

static void close_listener(struct sock *sock)
{
    struct request *request;

    xs_accepts_end(sock, ECANCELED);
    xs_incoming_end_all(sock);
    while ((request = TAILQ_FIRST(&sock->requests)) != NULL) {
        TAILQ_REMOVE(&sock->requests, request, link);
        xs_device(request->device)->reject(request->id, NULL, 0);
        xs_device(request->device)->destroy_id(request->id);
        free(request);
    }
}

/* The errno of a close's event: 0, or why not all that was sent has arrived. */
static int error_of(const struct sock *sock)
{
    return sock->lingers && sock->conn != NULL && sock_sent(sock) == SENT_LOST ? sock->conn->state.error : 0;
}

/* Called with the lock of the socket's queue, by a caller that holds a reference to that queue. */
static void finish_close(struct sock *sock)
{
    struct op *op = sock->closing;
    int error = error_of(sock);

    if (sock->conn != NULL)
        xs_conn_free(sock->conn);
    sock->conn = NULL;
    for (int device = 0; device < DEVICES_MAX; device++)
        xs_sock_drop_id(sock, device);
    xs_queue_time(atomic_load(&sock->home), sock, 0);
    xs_sock_disown(sock); /* before the event, because the application may delete the queue after it */
    sock->closing = NULL;
    xs_op_complete(op, error);
    xs_progress_close_done(sock);
    xs_sock_leave(sock);
}

/* Would data be cut off in the middle of a send? Data in front of an end of stream that was posted has been
 * posted, too. */
static bool is_sending(const struct conn *conn)
{
    return xs_conn_is_sending(conn, conn->state.writing >= WRITE_FIN_SENT);
}

static bool is_over(const struct conn *conn)
{
    return conn->state.writing >= WRITE_FIN_ACKED && conn->sq.head == conn->sq.tail;
}

static void give_up_by(struct sock *sock, uint64_t due)
{
    sock->close_due = due;
    xs_sock_wake_by(sock, due);
}

void xs_close_step(struct sock *sock)
{
    struct conn *conn = sock->conn;

    if (sock->closing == NULL)
        return;
    if (conn != NULL && is_over(conn))
        xs_conn_fail(conn, ECANCELED);
    else if (conn != NULL && conn->state.writing >= WRITE_FIN_SENT && sock->close_due == 0 && !is_sending(conn))
        /* only the acknowledgement of the end is missing */
        give_up_by(sock, ns_after(now_ns(), conn_is_by_tcp(conn) ? END_BY_TCP_NS : END_NS));
    else if (conn != NULL && conn->state.writing == WRITE_SHUT)
        xs_rx_discard(conn);
    if (conn == NULL || conn->state.stage == CONN_DRAINED)
        finish_close(sock);
}

/* A close that waits for the peer also checks whether the peer is alive (probe.c). */
void xs_close_timeout(struct sock *sock)
{
    struct conn *conn = sock->conn;
    uint64_t now = now_ns();

    if (conn == NULL || conn_broken(conn))
        return;
    if (sock->close_due != 0 && sock->close_due <= now) {
        xs_sent_is_lost(conn);
        xs_conn_fail(conn, ETIMEDOUT);
        return;
    }
    if (sock->probe_due != 0 && sock->probe_due <= now)
        xs_probe(conn);
    if (sock->probe_due != 0)
        xs_sock_wake_by(sock, sock->probe_due);
    if (sock->close_due != 0)
        xs_sock_wake_by(sock, sock->close_due);
}

/* A send that is cut off in the middle completes with ECANCELED; then the peer must see a broken connection,
 * not an orderly end. */
static void close_conn(struct sock *sock, const struct ask *ask)
{
    const struct options *options = &sock->options;
    struct conn *conn = sock->conn;
    bool cuts = (options->lingers && options->linger == 0) || ask->how == CLOSE_ABORTS;

    sock->lingers = (ask->flags & EXS_LINGER || options->lingers) && !cuts;
    if (conn_broken(conn))
        return;
    if (cuts || (!sock->lingers && is_sending(conn))) {
        xs_conn_fail(conn, ECANCELED);
        return;
    }
    if (conn->state.writing == WRITE_OPEN)
        conn->state.writing = WRITE_SHUT;
    if (options->lingers)
        give_up_by(sock, ns_after(now_ns(), options->linger));
    xs_control_run(conn);
}

/* Does neither a call, nor the queue that the close names, nor the socket's owner drive the socket until the close is
 * done? */
static bool is_undriven(const struct sock *sock, const struct ask *ask)
{
    return ask->qhandle == NULL && ask->waiter == NULL && sock->owner == NULL && xs_sock_has_peer(sock);
}

/* Let the library's thread drive the close. If that is not possible, sends that should arrive first are not cut off:
 * the call fails. Other closes break the connection (EAGAIN, see CLOSE_ABORTS). -1 and errno. */
static int close_in_background(struct sock *sock, const struct ask *ask)
{
    if (xs_progress_drive(sock) == 0)
        return 0;
    xs_log("socket %d: cannot start a thread that continues its close: %s", sock->number, strerror(errno));
    if (!(ask->flags & EXS_LINGER) && !sock->options.lingers)
        errno = EAGAIN;
    else if (errno == EAGAIN)
        errno = ENOMEM;
    return -1;
}

/* Called with the lock of the socket, which has a home. -1 and errno. */
static int begin_close(struct sock *sock, struct queue *queue, const struct ask *ask)
{
    struct waiter *waiter = ask->waiter;
    bool is_alone = is_undriven(sock, ask);
    struct op *op = xs_sock_op(sock, queue, EXS_EVT_CLOSE, ask->ahandle, waiter);
    int error = 0;

    if (op == NULL)
        return -1;
    if (is_alone && close_in_background(sock, ask) < 0)
        error = errno;
    else if (!xs_sock_remove(sock))
        error = EBADF;
    if (error != 0) {
        if (waiter != NULL)
            xs_queue_unref(waiter->home);
        xs_op_cancel(op);
        return xs_fails(error);
    }
    if (sock->state == SOCK_CONNECTING && sock->opening != NULL)
        xs_open_failed(sock, ECANCELED);
    if (sock->state == SOCK_LISTENING)
        close_listener(sock);
    sock->closing = op;
    sock->state = SOCK_CLOSING;
    if (is_alone)
        xs_progress_close_started(sock);
    xs_poll_look(sock);
    if (sock->conn != NULL)
        close_conn(sock, ask);
    xs_close_step(sock);
    return 0;
}

int xs_start_close(const struct ask *ask)
{
    struct queue *queue, *home;
    int result = -1;

    if (ask->flags & ~(EXS_BLOCK | EXS_LINGER))
        return xs_bad_flags(ask->flags, EXS_BLOCK | EXS_LINGER);
    struct sock *sock = xs_sock_get_locked(ask->sockno);

    if (sock == NULL)
        return -1;
    if (!xs_check_queue(ask->qhandle, ask->waiter, true, &queue)) {
        ;
    } else if (sock->state == SOCK_HALF_OPEN || sock->state == SOCK_ARRIVED) {
        errno = EBADF; /* the application does not have this socket yet */
    } else if (xs_sock_home(sock, NULL) == 0) {
        result = begin_close(sock, queue, ask);
    }
    home = atomic_load(&sock->home);
    if (home != NULL)
        xs_queue_ref(home);
    xs_sock_put_locked(sock);
    xs_queue_put(queue);
    if (home != NULL)
        xs_queue_unref(home);
    return result;
}
