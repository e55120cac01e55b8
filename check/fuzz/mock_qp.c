/* SPDX-License-Identifier: BSD-2-Clause */
/* The mock's queue pairs: the work requests that EXS posts, and how they complete. See mock.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "check/fuzz/mock.h"
#include "core/conn/conn.h"
#include "core/conn/protocol.h"

#define OF_A_SEND 1 /* wc.vendor_err of a send's completion; its src_qp is the send_head behind the send */
/* That of a misleading completion (mock_mislead); src_qp is the queue pair, slid chooses the entry. */
#define OF_NOTHING 2

static LIST_HEAD(, mock_qp) pairs = LIST_HEAD_INITIALIZER(pairs);
static uint32_t last_number;

/* ---- Creation and errors --------------------------------------------------------------------- */

int mock_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct mock_qp *qp;

    require(id->qp == NULL, "a second queue pair for an id");
    if (attr->cap.max_inline_data > 0 && !mock_config.has_inline) {
        errno = EINVAL;
        return -1;
    }
    qp = mock_refuses(pd->context) || mock_fails() ? NULL : calloc(1, sizeof(*qp));
    if (qp == NULL)
        return -1;
    mock_count_object(pd->context, 1);
    require(attr->cap.max_send_wr <= MOCK_SENDS && attr->cap.max_recv_wr <= MOCK_SENDS, "queues of %u and %u",
            attr->cap.max_send_wr, attr->cap.max_recv_wr);
    require((int)attr->cap.max_send_wr <= mock_config.max_wr, "a send queue of %u", attr->cap.max_send_wr);
    if (attr->cap.max_inline_data > MOCK_INLINE)
        attr->cap.max_inline_data = MOCK_INLINE;
    qp->qp = (struct ibv_qp){.context = pd->context,
                             .pd = pd,
                             .send_cq = attr->send_cq,
                             .recv_cq = attr->recv_cq,
                             .qp_num = ++last_number,
                             .qp_type = attr->qp_type,
                             .state = IBV_QPS_INIT};
    qp->id = (struct mock_id *)id;
    qp->max_send = attr->cap.max_send_wr;
    qp->max_recv = attr->cap.max_recv_wr;
    qp->max_inline = attr->cap.max_inline_data;
    id->qp = &qp->qp;
    ((struct mock_pd *)pd)->users++;
    ((struct mock_cq *)attr->send_cq)->users++;
    LIST_INSERT_HEAD(&pairs, qp, link);
    mock_count.qps++;
    return 0;
}

void mock_destroy_qp(struct rdma_cm_id *id)
{
    struct mock_qp *qp = mock_qp_of(id);

    require(qp != NULL, "an id has no queue pair to destroy");
    mock_gone(qp->id);
    mock_count_object(qp->qp.context, -1);
    if (!mock_config.keeps_cqes)
        mock_forget(qp);
    id->qp = NULL;
    ((struct mock_pd *)qp->qp.pd)->users--;
    ((struct mock_cq *)qp->qp.send_cq)->users--;
    LIST_REMOVE(qp, link);
    mock_count.qps--;
    free(qp);
}

struct mock_qp *mock_qp_of(struct rdma_cm_id *id)
{
    return (struct mock_qp *)id->qp;
}

struct mock_qp *mock_qp_numbered(uint32_t number)
{
    struct mock_qp *qp;

    LIST_FOREACH (qp, &pairs, link) {
        if (qp->qp.qp_num == number)
            return qp;
    }
    return NULL;
}

int mock_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    require(mask == IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR, "a queue pair is modified to %d",
            attr->qp_state);
    if (mock_refuses(qp->context))
        return EIO;
    mock_break((struct mock_qp *)qp);
    return 0;
}

void mock_take_qps(const struct ibv_context *context)
{
    struct mock_qp *qp;

    LIST_FOREACH (qp, &pairs, link) {
        if (qp->qp.context != context)
            continue;
        qp->qp.state = IBV_QPS_ERR;
        qp->send_freed = qp->send_head = qp->send_tail;
        qp->recv_head = qp->recv_tail;
    }
}

static bool at(const struct mock_wr *wr, const void *addr, size_t length)
{
    return !wr->is_copy && (uintptr_t)wr->data < (uintptr_t)addr + length &&
           (uintptr_t)addr < (uintptr_t)wr->data + wr->length;
}

bool mock_in_use(const void *addr, size_t length)
{
    struct mock_qp *qp;

    LIST_FOREACH (qp, &pairs, link) {
        for (uint32_t i = qp->send_head; i != qp->send_tail; i++) {
            if (at(&qp->sends[i % MOCK_SENDS], addr, length))
                return true;
        }
        for (uint32_t i = qp->recv_head; i != qp->recv_tail; i++) {
            if (at(&qp->recvs[i % MOCK_SENDS], addr, length))
                return true;
        }
    }
    return false;
}

