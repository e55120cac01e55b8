/* SPDX-License-Identifier: BSD-2-Clause */
/* The side that connects: TCP, REQ, then REP and RTU - or REJ. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "core/fds.h"
#include "cm_id.h"

#define REFUSALS 3 /* taken for passing, under exs-soft-run */

/* The network's errors are events; the program's own are the call's. */
static bool network_error(int error)
{
    switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
        return true;
    default:
        return false;
    }
}

/* Start TCP. A socket that was bound is there already. */
static int start(struct cm_id *id)
{
    const struct sockaddr *dst = &id->public.route.addr.dst_addr;
    int error;

    if (id->fd == -1) {
        id->fd = cm_socket_open(dst->sa_family, false);
        id->unbound = true;
    }
    if (id->fd == -1)
        return errno;
    cm_socket_tune(id->fd);
    if (connect(id->fd, dst, cm_addr_size(dst)) == -1 && errno != EINPROGRESS)
        return errno;
    id->state = CM_TCP_CONNECTING;
    error = cm_register(id, EPOLLOUT);
    if (error == 0)
        cm_timer_start(id, CM_TIMEOUT_TCP);
    return error;
}

/* Programs that were written for a network where finding a route takes time meet a server that is just making
 * its next listener: under exs-soft-run they get a little patience. (EXS itself wants to know at once.) */
static bool tries_again(struct cm_id *id, int error)
{
    if (error != ECONNREFUSED || !cm_is_shared() || !id->unbound || id->refusals >= REFUSALS)
        return false;
    id->refusals++;
    cm_id_close(id);
    id->state = CM_TCP_CONNECTING;
    cm_timer_start(id, CM_TIMEOUT_PAUSE);
    return true;
}

static void tcp_failed(struct cm_id *id, int error)
{
    if (tries_again(id, error))
        return;
    cm_failed(id, error == ECONNREFUSED ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_UNREACHABLE, -error);
}

/* TCP is up: say what we are. The queue pair's part is known only now, as the route's MTU is. */
static void request(struct cm_id *id)
{
    int error = cm_id_addresses(id);

    if (error == 0)
        error = cm_qp_describe(id, CM_REQ);
    if (error != 0) {
        cm_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -error);
        return;
    }
    id->state = CM_REQUEST_SENT;
    cm_want(id, EPOLLIN);
    cm_send(id, &id->own);
    cm_timer_start(id, CM_TIMEOUT_HANDSHAKE);
}

/* A socket that looks for a listener on a port of the ephemeral range may find itself. */
static bool met_itself(int fd)
{
    union soft_addr local, remote;

    if (cm_socket_names(fd, &local, &remote) != 0)
        return false;
    return memcmp(&local, &remote, sizeof local) == 0;
}

static void connected(struct cm_id *id)
{
    int error = 0;
    socklen_t length = sizeof error;

    if (getsockopt(id->fd, SOL_SOCKET, SO_ERROR, &error, &length) == -1)
        error = errno;
    if (error == 0 && met_itself(id->fd))
        error = ECONNREFUSED;
    if (error != 0)
        tcp_failed(id, error);
    else
        request(id);
}

static void accepted(struct cm_id *id)
{
    const struct cm_message rtu = {.type = CM_RTU};
    int error;

    if (id->peer.mtu > id->own.mtu) {
        cm_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO); /* it had to take the smaller one */
        return;
    }
    if (id->public.qp == NULL) { /* the user's own, or destroyed meanwhile: his to go on, or not */
        cm_timer_stop(id);
        id->state = CM_RESPONDED;
        id->in_length = 0;
        cm_post(id, CM_KIND_CONNECT, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
        return;
    }
    error = cm_qp_connect(id);
    if (error != 0) {
        cm_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -error);
        return;
    }
    cm_timer_stop(id);
    id->state = CM_ESTABLISHED;
    id->in_length = 0;
    cm_send(id, &rtu);
    cm_post(id, CM_KIND_CONNECT, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void rejected(struct cm_id *id)
{
    int status = id->peer.reason == CM_OTHER_VERSION ? -EPROTONOSUPPORT : id->peer.reason;

    cm_failed(id, RDMA_CM_EVENT_REJECTED, status);
}

static void answer(struct cm_id *id)
{
    int result = cm_receive(id);

    if (result == 0)
        return;
    if (result == -ECONNRESET)
        cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
    else if (result == -EPROTONOSUPPORT)
        cm_failed(id, RDMA_CM_EVENT_REJECTED, -EPROTONOSUPPORT);
    else if (result < 0 || !cm_message_decode(&id->peer, id->in))
        cm_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
    else if (id->peer.type == CM_REP)
        accepted(id);
    else if (id->peer.type == CM_REJ)
        rejected(id);
    else
        cm_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
}

void cm_active_ready(struct cm_id *id, uint32_t events)
{
    if (id->state == CM_REQUEST_SENT)
        answer(id);
    else if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
        connected(id);
}

void cm_active_expired(struct cm_id *id)
{
    if (id->state == CM_TCP_CONNECTING && id->fd == -1) {
        int error = start(id);

        if (error != 0)
            tcp_failed(id, error);
        return;
    }
    cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

int soft_connect(struct rdma_cm_id *public, struct rdma_conn_param *param)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    int error = EINVAL;

    if (id->state == CM_ROUTE_RESOLVED)
        error = cm_conn_param(id, param, CM_REQ_PRIVATE);
    if (error == 0) {
        error = start(id);
        if (network_error(error)) {
            tcp_failed(id, error);
            error = 0;
        } else if (error != 0) {
            cm_id_close(id);
            id->state = CM_ROUTE_RESOLVED;
        }
    }
    cm_unlock(channel);
    return cm_complete(id, cm_result(error));
}

int soft_establish(struct rdma_cm_id *public)
{
    const struct cm_message rtu = {.type = CM_RTU};
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    bool responded = id->state == CM_RESPONDED && public->qp == NULL;

    if (responded) {
        id->state = CM_ESTABLISHED;
        cm_send(id, &rtu);
    }
    cm_unlock(channel);
    return cm_result(responded ? 0 : EINVAL);
}
