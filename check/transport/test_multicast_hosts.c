/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_multicast_hosts.c - multicast groups between hosts: members receive what arrives on any network of the host,
 * once, and a datagram leaves by the network of its source address.
 *
 * One of the two hosts runs the software device, and the other has plain sockets that send and receive RoCE v2 packets.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include "check/support/ibwords.h"
#include "check/support/roce.h"
#include "check/support/runner.h"
#include "check/support/twonets.h"
#include "soft/engine/group.h"
#include "soft/link/icrc.h"
#include "soft/verbs/verbs.h"
#include "members.h"

#define LOOPBACK "127.0.0.1"
#define GROUP "239.1.2.3"
#define OTHER "239.1.2.4"
#define PATIENCE_MS 20000

/* ---- The other host ---- */

static bool is_of_link(const union soft_addr *addr)
{
    return addr->sa.sa_family == AF_INET6 && IN6_IS_ADDR_MC_LINKLOCAL(&addr->in6.sin6_addr);
}

static struct outsider far_mouth(const char *from, const char *group)
{
    struct outsider mouth;

    twonets_enter(true);
    mouth = outsider_at(from, group);
    if (is_of_link(&mouth.path.remote))
        mouth.path.remote.in6.sin6_scope_id = if_nametoindex("far0");
    twonets_enter(false);
    return mouth;
}

/* A socket on the other host that joined the group. */
static int far_ear(const char *group)
{
    union soft_addr at = ib_at(group, SOFT_UDP_PORT);
    struct group_req join = {.gr_interface = 0};
    bool ipv4 = at.sa.sa_family == AF_INET;
    int fd;

    twonets_enter(true);
    join.gr_interface = if_nametoindex("far0");
    memcpy(&join.gr_group, &at, sizeof at);
    if (is_of_link(&at))
        at.in6.sin6_scope_id = join.gr_interface;
    fd = socket(at.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    twonets_enter(false);
    ck_assert_int_eq(bind(fd, &at.sa, ipv4 ? sizeof at.in : sizeof at.in6), 0);
    ck_assert_int_eq(setsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, MCAST_JOIN_GROUP, &join, sizeof join), 0);
    return fd;
}

static void expect_address(const union soft_addr *addr, const char *text)
{
    union soft_addr wanted = ib_at(text, 0);
    union ibv_gid one, other;

    soft_gid_of(&one, &addr->sa);
    soft_gid_of(&other, &wanted.sa);
    ck_assert_mem_eq(one.raw, other.raw, sizeof one.raw);
}

/* Expects this datagram next on the other host, with the headers and the ICRC that an adapter expects. */
static void far_hears(int fd, const char *group, const char *from, uint8_t value)
{
    struct soft_path path = {.local = ib_at(group, SOFT_UDP_PORT)};
    struct pollfd one = {.fd = fd, .events = POLLIN};
    socklen_t size = sizeof path.remote;
    uint8_t packet[ROCE_MAX];
    struct icrc_flow flow;
    struct roce roce;
    ssize_t got;

    ck_assert_int_eq(poll(&one, 1, PATIENCE_MS), 1);
    got = recvfrom(fd, packet, sizeof packet, 0, &path.remote.sa, &size);
    ck_assert_int_eq(got, ROCE_BTH + ROCE_DETH + MEMBER_BYTES + ICRC_SIZE);
    got -= ICRC_SIZE;
    expect_address(&path.remote, from);
    icrc_flow_init(&flow, &path, false);
    ck_assert_uint_eq(icrc_load(packet + got), icrc_compute(&flow, 0, packet, (size_t)got));
    ck_assert(roce_read(&roce, packet, (size_t)got));
    ck_assert_uint_eq(roce.opcode, ROCE_UD + SEND_ONLY);
    ck_assert_uint_eq(roce.qpn, SOFT_GROUP_QPN);
    ck_assert_uint_eq(roce.qkey, MEMBER_QKEY);
    ck_assert_uint_eq(roce.pkey, 0xffff);
    for (size_t i = 0; i < MEMBER_BYTES; i++)
        ck_assert_uint_eq(roce.payload[i], value);
}

