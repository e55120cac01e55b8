/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_conn.c - two endpoints of InfiniBand's connection management on a virtual clock and network (ibnet.h): every
 * combination of lost and of duplicated messages among the first ones of a connection, and timeouts.
 */
#include <check.h>
#include <errno.h>
#include "check/support/ibnet.h"
#include "check/support/runner.h"

/* ---- Combinations of losses ---- */

/* A connection is established, and disconnected at once. Each endpoint reports every event once, and both are idle at
 * the end. If the RTU was lost, the passive endpoint may report the disconnection without ESTABLISHED. */
static void live_and_die(unsigned lost, unsigned doubled)
{
    struct ibnet *network = ibnet_new();

    network->lost = lost;
    network->doubled = doubled;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, NEVER_NS);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED, IB_EV_OVER);
    if (network->ends[1].logged == 3)
        expect_events(network, 1, REQUESTED, IB_EV_DISCONNECTED, IB_EV_OVER);
    else
        expect_events(network, 1, REQUESTED, IB_EV_ESTABLISHED, IB_EV_DISCONNECTED, IB_EV_OVER);
    ck_assert_int_eq(network->ends[1].used, 1);
    ck_assert_uint_eq(network->ends[0].conns[0].state, IB_IDLE);
    ck_assert_uint_eq(network->ends[1].conns[0].state, IB_IDLE);
    if (lost == 0 && doubled == 0) {
        ck_assert_uint_eq(network->sent, 5);
        ck_assert_uint_eq(network->now, 1000 * SECOND + 4 * FLIGHT + ib_time_ns(19));
    }
    ibnet_free(network);
}

START_TEST(every_mask_of_losses)
{
    ibnet_losses(live_and_die);
}
END_TEST

START_TEST(every_mask_of_doubles)
{
    ibnet_doubles(live_and_die);
}
END_TEST

START_TEST(losses_and_doubles)
{
    ibnet_losses_and_doubles(live_and_die);
}
END_TEST

/* ---- Timeouts ---- */

START_TEST(nobody_there)
{
    struct ibnet *network = ibnet_new();
    uint64_t interval = ib_time_ns(20) + 2 * ib_time_ns(18);

    network->deaf = true;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, 4 * SECOND);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 6);
    ibnet_run(network, interval - 4 * SECOND - 1);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 6);
    ibnet_run(network, 15 * interval);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 5 + 16);
    ck_assert_int_eq(network->ends[0].logged, 0);
    ibnet_run(network, 1);
    expect_events(network, 0, IB_EV_UNREACHABLE);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 5 + 16);
    ck_assert_uint_eq(network->of_type[IB_REJ & 31], 1);
    ck_assert(ibnet_next(network) == NEVER_NS);
    ibnet_free(network);
}
END_TEST

/* The RTU never arrives: the passive endpoint repeats its REP IB_REPLY_RETRIES times, and then reports UNREACHABLE. */
START_TEST(only_one_way)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[1];

    self->accepts = false;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND);
    network->deaf = true;
    ibnet_accept(self, &self->conns[0]);
    ibnet_run(network, (IB_REPLY_RETRIES + 1) * ib_time_ns(20) - 1);
    expect_events(network, 1, REQUESTED);
    ck_assert_uint_eq(network->of_type[IB_REP & 31], IB_REPLY_RETRIES + 1);
    ibnet_run(network, 1);
    expect_events(network, 1, REQUESTED, IB_EV_UNREACHABLE);
    ibnet_free(network);
}
END_TEST

/* A slow application: a repeated REQ is answered with an MRA, and the active endpoint does not repeat its REQ for the
 * time that the MRA says. */
START_TEST(a_slow_answer)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[1];

    self->accepts = false;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, 60 * SECOND);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 2);
    ck_assert_uint_eq(network->of_type[IB_MRA & 31], 1);
    ck_assert_uint_eq(network->ends[0].conns[0].state, IB_REQ_HEARD);
    ibnet_run(network, 60 * SECOND);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 10);
    ibnet_accept(self, &self->conns[0]);
    ibnet_run(network, NEVER_NS);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED, IB_EV_OVER);
    ibnet_free(network);
}
END_TEST

/* Both endpoints are connected, and from now on the network loses all messages. */
static struct ibnet *network_deaf(void)
{
    struct ibnet *network = ibnet_new();

    network->ends[0].hangs_up = false;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND);
    network->deaf = true;
    return network;
}

/* No DREQ is answered: the connection ends after the last retry. */
START_TEST(no_answer_to_the_end)
{
    struct ibnet *network = network_deaf();
    struct ibnet_end *self = &network->ends[_i];

    ck_assert_int_eq(ib_disconnect(&self->world, &self->conns[0]), 0);
    ck_assert_int_eq(ib_disconnect(&self->world, &self->conns[0]), EINVAL);
    ibnet_run(network, (IB_END_RETRIES + 1) * self->conns[0].interval - 1);
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 5 + IB_END_RETRIES + 1);
    ck_assert_uint_eq(self->conns[0].state, IB_DREQ_SENT);
    ibnet_run(network, NEVER_NS);
    if (_i == 0) {
        expect_events(network, 0, IB_EV_REPLIED, IB_EV_UNANSWERED, IB_EV_OVER);
        expect_events(network, 1, REQUESTED, IB_EV_ESTABLISHED);
    } else {
        expect_events(network, 0, IB_EV_REPLIED);
        expect_events(network, 1, REQUESTED, IB_EV_ESTABLISHED, IB_EV_UNANSWERED, IB_EV_OVER);
    }
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 5 + IB_END_RETRIES + 1);
    ibnet_free(network);
}
END_TEST

