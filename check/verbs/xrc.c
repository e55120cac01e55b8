/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.c - extended reliable connections (XRC): each request of a names a shared receive queue of b. b's end of the
 * connection has no receive queue. */
#include "cases.h"
#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define AT 8192 /* offset of receives in b's memory */

static struct ibv_xrcd *open_domain(struct rig *r)
{
    struct ibv_xrcd_init_attr init = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};

    return ibv_open_xrcd(r->context, &init);
}

/* Opens an XRC domain. If the device does not support it, prints that and ends the case. */
static struct ibv_xrcd *domain(struct rig *r)
{
    struct ibv_xrcd *xrcd = open_domain(r);

    if (!xrcd)
        say_result("xrcd", false);
    return xrcd;
}

static struct ibv_srq_init_attr_ex srq_attr(struct rig *r, struct ibv_xrcd *xrcd)
{
    return (struct ibv_srq_init_attr_ex){.attr = {.max_wr = 16, .max_sge = 1},
                                         .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                                      IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
                                         .srq_type = IBV_SRQT_XRC,
                                         .pd = r->pd,
                                         .xrcd = xrcd,
                                         .cq = r->b.cq};
}

static struct ibv_srq *make_srq(struct rig *r, struct ibv_xrcd *xrcd)
{
    struct ibv_srq_init_attr_ex init = srq_attr(r, xrcd);

    return need(ibv_create_srq_ex(r->context, &init), "ibv_create_srq_ex");
}

static uint32_t number(struct ibv_srq *srq)
{
    uint32_t srqn = 0;

    must(ibv_get_srq_num(srq, &srqn), "ibv_get_srq_num");
    return srqn;
}

static void receive_shared(struct rig *r, struct ibv_srq *srq, uint64_t wr_id)
{
    struct ibv_sge sge = {(uintptr_t)r->b.memory + AT, 8192, r->b.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

    must(ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
}

static struct ibv_qp *make_qp(struct rig *r, struct rig_end *end, struct ibv_xrcd *xrcd)
{
    struct ibv_qp_init_attr_ex init = {
        .qp_type = xrcd ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND,
        .sq_sig_all = 1,
        .comp_mask = xrcd ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD,
        .xrcd = xrcd,
    };

    if (!xrcd) {
        init.pd = r->pd;
        init.send_cq = init.recv_cq = end->cq;
        init.cap.max_send_wr = 16;
        init.cap.max_send_sge = 4;
    }
    return need(ibv_create_qp_ex(r->context, &init), "ibv_create_qp_ex");
}

/* Programs use the same attributes for both ends. */
static void connect_end(struct rig *r, struct ibv_qp *qp, uint32_t peer)
{
    rig_move(qp, rig_init(r, IBV_QPT_RC));
    rig_move(qp, rig_rtr(r, IBV_QPT_RC, peer));
    rig_move(qp, rig_rts(r, IBV_QPT_RC));
}

static void connect_pair(struct rig *r, struct ibv_xrcd *xrcd)
{
    r->rnr_retry = 1;
    rig_end_open(r, &r->a);
    rig_end_open(r, &r->b);
    r->a.qp = make_qp(r, &r->a, NULL);
    r->b.qp = make_qp(r, &r->b, xrcd);
    connect_end(r, r->b.qp, r->a.qp->qp_num);
    connect_end(r, r->a.qp, r->b.qp->qp_num);
}

static void send_to(struct rig *r, enum ibv_wr_opcode opcode, uint32_t srqn, uint32_t length)
{
    struct work w;

    work(&w, r, opcode, length);
    w.wr.qp_type.xrc.remote_srqn = srqn;
    work_run(r, &w);
}

static void say_received(struct rig *r)
{
    struct ibv_wc wc;

    if (!say_completion("recv", &r->b, &wc))
        return;
    say_number("wr_id", (long)wc.wr_id);
    if (wc.status == IBV_WC_SUCCESS)
        say_number("bytes", wc.byte_len);
    say("qp", wc.qp_num == r->b.qp->qp_num ? "b" : "other");
}

/* One connection and two shared receive queues; messages of one packet and of many. */
static void xrc_send(struct rig *r)
{
    struct ibv_xrcd *xrcd = domain(r);
    struct ibv_srq *first, *second;

    if (!xrcd)
        return;
    connect_pair(r, xrcd);
    first = make_srq(r, xrcd);
    second = make_srq(r, xrcd);
    receive_shared(r, first, 1);
    receive_shared(r, second, 2);
    memset(r->a.memory, 'x', 5000);
    send_to(r, IBV_WR_SEND, number(second), 5000);
    say_received(r);
    say("memory", memcmp(r->b.memory + AT, r->a.memory, 5000) == 0 ? "same" : "other");
    send_to(r, IBV_WR_SEND_WITH_IMM, number(first), 64);
    say_received(r);
}

static void xrc_one_sided(struct rig *r)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                                 IBV_WR_RDMA_READ};
    struct ibv_xrcd *xrcd = domain(r);
    struct ibv_srq *srq;

    if (!xrcd)
        return;
    connect_pair(r, xrcd);
    srq = make_srq(r, xrcd);
    receive_shared(r, srq, 3);
    for (int i = 0; i < 3; i++)
        send_to(r, opcodes[i], number(srq), 5000);
    send_to(r, IBV_WR_ATOMIC_FETCH_AND_ADD, number(srq), 8);
    say_received(r);
}

