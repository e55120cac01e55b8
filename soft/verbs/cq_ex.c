/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq_ex.c - extended completion queues: ibv_start_poll, ibv_next_poll and the ibv_wc_read_ functions.
 *
 * Each completion is copied out of the ring, so no lock is held between the calls.
 */
#include <errno.h>
#include "soft/engine/engine.h"
#include "verbs.h"

#define FLAGS_KNOWN IBV_CREATE_CQ_ATTR_SINGLE_THREADED

static struct ibv_wc *current_wc(struct ibv_cq_ex *cq)
{
    return &((struct soft_cq *)cq)->current;
}

static int next_poll(struct ibv_cq_ex *cq)
{
    int polled = soft_poll_cq(ibv_cq_ex_to_cq(cq), 1, current_wc(cq));

    if (polled <= 0)
        return polled == 0 ? ENOENT : EIO;
    cq->wr_id = current_wc(cq)->wr_id;
    cq->status = current_wc(cq)->status;
    return 0;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
    return attr->comp_mask != 0 ? EINVAL : next_poll(cq);
}

static void end_poll(struct ibv_cq_ex *cq)
{
    (void)cq;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
    return current_wc(cq)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
    return current_wc(cq)->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
    return current_wc(cq)->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
    return current_wc(cq)->imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
    return current_wc(cq)->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
    return current_wc(cq)->src_qp;
}

static unsigned read_wc_flags(struct ibv_cq_ex *cq)
{
    return current_wc(cq)->wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
    return current_wc(cq)->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
    return current_wc(cq)->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
    return current_wc(cq)->dlid_path_bits;
}

static void set_functions(struct ibv_cq_ex *cq)
{
    cq->start_poll = start_poll;
    cq->next_poll = next_poll;
    cq->end_poll = end_poll;
    cq->read_opcode = read_opcode;
    cq->read_vendor_err = read_vendor_err;
    cq->read_byte_len = read_byte_len;
    cq->read_imm_data = read_imm_data;
    cq->read_qp_num = read_qp_num;
    cq->read_src_qp = read_src_qp;
    cq->read_wc_flags = read_wc_flags;
    cq->read_slid = read_slid;
    cq->read_sl = read_sl;
    cq->read_dlid_path_bits = read_dlid_path_bits;
}

struct ibv_cq_ex *soft_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init)
{
    bool flagged = init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS;
    struct ibv_cq_ex *cq;

    if (init->comp_mask & ~IBV_CQ_INIT_ATTR_MASK_FLAGS || (flagged && init->flags & ~FLAGS_KNOWN) ||
        init->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (init->cqe > SOFT_MAX_CQE || init->comp_vector > INT32_MAX) {
        errno = EINVAL;
        return NULL;
    }
    cq = (struct ibv_cq_ex *)soft_create_cq(context, (int)init->cqe, init->cq_context, init->channel,
                                            (int)init->comp_vector);
    if (cq != NULL)
        set_functions(cq);
    return cq;
}
