/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_multicast.c - an identifier's multicast groups. Joining gives the application an address handle for the group, and
 * attaches the identifier's queue pair.
 *
 * No subnet manager is involved: the kernel informs the routers when the queue pair is attached (mcast.c in verbs/).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cm_id.h"
#include "soft/verbs/verbs.h"

#define HOP_LIMIT 1 /* only the local network */

/* A group that the application has joined; owned by its identifier. */
struct cm_join {
    struct cm_pending pending; /* its only event */
    union ibv_gid gid;
    void *context; /* the application's */
    bool receives; /* the queue pair must be attached */
    bool attached; /* the queue pair is attached */
    LIST_ENTRY(cm_join) link;
};

static bool is_group(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET)
        return IN_MULTICAST(ntohl(((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr));
    return addr->sa_family == AF_INET6 &&
           IN6_IS_ADDR_MULTICAST(&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr);
}

static struct cm_join *find_join(struct cm_id *id, const union ibv_gid *gid)
{
    struct cm_join *join;

    LIST_FOREACH (join, &id->joins, link) {
        if (memcmp(&join->gid, gid, sizeof *gid) == 0)
            return join;
    }
    return NULL;
}

static void leave_group(struct cm_id *id, struct cm_join *join)
{
    cm_unpost_pending(id, &join->pending);
    if (join->attached && id->public.qp != NULL)
        soft_detach_mcast(id->public.qp, &join->gid, 0);
    LIST_REMOVE(join, link);
    free(join);
}

/* Whether joining has failed, which was reported: there was no queue pair, or it could not be attached. */
static bool is_useless(const struct cm_join *join)
{
    return join->receives && !join->attached && !join->pending.queued;
}

/* Adds a group, and posts its event. 0 or an errno. */
static int join_group(struct cm_id *id, const struct sockaddr *addr, bool receives, void *context)
{
    struct cm_join *join;
    union ibv_gid gid;

    if (!is_group(addr) || id->public.qp_type != IBV_QPT_UD || id->public.verbs == NULL ||
        addr->sa_family != id->public.route.addr.src_addr.sa_family)
        return EINVAL;
    soft_gid_of(&gid, addr);
    join = find_join(id, &gid);
    if (join != NULL && !is_useless(join))
        return EADDRINUSE;
    if (join != NULL)
        leave_group(id, join);
    join = calloc(1, sizeof *join);
    if (join == NULL)
        return ENOMEM;
    join->gid = gid;
    join->context = context;
    join->receives = receives;
    LIST_INSERT_HEAD(&id->joins, join, link);
    cm_post_pending(id, &join->pending, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    return 0;
}

int soft_join_multicast(struct rdma_cm_id *public, const struct sockaddr *addr, bool receives, void *context)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    int error = join_group(id, addr, receives, context);

    cm_unlock(channel);
    return cm_complete(id, cm_result(error));
}

/* ---- The event ---- */

/* Attaches the queue pair, which may have been created after the group was joined, when the event is delivered. */
static void attach_qp(struct cm_id *id, struct cm_join *join, struct rdma_cm_event *event)
{
    int error = soft_attach_mcast(id->public.qp, &join->gid, 0);

    join->attached = error == 0;
    if (error == 0)
        return;
    event->event = RDMA_CM_EVENT_MULTICAST_ERROR;
    event->status = -error;
}

void cm_multicast_describe(struct cm_id *id, const struct cm_pending *pending, struct rdma_cm_event *event)
{
    struct cm_join *join = (struct cm_join *)(uintptr_t)pending;

    if (pending->type != RDMA_CM_EVENT_MULTICAST_JOIN)
        return;
    event->param.ud = (struct rdma_ud_param){
        .private_data = join->context,
        .ah_attr = cm_id_way(id, &join->gid),
        .qp_num = SOFT_GROUP_QPN,
        .qkey = RDMA_UDP_QKEY,
    };
    event->param.ud.ah_attr.grh.hop_limit = HOP_LIMIT;
    if (join->receives && id->public.qp != NULL)
        attach_qp(id, join, event);
}

/* ---- Leaving ---- */

int soft_leave_multicast(struct rdma_cm_id *public, const struct sockaddr *addr)
{
    struct cm_id *id = cm_id_of(public);
    struct cm_channel *channel = cm_lock(id);
    struct cm_join *join = NULL;
    union ibv_gid gid;

    if (cm_addr_size(addr) > 0) {
        soft_gid_of(&gid, addr);
        join = find_join(id, &gid);
    }
    if (join != NULL)
        leave_group(id, join);
    cm_unlock(channel);
    return cm_result(join != NULL ? 0 : EADDRNOTAVAIL);
}

void cm_multicast_detach(struct cm_id *id)
{
    struct cm_join *join;

    LIST_FOREACH (join, &id->joins, link) {
        if (join->attached)
            soft_detach_mcast(id->public.qp, &join->gid, 0);
        join->attached = false;
    }
}

void cm_multicast_leave_all(struct cm_id *id)
{
    while (!LIST_EMPTY(&id->joins))
        leave_group(id, LIST_FIRST(&id->joins));
}
