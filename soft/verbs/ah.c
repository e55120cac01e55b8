/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ah.c - address handles: destinations of datagrams, and the sender of a received datagram.
 *
 * Here the queue pair number of the destination is part of its address (path.c), so a path is derived from a handle
 * only when something is sent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include "soft/engine/engine.h"
#include "verbs.h"

struct ibv_ah *soft_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct soft_context *context = soft_context_of(pd->context);
    struct soft_ah *ah = calloc(1, sizeof *ah);
    struct soft_path path;
    int error;

    if (ah == NULL)
        return NULL;
    ah->ibv.context = pd->context;
    ah->ibv.pd = pd;
    ah->attr = *attr;
    soft_lock(pd->context);
    error = soft_pd_check(pd);
    if (error == 0 && (attr->port_num != SOFT_DEVICE_PORT || !soft_path_from_ah(context, &path, attr, 0)))
        error = EINVAL; /* no valid destination */
    if (error == 0 && !soft_object_enter(context, SOFT_AH, ah, &ah->ibv.handle))
        error = ENOMEM;
    if (error == 0)
        ((struct soft_pd *)pd)->users++;
    soft_unlock(pd->context);
    if (error == 0)
        return &ah->ibv;
    free(ah);
    errno = error;
    return NULL;
}

int soft_destroy_ah(struct ibv_ah *ibv)
{
    struct ibv_context *context = ibv->context;
    int error;

    soft_lock(context);
    error = soft_object_check(soft_context_of(context), SOFT_AH, ibv, ibv->handle);
    if (error == 0) {
        soft_object_retire(soft_context_of(context), ibv->handle);
        ((struct soft_pd *)ibv->pd)->users--;
    }
    soft_unlock(context);
    if (error != 0)
        return errno = error;
    soft_object_free(soft_context_of(context), ibv);
    return 0;
}

/* ---- Back to the sender of a datagram ---- */

static void map_ipv4(union ibv_gid *gid, in_addr_t address)
{
    memset(gid, 0, sizeof *gid);
    gid->raw[10] = gid->raw[11] = 0xff;
    memcpy(gid->raw + 12, &address, sizeof address);
}

/* Reads the receiver's address from a GRH as datagram.c builds it, and the route by which an answer reaches the
 * sender. */
static void read_grh(const struct ibv_grh *grh, struct ibv_global_route *answer, union ibv_gid *receiver)
{
    uint32_t flow = ntohl(grh->version_tclass_flow);
    struct iphdr ip;

    if (flow >> 28 == 6) {
        answer->traffic_class = (uint8_t)(flow >> 20);
        answer->dgid = grh->sgid;
        *receiver = grh->dgid;
        return;
    }
    memcpy(&ip, (const uint8_t *)grh + sizeof *grh - sizeof ip, sizeof ip);
    answer->traffic_class = ip.tos;
    map_ipv4(&answer->dgid, ip.saddr);
    map_ipv4(receiver, ip.daddr);
}

int soft_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
                         struct ibv_ah_attr *attr)
{
    union ibv_gid receiver;
    int index;

    *attr = (struct ibv_ah_attr){.dlid = wc->slid, .sl = wc->sl, .port_num = port};
    if (!(wc->wc_flags & IBV_WC_GRH))
        return 0;
    attr->is_global = 1;
    attr->grh.hop_limit = IPDEFTTL;
    read_grh(grh, &attr->grh, &receiver);
    soft_lock(context);
    index = soft_gid_index(context, &receiver);
    soft_unlock(context);
    if (index < 0) {
        errno = ENOENT;
        return -1;
    }
    attr->grh.sgid_index = (uint8_t)index;
    return 0;
}

struct ibv_ah *soft_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
    struct ibv_ah_attr attr;

    if (soft_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0)
        return NULL;
    return soft_create_ah(pd, &attr);
}
