/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_refusals.c - connections of InfiniBand's connection management (ibnet.h) that are rejected or withdrawn, and
 * messages of an earlier life of the peer, or with the identity of another one.
 */
#include <check.h>
#include <errno.h>
#include <string.h>
#include "check/support/ibnet.h"
#include "check/support/runner.h"
#include "core/base/bytes.h"

/* ---- Rejections ---- */

/* The listener was closed: the connection exists, and a repeated REQ is answered as before. */
START_TEST(the_listener_has_gone)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[1];
    uint8_t req[IB_MAD_BYTES];

    network->lost = _i == 0 ? 1u << 1 : 1u << 2; /* the REP, or the MRA, which answers the first repeated REQ */
    self->accepts = _i == 0;
    memcpy(req, ibnet_connect(network, 0x77)->mad, sizeof req);
    ibnet_run(network, FLIGHT);
    ck_assert_int_eq(self->used, 1);
    self->listens = false;
    ibnet_run(network, SECOND);
    if (_i == 1) {
        ck_assert_uint_eq(network->of_type[IB_MRA & 31], 2);
        ibnet_accept(self, &self->conns[0]);
        ibnet_run(network, SECOND / 10);
    }
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED);
    ck_assert_uint_eq(network->of_type[IB_REP & 31], _i == 0 ? 2 : 1);
    ck_assert_uint_eq(self->conns[0].state, IB_TIMEWAIT);
    ib_arrive(&self->world, &self->path, req);
    ck_assert(ib_decode(&network->to_third, network->flights[0].mad));
    ck_assert_uint_eq(network->to_third.rej.reason, IB_STALE);
    ibnet_run(network, NEVER_NS);
    ibnet_free(network);
}
END_TEST

START_TEST(nobody_listens)
{
    struct ibnet *network = ibnet_new();

    network->ends[1].listens = false;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, NEVER_NS);
    expect_events(network, 0, IB_EV_REJECTED);
    ck_assert_uint_eq(network->ends[0].rejected, IB_INVALID_SERVICE);
    ibnet_free(network);
}
END_TEST

START_TEST(refused)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[1];
    uint8_t data[200] = {0};

    self->accepts = false;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND);
    ck_assert_int_eq(ib_refuse(&self->world, &self->conns[0], IB_CONSUMER, data, ib_private(IB_REJ) + 1),
                     EINVAL);
    ck_assert_int_eq(ib_refuse(&self->world, &self->conns[0], IB_CONSUMER, data, ib_private(IB_REJ)), 0);
    ck_assert_int_eq(ib_refuse(&self->world, &self->conns[0], IB_CONSUMER, data, 0), EINVAL);
    ibnet_run(network, NEVER_NS);
    expect_events(network, 0, IB_EV_REJECTED);
    ck_assert_uint_eq(network->ends[0].rejected, IB_CONSUMER);
    ibnet_free(network);
}
END_TEST

/* The active endpoint gives up before it has an answer: the passive endpoint is notified, although the active one does
 * not know its communication ID. */
START_TEST(no_longer_wanted)
{
    struct ibnet *network = ibnet_new();

    network->ends[1].accepts = false;
    struct ib_conn *conn = ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND);
    ib_end(&network->ends[0].world, conn);
    ibnet_run(network, NEVER_NS);
    expect_events(network, 1, REQUESTED, IB_EV_REJECTED);
    ck_assert_uint_eq(network->ends[1].rejected, IB_TIMEOUT);
    ibnet_free(network);
}
END_TEST

/* ---- An earlier life ---- */

/* The peer was restarted, and uses a queue pair number that this endpoint knows: the first REQ is rejected as stale,
 * and the old connection ends. */
START_TEST(a_peer_that_forgot)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[0];

    self->hangs_up = false;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND);
    LIST_INIT(&self->world.conns); /* the process exits */
    self->conns[0].local_id = 0;
    self->logged = 0;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND / 2);
    expect_events(network, 0, IB_EV_REJECTED);
    ck_assert_uint_eq(self->rejected, IB_STALE);
    expect_events(network, 1, REQUESTED, IB_EV_ESTABLISHED, IB_EV_DISCONNECTED);
    ibnet_run(network, NEVER_NS);
    self->logged = 0;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND);
    expect_events(network, 0, IB_EV_REPLIED);
    ibnet_free(network);
}
END_TEST

/* A DREQ for an unknown connection is answered with a DREP, so that its sender is done. */
START_TEST(an_end_of_nothing)
{
    struct ibnet *network = ibnet_new();
    struct ib_message dreq = {.type = IB_DREQ, .local_id = 5, .remote_id = 6, .dreq = {.qpn = 9}};
    uint8_t mad[IB_MAD_BYTES];

    ib_encode(&dreq, mad);
    ib_arrive(&network->ends[1].world, &network->ends[1].path, mad);
    ck_assert_int_eq(network->count, 1);
    ck_assert_uint_eq(network->of_type[IB_DREP & 31], 1);
    ibnet_free(network);
}
END_TEST

