/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qp_create.c - creating and destroying queue pairs.
 */
#include <errno.h>
#include <stdlib.h>
#include "core/base/pages.h"
#include "soft/engine/engine.h"
#include "soft/engine/mw.h"
#include "soft/engine/xrc.h"
#include "verbs.h"

bool soft_ring_make(struct soft_ring *ring, uint32_t requests, size_t bytes)
{
    uint32_t places = 1;

    while (places < requests)
        places *= 2;
    ring->size = requests;
    ring->mask = places - 1;
    ring->stride = (bytes + 7) & ~(size_t)7;
    ring->slots = pages_new(places * ring->stride); /* pages of unused slots are not touched */
    return ring->slots != NULL;
}

void soft_ring_free(struct soft_ring *ring)
{
    pages_free(ring->slots, (ring->mask + (size_t)1) * ring->stride);
}

size_t soft_recv_bytes(uint32_t sges)
{
    size_t bytes = offsetof(struct soft_recv, sge) + sges * sizeof(struct ibv_sge);

    return bytes < sizeof(struct soft_recv) ? sizeof(struct soft_recv) : bytes;
}

static size_t send_bytes(const struct soft_qp *qp)
{
    size_t sges = qp->cap.max_send_sge * sizeof(struct ibv_sge), most = qp->cap.max_inline_data;
    size_t bytes = offsetof(struct soft_send, data) + (sges > most ? sges : most);

    if (bytes < sizeof(struct soft_send))
        bytes = sizeof(struct soft_send);
    return qp->transport == SOFT_UD ? ((bytes + 7) & ~(size_t)7) + sizeof(struct soft_destination) : bytes;
}

/* Receives are its own, or taken one at a time from a shared queue. */
static bool make_rings(struct soft_qp *qp)
{
    const struct soft_srq *srq = soft_srq_of(qp);

    if (!soft_ring_make(&qp->req.ring, qp->cap.max_send_wr, send_bytes(qp)))
        return false;
    if (srq == NULL && qp->xrcd == NULL)
        return soft_ring_make(&qp->resp.ring, qp->cap.max_recv_wr, soft_recv_bytes(qp->cap.max_recv_sge));
    qp->resp.shared = malloc(srq != NULL ? srq->ring.stride : soft_recv_bytes(SOFT_MAX_SGE));
    return qp->resp.shared != NULL;
}

/* True if it has the completion queues that its type needs; the receiving end of an XRC connection needs none. */
static bool has_cqs(const struct ibv_context *context, const struct ibv_qp_init_attr *init)
{
    if (init->qp_type == IBV_QPT_XRC_RECV)
        return true;
    if (init->send_cq == NULL || init->send_cq->context != context)
        return false;
    return init->qp_type == IBV_QPT_XRC_SEND || (init->recv_cq != NULL && init->recv_cq->context == context);
}

/* Exactly one of pd and xrcd is given. */
static int check_init(const struct ibv_pd *pd, const struct ibv_xrcd *xrcd, const struct ibv_qp_init_attr *init)
{
    const struct ibv_context *context = pd != NULL ? pd->context : xrcd->context;
    const struct ibv_qp_cap *cap = &init->cap;

    switch (init->qp_type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
        break;
    case IBV_QPT_RAW_PACKET:
    case IBV_QPT_DRIVER:
        return EOPNOTSUPP;
    default:
        return EINVAL;
    }
    if ((init->qp_type == IBV_QPT_XRC_RECV) != (xrcd != NULL))
        return EINVAL;
    if (init->srq != NULL && init->qp_type < IBV_QPT_XRC_SEND &&
        (init->srq->context != context || ((const struct soft_srq *)init->srq)->xrcd != NULL))
        return EINVAL;
    if (!has_cqs(context, init))
        return EINVAL;
    if (cap->max_send_wr > SOFT_MAX_WR || cap->max_recv_wr > SOFT_MAX_WR || cap->max_send_sge > SOFT_MAX_SGE ||
        cap->max_recv_sge > SOFT_MAX_SGE || cap->max_inline_data > SOFT_MAX_INLINE)
        return EINVAL;
    return 0;
}

int soft_qp_check(const struct ibv_qp *qp)
{
    return soft_object_check(soft_context_of(qp->context), SOFT_QP, qp, qp->handle);
}