bool mock_key_in_use(const struct ibv_pd *pd, uint32_t lkey)
{
    struct mock_qp *qp;

    LIST_FOREACH (qp, &pairs, link) {
        for (uint32_t i = qp->send_head; qp->qp.pd == pd && i != qp->send_tail; i++) {
            if (!qp->sends[i % MOCK_SENDS].is_copy && qp->sends[i % MOCK_SENDS].lkey == lkey)
                return true;
        }
        for (uint32_t i = qp->recv_head; qp->qp.pd == pd && i != qp->recv_tail; i++) {
            if (qp->recvs[i % MOCK_SENDS].lkey == lkey)
                return true;
        }
    }
    return false;
}

/* ---- Posting --------------------------------------------------------------------------------- */

/* The only SGE of a work request. */
static void copy_sge(const struct mock_qp *qp, struct mock_wr *to, const struct ibv_sge *sge, int access)
{
    to->length = sge->length;
    to->lkey = sge->lkey;
    to->data = (const uint8_t *)(uintptr_t)sge->addr;
    require(mock_local(qp->qp.pd, sge->lkey, to->data, sge->length, access) != NULL,
            "a work request at %p, %u bytes, which its key is not for", (const void *)to->data, sge->length);
}

static void copy_inline(const struct mock_qp *qp, struct mock_wr *to, const struct ibv_sge *sge)
{
    require(sge->length <= qp->max_inline && to->opcode != IBV_WR_RDMA_READ, "%u bytes inline", sge->length);
    to->length = sge->length;
    memcpy(to->copy, (const void *)(uintptr_t)sge->addr, sge->length);
    to->is_copy = true;
}

/* Completes the oldest send. An unsignaled one has a completion only if it has failed. */
static void complete_send(struct mock_qp *qp, enum ibv_wc_status status)
{
    const struct mock_wr *wr = &qp->sends[qp->send_head++ % MOCK_SENDS];

    mock_progress++;
    if (status == IBV_WC_SUCCESS && !wr->signaled)
        return;
    mock_complete(qp->qp.send_cq, &(struct ibv_wc){.wr_id = wr->wr_id,
                                                   .status = status,
                                                   .qp_num = qp->qp.qp_num,
                                                   .src_qp = qp->send_head,
                                                   .vendor_err = OF_A_SEND});
}

/* A FIN needs a fence: the peer may leave when it arrives, and RDMA READs that have not completed would fail. */
static void expect_fence(const struct mock_wr *wr, unsigned flags)
{
    struct control control;

    if (wr->opcode == IBV_WR_SEND && xs_control_unpack(&control, wr->data, wr->length))
        require(control.type != CONTROL_FIN || flags & IBV_SEND_FENCE, "an end that overtakes what is read");
}

/* 0 or an errno. */
static int post_send(struct mock_qp *qp, const struct ibv_send_wr *from)
{
    struct mock_wr *wr = &qp->sends[qp->send_tail % MOCK_SENDS];

    require(from->num_sge <= 1, "a work request of %d pieces", from->num_sge);
    require(qp->send_tail - qp->send_freed < qp->max_send, "a send queue of %u is full", qp->max_send);
    require(!qp->misled || qp->qp.state == IBV_QPS_ERR,
            "a send by a device that has completed what it was not given");
    require(qp->qp.state == IBV_QPS_RTS || qp->qp.state == IBV_QPS_ERR,
            "a send before the connection is there");
    if (mock_refuses(qp->qp.context) || mock_fails())
        return errno;
    *wr = (struct mock_wr){.wr_id = from->wr_id,
                           .opcode = from->opcode,
                           .remote = from->wr.rdma.remote_addr,
                           .rkey = from->wr.rdma.rkey,
                           .imm = be32toh(from->imm_data),
                           .signaled = from->send_flags & IBV_SEND_SIGNALED};
    if (from->num_sge == 1 && from->send_flags & IBV_SEND_INLINE)
        copy_inline(qp, wr, from->sg_list);
    else if (from->num_sge == 1)
        copy_sge(qp, wr, from->sg_list, wr->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0);
    require(wr->length <= mock_config.max_request, "a work request of %u bytes", wr->length);
    if (wr->is_copy)
        wr->data = wr->copy;
    expect_fence(wr, from->send_flags);
    mock_posted(qp, wr);
    qp->send_tail++;
    if (qp->qp.state == IBV_QPS_ERR)
        complete_send(qp, IBV_WC_WR_FLUSH_ERR);
    return 0;
}

int mock_post_send(struct ibv_qp *ibv, struct ibv_send_wr *from, struct ibv_send_wr **bad)
{
    int error = 0;

    for (; from != NULL && error == 0; from = from->next) {
        *bad = from;
        error = post_send((struct mock_qp *)ibv, from);
    }
    return error;
}

static void complete_receive(struct mock_qp *qp, struct ibv_wc *wc)
{
    wc->wr_id = qp->recvs[qp->recv_head++ % MOCK_SENDS].wr_id;
    wc->qp_num = qp->qp.qp_num;
    mock_complete(qp->qp.recv_cq, wc);
}

