/* SPDX-License-Identifier: BSD-2-Clause */
/* mcast.c - multicast groups: attaching b's queue pair, and datagrams to a group. */
#include "cases.h"
#include "work.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define GROUP_QPN 0xffffff

/* Returns a group address 239.255.x.y, which is local to the site. `which` distinguishes the groups of a case. */
static union ibv_gid group(uint8_t which)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 255, [14] = 18, [15] = which}};

    return gid;
}

/* Returns the index of the GID of an IPv4 address, from which IPv4 groups can be reached. */
static uint8_t ipv4_index(struct rig *r)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    union ibv_gid gid;

    for (int i = 0; i < r->port.gid_tbl_len && ibv_query_gid(r->context, 1, i, &gid) == 0; i++)
        if (memcmp(gid.raw, mapped, sizeof(mapped)) == 0)
            return (uint8_t)i;
    give_up("no IPv4 address", EADDRNOTAVAIL);
}

/* Prepares a request of a to a group, and posts a receive of b. */
static void work_to_group(struct rig *r, struct work *w, const union ibv_gid *gid)
{
    struct ibv_ah_attr to = rig_path(r);

    to.is_global = 1;
    to.grh.sgid_index = ipv4_index(r);
    to.grh.dgid = *gid;
    work(w, r, IBV_WR_SEND, 64);
    w->wr.wr.ud.ah = need(ibv_create_ah(r->pd, &to), "ibv_create_ah");
    w->wr.wr.ud.remote_qpn = GROUP_QPN;
}

static void say_came(struct rig *r, const union ibv_gid *gid)
{
    struct ibv_wc wc;
    struct in_addr to;

    if (!say_completion("recv", &r->b, &wc) || wc.status != IBV_WC_SUCCESS)
        return;
    memcpy(&to, r->b.memory + 8192 + 36, sizeof(to)); /* destination in the received header */
    say_number("bytes", wc.byte_len - 40);
    say("to", memcmp(&to, gid->raw + 12, sizeof(to)) == 0 ? "group" : "other");
}

static void mcast_send(struct rig *r)
{
    union ibv_gid gid = group(1);
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    must(ibv_attach_mcast(r->b.qp, &gid, 0xc000), "ibv_attach_mcast");
    receive(&r->b, 7, 8192);
    work_to_group(r, &w, &gid);
    work_run(r, &w);
    say_came(r, &gid);
}

/* Sends a second datagram to b only, and prints which has arrived first. */
static void say_second(struct rig *r)
{
    struct ibv_wc wc;

    work_send(r, 32);
    if (say_completion("recv", &r->b, &wc) && wc.status == IBV_WC_SUCCESS)
        say_number("bytes", wc.byte_len - 40);
}

static void mcast_other_group(struct rig *r)
{
    union ibv_gid gid = group(2), other = group(3);
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    must(ibv_attach_mcast(r->b.qp, &gid, 0xc000), "ibv_attach_mcast");
    receive(&r->b, 7, 8192);
    work_to_group(r, &w, &other);
    work_run(r, &w);
    say_second(r);
}

static void mcast_detached(struct rig *r)
{
    union ibv_gid gid = group(4);
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    must(ibv_attach_mcast(r->b.qp, &gid, 0xc000), "ibv_attach_mcast");
    say_error("detach", ibv_detach_mcast(r->b.qp, &gid, 0xc000));
    receive(&r->b, 7, 8192);
    work_to_group(r, &w, &gid);
    work_run(r, &w);
    say_second(r);
}

/* A datagram to a group's address with the number of b's queue pair is dropped. */
static void mcast_qp_named(struct rig *r)
{
    union ibv_gid gid = group(5);
    struct work w;

    rig_pair(r, IBV_QPT_UD);
    must(ibv_attach_mcast(r->b.qp, &gid, 0xc000), "ibv_attach_mcast");
    receive(&r->b, 7, 8192);
    work_to_group(r, &w, &gid);
    w.wr.wr.ud.remote_qpn = r->b.qp->qp_num;
    work_run(r, &w);
    say_second(r);
}

static void mcast_twice(struct rig *r)
{
    union ibv_gid gid = group(6);

    rig_pair(r, IBV_QPT_UD);
    say_error("attach", ibv_attach_mcast(r->b.qp, &gid, 0xc000));
    say_error("attach", ibv_attach_mcast(r->b.qp, &gid, 0xc000));
    say_error("detach", ibv_detach_mcast(r->b.qp, &gid, 0xc000));
    say_error("detach", ibv_detach_mcast(r->b.qp, &gid, 0xc000));
}

static void mcast_no_group(struct rig *r)
{
    rig_pair(r, IBV_QPT_UD);
    say_error("attach", ibv_attach_mcast(r->b.qp, &r->gid, 0xc000));
}

static void mcast_connected(struct rig *r)
{
    union ibv_gid gid = group(7);

    rig_pair(r, IBV_QPT_RC);
    say_error("attach", ibv_attach_mcast(r->b.qp, &gid, 0xc000));
}

static void mcast_held(struct rig *r)
{
    union ibv_gid gid = group(8);

    rig_pair(r, IBV_QPT_UD);
    must(ibv_attach_mcast(r->b.qp, &gid, 0xc000), "ibv_attach_mcast");
    say_error("destroy", ibv_destroy_qp(r->b.qp));
    must(ibv_detach_mcast(r->b.qp, &gid, 0xc000), "ibv_detach_mcast");
    say_error("destroy", ibv_destroy_qp(r->b.qp));
}

const struct verbs_case mcast_cases[] = {
    {"mcast-send", mcast_send},
    {"mcast-other-group", mcast_other_group},
    {"mcast-detached", mcast_detached},
    {"mcast-qp-named", mcast_qp_named},
    {"mcast-twice", mcast_twice},
    {"mcast-no-group", mcast_no_group},
    {"mcast-connected", mcast_connected},
    {"mcast-held", mcast_held},
    {0},
};