/* (locked) Checks the objects that it uses. 0 or an errno. */
static int check_parts(const struct ibv_qp *qp)
{
    const struct soft_xrcd *xrcd = soft_qp_of((struct ibv_qp *)(uintptr_t)qp)->xrcd;
    int error = 0;

    if (qp->pd != NULL)
        error = soft_pd_check(qp->pd);
    if (error == 0 && xrcd != NULL)
        error = soft_xrcd_check(&xrcd->ibv);
    if (error == 0 && qp->send_cq != NULL)
        error = soft_cq_check(qp->send_cq);
    if (error == 0 && qp->recv_cq != NULL)
        error = soft_cq_check(qp->recv_cq);
    if (error == 0 && qp->srq != NULL)
        error = soft_srq_check(qp->srq);
    return error;
}

/* (locked) Adds `one` (1 or -1) to the use counts of the objects that it uses. */
static void use_parts(struct soft_qp *qp, unsigned one)
{
    struct ibv_qp *ibv = soft_ibv(qp);

    if (qp->xrcd != NULL) { /* each packet names the other objects */
        qp->xrcd->users += one;
        return;
    }
    ((struct soft_pd *)ibv->pd)->users += one;
    ((struct soft_cq *)ibv->send_cq)->users += one;
    if (ibv->recv_cq != NULL)
        ((struct soft_cq *)ibv->recv_cq)->users += one;
    if (ibv->srq != NULL)
        soft_srq_of(qp)->users += one;
}

/* (locked) */
static int enter_qp(struct soft_context *context, struct soft_qp *qp)
{
    struct ibv_context *ibv = &context->verbs.context;
    int error = check_parts(soft_ibv(qp));

    if (error == 0 && !context->opened && context->wire->open != NULL)
        error = context->wire->open(context->wire, ibv);
    if (error != 0)
        return error;
    context->opened = true;
    if (!soft_object_enter(context, SOFT_QP, soft_ibv(qp), &soft_ibv(qp)->handle))
        return ENOMEM;
    if (!soft_qp_enter(context, qp)) {
        soft_object_leave(context, soft_ibv(qp)->handle);
        return ENOMEM;
    }
    use_parts(qp, 1);
    return 0;
}

/* Frees everything but the struct. */
static void release_qp(struct soft_qp *qp)
{
    soft_ring_free(&qp->req.ring);
    soft_ring_free(&qp->resp.ring);
    free(qp->resp.shared);
    free(qp->resp.resources);
    soft_builder_free(qp);
}

static uint8_t transport_of(enum ibv_qp_type type)
{
    switch (type) {
    case IBV_QPT_RC:
        return SOFT_RC;
    case IBV_QPT_UC:
        return SOFT_UC;
    case IBV_QPT_UD:
        return SOFT_UD;
    default:
        return SOFT_XRC;
    }
}

/* Grants capabilities that cost nothing: inline data in the space for the elements. Receives of a shared queue are not
 * the queue pair's, and the receiving end of an XRC connection sends nothing. */
static void grant_caps(struct ibv_qp_cap *cap, bool shares, bool sends)
{
    uint32_t elements = cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge);

    if (!sends) {
        *cap = (struct ibv_qp_cap){.max_send_wr = 0};
        return;
    }
    if (cap->max_inline_data < elements)
        cap->max_inline_data = elements;
    if (shares)
        cap->max_recv_wr = cap->max_recv_sge = 0;
}

/* Each end of an XRC connection has only one half. */
static void fill_queues(struct ibv_qp *ibv, const struct ibv_qp_init_attr *init)
{
    bool extended = transport_of(init->qp_type) == SOFT_XRC;

    ibv->send_cq = init->qp_type == IBV_QPT_XRC_RECV ? NULL : init->send_cq;
    ibv->recv_cq = extended ? NULL : init->recv_cq;
    ibv->srq = extended ? NULL : init->srq;
}

static void fill_qp(struct soft_qp *qp, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
                    const struct ibv_qp_init_attr *init)
{
    struct ibv_qp *ibv = soft_ibv(qp);

    ibv->context = pd != NULL ? pd->context : xrcd->context;
    ibv->qp_context = init->qp_context;
    ibv->pd = pd;
    fill_queues(ibv, init);
    ibv->qp_type = init->qp_type;
    ibv->state = IBV_QPS_RESET;
    pthread_mutex_init(&ibv->mutex, NULL);
    pthread_cond_init(&ibv->cond, NULL);
    qp->context = soft_context_of(ibv->context);
    qp->xrcd = (struct soft_xrcd *)xrcd;
    qp->transport = transport_of(init->qp_type);
    qp->reliable = qp->transport == SOFT_RC || qp->transport == SOFT_XRC;
    qp->ack = qp->transport | SOFT_ACK;
    qp->cap = init->cap;
    grant_caps(&qp->cap, ibv->srq != NULL || qp->transport == SOFT_XRC, xrcd == NULL);
    qp->signal_all = init->sq_sig_all;
    qp->deadline = NEVER_NS;
    qp->events.element = ibv;
    soft_set_mtu(qp, qp->transport == SOFT_UD ? 128u << qp->context->names.mtu : 256);
}

