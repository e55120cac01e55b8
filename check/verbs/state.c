/* SPDX-License-Identifier: BSD-2-Clause */
/* state.c - transitions between states: invalid transitions, and missing or invalid attributes. */
#include "cases.h"
#include "work.h"

/* Creates a queue pair that can be brought to any state. */
static void one(struct rig *r, enum ibv_qp_type type)
{
    rig_end_open(r, &r->a);
    rig_qp(r, &r->a, type, NULL);
}

static void to_init(struct rig *r, enum ibv_qp_type type)
{
    one(r, type);
    rig_move(r->a.qp, rig_init(r, type));
}
static void to_rtr(struct rig *r, enum ibv_qp_type type)
{
    to_init(r, type);
    rig_move(r->a.qp, rig_rtr(r, type, r->a.qp->qp_num));
}
static void to_rts(struct rig *r, enum ibv_qp_type type)
{
    to_rtr(r, type);
    rig_move(r->a.qp, rig_rts(r, type));
}

static struct change peerless(struct rig *r)
{
    return rig_rtr(r, IBV_QPT_RC, r->a.qp->qp_num);
}

/* Prints the result of ibv_modify_qp(), and the state afterwards. */
static void try(struct rig *r, struct change c)
{
    say_error("modify", ibv_modify_qp(r->a.qp, &c.attr, c.mask));
    say_state("state", r->a.qp);
}

static struct change only_state(enum ibv_qp_state state)
{
    return (struct change){.attr = {.qp_state = state}, .mask = IBV_QP_STATE};
}

static void reset_to_rtr(struct rig *r)
{
    one(r, IBV_QPT_RC);
    try(r, peerless(r));
}
static void reset_to_rts(struct rig *r)
{
    one(r, IBV_QPT_RC);
    try(r, rig_rts(r, IBV_QPT_RC));
}
static void init_to_rts(struct rig *r)
{
    to_init(r, IBV_QPT_RC);
    try(r, rig_rts(r, IBV_QPT_RC));
}
static void init_to_init(struct rig *r)
{
    to_init(r, IBV_QPT_RC);
    try(r, rig_init(r, IBV_QPT_RC));
}
static void rts_to_init(struct rig *r)
{
    to_rts(r, IBV_QPT_RC);
    try(r, rig_init(r, IBV_QPT_RC));
}
static void rts_to_rtr(struct rig *r)
{
    to_rts(r, IBV_QPT_RC);
    try(r, peerless(r));
}
static void error_to_rts(struct rig *r)
{
    to_rts(r, IBV_QPT_RC);
    rig_state(r->a.qp, IBV_QPS_ERR);
    try(r, rig_rts(r, IBV_QPT_RC));
}
static void rts_to_reset(struct rig *r)
{
    to_rts(r, IBV_QPT_RC);
    try(r, only_state(IBV_QPS_RESET));
}
static void error_to_reset_to_init(struct rig *r)
{
    to_rts(r, IBV_QPT_RC);
    rig_state(r->a.qp, IBV_QPS_ERR);
    rig_state(r->a.qp, IBV_QPS_RESET);
    try(r, rig_init(r, IBV_QPT_RC));
}
static void state_unknown(struct rig *r)
{
    one(r, IBV_QPT_RC);
    try(r, only_state(77));
}

/* The transition to INIT without an attribute. */
static void init_without(struct rig *r, enum ibv_qp_type type, int missing)
{
    one(r, type);
    struct change c = rig_init(r, type);
    c.mask &= ~missing;
    try(r, c);
}
static void init_no_port(struct rig *r)
{
    init_without(r, IBV_QPT_RC, IBV_QP_PORT);
}
static void init_no_pkey(struct rig *r)
{
    init_without(r, IBV_QPT_RC, IBV_QP_PKEY_INDEX);
}
static void init_no_access(struct rig *r)
{
    init_without(r, IBV_QPT_RC, IBV_QP_ACCESS_FLAGS);
}
static void ud_init_no_qkey(struct rig *r)
{
    init_without(r, IBV_QPT_UD, IBV_QP_QKEY);
}
static void init_port_wrong(struct rig *r)
{
    one(r, IBV_QPT_RC);
    struct change c = rig_init(r, IBV_QPT_RC);
    c.attr.port_num = 77;
    try(r, c);
}
static void init_pkey_wrong(struct rig *r)
{
    one(r, IBV_QPT_RC);
    struct change c = rig_init(r, IBV_QPT_RC);
    c.attr.pkey_index = 9999;
    try(r, c);
}
static void ud_init_pkey_wrong(struct rig *r)
{
    one(r, IBV_QPT_UD);
    struct change c = rig_init(r, IBV_QPT_UD);
    c.attr.pkey_index = 9999;
    try(r, c);
}
static void init_with_qkey(struct rig *r)
{
    one(r, IBV_QPT_RC);
    struct change c = rig_init(r, IBV_QPT_RC);
    c.mask |= IBV_QP_QKEY;
    try(r, c);
}

