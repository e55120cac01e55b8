/* SPDX-License-Identifier: BSD-2-Clause */
/* The passive side: connection requests of a listener meet the accepts that wait for them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "conn.h"
#include "core.h"
#include "library.h"
#include "sock.h"

#define ESTABLISH_LIMIT_NS UINT64_C(10000000000) /* from accepting to established */

static void refuse(struct rdma_cm_id *id, int device, int reason)
{
    struct hello hello = {.magic = HELLO_MAGIC, .version = HELLO_VERSION, .reason = (uint8_t)reason};
    uint8_t private_data[HELLO_SIZE];

    xs_hello_pack(&hello, private_data);
    xs_device(device)->reject(id, private_data, sizeof(private_data));
    xs_device(device)->destroy_id(id);
}

/* The new socket's queue pair, and the answer to the peer. Called with the home's lock; -1 and errno. */
static int answer(struct sock *sock, const struct request *request, const struct hello *peer)
{
    const struct device *device = xs_device(sock->device);
    uint8_t hello[HELLO_SIZE];
    struct rdma_cm_id *id = sock->id[sock->device];
    struct rdma_event_channel *channel = xs_queue_channel(atomic_load(&sock->home), sock->device);

    if (channel == NULL || device->migrate_id(id, channel) < 0)
        return -1;
    id->context = sock;
    sock->conn = xs_conn_new(sock, id, device);
    if (sock->conn == NULL)
        return -1;
    xs_conn_reads(sock->conn, request->reads_wanted, request->reads_served);
    xs_conn_peer(sock->conn, peer);
    struct rdma_conn_param param = xs_conn_param(sock->conn, hello);

    return device->accept(id, &param);
}

static void tell_address(struct op *op, const struct sock *sock)
{
    exs_evt_accept_t *event = &op->event.exs_evt_union.exs_evt_accept;
    exs_acceptaddr_t *element = op->element;

    xs_copy_address(sock->family, &sock->id[sock->device]->route.addr.dst_addr, element->exs_addr,
                    &element->exs_addrlen);
    event->exs_evt_addr = element->exs_addr;
    event->exs_evt_addrlen = element->exs_addrlen;
}

/* Not established after all, and nobody knows of it yet. Called with the home's lock. */
static void abandon(struct sock *sock)
{
    if (sock->conn != NULL)
        xs_conn_free(sock->conn);
    sock->conn = NULL;
    xs_sock_drop_id(sock, sock->device);
    xs_sock_remove(sock);
    xs_sock_leave(sock);
}

/* The new socket becomes the accept's: what is left is to be established. Called with the home's lock. */
static void hand_over(struct sock *listener, struct sock *sock, struct op *op)
{
    struct queue *home = atomic_load(&sock->home);

    STAILQ_REMOVE(&listener->accepts, op, op, link);
    sock->opening = op;
    op->event.exs_evt_union.exs_evt_accept.exs_evt_newsocket = sock->number;
    op->element->exs_socket = sock->number;
    tell_address(op, sock);
    xs_queue_time(home, sock, xs_now() + ESTABLISH_LIMIT_NS);
    if (op->waiter != NULL) {
        xs_queue_ref(home);
        op->waiter->move(op->waiter, home);
    }
}

/* Where the new socket will live: the queue that the accept named, or a private one. A reference; NULL and
 * errno. */
static struct queue *home_for(const struct op *op)
{
    struct queue *home;

    if (op->waiter == NULL) {
        xs_queue_ref(op->pool);
        return op->pool;
    }
    home = xs_queue_new(true, 0);
    if (home != NULL && xs_queue_run_fd(home) < 0) {
        xs_queue_unref(home);
        return NULL;
    }
    return home;
}

static const char *why_refused(int reason)
{
    return reason == HELLO_BAD_TYPE      ? "SOCK_STREAM meets SOCK_SEQPACKET"
           : reason == HELLO_BAD_VERSION ? "the peer is no EXS of this version"
                                         : "the peer is no EXS socket";
}

/* A request and an accept have met. Called with the listener's lock. What can't be accepted is refused, and the
 * accept waits for the next. */