/* Creates a queue pair in a protection domain or an XRC domain. builds: with the ibv_wr_ functions. */
static struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_qp_init_attr *init,
                             bool builds)
{
    struct soft_qp *qp;
    int error = check_init(pd, xrcd, init);

    if (error != 0) {
        errno = error;
        return NULL;
    }
    if ((qp = calloc(1, sizeof *qp)) == NULL)
        return NULL;
    fill_qp(qp, pd, xrcd, init);
    error = ENOMEM;
    if (!make_rings(qp))
        goto fail;
    if (builds && (error = soft_builder_add(qp)) != 0)
        goto fail;
    soft_lock(soft_ibv(qp)->context);
    error = enter_qp(qp->context, qp);
    soft_unlock(soft_ibv(qp)->context);
    if (error != 0)
        goto fail;
    init->cap = qp->cap;
    return soft_ibv(qp);
fail:
    release_qp(qp);
    free(qp);
    errno = error;
    return NULL;
}

struct ibv_qp *soft_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    return new_qp(pd, NULL, init, false);
}

/* The ibv_wr_ functions of each transport. */
static uint64_t send_ops_of(enum ibv_qp_type type)
{
    uint64_t sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    uint64_t connected = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                         IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    uint64_t reliable = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;

    switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
        return sends | connected | reliable;
    case IBV_QPT_UC:
        return sends | connected;
    case IBV_QPT_XRC_RECV:
        return 0;
    default:
        return sends;
    }
}

struct ibv_qp *soft_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
    bool builds = init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    bool receives = init->qp_type == IBV_QPT_XRC_RECV;
    uint32_t of = receives ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
    uint32_t known = of | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

    if (init->comp_mask & ~known || (builds && init->send_ops_flags & ~send_ops_of(init->qp_type)) ||
        (init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && init->create_flags != 0)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (!(init->comp_mask & of) || (receives ? init->xrcd == NULL || init->xrcd->context != context
                                             : init->pd == NULL || init->pd->context != context)) {
        errno = EINVAL;
        return NULL;
    }
    return new_qp(receives ? NULL : init->pd, receives ? init->xrcd : NULL, (struct ibv_qp_init_attr *)init,
                  builds); /* it starts with the plain one's fields */
}

struct ibv_qp_ex *soft_qp_to_qp_ex(struct ibv_qp *ibv)
{
    struct soft_qp *qp = soft_qp_of(ibv);

    return qp->comp_mask & SOFT_QP_EX ? &qp->ibv : NULL;
}

/* (locked) */
static void leave_context(struct soft_qp *qp)
{
    struct soft_context *context = qp->context;
    struct ibv_qp *ibv = soft_ibv(qp);

    soft_flush_acks(context); /* sends a delayed acknowledgement */
    soft_timer_end(qp);
    soft_idle(qp);
    soft_mw_orphan(qp);
    soft_qp_leave(context, qp);
    soft_path_leave(&qp->path);
    use_parts(qp, -1u);
    soft_events_forget(context, &qp->events);
    soft_object_retire(context, ibv->handle);
}

int soft_destroy_qp(struct ibv_qp *ibv)
{
    struct soft_qp *qp = soft_qp_of(ibv);
    int error;

    soft_lock(ibv->context);
    error = soft_qp_check(ibv);
    if (error == 0 && qp->groups > 0)
        error = EBUSY; /* it is attached to groups */
    if (error == 0)
        leave_context(qp);
    soft_unlock(ibv->context);
    if (error != 0)
        return errno = error;
    soft_events_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed, &qp->events);
    pthread_cond_destroy(&ibv->cond);
    pthread_mutex_destroy(&ibv->mutex);
    release_qp(qp);
    soft_object_free(soft_context_of(ibv->context), qp);
    return 0;
}
