/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_lost.c - a process that lost packets because it was too slow reports that when it ends: on the UDP link, over
 * loopback.
 */
#include <stdlib.h>
#include <string.h>
#include "check/support/endpoints.h"
#include "check/support/self.h"
#include "soft/service/home.h"
#include "settled.h"

#define QKEY 5
#define BYTES 2048

/* A UD queue pair that sends to itself. */
struct self {
    struct soft_home *home;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_ah *ah;
    uint8_t memory[BYTES];
};

static void self_open(struct self *self)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD, .cap = {64, 64, 1, 1, 0}};
    struct ibv_port_attr port;
    struct ibv_ah_attr to = {.port_num = 1};
    self->home = home_open_named();
    ck_assert_ptr_nonnull(self->home);
    self->pd = soft_alloc_pd(self->home->context);
    self->cq = soft_create_cq(self->home->context, 256, NULL, NULL, 0);
    attr.send_cq = attr.recv_cq = self->cq;
    self->qp = soft_create_qp(self->pd, &attr);
    self->mr = soft_reg_mr(self->pd, self->memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
    ck_assert(self->qp && self->mr);
    qp_ready_datagrams(self->qp, QKEY);
    ck_assert_int_eq(ibv_query_port(self->home->context, 1, &port), 0);
    to.dlid = port.lid;
    self->ah = soft_create_ah(self->pd, &to);
    ck_assert_ptr_nonnull(self->ah);
}

static void self_close(struct self *self)
{
    ck_assert_int_eq(soft_destroy_ah(self->ah), 0);
    if (self->qp)
        ck_assert_int_eq(soft_destroy_qp(self->qp), 0);
    ck_assert_int_eq(soft_destroy_cq(self->cq), 0);
    ck_assert_int_eq(soft_dereg_mr(self->mr), 0);
    ck_assert_int_eq(soft_dealloc_pd(self->pd), 0);
    home_close(self->home);
}

static void send_one(struct self *self)
{
    struct ibv_sge sge = {(uintptr_t)self->memory, 1000, self->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge,
              .num_sge = 1,
              .opcode = IBV_WR_SEND,
              .wr.ud = {.ah = self->ah, .remote_qpn = self->qp->qp_num, .remote_qkey = QKEY}};
    ck_assert_int_eq(ibv_post_send(self->qp, &wr, &bad), 0);
}

/* Waits until this number of messages has arrived without a posted receive. */
static void await_unready(struct self *self, uint64_t count)
{
    struct soft_counters counters = {0};
    struct ibv_wc wc;
    while (counters.unready < count) {
        ck_assert_int_eq(ibv_poll_cq(self->cq, 1, &wc), 0);
        soft_query_counters(self->home->context, &counters);
    }
}

/* Messages of links that are open count, and of those that are closed. */
START_TEST(messages_without_a_receive)
{
    struct self self;
    char text[1000];
    self_open(&self);
    for (int i = 0; i < 7; i++)
        send_one(&self);
    await_unready(&self, 7);
    if (_i)
        self_close(&self);
    setenv("EXS_DEBUG", "1", 1);
    settled_text(_i ? NULL : self.home, text, sizeof text);
    ck_assert_str_eq(text, "exs: 7 messages of unreliable peers found no receive posted: post more of them\n");
    if (!_i)
        self_close(&self);
}
END_TEST

/* The device does not read its socket, so that the socket's buffer overflows. */
START_TEST(bursts_without_room)
{
    struct self self;
    char text[1000];
    self_open(&self);
    int small = 4096;
    ck_assert_int_eq(setsockopt(self.home->udp.sockets[0].fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    soft_lock(self.home->context); /* keeps the service thread from reading the socket */
    for (int i = 0; i < 50; i++) {
        struct soft_path path = {.local = self.home->udp.sockets[0].local,
                                 .remote = self.home->udp.sockets[0].local};
        static uint8_t packet[1000];
        udp_send(&self.home->udp.link, &path, packet, sizeof packet, sizeof packet);
    }
    soft_unlock(self.home->context);
    setenv("EXS_DEBUG", "1", 1);
    settled_text(self.home, text, sizeof text);
    ck_assert_msg(strstr(text, " bursts of packets found no room in a socket's buffer of ") != NULL, "%s",
                  text);
    ck_assert_ptr_nonnull(strstr(text, "raise net.core.rmem_max"));
    self_close(&self);
}
END_TEST

START_TEST(nothing_is_told_unasked)
{
    struct self self;
    char text[1000];
    self_open(&self);
    send_one(&self);
    await_unready(&self, 1);
    if (_i)
        setenv("EXS_DEBUG", "0", 1);
    else
        unsetenv("EXS_DEBUG");
    settled_text(self.home, text, sizeof text);
    ck_assert_str_eq(text, "");
    self_close(&self);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lost");
    TCase *tcase = new_case(suite, "lost");
    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, messages_without_a_receive, 0, 2);
    tcase_add_test(tcase, bursts_without_room);
    tcase_add_loop_test(tcase, nothing_is_told_unasked, 0, 2);
    return run_suite(suite);
}
