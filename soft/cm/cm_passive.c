/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_passive.c - the listening side. A TCP connection is half-open until its request is complete; then the application
 * accepts or rejects it. Clients that speak another protocol never cause an event.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "core/base/fds.h"
#include "cm_id.h"

#define ACCEPT_BATCH 16 /* connections accepted at a time, so that other sockets are handled, too */
/* The backlog of the TCP socket, instead of the application's: a client that finds the backlog full tries again only
 * after a second. The kernel reduces it to net.core.somaxconn. */
#define KERNEL_BACKLOG 4096

static struct {
    /* Only counters: they pair with nothing. */
    atomic_uint_fast64_t accepted, requests, magic, version, malformed, memory, hung_up, timeouts, dropped,
        limits;
} counters;

void soft_query_cm_counters(struct soft_cm_counters *out)
{
    out->accepted = atomic_load(&counters.accepted);
    out->requests = atomic_load(&counters.requests);
    out->refused_magic = atomic_load(&counters.magic);
    out->refused_version = atomic_load(&counters.version);
    out->refused_malformed = atomic_load(&counters.malformed);
    out->refused_memory = atomic_load(&counters.memory);
    out->hung_up = atomic_load(&counters.hung_up);
    out->half_open_timeouts = atomic_load(&counters.timeouts);
    out->half_open_dropped = atomic_load(&counters.dropped);
    out->descriptor_limits = atomic_load(&counters.limits);
    cm_link_count(out);
}

/* ---- Listening ------------------------------------------------------------------------------------------- */

static int listen_on(struct cm_id *id, int backlog)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    int error;

    if (id->state != CM_IDLE)
        return EINVAL;
    if (cm_is_datagram(id)) {
        if ((error = cm_datagram_slot(id)) != 0)
            return error;
    } else if (id->fd == -1) {
        id->fd = cm_socket_open(AF_INET, false);
        if (id->fd == -1 || cm_socket_bind(id->fd, (const struct sockaddr *)&any, false) == -1)
            return errno;
    }
    /* The connections inherit this option: after they have ended they do not prevent the next server from binding the
     * port. */
    fds_set_option(id->fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (listen(id->fd, KERNEL_BACKLOG) == -1)
        return errno;
    error = cm_register(id, EPOLLIN);
    if (error != 0)
        return error;
    cm_half_open_init(id);
    id->state = CM_LISTENING;
    cm_link_listen(id);
    error = cm_id_addresses(id);
    return error == 0 ? cm_ib_listen(id, backlog) : error;
}

int soft_listen(struct rdma_cm_id *public, int backlog)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    int error = listen_on(id, backlog);

    cm_unlock(channel);
    return cm_result(error);
}

/* ---- Half open ----------------------------------------------------------------------------------- */

static void take_in(struct cm_id *listener, int fd, const union soft_addr *from)
{
    struct cm_id *id = cm_id_new(cm_channel_of(listener), listener->public.ps);

    atomic_fetch_add(&counters.accepted, 1);
    if (id == NULL) {
        atomic_fetch_add(&counters.memory, 1);
        fds_close(fd);
        return;
    }
    id->fd = fd;
    id->public.qp_type = listener->public.qp_type;
    id->ack_timeout = listener->ack_timeout;
    id->traffic_class = listener->traffic_class;
    memcpy(&id->public.route.addr.dst_storage, from, sizeof *from);
    if (cm_register(id, EPOLLIN) != 0) {
        atomic_fetch_add(&counters.memory, 1);
        cm_id_free(id);
        return;
    }
    cm_socket_tune(fd);
    if (cm_half_open_add(listener, id))
        atomic_fetch_add(&counters.dropped, 1);
    cm_passive_ready(id); /* usually the request has arrived already */
}

/* At the limit of half-open connections, or without descriptors, connections stay in the kernel's queue and the socket
 * remains readable. The listener then ignores the socket for CM_TIMEOUT_PAUSE, instead of being woken all the time. */
static void pause_listener(struct cm_id *listener)
{
    cm_want(listener, 0);
    cm_timer_start(listener, CM_TIMEOUT_PAUSE);
}

void cm_listener_resume(struct cm_id *listener)
{
    cm_want(listener, EPOLLIN);
}

