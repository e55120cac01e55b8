/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c - invalid posts: too many requests or elements, a wrong opcode, a wrong state. */
#include "cases.h"
#include "work.h"

#include <errno.h>
#include <stdlib.h>

/* Posts requests until one is refused. Prints the error, and whether at least as many requests as the queue's depth
 * were accepted. */
static void fill(struct rig *r, int (*post)(struct rig *r, uint64_t wr_id))
{
    uint32_t count = 0;
    int rc;

    do
        rc = post(r, count);
    while (rc == 0 && ++count < 100000);
    say_error("post", rc);
    say("fitted", count >= r->depth ? "enough" : "fewer");
    say("all", count <= 2 * r->depth ? "bounded" : "too many");
}

static int fill_send(struct rig *r, uint64_t wr_id)
{
    struct ibv_send_wr *bad = NULL;
    struct work w;

    work(&w, r, IBV_WR_SEND, 8);
    w.wr.wr_id = wr_id;
    int rc = ibv_post_send(r->a.qp, &w.wr, &bad);
    if (rc != 0)
        say("bad_wr", bad == &w.wr ? "it" : "other");
    return rc;
}

/* There is no peer, so posted requests do not complete. */
static void sq_overflow(struct rig *r)
{
    r->timeout = 0;
    rig_half(r);
    fill(r, fill_send);
}

static int fill_receive(struct rig *r, uint64_t wr_id)
{
    struct ibv_sge sge = {.addr = (uintptr_t)r->a.memory, .length = 8, .lkey = r->a.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
    int rc = ibv_post_recv(r->a.qp, &wr, &bad);

    if (rc != 0)
        say("bad_wr", bad == &wr ? "it" : "other");
    return rc;
}
static void rq_overflow(struct rig *r)
{
    rig_half(r);
    fill(r, fill_receive);
}

static void send_too_many_sges(struct rig *r)
{
    struct work w;
    struct ibv_sge *sges = need(calloc(r->sges + 64, sizeof(*sges)), "calloc");

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_SEND, 8);
    for (uint32_t i = 0; i <= r->sges; i++)
        sges[i] = w.sges[0];
    w.wr.sg_list = sges;
    w.wr.num_sge = (int)r->sges + 1;
    work_run(r, &w);
}

static void recv_too_many_sges(struct rig *r)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;

    rig_pair(r, IBV_QPT_RC);
    must(ibv_query_qp(r->b.qp, &attr, IBV_QP_CAP, &init), "ibv_query_qp");
    struct ibv_sge *sges = need(calloc(init.cap.max_recv_sge + 1, sizeof(*sges)), "calloc");
    wr.sg_list = sges;
    wr.num_sge = (int)init.cap.max_recv_sge + 1;
    say_error("post", ibv_post_recv(r->b.qp, &wr, &bad));
    say("bad_wr", bad == &wr ? "it" : "other");
}

static void inline_too_long(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_SEND, r->inline_data + 1);
    w.wr.send_flags |= IBV_SEND_INLINE;
    work_run(r, &w);
}

static void opcode_unknown(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_SEND, 8);
    w.wr.opcode = 200;
    work_run(r, &w);
}
static void uc_read(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_UC);
    work(&w, r, IBV_WR_RDMA_READ, 8);
    work_run(r, &w);
}
static void ud_write(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    work(&w, r, IBV_WR_RDMA_WRITE, 8);
    work_run(r, &w);
}

static void ud_read(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    work(&w, r, IBV_WR_RDMA_READ, 8);
    work_run(r, &w);
}
static void ud_add(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    work(&w, r, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
    work_run(r, &w);
}

/* The requests of a list before the invalid one are executed. */
static void list_second_bad(struct rig *r)
{
    struct work first, second, third;
    struct ibv_send_wr *bad = NULL;
    struct ibv_wc wc;

    rig_pair(r, IBV_QPT_RC);
    receive(&r->b, 7, 64);
    receive(&r->b, 8, 64);
    work(&first, r, IBV_WR_SEND, 16);
    work(&second, r, IBV_WR_SEND, r->inline_data + 1);
    work(&third, r, IBV_WR_SEND, 16);
    second.wr.send_flags |= IBV_SEND_INLINE;
    first.wr.next = &second.wr;
    second.wr.next = &third.wr;
    say_error("post", ibv_post_send(r->a.qp, &first.wr, &bad));
    say("bad_wr", bad == &second.wr ? "second" : "other");
    say_completion("send", &r->a, &wc);
    say("more", completion_within(&r->a, &wc, 200) ? "yes" : "none");
}

/* Creates a queue pair and brings it to this state. */
static void as_far_as(struct rig *r, enum ibv_qp_state state)
{
    rig_end_open(r, &r->a);
    rig_end_open(r, &r->b);
    rig_qp(r, &r->a, IBV_QPT_RC, NULL);
    rig_qp(r, &r->b, IBV_QPT_RC, NULL);
    if (state >= IBV_QPS_INIT)
        rig_move(r->a.qp, rig_init(r, IBV_QPT_RC));
    if (state == IBV_QPS_RTR)
        rig_move(r->a.qp, rig_rtr(r, IBV_QPT_RC, r->b.qp->qp_num));
    if (state == IBV_QPS_ERR)
        rig_state(r->a.qp, IBV_QPS_ERR);
}

static void send_in(struct rig *r, enum ibv_qp_state state)
{
    struct work w;

    as_far_as(r, state);
    work(&w, r, IBV_WR_SEND, 8);
    work_run(r, &w);
}
static void send_in_reset(struct rig *r)
{
    send_in(r, IBV_QPS_RESET);
}
static void send_in_init(struct rig *r)
{
    send_in(r, IBV_QPS_INIT);
}
static void send_in_rtr(struct rig *r)
{
    send_in(r, IBV_QPS_RTR);
}
static void send_in_error(struct rig *r)
{
    send_in(r, IBV_QPS_ERR);
}

static void recv_in(struct rig *r, enum ibv_qp_state state)
{
    struct ibv_wc wc;

    as_far_as(r, state);
    say_error("post", receive_at(&r->a, 7, 0, 8, r->a.mr->lkey));
    if (state == IBV_QPS_ERR)
        say_completion("recv", &r->a, &wc);
}
static void recv_in_reset(struct rig *r)
{
    recv_in(r, IBV_QPS_RESET);
}
static void recv_in_init(struct rig *r)
{
    recv_in(r, IBV_QPS_INIT);
}
static void recv_in_error(struct rig *r)
{
    recv_in(r, IBV_QPS_ERR);
}

const struct verbs_case post_cases[] = {
    {"sq-overflow", sq_overflow},
    {"rq-overflow", rq_overflow},
    {"send-too-many-sges", send_too_many_sges},
    {"recv-too-many-sges", recv_too_many_sges},
    {"inline-too-long", inline_too_long},
    {"opcode-unknown", opcode_unknown},
    {"uc-read", uc_read},
    {"ud-write", ud_write},
    {"ud-read", ud_read},
    {"ud-add", ud_add},
    {"list-second-bad", list_second_bad},
    {"send-in-reset", send_in_reset},
    {"send-in-init", send_in_init},
    {"send-in-rtr", send_in_rtr},
    {"send-in-error", send_in_error},
    {"recv-in-reset", recv_in_reset},
    {"recv-in-init", recv_in_init},
    {"recv-in-error", recv_in_error},
    {0},
};
