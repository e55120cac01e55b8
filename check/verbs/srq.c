/* SPDX-License-Identifier: BSD-2-Clause */
/* srq.c - shared receive queues. */
#include "cases.h"
#include "work.h"

static struct ibv_srq *make(struct rig *r, uint32_t depth)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = depth, .max_sge = 1}};

    return ibv_create_srq(r->pd, &init);
}

/* Creates a pair whose b uses a shared receive queue. */
static void pair(struct rig *r)
{
    r->srq = need(make(r, 16), "ibv_create_srq");
    rig_pair(r, IBV_QPT_RC);
}

static int post(struct rig *r, uint64_t wr_id)
{
    struct ibv_sge sge = {.addr = (uintptr_t)r->b.memory, .length = 64, .lkey = r->b.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
    int rc = ibv_post_srq_recv(r->srq, &wr, &bad);

    if (rc != 0)
        say("bad_wr", bad == &wr ? "it" : "other");
    return rc;
}

static void srq_receive(struct rig *r)
{
    struct ibv_wc wc;

    pair(r);
    must(post(r, 5), "ibv_post_srq_recv");
    work_send(r, 32);
    if (say_completion("recv", &r->b, &wc)) {
        say_number("wr_id", (long)wc.wr_id);
        say("qp_num", wc.qp_num == r->b.qp->qp_num ? "b" : "other");
    }
}

static void srq_post_to_qp(struct rig *r)
{
    pair(r);
    say_error("post", receive_at(&r->b, 1, 0, 8, r->b.mr->lkey));
}

static void srq_overflow(struct rig *r)
{
    struct ibv_srq_attr attr;
    uint32_t count = 0;
    int rc;

    pair(r);
    must(ibv_query_srq(r->srq, &attr), "ibv_query_srq");
    do
        rc = post(r, count);
    while (rc == 0 && ++count < 100000);
    say_error("post", rc);
    say("fitted", count >= attr.max_wr ? "enough" : "fewer");
    say("all", count <= 2 * attr.max_wr ? "bounded" : "too many");
}

static void srq_too_many_sges(struct rig *r)
{
    struct ibv_srq_attr attr;
    struct ibv_sge sges[64] = {{0}};
    struct ibv_recv_wr wr = {.sg_list = sges}, *bad = NULL;

    pair(r);
    must(ibv_query_srq(r->srq, &attr), "ibv_query_srq");
    wr.num_sge = (int)attr.max_sge + 1;
    say_error("post", ibv_post_srq_recv(r->srq, &wr, &bad));
    say("bad_wr", bad == &wr ? "it" : "other");
}

static void srq_empty(struct rig *r)
{
    struct work w;

    r->rnr_retry = 1;
    pair(r);
    work(&w, r, IBV_WR_SEND, 8);
    work_outcome(r, &w);
}

static int arm(struct rig *r, uint32_t limit)
{
    struct ibv_srq_attr attr = {.srq_limit = limit};

    return ibv_modify_srq(r->srq, &attr, IBV_SRQ_LIMIT);
}

/* Uses two of three receives: after the first, their number equals the limit; after the second, it is lower. */
static void srq_limit(struct rig *r)
{
    struct ibv_srq_attr attr;

    pair(r);
    for (uint64_t i = 0; i < 3; i++)
        must(post(r, i), "ibv_post_srq_recv");
    say_error("arm", arm(r, 2));
    work_send(r, 8);
    must(ibv_query_srq(r->srq, &attr), "ibv_query_srq");
    say_number("limit", attr.srq_limit);
    work_send(r, 8);
    say_async("event", r);
    must(ibv_query_srq(r->srq, &attr), "ibv_query_srq");
    say_number("limit", attr.srq_limit);
}

static void srq_limit_too_large(struct rig *r)
{
    struct ibv_srq_attr attr;

    pair(r);
    must(ibv_query_srq(r->srq, &attr), "ibv_query_srq");
    say_error("arm", arm(r, attr.max_wr + 1));
}

/* A queue pair in error takes no more shared receives, and an event reports this. The receives stay in the queue. */
static void srq_last_wqe(struct rig *r)
{
    struct ibv_wc wc;

    pair(r);
    must(post(r, 1), "ibv_post_srq_recv");
    rig_state(r->b.qp, IBV_QPS_ERR);
    say_async("event", r);
    say("recv", completion_within(&r->b, &wc, 200) ? "some" : "none");
}

static void srq_too_large(struct rig *r)
{
    struct ibv_device_attr limits;

    must(ibv_query_device(r->context, &limits), "ibv_query_device");
    say_result("create", make(r, (uint32_t)limits.max_srq_wr + 1) != NULL);
}

const struct verbs_case srq_cases[] = {
    {"srq-receive", srq_receive},
    {"srq-post-to-qp", srq_post_to_qp},
    {"srq-overflow", srq_overflow},
    {"srq-too-many-sges", srq_too_many_sges},
    {"srq-empty", srq_empty},
    {"srq-limit", srq_limit},
    {"srq-limit-too-large", srq_limit_too_large},
    {"srq-last-wqe", srq_last_wqe},
    {"srq-too-large", srq_too_large},
    {0},
};