/* ---- Two members in separate contexts ---- */

static void open_both(struct member both[2], const char *group)
{
    for (int i = 0; i < 2; i++) {
        member_open(&both[i]);
        ck_assert_int_eq(member_attach(&both[i], group), 0);
    }
}

static void close_both(struct member both[2], const char *group)
{
    for (int i = 0; i < 2; i++) {
        member_hears_nothing(&both[i]);
        ck_assert_int_eq(member_detach(&both[i], group), 0);
        member_close(&both[i]);
    }
}

/* The GRH contains the source and the group. */
static void both_hear(struct member both[2], const char *group, const char *from, uint8_t value)
{
    union soft_addr source = ib_at(from, 0), destination = ib_at(group, 0);

    for (int i = 0; i < 2; i++) {
        const uint8_t *grh = member_hears(&both[i], value);

        if (source.sa.sa_family == AF_INET) {
            ck_assert_mem_eq(grh + 32, &source.in.sin_addr, 4);
            ck_assert_mem_eq(grh + 36, &destination.in.sin_addr, 4);
        } else {
            ck_assert_mem_eq(grh + 8, &source.in6.sin6_addr, 16);
            ck_assert_mem_eq(grh + 24, &destination.in6.sin6_addr, 16);
        }
    }
}

/* Datagrams from the other host, from this host's address on the network between them, and from loopback. */
START_TEST(by_every_network)
{
    struct outsider mouth = far_mouth(TWONETS_FAR, GROUP);
    struct member both[2];

    open_both(both, GROUP);
    for (uint8_t value = 1; value < 13; value++) {
        const char *from[] = {TWONETS_FAR, TWONETS_NEAR, LOOPBACK};

        if (value % 3 == 0)
            outsider_says(&mouth, SOFT_GROUP_QPN, value, 0, false);
        else
            member_says(&both[value % 2], from[value % 3], GROUP, value);
        both_hear(both, GROUP, from[value % 3], value);
    }
    close(mouth.fd);
    close_both(both, GROUP);
}
END_TEST

/* A datagram sent on loopback stays on the host; the sender of one to the network need not be a member. */
START_TEST(to_another_host)
{
    struct member both[2];
    int ear = far_ear(GROUP), other_ear = far_ear(OTHER);

    open_both(both, GROUP);
    member_says(&both[0], LOOPBACK, GROUP, 1);
    both_hear(both, GROUP, LOOPBACK, 1);
    member_says(&both[0], TWONETS_NEAR, GROUP, 2);
    both_hear(both, GROUP, TWONETS_NEAR, 2);
    far_hears(ear, GROUP, TWONETS_NEAR, 2);
    member_says(&both[1], TWONETS_NEAR, OTHER, 3);
    far_hears(other_ear, OTHER, TWONETS_NEAR, 3);
    member_says(&both[1], TWONETS_NEAR, GROUP, 4);
    both_hear(both, GROUP, TWONETS_NEAR, 4);
    far_hears(ear, GROUP, TWONETS_NEAR, 4);
    close(ear);
    close(other_ear);
    close_both(both, GROUP);
}
END_TEST

/* Datagrams to a group that only another program of the host has joined arrive at the host, but not at the members; nor
 * do those for a queue pair number, or to the group's address at another port. */
