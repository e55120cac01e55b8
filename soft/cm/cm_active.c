/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_active.c - the connecting side: TCP connection, REQ, then REP and RTU, or REJ.
 *
 * The connecting side tries TCP first, or InfiniBand's connection manager if the host was found to answer only by that.
 * If there is neither an answer nor a refusal within CM_TIMEOUT_HEAD_START, for example because a firewall drops the
 * packets, it tries the other transport in parallel. It uses the first answer, and withdraws the other attempt.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "core/base/fds.h"
#include "core/base/settings.h"
#include "cm_id.h"
#include "cm_number.h"

#define REFUSALS 3 /* ECONNREFUSED errors until one is reported, under exs-soft-run */

/* Errors of the network become events; all others are returned by the call. */
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

/* The TCP ports for a datagram's request: its own ports are numbers of another port space. Any local port, and the
 * peer's current slot. */
static void take_slot(const struct cm_id *id, union soft_addr *from, union soft_addr *to)
{
    from->in.sin_port = 0; /* at the same place in both kinds of address */
    to->in.sin_port = cm_number_slot(to->in.sin_port, id->slot);
}

/* Starts the TCP connection. A bound identifier has a socket already, unless that was closed by an earlier attempt. */
static int start_tcp(struct cm_id *id)
{
    const struct rdma_addr *addr = &id->public.route.addr;
    union soft_addr from, to;
    int error;

    memcpy(&from, &addr->src_storage, sizeof from);
    memcpy(&to, &addr->dst_storage, sizeof to);
    if (cm_is_datagram(id))
        take_slot(id, &from, &to);

    id->transport = &cm_tcp;
    id->asked_tcp = true;
    id->postponed = 0;
    if (id->fd == -1) {
        id->fd = cm_socket_open(to.sa.sa_family, false);
        if (id->fd != -1 && !id->unbound && cm_socket_bind(id->fd, &from.sa, true) == -1)
            return errno;
    }
    if (id->fd == -1)
        return errno;
    cm_socket_tune(id->fd);
    if (connect(id->fd, &to.sa, cm_addr_size(&to.sa)) == -1 && errno != EINPROGRESS)
        return errno;
    id->state = CM_TCP_CONNECTING;
    error = cm_register(id, EPOLLOUT);
    if (error == 0)
        cm_timer_start(id, id->claim == NULL && !id->asked_ib && cm_ib_has_port(id) ? CM_TIMEOUT_HEAD_START
                                                                                    : CM_TIMEOUT_TCP);
    return error;
}

/* Starts the timer for InfiniBand's connection manager. If TCP is possible, too, and the host has not answered at all,
 * the timeout is shorter than for a host whose application must answer. */
static void await_ib(struct cm_id *id)
{
    id->doubted = !settings()->roce_only;
    if (id->doubted && !id->asked_tcp)
        cm_timer_start(id, CM_TIMEOUT_HEAD_START);
    else
        cm_timer_start(id, id->doubted ? CM_TIMEOUT_TCP : CM_TIMEOUT_HANDSHAKE);
}

/* Starts InfiniBand's connection manager. The socket's TCP port becomes the request's source port. */
static int start_ib(struct cm_id *id, const char *because)
{
    struct rdma_addr *addr = &id->public.route.addr;
    union soft_addr local;
    int error;

    if (id->fd == -1 && !cm_is_datagram(id)) { /* to choose a port that is free now */
        id->fd = cm_socket_open(addr->src_addr.sa_family, false);
        if (id->fd != -1)
            (void)cm_socket_bind(id->fd, &addr->src_addr, true);
    }
    if (id->fd != -1 && !cm_is_datagram(id) && cm_socket_names(id->fd, &local, NULL) == 0)
        addr->src_sin.sin_port = local.in.sin_port; /* at the same place in sockaddr_in6 */
    cm_id_close(id);
    id->asked_ib = true;
    id->transport = &cm_ib;
    cm_choice_tell(id, because);
    error = cm_ib_connect(id);
    if (error == 0)
        await_ib(id);
    return error;
}

