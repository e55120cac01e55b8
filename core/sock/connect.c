/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connect.c - the active side: resolves address and route, and connects; tries the next device if one has no route to
 * the address.
 */
#include <errno.h>
#include <string.h>
#include "core/base/address.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/settings.h"
#include "core/conn/conn.h"
#include "core/conn/progress.h"
#include "core/conn/upcalls.h"
#include "core/device/registry.h"
#include "core/queue/ask.h"
#include "core/queue/upcalls.h"
#include "core/queue/wait.h"
#include "lookup.h"
#include "poll.h"
#include "sock.h"

#define CONNECT_LIMIT_NS (30 * NS_PER_S) /* if the application sets no timeout */

static void drop_device(struct sock *sock)
{
    if (sock->conn != NULL) {
        xs_conn_free(sock->conn);
        sock->conn = NULL;
    }
    if (sock->device >= 0)
        xs_sock_drop_id(sock, sock->device);
    sock->device = -1;
}

static int remaining_ms(const struct sock *sock)
{
    int left = ns_milliseconds(ns_left(sock->deadline, now_ns()));

    return left > 0 ? left : 1; /* an expired deadline is reported by the timer, so don't pass 0 */
}

static int resolve_address(struct sock *sock, int device)
{
    /* The socket is bound to an address that the device does not have. */
    if (sock->bound && sock->id[device] == NULL) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    if (xs_sock_id(sock, device) < 0)
        return -1;
    sock->device = device;
    return xs_device(device)->resolve_addr(sock->id[device], NULL, &sock->peer.sa, remaining_ms(sock));
}

static void say_no_device(const struct sock *sock, int device, int error)
{
    char text[ADDRESS_TEXT];

    xs_explain(error, "device %s can't connect to %s: %s%s", xs_device(device)->name,
               xs_address_text(&sock->peer.sa, text), strerror(error),
               error == ENODEV
                   ? ": none of its interfaces leads there (and loopback is only on the software device)"
                   : "");
}

/* If the address that did not answer is a listener of this process, returns its socket number, else -1. A route
 * within one host has the same address at both ends. */
static int own_listener(const struct sock *sock)
{
    const struct rdma_cm_id *id = sock->device >= 0 ? sock->id[sock->device] : NULL;

    return settings()->debug && id != NULL && xs_same_host(&id->route.addr.src_addr, &id->route.addr.dst_addr)
               ? xs_sock_listening(sock->peer.in.sin_port) /* sin_port and sin6_port are at the same offset */
               : -1;
}

static void say_timed_out(const struct sock *sock)
{
    char text[ADDRESS_TEXT];
    const char *peer = xs_address_text(&sock->peer.sa, text);
    int own = own_listener(sock);

    if (own >= 0)
        xs_explain(ETIMEDOUT,
                   "%s did not answer in time: socket %d of this process listens there, and nothing accepts "
                   "there: accept in another thread, or let neither call block",
                   peer, own);
    else
        xs_explain(ETIMEDOUT,
                   "%s did not answer in time: is the host up, does its program call exs_accept, and does a "
                   "firewall let this through?",
                   peer);
}

static void say_failed(const struct sock *sock, int error)
{
    char text[ADDRESS_TEXT];

    if (error == ETIMEDOUT) {
        say_timed_out(sock);
        return;
    }
    xs_explain(error, "%s %s", xs_address_text(&sock->peer.sa, text),
               error == EPROTO ? "is not an EXS socket: does another program listen there?"
               : error == EPROTONOSUPPORT
                   ? "has an incompatible version of EXS: use the same library at both ends"
               : error == EPROTOTYPE   ? "has a socket of another type: SOCK_STREAM meets SOCK_SEQPACKET"
               : error == ECONNREFUSED ? "refused the connection: is a listener there, and room in its backlog?"
                                       : "ended the connection before it had begun");
}

/* Try the devices from this one on. 0: an attempt has started; else -1 and the errno of the last device. */
static int try_devices(struct sock *sock, int device)
{
    errno = sock->open_error;
    for (; device < xs_devices(); device++) {
        if (resolve_address(sock, device) == 0)
            return 0;
        /* The device that the socket is bound to may have been removed. */
        int error = xs_device_is_gone(errno) ? ENODEV : errno;

        say_no_device(sock, device, error);
        drop_device(sock);
        errno = error;
    }
    return -1;
}