START_TEST(what_is_not_ours)
{
    struct outsider mouth = far_mouth(TWONETS_FAR, GROUP), other_mouth = far_mouth(TWONETS_FAR, OTHER), late;
    union soft_addr at = ib_at(OTHER, SOFT_UDP_PORT);
    struct group_req join = {.gr_interface = if_nametoindex("near0")};
    struct pollfd another = {.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), .events = POLLIN};
    struct member both[2];
    int on = 1;

    memcpy(&join.gr_group, &at, sizeof at);
    ck_assert_int_eq(setsockopt(another.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    ck_assert_int_eq(bind(another.fd, &at.sa, sizeof at.in), 0);
    ck_assert_int_eq(setsockopt(another.fd, IPPROTO_IP, MCAST_JOIN_GROUP, &join, sizeof join), 0);
    open_both(both, GROUP);
    outsider_says(&other_mouth, SOFT_GROUP_QPN, 1, 0, false);
    ck_assert_int_eq(poll(&another, 1, PATIENCE_MS), 1);
    outsider_says(&mouth, both[0].qp->qp_num, 2, 0, false);
    member_refuses(&both[0], 1);       /* the queue pair exists in this context */
    member_finds_damaged(&both[1], 1); /* and not in this one */
    late = mouth;
    late.path.remote.in.sin_port = htons(SOFT_UDP_PORT + 1);
    outsider_says(&late, SOFT_GROUP_QPN, 3, 0, false);
    outsider_says(&mouth, SOFT_GROUP_QPN, 4, 0, false);
    both_hear(both, GROUP, TWONETS_FAR, 4);
    for (int i = 0; i < 2; i++)
        ck_assert_uint_eq(member_counters(&both[i]).packets_received, 2);
    close(another.fd);
    close(mouth.fd);
    close(other_mouth.fd);
    close_both(both, GROUP);
}
END_TEST

/* ---- By IPv6 ---- */

static void move_to_ipv6(void)
{
    if (!twonets_by_ipv6_alone())
        perror("IPv6 addresses");
}

/* Groups of all scopes that leave a host: link-local, site-local, and global. */
START_TEST(by_ipv6)
{
    static const char *const groups[] = {"ff02::1234", "ff05::1234", "ff0e::1234"};
    const char *group = groups[_i];
    struct outsider mouth = far_mouth(TWONETS_FAR6, group);
    struct member both[2];
    int ear = far_ear(group);

    open_both(both, group);
    for (uint8_t value = 1; value < 9; value += 2) {
        outsider_says(&mouth, SOFT_GROUP_QPN, value, 0, false);
        far_hears(ear, group, TWONETS_FAR6, value); /* the other host receives its own datagrams, too */
        both_hear(both, group, TWONETS_FAR6, value);
        member_says(&both[value % 4 == 1], TWONETS_NEAR6, group, (uint8_t)(value + 1));
        both_hear(both, group, TWONETS_NEAR6, (uint8_t)(value + 1));
        far_hears(ear, group, TWONETS_NEAR6, (uint8_t)(value + 1));
    }
    close(mouth.fd);
    close(ear);
    close_both(both, group);
}
END_TEST

/* ---- The program ---- */

/* The link between the hosts takes a moment until it carries packets; those sent before are lost. */
static void await_cable(void)
{
    struct pollfd ear = {.fd = far_ear(GROUP), .events = POLLIN};
    struct outsider mouth = outsider_at(TWONETS_NEAR, GROUP);
    int tries = 0;

    do {
        ck_assert_int_lt(tries++, PATIENCE_MS / 10);
        outsider_says(&mouth, SOFT_GROUP_QPN, 0, 0, false);
    } while (poll(&ear, 1, 10) != 1);
    close(ear.fd);
    close(mouth.fd);
}

static Suite *suite(void)
{
    Suite *suite = suite_create("multicast between hosts");
    TCase *tcase = new_case(suite, "IPv4");

    tcase_set_timeout(tcase, 60);
    tcase_add_unchecked_fixture(tcase, await_cable, NULL);
    tcase_add_test(tcase, by_every_network);
    tcase_add_test(tcase, to_another_host);
    tcase_add_test(tcase, what_is_not_ours);
    tcase = new_case(suite, "IPv6 alone"); /* the last case, because the hosts stay without IPv4 */
    tcase_set_timeout(tcase, 60);
    tcase_add_unchecked_fixture(tcase, move_to_ipv6, NULL);
    tcase_add_loop_test(tcase, by_ipv6, 0, 3);
    return suite;
}

int main(void)
{
    return twonets_main(twonets_make, suite);
}
