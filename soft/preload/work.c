/* SPDX-License-Identifier: BSD-2-Clause */
/* work.c - the symbols of libibverbs for queue pairs, shared receive queues and multicast. */
#include <errno.h>
#include "preload.h"

/* ---- Queue pairs ---- */

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    return dispatch(pd->context, soft_create_qp, ibv_create_qp, pd, attr);
}

static int our_destroy_qp(struct ibv_qp *qp)
{
    return home_reaped(soft_destroy_qp(qp));
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    return dispatch(qp->context, our_destroy_qp, ibv_destroy_qp, qp);
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    return dispatch(qp->context, soft_modify_qp, ibv_modify_qp, qp, attr, mask);
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    return dispatch(qp->context, soft_query_qp, ibv_query_qp, qp, attr, mask, init);
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    return dispatch(qp->context, soft_qp_to_qp_ex, ibv_qp_to_qp_ex, qp);
}

/* ---- Shared receive queues ---- */

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    return dispatch(pd->context, soft_create_srq, ibv_create_srq, pd, attr);
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    return dispatch(srq->context, soft_modify_srq, ibv_modify_srq, srq, attr, mask);
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    return dispatch(srq->context, soft_query_srq, ibv_query_srq, srq, attr);
}

static int our_destroy_srq(struct ibv_srq *srq)
{
    return home_reaped(soft_destroy_srq(srq));
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
    return dispatch(srq->context, our_destroy_srq, ibv_destroy_srq, srq);
}

/* ---- Multicast, and what is not supported ---- */

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return dispatch(qp->context, soft_attach_mcast, ibv_attach_mcast, qp, gid, lid);
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return dispatch(qp->context, soft_detach_mcast, ibv_detach_mcast, qp, gid, lid);
}

static int no_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    return dispatch(qp->context, no_ece, ibv_set_ece, qp, ece);
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    return dispatch(qp->context, no_ece, ibv_query_ece, qp, ece);
}

/* Returns 0: the device does not guarantee that data are written in order. */
static int not_in_order(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t flags)
{
    (void)qp, (void)opcode, (void)flags;
    return 0;
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t flags)
{
    return dispatch(qp->context, not_in_order, ibv_query_qp_data_in_order, qp, opcode, flags);
}
