/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_sidr.c - service ID resolution between two endpoints on a virtual clock (ibnet.h): every combination of lost
 * and of duplicated messages, timeouts, rejections, and replies to other requests.
 */
#include <check.h>
#include <errno.h>
#include "check/support/ibnet.h"
#include "check/support/runner.h"

static struct ib_conn *ask_from(struct ibnet *network)
{
    struct ibnet_end *self = &network->ends[0];
    struct ib_message question = {.sidr_req = {.service = SERVICE, .pkey = 0xffff}};
    struct ib_conn *conn = &self->conns[self->used++];

    question.private_data[215] = 'q';
    conn->path = self->path;
    ck_assert_int_eq(ib_ask(&self->world, conn, &question), 0);
    return conn;
}

/* Whatever is lost or duplicated, there is one reply, and the application gets one event. */
static void look_up(unsigned lost, unsigned doubled)
{
    struct ibnet *network = ibnet_new();

    network->lost = lost;
    network->doubled = doubled;
    (void)ask_from(network);
    ibnet_run(network, NEVER_NS);
    expect_events(network, 0, IB_EV_RESOLVED);
    expect_events(network, 1, REQUESTED, IB_EV_OVER);
    ck_assert_uint_eq(network->ends[0].rejected, IB_SIDR_VALID);
    if (lost == 0 && doubled == 0)
        ck_assert_uint_eq(network->sent, 2);
    ibnet_free(network);
}

START_TEST(look_up_with_losses)
{
    ibnet_losses(look_up);
}
END_TEST

START_TEST(look_up_with_doubles)
{
    ibnet_doubles(look_up);
}
END_TEST

START_TEST(look_up_with_both)
{
    ibnet_losses_and_doubles(look_up);
}
END_TEST

START_TEST(nobody_to_ask)
{
    struct ibnet *network = ibnet_new();
    struct ib_conn *conn;

    network->deaf = true;
    conn = ask_from(network);
    ck_assert_int_eq(ib_ask(&network->ends[0].world, conn, &(struct ib_message){.type = IB_SIDR_REQ}), EINVAL);
    ibnet_run(network, 16 * ib_time_ns(20) - 1);
    ck_assert_uint_eq(network->of_type[IB_SIDR_REQ & 31], 16);
    ck_assert_int_eq(network->ends[0].logged, 0);
    ibnet_run(network, 1);
    expect_events(network, 0, IB_EV_UNREACHABLE);
    ck_assert_uint_eq(network->sent, 16); /* and no message withdraws the request */
    ck_assert(ibnet_next(network) == NEVER_NS);
    ibnet_free(network);
}
END_TEST

/* The request is repeated, and the application gets no second event. */
START_TEST(a_slow_reply)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[1];

    self->accepts = false;
    (void)ask_from(network);
    ibnet_run(network, 20 * SECOND);
    expect_events(network, 1, REQUESTED);
    ck_assert_uint_eq(network->of_type[IB_SIDR_REQ & 31], 5);
    ck_assert_uint_eq(network->sent, 5); /* and no other message */
    ibnet_reply(self, &self->conns[0], IB_SIDR_VALID);
    ck_assert_int_eq(ib_reply(&self->world, &self->conns[0], &(struct ib_message){.type = IB_SIDR_REP}),
                     EINVAL);
    ibnet_run(network, SECOND);
    expect_events(network, 0, IB_EV_RESOLVED);
    ibnet_free(network);
}
END_TEST

/* There is no such service; the application rejects, with a reason; or destroys its identifier. */
START_TEST(look_up_in_vain)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[1];
    uint8_t data[IB_PRIVATE_MAX] = {0};

    self->accepts = false;
    if (_i == 0)
        self->listens = false;
    (void)ask_from(network);
    ibnet_run(network, SECOND);
    if (_i == 1) {
        ck_assert_int_eq(
            ib_refuse(&self->world, &self->conns[0], IB_CONSUMER, data, ib_private(IB_SIDR_REP) + 1), EINVAL);
        ck_assert_int_eq(ib_refuse(&self->world, &self->conns[0], IB_CONSUMER, data, ib_private(IB_SIDR_REP)),
                         0);
        ck_assert_uint_eq(self->conns[0].state, IB_ANSWERED);
    } else if (_i == 2) {
        ib_end(&self->world, &self->conns[0]);
    }
    ibnet_run(network, NEVER_NS);
    expect_events(network, 0, IB_EV_RESOLVED);
    ck_assert_uint_eq(network->ends[0].rejected, _i == 0 ? IB_SIDR_UNSUPPORTED : IB_SIDR_REJECTED);
    ibnet_free(network);
}
END_TEST

