/* SPDX-License-Identifier: BSD-2-Clause */
/* intruding.c - see intruding.h. */
#include "intruding.h"
#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include "core/base/settings.h"

struct intruded world;

/* ---- The connection ---- */

int udp_at(uint32_t address, in_port_t port)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address), .sin_port = port};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int mode = IP_PMTUDISC_DO; /* packets then have the IPv4 identification 0, which the ICRC assumes */

    ck_assert_int_ne(fd, -1);
    ck_assert_int_eq(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &mode, sizeof mode), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    return fd;
}

void post_at(int place)
{
    struct ibv_sge sge = {(uintptr_t)world.memory + (size_t)place * BYTES, BYTES, world.mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    ck_assert_int_eq(ibv_post_recv(world.side.id->qp, &wr, &bad), 0);
}

void post_one(void)
{
    post_at(0);
}

static uint32_t number_at(const struct said *said, size_t at, unsigned bytes)
{
    uint32_t number = 0;

    for (unsigned i = 0; i < bytes; i++)
        number = number << 8 | said->bytes[at + i];
    return number;
}

void meet(unsigned flags)
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
    ck_assert_uint_eq(rep.bytes[FLAGS] & OLD_FLAGS, 0);
    world.path.remote.in = (struct sockaddr_in){.sin_family = AF_INET,
                                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                                .sin_port = htons((uint16_t)number_at(&rep, 16, 2))};
    world.mr = soft_reg_mr(world.side.pd, world.memory, sizeof world.memory, IBV_ACCESS_LOCAL_WRITE);
    ck_assert_ptr_nonnull(world.mr);
    post_one();
}

void part(void)
{
    ck_assert_int_eq(qp_state(world.side.id->qp), IBV_QPS_RTS);
    soft_destroy_id_qp(world.side.id);
    ck_assert_int_eq(soft_dereg_mr(world.mr), 0);
    close(world.tcp);
    cmside_expect(&world.side, RDMA_CM_EVENT_DISCONNECTED);
}

void begin(unsigned flags)
{
    socklen_t length = sizeof world.path.local;

    world.udp = udp_at(INADDR_LOOPBACK, 0);
    ck_assert_int_eq(getsockname(world.udp, &world.path.local.sa, &length), 0);
    cmside_listen(&world.side);
    meet(flags);
}

void leave(void)
{
    part();
    cmside_close(&world.side);
    close(world.udp);
}

/* ---- Packets ---- */

size_t put_packet_of(uint8_t *bytes, size_t payload_length, uint8_t value, uint32_t ahead)
{
    uint8_t payload[ROCE_MAX];
    struct roce roce = {.opcode = SEND_ONLY,
                        .migreq = true,
                        .ackreq = true,
                        .pkey = 0xffff,
                        .qpn = world.qpn,
                        .psn = roce_psn(world.psn + ahead),
                        .payload = payload,
                        .payload_length = payload_length};
    struct icrc_flow flow;
    size_t length;

    memset(payload, value, payload_length);
    length = roce_write(bytes, &roce);
    icrc_flow_init(&flow, &world.path, true);
    icrc_store(bytes + length, icrc_compute(&flow, 0, bytes, length));
    return length + ICRC_SIZE;
}

size_t put_packet(uint8_t *bytes, uint8_t value, uint32_t ahead)
{
    return put_packet_of(bytes, BYTES, value, ahead);
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

int sent_from(int fd, const uint8_t *bytes, size_t length, struct ibv_wc taken[PLACES])
{
    uint64_t before = arrivals(), end = now_s() + PATIENCE_S;
    struct ibv_cq *cq = world.side.id->recv_cq;
    int count = 0;

    ck_assert_int_eq(sendto(fd, bytes, length, 0, &world.path.remote.sa, sizeof world.path.remote.in),
                     (ssize_t)length);
    while (arrivals() == before) {
        ck_assert_msg(now_s() < end, "the packet does not arrive");
        count += ibv_poll_cq(cq, PLACES - count, taken + count); /* polling also processes received packets */
        sched_yield();
    }
    return count + ibv_poll_cq(cq, PLACES - count, taken + count);
}

bool send_from(int fd, const uint8_t *bytes, size_t length)
{
    struct ibv_wc taken[PLACES];

    return sent_from(fd, bytes, length, taken) == 1;
}

unsigned answers(uint8_t *syndrome)
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
        ck_assert_uint_eq(icrc_load(bytes + got), icrc_compute(&flow, 0, bytes, (size_t)got));
        ck_assert_uint_eq(roce.qpn, OURS);
        *syndrome = roce.syndrome;
        count++;
    }
    return count;
}

void expect_untouched(void)
{
    uint8_t bytes[ROCE_MAX], syndrome = 0;
    size_t length = put_packet(bytes, 0x5a, 0);
    struct pollfd wait = {.fd = world.udp, .events = POLLIN};

    expect_byte(world.memory, sizeof world.memory, 0);
    ck_assert_uint_eq(answers(&syndrome), 0);
    ck_assert(send_from(world.udp, bytes, length));
    expect_byte(world.memory, BYTES, 0x5a);
    while (answers(&syndrome) == 0)
        ck_assert_int_eq(poll(&wait, 1, PATIENCE_S * 1000), 1);
    ck_assert_uint_eq(syndrome, SYNDROME_ACK);
}
