/* SPDX-License-Identifier: BSD-2-Clause */
/* test_direct.c - a stream whose receiver always has a receive for it stays out of the hidden buffer, also while the
 * next advertisement is still on its way; and nobody waits for one that may not come. */
#include "check/support/support.h"

#define LARGE ((size_t)131072)
#define SHORT 100

static struct pair pair;
static char *from, *to;
static exs_mhandle_t region; /* of `to` */

static void begin(void)
{
    pair_open(&pair, AF_INET, SOCK_STREAM);
    from = new_buffer(2 * LARGE);
    to = new_buffer(2 * LARGE);
    region = exs_mregister(to, 2 * LARGE, 0);
    ck_assert_ptr_ne(region, NULL);
}

static void end_of_it(void)
{
    pair_close(&pair);
    must(exs_mderegister(region, 0));
    free(from);
    free(to);
}

static void send_bytes(size_t length)
{
    must(exs_send(pair.client, from, length, 0, pair.client_box->queue, NULL, NULL));
}

static void receive_into(char *where)
{
    must(exs_recv(pair.server, where, LARGE, 0, pair.server_box->queue, NULL, region));
}

/* The peer knows of one place. */
static void advertise_one(void)
{
    receive_into(to);
    inbox_pump(pair.client_box, QUIET_MS);
}

static exs_stats_t stats(void)
{
    exs_stats_t stats;

    must(exs_getstats(pair.client, NULL, &stats));
    return stats;
}

/* The second is sent when there is a place for it, which is there when the first has come. */
START_TEST(waits_for_the_next)
{
    advertise_one();
    send_bytes(LARGE);
    send_bytes(LARGE);
    ck_assert_uint_eq(stats().exs_sent, LARGE);
    pair.server_box->beside = NULL; /* the client looks again when all has come */
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    receive_into(to + LARGE);
    pair.server_box->beside = pair.client_box;
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(stats().exs_sent, 2 * LARGE);
    if (!on_rdma()) /* where the acknowledgement of the first may come alone */
        ck_assert_uint_eq(stats().exs_sent_direct, 2 * LARGE);
    ck_assert_mem_eq(to, from, 2 * LARGE);
}
END_TEST

/* A peer that receives no more, as one that sends first itself, is not waited for. */
START_TEST(not_for_ever)
{
    advertise_one();
    send_bytes(LARGE);
    send_bytes(LARGE);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert_uint_eq(stats().exs_sent, 2 * LARGE);
    ck_assert_uint_eq(stats().exs_sent_direct, LARGE);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
}
END_TEST

/* Nor may one wait that is sent now or not at all. */
START_TEST(not_at_all)
{
    advertise_one();
    send_bytes(LARGE);
    must(exs_send(pair.client, from, LARGE, MSG_DONTWAIT, pair.client_box->queue, NULL, NULL));
    ck_assert_uint_eq(stats().exs_sent, 2 * LARGE);
    for (int i = 0; i < 2; i++)
        ck_assert_uint_eq(
            take_good(pair.client_box, EXS_EVT_SEND, pair.client).exs_evt_union.exs_evt_xfer.exs_evt_length,
            LARGE);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
}
END_TEST

/* Nor do a few bytes wait, which would be copied anyway; nor is there anything to wait for behind them. */
START_TEST(with_a_short_one)
{
    size_t first = _i ? SHORT : LARGE;

    advertise_one();
    send_bytes(first);
    send_bytes(LARGE + SHORT - first);
    ck_assert_uint_eq(stats().exs_sent, LARGE + SHORT);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
}
END_TEST

static uint64_t completions_of(size_t length)
{
    exs_stats_t before, after;

    advertise_one();
    must(exs_getstats(-1, pair.client_box->queue, &before));
    send_bytes(length);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    must(exs_getstats(-1, pair.client_box->queue, &after));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    return after.exs_completions - before.exs_completions;
}

/* The embedded device is told of long messages by a request of its own, where they have many packets (soft.c). */
START_TEST(requests)
{
    if (on_rdma())
        return;
    must(setenv("EXS_LINK", _i ? "udp" : "shm", 1));
    init_library();
    begin();
    ck_assert_uint_eq(completions_of(SHORT), 1);
    ck_assert_uint_eq(completions_of(16384 - 1), 1);
    ck_assert_uint_eq(completions_of(16384), _i ? 2 : 1);
    ck_assert_mem_eq(to, from, 16384);
    end_of_it();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("direct");
    TCase *c = add_case(suite, "direct", 20), *links = add_bare_case(suite, "links", 20);

    tcase_add_checked_fixture(c, begin, end_of_it);
    tcase_add_test(c, waits_for_the_next);
    tcase_add_test(c, not_for_ever);
    tcase_add_test(c, not_at_all);
    tcase_add_loop_test(c, with_a_short_one, 0, 2);
    tcase_add_loop_test(links, requests, 0, 2);
    return run_suite(suite);
}
