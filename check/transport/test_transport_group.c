/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_group.c - multicast groups in the engine: which queue pairs may be attached, and that only they
 * receive the group's datagrams.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "check/support/endpoints.h"
#include "soft/engine/context.h"
#include "soft/engine/group.h"

#define GRH 40
#define QKEY 0x11111111u /* setup_default's */
#define SENDER 0x4242
#define BYTES 50

/* ---- A wire that counts its calls ---- */

static struct {
    int listens, error;
    unsigned interface; /* interface of the last join, for interface-local and link-local groups */
} wire;

static int join(struct soft_wire *soft_wire, const union soft_addr *group)
{
    (void)soft_wire;
    if (wire.error == 0)
        wire.listens++;
    if (group->sa.sa_family == AF_INET6)
        wire.interface = group->in6.sin6_scope_id;
    return wire.error;
}

static void leave(struct soft_wire *soft_wire, const union soft_addr *group)
{
    (void)soft_wire, (void)group;
    wire.listens--;
}

static struct pair *pair_of(enum ibv_qp_type type, int family)
{
    struct setup setup = setup_default();
    struct pair *pair;

    setup.type = type;
    setup.names = true;
    setup.family = family;
    pair = pair_new(&setup);
    memset(&wire, 0, sizeof wire);
    soft_wire_of(pair->end[1].context)->join = join;
    soft_wire_of(pair->end[1].context)->leave = leave;
    return pair;
}

/* ---- Groups and datagrams ---- */

static const char *const groups[] = {"239.1.2.3", "ff05::1234"}, *const others[] = {"239.1.2.4", "ff05::1235"};
static const int families[] = {AF_INET, AF_INET6};

static union ibv_gid gid_of(const char *text)
{
    char mapped[64];
    union ibv_gid gid;

    snprintf(mapped, sizeof mapped, "%s%s", strchr(text, ':') == NULL ? "::ffff:" : "", text);
    ck_assert_int_eq(inet_pton(AF_INET6, mapped, &gid), 1);
    return gid;
}

static int attach(struct ibv_qp *qp, const char *group)
{
    union ibv_gid gid = gid_of(group);

    return soft_attach_mcast(qp, &gid, 0);
}

static int detach(struct ibv_qp *qp, const char *group)
{
    union ibv_gid gid = gid_of(group);

    return soft_detach_mcast(qp, &gid, 0);
}

static struct roce datagram(void)
{
    static const uint8_t payload[BYTES] = "to all of you";

    return (struct roce){.opcode = ROCE_UD + SEND_ONLY,
                         .pkey = 0xffff,
                         .qpn = SOFT_GROUP_QPN,
                         .has_deth = true,
                         .qkey = QKEY,
                         .source = SENDER,
                         .payload = payload,
                         .payload_length = BYTES};
}

static void arrive(struct pair *pair, const char *at, const struct roce *roce)
{
    struct soft_path path;
    uint8_t packet[ROCE_MAX];

    network_path(pair->network, 1, 0, &path);
    if (path.local.sa.sa_family == AF_INET)
        ck_assert_int_eq(inet_pton(AF_INET, at, &path.local.in.sin_addr), 1);
    else
        ck_assert_int_eq(inet_pton(AF_INET6, at, &path.local.in6.sin6_addr), 1);
    network_inject_on(pair->network, 1, &path, packet, roce_write(packet, roce));
}

static uint64_t refused(struct pair *pair)
{
    return counters_of(&pair->end[1]).refused;
}

/* One more queue pair at the second end, in RTS or in its first state. */
static struct ibv_qp *another(struct pair *pair, bool ready)
{
    struct ibv_qp *qp = qp_new(&pair->end[1], &pair->setup);

    if (ready)
        qp_connect(&pair->end[1], qp, 0, pair->end[0].qpn, 1, 1, &pair->setup);
    return qp;
}

