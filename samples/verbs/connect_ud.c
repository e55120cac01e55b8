/* SPDX-License-Identifier: BSD-2-Clause */
/* connect_ud.c - the states of a queue pair of type UD (unreliable datagram). It has no peer, but a Q_Key that all
 * datagrams to it must contain. */
#include "connect.h"

int qp_to_init(struct resources *r)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = 0,
        .port_num = (uint8_t)r->command.ib_port,
        .qkey = QKEY,
    };

    return qp_modify(r, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "INIT");
}

int qp_to_rtr(struct resources *r)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
    };

    return qp_modify(r, &attr, IBV_QP_STATE, "RTR");
}

int qp_to_rts(struct resources *r)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = FIRST_PSN,
    };

    return qp_modify(r, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
}
