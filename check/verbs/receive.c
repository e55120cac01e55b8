/* SPDX-License-Identifier: BSD-2-Clause */
/* receive.c - receives that are too short or missing. */
#include "cases.h"
#include "work.h"

static void too_short(struct rig *r, uint32_t buffer, uint32_t message)
{
    struct work w;
    struct ibv_wc wc;

    rig_pair(r, IBV_QPT_RC);
    receive(&r->b, 7, buffer);
    work(&w, r, IBV_WR_SEND, message);
    work_run(r, &w);
    say_completion("recv", &r->b, &wc);
    say_state("a", r->a.qp);
    say_state("b", r->b.qp);
}
static void recv_too_short(struct rig *r)
{
    too_short(r, 63, 64);
}
static void recv_too_short_long(struct rig *r)
{
    too_short(r, 4000, 8000);
}

/* A message that does not fit is dropped; the next message may use the receive. */
static void dropped_too_short(struct rig *r, enum ibv_qp_type type, uint32_t extra)
{
    struct ibv_wc wc;

    rig_pair(r, type);
    receive(&r->b, 7, 63 + extra);
    work_send(r, 64);
    work_send(r, 32);
    if (say_completion("recv", &r->b, &wc) && wc.status == IBV_WC_SUCCESS)
        say_number("bytes", wc.byte_len - extra);
    say_state("b", r->b.qp);
}
static void uc_recv_too_short(struct rig *r)
{
    dropped_too_short(r, IBV_QPT_UC, 0);
}
static void ud_recv_too_short(struct rig *r)
{
    dropped_too_short(r, IBV_QPT_UD, 40);
}

/* b has no receive. a's queue pair goes to the error state; b's does not. */
static void not_ready(struct rig *r, enum ibv_wr_opcode opcode)
{
    struct work w;

    r->rnr_retry = 1;
    rig_pair(r, IBV_QPT_RC);
    work(&w, r, opcode, 64);
    work_outcome(r, &w);
}
static void rnr_exhausted(struct rig *r)
{
    not_ready(r, IBV_WR_SEND);
}
static void rnr_write_imm(struct rig *r)
{
    not_ready(r, IBV_WR_RDMA_WRITE_WITH_IMM);
}
/* A write without immediate data needs no receive. */
static void rnr_write(struct rig *r)
{
    not_ready(r, IBV_WR_RDMA_WRITE);
}

/* rnr_retry 7 means no limit: a receive that is posted late is used. */
static void rnr_waits(struct rig *r)
{
    struct work w;
    struct ibv_wc wc;

    rig_pair(r, IBV_QPT_RC);
    work(&w, r, IBV_WR_SEND, 64);
    work_post(r, &w);
    say("early", completion_within(&r->a, &wc, 200) ? "yes" : "none");
    receive(&r->b, 7, 64);
    say_completion("send", &r->a, &wc);
    say_completion("recv", &r->b, &wc);
}

/* The first message is dropped, the second one arrives. */
static void dropped(struct rig *r, enum ibv_qp_type type, uint32_t extra)
{
    struct ibv_wc wc;

    rig_pair(r, type);
    work_send(r, 64);
    /* The sender's completion does not imply that the message has arrived. */
    say("early", completion_within(&r->b, &wc, 300) ? "yes" : "none");
    receive(&r->b, 7, 64 + extra);
    work_send(r, 32);
    if (say_completion("recv", &r->b, &wc))
        say_number("bytes", wc.byte_len - extra);
}
static void uc_no_receive(struct rig *r)
{
    dropped(r, IBV_QPT_UC, 0);
}
static void ud_no_receive(struct rig *r)
{
    dropped(r, IBV_QPT_UD, 40);
}

const struct verbs_case receive_cases[] = {
    {"recv-too-short", recv_too_short},
    {"recv-too-short-long", recv_too_short_long},
    {"uc-recv-too-short", uc_recv_too_short},
    {"ud-recv-too-short", ud_recv_too_short},
    {"rnr-exhausted", rnr_exhausted},
    {"rnr-write-imm", rnr_write_imm},
    {"rnr-write", rnr_write},
    {"rnr-waits", rnr_waits},
    {"uc-no-receive", uc_no_receive},
    {"ud-no-receive", ud_no_receive},
    {0},
};
