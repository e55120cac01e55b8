/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_ib.c - connects librdmacm's identifiers with the endpoints of the port (ib_port.h), for connections by
 * InfiniBand's connection manager.
 *
 * The peer's messages are converted to struct cm_message (cm_message.h). They lack two values: the length of private
 * data, all of whose field arrives; and the path MTU in a REP, so a listener must use the one that was requested, or
 * refuse.
 */
#include <errno.h>
#include <string.h>
#include "core/base/settings.h"
#include "cm_id.h"
#include "ib_address.h"

#define RESPONSE 20   /* time in which a message is answered: 4.3 s, as in Linux */
#define CM_RETRIES 15 /* the maximum */
#define ACK_DELAY 15

_Static_assert(IB_ADDRESS_BYTES + CM_REQ_PRIVATE == 92, "all of a REQ's private data");

/* Whether InfiniBand's connection manager can set up the identifier's kind of connection: reliable connections in
 * RDMA_PS_TCP, and datagrams. */
static bool is_spoken(const struct cm_id *id)
{
    return cm_is_datagram(id) || (id->public.ps == RDMA_PS_TCP && id->public.qp_type == IBV_QPT_RC);
}

bool cm_ib_has_port(const struct cm_id *id)
{
    return is_spoken(id) && id->public.verbs != NULL && home_of(id->public.verbs)->udp.roce != NULL;
}

/* Opens the channel's event queue, in which the port queues the events of its endpoints. 0 or an errno. */
static int open_box(struct cm_channel *channel)
{
    int error;

    if (channel->ib.wakefd.fd != -1)
        return 0;
    if (doorbell_make(&channel->ib.wakefd) == -1)
        return errno;
    error = waitset_add(&channel->waits, channel->ib.wakefd.fd, EPOLLIN, &channel->ib);
    if (error != 0)
        doorbell_close(&channel->ib.wakefd);
    return error;
}

int cm_ib_move(struct cm_id *id, struct cm_channel *to)
{
    int error = open_box(to);

    if (error == 0)
        ib_port_move(id->ib, &to->ib);
    return error;
}

void cm_ib_close(struct cm_id *id)
{
    if (id->ib != NULL)
        ib_port_leave(id->ib);
    id->ib = NULL;
}

/* ---- The transport ---- */

static int ib_names(const struct cm_id *id, union soft_addr *local, union soft_addr *remote)
{
    const struct rdma_addr *addr = &id->public.route.addr;

    memset(local, 0, sizeof *local);
    memcpy(local, &addr->src_storage, cm_addr_size(&addr->src_addr));
    if (remote == NULL)
        return 0;
    memset(remote, 0, sizeof *remote);
    memcpy(remote, &addr->dst_storage, cm_addr_size(&addr->dst_addr));
    return 0;
}

static enum ibv_mtu ib_mtu(const struct cm_id *id)
{
    return id->route_mtu;
}

static uint64_t round_trip(const struct cm_id *id)
{
    (void)id;
    return 0;
}

static void send_reply(struct cm_id *id)
{
    const struct cm_message *own = &id->own;
    struct ib_message rep = {
        .rep = {.qpn = own->qp_num,
                .psn = own->psn,
                .responder_resources = own->responder_resources,
                .initiator_depth = own->initiator_depth,
                .ack_delay = ACK_DELAY,
                .rnr_retry_count = own->rnr_retry_count,
                .flow_control = own->flow_control,
                .srq = own->srq},
    };

    memcpy(rep.private_data, own->private_data, own->private_length);
    (void)ib_port_accept(id->ib, &rep);
}

/* Errors are ignored: if the peer has ended the connection, the event is in the event queue. */
static void ib_transport_send(struct cm_id *id, const struct cm_message *message)
{
    if (id->ib == NULL)
        return;
    switch (message->type) {
    case CM_REQ: /* cm_ib_connect */
    case CM_SIDR_REQ:
    case CM_DREQ: /* cm_ib_disconnect */
    case CM_MRA:  /* over TCP only */
        break;
    case CM_SIDR_REP:
        cm_ib_reply(id, message);
        break;
    case CM_REP:
        send_reply(id);
        break;
    case CM_RTU:
        (void)ib_port_establish(id->ib);
        break;
    case CM_REJ:
        (void)ib_port_refuse(id->ib, message->reason, message->private_data, message->private_length);
        break;
    }
}

const struct cm_transport cm_ib = {
    .meets = false,
    .names = ib_names,
    .mtu = ib_mtu,
    .round_trip = round_trip,
    .send = ib_transport_send,
};

