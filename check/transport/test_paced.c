/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_paced.c - unacknowledged traffic (UC and UD) is sent no faster than a peer on the same host receives it: on the
 * UDP link, over loopback. If the kernel does not report how full a socket is (no CONFIG_INET_UDP_DIAG), there is no
 * pacing.
 *
 * The devices have no service thread; the test polls each device, or leaves it alone.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "check/support/endpoints.h"
#include "soft/service/home.h"

#define QKEY 5
#define LENGTH 4096         /* length of a message; a datagram may be this long on loopback */
#define MESSAGES 400        /* several times what the receiver's socket can hold */
#define BUFFER (256 * 1024) /* bytes; the kernel doubles it */
/* Pauses after which the sender is known to be stopped: one packet for each would overflow the buffer. */
#define PAUSES 40
#define PLACES 64       /* number of slots of a device's table of peers, or a multiple */
#define STEP_NS 5000000 /* maximum time between two readings of the clock */

/* The clock of each thread does not count the time in which the thread was kept from running, so that a device does not
 * give up a peer then. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now)
{
    static _Thread_local long long seen, missed; /* ns */
    int (*own)(clockid_t, struct timespec *);
    long long ns;
    *(void **)&own = dlsym(RTLD_NEXT, "clock_gettime");
    int error = own(id, now);
    if (error != 0 || id != CLOCK_MONOTONIC)
        return error;
    ns = now->tv_sec * 1000000000LL + now->tv_nsec;
    if (seen != 0 && ns - seen > STEP_NS)
        missed += ns - seen - STEP_NS;
    seen = ns;
    *now = (struct timespec){.tv_sec = (ns - missed) / 1000000000, .tv_nsec = (ns - missed) % 1000000000};
    return 0;
}

/* A device with a queue pair of one type, and memory for all messages. */
struct side {
    struct soft_home *home;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_port_attr port;
    uint8_t *memory;
};

/* Uses a device that is open. */
static void side_fill(struct side *side, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attr = {.qp_type = type, .cap = {MESSAGES, MESSAGES, 1, 1, 0}, .sq_sig_all = 1};
    size_t size = (size_t)MESSAGES * (LENGTH + 40);
    side->pd = soft_alloc_pd(side->home->context);
    side->cq = soft_create_cq(side->home->context, MESSAGES, NULL, NULL, 0);
    attr.send_cq = attr.recv_cq = side->cq;
    side->qp = soft_create_qp(side->pd, &attr);
    side->memory = calloc(1, size);
    side->mr = soft_reg_mr(side->pd, side->memory, size, IBV_ACCESS_LOCAL_WRITE);
    ck_assert(side->qp && side->mr);
    ck_assert_int_eq(ibv_query_port(side->home->context, 1, &side->port), 0);
}

static void side_open(struct side *side, enum ibv_qp_type type)
{
    side->home = home_open_named();
    ck_assert_ptr_nonnull(side->home);
    service_suspend(&side->home->service);
    side_fill(side, type);
}

/* Opens a second, connected queue pair on a device. */
static void side_open_beside(struct side *side, const struct side *first)
{
    side->home = first->home;
    side_fill(side, IBV_QPT_UC);
}

static void side_close_beside(struct side *side)
{
    ck_assert_int_eq(soft_destroy_qp(side->qp), 0);
    ck_assert_int_eq(soft_destroy_cq(side->cq), 0);
    ck_assert_int_eq(soft_dereg_mr(side->mr), 0);
    ck_assert_int_eq(soft_dealloc_pd(side->pd), 0);
    free(side->memory);
}

static void side_close(struct side *side)
{
    side_close_beside(side);
    home_close(side->home);
}

