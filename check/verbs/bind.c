/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.c - binds memory windows, invalidates them, and accesses memory through them; see bind.h. */
#include "bind.h"

void window_pair(struct rig *r)
{
    rig_pair(r, IBV_QPT_RC);
    r->b.mr = need(ibv_reg_mr(r->pd, r->b.memory, MEMORY_SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND),
                   "ibv_reg_mr");
}

struct ibv_mw *window_new(struct rig *r, enum ibv_mw_type type)
{
    window_pair(r);
    return need(ibv_alloc_mw(r->pd, type), "ibv_alloc_mw");
}

/* Posts a local request of b on this queue pair, and prints the status of its completion. Returns whether it was
 * successful. */
static bool local(struct rig *r, struct ibv_qp *qp, const char *what, struct ibv_send_wr wr)
{
    struct ibv_send_wr *bad;
    struct ibv_wc wc;

    wr.send_flags = IBV_SEND_SIGNALED;
    int rc = ibv_post_send(qp, &wr, &bad);
    if (rc != 0)
        say_error(what, rc);
    return rc == 0 && say_completion(what, &r->b, &wc) && wc.status == IBV_WC_SUCCESS;
}

struct ibv_mw_bind_info window_range(struct rig *r, unsigned access)
{
    return (struct ibv_mw_bind_info){r->b.mr, (uintptr_t)r->b.memory + AT, LENGTH, access};
}

void bind_first(struct rig *r, struct ibv_mw *mw, struct ibv_mw_bind_info to)
{
    struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = to};
    struct ibv_wc wc;
    int rc = ibv_bind_mw(r->b.qp, mw, &bind);

    if (rc != 0)
        say_error("bind", rc);
    else
        say_completion("bind", &r->b, &wc);
}

bool bind_as(struct rig *r, struct ibv_qp *qp, struct ibv_mw *mw, uint32_t key, struct ibv_mw_bind_info to)
{
    return local(r, qp, "bind", (struct ibv_send_wr){.opcode = IBV_WR_BIND_MW, .bind_mw = {mw, key, to}});
}

void bind_second(struct rig *r, struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind_info to)
{
    uint32_t key = ibv_inc_rkey(mw->rkey);

    if (bind_as(r, qp, mw, key, to))
        mw->rkey = key;
}

void invalidate(struct rig *r, struct ibv_qp *qp, uint32_t key)
{
    local(r, qp, "inv", (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key});
}

void window_ask(struct rig *r, enum ibv_wr_opcode opcode, uint64_t address, uint32_t length, uint32_t key)
{
    struct work w;

    work(&w, r, opcode, length);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        w.wr.wr.atomic.remote_addr = address;
        w.wr.wr.atomic.rkey = key;
        w.wr.wr.atomic.compare_add = 1;
    } else {
        w.wr.wr.rdma.remote_addr = address;
        w.wr.wr.rdma.rkey = key;
    }
    work_run(r, &w);
}

void window_write(struct rig *r, uint32_t key)
{
    window_ask(r, IBV_WR_RDMA_WRITE, (uintptr_t)r->b.memory + AT, 64, key);
}

struct ibv_mw *window_bound(struct rig *r)
{
    struct ibv_mw *mw = window_new(r, IBV_MW_TYPE_2);

    bind_second(r, r->b.qp, mw, window_range(r, READS | WRITES));
    return mw;
}