/* A lost DREQ is repeated after a quarter of a second, or after the connection's retry interval if that is shorter. */
START_TEST(the_end_is_said_again_soon)
{
    static const uint64_t intervals[] = {0, 600000000, 100000000};
    struct ibnet *network = network_deaf();
    struct ibnet_end *self = &network->ends[0];
    uint64_t first = SECOND / 4;

    if (_i > 0)
        self->conns[0].interval = intervals[_i];
    if (self->conns[0].interval < first)
        first = self->conns[0].interval;
    ck_assert_int_eq(ib_disconnect(&self->world, &self->conns[0]), 0);
    ibnet_run(network, first - 1);
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 1);
    network->deaf = false;
    ibnet_run(network, 1 + 2 * FLIGHT);
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 2);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED);
    ibnet_run(network, NEVER_NS);
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 2);
    ibnet_free(network);
}
END_TEST

/* The peer has answered the DREQ, the answer was lost, and the peer has exited. Its host answers the next DREQ with
 * "port unreachable" (ICMP), which ends the connection as a DREP would. If that is about another connection, or from
 * another host, it has no effect. */
START_TEST(nobody_there_to_answer_the_end)
{
    struct ibnet *network = network_deaf();
    struct ibnet_end *self = &network->ends[0];
    struct ib_conn *conn = &self->conns[0];
    struct ib_message dreq = {
        .type = IB_DREQ, .local_id = conn->local_id + 1, .dreq = {.qpn = conn->remote_qpn}};
    uint8_t mad[IB_MAD_BYTES];

    ck_assert_int_eq(ib_disconnect(&self->world, conn), 0);
    ib_encode(&dreq, mad);
    ib_absent(&self->world, &self->path, mad);
    ib_absent(&self->world, &network->third, conn->mad);
    ck_assert_uint_eq(conn->state, IB_DREQ_SENT);
    ib_absent(&self->world, &self->path, conn->mad);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED);
    ck_assert_uint_eq(conn->state, IB_TIMEWAIT);
    ib_absent(&self->world, &self->path, conn->mad);
    ibnet_run(network, NEVER_NS);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED, IB_EV_OVER);
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 1);
    ibnet_free(network);
}
END_TEST

/* Data may arrive before the RTU, and then establishes the connection. */
START_TEST(data_before_rtu)
{
    struct ibnet *network = ibnet_new();
    struct ibnet_end *self = &network->ends[1];

    network->ends[0].hangs_up = false;
    network->lost = 1u << 2;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, SECOND);
    ck_assert_uint_eq(self->conns[0].state, IB_REP_SENT);
    ck_assert_int_eq(ib_establish(&self->world, &self->conns[0]), 0);
    ck_assert_int_eq(ib_establish(&self->world, &self->conns[0]), EINVAL);
    ibnet_run(network, 100 * SECOND);
    ck_assert_uint_eq(network->of_type[IB_REP & 31], 1);
    ck_assert_int_eq(ib_disconnect(&self->world, &self->conns[0]), 0);
    ibnet_run(network, NEVER_NS);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED, IB_EV_OVER);
    expect_events(network, 1, REQUESTED, IB_EV_DISCONNECTED, IB_EV_OVER);
    ibnet_free(network);
}
END_TEST

/* The RTU is lost, and no data arrives: the REP is repeated, and answered with the RTU again. */
START_TEST(rtu_again)
{
    struct ibnet *network = ibnet_new();

    network->ends[0].hangs_up = false;
    network->lost = 1u << 2;
    (void)ibnet_connect(network, 0x77);
    ibnet_run(network, ib_time_ns(20) + SECOND);
    expect_events(network, 1, REQUESTED, IB_EV_ESTABLISHED);
    ck_assert_uint_eq(network->of_type[IB_REP & 31], 2);
    ck_assert_uint_eq(network->of_type[IB_RTU & 31], 2);
    ibnet_free(network);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("InfiniBand's connections");
    TCase *tcase = new_case(suite, "connections");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, every_mask_of_losses);
    tcase_add_test(tcase, every_mask_of_doubles);
    tcase_add_test(tcase, losses_and_doubles);
    tcase_add_test(tcase, nobody_there);
    tcase_add_test(tcase, only_one_way);
    tcase_add_test(tcase, a_slow_answer);
    tcase_add_loop_test(tcase, no_answer_to_the_end, 0, 2);
    tcase_add_loop_test(tcase, the_end_is_said_again_soon, 0, 3);
    tcase_add_test(tcase, nobody_there_to_answer_the_end);
    tcase_add_test(tcase, data_before_rtu);
    tcase_add_test(tcase, rtu_again);
    return run_suite(suite);
}
