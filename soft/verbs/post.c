/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * post.c - ibv_post_send and ibv_post_recv: copies the caller's work requests to the rings.
 *
 * An invalid request is refused here with an errno. Invalid memory causes an error completion when the request is
 * executed, as on any RDMA device.
 */
#include <arpa/inet.h>
#include <errno.h>
#include "soft/engine/engine.h"

/* The opcodes of each operation: of the first packet, followed by that of middle packets; of the last of several; of a
 * single packet. with_imm: the last packet has four more bytes, immediate data or a key. */
static const struct operation {
    uint8_t base, last, only;
    bool with_imm;
} operations[] = {
    [IBV_WR_SEND] = {SOFT_SEND, SOFT_SEND + 2, SOFT_SEND + 4, false},
    [IBV_WR_SEND_WITH_IMM] = {SOFT_SEND, SOFT_SEND + 3, SOFT_SEND + 5, true},
    [IBV_WR_SEND_WITH_INV] = {SOFT_SEND, SOFT_SEND_LAST_INV, SOFT_SEND_ONLY_INV, true},
    [IBV_WR_RDMA_WRITE] = {SOFT_WRITE, SOFT_WRITE + 2, SOFT_WRITE + 4, false},
    [IBV_WR_RDMA_WRITE_WITH_IMM] = {SOFT_WRITE, SOFT_WRITE + 3, SOFT_WRITE + 5, true},
    [IBV_WR_RDMA_READ] = {SOFT_READ_REQUEST, 0, 0, false},
    [IBV_WR_ATOMIC_CMP_AND_SWP] = {SOFT_CMP_SWAP, 0, 0, false},
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = {SOFT_FETCH_ADD, 0, 0, false},
    [IBV_WR_LOCAL_INV] = {SOFT_LOCAL, 0, 0, false},
    [IBV_WR_BIND_MW] = {SOFT_LOCAL, 0, 0, false},
};

#define OPERATIONS (sizeof operations / sizeof *operations) /* operations up to here are supported */

/* True if the transport has the operation. */
static bool has_operation(const struct soft_qp *qp, enum ibv_wr_opcode opcode)
{
    uint8_t base;

    if ((unsigned)opcode >= OPERATIONS || qp->reliable)
        return (unsigned)opcode < OPERATIONS;
    base = operations[opcode].base;
    return (base == SOFT_SEND && opcode != IBV_WR_SEND_WITH_INV) ||
           (qp->transport == SOFT_UC && (base == SOFT_WRITE || base == SOFT_LOCAL));
}

/* Stores the datagram's destination. 0 or an errno. */
static int find_destination(const struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_destination *to)
{
    const struct soft_ah *ah = (const struct soft_ah *)wr->wr.ud.ah;

    if (ah == NULL || ah->ibv.pd != qp->ibv.qp_base.pd)
        return EINVAL;
    to->qpn = wr->wr.ud.remote_qpn & 0xffffff;
    to->qkey = wr->wr.ud.remote_qkey;
    return soft_path_from_ah(qp->context, &to->path, &ah->attr, to->qpn) ? 0 : EINVAL;
}

/* Stores the destination of a request that names one (UD, XRC). 0 or an errno. */
static int find_place(const struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_send *send)
{
    if (qp->transport == SOFT_UD)
        return find_destination(qp, wr, soft_destination_of(&qp->req.ring, send));
    send->srqn = wr->qp_type.xrc.remote_srqn & 0xffffff;
    return 0;
}

/* Checks requests that are not just sent: READs, atomics and local ones. True: refused. */
static bool refuse_answered(const struct soft_qp *qp, const struct ibv_send_wr *wr, uint8_t base)
{
    if (base == SOFT_LOCAL)
        return soft_local_refuse(qp, wr) != 0;
    return wr->send_flags & IBV_SEND_INLINE || qp->attr.max_rd_atomic == 0;
}