static void comes(struct ibnet *network, int to, const struct soft_path *path, struct ib_message message)
{
    uint8_t mad[IB_MAD_BYTES];

    ib_encode(&message, mad);
    ib_arrive(&network->ends[to].world, path, mad);
}

/* Replies to another request, from another host, and of other types have no effect. */
START_TEST(answers_to_nothing)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[0];
    struct soft_path other = self->path;
    struct ib_conn *conn;
    struct ib_message reply = {.type = IB_SIDR_REP,
                               .sidr_rep = {.service = SERVICE, .qpn = 0x55, .qkey = 0x66}};

    network->deaf = true;
    conn = ask_from(network);
    reply.private_data[0] = 'r';
    reply.transaction = conn->transaction;
    reply.local_id = conn->local_id + 1;
    comes(network, 0, &self->path, reply);
    reply.local_id--;
    reply.transaction++;
    comes(network, 0, &self->path, reply);
    reply.transaction--;
    other.remote.in.sin_addr.s_addr ^= htonl(64);
    comes(network, 0, &other, reply);
    for (unsigned type = IB_MRA; type <= IB_DREP; type++)
        comes(network, 0, &self->path,
              (struct ib_message){.type = (enum ib_type)type, .remote_id = conn->local_id, .rep = {.qpn = 9}});
    ck_assert_uint_eq(conn->state, IB_ASKED);
    ck_assert_int_eq(self->logged, 0);
    comes(network, 0, &self->path, reply);
    expect_events(network, 0, IB_EV_RESOLVED);
    comes(network, 0, &self->path, reply);
    ck_assert_int_eq(self->logged, 1);
    ibnet_free(network);
}
END_TEST

/* A restarted host counts from the same communication ID; and a REQ with the communication ID of a SIDR_REQ is
 * unrelated to it. */
START_TEST(a_question_that_is_another)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[1];
    struct ib_message question = {.type = IB_SIDR_REQ, .transaction = 9, .local_id = 3};
    struct ib_message req = {.type = IB_REQ, .local_id = 3, .req = some_req};

    question.sidr_req.service = req.req.service;
    question.private_data[215] = 'q';
    comes(network, 1, &self->path, question);
    comes(network, 1, &self->path, question);
    ck_assert_int_eq(self->logged, 1);
    ck_assert_uint_eq(network->of_type[IB_SIDR_REP & 31], 2);
    question.transaction++;
    comes(network, 1, &self->path, question);
    ck_assert_int_eq(self->logged, 2);
    req.req.qpn = 0x77;
    comes(network, 1, &self->path, req);
    ck_assert_int_eq(self->logged, 3);
    ck_assert_uint_eq(self->conns[2].state, IB_REP_SENT);
    ibnet_free(network);
}
END_TEST

/* The host has no socket at RoCE's port: "port unreachable" is reported at once, for this request only. */
START_TEST(nobody_at_the_port)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[0];
    struct ib_message question = {.type = IB_SIDR_REQ};
    uint8_t mad[IB_MAD_BYTES];
    struct ib_conn *conn;

    network->deaf = true;
    conn = ask_from(network);
    question.local_id = conn->local_id + 1;
    ib_encode(&question, mad);
    ib_absent(&self->world, &self->path, mad);
    ck_assert_int_eq(self->logged, 0);
    ib_absent(&self->world, &self->path, conn->mad);
    expect_events(network, 0, IB_EV_ABSENT);
    ck_assert(ibnet_next(network) == NEVER_NS);
    ibnet_free(network);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("InfiniBand's look-ups");
    TCase *tcase = new_case(suite, "look-ups");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, look_up_with_losses);
    tcase_add_test(tcase, look_up_with_doubles);
    tcase_add_test(tcase, look_up_with_both);
    tcase_add_test(tcase, nobody_to_ask);
    tcase_add_test(tcase, a_slow_reply);
    tcase_add_loop_test(tcase, look_up_in_vain, 0, 3);
    tcase_add_test(tcase, answers_to_nothing);
    tcase_add_test(tcase, a_question_that_is_another);
    tcase_add_test(tcase, nobody_at_the_port);
    return run_suite(suite);
}