/* ---- Listening ---- */

int cm_ib_listen(struct cm_id *id, int backlog)
{
    struct cm_channel *channel = cm_channel_of(id);
    struct ibv_context *context;
    union soft_addr local;
    int error;

    if (!settings()->roce_wanted || !is_spoken(id))
        return 0;
    context = cm_context(channel);
    if (context == NULL)
        return errno;
    error = ib_port_open(home_of(context));
    if (error != 0)
        return error == ENOTCONN ? 0 : error;
    memcpy(&local, &id->public.route.addr.src_storage, sizeof local); /* for datagrams with the number */
    error = open_box(channel);
    if (error != 0)
        return error;
    id->ib = ib_port_listen(&channel->ib, id, cm_is_datagram(id) ? IB_SPACE_UDP : IB_SPACE_TCP, &local,
                            id->af_only, backlog);
    return id->ib == NULL ? errno : 0;
}

/* Sets both ends' addresses from the request, which the port has compared with the addresses of the packet, and the
 * route's MTU. 0 or an errno. */
static int find_way(struct cm_id *id, const struct ib_news *news)
{
    struct rdma_addr *addr = &id->public.route.addr;
    union soft_addr local = news->path.local, remote, to;

    if (!ib_address_decode(&remote, &to, news->said.private_data))
        return EPROTO;
    local.in.sin_port = id->listener->public.route.addr.src_sin.sin_port; /* at the same place in both */
    if (remote.sa.sa_family == AF_INET6)
        remote.in6.sin6_scope_id = news->path.remote.in6.sin6_scope_id;
    memcpy(&addr->src_storage, &local, sizeof local);
    memcpy(&addr->dst_storage, &remote, sizeof remote);
    cm_id_gids(id);
    return cm_socket_route_mtu(&local, &remote, &id->route_mtu);
}

/* Makes a child of the listener for a request, like that of a TCP connection. */
static void req_received(struct cm_id *listener, const struct ib_news *news)
{
    struct cm_id *id = cm_id_new(cm_channel_of(listener), listener->public.ps);

    if (id == NULL) {
        (void)ib_port_refuse(news->end, CM_NO_RESOURCES, "", 0);
        ib_port_leave(news->end);
        return;
    }
    id->transport = &cm_ib;
    id->ack_timeout = listener->ack_timeout;
    id->ib = news->end;
    ib_port_adopt(id->ib, id);
    id->state = CM_REQUESTED;
    id->listener = listener;
    TAILQ_INSERT_TAIL(&listener->children, id, child);
    if (cm_is_datagram(id))
        cm_ib_hear_question(&id->peer, &news->said);
    else
        cm_ib_hear_request(&id->peer, &news->said);
    id->traffic_class = cm_is_datagram(id) ? listener->traffic_class : news->said.req.traffic_class;
    if (find_way(id, news) != 0 || !cm_passive_requested(id)) {
        (void)ib_port_refuse(id->ib, CM_NO_RESOURCES, "", 0);
        cm_id_free(id);
    } else if (id->peer.mtu > id->route_mtu) {
        (void)ib_port_refuse(id->ib, IB_INVALID_MTU, "", 0);
        cm_id_free(id);
    }
}

/* ---- Connecting ---- */

static struct ib_message make_request(const struct cm_id *id)
{
    const struct rdma_addr *addr = &id->public.route.addr;
    const struct cm_message *own = &id->own;
    union soft_addr local, remote;
    struct ib_message req = {
        .req = {.qpn = own->qp_num,
                .psn = own->psn,
                .responder_resources = own->responder_resources,
                .initiator_depth = own->initiator_depth,
                .remote_response = RESPONSE,
                .local_response = RESPONSE,
                .transport = IB_RC,
                .flow_control = own->flow_control,
                .srq = own->srq,
                .retry_count = own->retry_count,
                .rnr_retry_count = own->rnr_retry_count,
                .cm_retries = CM_RETRIES,
                .pkey = SOFT_PKEY,
                .mtu = own->mtu,
                .hop_limit = CM_HOP_LIMIT,
                .traffic_class = id->traffic_class,
                .ack_timeout = id->ack_timeout > CM_IB_ACK_TIMEOUT ? id->ack_timeout : CM_IB_ACK_TIMEOUT},
    };

    (void)ib_names(id, &local, &remote);
    req.req.service = ib_service(IB_SPACE_TCP, ntohs(remote.in.sin_port));
    memcpy(req.req.local_gid, addr->addr.ibaddr.sgid.raw, IB_GID_BYTES);
    memcpy(req.req.remote_gid, addr->addr.ibaddr.dgid.raw, IB_GID_BYTES);
    ib_address_encode(&local, &remote, req.private_data);
    memcpy(req.private_data + IB_ADDRESS_BYTES, own->private_data, own->private_length);
    return req;
}