/* Checks a request. 0 or an errno; *length becomes the bytes of its payload. */
static inline int refuse_send(const struct soft_qp *qp, const struct ibv_send_wr *wr, uint64_t *length)
{
    const struct soft_ring *ring = &qp->req.ring;
    uint8_t base;

    if (!soft_sends(qp) && soft_state(qp) != IBV_QPS_SQE && soft_state(qp) != IBV_QPS_ERR)
        return EINVAL;
    if (!has_operation(qp, wr->opcode) || wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge)
        return EINVAL;
    base = operations[wr->opcode].base;
    if (base >= SOFT_READ_REQUEST && refuse_answered(qp, wr, base))
        return EINVAL;
    *length = soft_sge_length(wr->sg_list, wr->num_sge);
    if (wr->send_flags & IBV_SEND_INLINE && *length > qp->cap.max_inline_data)
        return EINVAL;
    if (ring->head - ring->tail >= ring->size)
        return qp->xrcd != NULL ? EINVAL : ENOMEM;
    /* Directly to the slot that the request will have. */
    return qp->transport < SOFT_UD ? 0 : find_place(qp, wr, soft_ring_at(ring, ring->head));
}

/* A single element is the usual case and is copied without a call. */
static inline void copy_list(struct ibv_sge *to, const struct ibv_sge *from, int count)
{
    if (count == 1)
        *to = *from;
    else if (count > 0)
        memcpy(to, from, (size_t)count * sizeof *from);
}

static void copy_payload(struct soft_send *send, const struct ibv_send_wr *wr)
{
    const struct ibv_sge *list = wr->sg_list;
    int count = wr->num_sge;
    uint8_t *to = send->data.bytes;

    if (!(send->flags & IBV_SEND_INLINE)) {
        send->sges = (uint8_t)count;
        copy_list(send->data.sge, list, count);
        return;
    }
    send->sges = 0;
    for (int i = 0; i < count; i++) {
        if (list[i].length > 0)
            memcpy(to, (const void *)(uintptr_t)list[i].addr, list[i].length);
        to += list[i].length;
    }
}

static void copy_remote(struct soft_send *send, const struct ibv_send_wr *wr)
{
    bool atomic = send->base == SOFT_CMP_SWAP || send->base == SOFT_FETCH_ADD;

    send->va = atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr;
    send->rkey = atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey;
    if (!atomic)
        return;
    send->swap_add = send->base == SOFT_CMP_SWAP ? wr->wr.atomic.swap : wr->wr.atomic.compare_add;
    send->compare = wr->wr.atomic.compare_add;
}

static bool is_one_packet(const struct soft_qp *qp, const struct soft_send *send)
{
    return send->base > SOFT_READ_REQUEST || qp->transport == SOFT_UD;
}

/* A datagram must fit into one packet: it is not sent in parts. The InfiniBand specification (C10-93.1.1) drops a longer
 * one without an error; adapters report it. An atomic's result has 8 bytes. */
static bool has_wrong_length(const struct soft_qp *qp, const struct soft_send *send, uint64_t length)
{
    uint32_t most = qp->transport == SOFT_UD ? qp->mtu : SOFT_MAX_MESSAGE;

    return length > most || (send->base > SOFT_READ_REQUEST && length != 8);
}

static inline void enqueue_send(struct soft_qp *qp, const struct ibv_send_wr *wr, uint64_t length)
{
    struct soft_send *send = soft_ring_at(&qp->req.ring, qp->req.ring.head);
    const struct operation *operation = &operations[wr->opcode];

    send->wr_id = wr->wr_id;
    send->opcode = wr->opcode;
    send->base = operation->base;
    send->flags = (uint8_t)(wr->send_flags | (qp->signal_all ? IBV_SEND_SIGNALED : 0));
    send->with_imm = operation->with_imm;
    send->imm = wr->opcode == IBV_WR_SEND_WITH_INV ? htonl(wr->invalidate_rkey) : wr->imm_data;
    send->status = IBV_WC_SUCCESS;
    send->length = (uint32_t)length;
    if (qp->transport != SOFT_UD)
        copy_remote(send, wr);
    if (has_wrong_length(qp, send, length)) {
        send->status = IBV_WC_LOC_LEN_ERR;
        send->length = 0;
        if (send->base == SOFT_LOCAL)
            soft_local_keep(send, wr);
    }
    send->psn = qp->req.end;
    send->packets = is_one_packet(qp, send) ? send->base != SOFT_LOCAL : soft_packets(send->length, qp->mtu);
    send->last = send->packets == 1 ? operation->only : operation->last;
    qp->req.end += send->packets;
    qp->req.ring.head++;
    copy_payload(send, wr);
}