static void take(struct sock *listener, struct request *request, struct op *op)
{
    struct hello peer;
    int reason = xs_hello_unpack(&peer, request->private_data, request->length, listener->type);

    if (reason != HELLO_OK) {
        xs_log("refused a connection: %s", why_refused(reason));
        refuse(request->id, request->device, reason);
        return;
    }
    struct queue *home = home_for(op);
    struct sock *sock = home != NULL ? xs_sock_new(listener->family, listener->type) : NULL;

    if (sock == NULL) {
        xs_log("refused a connection: %s", strerror(errno));
        refuse(request->id, request->device, HELLO_NO_RESOURCES);
        if (home != NULL)
            xs_queue_unref(home);
        return;
    }
    pthread_mutex_lock(&home->lock);
    xs_sock_settle(sock, home);
    sock->state = SOCK_CONNECTING;
    sock->device = request->device;
    sock->id[sock->device] = request->id;
    if (answer(sock, request, &peer) == 0) {
        hand_over(listener, sock, op);
    } else {
        xs_log("accepting a connection failed: %s", strerror(errno));
        abandon(sock);
    }
    pthread_mutex_unlock(&home->lock);
    xs_sock_put(sock);
    xs_queue_unref(home);
}

/* Called with the listener's lock. */
static void match(struct sock *listener)
{
    while (!STAILQ_EMPTY(&listener->requests) && !STAILQ_EMPTY(&listener->accepts)) {
        struct request *request = STAILQ_FIRST(&listener->requests);

        STAILQ_REMOVE_HEAD(&listener->requests, link);
        listener->requests_held--;
        take(listener, request, STAILQ_FIRST(&listener->accepts));
        free(request);
    }
}

void xs_listener_request(struct sock *listener, struct rdma_cm_event *event, int device)
{
    struct request *request = NULL;

    event->id->context = NULL;
    if (listener->state == SOCK_LISTENING && listener->requests_held < listener->backlog)
        request = malloc(sizeof(*request));
    if (request == NULL) {
        refuse(event->id, device, HELLO_NO_RESOURCES);
        return;
    }
    request->id = event->id;
    request->device = device;
    request->length = event->param.conn.private_data_len;
    request->reads_wanted = event->param.conn.responder_resources;
    request->reads_served = event->param.conn.initiator_depth;
    if (request->length > 0)
        memcpy(request->private_data, event->param.conn.private_data, request->length);
    STAILQ_INSERT_TAIL(&listener->requests, request, link);
    listener->requests_held++;
    match(listener);
}

/* Is there a device left that it listens on? */
static bool listens(const struct sock *listener)
{
    for (int device = 0; device < xs_devices(); device++) {
        if (listener->id[device] != NULL)
            return true;
    }
    return false;
}

void xs_listener_lost(struct sock *listener, int device)
{
    xs_sock_drop_id(listener, device);
    if (!listens(listener))
        xs_accepts_end(listener, ENODEV);
}

void xs_accept_event(struct sock *sock, struct rdma_cm_event *event)
{
    if (event->event == RDMA_CM_EVENT_ESTABLISHED) {
        xs_open_done(sock);
        xs_conn_run(sock->conn);
    } else {
        xs_open_failed(sock, ECONNABORTED);
    }
}

/* All or none: the operations for every element, in order. Called with the listener's lock. */
static int start(struct sock *listener, exs_acceptaddr_t *addrvec, int count, struct queue *queue,
                 struct waiter *waiter)
{
    struct op_list ops = STAILQ_HEAD_INITIALIZER(ops);
    struct op *op;

    for (int i = 0; i < count; i++) {
        op = xs_sock_op(listener, queue, EXS_EVT_ACCEPT, addrvec[i].exs_ahandle, waiter);
        if (op == NULL)
            goto unwind;
        op->element = &addrvec[i];
        STAILQ_INSERT_TAIL(&ops, op, link);
    }
    STAILQ_CONCAT(&listener->accepts, &ops);
    match(listener);
    return 0;
unwind:
    while ((op = STAILQ_FIRST(&ops)) != NULL) {
        STAILQ_REMOVE_HEAD(&ops, link);
        xs_op_cancel(op);
    }
    return -1;
}

int xs_start_accept(const struct ask *ask)
{
    struct queue *queue;
    int result = -1;

    if (ask->flags & ~EXS_BLOCK)
        return xs_bad_flags(ask->flags, EXS_BLOCK);
    if (ask->accepts == NULL)
        return xs_invalid("addrvec is NULL");
    if (ask->count < 1 || (ask->waiter != NULL && ask->count != 1))
        return xs_invalid("addrvec_cnt is %d: %s", ask->count,
                          ask->waiter != NULL ? "a call that blocks takes one" : "at least 1");
    struct sock *listener = xs_sock_get_locked(ask->sockno);

    if (listener == NULL)
        return -1;
    if (!xs_check_queue(ask->qhandle, ask->waiter, false, &queue))
        ;
    else if (listener->state != SOCK_LISTENING)
        xs_invalid("socket %d does not listen", ask->sockno);
    else if (!listens(listener))
        errno = ENODEV;
    else
        result = start(listener, ask->accepts, ask->count, queue, ask->waiter);
    xs_sock_put_locked(listener);
    xs_queue_put(queue);
    return result;
}