/* Starts InfiniBand's connection manager in parallel to TCP. */
static void start_beside(struct cm_id *id)
{
    struct rdma_addr *addr = &id->public.route.addr;
    union soft_addr local;

    if (!cm_is_datagram(id) && cm_socket_names(id->fd, &local, NULL) == 0)
        addr->src_sin.sin_port = local.in.sin_port;
    id->asked_ib = true;
    if (cm_ib_connect(id) == 0)
        cm_choice_tell(id, "TCP is slow to answer there");
    else
        id->transport = &cm_tcp;
    id->state = CM_TCP_CONNECTING;
    cm_timer_start(id, CM_TIMEOUT_TCP);
}

/* Ends the TCP attempt, and continues with InfiniBand's connection manager only. */
static void go_on_beside(struct cm_id *id)
{
    cm_id_close_socket(id);
    id->state = CM_REQUEST_SENT;
    await_ib(id);
}

/* Starts TCP in parallel to InfiniBand's connection manager. */
static void start_tcp_beside(struct cm_id *id)
{
    int error = start_tcp(id);

    cm_choice_tell(id, "the other is slow to answer there");
    id->transport = &cm_ib;
    if (error == ECONNREFUSED)
        id->tcp_refused = true;
    if (error != 0)
        go_on_beside(id);
}

static int start_request(struct cm_id *id)
{
    id->asked_tcp = id->asked_ib = id->tcp_refused = false;
    id->slot = 0;
    cm_datagram_forget_claim(id);
    if (cm_choice_is_ib(id))
        return start_ib(id, settings()->roce_only ? "EXS_ROCE says so" : "it was answered so before");
    return start_tcp(id);
}

/* Whether to try again a little later. Applications written for networks where address resolution takes time may
 * connect while the server is creating its next listener; under exs-soft-run a refusal is therefore not reported
 * immediately. EXS itself gets it immediately. */
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

/* Reports that there is no listener: to programs written for librdmacm with the kernel's status, to EXS with an
 * errno. */
static void nobody_listens(struct cm_id *id)
{
    if (cm_is_datagram(id))
        cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, CM_SIDR_UNSUPPORTED);
    else
        cm_failed(id, RDMA_CM_EVENT_REJECTED, cm_is_shared() ? CM_INVALID_SERVICE : -ECONNREFUSED);
}

/* Asks at the next slot of a datagram's number. 0: a connection to it was started; or an errno, ECONNREFUSED: all have
 * been asked. */
static int ask_next_slot(struct cm_id *id)
{
    int error = ECONNREFUSED;

    while (error == ECONNREFUSED && id->slot + 1 < NUMBER_SLOTS) {
        cm_id_close_socket(id);
        id->slot++;
        id->in_length = 0;
        error = start_tcp(id);
    }
    return error;
}

/* The TCP attempt has failed, or, for datagrams, this slot has been asked. */
static void tcp_failed(struct cm_id *id, int error)
{
    int other = 0;

    if (error == ECONNREFUSED && cm_is_datagram(id) && (error = ask_next_slot(id)) == 0)
        return;
    if (id->claim != NULL) {
        cm_datagram_all_asked(id, error == ECONNREFUSED ? 0 : error);
        return;
    }
    id->tcp_refused = error == ECONNREFUSED;
    if (id->ib != NULL) {
        go_on_beside(id);
        return;
    }
    if (!id->asked_ib && cm_ib_has_port(id)) {
        other = start_ib(id, error == ECONNREFUSED ? "no program listens there by TCP" : strerror(error));
        if (other == 0)
            return;
    }
    if (tries_again(id, error))
        return;
    if (error == ECONNREFUSED)
        nobody_listens(id);
    else
        cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, -error);
}