static void ready_connection(struct side *side, const struct side *peer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    ck_assert_int_eq(
        soft_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_4096,
                                .dest_qp_num = peer->qp->qp_num,
                                .ah_attr = {.dlid = peer->port.lid, .port_num = 1}};
    ck_assert_int_eq(
        soft_modify_qp(side->qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
        0);
    attr.qp_state = IBV_QPS_RTS;
    ck_assert_int_eq(soft_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static void post_receives(struct side *side)
{
    for (int i = 0; i < MESSAGES; i++) {
        struct ibv_sge sge = {(uintptr_t)side->memory + (size_t)i * (LENGTH + 40), LENGTH + 40, side->mr->lkey};
        struct ibv_recv_wr *bad, wr = {.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1};
        ck_assert_int_eq(ibv_post_recv(side->qp, &wr, &bad), 0);
    }
}

static void post_sends(struct side *side, const struct side *peer, struct ibv_ah *ah, uint32_t length)
{
    for (int i = 0; i < MESSAGES; i++) {
        struct ibv_sge sge = {(uintptr_t)side->memory, length, side->mr->lkey};
        struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
        if (ah)
            wr.wr.ud = (__typeof__(wr.wr.ud)){ah, peer->qp->qp_num, QKEY};
        ck_assert_int_eq(ibv_post_send(side->qp, &wr, &bad), 0);
    }
}

static int polled(struct side *side)
{
    struct ibv_wc wc;
    int got = ibv_poll_cq(side->cq, 1, &wc);
    ck_assert_int_ge(got, 0);
    if (got == 1)
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    return got;
}

static uint64_t pauses(struct side *side)
{
    struct soft_counters counters;
    soft_query_counters(side->home->context, &counters);
    return counters.paced;
}

static void shrink(struct side *side)
{
    int size = BUFFER;
    for (int i = 0; i < side->home->udp.socket_count; i++)
        ck_assert_int_eq(setsockopt(side->home->udp.sockets[i].fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size),
                         0);
}

/* While the receiver does not poll, the sender stops, with most of the messages still to send; then all arrive. */
START_TEST(waits_for_room)
{
    enum ibv_qp_type type = _i ? IBV_QPT_UD : IBV_QPT_UC;
    struct side a, b;
    struct ibv_ah *ah = NULL;
    int sent = 0, received = 0;
    side_open(&a, type);
    side_open(&b, type);
    if (type == IBV_QPT_UD) {
        struct ibv_ah_attr to = {.port_num = 1, .dlid = b.port.lid};
        qp_ready_datagrams(a.qp, QKEY);
        qp_ready_datagrams(b.qp, QKEY);
        ah = soft_create_ah(a.pd, &to);
        ck_assert_ptr_nonnull(ah);
    } else {
        ready_connection(&a, &b);
        ready_connection(&b, &a);
    }
    post_receives(&b);
    shrink(&b);
    post_sends(&a, &b, ah, (uint32_t)(type == IBV_QPT_UD ? 1024 : LENGTH));
    while (sent < MESSAGES && pauses(&a) < PAUSES)
        sent += polled(&a);
    ck_assert_int_lt(sent, MESSAGES);
    while (sent < MESSAGES || received < MESSAGES) {
        sent += polled(&a);
        received += polled(&b);
    }
    ck_assert_uint_eq(udp_lost_of(&b.home->udp).bursts, 0);
    if (ah)
        ck_assert_int_eq(soft_destroy_ah(ah), 0);
    side_close(&a);
    side_close(&b);
}
END_TEST

/* A peer that never polls does not stop the sender for ever. */
START_TEST(goes_on_without_a_peer_that_stands_still)
{
    struct side a, b;
    int sent = 0;
    side_open(&a, IBV_QPT_UC);
    side_open(&b, IBV_QPT_UC);
    ready_connection(&a, &b);
    ready_connection(&b, &a);
    shrink(&b);
    post_sends(&a, &b, NULL, LENGTH);
    while (sent < MESSAGES)
        sent += polled(&a);
    ck_assert_uint_gt(pauses(&a), PAUSES);
    side_close(&a);
    side_close(&b);
}
END_TEST

/* Are the two peers in the same slot of a device's table? */
static bool is_like(const struct side *side, const struct side *other)
{
    return side->port.lid % PLACES == other->port.lid % PLACES;
}

/* The same for several peers, also if they share a slot of the table. */
START_TEST(goes_on_without_several_that_stand_still)
{
    struct side a, other, b, c, d;
    int sent = 0, sent_other = 0;
    side_open(&a, IBV_QPT_UC);
    side_open_beside(&other, &a);
    side_open(&b, IBV_QPT_UC);
    for (side_open(&c, IBV_QPT_UC); !is_like(&b, &c); c = d) {
        side_open(&d, IBV_QPT_UC);
        side_close(&c);
    }
    ready_connection(&a, &b);
    ready_connection(&b, &a);
    ready_connection(&other, &c);
    ready_connection(&c, &other);
    shrink(&b);
    shrink(&c);
    post_sends(&a, &b, NULL, LENGTH);
    post_sends(&other, &c, NULL, LENGTH);
    while (pauses(&a) < 2 * PAUSES) {
        sent += polled(&a);
        sent_other += polled(&other);
    }
    ck_assert(sent < MESSAGES && sent_other < MESSAGES);
    while (sent < MESSAGES || sent_other < MESSAGES) {
        sent += polled(&a);
        sent_other += polled(&other);
    }
    side_close_beside(&other);
    side_close(&a);
    side_close(&b);
    side_close(&c);
}
END_TEST

/* Does the kernel report UDP sockets (sock_diag)? */
static bool kernel_tells(void)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 asked;
    } request = {{sizeof request, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0},
                 {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_UDP, .idiag_states = UINT32_MAX}};
    struct nlmsghdr answer[4096 / sizeof(struct nlmsghdr)];
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    bool tells = fd != -1 && send(fd, &request, sizeof request, 0) == sizeof request &&
                 recv(fd, answer, sizeof answer, 0) >= (ssize_t)sizeof *answer &&
                 answer->nlmsg_type != NLMSG_ERROR;
    close(fd);
    return tells;
}

static Suite *suite(void)
{
    Suite *suite = suite_create("paced");
    TCase *tcase = new_case(suite, "paced");
    tcase_set_timeout(tcase, 40);
    tcase_add_loop_test(tcase, waits_for_room, 0, 2);
    tcase_add_test(tcase, goes_on_without_a_peer_that_stands_still);
    tcase_add_test(tcase, goes_on_without_several_that_stand_still);
    return suite;
}

int main(void)
{
    if (!kernel_tells()) {
        fprintf(stderr, "this kernel doesn't tell how full a UDP socket is (CONFIG_INET_UDP_DIAG)\n");
        return 77;
    }
    return run_suite(suite());
}