/* The transition to RTR without an attribute. */
static void rtr_without(struct rig *r, int missing)
{
    to_init(r, IBV_QPT_RC);
    struct change c = peerless(r);
    c.mask &= ~missing;
    try(r, c);
}
static void rtr_no_address(struct rig *r)
{
    rtr_without(r, IBV_QP_AV);
}
static void rtr_no_psn(struct rig *r)
{
    rtr_without(r, IBV_QP_RQ_PSN);
}
static void rtr_no_timer(struct rig *r)
{
    rtr_without(r, IBV_QP_MIN_RNR_TIMER);
}
static void ud_rtr_with_address(struct rig *r)
{
    to_init(r, IBV_QPT_UD);
    struct change c = rig_rtr(r, IBV_QPT_UD, 0);
    c.mask |= IBV_QP_AV;
    try(r, c);
}
static void rtr_mtu_wrong(struct rig *r)
{
    to_init(r, IBV_QPT_RC);
    struct change c = peerless(r);
    c.attr.path_mtu = 9;
    try(r, c);
}
static void rtr_gid_wrong(struct rig *r)
{
    to_init(r, IBV_QPT_RC);
    struct change c = peerless(r);
    c.attr.ah_attr.grh.sgid_index = 254;
    try(r, c);
}
static void rtr_timer_wrong(struct rig *r)
{
    to_init(r, IBV_QPT_RC);
    struct change c = peerless(r);
    c.attr.min_rnr_timer = 32;
    try(r, c);
}
static void rtr_answers_too_many(struct rig *r)
{
    struct ibv_device_attr limits;

    to_init(r, IBV_QPT_RC);
    must(ibv_query_device(r->context, &limits), "ibv_query_device");
    struct change c = peerless(r);
    c.attr.max_dest_rd_atomic = (uint8_t)(limits.max_qp_rd_atom + 1);
    try(r, c);
}

/* The transition to RTS. */
static void rts_no_psn(struct rig *r)
{
    to_rtr(r, IBV_QPT_RC);
    struct change c = rig_rts(r, IBV_QPT_RC);
    c.mask &= ~IBV_QP_SQ_PSN;
    try(r, c);
}
static void ud_rts_no_psn(struct rig *r)
{
    to_rtr(r, IBV_QPT_UD);
    struct change c = rig_rts(r, IBV_QPT_UD);
    c.mask &= ~IBV_QP_SQ_PSN;
    try(r, c);
}
static void rts_current_wrong(struct rig *r)
{
    to_rtr(r, IBV_QPT_RC);
    struct change c = rig_rts(r, IBV_QPT_RC);
    c.attr.cur_qp_state = IBV_QPS_RTS;
    c.attr.qp_state = IBV_QPS_SQD;
    c.mask = IBV_QP_STATE | IBV_QP_CUR_STATE;
    try(r, c);
}
static void rts_timer_anew(struct rig *r)
{
    to_rts(r, IBV_QPT_RC);
    try(r, (struct change){.attr = {.min_rnr_timer = 20}, .mask = IBV_QP_MIN_RNR_TIMER});
}

/* The send queue is drained (SQD), and continues. */
static void drain(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_RC);
    struct change c = only_state(IBV_QPS_SQD);
    c.attr.en_sqd_async_notify = 1;
    c.mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
    say_error("modify", ibv_modify_qp(r->a.qp, &c.attr, c.mask));
    say_async("event", r);
    rig_state(r->a.qp, IBV_QPS_RTS);
    receive(&r->b, 7, 64);
    work(&w, r, IBV_WR_SEND, 64);
    work_run(r, &w);
}

static void query(struct rig *r)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    to_rts(r, IBV_QPT_RC);
    say_error("query", ibv_query_qp(r->a.qp, &attr, IBV_QP_STATE | IBV_QP_CAP | IBV_QP_RETRY_CNT, &init));
    say_number("retry_cnt", attr.retry_cnt);
    say_number("rnr_retry", attr.rnr_retry);
    say_number("path_mtu", attr.path_mtu);
    say("dest", attr.dest_qp_num == r->a.qp->qp_num ? "itself" : "other");
    say("cap", init.cap.max_send_wr >= 16 && init.cap.max_recv_sge >= 2 ? "enough" : "fewer");
}

const struct verbs_case state_cases[] = {
    {"reset-to-rtr", reset_to_rtr},
    {"reset-to-rts", reset_to_rts},
    {"init-to-init", init_to_init},
    {"init-to-rts", init_to_rts},
    {"rts-to-init", rts_to_init},
    {"rts-to-rtr", rts_to_rtr},
    {"rts-to-reset", rts_to_reset},
    {"error-to-rts", error_to_rts},
    {"error-to-reset-to-init", error_to_reset_to_init},
    {"state-unknown", state_unknown},
    {"init-no-port", init_no_port},
    {"init-no-pkey", init_no_pkey},
    {"init-no-access", init_no_access},
    {"ud-init-no-qkey", ud_init_no_qkey},
    {"init-port-wrong", init_port_wrong},
    {"init-pkey-wrong", init_pkey_wrong},
    {"ud-init-pkey-wrong", ud_init_pkey_wrong},
    {"init-with-qkey", init_with_qkey},
    {"rtr-no-address", rtr_no_address},
    {"rtr-no-psn", rtr_no_psn},
    {"rtr-no-timer", rtr_no_timer},
    {"ud-rtr-with-address", ud_rtr_with_address},
    {"rtr-mtu-wrong", rtr_mtu_wrong},
    {"rtr-gid-wrong", rtr_gid_wrong},
    {"rtr-timer-wrong", rtr_timer_wrong},
    {"rtr-answers-too-many", rtr_answers_too_many},
    {"rts-no-psn", rts_no_psn},
    {"ud-rts-no-psn", ud_rts_no_psn},
    {"rts-current-wrong", rts_current_wrong},
    {"rts-timer-anew", rts_timer_anew},
    {"drain", drain},
    {"query", query},
    {0},
};