/* b's memory contains 1000 before the atomic. */
static void atomic_to(struct rig *r, enum ibv_wr_opcode opcode, uint32_t srqn, uint64_t compare_add)
{
    struct work w;
    uint64_t value;

    work(&w, r, opcode, sizeof(value));
    w.wr.qp_type.xrc.remote_srqn = srqn;
    w.wr.wr.atomic.compare_add = compare_add;
    w.wr.wr.atomic.swap = 5;
    work_run(r, &w);
    memcpy(&value, r->a.memory, sizeof(value));
    say_number("was", (long)value);
    memcpy(&value, r->b.memory, sizeof(value));
    say_number("is", (long)value);
}

static void xrc_atomics(struct rig *r)
{
    struct ibv_xrcd *xrcd = domain(r);
    uint64_t value = 1000;
    struct ibv_srq *srq;

    if (!xrcd)
        return;
    connect_pair(r, xrcd);
    srq = make_srq(r, xrcd);
    memcpy(r->b.memory, &value, sizeof(value));
    atomic_to(r, IBV_WR_ATOMIC_FETCH_AND_ADD, number(srq), 23);
    atomic_to(r, IBV_WR_ATOMIC_CMP_AND_SWP, number(srq), 1023);
}

/* Posts by the calls that build a request in several steps (ibv_wr_start() and others). */
static void xrc_pieces(struct rig *r)
{
    struct ibv_xrcd *xrcd = domain(r);
    struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_SEND,
                                       .cap = {.max_send_wr = 4, .max_send_sge = 1},
                                       .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .pd = r->pd,
                                       .send_ops_flags = IBV_QP_EX_WITH_SEND};
    struct ibv_qp_ex *ex;
    struct ibv_srq *srq;
    struct ibv_wc wc;

    if (!xrcd)
        return;
    connect_pair(r, xrcd);
    srq = make_srq(r, xrcd);
    receive_shared(r, srq, 4);
    init.send_cq = r->a.cq;
    r->a.qp = need(ibv_create_qp_ex(r->context, &init), "ibv_create_qp_ex");
    rig_state(r->b.qp, IBV_QPS_RESET);
    connect_end(r, r->b.qp, r->a.qp->qp_num);
    connect_end(r, r->a.qp, r->b.qp->qp_num);
    ex = ibv_qp_to_qp_ex(r->a.qp);
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    ibv_wr_set_xrc_srqn(ex, number(srq));
    ibv_wr_set_sge(ex, r->a.mr->lkey, (uintptr_t)r->a.memory, 100);
    say_error("complete", ibv_wr_complete(ex));
    say_completion("send", &r->a, &wc);
    say_received(r);
}

static void xrc_srq_unknown(struct rig *r)
{
    struct ibv_xrcd *xrcd = domain(r);
    struct ibv_srq *srq;

    if (!xrcd)
        return;
    connect_pair(r, xrcd);
    srq = make_srq(r, xrcd);
    receive_shared(r, srq, 1);
    send_to(r, IBV_WR_SEND, number(srq) ^ 0x5a5a, 64);
    say_state("a", r->a.qp);
    say_state("b", r->b.qp);
}

