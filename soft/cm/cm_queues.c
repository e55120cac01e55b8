/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_queues.c - an identifier's completion queues, if the application has none, and its shared receive queue, also of
 * XRC. */
#include <errno.h>
#include "cm_id.h"
#include "soft/verbs/verbs.h"

static bool is_extended(enum ibv_qp_type type)
{
    return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/* ---- Completion queues ---- */

/* Creates a completion queue with a completion channel, like librdmacm, so that a thread can wait for it. 0 or an
 * errno. */
static int make_cq(struct rdma_cm_id *public, uint32_t entries, struct ibv_comp_channel **channel,
                   struct ibv_cq **cq)
{
    int error;

    *channel = soft_create_comp_channel(public->verbs);
    if (*channel == NULL)
        return errno;
    *cq = soft_create_cq(public->verbs, entries == 0 ? 1 : (int)entries, public, *channel, 0);
    if (*cq != NULL)
        return 0;
    error = errno;
    soft_destroy_comp_channel(*channel);
    *channel = NULL;
    return error;
}

/* Does nothing while an XRC shared receive queue still uses a completion queue. An application that sets these fields
 * itself may have set both to the same queue, as rsockets do. */
void cm_queues_drop_cqs(struct rdma_cm_id *public)
{
    if (public->qp_type == IBV_QPT_XRC_RECV && public->srq != NULL)
        return;
    if (public->send_cq != NULL && public->send_cq != public->recv_cq)
        soft_destroy_cq(public->send_cq);
    if (public->recv_cq != NULL)
        soft_destroy_cq(public->recv_cq);
    if (public->send_cq_channel != NULL && public->send_cq_channel != public->recv_cq_channel)
        soft_destroy_comp_channel(public->send_cq_channel);
    if (public->recv_cq_channel != NULL)
        soft_destroy_comp_channel(public->recv_cq_channel);
    public->send_cq = public->recv_cq = NULL;
    public->send_cq_channel = public->recv_cq_channel = NULL;
}

/* Creates the missing completion queues. With XRC the sending end needs only one for its send queue, and the receiving
 * end needs none. 0 or an errno. */
static int complete_cqs(struct rdma_cm_id *public, struct ibv_qp_init_attr_ex *attr)
{
    int error = 0;

    if (attr->send_cq == NULL && attr->qp_type != IBV_QPT_XRC_RECV) {
        error = make_cq(public, attr->cap.max_send_wr, &public->send_cq_channel, &public->send_cq);
        attr->send_cq = public->send_cq;
    }
    if (error == 0 && attr->recv_cq == NULL && !is_extended(attr->qp_type)) {
        error = make_cq(public, attr->cap.max_recv_wr, &public->recv_cq_channel, &public->recv_cq);
        attr->recv_cq = public->recv_cq;
    }
    return error;
}

/* ---- Protection domain and XRC domain ---- */

/* Sets the protection domain. 0 or an errno. */
static int complete_pd(const struct rdma_cm_id *public, bool given, struct ibv_pd **pd)
{
    if (!given || *pd == NULL)
        *pd = public->pd;
    return *pd == NULL || (*pd)->context != public->verbs ? EINVAL : 0;
}

/* Sets the XRC domain. 0 or an errno. XRC needs a shared context (cm_id.c). */
static int complete_xrcd(const struct rdma_cm_id *public, bool given, struct ibv_xrcd **xrcd)
{
    if (!given || *xrcd == NULL)
        *xrcd = home_shared_xrcd();
    if (*xrcd == NULL)
        return errno;
    return (*xrcd)->context != public->verbs ? EINVAL : 0;
}

int cm_queues_complete(struct rdma_cm_id *public, struct ibv_qp_init_attr_ex *attr)
{
    int error = complete_pd(public, attr->comp_mask & IBV_QP_INIT_ATTR_PD, &attr->pd);

    attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
    if (error == 0 && attr->qp_type == IBV_QPT_XRC_RECV) {
        error = complete_xrcd(public, attr->comp_mask & IBV_QP_INIT_ATTR_XRCD, &attr->xrcd);
        attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    }
    if (error == 0)
        error = complete_cqs(public, attr);
    if (attr->srq == NULL)
        attr->srq = public->srq;
    return error;
}

/* ---- Shared receive queues ---- */

/* Completes the attributes of an XRC shared receive queue. A completion queue that is created here is destroyed with
 * the identifier's others. 0 or an errno. */
static int complete_extended(struct rdma_cm_id *public, struct ibv_srq_init_attr_ex *attr)
{
    int error = complete_xrcd(public, attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD, &attr->xrcd);

    if (error != 0)
        return error;
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || attr->cq == NULL) {
        if (public->recv_cq == NULL)
            error = make_cq(public, attr->attr.max_wr, &public->recv_cq_channel, &public->recv_cq);
        attr->cq = public->recv_cq;
    }
    attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    return error;
}

int soft_create_id_srq_ex(struct rdma_cm_id *public, struct ibv_srq_init_attr_ex *attr)
{
    int error;

    if (public->srq != NULL || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
        return cm_result(EINVAL);
    error = complete_pd(public, attr->comp_mask & IBV_SRQ_INIT_ATTR_PD, &attr->pd);
    attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    if (error == 0 && attr->srq_type == IBV_SRQT_XRC)
        error = complete_extended(public, attr);
    if (error != 0)
        return cm_result(error);
    public->srq = soft_create_srq_ex(public->verbs, attr);
    if (public->srq == NULL)
        return -1;
    public->pd = attr->pd;
    return 0;
}

int soft_create_id_srq(struct rdma_cm_id *public, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq_init_attr_ex extended = {
        .srq_context = attr->srq_context,
        .attr = attr->attr,
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
        .srq_type = public->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
        .pd = pd,
    };

    if (soft_create_id_srq_ex(public, &extended) == -1)
        return -1;
    attr->attr = extended.attr;
    return 0;
}

void soft_destroy_id_srq(struct rdma_cm_id *public)
{
    if (public->srq == NULL || home_reaped(soft_destroy_srq(public->srq)) != 0)
        return;
    public->srq = NULL;
    if (public->qp_type == IBV_QPT_XRC_RECV)
        cm_queues_drop_cqs(public);
}
