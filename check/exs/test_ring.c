/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ring.c - receive rings that grow on paths with a long round-trip time, and pending short sends that
 * share messages: bytes arrive whole and in order, also while two rings are in use, and no peer gets more
 * memory than the limits allow.
 *
 * Both ends are in this process. The test writes the round-trip time into the sender's measurement.
 */
#include "check/support/scene.h"
#include "check/support/support.h"
#include "core/base/clock.h"
#include "inside.h"

#define PIECE 8000               /* bytes of a receive; short and unregistered, so it is never advertised */
#define TOTAL ((size_t)48 << 20) /* bytes; enough for all larger rings */
#define SHORT 100
#define MANY 600
#define MIDDLE 60000 /* bytes of a send that shares no message, unless the path is long */
#define GROWN 8      /* factor by which a ring grows */

/* the sockets of another connection */
struct ends {
    int client, server;
};

static struct pair pair;
static uint8_t *out, in[PIECE];
static size_t sent, got;
static int bursts;
static struct chance chance;

static void begin(void)
{
    pair_open(&pair, AF_INET, SOCK_STREAM);
    out = new_buffer(TOTAL);
    pattern_fill(out, TOTAL, 1, 0);
    sent = got = 0;
    bursts = 0;
    chance = chance_new();
}

static void end(void)
{
    pair_close(&pair);
    free(out);
}

/* From now on the client takes its path to have a round-trip time of ten seconds, and does not measure it
 * again. */
static void make_long(void)
{
    struct conn *conn = conn_of(pair.client);

    conn->path.is_measured = conn->path.times_trip = true;
    conn->path.is_due = false;
    conn->path.trips = PATH_TRIPS;
    conn->path.trip = 10 * NS_PER_S;
    conn->path.until = conn->sq.head + (1u << 30);
}

/* Sends the next bytes of the pattern, and counts the outstanding sends. */
static void send_burst(size_t length)
{
    ck_assert_uint_le(sent + length, TOTAL);
    must(exs_send(pair.client, out + sent, length, 0, pair.client_box->queue, NULL, NULL));
    sent += length;
    bursts++;
}

