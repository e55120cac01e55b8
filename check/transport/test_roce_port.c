/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_roce_port.c - UDP port 4791: packets of other vendors' devices reach the process of the host that they are for,
 * whichever processes exit or are stopped.
 *
 * In a network namespace of its own, in which no other program has the port. The other vendor's device is a plain
 * socket.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/udp.h>
#include "check/support/abstract.h"
#include "check/support/endpoints.h"
#include "check/support/processes.h"
#include "check/support/roce.h"
#include "check/support/twonets.h"
#include "core/base/fds.h"
#include "core/base/settings.h"
#include "soft/engine/engine.h"
#include "soft/link/icrc.h"
#include "soft/link/roce_port.h"
#include "soft/service/home.h"
#include "soft/service/service_thread.h"
#include "soft/soft.h"

#define QKEY 0x11
#define BYTES 64
#define GRH 40
#define PATIENCE 200000000 /* polls; far more than a packet within this host takes */
#define ANSWER_MS 15000
#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif

/* A context with a UD queue pair. */
struct side {
    struct soft_home *home;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t memory[4 * (GRH + BYTES)];
};

static void side_open(struct side *side)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD, .cap = {4, 4, 1, 1, 0}};

    side->home = home_open_named();
    expect(side->home, "home_open_named: %s", strerror(errno));
    side->pd = soft_alloc_pd(side->home->context);
    side->cq = soft_create_cq(side->home->context, 8, NULL, NULL, 0);
    attr.send_cq = attr.recv_cq = side->cq;
    side->qp = soft_create_qp(side->pd, &attr);
    side->mr = soft_reg_mr(side->pd, side->memory, sizeof side->memory, IBV_ACCESS_LOCAL_WRITE);
    ck_assert(side->qp && side->mr);
    qp_ready_datagrams(side->qp, QKEY);
}

static void side_close(struct side *side)
{
    ck_assert_int_eq(soft_destroy_qp(side->qp), 0);
    ck_assert_int_eq(soft_destroy_cq(side->cq), 0);
    ck_assert_int_eq(soft_dereg_mr(side->mr), 0);
    ck_assert_int_eq(soft_dealloc_pd(side->pd), 0);
    home_close(side->home);
}