void xs_open_failed(struct sock *sock, int error)
{
    struct op *op = sock->opening;

    sock->opening = NULL;
    if (op->silent)
        sock->connect_error = error;
    xs_queue_time(atomic_load(&sock->home), sock, 0);
    xs_host_end(sock);
    drop_device(sock);
    xs_sock_unbind(sock);
    sock->state = SOCK_FRESH;
    /* Pairs with the load in xs_release_home(). */
    atomic_store_explicit(&atomic_load(&sock->home)->failed, true, memory_order_release);
    xs_op_complete(op, error);
    xs_poll_look(sock);
}

void xs_attempt_failed(struct sock *sock, int error)
{
    drop_device(sock);
    if (sock->lookup == NULL || !xs_host_next(sock, error))
        xs_open_failed(sock, sock->lookup == NULL ? error : errno);
}

int xs_connect_address(struct sock *sock, uint64_t deadline)
{
    sock->open_error = ENODEV;
    xs_queue_time(atomic_load(&sock->home), sock, deadline);
    return try_devices(sock, 0);
}

static void connect_done(struct sock *sock)
{
    struct op *op = sock->opening;

    sock->opening = NULL;
    xs_queue_time(atomic_load(&sock->home), sock, 0);
    xs_host_end(sock);
    sock->state = SOCK_CONNECTED;
    xs_conn_opened(sock->conn);
    xs_probe_start(sock->conn);
    if (sock->options.user_timeout != 0)
        xs_conn_limit_outage(sock->conn);
    xs_op_complete(op, 0);
}

/* This device has no route to the address, or was removed: try the next device. */
static void next_device(struct sock *sock, int error)
{
    int device = sock->device;

    if (xs_device_is_gone(error))
        error = ECONNRESET; /* the same errno as the event of a removed device */
    sock->open_error = error;
    say_no_device(sock, device, error);
    drop_device(sock);
    if (try_devices(sock, device + 1) < 0)
        xs_attempt_failed(sock, errno);
}

static int connect_device(struct sock *sock, int device)
{
    uint8_t hello[HELLO_SIZE];

    sock->conn = xs_conn_new(sock, sock->id[device], xs_device(device));
    if (sock->conn == NULL)
        return -1;
    struct rdma_conn_param param = xs_conn_param(sock->conn, hello);

    return xs_device(device)->connect(sock->id[device], &param);
}

static void connect_failed(struct sock *sock, int error)
{
    say_failed(sock, error);
    xs_attempt_failed(sock, error);
}

void xs_connect_timeout(struct sock *sock)
{
    if (sock->device >= 0) /* a device is being tried, so the peer's address is known */
        say_failed(sock, ETIMEDOUT);
    xs_attempt_failed(sock, ETIMEDOUT);
}

static void handle_established(struct sock *sock, const struct rdma_cm_event *event)
{
    struct hello peer;
    int reason =
        xs_hello_unpack(&peer, event->param.conn.private_data, event->param.conn.private_data_len, sock->type);

    if (reason != HELLO_OK) {
        connect_failed(sock, xs_hello_errno(reason));
        return;
    }
    xs_conn_reads(sock->conn, event->param.conn.responder_resources, event->param.conn.initiator_depth);
    xs_conn_peer(sock->conn, &peer);
    connect_done(sock);
    xs_conn_run(sock->conn);
}

/* A status of -1 comes from librdmacm, which could not answer the peer; its errno is lost by now. */
static int status_errno(const struct rdma_cm_event *event, int otherwise)
{
    return event->status < -1 ? -event->status : otherwise;
}

void xs_connect_event(struct sock *sock, struct rdma_cm_event *event, int device)
{
    if (device != sock->device)
        return;
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (xs_device(device)->resolve_route(sock->id[device], remaining_ms(sock)) < 0)
            next_device(sock, errno);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        if (connect_device(sock, device) < 0)
            next_device(sock, errno);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        handle_established(sock, event);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        next_device(sock, status_errno(event, EHOSTUNREACH));
        break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        next_device(sock, ECONNRESET);
        break;
    case RDMA_CM_EVENT_REJECTED:
        if (event->param.conn.private_data_len > 0)
            connect_failed(sock,
                           xs_reject_errno(event->param.conn.private_data, event->param.conn.private_data_len));
        else
            connect_failed(sock, status_errno(event, ECONNREFUSED));
        break;
    case RDMA_CM_EVENT_UNREACHABLE:
        connect_failed(sock, status_errno(event, ETIMEDOUT));
        break;
    default:
        connect_failed(sock, status_errno(event, ECONNRESET));
        break;
    }
}

