/* SPDX-License-Identifier: BSD-2-Clause */
/* test_direct.c - if the receiver of a STREAM always has a receive pending, no data goes through the ring buffer, also
 * while the next advertisement is on its way. A send does not wait for an advertisement that may never arrive. */
#include <stdatomic.h>
#include "check/support/asleep.h"
#include "check/support/support.h"
#include "inside.h"
#include "own_clock.h"

#define LARGE ((size_t)131072)
#define LONG (4 * LARGE) /* more than a ring buffer holds */
#define RECV_RING (2 * LARGE)
#define SHORT 100
#define LEAP_NS 25000000 /* longer than a send waits for an advertisement that may not arrive */

static struct pair pair;
static char *from, *to;
static exs_mhandle_t region; /* of `to` */

static void begin(void)
{
    pair_open(&pair, AF_INET, SOCK_STREAM);
    from = new_buffer(2 * LONG);
    to = new_buffer(LONG);
    region = exs_mregister(to, LONG, 0);
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

/* The client has the advertisement of one receive. */
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

/* The second send waits for an advertisement, which the server sends after the first one has arrived. */
START_TEST(waits_for_the_next)
{
    advertise_one();
    send_bytes(LARGE);
    send_bytes(LARGE);
    ck_assert_uint_eq(stats().exs_sent, LARGE);
    pair.server_box->beside = NULL; /* the client runs again when all bytes have arrived */
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    receive_into(to + LARGE);
    pair.server_box->beside = pair.client_box;
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(stats().exs_sent, 2 * LARGE);
    if (!on_rdma()) /* on RDMA the acknowledgement of the first send may arrive alone */
        ck_assert_uint_eq(stats().exs_sent_direct, 2 * LARGE);
    ck_assert_mem_eq(to, from, 2 * LARGE);
}
END_TEST

/* A peer that posts no further receive, because it sends first, is not waited for for ever. */
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

/* A send with MSG_DONTWAIT must not wait. */
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

/* A short send does not wait, because it would be copied anyway, and a send behind it does not wait either. */
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

/* ---- Sends longer than the ring buffer ------ */

static void advertise_long(void)
{
    must(exs_recv(pair.server, to, LONG, 0, pair.server_box->queue, NULL, region));
    inbox_pump(pair.client_box, QUIET_MS);
}

static size_t received(void)
{
    return take_good(pair.server_box, EXS_EVT_RECV, pair.server).exs_evt_union.exs_evt_xfer.exs_evt_length;
}

static void whole_is_direct(void)
{
    uint64_t before = stats().exs_sent_direct;

    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert_uint_eq(received(), LONG);
    ck_assert_uint_eq(stats().exs_sent_direct, before);
}

/* The client has received an advertisement and expects the next one. The clock advances only by own_leap. */
static void begin_trusted(void)
{
    begin();
    own_clock = true;
    advertise_long();
    send_bytes(LONG);
    whole_is_direct();
}

/* The send is in progress, partly through the ring buffer: the server receives all of it. */
static void taken_by_recv_ring(void)
{
    exs_stats_t before = stats();
    size_t all = 0;

    while (all < LONG) {
        if (exs_recv(pair.server, to, LONG, MSG_DONTWAIT, pair.server_box->queue, NULL, region) == 0)
            all += received();
        else
            ck_assert_int_eq(errno, EAGAIN);
        inbox_pump(pair.client_box, QUIET_MS);
    }
    ck_assert_uint_eq(all, LONG);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert_uint_eq(stats().exs_sent_direct, before.exs_sent_direct);
}

static void goes_by_recv_ring(void)
{
    ck_assert_uint_eq(stats().exs_sent % LONG, RECV_RING);
    taken_by_recv_ring();
}

static void wait_in_vain(void)
{
    uint64_t before = stats().exs_sent;

    send_bytes(LONG);
    ck_assert_uint_eq(stats().exs_sent, before);
    own_leap = LEAP_NS;
    while (stats().exs_sent == before)
        inbox_pump(pair.client_box, QUIET_MS);
    goes_by_recv_ring();
}

/* The send waits for the next advertisement and is written to that receive, also if nothing else is in progress. */
START_TEST(long_ones_wait)
{
    for (int i = 0; i < 3; i++) {
        uint64_t before = stats().exs_sent;

        own_leap = LEAP_NS; /* the time limit of each send starts with the send */
        send_bytes(LONG);
        inbox_quiet(pair.server_box, 0);
        ck_assert_uint_eq(stats().exs_sent, before);
        advertise_long();
        whole_is_direct();
    }
    ck_assert_uint_eq(stats().exs_sent_direct, 4 * LONG);
    ck_assert_mem_eq(to, from, LONG);
}
END_TEST

/* A send that fills several receives waits for each advertisement, each time with the full limit. */
START_TEST(for_each_of_several)
{
    send_bytes(2 * LONG);
    own_leap = LEAP_NS / 2;
    advertise_long();
    ck_assert_uint_eq(received(), LONG);
    own_leap = LEAP_NS * 3 / 5;
    inbox_pump(pair.client_box, 0);
    ck_assert_uint_eq(stats().exs_sent, 2 * LONG);
    advertise_long();
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert_uint_eq(received(), LONG);
    ck_assert_uint_eq(stats().exs_sent_direct, 3 * LONG);
}
END_TEST

/* A send that fits into the ring buffer does not wait, nor does one with MSG_DONTWAIT. */
START_TEST(others_do_not)
{
    int flags = _i ? MSG_DONTWAIT : 0;

    must(exs_send(pair.client, from, _i ? LONG : RECV_RING, flags, pair.client_box->queue, NULL, NULL));
    ck_assert_uint_eq(stats().exs_sent, LONG + RECV_RING);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
}
END_TEST

/* After a wait that timed out, sends do not wait again before the peer has advertised once; after the next timeout,
 * three times; then seven times. */
START_TEST(is_empty)
{
    for (unsigned doubt = 1; doubt <= 7; doubt = 2 * doubt + 1) {
        wait_in_vain();
        for (unsigned i = 0; i < doubt; i++) {
            send_bytes(LONG);
            goes_by_recv_ring();
            advertise_long();
            send_bytes(LONG);
            whole_is_direct();
        }
    }
    wait_in_vain();
}
END_TEST

/* After a wait that succeeded, half as many advertisements are required. */
START_TEST(no_longer_in_vain)
{
    for (int i = 0; i < 2; i++) {
        wait_in_vain();
        for (int adverts = 0; adverts < 1 + 2 * i; adverts++) {
            advertise_long();
            send_bytes(LONG);
            whole_is_direct();
        }
    }
    send_bytes(LONG);
    advertise_long();
    whole_is_direct();
    wait_in_vain();
    for (int adverts = 0; adverts < 3; adverts++) {
        advertise_long();
        send_bytes(LONG);
        whole_is_direct();
    }
    wait_in_vain();
}
END_TEST

/* A send with a timeout does not wait. */
START_TEST(bounded)
{
    const struct timeval limit = {.tv_sec = 3600};

    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    send_bytes(LONG);
    goes_by_recv_ring();
}
END_TEST

/* A send does not wait if the peer's receives are shorter than its ring buffer. */
START_TEST(not_of_short_receives)
{
    uint64_t before;

    advertise_one();
    send_bytes(LARGE);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    ck_assert_uint_eq(received(), LARGE);
    before = stats().exs_sent;
    send_bytes(LONG);
    ck_assert_uint_eq(stats().exs_sent, before + RECV_RING);
    taken_by_recv_ring();
}
END_TEST

/* A send with MSG_DONTWAIT does not start the time limit of the next send. */
START_TEST(after_one_at_once)
{
    uint64_t before;

    must(exs_send(pair.client, from, LONG, MSG_DONTWAIT, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    while (exs_recv(pair.server, to, LONG, MSG_DONTWAIT, pair.server_box->queue, NULL, region) != 0)
        inbox_pump(pair.server_box, QUIET_MS);
    ck_assert_uint_eq(received(), RECV_RING);
    inbox_pump(pair.client_box, QUIET_MS);
    own_leap = LEAP_NS;
    before = stats().exs_sent;
    send_bytes(LONG);
    ck_assert_uint_eq(stats().exs_sent, before);
    advertise_long();
    whole_is_direct();
}
END_TEST

static _Atomic pid_t sleeper;

static void *receive_byte(void *unused)
{
    char byte;

    (void)unused;
    atomic_store(&sleeper, gettid());
    ck_assert_int_eq(exs_blocking_recv(pair.client, &byte, 1, 0, NULL), 1);
    return NULL;
}

static void *receive_long(void *unused)
{
    (void)unused;
    ck_assert_int_eq(exs_blocking_recv(pair.server, to, LONG, MSG_WAITALL, region), LONG);
    return NULL;
}

/* A thread that sleeps in a call on the same socket is woken, so that it sets the timer of the new send. */
START_TEST(while_another_sleeps)
{
    const struct timeval limit = {.tv_sec = (time_t)LATE_S};

    init_library();
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    from = new_buffer(LONG);
    to = new_buffer(LONG);
    region = exs_mregister(to, LONG, 0);
    pthread_t thread = thread_start(receive_long, NULL);
    must(exs_blocking_send(pair.client, from, LONG, 0, NULL));
    thread_join(thread);
    thread = thread_start(receive_byte, NULL);
    await_sleep(&sleeper);
    must(exs_send(pair.client, from, LONG, EXS_UNSIGNALED, NULL, NULL, NULL));
    exs_pollfd_t readable = {.exs_fd = pair.server, .exs_events = EXS_POLLIN};
    ck_assert_int_eq(exs_poll(&readable, 1, EXS_BLOCK, &limit, NULL, NULL), 1);
    receive_long(NULL);
    ck_assert_int_eq(exs_blocking_send(pair.server, from, 1, 0, NULL), 1);
    thread_join(thread);
    pair_close_blocking(&pair);
    must(exs_mderegister(region, 0));
    free(from);
    free(to);
}
END_TEST

/* Before its first advertisement the peer is not expected to send one. */
START_TEST(not_of_strangers)
{
    init_library();
    begin();
    send_bytes(LONG);
    goes_by_recv_ring();
    end_of_it();
}
END_TEST

/* The number of work requests that were posted on the connection. */
static uint32_t requests_given(void)
{
    return conn_of(pair.client)->sq.tail;
}

static unsigned requests_of(size_t length)
{
    advertise_one();
    uint32_t before = requests_given();

    send_bytes(length);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    unsigned requests = requests_given() - before;

    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    return requests;
}

/* A direct message takes one work request, on each link. */
START_TEST(requests)
{
    static const char *const of[] = {"shm", "tcp", "udp"};

    if (on_rdma())
        return;
    must(setenv("EXS_LINK", of[_i], 1));
    init_library();
    begin();
    ck_assert_uint_eq(requests_of(SHORT), 1);
    ck_assert_uint_eq(requests_of(16384), 1);
    ck_assert_mem_eq(to, from, 16384);
    end_of_it();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("direct");
    TCase *c = add_case(suite, "direct", 20), *links = add_bare_case(suite, "links", 20),
          *long_ones = add_case(suite, "long", 20);

    tcase_add_checked_fixture(c, begin, end_of_it);
    tcase_add_test(c, waits_for_the_next);
    tcase_add_test(c, not_for_ever);
    tcase_add_test(c, not_at_all);
    tcase_add_loop_test(c, with_a_short_one, 0, 2);
    tcase_add_loop_test(links, requests, 0, 3);
    tcase_add_test(links, not_of_strangers);
    tcase_add_test(links, while_another_sleeps);
    tcase_add_checked_fixture(long_ones, begin_trusted, end_of_it);
    tcase_add_test(long_ones, long_ones_wait);
    tcase_add_test(long_ones, for_each_of_several);
    tcase_add_loop_test(long_ones, others_do_not, 0, 2);
    tcase_add_test(long_ones, is_empty);
    tcase_add_test(long_ones, no_longer_in_vain);
    tcase_add_test(long_ones, bounded);
    tcase_add_test(long_ones, not_of_short_receives);
    tcase_add_test(long_ones, after_one_at_once);
    return run_suite(suite);
}
