/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_intruders.c - packets on a connection's UDP port that are not the peer's, or not as the peer sent them:
 * the check, the address and the port are looked at before anything else, so nothing is answered, written or
 * lost. And that the check may be left out where both ends have said so, and only there.
 *
 * The peer is a TCP and a UDP socket of the test; the device takes its packets from a socket of its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include "check/support/cmpeer.h"
#include "check/support/endpoints.h"
#include "core/settings.h"
#include "core/soft/link/icrc.h"

#define BYTES 64      /* of a message */
#define PATIENCE_S 20 /* longer than anything takes that does happen */
#define OURS 0x1234   /* the peer's queue pair, */
#define FIRST 0x777   /* and the first PSN that it expects */
#define UNCHECKED 8   /* of a REQ's and a REP's flags, at */
#define FLAGS 23

/* A connection, and the peer's end of it. */
static struct {
    struct cmside side;
    int tcp, udp;
    struct soft_path path; /* as the peer sees it */
    uint32_t qpn, psn;     /* where its packets go to, and the next PSN */
    struct ibv_mr *mr;
    uint8_t memory[BYTES];
    bool unchecked; /* the device's packets have no check */
} world;

/* ---- The connection ---- */

static int udp_at(uint32_t address, in_port_t port)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address), .sin_port = port};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int mode = IP_PMTUDISC_DO; /* packets then have the identification 0, which the check covers */

    ck_assert_int_ne(fd, -1);
    ck_assert_int_eq(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &mode, sizeof mode), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    return fd;
}

