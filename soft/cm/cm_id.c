/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_id.c - creates, migrates and destroys identifiers, and sets their options. */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "cm_id.h"
#include "soft/lock.h"

#define ACK_TIMEOUT 17 /* code of 0.54 s: 4.096 us * 2^17 */
#define ACK_TIMEOUT_MAX 31

struct cm_id *cm_id_new(struct cm_channel *channel, enum rdma_port_space ps)
{
    struct cm_id *id = calloc(1, sizeof *id);

    if (id == NULL)
        return NULL;
    id->public.channel = &channel->public;
    id->public.ps = ps;
    id->public.qp_type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
    id->fd = id->number = id->guest = -1;
    id->transport = &cm_tcp;
    id->ack_timeout = ACK_TIMEOUT;
    id->timeout = CM_NO_TIMEOUT;
    TAILQ_INIT(&id->children);
    return id;
}

void cm_id_use(struct cm_id *id, struct ibv_context *context)
{
    id->public.verbs = context;
    id->public.port_num = SOFT_DEVICE_PORT;
    if (cm_is_shared() && id->public.pd == NULL)
        id->public.pd = home_shared_pd();
}

int soft_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
                   enum rdma_port_space ps)
{
    struct rdma_event_channel *own = NULL;
    struct cm_id *id;

    /* Datagrams need a context with a LID and GIDs (wire.h); XRC needs a domain that all channels share. */
    if (ps != RDMA_PS_TCP && ((ps != RDMA_PS_UDP && ps != RDMA_PS_IB) || !cm_is_shared())) {
        errno = EPROTONOSUPPORT;
        return -1;
    }
    if (channel == NULL && (channel = own = soft_create_event_channel()) == NULL)
        return -1;
    id = cm_id_new((struct cm_channel *)channel, ps);
    if (id == NULL) {
        if (own != NULL)
            soft_destroy_event_channel(own);
        return -1;
    }
    id->sync = own != NULL;
    id->public.context = context;
    *out = &id->public;
    return 0;
}

void cm_id_close_socket(struct cm_id *id)
{
    if (id->fd != -1) {
        waitset_remove(&cm_channel_of(id)->waits, id->fd);
        if (id->tcp != NULL)
            tcp_peer_release(id->tcp);
        else
            fds_close(id->fd);
    }
    id->fd = -1;
    id->tcp = NULL;
}

void cm_id_close(struct cm_id *id)
{
    cm_timer_stop(id);
    cm_link_drop(id); /* before the port: the unix sockets are named after it */
    cm_id_close_socket(id);
    cm_ib_close(id);
    id->out_length = 0;
}

void cm_id_detach(struct cm_id *id)
{
    struct cm_id *child;

    while ((child = TAILQ_FIRST(&id->children)) != NULL)
        cm_id_free(child);
    if (id->listener != NULL) {
        TAILQ_REMOVE(&id->listener->children, id, child);
        if (id->state == CM_HALF_OPEN || id->state == CM_REFUSING)
            cm_half_open_ended(id->listener);
        id->listener = NULL;
    }
    cm_id_close(id);
    cm_multicast_leave_all(id);
    if (id->number != -1)
        fds_close(id->number);
    id->number = -1;
    cm_unpost(id);
}

void cm_id_free(struct cm_id *id)
{
    cm_id_detach(id);
    cm_datagram_forget_claim(id);
    free(id->endpoint);
    free(id->connect);
    free(id);
}

int soft_destroy_id(struct rdma_cm_id *public)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel;
    bool alone = id->sync;

    if (public->event != NULL)
        soft_ack_cm_event(public->event);
    channel = cm_lock(id);
    if (id->state == CM_REQUESTED)
        cm_refuse_request(id, NULL, 0);
    cm_id_detach(id);
    /* A thread that has an event may still use the identifier; cm_id_free() removes what it adds. */
    cm_await_acknowledgement(id);
    cm_id_free(id);
    cm_unlock(channel);
    if (alone)
        soft_destroy_event_channel(&channel->public);
    return 0;
}

