/* SPDX-License-Identifier: BSD-2-Clause */
/* connect_rc.c - the states of a queue pair of type RC (reliable connection). */
#include "connect.h"

int qp_to_init(struct resources *r)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = 0,
        .port_num = (uint8_t)r->command.ib_port,
        .qp_access_flags = r->qp_access,
    };

    return qp_modify(r, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

int qp_to_rtr(struct resources *r)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .ah_attr = resources_path(r),
        .path_mtu = IBV_MTU_256,
        .dest_qp_num = r->remote.qp_num,
        .rq_psn = r->remote.psn,
        .max_dest_rd_atomic = r->reads,
        .min_rnr_timer = 12, /* RNR NAK: a peer whose send found no posted receive retries after 0.64 ms */
    };

    return qp_modify(r, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                     "RTR");
}

int qp_to_rts(struct resources *r)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = FIRST_PSN,
        .timeout = 16,  /* 4.096 us * 2^16, a quarter of a second: without an acknowledgement it sends again */
        .retry_cnt = 6, /* maximum retransmissions */
        .rnr_retry = 7, /* no limit on retries after RNR NAKs */
        .max_rd_atomic = r->reads,
    };

    return qp_modify(r, &attr,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC,
                     "RTS");
}
