/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_datagram.c - the port space of datagrams, RDMA_PS_UDP: finds the queue pair and Q_Key of a port.
 *
 * This is InfiniBand's service ID resolution: one request and one reply. Nothing is connected, so the TCP connection
 * that carries them is closed after the reply, without an event.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/base/log.h"
#include "core/base/settings.h"
#include "cm_id.h"
#include "cm_number.h"

/* ---- Numbers ---- */

/* Takes a number. As with SO_REUSEADDR, several identifiers may be bound to it, and one of them may listen. */
static int take_number(struct cm_id *id, union soft_addr *addr, bool both)
{
    if (id->reuse_addr && addr->in.sin_port != 0)
        return cm_number_is_taken(addr, both) ? EADDRINUSE : 0;
    id->number = cm_number_take(addr, both);
    return id->number == -1 ? errno : 0;
}

int cm_datagram_bind(struct cm_id *id, const struct sockaddr *addr)
{
    union soft_addr own = {0};
    int error;

    memcpy(&own, addr, cm_addr_size(addr));
    error = cm_number_try(&own);
    if (error == 0)
        error = take_number(id, &own, !id->af_only);
    if (error != 0)
        return error;
    memcpy(&id->public.route.addr.src_storage, &own, sizeof own);
    id->numbered = true;
    return 0;
}

/* Reports that another user listens at a slot. If that process claims the number, too, clients use neither. */
static void report_stranger(in_port_t number, in_port_t slot)
{
    uid_t owner;

    if (settings()->debug && cm_number_find_owner(slot, &owner) && owner != 0 && owner != geteuid())
        xs_log("user %u listens at TCP port %d, where clients ask for number %d, too: see ss -tlp",
               (unsigned)owner, ntohs(slot), ntohs(number));
}

static int sit_down(struct cm_id *id, const union soft_addr *addr)
{
    union soft_addr at = *addr;
    int error = EADDRINUSE;

    id->fd = cm_socket_open(addr->sa.sa_family, id->af_only);
    if (id->fd == -1)
        return errno;
    for (unsigned slot = 0; slot < NUMBER_SLOTS && error == EADDRINUSE; slot++) {
        at.in.sin_port = cm_number_slot(addr->in.sin_port, slot); /* at the same place in sockaddr_in6 */
        error = cm_socket_bind(id->fd, &at.sa, false) == 0 ? 0 : errno;
        if (error == EADDRINUSE)
            report_stranger(addr->in.sin_port, at.in.sin_port);
    }
    if (error != 0)
        cm_id_close(id);
    return error;
}

int cm_datagram_slot(struct cm_id *id)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    union soft_addr own;
    int error = id->numbered ? 0 : cm_datagram_bind(id, (const struct sockaddr *)&any);

    if (error != 0 || id->fd != -1) /* it has a slot from an earlier attempt to listen */
        return error;
    memcpy(&own, &id->public.route.addr.src_storage, sizeof own);
    if (id->number == -1)
        id->number = cm_number_take(&own, !id->af_only);
    return id->number == -1 ? errno : sit_down(id, &own);
}

bool cm_datagram_is_asked(struct cm_id *id)
{
    struct rdma_addr *addr = &id->public.route.addr;
    in_port_t number = id->listener->public.route.addr.src_sin.sin_port; /* as in sockaddr_in6 */

    addr->src_sin.sin_port = number;
    addr->dst_sin.sin_port = id->peer.asker;
    return id->peer.asked == number;
}

/* ---- The client ---- */

int cm_datagram_question(struct cm_id *id, const struct rdma_conn_param *param)
{
    struct rdma_addr *addr = &id->public.route.addr;
    union soft_addr own;

    if (!id->numbered) { /* takes any number */
        memcpy(&own, &addr->src_storage, sizeof own);
        id->number = cm_number_take(&own, false);
        if (id->number == -1)
            return errno;
        id->numbered = true;
        addr->src_sin.sin_port = own.in.sin_port; /* at the same place in sockaddr_in6 */
    }
    memset(&id->own, 0, sizeof id->own);
    id->own.type = CM_SIDR_REQ;
    id->own.asked = addr->dst_sin.sin_port;
    id->own.asker = addr->src_sin.sin_port;
    return cm_private_data(id, param, CM_SIDR_REQ_PRIVATE);
}