static void xrc_srq_of_another_domain(struct rig *r)
{
    struct ibv_xrcd *xrcd = domain(r);
    struct ibv_srq *srq;

    if (!xrcd)
        return;
    connect_pair(r, xrcd);
    srq = make_srq(r, need(open_domain(r), "ibv_open_xrcd"));
    receive_shared(r, srq, 1);
    send_to(r, IBV_WR_SEND, number(srq), 64);
}

static void xrc_srq_gone(struct rig *r)
{
    struct ibv_xrcd *xrcd = domain(r);
    struct ibv_srq *srq;
    uint32_t srqn;

    if (!xrcd)
        return;
    connect_pair(r, xrcd);
    srq = make_srq(r, xrcd);
    srqn = number(srq);
    receive_shared(r, srq, 1);
    send_to(r, IBV_WR_SEND, srqn, 64);
    say_received(r);
    say_error("destroy", ibv_destroy_srq(srq));
    send_to(r, IBV_WR_RDMA_READ, srqn, 64);
}

static void xrc_not_ready(struct rig *r)
{
    struct ibv_xrcd *xrcd = domain(r);

    if (!xrcd)
        return;
    connect_pair(r, xrcd);
    send_to(r, IBV_WR_SEND, number(make_srq(r, xrcd)), 64);
}

static void xrc_post(struct rig *r)
{
    struct ibv_xrcd *xrcd = domain(r);
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
    struct ibv_recv_wr recv = {.num_sge = 0}, *bad_recv;

    if (!xrcd)
        return;
    connect_pair(r, xrcd);
    say_error("send_to_receiver", ibv_post_send(r->b.qp, &send, &bad_send));
    say_error("recv_to_receiver", ibv_post_recv(r->b.qp, &recv, &bad_recv));
    say_error("recv_to_sender", ibv_post_recv(r->a.qp, &recv, &bad_recv));
}

static void xrc_domain_held(struct rig *r)
{
    struct ibv_xrcd *xrcd = domain(r);
    struct ibv_srq *srq;

    if (!xrcd)
        return;
    connect_pair(r, xrcd);
    srq = make_srq(r, xrcd);
    say_error("close", ibv_close_xrcd(xrcd));
    say_error("cq", ibv_destroy_cq(r->b.cq));
    must(ibv_destroy_srq(srq), "ibv_destroy_srq");
    say_error("close", ibv_close_xrcd(xrcd));
    must(ibv_destroy_qp(r->b.qp), "ibv_destroy_qp");
    say_error("close", ibv_close_xrcd(xrcd));
}

static void xrc_parts_missing(struct rig *r)
{
    struct ibv_xrcd *xrcd = domain(r);
    struct ibv_srq_init_attr_ex init;
    struct ibv_qp_init_attr plain = {.qp_type = IBV_QPT_XRC_RECV};

    if (!xrcd)
        return;
    rig_end_open(r, &r->b);
    init = srq_attr(r, xrcd);
    init.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_XRCD;
    say_result("no_domain", ibv_create_srq_ex(r->context, &init) != NULL);
    init = srq_attr(r, xrcd);
    init.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ;
    say_result("no_cq", ibv_create_srq_ex(r->context, &init) != NULL);
    plain.send_cq = plain.recv_cq = r->b.cq;
    say_result("qp_without_domain", ibv_create_qp(r->pd, &plain) != NULL);
}

const struct verbs_case xrc_cases[] = {
    {"xrc-send", xrc_send},
    {"xrc-one-sided", xrc_one_sided},
    {"xrc-atomics", xrc_atomics},
    {"xrc-pieces", xrc_pieces},
    {"xrc-srq-unknown", xrc_srq_unknown},
    {"xrc-srq-of-another-domain", xrc_srq_of_another_domain},
    {"xrc-srq-gone", xrc_srq_gone},
    {"xrc-not-ready", xrc_not_ready},
    {"xrc-post", xrc_post},
    {"xrc-domain-held", xrc_domain_held},
    {"xrc-parts-missing", xrc_parts_missing},
    {0},
};
