/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams: lengths, Q_Keys, address handles. What is wrong is dropped without a word, so each of these sends
 * a right one after the wrong one, and says which arrived. */
#include "cases.h"
#include "work.h"

#include <errno.h>

/* The second message is of 32 bytes. */
static void say_arrived(struct rig *r)
{
    struct ibv_wc wc;

    work_send(r, 32);
    if (say_completion("recv", &r->b, &wc) && wc.status == IBV_WC_SUCCESS)
        say_number("bytes", wc.byte_len - 40);
    say_state("b", r->b.qp);
}

static void ud_over_mtu(struct rig *r)
{
    static const uint32_t bytes[] = {0, 256, 512, 1024, 2048, 4096};
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    receive(&r->b, 7, 8192);
    work(&w, r, IBV_WR_SEND, bytes[r->port.active_mtu] + 1);
    work_run(r, &w);
    say_arrived(r);
}

static void ud_of_mtu(struct rig *r)
{
    static const uint32_t bytes[] = {0, 256, 512, 1024, 2048, 4096};
    struct ibv_wc wc;

    rig_pair(r, IBV_QPT_UD);
    receive(&r->b, 7, 8192);
    work_send(r, bytes[r->port.active_mtu]);
    if (say_completion("recv", &r->b, &wc))
        say("bytes", wc.byte_len == bytes[r->port.active_mtu] + 40 ? "all" : "other");
}

static void ud_qkey_wrong(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    receive(&r->b, 7, 8192);
    work(&w, r, IBV_WR_SEND, 64);
    w.wr.wr.ud.remote_qkey++;
    work_run(r, &w);
    say_arrived(r);
}

/* With the highest bit set the sender's own Q_Key is used. */
static void ud_qkey_own(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    receive(&r->b, 7, 8192);
    work(&w, r, IBV_WR_SEND, 64);
    w.wr.wr.ud.remote_qkey = 0x80000000;
    work_run(r, &w);
    say_arrived(r);
}

static void ud_qp_unknown(struct rig *r)
{
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    receive(&r->b, 7, 8192);
    work(&w, r, IBV_WR_SEND, 64);
    w.wr.wr.ud.remote_qpn ^= 0x5a5a00;
    work_run(r, &w);
    say_arrived(r);
}

/* A connected queue pair takes no datagram. */
static void ud_to_rc(struct rig *r)
{
    struct work w;
    struct rig_end other = {.cq = NULL};

    rig_pair(r, IBV_QPT_UD);
    rig_end_open(r, &other);
    rig_qp(r, &other, IBV_QPT_RC, NULL);
    rig_move(other.qp, rig_init(r, IBV_QPT_RC));
    rig_move(other.qp, rig_rtr(r, IBV_QPT_RC, r->a.qp->qp_num));
    receive(&other, 9, 8192);
    receive(&r->b, 7, 8192);
    work(&w, r, IBV_WR_SEND, 64);
    w.wr.wr.ud.remote_qpn = other.qp->qp_num;
    work_run(r, &w);
    say_arrived(r);
    say_state("other", other.qp);
}

static void ud_source(struct rig *r)
{
    struct ibv_wc wc;

    rig_pair(r, IBV_QPT_UD);
    receive(&r->b, 7, 8192);
    work_send(r, 64);
    if (say_completion("recv", &r->b, &wc))
        say("src_qp", wc.src_qp == r->a.qp->qp_num ? "sender" : "other");
}

/* An answer by what came with the message alone. */
static void ud_answer(struct rig *r)
{
    struct ibv_wc wc;
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    receive(&r->b, 7, 8192);
    work_send(r, 64);
    if (!say_completion("recv", &r->b, &wc))
        return;
    struct ibv_grh *grh = (struct ibv_grh *)(void *)(r->b.memory + 8192);
    r->ah = ibv_create_ah_from_wc(r->pd, &wc, grh, 1);
    say_result("ah", r->ah != NULL);
    if (!r->ah)
        return;
    receive(&r->b, 8, 8192);
    work(&w, r, IBV_WR_SEND, 48);
    work_run(r, &w);
    if (say_completion("recv", &r->b, &wc))
        say_number("bytes", wc.byte_len - 40);
}

const struct verbs_case datagram_cases[] = {
    {"ud-over-mtu", ud_over_mtu}, {"ud-of-mtu", ud_of_mtu},         {"ud-qkey-wrong", ud_qkey_wrong},
    {"ud-qkey-own", ud_qkey_own}, {"ud-qp-unknown", ud_qp_unknown}, {"ud-to-rc", ud_to_rc},
    {"ud-source", ud_source},     {"ud-answer", ud_answer},         {0},
};
