/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * build.c - the ibv_wr_ functions: build a list of send requests in several calls, then post the whole list.
 *
 * They build ordinary work requests, so that post.c alone decides which requests are valid and what they do.
 */
#include <errno.h>
#include <stdlib.h>
#include "soft/engine/engine.h"
#include "soft/lock.h"

/* Belongs to a queue pair. Guarded by its mutex, which the application's thread holds from ibv_wr_start() to
 * ibv_wr_complete() or ibv_wr_abort(). */
struct soft_builder {
    pthread_mutex_t lock;
    /* Number of requests; the array has one more entry, for a request that does not fit. */
    unsigned room, count;
    int error;          /* the first error */
    size_t sges, bytes; /* maximum for each request */
    struct ibv_send_wr *request;
    struct ibv_sge *sge;
    uint8_t *inlined;
};

static struct soft_qp *qp_of(struct ibv_qp_ex *ex)
{
    return (struct soft_qp *)ex;
}

static void record_error(struct soft_builder *builder, int error)
{
    if (builder->error == 0)
        builder->error = error;
}

/* ---- From start to end ---- */

static void wr_start(struct ibv_qp_ex *ex)
{
    struct soft_builder *builder = qp_of(ex)->builder;

    soft_mutex_lock(&builder->lock);
    builder->count = 0;
    builder->error = 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
    struct soft_builder *builder = qp_of(ex)->builder;
    int error = builder->error;

    if (error == 0 && builder->count > 0) {
        builder->request[builder->count - 1].next = NULL;
        error = soft_post_list(&ex->qp_base, builder->request);
    }
    soft_mutex_unlock(&builder->lock);
    return error;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    soft_mutex_unlock(&qp_of(ex)->builder->lock);
}

/* ---- Requests ---- */

static struct ibv_send_wr *add_request(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
    struct soft_builder *builder = qp_of(ex)->builder;
    struct ibv_send_wr *wr;

    if (builder->count > builder->room)
        builder->count = builder->room;
    wr = &builder->request[builder->count];
    *wr = (struct ibv_send_wr){.wr_id = ex->wr_id,
                               .next = wr + 1,
                               .sg_list = &builder->sge[builder->count * builder->sges],
                               .opcode = opcode,
                               .send_flags = ex->wr_flags};
    if (builder->count++ == builder->room)
        record_error(builder, ENOMEM);
    return wr;
}

static void add_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t address)
{
    struct ibv_send_wr *wr = add_request(ex, opcode);

    wr->wr.rdma.rkey = rkey;
    wr->wr.rdma.remote_addr = address;
}