int mock_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *from, struct ibv_recv_wr **bad)
{
    struct mock_qp *qp = (struct mock_qp *)ibv;

    for (; from != NULL; from = from->next) {
        struct mock_wr *wr = &qp->recvs[qp->recv_tail % MOCK_SENDS];

        require(from->num_sge == 1, "a receive in %d pieces", from->num_sge);
        require(qp->recv_tail - qp->recv_head < qp->max_recv, "a receive queue of %u is full", qp->max_recv);
        *bad = from;
        if (mock_refuses(ibv->context) || mock_fails())
            return errno;
        *wr = (struct mock_wr){.wr_id = from->wr_id};
        copy_sge(qp, wr, from->sg_list, IBV_ACCESS_LOCAL_WRITE);
        qp->recv_tail++;
    }
    if (qp->qp.state == IBV_QPS_ERR)
        complete_receive(qp, &(struct ibv_wc){.status = IBV_WC_WR_FLUSH_ERR});
    return 0;
}

/* ---- Completion ------------------------------------------------------------------------------------- */

void mock_break(struct mock_qp *qp)
{
    qp->qp.state = IBV_QPS_ERR;
    while (qp->send_head != qp->send_tail)
        complete_send(qp, IBV_WC_WR_FLUSH_ERR);
    while (qp->recv_head != qp->recv_tail)
        complete_receive(qp, &(struct ibv_wc){.status = IBV_WC_WR_FLUSH_ERR});
}

struct mock_wr *mock_sending(struct mock_qp *qp)
{
    return qp->send_head != qp->send_tail ? &qp->sends[qp->send_head % MOCK_SENDS] : NULL;
}

void mock_sent(struct mock_qp *qp, enum ibv_wc_status status)
{
    complete_send(qp, status);
    if (status != IBV_WC_SUCCESS)
        mock_break(qp);
}

bool mock_receive(struct mock_qp *qp, enum ibv_wc_opcode opcode, const void *bytes, uint32_t length,
                  bool with_imm, uint32_t imm)
{
    struct mock_wr *wr = &qp->recvs[qp->recv_head % MOCK_SENDS];
    struct ibv_wc wc = {.opcode = opcode, .byte_len = length, .imm_data = htobe32(imm)};

    if (qp->recv_head == qp->recv_tail)
        return false;
    if (with_imm)
        wc.wc_flags = IBV_WC_WITH_IMM;
    if (opcode == IBV_WC_RECV && length > wr->length) {
        complete_receive(qp, &(struct ibv_wc){.status = IBV_WC_LOC_LEN_ERR});
        mock_break(qp);
        return true;
    }
    if (opcode == IBV_WC_RECV && length > 0)
        memcpy((void *)(uintptr_t)wr->data, bytes, length);
    complete_receive(qp, &wc);
    return true;
}

void mock_receive_error(struct mock_qp *qp, enum ibv_wc_status status)
{
    if (qp->recv_head != qp->recv_tail)
        complete_receive(qp, &(struct ibv_wc){.status = status});
    mock_break(qp);
}

bool mock_write(struct mock_qp *qp, uint64_t addr, uint32_t rkey, const void *bytes, uint32_t length)
{
    struct mock_mr *mr = mock_remote(qp->qp.pd, rkey, addr, length, IBV_ACCESS_REMOTE_WRITE);

    if (mr == NULL) {
        mock_break(qp);
        return false;
    }
    if (bytes != NULL)
        memcpy((uint8_t *)mr->mr.addr + (addr - mr->iova), bytes, length);
    return true;
}

void mock_mislead(struct mock_qp *qp, uint32_t which, enum ibv_wc_status status)
{
    const struct ibv_wc wc = {
        .status = status, .src_qp = qp->qp.qp_num, .slid = (uint16_t)which, .vendor_err = OF_NOTHING};

    mock_stray_as(qp->qp.send_cq, &wc);
}

/* From send_freed on, EXS counts its sends as posted; this chooses one of the other entries. If there is none, or the
 * connection is gone, the wr_id stays one of no connection. */
static void name_another(struct ibv_wc *wc)
{
    struct mock_qp *qp = mock_qp_numbered(wc->src_qp);
    uint32_t free = qp != NULL ? SQ_DEPTH - (qp->send_tail - qp->send_freed) : 0;

    if (free == 0 || qp->recv_tail == 0)
        return;
    wc->wr_id = conn_name(qp->recvs[0].wr_id) | (uint64_t)((qp->send_tail + wc->slid % free) % SQ_DEPTH)
                                                    << ENTRY_SHIFT;
    qp->misled = true;
}

void mock_polled(struct ibv_wc *wc)
{
    struct mock_qp *qp = wc->vendor_err == OF_A_SEND ? mock_qp_numbered(wc->qp_num) : NULL;

    if (qp != NULL)
        qp->send_freed = wc->src_qp;
    if (wc->vendor_err == OF_NOTHING)
        name_another(wc);
}
