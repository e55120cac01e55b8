/* SPDX-License-Identifier: BSD-2-Clause */
/* datagram.c - datagrams: lengths, Q_Keys, address handles. An invalid datagram is dropped silently, so each case sends
 * a valid one after the invalid one, and prints which has arrived. */
#include "cases.h"
#include "work.h"

#include <errno.h>
#include <netinet/in.h>

/* Prints which message has arrived first: the second one has 32 bytes. */
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
    say_state("a", r->a.qp);
    must(ibv_modify_qp(r->a.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_STATE), "ibv_modify_qp");
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

/* If the highest bit of the Q_Key in the request is set, the sender's Q_Key is used. */
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

/* A connected queue pair drops datagrams. */
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

/* Answers a message by an address handle that is built from its completion and GRH only. */
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

/* In a completion of RoCE the field of the service level has the type of the packet: bit 3 for a UDP header, and the
 * version of IP. */
static void ud_packet_type(struct rig *r)
{
    struct ibv_wc wc;
    bool ipv4;

    rig_pair(r, IBV_QPT_UD);
    ipv4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)r->gid.raw);
    receive(&r->b, 7, 8192);
    work_send(r, 64);
    if (say_completion("recv", &r->b, &wc))
        say("type", wc.sl == (ipv4 ? 10 : 9) ? "told" : "not told");
}

/* The address handle belongs to another protection domain than the queue pair. */
static void ud_other_pd(struct rig *r)
{
    struct ibv_pd *pd = need(ibv_alloc_pd(r->context), "ibv_alloc_pd");
    struct ibv_ah_attr path = rig_path(r);
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    receive(&r->b, 7, 8192);
    work(&w, r, IBV_WR_SEND, 64);
    w.wr.wr.ud.ah = need(ibv_create_ah(pd, &path), "ibv_create_ah");
    work_run(r, &w);
    say("arrived", completion_within(&r->b, &(struct ibv_wc){0}, 200) ? "yes" : "no");
}

/* Returns the traffic class in the GRH at the start of the receive buffer: an IPv4 header in its second half, or an
 * IPv6 header. */
static uint8_t traffic_class_of(const uint8_t *grh)
{
    return (uint8_t)(grh[0] >> 4 == 6 ? grh[0] << 4 | grh[1] >> 4 : grh[21]);
}

/* Sends with an address handle that has a traffic class, then with one that has none: the receiver sees the difference.
 * An answer by an address handle that is built from the message has the same class. */
static void ud_traffic_class(struct rig *r)
{
    struct ibv_ah *plain;
    struct ibv_ah_attr path = rig_path(r);
    struct ibv_wc wc;
    const uint8_t *grh;

    rig_pair(r, IBV_QPT_UD);
    grh = (const uint8_t *)r->b.memory + 8192;
    plain = r->ah;
    path.grh.traffic_class = 0x88;
    r->ah = need(ibv_create_ah(r->pd, &path), "ibv_create_ah");
    receive(&r->b, 7, 4096);
    work_send(r, 64);
    if (!say_completion("recv", &r->b, &wc))
        return;
    say_number("class", traffic_class_of(grh));
    must(ibv_init_ah_from_wc(r->context, 1, &wc, (struct ibv_grh *)(void *)(r->b.memory + 8192), &path),
         "ibv_init_ah_from_wc");
    say_number("answer", path.grh.traffic_class);
    r->ah = plain;
    receive(&r->b, 8, 4096);
    work_send(r, 64);
    if (say_completion("recv", &r->b, &wc))
        say_number("class", traffic_class_of(grh));
}

const struct verbs_case datagram_cases[] = {
    {"ud-over-mtu", ud_over_mtu},       {"ud-of-mtu", ud_of_mtu},
    {"ud-qkey-wrong", ud_qkey_wrong},   {"ud-qkey-own", ud_qkey_own},
    {"ud-qp-unknown", ud_qp_unknown},   {"ud-to-rc", ud_to_rc},
    {"ud-source", ud_source},           {"ud-answer", ud_answer},
    {"ud-other-pd", ud_other_pd},       {"ud-traffic-class", ud_traffic_class},
    {"ud-packet-type", ud_packet_type}, {0},
};
