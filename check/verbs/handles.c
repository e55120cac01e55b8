/* SPDX-License-Identifier: BSD-2-Clause */
/* handles.c - objects with invalid handles, or whose public fields the program has overwritten. A refused call does not
 * change the object, so that it can be destroyed with its correct handle. */
#include "cases.h"
#include "work.h"

#include <errno.h>

#define NOBODYS 0x5a5a00

/* Makes a call while the object's handle is invalid, then restores the handle. */
#define misnamed(object, call) ((object)->handle ^= NOBODYS, (call), (object)->handle ^= NOBODYS)

static void destroy_mr(struct rig *r)
{
    rig_end_open(r, &r->a);
    misnamed(r->a.mr, say_error("dereg", ibv_dereg_mr(r->a.mr)));
    say_error("dereg", ibv_dereg_mr(r->a.mr));
}
static void destroy_pd(struct rig *r)
{
    misnamed(r->pd, say_error("dealloc", ibv_dealloc_pd(r->pd)));
    say_error("dealloc", ibv_dealloc_pd(r->pd));
}
static void destroy_cq(struct rig *r)
{
    rig_cq(r, &r->a, 4);
    misnamed(r->a.cq, say_error("destroy", ibv_destroy_cq(r->a.cq)));
    say_error("destroy", ibv_destroy_cq(r->a.cq));
}
static void open_qp(struct rig *r)
{
    rig_end_open(r, &r->a);
    rig_qp(r, &r->a, IBV_QPT_RC, NULL);
}
static void destroy_qp(struct rig *r)
{
    open_qp(r);
    misnamed(r->a.qp, say_error("destroy", ibv_destroy_qp(r->a.qp)));
    say_error("destroy", ibv_destroy_qp(r->a.qp));
}
static struct ibv_srq *make_srq(struct rig *r)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};

    return need(ibv_create_srq(r->pd, &init), "ibv_create_srq");
}
static void destroy_srq(struct rig *r)
{
    struct ibv_srq *srq = make_srq(r);

    misnamed(srq, say_error("destroy", ibv_destroy_srq(srq)));
    say_error("destroy", ibv_destroy_srq(srq));
}
static void destroy_ah(struct rig *r)
{
    struct ibv_ah_attr path = rig_path(r);
    struct ibv_ah *ah = need(ibv_create_ah(r->pd, &path), "ibv_create_ah");

    misnamed(ah, say_error("destroy", ibv_destroy_ah(ah)));
    say_error("destroy", ibv_destroy_ah(ah));
}
static void destroy_mw(struct rig *r)
{
    struct ibv_mw *mw = need(ibv_alloc_mw(r->pd, IBV_MW_TYPE_1), "ibv_alloc_mw");

    misnamed(mw, say_error("dealloc", ibv_dealloc_mw(mw)));
    say_error("dealloc", ibv_dealloc_mw(mw));
}

/* ---- As an argument of the creation of another object ---- */

static void reg_in_pd(struct rig *r)
{
    static char memory[4096];

    misnamed(r->pd, say_result("reg", ibv_reg_mr(r->pd, memory, sizeof(memory), 0) != NULL));
}
static void ah_in_pd(struct rig *r)
{
    struct ibv_ah_attr path = rig_path(r);

    misnamed(r->pd, say_result("create", ibv_create_ah(r->pd, &path) != NULL));
}
static void srq_in_pd(struct rig *r)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};

    misnamed(r->pd, say_result("create", ibv_create_srq(r->pd, &init) != NULL));
}
static void mw_in_pd(struct rig *r)
{
    misnamed(r->pd, say_result("alloc", ibv_alloc_mw(r->pd, IBV_MW_TYPE_1) != NULL));
}
static struct ibv_qp_init_attr plain(struct rig *r)
{
    rig_end_open(r, &r->a);
    return (struct ibv_qp_init_attr){
        .qp_type = IBV_QPT_RC,
        .send_cq = r->a.cq,
        .recv_cq = r->a.cq,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
}
static void qp_in_pd(struct rig *r)
{
    struct ibv_qp_init_attr init = plain(r);

    misnamed(r->pd, say_result("create", ibv_create_qp(r->pd, &init) != NULL));
}
static void qp_with_cq(struct rig *r)
{
    struct ibv_qp_init_attr init = plain(r);

    misnamed(r->a.cq, say_result("create", ibv_create_qp(r->pd, &init) != NULL));
}
static void qp_with_srq(struct rig *r)
{
    struct ibv_qp_init_attr init = plain(r);

    init.srq = make_srq(r);
    misnamed(init.srq, say_result("create", ibv_create_qp(r->pd, &init) != NULL));
}

/* ---- Modifying and querying ---- */

static void modify_qp(struct rig *r)
{
    struct change change = rig_init(r, IBV_QPT_RC);

    open_qp(r);
    misnamed(r->a.qp, say_error("modify", ibv_modify_qp(r->a.qp, &change.attr, change.mask)));
    say_error("modify", ibv_modify_qp(r->a.qp, &change.attr, change.mask));
}
static void query_qp(struct rig *r)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    open_qp(r);
    misnamed(r->a.qp, say_error("query", ibv_query_qp(r->a.qp, &attr, IBV_QP_STATE, &init)));
}
static void modify_srq(struct rig *r)
{
    struct ibv_srq_attr attr = {.srq_limit = 1};
    struct ibv_srq *srq = make_srq(r);

    misnamed(srq, say_error("modify", ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT)));
    misnamed(srq, say_error("query", ibv_query_srq(srq, &attr)));
}
static void resize_cq(struct rig *r)
{
    rig_cq(r, &r->a, 4);
    misnamed(r->a.cq, say_error("resize", ibv_resize_cq(r->a.cq, 8)));
}

/* ---- Objects of another type, and overwritten read-only fields ---- */

static void srq_as_cq(struct rig *r)
{
    struct ibv_srq *srq = make_srq(r);

    /* Both structs begin with the same fields, up to their handles. */
    say_error("destroy", ibv_destroy_cq((struct ibv_cq *)srq));
    say_error("destroy", ibv_destroy_srq(srq));
}
/* The region itself is deregistered, not the one whose keys were written into it. */
static void keys_overwritten(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_RDMA_WRITE, 64);
    r->b.mr->lkey = r->b.mr->rkey = r->a.mr->lkey;
    say_error("dereg", ibv_dereg_mr(r->b.mr));
    work_outcome(r, &w);
}

const struct verbs_case handle_cases[] = {
    {"handle-dereg-mr", destroy_mr},
    {"handle-dealloc-pd", destroy_pd},
    {"handle-destroy-cq", destroy_cq},
    {"handle-destroy-qp", destroy_qp},
    {"handle-destroy-srq", destroy_srq},
    {"handle-destroy-ah", destroy_ah},
    {"handle-dealloc-mw", destroy_mw},
    {"handle-of-pd-reg", reg_in_pd},
    {"handle-of-pd-ah", ah_in_pd},
    {"handle-of-pd-srq", srq_in_pd},
    {"handle-of-pd-mw", mw_in_pd},
    {"handle-of-pd-qp", qp_in_pd},
    {"handle-of-cq-qp", qp_with_cq},
    {"handle-of-srq-qp", qp_with_srq},
    {"handle-modify-qp", modify_qp},
    {"handle-query-qp", query_qp},
    {"handle-modify-srq", modify_srq},
    {"handle-resize-cq", resize_cq},
    {"handle-of-srq-destroy-cq", srq_as_cq},
    {"keys-overwritten", keys_overwritten},
    {0},
};