/* Receives bytes, checks them, and returns their number. */
static size_t receive(size_t length, int flags)
{
    must(exs_recv(pair.server, in, length, flags, pair.server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    size_t bytes = event.exs_evt_union.exs_evt_xfer.exs_evt_length;

    pattern_check(in, bytes, 1, got);
    if ((flags & MSG_PEEK) == 0)
        got += bytes;
    return bytes;
}

/* Receives as an application might: any length, sometimes with MSG_PEEK or MSG_WAITALL. */
static void receive_some(void)
{
    size_t length = chance_below(&chance, 3) > 0 ? PIECE : chance_size(&chance, 1, PIECE);
    int flags = chance_below(&chance, 4) == 0 ? MSG_PEEK : 0;

    if (length <= sent - got && chance_below(&chance, 2) == 0)
        flags |= MSG_WAITALL;
    size_t bytes = receive(length, flags);

    ck_assert_uint_gt(bytes, 0);
    if (flags & MSG_WAITALL)
        ck_assert_uint_eq(bytes, length);
}

static void receive_all(void)
{
    while (got < sent)
        receive_some();
    for (; bursts > 0; bursts--)
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
}

/* The client sends more than the server's ring holds. It gets a larger ring while the old one still holds
 * bytes, and uses that. */
static void use_two_rings(void)
{
    const struct conn *conn = conn_of(pair.server);
    const struct conn *client = conn_of(pair.client);
    uint64_t size = conn->ring.size, full = client->tx.ring_acked + size;

    send_burst(full + size * 3 / 8 - client->tx.ring_sent);
    ck_assert_uint_eq(client->path.ring_until, full);
    while (conn->ring.acked < full)
        receive_some();
    for (int i = 0; i < 1000 && conn->ring.next.data == NULL; i++) {
        inbox_pump(pair.client_box, 1);
        inbox_pump(pair.server_box, 1);
    }
    ck_assert_ptr_ne(conn->ring.next.data, NULL);
    ck_assert_uint_eq(conn->ring.next.size, size * GROWN);
    send_burst(size / 2);
    for (int i = 0; i < 1000 && !conn->ring.next.is_used; i++) {
        inbox_pump(pair.client_box, 1);
        inbox_pump(pair.server_box, 1);
    }
    ck_assert(conn->ring.next.is_used);
    ck_assert_uint_lt(conn->ring.out, conn->ring.next.from);
    ck_assert_uint_gt(conn->ring.in, conn->ring.next.from);
}

START_TEST(it_grows_to_its_bound)
{
    const struct conn *conn = conn_of(pair.server);

    ck_assert_uint_eq(conn->ring.size, RECV_RING_SIZE);
    make_long();
    while (conn->ring.size < RING_MAX) {
        use_two_rings();
        receive_all();
    }
    ck_assert_uint_eq(conn->ring.size, RING_MAX);
    send_burst(RING_MAX + RING_MAX / 8); /* once around the ring, and more */
    receive_all();
    ck_assert_uint_eq(conn->ring.size, RING_MAX);
    ck_assert_ptr_eq(conn->ring.next.data, NULL);
}
END_TEST

/* A ring does not grow if the path is short, or if the application has set its size (SO_RCVBUF). */
START_TEST(it_does_not_grow)
{
    int bytes = RECV_RING_SIZE;

    if (_i) {
        must(exs_setsockopt(pair.listener, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes));
        close_socket(pair.client_box, pair.client);
        close_socket(pair.server_box, pair.server);
        connect_ends(pair.listener, SOCK_STREAM, &pair.address, pair.client_box, pair.server_box, &pair.client,
                     &pair.server);
        make_long();
    } else {
        conn_of(pair.client)->path.is_measured = false; /* as on a short path */
    }
    send_burst(RECV_RING_SIZE * 11 / 8);
    receive_all();
    ck_assert_uint_eq(conn_of(pair.server)->ring.size, RECV_RING_SIZE);
    ck_assert_ptr_eq(conn_of(pair.server)->ring.next.data, NULL);
}
END_TEST

/* The sender shuts down its direction: the end of stream arrives behind the bytes of both rings. */
START_TEST(the_end_comes_behind_both_rings)
{
    make_long();
    use_two_rings();
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    receive_all();
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    ck_assert_uint_eq(receive(PIECE, 0), 0);
}
END_TEST

/* The sender cancels what it could not send yet. The receiver gets exactly the bytes that were sent. */
START_TEST(a_cancel_keeps_what_both_rings_hold)
{
    size_t length = RECV_RING_SIZE * 32, whole;

    make_long();
    use_two_rings();
    whole = sent;
    send_burst(length);
    must(exs_cancel(pair.client, NULL, EXS_CANCEL_ALL));
    for (; bursts > 1; bursts--)
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    exs_event_t event = take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);

    sent = whole + event.exs_evt_union.exs_evt_xfer.exs_evt_length;
    ck_assert_uint_lt(sent, whole + length);
    bursts = 0;
    receive_all();
    inbox_quiet(pair.server_box, QUIET_MS);
    ck_assert_uint_eq(conn_of(pair.server)->ring.in, got);
}
END_TEST

/* The receiver closes with bytes in both rings. */
START_TEST(a_close_frees_both_rings)
{
    make_long();
    use_two_rings();
    send_burst(RECV_RING_SIZE * 8);
    close_socket(pair.server_box, pair.server);
    for (; bursts > 0; bursts--)
        inbox_take(pair.client_box, EXS_EVT_SEND, pair.client); /* succeeds if its bytes were sent */
    close_socket(pair.client_box, pair.client);
    connect_ends(pair.listener, SOCK_STREAM, &pair.address, pair.client_box, pair.server_box, &pair.client,
                 &pair.server);
}
END_TEST

/* Sends one byte from the client to the server. */
static void exchange_byte(const struct ends *ends)
{
    must(exs_send(ends->client, out, 1, 0, pair.client_box->queue, NULL, NULL));
    must(exs_recv(ends->server, in, 1, 0, pair.server_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, ends->client);
    take_good(pair.server_box, EXS_EVT_RECV, ends->server);
}

/* The client requests a larger ring, and uses it if it gets one. Returns the size of the server's ring. */
static uint64_t ask_for_ring(const struct ends *ends)
{
    const struct conn *conn = conn_of(ends->server);
    uint64_t size = conn->ring.size;

    conn_of(ends->client)->tx.due |= DUE_RING_WANTED;
    for (int i = 0; i < 100 && conn->ring.size == size; i++)
        exchange_byte(ends);
    return conn->ring.size;
}

/* All rings of the process that have grown share one limit. A ring that was replaced counts until it is empty. */
START_TEST(all_rings_together_have_a_bound)
{
    struct ends ends[RINGS_MAX / RING_MAX];
    const int last = sizeof ends / sizeof *ends - 1;

    if (on_rdma())
        return; /* an adapter would pin all this memory */
    for (int i = 0; i <= last; i++) {
        connect_ends(pair.listener, SOCK_STREAM, &pair.address, pair.client_box, pair.server_box,
                     &ends[i].client, &ends[i].server);
        ck_assert_uint_eq(ask_for_ring(&ends[i]), RECV_RING_SIZE * GROWN);
        ck_assert_uint_eq(ask_for_ring(&ends[i]), i < last ? RING_MAX : RECV_RING_SIZE * GROWN);
    }
    close_socket(pair.client_box, ends[0].client);
    close_socket(pair.server_box, ends[0].server);
    ck_assert_uint_eq(ask_for_ring(&ends[last]), RING_MAX);
    for (int i = 1; i <= last; i++) {
        close_socket(pair.client_box, ends[i].client);
        close_socket(pair.server_box, ends[i].server);
    }
}
END_TEST

/* exs_ring_bytes is that limit, for the process that sets it. */
START_TEST(a_configured_bound)
{
    exs_config_t config = EXS_CONFIG_INIT;

    config.exs_ring_bytes = RECV_RING_SIZE * GROWN * 2 - 1;
    must(exs_init_config(EXS_VERSION, &config));
    begin();
    struct ends one = {pair.client, pair.server}, two;

    connect_ends(pair.listener, SOCK_STREAM, &pair.address, pair.client_box, pair.server_box, &two.client,
                 &two.server);
    ck_assert_uint_eq(ask_for_ring(&one), RECV_RING_SIZE * GROWN);
    ck_assert_uint_eq(ask_for_ring(&one), RECV_RING_SIZE * GROWN);
    ck_assert_uint_eq(ask_for_ring(&two), RECV_RING_SIZE);
    close_socket(pair.client_box, two.client);
    close_socket(pair.server_box, two.server);
    end();
    must(exs_fini());
}
END_TEST

/* Sends that have to wait share messages. Each has its own event, and the events arrive in order. */
START_TEST(short_sends_travel_together)
{
    const struct conn *conn = conn_of(pair.client);
    uint32_t before = conn->sq.tail;
    size_t length = SHORT * (size_t)(_i ? 41 : 1); /* sends of 4,100 bytes are registered one by one */

    for (intptr_t i = 0; i < MANY; i++)
        must(exs_send(pair.client, out + (size_t)i * length, length, 0, pair.client_box->queue, (void *)(i + 1),
                      NULL));
    while (got < MANY * length)
        ck_assert_uint_gt(receive(PIECE, 0), 0);
    for (intptr_t i = 0; i < MANY; i++) {
        exs_event_t event = take_good(pair.client_box, EXS_EVT_SEND, pair.client);

        ck_assert_ptr_eq(event.exs_evt_ahandle, (void *)(i + 1));
        ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
    }
    if (conn->limits.immediate)
        ck_assert_uint_lt(conn->sq.tail - before, MANY / 2);
}
END_TEST

/* Pending sends of registered memory. On a long path the number of messages per round trip limits the
 * throughput, so longer sends share messages, too. On a short path they do not, not even with short sends. */
START_TEST(longer_sends_travel_together_on_a_long_path)
{
    const struct conn *conn = conn_of(pair.client);
    exs_mhandle_t region = exs_mregister(out, TOTAL, 0);
    const int count = 200;
    const bool is_long = _i == 1;

    ck_assert_ptr_ne(region, NULL);
    make_long();
    while (conn->peer_ring.size < RING_MAX) {
        use_two_rings();
        receive_all();
    }
    if (!is_long)
        conn_of(pair.client)->path.is_measured = false;
    uint32_t before = conn->sq.tail;

    ck_assert_uint_le(sent + (size_t)count * MIDDLE, TOTAL);
    for (int i = 0; i < count; i++) {
        size_t length = _i == 2 && i % 2 == 0 ? SHORT : MIDDLE;

        must(exs_send(pair.client, out + sent, length, 0, pair.client_box->queue, NULL, region));
        sent += length;
    }
    while (got < sent)
        receive_some();
    for (int i = 0; i < count; i++)
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    if (is_long && conn->limits.immediate && conn->limits.max_gather > 1)
        ck_assert_uint_lt(conn->sq.tail - before, count * 3 / 4);
    else
        ck_assert_uint_ge(conn->sq.tail - before, count);
    must(exs_mderegister(region, 0));
}
END_TEST

/* The first data on a connection measure a round trip, also if they need not wait. */
START_TEST(the_first_data_measure_the_path)
{
    const struct path *path = &conn_of(pair.client)->path;

    ck_assert_uint_eq(path->trips, 0);
    send_burst(SHORT);
    receive_all();
    ck_assert_uint_eq(path->trips, 1);
    ck_assert(!path->times_trip);
    ck_assert_int_eq(path->is_measured, path->trip >= NS_PER_S / 1000); /* a short path is not measured again */
    send_burst(SHORT);
    receive_all();
    ck_assert_uint_eq(path->trips, 1);
}
END_TEST

/* SEQPACKET: each receive gets one message, although all messages waited for the first receive, which could
 * hold all of them. */
START_TEST(messages_stay_apart)
{
    struct pair messages;

    pair_open(&messages, AF_INET, SOCK_SEQPACKET);
    exs_mhandle_t region = exs_mregister(out, SHORT, 0);

    ck_assert_ptr_ne(region, NULL);
    for (size_t length = 1; length <= SHORT; length += 9)
        must(exs_send(messages.client, out, length, 0, messages.client_box->queue, NULL, region));
    for (size_t length = 1; length <= SHORT; length += 9) {
        must(exs_recv(messages.server, in, PIECE, 0, messages.server_box->queue, NULL, NULL));
        exs_event_t event = take_good(messages.server_box, EXS_EVT_RECV, messages.server);

        ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
        ck_assert_mem_eq(in, out, length);
        take_good(messages.client_box, EXS_EVT_SEND, messages.client);
    }
    pair_close(&messages);
    must(exs_mderegister(region, 0));
}
END_TEST

/* ---- A peer that requests more than it may have ------------------------------------------------------- */

/* The raw peer announces that it supports growing rings. */
static void open_growing(void)
{
    struct hello hello = raw_hello(SOCK_STREAM);

    hello.flags |= HELLO_RING_GROWS;
    scene_open(hello);
}

static void want_ring(void)
{
    raw_control(&scene.raw, (struct control){.type = CONTROL_RING_WANTED});
}

/* EXS offers a new ring of this length, and the peer uses it. */
static void use_ring(uint64_t length)
{
    struct control ring = raw_hear_control(&scene.raw, CONTROL_RING);
    char byte;

    ck_assert_uint_eq(ring.length, length);
    scene.raw.there.recv_ring_addr = ring.addr;
    scene.raw.there.recv_ring_rkey = ring.rkey;
    scene.raw.there.recv_ring_size = (uint32_t)ring.length;
    scene.raw.indirect_flags = IMM_NEW_RING;
    must(exs_recv(scene.server, &byte, 1, 0, scene.box.queue, NULL, NULL));
    pattern_fill(scene.raw.room, 1, 3, 0);
    raw_indirect(&scene.raw, 1);
    take_good(&scene.box, EXS_EVT_RECV, scene.server);
    pattern_check(&byte, 1, 3, 0);
    scene.raw.indirect_flags = 0;
}

static void hear_no_ring(void)
{
    inbox_quiet(&scene.box, QUIET_MS);
    raw_look(&scene.raw);
    for (int i = 0; i < scene.raw.message_count; i++)
        ck_assert_int_ne(scene.raw.messages[i].control.type, CONTROL_RING);
}

START_TEST(nobody_gets_more_than_the_bound)
{
    open_growing();
    for (uint64_t size = RECV_RING_SIZE * GROWN; size <= RING_MAX; size *= GROWN) {
        want_ring();
        use_ring(size);
    }
    for (int i = 0; i < 5; i++)
        want_ring();
    hear_no_ring();
    scene_alive();
    scene_close();
}
END_TEST

/* EXS offers one ring at a time, and none while the application does not receive what the ring holds. */
START_TEST(one_ring_at_a_time)
{
    open_growing();
    if (_i) {
        for (int i = 0; i < 3; i++)
            raw_indirect(&scene.raw, 60 * KIB);
        want_ring();
        hear_no_ring();
    } else {
        want_ring();
        raw_hear_control(&scene.raw, CONTROL_RING);
        want_ring();
        hear_no_ring();
    }
    raw_disconnect(&scene.raw);
    scene_close();
}
END_TEST

/* The connection breaks if the peer writes to a ring that was not offered, switches to an offered one twice,
 * while the old one is empty or not, or writes more than a ring holds. */
START_TEST(a_ring_that_was_not_offered)
{
    open_growing();
    if (_i == 1) {
        want_ring();
        use_ring(RECV_RING_SIZE * GROWN);
    } else if (_i > 1) {
        want_ring();
        raw_hear_control(&scene.raw, CONTROL_RING);
    }
    if (_i == 3) {
        raw_indirect(&scene.raw, 1);
        raw_data(&scene.raw, IMM_NEW_RING | 1);
    }
    raw_data(&scene.raw, IMM_NEW_RING | (_i == 2 ? RECV_RING_SIZE * GROWN + 1 : 5));
    if (_i == 3) { /* earlier data can be received after the connection has broken */
        inbox_quiet(&scene.box, QUIET_MS);
        must(exs_recv(scene.server, in, 2, MSG_WAITALL, scene.box.queue, NULL, NULL));
        take_good(&scene.box, EXS_EVT_RECV, scene.server);
    }
    scene_broken();
    scene_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ring");
    TCase *grows = add_case(suite, "grows", 60), *bound = add_bare_case(suite, "bound", 20),
          *apart = add_case(suite, "apart", 20), *lies = add_bare_case(suite, "lies", 20);

    tcase_add_checked_fixture(grows, begin, end);
    tcase_add_test(grows, it_grows_to_its_bound);
    tcase_add_loop_test(grows, it_does_not_grow, 0, 2);
    tcase_add_test(grows, the_end_comes_behind_both_rings);
    tcase_add_test(grows, a_cancel_keeps_what_both_rings_hold);
    tcase_add_test(grows, a_close_frees_both_rings);
    tcase_add_test(grows, all_rings_together_have_a_bound);
    tcase_add_loop_test(grows, short_sends_travel_together, 0, 2);
    tcase_add_loop_test(grows, longer_sends_travel_together_on_a_long_path, 0, 3);
    tcase_add_test(grows, the_first_data_measure_the_path);
    tcase_add_test(bound, a_configured_bound);
    tcase_add_checked_fixture(apart, begin, end);
    tcase_add_test(apart, messages_stay_apart);
    tcase_add_test(lies, nobody_gets_more_than_the_bound);
    tcase_add_loop_test(lies, one_ring_at_a_time, 0, 2);
    tcase_add_loop_test(lies, a_ring_that_was_not_offered, 0, 4);
    return run_suite(suite);
}