/* A DREQ with the right communication IDs but another queue pair or from another host has no effect. */
START_TEST(an_end_by_another)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[1];

    network->ends[0].hangs_up = false;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND);
    struct ib_conn *conn = &self->conns[0];
    struct ib_message dreq = {.type = IB_DREQ,
                              .local_id = conn->remote_id,
                              .remote_id = conn->local_id,
                              .dreq = {.qpn = conn->local_qpn + 1}};
    uint8_t mad[IB_MAD_BYTES];

    ib_encode(&dreq, mad);
    ib_arrive(&self->world, &network->ends[1].path, mad);
    ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    dreq.local_id++;
    dreq.dreq.qpn--;
    ib_encode(&dreq, mad);
    ib_arrive(&self->world, &network->ends[1].path, mad);
    ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    dreq.local_id--;
    ibnet_third_says(network, 1, &dreq);
    ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    ib_encode(&dreq, mad);
    ib_arrive(&self->world, &network->ends[1].path, mad);
    ck_assert_uint_eq(conn->state, IB_TIMEWAIT);
    ibnet_free(network);
}
END_TEST

/* Delivers a message from the address of the endpoint's peer. */
static void comes(struct ibnet *network, int end, const struct ib_message *message)
{
    struct ibnet_end *self = &network->ends[end];
    uint8_t mad[IB_MAD_BYTES];

    ib_encode(message, mad);
    ib_arrive(&self->world, &self->path, mad);
}

/* The peer has given up and does not know the local communication ID: its REJ contains its node GUID. */
static struct ib_message gives_up(const struct ib_conn *conn)
{
    struct ib_message rej = {
        .type = IB_REJ,
        .local_id = conn->remote_id,
        .rej = {.answered = IB_TO_REQ, .reason = IB_TIMEOUT, .info_length = sizeof conn->remote_guid},
    };

    put64(rej.rej.info, conn->remote_guid);
    return rej;
}

/* An established connection is ended by a REJ with both communication IDs, and not by one that lacks either. */
START_TEST(a_refusal_of_what_is_established)
{
    static const uint16_t reasons[] = {IB_CONSUMER, IB_STALE, IB_TIMEOUT};
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[_i];
    struct ib_conn *conn = &self->conns[0];
    struct ib_message rej;
    int told;

    network->ends[0].hangs_up = false;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND);
    ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    told = self->logged;
    rej = gives_up(conn);
    comes(network, _i, &rej);
    ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    rej.local_id = 0;
    rej.remote_id = conn->local_id;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        rej.rej.reason = reasons[i];
        comes(network, _i, &rej);
        ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    }
    ck_assert_int_eq(self->logged, told);
    rej.local_id = conn->remote_id;
    comes(network, _i, &rej);
    ck_assert_uint_eq(conn->state, IB_TIMEWAIT);
    ck_assert_int_eq(self->logged, told + 1);
    ck_assert_int_eq(self->log[told], IB_EV_REJECTED);
    ibnet_free(network);
}
END_TEST

/* The RTU was lost, or never sent: the peer may not have received the REP, so a REJ without the local ID ends the
 * connection. */
START_TEST(given_up_before_it_is_established)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[1];
    struct ib_message rej;

    network->ends[0].hangs_up = false;
    network->lost = 1u << 2;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND);
    ck_assert_uint_eq(self->conns[0].state, IB_REP_SENT);
    rej = gives_up(&self->conns[0]);
    comes(network, 1, &rej);
    ck_assert_uint_eq(self->conns[0].state, IB_IDLE);
    expect_events(network, 1, REQUESTED, IB_EV_REJECTED);
    ck_assert_uint_eq(self->rejected, IB_TIMEOUT);
    ibnet_free(network);
}
END_TEST

/* ---- With another identity ---- */

/* A third host sends the node GUID, queue pair number and communication ID of the first one. It counts as a separate
 * peer, and does not affect the first one. */
START_TEST(a_request_in_anothers_name)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[1];
    struct ib_message req = {.type = IB_REQ, .local_id = 0xffffffff, .req = some_req};

    network->ends[0].hangs_up = false;
    req.req.ca_guid = network->ends[0].world.guid;
    req.req.qpn = 0x77;
    ibnet_third_says(network, 1, &req);
    ck_assert_uint_eq(network->to_third.type, IB_REP);
    struct ib_conn *conn = ibnet_connect(network, 0x77);
    ck_assert_uint_eq(conn->local_id, req.local_id);
    ibnet_run(network, SECOND / 2);
    expect_events(network, 0, IB_EV_REPLIED);
    expect_events(network, 1, REQUESTED, REQUESTED, IB_EV_ESTABLISHED);
    ck_assert_uint_eq(self->conns[0].state, IB_REP_SENT);
    ibnet_free(network);
}
END_TEST