/* Any user of the peer's host can listen at a slot. So all slots are asked, and a number that two of them claim is not
 * used, because one of them may want another process's datagrams. */
bool cm_datagram_take_claim(struct cm_id *id)
{
    if (id->claim != NULL) {
        xs_log("datagrams to number %d are not sent because two programs of that host claim it",
               ntohs(id->own.asked));
        cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, -EADDRINUSE);
        return false;
    }
    if ((id->claim = malloc(sizeof *id->claim)) == NULL) {
        cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ENOMEM);
        return false;
    }
    *id->claim = id->peer;
    return true;
}

void cm_datagram_forget_claim(struct cm_id *id)
{
    free(id->claim);
    id->claim = NULL;
}

/* With an error the claim is not used: the slot that could not be asked may be that of the number's owner. */
void cm_datagram_all_asked(struct cm_id *id, int error)
{
    id->peer = *id->claim;
    cm_datagram_forget_claim(id);
    if (error == 0)
        cm_datagram_answered(id);
    else
        cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, -error);
}

void cm_datagram_answered(struct cm_id *id)
{
    const struct cm_message *peer = &id->peer;
    int status = peer->reason;

    if (peer->type == CM_REJ)
        status = peer->reason == CM_OTHER_VERSION ? -EPROTONOSUPPORT : CM_SIDR_UNSUPPORTED;
    else if (peer->type != CM_SIDR_REP)
        status = -EPROTO;
    if (status == CM_SIDR_UNSUPPORTED && id->transport == &cm_ib) {
        cm_active_unheard(id);
        return;
    }
    if (status != CM_SIDR_VALID) {
        cm_failed(id, RDMA_CM_EVENT_UNREACHABLE, status);
        return;
    }
    cm_choice_learn(id);
    cm_id_close(id);
    id->state = CM_ESTABLISHED;
    cm_post(id, CM_KIND_CONNECT, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* The address handle has the peer's GID and, if it was found by TCP, its LID. */
void cm_datagram_describe(struct cm_id *id, struct rdma_ud_param *ud)
{
    if (id->state != CM_ESTABLISHED || id->peer.type != CM_SIDR_REP)
        return;
    ud->qp_num = id->peer.qp_num;
    ud->qkey = id->peer.qkey;
    ud->ah_attr = cm_id_way(id, &id->public.route.addr.addr.ibaddr.dgid);
    if (id->transport != &cm_ib)
        ud->ah_attr.dlid = (uint16_t)(id->peer.qp_num >> SOFT_LID_QPNS_BITS);
}

/* ---- The listener ---- */

static int take_qp(struct cm_id *id, const struct rdma_conn_param *param)
{
    if (id->public.qp != NULL)
        id->own.qp_num = id->public.qp->qp_num;
    else if (param != NULL && soft_is_qpn(param->qp_num))
        id->own.qp_num = param->qp_num;
    else
        return EINVAL;
    return 0;
}

int cm_datagram_accept(struct cm_id *id, const struct rdma_conn_param *param)
{
    int error;

    if (id->state == CM_DISCONNECTED)
        return ECONNRESET;
    if (id->state != CM_REQUESTED)
        return EINVAL;
    memset(&id->own, 0, sizeof id->own);
    id->own.type = CM_SIDR_REP;
    id->own.qkey = RDMA_UDP_QKEY;
    error = take_qp(id, param);
    if (error == 0)
        error = cm_private_data(id, param, CM_SIDR_REP_PRIVATE);
    if (error != 0)
        return error;
    cm_send(id, &id->own); /* short enough for the socket's buffer */
    cm_id_close(id);
    id->state = CM_ESTABLISHED;
    return 0;
}

void cm_datagram_reject(struct cm_id *id, const void *private_data, uint8_t length)
{
    struct cm_message rep = {.type = CM_SIDR_REP, .reason = CM_SIDR_REJECTED, .private_length = length};

    if (length > 0)
        memcpy(rep.private_data, private_data, length);
    cm_send(id, &rep);
}
