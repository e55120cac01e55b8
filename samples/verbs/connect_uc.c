/* SPDX-License-Identifier: BSD-2-Clause */
/* connect_uc.c - the states of a queue pair of type UC (unreliable connection). It has no acknowledgements, and
 * therefore no timeouts and retries. */
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
    };

    return qp_modify(r, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
                     "RTR");
}

int qp_to_rts(struct resources *r)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = FIRST_PSN,
    };

    return qp_modify(r, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
}