/* The REP of a third host contains the numbers that another host uses later. */
START_TEST(an_answer_in_anothers_name)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[0];
    struct ib_conn *conn = &self->conns[self->used++];
    struct ib_message req = {.req = some_req}, rep = {.type = IB_REP};

    self->hangs_up = false;
    req.req.qpn = 0x70;
    conn->path = network->third;
    ck_assert_int_eq(ib_connect(&self->world, conn, &req), 0);
    rep.transaction = network->to_third.transaction;
    rep.local_id = 0x55;
    rep.remote_id = network->to_third.local_id;
    rep.rep =
        (struct ib_rep){.ca_guid = network->ends[1].world.guid, .qpn = network->ends[1].next_qpn, .psn = 7};
    ibnet_third_says(network, 0, &rep);
    ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    struct ib_conn *other = ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND / 2);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_REPLIED);
    ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    ck_assert_uint_eq(other->state, IB_ESTABLISHED);
    ibnet_free(network);
}
END_TEST

/* A REP must have the transaction ID of its REQ, because communication IDs alone may be guessed. */
START_TEST(an_answer_to_another_request)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[0];
    struct ib_message rep = {.type = IB_REP, .local_id = 0x55};
    struct ib_conn *conn;

    self->hangs_up = false;
    network->deaf = true;
    conn = ibnet_connect(network, 0x77);
    rep.rep = (struct ib_rep){.ca_guid = network->ends[1].world.guid, .qpn = 0x100, .psn = 7};
    rep.remote_id = conn->local_id;
    rep.transaction = conn->transaction + 1;
    comes(network, 0, &rep);
    ck_assert_uint_eq(conn->state, IB_REQ_SENT);
    ck_assert_int_eq(self->logged, 0);
    rep.transaction--;
    comes(network, 0, &rep);
    ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    ck_assert_uint_eq(network->of_type[IB_RTU & 31], 1);
    rep.transaction++;
    comes(network, 0, &rep);
    ck_assert_uint_eq(network->of_type[IB_RTU & 31], 1);
    rep.transaction--; /* RTU was lost */
    comes(network, 0, &rep);
    ck_assert_uint_eq(network->of_type[IB_RTU & 31], 2);
    expect_events(network, 0, IB_EV_REPLIED);
    ibnet_free(network);
}
END_TEST

static const struct {
    uint8_t asked;     /* retries that the REQ asks for */
    unsigned answered; /* number of REPs */
} patience[] = {{15, 1 + IB_REPLY_RETRIES}, {1, 2}};

/* The third host may not have sent the REQ, so the number and rate of the answers are limited, whatever its timeout
 * says. */
START_TEST(answers_that_nobody_asked_for)
{
    struct ibnet *network = ibnet_new();
    struct ib_message req = {.type = IB_REQ, .local_id = 3, .req = some_req};

    req.req.qpn = 0x77;
    req.req.local_response = 0;
    req.req.cm_retries = patience[_i].asked;
    ibnet_third_says(network, 1, &req);
    ibnet_run(network, SECOND);
    ck_assert_uint_eq(network->third_heard[IB_REP & 31], 1);
    ck_assert_uint_eq(network->third_heard[IB_REJ & 31], 0);
    ibnet_run(network, NEVER_NS);
    ck_assert_uint_eq(network->third_heard[IB_REP & 31], patience[_i].answered);
    ck_assert_uint_eq(network->third_heard[IB_REJ & 31], 1);
    expect_events(network, 1, REQUESTED, IB_EV_UNREACHABLE);
    ibnet_free(network);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("refusals of InfiniBand's connections");
    TCase *tcase = new_case(suite, "refusals");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, the_listener_has_gone, 0, 2);
    tcase_add_test(tcase, nobody_listens);
    tcase_add_test(tcase, refused);
    tcase_add_test(tcase, no_longer_wanted);
    tcase_add_test(tcase, a_peer_that_forgot);
    tcase_add_test(tcase, an_end_of_nothing);
    tcase_add_test(tcase, an_end_by_another);
    tcase_add_loop_test(tcase, a_refusal_of_what_is_established, 0, 2);
    tcase_add_test(tcase, given_up_before_it_is_established);
    tcase_add_test(tcase, a_request_in_anothers_name);
    tcase_add_test(tcase, an_answer_in_anothers_name);
    tcase_add_test(tcase, an_answer_to_another_request);
    tcase_add_loop_test(tcase, answers_that_nobody_asked_for, 0, 2);
    return run_suite(suite);
}