void cm_active_unheard(struct cm_id *id)
{
    int error;

    if (id->state == CM_TCP_CONNECTING) { /* TCP may still succeed */
        cm_ib_close(id);
        id->transport = &cm_tcp;
        return;
    }
    if (!id->asked_tcp && !settings()->roce_only) {
        cm_id_close(id);
        error = start_tcp(id);
        cm_choice_tell(id, "no program listens there by the other transport");
        if (error == 0)
            return;
    }
    if (!tries_again(id, ECONNREFUSED))
        nobody_listens(id);
}

/* Postpones the request for a while, if shared memory can't be offered because too many connections are being set
 * up. */
static bool postpone_request(struct cm_id *id)
{
    if (id->postponed >= cm_link_tries(id))
        return false;
    id->postponed++;
    cm_want(id, 0);
    cm_timer_start(id, CM_TIMEOUT_PAUSE);
    return true;
}

/* TCP is established: sends the request. The queue pair is described only now, because the route's MTU was not
 * known. */
static void send_request(struct cm_id *id)
{
    int error = cm_id_addresses(id);

    if (error == 0 && !cm_is_datagram(id))
        error = cm_qp_describe(id, CM_REQ);
    if (error != 0) {
        cm_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -error);
        return;
    }
    if (postpone_request(id))
        return;
    id->state = CM_REQUEST_SENT;
    id->own.mra = !cm_is_datagram(id);
    cm_want(id, EPOLLIN);
    cm_send(id, &id->own);
    cm_timer_start(id, cm_is_datagram(id) && id->claim == NULL ? CM_TIMEOUT_HANDSHAKE : CM_TIMEOUT_TCP);
}

/* Whether the socket is connected to itself, as can happen with a port of the ephemeral range. */
static bool met_itself(int fd)
{
    union soft_addr local, remote;

    if (cm_socket_names(fd, &local, &remote) != 0)
        return false;
    return memcmp(&local, &remote, sizeof local) == 0;
}

static void tcp_connected(struct cm_id *id)
{
    int error = 0;
    socklen_t length = sizeof error;

    if (getsockopt(id->fd, SOL_SOCKET, SO_ERROR, &error, &length) == -1)
        error = errno;
    if (error == 0 && met_itself(id->fd))
        error = ECONNREFUSED;
    if (error != 0) {
        tcp_failed(id, error);
        return;
    }
    cm_ib_close(id); /* withdraws the parallel attempt */
    id->transport = &cm_tcp;
    send_request(id);
}

