/* SPDX-License-Identifier: BSD-2-Clause */
/* rig.c - creates and connects two queue pairs; see rig.h. */
#include "rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_ACCESS                                                                                           \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define FIRST_PSN 0x123456

/* On Ethernet, chooses the last GID for RoCE v2, which is that of an address; the first one may be link-local. */
static void choose_gid(struct rig *r)
{
    struct ibv_gid_entry entry;

    r->gid_index = -1;
    if (r->port.link_layer != IBV_LINK_LAYER_ETHERNET)
        return;
    for (int i = 0; i < r->port.gid_tbl_len; i++)
        if (ibv_query_gid_ex(r->context, 1, (uint32_t)i, &entry, 0) == 0 &&
            entry.gid_type == IBV_GID_TYPE_ROCE_V2) {
            r->gid_index = i;
            r->gid = entry.gid;
        }
    if (r->gid_index == -1)
        give_up("GID", ENOENT);
}

void rig_open(struct rig *r, const char *device)
{
    struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");
    int i = 0;

    while (list[i] && device && strcmp(ibv_get_device_name(list[i]), device) != 0)
        i++;
    if (!list[i])
        give_up("device", ENODEV);
    *r = (struct rig){.access = EVERY_ACCESS & ~IBV_ACCESS_LOCAL_WRITE,
                      .reads = 4,
                      .answers = 4,
                      .rnr_retry = 7,
                      .retry = 7,
                      .timeout = 17,
                      .depth = 16,
                      .sges = 2,
                      .inline_data = 64};
    r->context = need(ibv_open_device(list[i]), "ibv_open_device");
    ibv_free_device_list(list);
    must(ibv_query_port(r->context, 1, &r->port), "ibv_query_port");
    choose_gid(r);
    r->pd = need(ibv_alloc_pd(r->context), "ibv_alloc_pd");
}

struct ibv_cq *rig_cq(struct rig *r, struct rig_end *end, int entries)
{
    end->channel = need(ibv_create_comp_channel(r->context), "ibv_create_comp_channel");
    end->cq = need(ibv_create_cq(r->context, entries, NULL, end->channel, 0), "ibv_create_cq");
    return end->cq;
}

void rig_end_open(struct rig *r, struct rig_end *end)
{
    if (!end->cq)
        rig_cq(r, end, 256);
    end->memory = need(aligned_alloc(4096, MEMORY_SIZE), "aligned_alloc");
    memset(end->memory, 0, MEMORY_SIZE);
    end->mr = need(ibv_reg_mr(r->pd, end->memory, MEMORY_SIZE, EVERY_ACCESS), "ibv_reg_mr");
}

void rig_qp(struct rig *r, struct rig_end *end, enum ibv_qp_type type, struct ibv_srq *srq)
{
    struct ibv_qp_init_attr init = {
        .qp_type = type,
        .sq_sig_all = !r->selective,
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .srq = srq,
        .cap = {.max_send_wr = r->depth,
                .max_recv_wr = r->depth,
                .max_send_sge = r->sges,
                .max_recv_sge = r->sges,
                .max_inline_data = r->inline_data},
    };

    end->qp = need(ibv_create_qp(r->pd, &init), "ibv_create_qp");
    r->depth = init.cap.max_send_wr;
    r->sges = init.cap.max_send_sge;
    r->inline_data = init.cap.max_inline_data;
}

struct ibv_ah_attr rig_path(const struct rig *r)
{
    struct ibv_ah_attr path = {.dlid = r->port.lid, .port_num = 1};

    if (r->gid_index != -1) {
        path.is_global = 1;
        path.grh.dgid = r->gid;
        path.grh.sgid_index = (uint8_t)r->gid_index;
        path.grh.hop_limit = 64;
    }
    return path;
}

struct change rig_init(const struct rig *r, enum ibv_qp_type type)
{
    struct change c = {.attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = r->access},
                       .mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT};

    c.attr.qkey = RIG_QKEY;
    c.mask |= type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    return c;
}

struct change rig_rtr(const struct rig *r, enum ibv_qp_type type, uint32_t peer)
{
    struct change c = {.attr = {.qp_state = IBV_QPS_RTR,
                                .ah_attr = rig_path(r),
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = peer,
                                .rq_psn = FIRST_PSN,
                                .max_dest_rd_atomic = r->answers,
                                .min_rnr_timer = 1},
                       .mask = IBV_QP_STATE};

    if (type != IBV_QPT_UD)
        c.mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (type == IBV_QPT_RC)
        c.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return c;
}

struct change rig_rts(const struct rig *r, enum ibv_qp_type type)
{
    struct change c = {.attr = {.qp_state = IBV_QPS_RTS,
                                .sq_psn = FIRST_PSN,
                                .timeout = r->timeout,
                                .retry_cnt = r->retry,
                                .rnr_retry = r->rnr_retry,
                                .max_rd_atomic = r->reads},
                       .mask = IBV_QP_STATE | IBV_QP_SQ_PSN};

    if (type == IBV_QPT_RC)
        c.mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return c;
}

void rig_move(struct ibv_qp *qp, struct change change)
{
    must(ibv_modify_qp(qp, &change.attr, change.mask), "ibv_modify_qp");
}

void rig_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    rig_move(qp, (struct change){.attr = {.qp_state = state}, .mask = IBV_QP_STATE});
}

static void to_rts(struct rig *r, struct rig_end *end, enum ibv_qp_type type, uint32_t peer)
{
    rig_move(end->qp, rig_init(r, type));
    rig_move(end->qp, rig_rtr(r, type, peer));
    rig_move(end->qp, rig_rts(r, type));
}

void rig_pair(struct rig *r, enum ibv_qp_type type)
{
    rig_end_open(r, &r->a);
    rig_end_open(r, &r->b);
    rig_qp(r, &r->a, type, NULL);
    rig_qp(r, &r->b, type, r->srq);
    /* b is connected first, so that a may send at once. */
    to_rts(r, &r->b, type, r->a.qp->qp_num);
    to_rts(r, &r->a, type, r->b.qp->qp_num);
    if (type == IBV_QPT_UD) {
        struct ibv_ah_attr path = rig_path(r);

        r->ah = need(ibv_create_ah(r->pd, &path), "ibv_create_ah");
    }
}

void rig_half(struct rig *r)
{
    rig_end_open(r, &r->a);
    rig_end_open(r, &r->b);
    rig_qp(r, &r->a, IBV_QPT_RC, NULL);
    rig_qp(r, &r->b, IBV_QPT_RC, NULL);
    /* A queue pair in RESET does not respond. */
    to_rts(r, &r->a, IBV_QPT_RC, r->b.qp->qp_num);
}