static struct ib_end *send_req(struct cm_id *id, const struct soft_path *path)
{
    struct ib_message req = make_request(id);

    return ib_port_connect(&cm_channel_of(id)->ib, id, path, &req);
}

int cm_ib_connect(struct cm_id *id)
{
    struct cm_channel *channel = cm_channel_of(id);
    struct soft_path path = {.link = NULL};
    int error = ib_port_open(home_of(id->public.verbs));

    id->transport = &cm_ib;
    cm_id_gids(id);
    if (error == 0)
        error = open_box(channel);
    if (error == 0)
        error = ib_names(id, &path.local, &path.remote);
    if (error == 0)
        error = cm_socket_route_mtu(&path.local, &path.remote, &id->route_mtu);
    if (error == 0 && !cm_is_datagram(id))
        error = cm_qp_describe(id, CM_REQ);
    if (error != 0)
        return error;
    id->ib = cm_is_datagram(id) ? cm_ib_ask(id, &path) : send_req(id, &path);
    if (id->ib == NULL)
        return errno;
    id->state = CM_REQUEST_SENT;
    return 0;
}

bool cm_ib_is_heard(const struct cm_id *id)
{
    return ib_port_is_heard(id->ib);
}

/* ---- Events ---- */

/* The peer has withdrawn its request. If it was not delivered yet, no event is needed. */
static void taken_back(struct cm_id *id)
{
    if (id->listener != NULL) {
        cm_id_free(id);
        return;
    }
    cm_id_close(id);
    id->state = CM_DISCONNECTED;
}

bool cm_ib_disconnect(struct cm_id *id)
{
    if (id->ib == NULL || ib_port_disconnect(id->ib) != 0)
        return false;
    cm_timer_stop(id);
    id->state = CM_DISCONNECTED;
    return true;
}

/* Whether it is connected, or was, and the peer has not answered the application's disconnect. */
static bool is_connected(const struct cm_id *id)
{
    return id->state == CM_ESTABLISHED || id->state == CM_RESPONDED || id->state == CM_DISCONNECTED;
}

static void rej_received(struct cm_id *id, const struct ib_news *news)
{
    if (is_connected(id)) {
        cm_ended(id, 0);
        return;
    }
    cm_ib_hear_refusal(id, &news->said);
    if (id->state == CM_REQUEST_SENT || id->state == CM_TCP_CONNECTING)
        cm_active_answered(id);
    else
        cm_failed(id, RDMA_CM_EVENT_REJECTED, id->peer.reason);
}

/* The connection has ended. If it is not ESTABLISHED yet, the RTU was lost, but the message after it was not. */
static void dreq_received(struct cm_id *id, int status)
{
    if (id->state == CM_REPLIED)
        cm_passive_established(id);
    if (is_connected(id))
        cm_ended(id, status);
}

static void handle_event(struct cm_id *id, const struct ib_news *news)
{
    if (id->state == CM_REQUESTED) {
        taken_back(id);
        return;
    }
    switch (news->event) {
    case IB_EV_REPLIED:
        cm_ib_hear_reply(id, &news->said);
        cm_active_answered(id);
        break;
    case IB_EV_ESTABLISHED:
        if (id->state == CM_REPLIED)
            cm_passive_established(id);
        break;
    case IB_EV_REJECTED:
        rej_received(id, news);
        break;
    case IB_EV_UNREACHABLE:
        memset(&id->peer, 0, sizeof id->peer); /* the event has no private data */
        if (id->state == CM_TCP_CONNECTING)
            cm_active_unheard(id);
        else
            cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
        break;
    case IB_EV_ABSENT:
        memset(&id->peer, 0, sizeof id->peer);
        cm_active_unheard(id);
        break;
    case IB_EV_RESOLVED:
        cm_ib_answered(id, &news->said);
        break;
    case IB_EV_DISCONNECTED:
        dreq_received(id, 0);
        break;
    case IB_EV_UNANSWERED:
        dreq_received(id, -ETIMEDOUT);
        break;
    case IB_EV_OVER:
        break;
    }
}

void cm_ib_ready(struct cm_channel *channel)
{
    struct ib_news news;

    if (!ib_port_next(&channel->ib, &news))
        return;
    if (news.requested)
        req_received(news.user, &news);
    else
        handle_event(news.user, &news);
}