static void wr_send(struct ibv_qp_ex *ex)
{
    add_request(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
    add_request(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    add_request(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    add_request(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *info)
{
    struct ibv_send_wr *wr = add_request(ex, IBV_WR_BIND_MW);

    wr->bind_mw.mw = mw;
    wr->bind_mw.rkey = rkey;
    wr->bind_mw.bind_info = *info;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address)
{
    add_remote(ex, IBV_WR_RDMA_READ, rkey, address);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address)
{
    add_remote(ex, IBV_WR_RDMA_WRITE, rkey, address);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address, __be32 imm)
{
    struct ibv_send_wr *wr = add_request(ex, IBV_WR_RDMA_WRITE_WITH_IMM);

    wr->wr.rdma.rkey = rkey;
    wr->wr.rdma.remote_addr = address;
    wr->imm_data = imm;
}

static void add_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t address,
                       uint64_t compare_add, uint64_t swap)
{
    struct ibv_send_wr *wr = add_request(ex, opcode);

    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.remote_addr = address;
    wr->wr.atomic.compare_add = compare_add;
    wr->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address, uint64_t compare,
                              uint64_t swap)
{
    add_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address, uint64_t summand)
{
    add_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address, summand, 0);
}

/* ---- Destination and payload ---- */

/* The request that was added last; NULL, and an error is recorded, if there is none. */
static struct ibv_send_wr *last_request(struct soft_builder *builder)
{
    if (builder->count > 0)
        return &builder->request[builder->count - 1];
    record_error(builder, EINVAL);
    return NULL;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
    struct ibv_send_wr *wr = last_request(qp_of(ex)->builder);

    if (wr != NULL)
        wr->qp_type.xrc.remote_srqn = srqn;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct ibv_send_wr *wr = last_request(qp_of(ex)->builder);

    if (wr == NULL)
        return;
    wr->wr.ud.ah = ah;
    wr->wr.ud.remote_qpn = qpn;
    wr->wr.ud.remote_qkey = qkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
    struct soft_builder *builder = qp_of(ex)->builder;
    struct ibv_send_wr *wr = last_request(builder);

    if (wr == NULL || count > builder->sges) {
        record_error(builder, EINVAL);
        return;
    }
    if (count > 0)
        memcpy(wr->sg_list, list, count * sizeof *list);
    wr->num_sge = (int)count;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t address, uint32_t length)
{
    wr_set_sge_list(ex, 1, &(struct ibv_sge){.addr = address, .length = length, .lkey = lkey});
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *list)
{
    struct soft_builder *builder = qp_of(ex)->builder;
    struct ibv_send_wr *wr = last_request(builder);
    uint8_t *bytes;
    size_t length = 0;

    if (wr == NULL)
        return;
    bytes = builder->inlined + (size_t)(wr - builder->request) * builder->bytes;
    for (size_t i = 0; i < count; i++) {
        if (list[i].length > builder->bytes - length) {
            record_error(builder, EINVAL);
            return;
        }
        if (list[i].length > 0)
            memcpy(bytes + length, list[i].addr, list[i].length);
        length += list[i].length;
    }
    wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)bytes, .length = (uint32_t)length};
    wr->num_sge = 1;
    wr->send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *address, size_t length)
{
    wr_set_inline_data_list(ex, 1, &(struct ibv_data_buf){.addr = address, .length = length});
}

/* ---- Creating ---- */

static void set_functions(struct ibv_qp_ex *ex)
{
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
    ex->wr_send = wr_send;
    ex->wr_send_imm = wr_send_imm;
    ex->wr_send_inv = wr_send_inv;
    ex->wr_local_inv = wr_local_inv;
    ex->wr_bind_mw = wr_bind_mw;
    ex->wr_rdma_read = wr_rdma_read;
    ex->wr_rdma_write = wr_rdma_write;
    ex->wr_rdma_write_imm = wr_rdma_write_imm;
    ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
    ex->wr_set_ud_addr = wr_set_ud_addr;
    ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
}

int soft_builder_add(struct soft_qp *qp)
{
    struct soft_builder *builder = calloc(1, sizeof *builder);
    size_t places = qp->cap.max_send_wr + 1u;

    if (builder == NULL)
        return ENOMEM;
    pthread_mutex_init(&builder->lock, NULL);
    qp->builder = builder;
    builder->room = qp->cap.max_send_wr;
    builder->sges = qp->cap.max_send_sge > 0 ? qp->cap.max_send_sge : 1; /* inline data takes one */
    builder->bytes = qp->cap.max_inline_data;
    builder->request = calloc(places, sizeof *builder->request);
    builder->sge = calloc(places * builder->sges, sizeof *builder->sge);
    builder->inlined = calloc(places, builder->bytes > 0 ? builder->bytes : 1);
    if (builder->request == NULL || builder->sge == NULL || builder->inlined == NULL)
        return ENOMEM; /* the caller calls soft_builder_free() */
    set_functions(&qp->ibv);
    qp->comp_mask |= SOFT_QP_EX;
    return 0;
}

void soft_builder_free(struct soft_qp *qp)
{
    struct soft_builder *builder = qp->builder;

    if (builder == NULL)
        return;
    pthread_mutex_destroy(&builder->lock);
    free(builder->request);
    free(builder->sge);
    free(builder->inlined);
    free(builder);
}
