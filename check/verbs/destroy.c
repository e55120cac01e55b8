/* SPDX-License-Identifier: BSD-2-Clause */
/* destroy.c - destruction of objects that are in use or have outstanding work. */
#include "cases.h"
#include "work.h"

#include <errno.h>

/* A verb that refuses also sets errno. */
#define say_refusal(what, call) (errno = 0, refusal_said((what), (call)))
static void refusal_said(const char *what, int rc)
{
    int error = errno;

    say_error(what, rc);
    if (rc != 0)
        say("errno", error == rc ? "set" : "not set");
}

static void pd_with_mr(struct rig *r)
{
    rig_end_open(r, &r->a);
    say_refusal("dealloc", ibv_dealloc_pd(r->pd));
    say_error("dereg", ibv_dereg_mr(r->a.mr));
    say_refusal("dealloc", ibv_dealloc_pd(r->pd));
}

static void pd_with_qp(struct rig *r)
{
    rig_end_open(r, &r->a);
    rig_qp(r, &r->a, IBV_QPT_RC, NULL);
    must(ibv_dereg_mr(r->a.mr), "ibv_dereg_mr");
    say_refusal("dealloc", ibv_dealloc_pd(r->pd));
    say_refusal("destroy", ibv_destroy_qp(r->a.qp));
    say_refusal("dealloc", ibv_dealloc_pd(r->pd));
}

static void pd_with_ah(struct rig *r)
{
    struct ibv_ah_attr path = rig_path(r);
    struct ibv_ah *ah = need(ibv_create_ah(r->pd, &path), "ibv_create_ah");

    say_refusal("dealloc", ibv_dealloc_pd(r->pd));
    say_refusal("destroy", ibv_destroy_ah(ah));
    say_refusal("dealloc", ibv_dealloc_pd(r->pd));
}

static struct ibv_srq *make_srq(struct rig *r)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};

    return need(ibv_create_srq(r->pd, &init), "ibv_create_srq");
}

static void pd_with_srq(struct rig *r)
{
    struct ibv_srq *srq = make_srq(r);

    say_refusal("dealloc", ibv_dealloc_pd(r->pd));
    say_refusal("destroy", ibv_destroy_srq(srq));
    say_refusal("dealloc", ibv_dealloc_pd(r->pd));
}

static void srq_with_qp(struct rig *r)
{
    struct ibv_srq *srq = make_srq(r);

    rig_end_open(r, &r->a);
    rig_qp(r, &r->a, IBV_QPT_RC, srq);
    say_refusal("destroy", ibv_destroy_srq(srq));
    say_refusal("destroy", ibv_destroy_qp(r->a.qp));
    say_refusal("destroy", ibv_destroy_srq(srq));
}

static void cq_with_qp(struct rig *r)
{
    rig_end_open(r, &r->a);
    rig_qp(r, &r->a, IBV_QPT_RC, NULL);
    say_refusal("destroy", ibv_destroy_cq(r->a.cq));
    say_refusal("destroy", ibv_destroy_qp(r->a.qp));
    say_refusal("destroy", ibv_destroy_cq(r->a.cq));
}

static void channel_with_cq(struct rig *r)
{
    rig_cq(r, &r->a, 4);
    say_error("destroy", ibv_destroy_comp_channel(r->a.channel));
    say_refusal("destroy", ibv_destroy_cq(r->a.cq));
    say_error("destroy", ibv_destroy_comp_channel(r->a.channel));
}

/* On an adapter, the kernel frees the objects of a closed context. */
static void context_with_pd(struct rig *r)
{
    say_error("close", ibv_close_device(r->context));
}

/* A destroyed queue pair has no further completions; its peer gets no response. */
static void qp_with_work(struct rig *r)
{
    struct work w;
    struct ibv_wc wc;

    r->timeout = 12;
    r->retry = 2;
    rig_pair(r, IBV_QPT_RC);
    receive(&r->a, 1, 8);
    work(&w, r, IBV_WR_SEND, 8); /* waits for a receive that is never posted */
    work_post(r, &w);
    say_error("destroy", ibv_destroy_qp(r->a.qp));
    say("completions", completion_within(&r->a, &wc, 200) ? "some" : "none");
    say_state("b", r->b.qp);
    say_error("dereg", ibv_dereg_mr(r->a.mr));
    say_error("destroy", ibv_destroy_cq(r->a.cq));
}

/* The target of a long write is deregistered during the write. */
static void target_under_write(struct rig *r)
{
    struct work w;
    struct ibv_wc wc;

    r->timeout = 12;
    r->retry = 2;
    rig_pair(r, IBV_QPT_RC);
    for (int i = 0; i < 16; i++) {
        work(&w, r, IBV_WR_RDMA_WRITE, 8192);
        work_post(r, &w);
    }
    say_error("destroy", ibv_destroy_qp(r->b.qp));
    say_error("dereg", ibv_dereg_mr(r->b.mr));
    int done = 0, failed = 0;
    while (done + failed < 16 && completion_within(&r->a, &wc, PATIENCE))
        *(wc.status == IBV_WC_SUCCESS ? &done : &failed) += 1;
    say("completions", done + failed == 16 ? "all" : "fewer");
}

const struct verbs_case destroy_cases[] = {
    {"pd-with-mr", pd_with_mr},
    {"pd-with-qp", pd_with_qp},
    {"pd-with-ah", pd_with_ah},
    {"pd-with-srq", pd_with_srq},
    {"srq-with-qp", srq_with_qp},
    {"cq-with-qp", cq_with_qp},
    {"channel-with-cq", channel_with_cq},
    {"context-with-pd", context_with_pd},
    {"qp-with-work", qp_with_work},
    {"target-under-write", target_under_write},
    {0},
};