void cm_id_gids(struct cm_id *id)
{
    struct rdma_addr *addr = &id->public.route.addr;

    soft_gid_of(&addr->addr.ibaddr.sgid, &addr->src_addr);
    if (addr->dst_addr.sa_family != AF_UNSPEC)
        soft_gid_of(&addr->addr.ibaddr.dgid, &addr->dst_addr);
    addr->addr.ibaddr.pkey = htons(SOFT_PKEY);
    id->public.port_num = SOFT_DEVICE_PORT;
}

struct ibv_ah_attr cm_id_way(const struct cm_id *id, const union ibv_gid *to)
{
    int index = soft_gid_enter(id->public.verbs, &id->public.route.addr.addr.ibaddr.sgid);

    return (struct ibv_ah_attr){
        .is_global = 1,
        .port_num = SOFT_DEVICE_PORT,
        .grh = {.dgid = *to,
                .sgid_index = index >= 0 ? (uint8_t)index : 0,
                .hop_limit = CM_HOP_LIMIT,
                .traffic_class = id->traffic_class},
    };
}

int cm_id_addresses(struct cm_id *id)
{
    struct rdma_addr *addr = &id->public.route.addr;
    union soft_addr local, remote;
    bool connected = id->state != CM_IDLE && id->state != CM_LISTENING;
    int error = cm_socket_names(id->fd, &local, connected ? &remote : NULL);

    if (error != 0)
        return error;
    if (cm_is_datagram(id)) { /* the socket has another port (cm_number.h); same offset in sockaddr_in6 */
        local.in.sin_port = addr->src_sin.sin_port;
        remote.in.sin_port = addr->dst_sin.sin_port;
    }
    memcpy(&addr->src_storage, &local, sizeof local);
    if (connected) {
        memcpy(&addr->dst_storage, &remote, sizeof remote);
        cm_id_gids(id);
    }
    return 0;
}

/* ---- Migration --------------------------------------------------------------------------------------- */

static void lock_both(struct cm_channel *one, struct cm_channel *other)
{
    struct cm_channel *first = one < other ? one : other;

    soft_mutex_lock(&first->lock);
    if (one != other)
        soft_mutex_lock(first == one ? &other->lock : &one->lock);
}

/* Moves its pending events, in their order. */
static void move_pending(const struct cm_id *id, struct cm_channel *from, struct cm_channel *to)
{
    struct cm_pending *pending = TAILQ_FIRST(&from->pending), *next;

    for (; pending != NULL; pending = next) {
        next = TAILQ_NEXT(pending, entry);
        if (pending->id != id)
            continue;
        TAILQ_REMOVE(&from->pending, pending, entry);
        TAILQ_INSERT_TAIL(&to->pending, pending, entry);
    }
}

/* Moves the watch on its socket. It is first removed from the old channel, because the kernel limits by how many epoll
 * sets a descriptor may be watched; if it can't be added to the new one it is added to the old one again. 0 or an
 * errno. */
static int move_watch(struct cm_id *id, struct cm_channel *from, struct cm_channel *to)
{
    bool sends = id->state == CM_TCP_CONNECTING || id->out_length > 0;
    bool expects_rtu = id->tcp != NULL && id->state == CM_REPLIED;
    uint32_t events = cm_link_events(id) | (sends ? (uint32_t)EPOLLOUT : 0);

    if (expects_rtu)
        tcp_peer_watch(id->tcp, NULL, NULL);
    waitset_remove(&from->waits, id->fd);
    int error = waitset_add(&to->waits, id->fd, events, id);

    if (error != 0)
        (void)waitset_add(&from->waits, id->fd, events, id);
    if (expects_rtu)
        tcp_peer_watch(id->tcp, error == 0 ? &to->waits : &from->waits, id);
    return error;
}

static int move_id(struct cm_id *id, struct cm_channel *from, struct cm_channel *to)
{
    int error = id->ib == NULL ? 0 : cm_ib_move(id, to);

    if (error == 0 && id->fd != -1 && id->state >= CM_LISTENING)
        error = move_watch(id, from, to);
    if (error != 0)
        return error;
    move_pending(id, from, to);
    cm_timer_move(id, from, to);
    __atomic_store_n(&id->public.channel, &to->public, __ATOMIC_RELEASE);
    return 0;
}