static void post_one(void)
{
    struct ibv_sge sge = {(uintptr_t)world.memory, BYTES, world.mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    ck_assert_int_eq(ibv_post_recv(world.side.id->qp, &wr, &bad), 0);
}

static uint32_t number_at(const struct said *said, size_t at, unsigned bytes)
{
    uint32_t number = 0;

    for (unsigned i = 0; i < bytes; i++)
        number = number << 8 | said->bytes[at + i];
    return number;
}

static void meet(unsigned flags)
{
    struct said req = said(SAID_REQ), rtu = said(SAID_RTU), rep;

    world.tcp = stranger_dial(&world.side);
    said_put(&req, 8, 4, OURS);
    said_put(&req, 12, 4, FIRST);
    said_put(&req, 16, 2, ntohs(world.path.local.in.sin_port));
    said_put(&req, FLAGS, 1, flags);
    stranger_says(world.tcp, &req);
    cmside_expect(&world.side, RDMA_CM_EVENT_CONNECT_REQUEST);
    ck_assert_int_eq(cmside_accept(&world.side), 0);
    rep = stranger_hears(&world.side, world.tcp, SAID_REP);
    stranger_says(world.tcp, &rtu);
    cmside_expect(&world.side, RDMA_CM_EVENT_ESTABLISHED);
    world.qpn = number_at(&rep, 8, 4);
    world.psn = number_at(&rep, 12, 4);
    world.unchecked = (flags & rep.bytes[FLAGS] & UNCHECKED) != 0;
    world.path.remote.in = (struct sockaddr_in){.sin_family = AF_INET,
                                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                                .sin_port = htons((uint16_t)number_at(&rep, 16, 2))};
    world.mr = soft_reg_mr(world.side.pd, world.memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
    ck_assert_ptr_nonnull(world.mr);
    post_one();
}

/* The connection is over, and the listener still there. */
static void part(void)
{
    ck_assert_int_eq(qp_state(world.side.id->qp), IBV_QPS_RTS);
    soft_destroy_id_qp(world.side.id);
    ck_assert_int_eq(soft_dereg_mr(world.mr), 0);
    close(world.tcp);
    cmside_expect(&world.side, RDMA_CM_EVENT_DISCONNECTED);
}

static void begin(unsigned flags)
{
    socklen_t length = sizeof world.path.local;

    world.udp = udp_at(INADDR_LOOPBACK, 0);
    ck_assert_int_eq(getsockname(world.udp, &world.path.local.sa, &length), 0);
    cmside_listen(&world.side);
    meet(flags);
}

static void enter(void)
{
    begin(0);
    ck_assert(!world.unchecked);
}

static void enter_unchecked(void)
{
    begin(UNCHECKED);
    ck_assert(world.unchecked);
}

/* We would do without, but the device may not. */
static void enter_unheard(void)
{
    ck_assert_int_eq(setenv("EXS_ICRC", "1", 1), 0);
    settings_read();
    begin(UNCHECKED);
    ck_assert(!world.unchecked);
}

static void leave(void)
{
    part();
    cmside_close(&world.side);
    close(world.udp);
}

/* ---- Packets ---- */

/* A SEND of BYTES of this value, with its check: the next one that is due, but so many PSNs further on. */
static size_t put_packet(uint8_t *bytes, uint8_t value, uint32_t ahead)
{
    uint8_t payload[BYTES];
    struct roce roce = {.opcode = SEND_ONLY,
                        .migreq = true,
                        .ackreq = true,
                        .pkey = 0xffff,
                        .qpn = world.qpn,
                        .psn = roce_psn(world.psn + ahead),
                        .payload = payload,
                        .payload_length = BYTES};
    struct icrc_flow flow;
    size_t length;

    memset(payload, value, BYTES);
    length = roce_write(bytes, &roce);
    icrc_flow_init(&flow, &world.path, true);
    icrc_store(bytes + length, icrc_compute(&flow, 0, bytes, length));
    return length + ICRC_SIZE;
}

static uint64_t arrivals(void)
{
    struct soft_counters counters;

    soft_query_counters(world.side.id->verbs, &counters);
    return counters.packets_received + counters.malformed;
}

static uint64_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

/* Send it, and wait until the device has looked at it. True: it was taken as a message. */
static bool send_from(int fd, const uint8_t *bytes, size_t length)
{
    uint64_t before = arrivals(), end = now_s() + PATIENCE_S;
    struct ibv_wc wc;
    int taken = 0;

    ck_assert_int_eq(sendto(fd, bytes, length, 0, &world.path.remote.sa, sizeof world.path.remote.in),
                     (ssize_t)length);
    while (arrivals() == before) {
        ck_assert_msg(now_s() < end, "the packet does not arrive");
        taken += ibv_poll_cq(world.side.id->recv_cq, 1, &wc); /* which takes packets in, too */
        sched_yield();
    }
    return taken + ibv_poll_cq(world.side.id->recv_cq, 1, &wc) == 1;
}

/* How many packets have come back. */
static unsigned answers(uint8_t *syndrome)
{
    uint8_t bytes[ROCE_MAX];
    struct icrc_flow flow;
    struct roce roce;
    unsigned count = 0;
    ssize_t got;

    while ((got = recv(world.udp, bytes, sizeof bytes, 0)) > 0) {
        got -= ICRC_SIZE;
        ck_assert(roce_read(&roce, bytes, (size_t)got));
        icrc_flow_init(&flow, &world.path, false);
        ck_assert_uint_eq(icrc_load(bytes + got),
                          world.unchecked ? ICRC_NONE : icrc_compute(&flow, 0, bytes, (size_t)got));
        ck_assert_uint_eq(roce.qpn, OURS);
        *syndrome = roce.syndrome;
        count++;
    }
    return count;
}

/* So far nothing has come of all that was sent; the peer's own packet is taken, and acknowledged. */
static void expect_untouched(void)
{
    uint8_t bytes[ROCE_MAX], syndrome = 0;
    size_t length = put_packet(bytes, 0x5a, 0);
    struct pollfd wait = {.fd = world.udp, .events = POLLIN};

    expect_byte(world.memory, BYTES, 0);
    ck_assert_uint_eq(answers(&syndrome), 0);
    ck_assert(send_from(world.udp, bytes, length));
    expect_byte(world.memory, BYTES, 0x5a);
    while (answers(&syndrome) == 0)
        ck_assert_int_eq(poll(&wait, 1, PATIENCE_S * 1000), 1);
    ck_assert_uint_eq(syndrome, SYNDROME_ACK);
}

/* ---- What comes ---- */

START_TEST(right)
{
    expect_untouched();
}
END_TEST

/* Each bit of a packet, one at a time; but those that the check leaves to routers are nobody's business. */
START_TEST(damaged)
{
    uint8_t bytes[ROCE_MAX];
    size_t length = put_packet(bytes, 0xee, 0);

    for (size_t bit = 0; bit < 8 * length; bit += bit < 8 * 64 ? 5 : 1) {
        if (bit / 8 == 4)
            continue;
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        expect(!send_from(world.udp, bytes, length), "taken with bit %zu wrong", bit);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    expect_untouched();
}
END_TEST

START_TEST(cut)
{
    uint8_t bytes[ROCE_MAX];
    size_t full = put_packet(bytes, 0xee, 0);

    for (size_t length = 0; length < full; length++)
        expect(!send_from(world.udp, bytes, length), "taken though cut to %zu bytes", length);
    expect_untouched();
}
END_TEST

/* Right in every bit, its check included, but from another port of the peer's host, or another address. */
START_TEST(from_elsewhere)
{
    in_port_t port = world.path.local.in.sin_port;
    int fd = _i ? udp_at(INADDR_LOOPBACK + 1, port) : udp_at(INADDR_LOOPBACK, 0);
    struct soft_path own = world.path;
    socklen_t length = sizeof world.path.local;
    struct soft_counters counters;
    uint8_t bytes[ROCE_MAX];
    size_t size;

    ck_assert_int_eq(getsockname(fd, &world.path.local.sa, &length), 0);
    size = put_packet(bytes, 0xee, 0);
    ck_assert(!send_from(fd, bytes, size));
    size = put_packet(bytes, 0xee, 5);
    ck_assert(!send_from(fd, bytes, size));
    soft_query_counters(world.side.id->verbs, &counters);
    ck_assert_uint_eq(counters.refused, 2);
    ck_assert_uint_eq(counters.malformed, 0);
    world.path = own;
    close(fd);
    expect_untouched();
}
END_TEST

/* Too early, however many: that asks for what is missing once. */
START_TEST(ahead)
{
    uint8_t bytes[ROCE_MAX], syndrome = 0;
    struct pollfd wait = {.fd = world.udp, .events = POLLIN};
    unsigned count = 0;

    for (uint32_t i = 1; i <= 100; i++) {
        size_t length = put_packet(bytes, 0xee, i);

        ck_assert(!send_from(world.udp, bytes, length));
    }
    while ((count = answers(&syndrome)) == 0)
        ck_assert_int_eq(poll(&wait, 1, PATIENCE_S * 1000), 1);
    ck_assert_uint_eq(syndrome, SYNDROME_SEQUENCE);
    ck_assert_uint_eq(count, 1);
    expect_untouched();
}
END_TEST

static size_t put_unchecked(uint8_t *bytes, uint8_t value)
{
    size_t length = put_packet(bytes, value, 0);

    icrc_store(bytes + length - ICRC_SIZE, ICRC_NONE);
    return length;
}

/* One without a check, where both have said so; those with one are taken, too, if it is right. */
START_TEST(left_out)
{
    uint8_t bytes[ROCE_MAX];
    size_t length = put_unchecked(bytes, 0x3c);

    ck_assert(send_from(world.udp, bytes, length));
    expect_byte(world.memory, BYTES, 0x3c);
    memset(world.memory, 0, BYTES);
    post_one();
    world.psn = roce_psn(world.psn + 1);
    length = put_packet(bytes, 0xee, 0);
    bytes[length - 1] ^= 1;
    ck_assert(!send_from(world.udp, bytes, length));
    while (answers((uint8_t[1]){0}) > 0)
        ;
    expect_untouched();
}
END_TEST

/* Another at the same port, who wants a check: the way there is not the one that was known. */
START_TEST(left_out_before)
{
    struct ibv_context *context = world.side.id->verbs;

    expect_untouched();
    part();
    ck_assert_int_eq(soft_dealloc_pd(world.side.pd), 0);
    soft_destroy_id(world.side.id);
    memset(world.memory, 0, BYTES);
    meet(0);
    ck_assert_ptr_eq(world.side.id->verbs, context);
    ck_assert(!world.unchecked);
    expect_untouched();
}
END_TEST

START_TEST(left_out_unasked)
{
    uint8_t bytes[ROCE_MAX];
    size_t length = put_unchecked(bytes, 0xee);

    ck_assert(!send_from(world.udp, bytes, length));
    expect_untouched();
}
END_TEST

static TCase *add(Suite *suite, const char *name, void (*come)(void))
{
    TCase *tcase = tcase_create(name);

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, come, leave);
    tcase_add_test(tcase, right);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("intruders");
    TCase *tcase = add(suite, "unchecked", enter_unchecked);

    tcase_add_test(tcase, left_out);
    tcase_add_test(tcase, left_out_before);
    tcase_add_loop_test(tcase, from_elsewhere, 0, 2);
    tcase = add(suite, "unheard", enter_unheard);
    tcase_add_test(tcase, left_out_unasked);
    tcase = add(suite, "packets", enter);
    tcase_add_test(tcase, left_out_unasked);
    tcase_add_test(tcase, damaged);
    tcase_add_test(tcase, cut);
    tcase_add_loop_test(tcase, from_elsewhere, 0, 2);
    tcase_add_test(tcase, ahead);
    return run_suite(suite);
}