static void rep_received(struct cm_id *id)
{
    const struct cm_message rtu = {.type = CM_RTU};
    int error;

    cm_choice_learn(id);
    if (id->transport == &cm_ib)
        cm_id_close_socket(id);
    if (id->peer.mtu > id->own.mtu) {
        cm_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO); /* a peer must not choose a larger MTU */
        return;
    }
    if (id->public.qp == NULL) { /* the application has its own, or has destroyed it */
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
    cm_link_established(id);
    cm_post(id, CM_KIND_CONNECT, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void rej_received(struct cm_id *id)
{
    int status = id->peer.reason == CM_OTHER_VERSION ? -EPROTONOSUPPORT : id->peer.reason;

    if (id->transport == &cm_ib && id->peer.reason == IB_INVALID_SERVICE)
        cm_active_unheard(id);
    else
        cm_failed(id, RDMA_CM_EVENT_REJECTED, status);
}

void cm_active_answered(struct cm_id *id)
{
    if (id->peer.type == CM_REP)
        rep_received(id);
    else if (id->peer.type == CM_REJ)
        rej_received(id);
    else
        cm_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
}

/* The host has a listener, which has received the request: its application gets more time than a host that sends
 * nothing, which may be a TCP server that does not know this protocol. */
static void answer_received(struct cm_id *id)
{
    id->own.mra = false;
    id->in_length = 0;
    cm_timer_start(id, CM_TIMEOUT_HANDSHAKE);
}

static void receive_answer(struct cm_id *id)
{
    int result = cm_receive(id);

    if (result == 0)
        return;
    if (result == -ECONNRESET)
        cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
    else if (result == -EPROTONOSUPPORT)
        cm_failed(id, RDMA_CM_EVENT_REJECTED, -EPROTONOSUPPORT);
    else if (result == -EBADMSG && cm_is_datagram(id))
        tcp_failed(id, ECONNREFUSED); /* another program listens at that slot */
    else if (result < 0 || !cm_message_decode(&id->peer, id->in))
        cm_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
    else if (id->peer.type == CM_MRA && id->own.mra)
        answer_received(id);
    else if (cm_is_datagram(id) && id->peer.type == CM_REJ && id->peer.reason == CM_INVALID_SERVICE)
        tcp_failed(id, ECONNREFUSED); /* a listener of another number */
    else if (cm_is_datagram(id) && cm_datagram_take_claim(id))
        tcp_failed(id, ECONNREFUSED); /* continue with the other slots */
    else if (!cm_is_datagram(id))
        cm_active_answered(id);
}

void cm_active_ready(struct cm_id *id, uint32_t events)
{
    if (id->state == CM_REQUEST_SENT)
        receive_answer(id);
    else if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
        tcp_connected(id);
}

/* The host answers at RoCE's port and its application takes time; the TCP attempt ends. */
static void be_patient(struct cm_id *id)
{
    go_on_beside(id);
    id->doubted = false;
    cm_timer_start(id, CM_TIMEOUT_HANDSHAKE);
}

void cm_active_expired(struct cm_id *id)
{
    if (id->claim != NULL) {
        cm_datagram_all_asked(id, ETIMEDOUT);
        return;
    }
    if (id->state == CM_TCP_CONNECTING && id->fd != -1 && id->postponed > 0) {
        send_request(id);
        return;
    }
    if (id->state == CM_TCP_CONNECTING && id->fd == -1) {
        int error = start_request(id);

        if (error != 0)
            tcp_failed(id, error);
        return;
    }
    if (id->state == CM_TCP_CONNECTING && !id->asked_ib && cm_ib_has_port(id)) {
        start_beside(id);
        return;
    }
    if (id->state == CM_REQUEST_SENT && id->transport == &cm_ib && id->doubted && !id->asked_tcp)
        start_tcp_beside(id);
    else if (id->ib != NULL && !cm_ib_is_heard(id) && id->tcp_refused)
        nobody_listens(id);
    else if (id->ib != NULL && cm_ib_is_heard(id) && id->doubted)
        be_patient(id);
    else
        cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

/* Within a host TCP is established immediately, and the request is sent here. Then an application that starts many
 * connections before it polls its channel causes no half-open ones at the listener, and one that waits for an event of
 * its own listener, on another channel, gets it. A request can hold three more descriptors, so it is left to the
 * channel if many of the process's descriptors are in use (fds_rank()). */
static void request_at_once(struct cm_id *id)
{
    struct pollfd poller = {.fd = id->fd, .events = POLLOUT};

    if (id->fd == -1 || (!cm_is_shared() && fds_rank(id->fd) >= 2 * fds_share(0, UINT_MAX / 2)))
        return;
    if (poll(&poller, 1, 0) == 1)
        tcp_connected(id);
}

int soft_connect(struct rdma_cm_id *public, struct rdma_conn_param *param)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    int error = EINVAL;

    id->unbound = !cm_is_bound(id);
    if (id->state == CM_ROUTE_RESOLVED && public->qp_type != IBV_QPT_XRC_RECV) /* XRC receivers don't connect */
        error = cm_is_datagram(id) ? cm_datagram_question(id, param) : cm_conn_param(id, param, CM_REQ_PRIVATE);
    if (error == 0) {
        error = start_request(id);
        if (network_error(error)) {
            tcp_failed(id, error);
            error = 0;
        } else if (error != 0) {
            cm_id_close(id);
            id->state = CM_ROUTE_RESOLVED;
        } else {
            request_at_once(id);
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