static int check_timeout(const struct timeval *timeout, uint64_t *ns)
{
    *ns = CONNECT_LIMIT_NS;
    if (timeout != NULL && !ns_timeval(timeout, ns))
        return xs_invalid("timeout is %lld s and %lld us", (long long)timeout->tv_sec,
                          (long long)timeout->tv_usec);
    return 0;
}

/* Called with the lock of the socket, which has a home. */
static int start_connect(struct sock *sock, const struct ask *ask, uint64_t limit, struct queue *queue,
                         struct lookup *lookup)
{
    struct op *op = xs_sock_op(sock, queue, EXS_EVT_CONNECT, ask->ahandle, ask->waiter);
    uint64_t deadline = ns_after(now_ns(), limit);

    if (op == NULL)
        return -1;
    sock->opening = op;
    sock->state = SOCK_CONNECTING;
    sock->connect_error = 0;
    if (lookup != NULL ? xs_host_begin(sock, lookup, deadline) == 0 : xs_connect_address(sock, deadline) == 0)
        return 0;

    int error = errno;

    xs_queue_time(atomic_load(&sock->home), sock, 0);
    sock->opening = NULL;
    sock->lookup = NULL;
    sock->state = SOCK_FRESH;
    xs_sock_unbind(sock);
    if (ask->waiter != NULL)
        xs_queue_unref(ask->waiter->home);
    xs_op_cancel(op);
    errno = error;
    return -1;
}

/* Check the destination: an address, which is copied to the socket; or a name, for which it makes a lookup. The
 * caller drops the lookup unless the connect is started. */
static int check_peer(struct sock *sock, const struct ask *ask, struct lookup **lookup)
{
    if (ask->to->by_name) {
        if (sock->state == SOCK_BOUND)
            return xs_invalid("socket %d is bound, to an address of one family: use exs_connect", ask->sockno);
        *lookup = xs_lookup_new(sock, ask->to->host, ask->to->service);
        return *lookup != NULL ? 0 : -1;
    }
    if (xs_check_address(sock, ask->to->address, ask->to->address_length) < 0)
        return -1;
    memcpy(&sock->peer, ask->to->address,
           sock->family == PF_INET ? sizeof(sock->peer.in) : sizeof(sock->peer.in6));
    return 0;
}

int xs_start_connect(const struct ask *ask)
{
    struct queue *queue = NULL;
    struct lookup *lookup = NULL;
    uint64_t limit;
    int result = -1;

    if (ask->flags & ~(EXS_BLOCK | EXS_INTR))
        return xs_bad_flags(ask->flags, EXS_BLOCK | EXS_INTR);
    struct sock *sock = xs_sock_get_locked(ask->sockno);

    if (sock == NULL)
        return -1;
    if (ask->nonblocking && (sock->state == SOCK_CONNECTING || sock->state == SOCK_CONNECTED)) {
        errno = sock->state == SOCK_CONNECTING ? EALREADY : EISCONN;
    } else if (sock->state != SOCK_FRESH && sock->state != SOCK_BOUND) {
        xs_invalid("socket %d listens or is connected already", ask->sockno);
    } else if (xs_check_queue(ask->nonblocking ? NULL : ask->qhandle, ask->waiter, ask->nonblocking, &queue) &&
               check_timeout(ask->to->timeout, &limit) == 0 && check_peer(sock, ask, &lookup) == 0 &&
               xs_sock_home(sock, ask->waiter != NULL ? NULL : queue) == 0) {
        result = ask->nonblocking && xs_progress_drive(sock) < 0
                     ? -1
                     : start_connect(sock, ask, limit, queue, lookup);
        if (result < 0)
            xs_queue_strip(atomic_load(&sock->home), 1); /* references: the socket's only */
    }
    if (result < 0 && lookup != NULL)
        xs_lookup_drop(lookup);
    xs_sock_put_locked(sock);
    xs_queue_put(queue);
    return result;
}