void cm_listener_ready(struct cm_id *listener)
{
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        union soft_addr from = {.in6 = {.sin6_family = AF_UNSPEC}};
        socklen_t length = sizeof from;
        int fd;

        if (!cm_half_open_has_room(listener)) {
            pause_listener(listener);
            return;
        }
        fd = fds_own_private(accept4(listener->fd, &from.sa, &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd != -1) {
            take_in(listener, fd, &from);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            atomic_fetch_add(&counters.limits, 1);
            pause_listener(listener);
        }
        if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

/* ---- Requests ------------------------------------------------------------------------------------ */

/* Sends a REJ, and waits until the peer has closed. Closing immediately, with unread bytes from the peer, would reset
 * the connection, and the REJ could be lost. */
static void send_reject(struct cm_id *id, uint16_t reason)
{
    const struct cm_message rej = {.type = CM_REJ, .reason = reason};

    cm_send(id, &rej);
    shutdown(id->fd, SHUT_WR);
    id->state = CM_REFUSING;
}

bool cm_passive_requested(struct cm_id *id)
{
    struct ibv_context *context = cm_context(cm_channel_of(id));

    if (context == NULL) {
        atomic_fetch_add(&counters.memory, 1);
        return false;
    }
    cm_id_use(id, context);
    id->state = CM_REQUESTED;
    cm_link_requested(id);
    id->public.context = id->listener->public.context;
    atomic_fetch_add(&counters.requests, 1);
    cm_post(id, CM_KIND_CONNECT, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    return true;
}

static void req_received(struct cm_id *id)
{
    const struct cm_message mra = {.type = CM_MRA};

    if (id->peer.mra)
        cm_send(id, &mra);
    id->in_length = 0;
    cm_timer_stop(id);
    id->state = CM_REQUESTED;
    cm_half_open_completed(id->listener);
    cm_half_open_ended(id->listener);
    if (cm_id_addresses(id) != 0) { /* the peer has closed already */
        atomic_fetch_add(&counters.hung_up, 1);
        cm_id_free(id);
    } else if (!cm_passive_requested(id)) {
        id->listener->half_open++;
        cm_timer_start(id, CM_TIMEOUT_HALF_OPEN);
        send_reject(id, CM_NO_RESOURCES);
    }
}

/* The reason to refuse a request for another kind of connection than the listener's; 0: none. */
static uint16_t refusal_reason(struct cm_id *id)
{
    if (cm_is_datagram(id))
        return cm_datagram_is_asked(id) ? 0 : CM_INVALID_SERVICE;
    return cm_qp_refuses(id);
}

static void half_open_ready(struct cm_id *id)
{
    int result = cm_receive(id);
    enum cm_type wanted = cm_is_datagram(id) ? CM_SIDR_REQ : CM_REQ;
    bool known = result > 0 && cm_message_decode(&id->peer, id->in);
    uint16_t reason;

    if (result == 0)
        return;
    if (known && id->peer.type == wanted) {
        reason = refusal_reason(id);
        if (reason != 0)
            send_reject(id, reason);
        else
            req_received(id);
    } else if (known && (id->peer.type == CM_REQ || id->peer.type == CM_SIDR_REQ)) {
        atomic_fetch_add(&counters.malformed, 1);
        send_reject(id, CM_INVALID_SERVICE); /* of the other port space */
    } else if (result == -EPROTONOSUPPORT) {
        atomic_fetch_add(&counters.version, 1);
        send_reject(id, CM_OTHER_VERSION);
    } else {
        atomic_fetch_add(result == -EBADMSG      ? &counters.magic
                         : result == -ECONNRESET ? &counters.hung_up
                                                 : &counters.malformed,
                         1);
        cm_id_free(id);
    }
}

/* The peer sends nothing before this end answers, so it has closed the connection. If the request was not delivered, no
 * event is needed. */
static void requested_ready(struct cm_id *id)
{
    if (cm_receive(id) == 0)
        return;
    if (id->listener != NULL) {
        cm_id_free(id);
        return;
    }
    cm_id_close(id);
    id->state = CM_DISCONNECTED;
}

void cm_passive_established(struct cm_id *id)
{
    cm_timer_stop(id);
    id->state = CM_ESTABLISHED;
    id->in_length = 0;
    cm_link_established(id);
    cm_post(id, CM_KIND_CONNECT, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* Whether the peer's RTU has arrived. 1; 0: not yet; or a negative errno: it never will. */
static int hear_rtu(struct cm_id *id)
{
    int result;

    if (id->tcp != NULL)
        return cm_link_hear(id);
    result = cm_receive(id);
    if (result > 0 && (!cm_message_decode(&id->peer, id->in) || id->peer.type != CM_RTU))
        return -EPROTO;
    return result;
}

static void replied_ready(struct cm_id *id)
{
    int result = hear_rtu(id);

    if (result == 0)
        return;
    if (result > 0) {
        cm_passive_established(id);
        return;
    }
    memset(&id->peer, 0, sizeof id->peer); /* the event must not contain its data */
    if (result == -ECONNRESET)
        cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
    else
        cm_failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
}

/* Whether the tcp link has received the RTU before the application called the connection manager. */
static bool link_is_ready(const struct cm_id *id)
{
    return id->tcp != NULL && tcp_peer_rtu(id->tcp) == TCP_RTU_RECEIVED;
}

void cm_passive_ready(struct cm_id *id)
{
    switch (id->state) {
    case CM_HALF_OPEN:
        half_open_ready(id);
        break;
    case CM_REFUSING:
        if (!cm_discard(id))
            cm_id_free(id);
        break;
    case CM_REQUESTED:
        requested_ready(id);
        break;
    default:
        replied_ready(id);
    }
}

void cm_passive_expired(struct cm_id *id)
{
    if (id->state == CM_REPLIED) {
        if (link_is_ready(id))
            cm_passive_established(id);
        else
            cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
        return;
    }
    if (id->state == CM_HALF_OPEN)
        atomic_fetch_add(&counters.timeouts, 1);
    cm_id_free(id);
}

/* ---- The application's answer --------------------------------------------------------------------------- */

/* Without parameters of the application the peer's values are used; the depths are limited to what the peer offers. */
static void limit_reads(struct cm_message *own, const struct cm_message *peer, bool given)
{
    if (!given || own->responder_resources > peer->initiator_depth)
        own->responder_resources = peer->initiator_depth;
    if (!given || own->initiator_depth > peer->responder_resources)
        own->initiator_depth = peer->responder_resources;
}

static int accept_request(struct cm_id *id, const struct rdma_conn_param *param)
{
    int error;

    if (id->state == CM_DISCONNECTED)
        return ECONNRESET;
    if (id->state != CM_REQUESTED)
        return EINVAL;
    error = cm_conn_param(id, param, CM_REP_PRIVATE);
    if (error != 0)
        return error;
    limit_reads(&id->own, &id->peer, param != NULL);
    error = cm_qp_describe(id, CM_REP);
    if (error != 0)
        return error;
    if (id->own.mtu > id->peer.mtu)
        id->own.mtu = id->peer.mtu;
    /* Before the reply: the peer may send packets as soon as it has that. */
    error = id->public.qp == NULL ? 0 : cm_qp_connect(id);
    if (error != 0)
        return error;
    id->state = CM_REPLIED;
    cm_send(id, &id->own);
    cm_timer_start(id, CM_TIMEOUT_HANDSHAKE);
    cm_link_replied(id);
    return 0;
}

int soft_accept(struct rdma_cm_id *public, struct rdma_conn_param *param)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    bool datagram = cm_is_datagram(id);
    int error = datagram ? cm_datagram_accept(id, param) : accept_request(id, param);

    cm_unlock(channel);
    return datagram ? cm_result(error) : cm_complete(id, cm_result(error)); /* there is no event to wait for */
}

void cm_refuse_request(struct cm_id *id, const void *private_data, uint8_t length)
{
    struct cm_message rej = {.type = CM_REJ, .reason = CM_CONSUMER_DEFINED, .private_length = length};

    if (cm_is_datagram(id)) {
        cm_datagram_reject(id, private_data, length);
        return;
    }
    if (length > 0)
        memcpy(rej.private_data, private_data, length);
    cm_send(id, &rej);
}

int soft_reject(struct rdma_cm_id *public, const void *private_data, uint8_t private_data_len)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    uint8_t most = cm_is_datagram(id) ? CM_SIDR_REP_PRIVATE : CM_REJ_PRIVATE;
    int error = 0;

    if (private_data_len > most || (private_data == NULL && private_data_len > 0) ||
        (id->state != CM_REQUESTED && id->state != CM_DISCONNECTED)) {
        error = EINVAL;
    } else if (id->state == CM_REQUESTED) {
        cm_refuse_request(id, private_data, private_data_len);
        cm_id_close(id);
        id->state = CM_DISCONNECTED;
    }
    cm_unlock(channel);
    return cm_result(error);
}

/* A first packet from the peer shows that it is ready, like the RTU, which can be lost at RoCE's port, and which the
 * tcp link reads before the connection manager is called. */
int soft_notify(struct rdma_cm_id *public, enum ibv_event_type event)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);

    if (event != IBV_EVENT_COMM_EST || id->state != CM_REPLIED) {
        /* Established already, or another event. */
    } else if (link_is_ready(id)) {
        cm_passive_established(id);
    } else if (id->transport == &cm_ib) {
        /* Otherwise the event queue contains the event already. */
        if (ib_port_establish(id->ib) == 0)
            cm_passive_established(id);
    }
    cm_unlock(channel);
    return cm_result(event == IBV_EVENT_COMM_EST ? 0 : EINVAL);
}