static void post_one(struct side *side)
{
    struct ibv_sge sge = {(uintptr_t)side->memory, GRH + BYTES, side->mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

    ck_assert_int_eq(ibv_post_recv(side->qp, &wr, &bad), 0);
}

static struct ibv_wc wait_for(struct ibv_cq *cq)
{
    struct ibv_wc wc = {0};

    for (int polls = 0; ibv_poll_cq(cq, 1, &wc) == 0; polls++)
        expect(polls < PATIENCE, "nothing completes");
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    return wc;
}

/* ---- The other vendor's device ---- */

struct stranger {
    int fd;
    struct soft_path path;
    uint32_t psn;
};

static union soft_addr loopback(sa_family_t family, unsigned port)
{
    union soft_addr addr = {.in6.sin6_family = family};

    addr.in.sin_port = htons((uint16_t)port); /* at the same offset in sockaddr_in6 */
    if (family == AF_INET)
        addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        addr.in6.sin6_addr = in6addr_loopback;
    return addr;
}

static socklen_t size_of(const union soft_addr *addr)
{
    return addr->sa.sa_family == AF_INET ? sizeof addr->in : sizeof addr->in6;
}

/* Sends like an adapter: from any port, and over IPv6 without a UDP checksum. */
static struct stranger stranger_at(sa_family_t family, unsigned port)
{
    struct stranger self = {.fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    int mode = IP_PMTUDISC_DO, on = 1;

    self.path.local = loopback(family, port);
    self.path.remote = loopback(family, SOFT_UDP_PORT);
    if (family == AF_INET)
        ck_assert_int_eq(setsockopt(self.fd, IPPROTO_IP, IP_MTU_DISCOVER, &mode, sizeof mode), 0);
    else
        ck_assert_int_eq(setsockopt(self.fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, &on, sizeof on), 0);
    expect(bind(self.fd, &self.path.local.sa, size_of(&self.path.local)) == 0, "bind: %s", strerror(errno));
    return self;
}

/* Returns by how much an identification changes the ICRC of such a packet over IPv4. */
static uint32_t difference_by(unsigned id, const uint8_t *packet, size_t length)
{
    struct soft_path path = {.local = loopback(AF_INET, 1), .remote = loopback(AF_INET, 2)};
    struct icrc_flow flow;

    icrc_flow_init(&flow, &path, true);
    return icrc_compute(&flow, id, packet, length) ^ icrc_compute(&flow, 0, packet, length);
}

/* Sends a datagram whose ICRC is computed for this identification; over IPv6, which has none, with the same change of
 * the ICRC. */
static void stranger_says(struct stranger *self, uint32_t qpn, uint8_t value, unsigned id, bool damaged)
{
    uint8_t packet[ROCE_MAX], payload[BYTES];
    struct roce roce = {.opcode = ROCE_UD + SEND_ONLY,
                        .migreq = true,
                        .pkey = 0xffff,
                        .qpn = qpn,
                        .psn = roce_psn(self->psn++),
                        .qkey = QKEY,
                        .source = 0x12,
                        .payload = payload,
                        .payload_length = BYTES};
    struct icrc_flow flow;
    uint32_t crc;
    size_t length;

    memset(payload, value, BYTES);
    length = roce_write(packet, &roce);
    icrc_flow_init(&flow, &self->path, true);
    crc = icrc_compute(&flow, id, packet, length);
    if (self->path.local.sa.sa_family == AF_INET6 && id != 0)
        crc ^= difference_by(id, packet, length);
    icrc_store(packet + length, crc);
    packet[length - 1] ^= damaged;
    ck_assert_int_eq(
        sendto(self->fd, packet, length + ICRC_SIZE, 0, &self->path.remote.sa, size_of(&self->path.remote)),
        (ssize_t)(length + ICRC_SIZE));
}

/* Expects that the datagram arrives at this queue pair. */
static struct ibv_wc expect_at(struct side *side, struct stranger *from, uint8_t value, unsigned id)
{
    struct ibv_wc wc;

    post_one(side);
    stranger_says(from, side->qp->qp_num, value, id, false);
    wc = wait_for(side->cq);
    ck_assert_uint_eq(wc.byte_len, GRH + BYTES);
    expect_byte(side->memory + GRH, BYTES, value);
    return wc;
}

/* ---- Packets of other devices ---- */

static const sa_family_t families[] = {AF_INET, AF_INET6};

/* Their completions have no LID, also if they are sent from a port that a software device could have. */
START_TEST(from_any_port)
{
    struct side side;
    unsigned ports[] = {SOFT_LID_PORT + 5, 65535, 1025};

    side_open(&side);
    for (unsigned i = 0; i < sizeof ports / sizeof *ports; i++) {
        struct stranger stranger = stranger_at(families[_i], ports[i]);
        struct ibv_wc wc = expect_at(&side, &stranger, (uint8_t)(i + 1), 0);

        ck_assert_uint_eq(wc.src_qp, 0x12);
        ck_assert_uint_eq(wc.slid, 0);
        close(stranger.fd);
    }
    side_close(&side);
}
END_TEST

static uint64_t malformed(struct side *side)
{
    struct soft_counters counters;

    soft_query_counters(side->home->context, &counters);
    return counters.malformed;
}

static void await_malformed(struct side *side, uint64_t count)
{
    struct ibv_wc wc;

    for (int polls = 0; malformed(side) < count; polls++) {
        expect(polls < PATIENCE, "not seen");
        ck_assert_int_eq(ibv_poll_cq(side->cq, 1, &wc), 0);
    }
    ck_assert_uint_eq(malformed(side), count);
}

/* The identification may start anywhere, and wraps around. */
START_TEST(of_any_identification)
{
    struct stranger stranger = stranger_at(AF_INET, 50000);
    struct side side;

    side_open(&side);
    for (unsigned i = 0; i < 300; i++)
        (void)expect_at(&side, &stranger, (uint8_t)(i + 1), (65300 + i) & 0xffff);
    ck_assert_uint_eq(malformed(&side), 0);
    post_one(&side);
    stranger_says(&stranger, side.qp->qp_num, 7, 65600 & 0xffff, true);
    await_malformed(&side, 1);
    close(stranger.fd);
    side_close(&side);
}
END_TEST

/* Over IPv6 no identification is tried to explain a wrong ICRC. */
START_TEST(no_identification_helps_ipv6)
{
    struct stranger stranger = stranger_at(AF_INET6, 50000);
    struct side side;

    side_open(&side);
    post_one(&side);
    stranger_says(&stranger, side.qp->qp_num, 7, 0, true);
    await_malformed(&side, 1);
    stranger_says(&stranger, side.qp->qp_num, 7, 1, false);
    await_malformed(&side, 2);
    close(stranger.fd);
    side_close(&side);
}
END_TEST

/* ---- Processes that share the port ---- */

#define SIDES 5

START_TEST(each_gets_what_is_its)
{
    struct stranger stranger = stranger_at(families[_i], 50001);
    struct side sides[SIDES];

    for (int i = 0; i < SIDES; i++)
        side_open(&sides[i]);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SIDES; i++)
            (void)expect_at(&sides[i], &stranger, (uint8_t)(1 + i + 16 * round), 0);
    /* A context is closed and another is opened: packets for the others still arrive. */
    for (int gone = 0; gone < SIDES; gone++) {
        side_close(&sides[gone]);
        for (int i = 0; i < SIDES; i++)
            if (i != gone)
                (void)expect_at(&sides[i], &stranger, (uint8_t)(100 + i), 0);
        side_open(&sides[gone]);
        for (int i = 0; i < SIDES; i++)
            (void)expect_at(&sides[i], &stranger, (uint8_t)(200 + i), 0);
    }
    for (int i = 0; i < SIDES; i++)
        side_close(&sides[i]);
    close(stranger.fd);
}
END_TEST

/* Starts another process with an open context that does nothing. Returns when the context is open. */
static pid_t neighbour(void)
{
    int news[2];
    pid_t child;

    ck_assert_int_eq(pipe(news), 0);
    child = fork();
    ck_assert_int_ne(child, -1);
    if (child == 0) {
        struct side side;

        /* As EXS does in a child; otherwise the parent's service thread would get events of the child's descriptors. */
        fds_close_all();
        soft_forked();
        close(news[0]);
        side_open(&side);
        if (write(news[1], "", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(news[1]);
    await_byte(news[0]);
    close(news[0]);
    return child;
}

/* The process that created the port's group is killed, and so is one in its middle. */
START_TEST(processes_are_killed)
{
    pid_t first = neighbour(), second, third;
    struct stranger stranger = stranger_at(AF_INET, 50002);
    struct side here, there;

    side_open(&here);
    second = neighbour();
    third = neighbour();
    (void)expect_at(&here, &stranger, 1, 0);
    process_kill(first);
    (void)expect_at(&here, &stranger, 2, 0);
    process_kill(third);
    process_kill(second);
    side_open(&there);
    (void)expect_at(&here, &stranger, 3, 0);
    (void)expect_at(&there, &stranger, 4, 0);
    side_close(&here);
    (void)expect_at(&there, &stranger, 5, 0);
    side_close(&there);
    close(stranger.fd);
}
END_TEST

/* The process that is asked for the port's sockets exits before it has seen the request. */
START_TEST(one_ends_that_is_asked)
{
    struct pollfd listener = {.events = POLLIN};
    struct side side;
    char name[40];
    pid_t child;

    snprintf(name, sizeof name, "exs/roce/%u/0", (unsigned)geteuid());
    listener.fd = abstract_take(name, SOCK_SEQPACKET);
    ck_assert_int_eq(listen(listener.fd, 1), 0);
    child = fork();
    if (child == 0)
        _exit(poll(&listener, 1, -1) != 1);
    close(listener.fd);
    side_open(&side);
    process_join(child);
    side_close(&side);
}
END_TEST

/* A process that is stopped delays only a process that joins, and that not for ever. */
START_TEST(a_process_is_stopped)
{
    pid_t child = neighbour();
    struct stranger stranger = stranger_at(AF_INET, 50003);
    struct side here, there;

    side_open(&here);
    process_stop(child);
    (void)expect_at(&here, &stranger, 1, 0);
    side_open(&there); /* the new context asks the stopped process first, and then this one */
    (void)expect_at(&here, &stranger, 2, 0);
    (void)expect_at(&there, &stranger, 3, 0);
    side_close(&here);
    side_close(&there);
    process_kill(child);
    close(stranger.fd);
}
END_TEST

/* The service thread's epoll instance reports the new connection once, while the context is locked and the thread can't
 * accept it. The thread must accept it later, although no timer expires and nothing else arrives. */
START_TEST(one_comes_at_a_bad_moment)
{
    struct pollfd told = {.events = POLLIN}, guest = {.events = POLLIN};
    struct ibv_comp_channel *events;
    struct ibv_cq *cq;
    struct side side;
    char name[40];

    side_open(&side);
    events = soft_create_comp_channel(side.home->context);
    ck_assert_ptr_nonnull(events);
    cq = soft_create_cq(side.home->context, 1, NULL, events, 0);
    ck_assert_ptr_nonnull(cq);
    soft_lock(side.home->context);
    soft_timer_set(soft_qp_of(side.qp), NEVER_NS / 2);
    soft_unlock(side.home->context);
    service_resume(&side.home->service);
    ck_assert_int_eq(ibv_req_notify_cq(cq, 0), 0);
    ck_assert_int_eq(atomic_load(&side.home->service.state), SERVICE_SERVE);
    snprintf(name, sizeof name, "exs/roce/%u/%u", (unsigned)geteuid(), side.home->udp.roce->share);
    told.fd = service_shared.epoll;
    soft_lock(side.home->context);
    guest.fd = abstract_visit(name);
    while (poll(&told, 1, 0) != 0)
        sched_yield();
    soft_unlock(side.home->context);
    expect(poll(&guest, 1, ANSWER_MS) == 1, "who stands at the listener is not seen");
    close(guest.fd);
    ck_assert_int_eq(soft_destroy_cq(cq), 0);
    ck_assert_int_eq(soft_destroy_comp_channel(events), 0);
    side_close(&side);
}
END_TEST

/* ---- Two software devices that know only each other's GID and queue pair number ---- */

/* The destination is RoCE's port, unless the LID is that of a software device. */
START_TEST(ways_to_peers)
{
    struct side side;
    struct soft_path path;
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1};
    union soft_addr addr = loopback(AF_INET, 0);
    static const struct {
        uint16_t dlid;
        uint32_t qpn;
        unsigned port;
    } rows[] = {
        {0, 0x12, SOFT_UDP_PORT},
        {0, 0x345678, SOFT_UDP_PORT},
        {0x345, 0x345678, SOFT_LID_PORT + 0x345},
        {0x346, 0x345678, SOFT_UDP_PORT},
        {3, 0x12, SOFT_UDP_PORT},
    };

    side_open(&side);
    soft_gid_of(&to.grh.dgid, &addr.sa);
    to.grh.sgid_index = (uint8_t)soft_gid_index(side.home->context, &to.grh.dgid);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        to.dlid = rows[i].dlid;
        ck_assert(soft_path_from_ah(soft_context_of(side.home->context), &path, &to, rows[i].qpn));
        ck_assert_uint_eq(ntohs(path.remote.in.sin_port), rows[i].port);
    }
    side_close(&side);
}
END_TEST

static void ask_for_it(void)
{
    ck_assert_int_eq(setenv("EXS_ROCE", "on", 1), 0);
    settings_read(NULL);
}

static Suite *suite(void)
{
    Suite *suite = suite_create("roce port");
    TCase *tcase = new_case(suite, "roce port");

    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, ask_for_it, NULL);
    tcase_add_loop_test(tcase, from_any_port, 0, 2);
    tcase_add_test(tcase, of_any_identification);
    tcase_add_test(tcase, no_identification_helps_ipv6);
    tcase_add_loop_test(tcase, each_gets_what_is_its, 0, 2);
    tcase_add_test(tcase, processes_are_killed);
    tcase_add_test(tcase, one_ends_that_is_asked);
    tcase_add_test(tcase, a_process_is_stopped);
    tcase_add_test(tcase, one_comes_at_a_bad_moment);
    tcase_add_test(tcase, ways_to_peers);
    return suite;
}

int main(void)
{
    return twonets_main(twonets_alone, suite);
}