static int migrate_to_channel(struct cm_id *id, struct cm_channel *from, struct cm_channel *to)
{
    bool follows = id->public.verbs != NULL && id->public.qp == NULL; /* a queue pair stays in its context */
    struct ibv_context *context = follows ? cm_context(to) : id->public.verbs;
    struct cm_id *child;
    int error;

    if (follows && context == NULL)
        return errno;
    error = move_id(id, from, to);
    if (error != 0)
        return error;
    id->public.verbs = context;
    /* Requests that were not delivered yet follow their listener; those that can't are closed. */
    TAILQ_FOREACH (child, &id->children, child) {
        if (migrate_to_channel(child, from, to) != 0)
            cm_id_close(child);
    }
    return 0;
}

int soft_migrate_id(struct rdma_cm_id *public, struct rdma_event_channel *channel)
{
    struct rdma_event_channel *own = NULL;
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *from = cm_channel_of(id), *to;
    bool was_alone = id->sync;
    int error;

    if (channel == NULL && (channel = own = soft_create_event_channel()) == NULL)
        return -1;
    to = (struct cm_channel *)channel;
    if (from == to)
        return 0;
    lock_both(from, to);
    error = migrate_to_channel(id, from, to);
    if (error == 0)
        id->sync = own != NULL;
    cm_unlock(from);
    cm_unlock(to);
    if (error != 0 && own != NULL)
        soft_destroy_event_channel(own);
    if (error == 0 && was_alone)
        soft_destroy_event_channel(&from->public);
    return cm_result(error);
}

/* ---- Options ------------------------------------------------------------------------------------------- */

static int set_flag(struct cm_id *id, bool *flag, const void *value, size_t length)
{
    int given;

    if (length != sizeof given || cm_is_bound(id))
        return EINVAL; /* must be set before it is bound */
    memcpy(&given, value, sizeof given);
    *flag = given != 0;
    return 0;
}

static int set_ack_timeout(struct cm_id *id, const void *value, size_t length)
{
    if (length != sizeof id->ack_timeout || *(const uint8_t *)value > ACK_TIMEOUT_MAX)
        return EINVAL;
    id->ack_timeout = *(const uint8_t *)value;
    return 0;
}

static int set_traffic_class(struct cm_id *id, const void *value, size_t length)
{
    if (length != sizeof id->traffic_class)
        return EINVAL;
    id->traffic_class = *(const uint8_t *)value;
    return 0;
}

/* Sets how long the peer's host may acknowledge nothing, in ms; 0: the default, TCP_PATIENCE. Only for an established
 * connection with a TCP socket. 0 or an errno. */
static int set_user_timeout(struct cm_id *id, const void *value, size_t length)
{
    unsigned milliseconds;

    if (length != sizeof milliseconds)
        return EINVAL;
    memcpy(&milliseconds, value, sizeof milliseconds);
    if (id->state != CM_ESTABLISHED || id->fd == -1)
        return EINVAL;
    if (milliseconds == 0)
        milliseconds = (unsigned)(TCP_PATIENCE / (NS_PER_S / 1000));
    if (fds_set_option(id->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)milliseconds) == -1)
        return errno;
    if (id->tcp != NULL)
        tcp_peer_wait(id->tcp, milliseconds * (NS_PER_S / 1000));
    return 0;
}

int soft_set_option(struct rdma_cm_id *public, int level, int optname, void *optval, size_t optlen)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    int error = ENOSYS;

    if (level == RDMA_OPTION_ID && optname == RDMA_OPTION_ID_REUSEADDR)
        error = set_flag(id, &id->reuse_addr, optval, optlen);
    else if (level == RDMA_OPTION_ID && optname == RDMA_OPTION_ID_AFONLY)
        error = set_flag(id, &id->af_only, optval, optlen);
    else if (level == RDMA_OPTION_ID && optname == RDMA_OPTION_ID_ACK_TIMEOUT)
        error = set_ack_timeout(id, optval, optlen);
    else if (level == RDMA_OPTION_ID && optname == RDMA_OPTION_ID_TOS)
        error = set_traffic_class(id, optval, optlen);
    else if (level == IPPROTO_TCP && optname == TCP_USER_TIMEOUT)
        error = set_user_timeout(id, optval, optlen);
    cm_unlock(channel);
    return cm_result(error);
}