static void post_to(struct ibv_qp *qp, struct end *end, uint64_t id)
{
    struct ibv_sge sge = {.addr = (uintptr_t)end->memory + 1000 * id, .length = 1000, .lkey = end->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

    ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
}

/* Returns the receives that completed, one bit each; all of them have the same datagram. */
static unsigned received(struct end *end)
{
    struct ibv_wc wc;
    unsigned all = 0;

    while (ibv_poll_cq(end->recv_cq, 1, &wc) == 1) {
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        ck_assert_uint_eq(wc.byte_len, GRH + BYTES);
        ck_assert_uint_eq(wc.src_qp, SENDER);
        ck_assert_str_eq((char *)end->memory + 1000 * wc.wr_id + GRH, "to all of you");
        all |= 1u << wc.wr_id;
    }
    return all;
}

/* ---- Reception ---- */

START_TEST(each_member_has_it)
{
    struct pair *pair = pair_of(IBV_QPT_UD, families[_i]);
    struct end *b = &pair->end[1];
    struct ibv_qp *second = another(pair, true), *stranger = another(pair, true);
    struct roce roce = datagram();

    ck_assert_int_eq(attach(b->qp, groups[_i]), 0);
    ck_assert_int_eq(attach(second, groups[_i]), 0);
    ck_assert_int_eq(attach(stranger, others[_i]), 0);
    post_to(b->qp, b, 1);
    post_to(second, b, 2);
    post_to(stranger, b, 3);
    arrive(pair, groups[_i], &roce);
    ck_assert_uint_eq(received(b), 1u << 1 | 1u << 2);
    arrive(pair, others[_i], &roce);
    ck_assert_uint_eq(received(b), 1u << 3);
    ck_assert_uint_eq(refused(pair), 0);
    ck_assert_int_eq(detach(second, groups[_i]), 0);
    post_to(b->qp, b, 1);
    post_to(second, b, 2);
    arrive(pair, groups[_i], &roce);
    ck_assert_uint_eq(received(b), 1u << 1);
    ck_assert_int_eq(detach(b->qp, groups[_i]), 0);
    ck_assert_int_eq(detach(stranger, others[_i]), 0);
    post_to(b->qp, b, 1);
    arrive(pair, groups[_i], &roce);
    ck_assert_uint_eq(received(b), 0);
    ck_assert_uint_eq(refused(pair), 1);
    ck_assert_int_eq(soft_destroy_qp(second), 0);
    ck_assert_int_eq(soft_destroy_qp(stranger), 0);
    pair_free(pair);
}
END_TEST

/* A packet that is no datagram, of another partition, or with another Q_Key; or one to a group's address with the
 * number of a queue pair, existing or not: no queue pair receives these. */
START_TEST(nobody_has_it)
{
    struct pair *pair = pair_of(IBV_QPT_UD, AF_INET);
    struct end *b = &pair->end[1];
    struct roce roce = datagram();
    const struct roce good = roce;

    ck_assert_int_eq(attach(b->qp, groups[0]), 0);
    post_to(b->qp, b, 1);
    switch (_i) {
    case 0:
        roce.opcode = ROCE_RC + SEND_ONLY;
        roce.has_deth = false;
        break;
    case 1:
        roce.pkey = 0x1234;
        break;
    case 2:
        roce.qkey++;
        break;
    case 3:
        roce.qpn = b->qpn;
        break;
    default:
        roce.qpn = b->qpn ^ 1;
    }
    arrive(pair, groups[0], &roce);
    ck_assert_uint_eq(received(b), 0);
    ck_assert_uint_eq(refused(pair), _i != 4);
    ck_assert_uint_eq(counters_of(b).malformed, _i == 4);
    arrive(pair, groups[0], &good);
    ck_assert_uint_eq(received(b), 1u << 1);
    ck_assert_int_eq(detach(b->qp, groups[0]), 0);
    pair_free(pair);
}
END_TEST

/* A member that is not ready yet receives nothing, and does not keep the other from receiving. */
START_TEST(member_that_is_not_ready)
{
    struct pair *pair = pair_of(IBV_QPT_UD, AF_INET);
    struct end *b = &pair->end[1];
    struct ibv_qp *fresh = another(pair, false);
    struct roce roce = datagram();

    ck_assert_int_eq(qp_init(fresh, 0), 0);
    ck_assert_int_eq(attach(fresh, groups[0]), 0);
    ck_assert_int_eq(attach(b->qp, groups[0]), 0);
    post_to(fresh, b, 2);
    post_to(b->qp, b, 1);
    arrive(pair, groups[0], &roce);
    ck_assert_uint_eq(received(b), 1u << 1);
    ck_assert_int_eq(detach(fresh, groups[0]), 0);
    ck_assert_int_eq(detach(b->qp, groups[0]), 0);
    ck_assert_int_eq(soft_destroy_qp(fresh), 0);
    pair_free(pair);
}
END_TEST

/* ---- Attaching and detaching ---- */

START_TEST(attached_once)
{
    struct pair *pair = pair_of(IBV_QPT_UD, AF_INET);
    struct ibv_qp *qp = pair->end[1].qp, *second = another(pair, true);

    ck_assert_int_eq(detach(qp, groups[0]), EINVAL);
    ck_assert_int_eq(attach(qp, groups[0]), 0);
    ck_assert_int_eq(attach(qp, groups[0]), 0);
    ck_assert_int_eq(attach(second, groups[0]), 0);
    ck_assert_int_eq(wire.listens, 1);
    ck_assert_int_eq(soft_destroy_qp(qp), EBUSY);
    ck_assert_int_eq(detach(qp, groups[0]), 0);
    ck_assert_int_eq(detach(qp, groups[0]), EINVAL);
    ck_assert_int_eq(wire.listens, 1);
    ck_assert_int_eq(detach(second, groups[0]), 0);
    ck_assert_int_eq(wire.listens, 0);
    ck_assert_int_eq(soft_destroy_qp(second), 0);
    pair_free(pair);
}
END_TEST

START_TEST(only_datagrams_to_groups)
{
    struct pair *pair = pair_of(_i == 0 ? IBV_QPT_RC : IBV_QPT_UD, AF_INET);
    const char *address = _i == 0 ? groups[0] : _i == 1 ? "192.0.2.1" : "2001:db8::1";

    ck_assert_int_eq(attach(pair->end[1].qp, address), EINVAL);
    ck_assert_int_eq(wire.listens, 0);
    pair_free(pair);
}
END_TEST

/* The wire joins on the device's own interface, because a GID can't name another. */
START_TEST(groups_of_one_interface)
{
    static const struct {
        const char *group;
        unsigned interface;
    } rows[] = {{"ff01::1234", 7}, {"ff02::1234", 7}, {"ff05::1234", 0}};
    struct pair *pair = pair_of(IBV_QPT_UD, AF_INET6);
    struct soft_context *context = soft_context_of(pair->end[1].context);

    ck_assert_int_ge(context->names.gid_count, 1);
    context->names.gids[0].interface = 7;
    ck_assert_int_eq(attach(pair->end[1].qp, rows[_i].group), 0);
    ck_assert_uint_eq(wire.interface, rows[_i].interface);
    ck_assert_int_eq(detach(pair->end[1].qp, rows[_i].group), 0);
    ck_assert_int_eq(wire.listens, 0);
    pair_free(pair);
}
END_TEST

/* If the wire does not support groups, or the kernel refuses to join, nothing of the group is left. */
START_TEST(wire_refuses)
{
    struct pair *pair = pair_of(IBV_QPT_UD, AF_INET);
    struct ibv_qp *qp = pair->end[1].qp;
    struct soft_wire *of = soft_wire_of(pair->end[1].context);

    of->join = NULL;
    ck_assert_int_eq(attach(qp, groups[0]), EOPNOTSUPP);
    of->join = join;
    wire.error = EADDRINUSE;
    ck_assert_int_eq(attach(qp, groups[0]), EADDRINUSE);
    ck_assert_int_eq(detach(qp, groups[0]), EINVAL);
    wire.error = 0;
    ck_assert_int_eq(attach(qp, groups[0]), 0);
    ck_assert_int_eq(detach(qp, groups[0]), 0);
    ck_assert_int_eq(wire.listens, 0);
    pair_free(pair);
}
END_TEST

static const char *numbered(int number)
{
    static char text[32];

    snprintf(text, sizeof text, "239.1.1.%d", number);
    return text;
}

START_TEST(most_groups)
{
    struct pair *pair = pair_of(IBV_QPT_UD, AF_INET);
    struct ibv_qp *qp = pair->end[1].qp;

    for (int i = 0; i < SOFT_MAX_GROUPS; i++)
        ck_assert_int_eq(attach(qp, numbered(i)), 0);
    ck_assert_int_eq(attach(qp, groups[0]), ENOMEM);
    ck_assert_int_eq(wire.listens, SOFT_MAX_GROUPS);
    ck_assert_int_eq(detach(qp, numbered(0)), 0);
    ck_assert_int_eq(attach(qp, groups[0]), 0);
    ck_assert_int_eq(detach(qp, groups[0]), 0);
    for (int i = 1; i < SOFT_MAX_GROUPS; i++)
        ck_assert_int_eq(detach(qp, numbered(i)), 0);
    ck_assert_int_eq(wire.listens, 0);
    pair_free(pair);
}
END_TEST

START_TEST(most_members)
{
    struct pair *pair = pair_of(IBV_QPT_UD, AF_INET);
    static struct ibv_qp *qps[SOFT_MAX_GROUP_QPS];

    pair->setup.send_depth = pair->setup.recv_depth = pair->setup.sges = 1;
    for (int i = 0; i < SOFT_MAX_GROUP_QPS; i++) {
        qps[i] = another(pair, false);
        ck_assert_int_eq(attach(qps[i], groups[0]), 0);
    }
    ck_assert_int_eq(attach(pair->end[1].qp, groups[0]), ENOMEM);
    ck_assert_int_eq(attach(pair->end[1].qp, others[0]), 0);
    ck_assert_int_eq(detach(pair->end[1].qp, others[0]), 0);
    for (int i = 0; i < SOFT_MAX_GROUP_QPS; i++) {
        ck_assert_int_eq(detach(qps[i], groups[0]), 0);
        ck_assert_int_eq(soft_destroy_qp(qps[i]), 0);
    }
    ck_assert_int_eq(wire.listens, 0);
    pair_free(pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport_group");
    TCase *comes = new_case(suite, "what comes"), *members = new_case(suite, "coming and going");

    tcase_add_loop_test(comes, each_member_has_it, 0, 2);
    tcase_add_loop_test(comes, nobody_has_it, 0, 5);
    tcase_add_test(comes, member_that_is_not_ready);
    tcase_add_test(members, attached_once);
    tcase_add_loop_test(members, only_datagrams_to_groups, 0, 3);
    tcase_add_loop_test(members, groups_of_one_interface, 0, 3);
    tcase_add_test(members, wire_refuses);
    tcase_add_test(members, most_groups);
    tcase_add_test(members, most_members);
    tcase_set_timeout(members, 60); /* a thousand queue pairs */
    return run_suite(suite);
}