/* (locked) */
static inline int post_requests(struct soft_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct soft_wire *wire = qp->context->wire;
    uint64_t length;
    int error = 0;

    if (wire->attended != NULL)
        wire->attended(wire, &qp->context->verbs.context);
    for (; wr != NULL; wr = wr->next) {
        if ((error = refuse_send(qp, wr, &length)) != 0) {
            *bad = wr;
            break;
        }
        enqueue_send(qp, wr, length);
    }
    if (!soft_sends(qp))
        soft_flush_sends(qp);
    else
        soft_work(qp); /* its turn finds out whether it may send */
    soft_step_posted(qp->context);
    return error;
}

int soft_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    int error;

    soft_lock(ibv->context);
    error = post_requests(soft_qp_of(ibv), wr, bad);
    soft_unlock(ibv->context);
    return error;
}

int soft_post_list(struct ibv_qp *ibv, struct ibv_send_wr *list)
{
    struct soft_qp *qp = soft_qp_of(ibv);
    uint32_t room = qp->req.ring.size;
    struct ibv_send_wr *bad;
    uint64_t length;
    int error = 0;

    soft_lock(ibv->context);
    room -= qp->req.ring.head - qp->req.ring.tail;
    for (struct ibv_send_wr *wr = list; wr != NULL && error == 0; wr = wr->next)
        error = room-- == 0 ? ENOMEM : refuse_send(qp, wr, &length);
    if (error == 0 && list != NULL)
        error = post_requests(qp, list, &bad);
    soft_unlock(ibv->context);
    return error;
}

void soft_recv_fill(struct soft_recv *recv, const struct ibv_recv_wr *wr)
{
    recv->wr_id = wr->wr_id;
    recv->sges = wr->num_sge;
    copy_list(recv->sge, wr->sg_list, wr->num_sge);
}

static int refuse_recv(const struct soft_qp *qp, const struct ibv_recv_wr *wr)
{
    const struct soft_ring *ring = &qp->resp.ring;

    if (soft_state(qp) == IBV_QPS_RESET || qp->ibv.qp_base.srq != NULL || wr->num_sge < 0 ||
        (uint32_t)wr->num_sge > qp->cap.max_recv_sge)
        return EINVAL;
    if (ring->head - ring->tail < ring->size)
        return 0;
    return qp->transport == SOFT_XRC ? EINVAL : ENOMEM;
}

int soft_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct soft_qp *qp = soft_qp_of(ibv);
    int error = 0;

    soft_lock(ibv->context);
    /* Datagrams that arrived before a receive was posted must not use this one, even if no thread has processed them
     * yet. */
    if (!qp->reliable && soft_receive_next(qp) == NULL && soft_receives(qp))
        soft_progress(ibv->context);
    for (; wr != NULL; wr = wr->next) {
        struct soft_recv *recv = soft_ring_at(&qp->resp.ring, qp->resp.ring.head);

        if ((error = refuse_recv(qp, wr)) != 0) {
            *bad = wr;
            break;
        }
        soft_recv_fill(recv, wr);
        qp->resp.ring.head++;
    }
    if (soft_state(qp) == IBV_QPS_ERR)
        soft_flush_recvs(qp);
    soft_unlock(ibv->context);
    return error;
}
