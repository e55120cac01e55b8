/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_place.c - a receive into several segments, seen from inside the library: segments are filled in order,
 * whether the bytes arrive through the receive ring or are written directly, and each is advertised to the peer
 * only after the one before it is full.
 */
#include "core/api/core.h"
#include "core/memory/memory.h"
#include "core/conn/place.h"
#include "core/queue/queue.h"
#include "core/sock/sock.h"
#include "inside.h"

#define PIECES_MAX 6
#define LARGE (64 * KIB) /* bytes; a segment that is long enough to be advertised */

struct scattered { /* a receive into segments */
    struct piece pieces[PIECES_MAX];
    uint32_t count;
    bool waitall;
    exs_mhandle_t region; /* of all segments, or NULL */
};

static void add_piece(struct scattered *to, void *base, size_t length)
{
    struct piece *piece = &to->pieces[to->count++];

    *piece = (struct piece){.base = base, .length = length};
    must(xs_memory_use(to->region, base, length, EXS_MRF_RECV_DISABLE, &piece->memory));
}

/* Does what exs_recv() does, for several segments. */
static void receive_into(const struct pair *pair, struct scattered *to)
{
    struct sock *sock = xs_sock_get_locked(pair->server);
    struct queue *queue = xs_queue_get(pair->server_box->queue);
    struct op *op = xs_sock_op(sock, queue, EXS_EVT_RECV, NULL, NULL);

    ck_assert_ptr_nonnull(op);
    op->in.waitall = to->waitall;
    xs_place_into(op, to->pieces, to->count);
    STAILQ_INSERT_TAIL(&sock->conn->rx.recvs, op, link);
    xs_conn_run_recvs(sock->conn);
    xs_sock_put_locked(sock);
    xs_queue_put(queue);
}

static uint64_t take_received(const struct pair *pair)
{
    return take_good(pair->server_box, EXS_EVT_RECV, pair->server).exs_evt_union.exs_evt_xfer.exs_evt_length;
}

static void send_pattern(const struct pair *pair, size_t length, uint64_t at)
{
    uint8_t *bytes = new_buffer(length);

    pattern_fill(bytes, length, 1, at);
    must(exs_send(pair->client, bytes, length, 0, pair->client_box->queue, NULL, NULL));
    take_good(pair->client_box, EXS_EVT_SEND, pair->client);
    free(bytes);
}

/* The segments hold this number of bytes of the pattern, and nothing was written behind these. */
static uint64_t check_pieces(const struct scattered *to, uint64_t bytes, uint64_t at)
{
    for (uint32_t i = 0; i < to->count; i++) {
        size_t here = bytes < to->pieces[i].length ? bytes : to->pieces[i].length;

        pattern_check(to->pieces[i].base, here, 1, at);
        same_bytes(to->pieces[i].base + here, to->pieces[i].length - here, CANARY);
        at += here;
        bytes -= here;
    }
    ck_assert_uint_eq(bytes, 0);
    return at;
}

/* Waits until the client has this number of advertisements, the first with this many bytes left, and the server
 * has advertised nothing else. */
static void until_open(const struct pair *pair, uint32_t places, uint64_t bytes)
{
    const struct conn *client = conn_of(pair->client), *server = conn_of(pair->server);

    while (client->peer_adverts.count != places ||
           client->peer_adverts.list[client->peer_adverts.head].left != bytes ||
           server->adverts.count != places || STAILQ_FIRST(&server->rx.recvs)->in.room != bytes)
        inbox_pump(pair->server_box, WAIT_MS);
}

/* ---- Streams ------------------------------------------------------------------------------------------ */

/* Two receives are pending, and the first has two segments. The second is advertised after both, not after the
 * first. */
START_TEST(one_piece_after_the_other)
{
    uint8_t *memory = new_buffer(6 * LARGE);
    exs_mhandle_t region = _i == 0 ? NULL : exs_mregister(memory, 6 * LARGE, 0);
    struct scattered to = {.waitall = true, .region = region}, behind = to;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    add_piece(&to, memory + 3 * LARGE, LARGE);
    add_piece(&to, memory, 2 * LARGE);
    add_piece(&behind, memory + 4 * LARGE, 2 * LARGE - 1);
    receive_into(&pair, &to);
    receive_into(&pair, &behind);
    until_open(&pair, 1, LARGE);
    send_pattern(&pair, LARGE / 2, 0);
    until_open(&pair, 1, LARGE / 2);
    send_pattern(&pair, LARGE / 2, LARGE / 2);
    until_open(&pair, 2, 2 * LARGE); /* the last segment, and now the other receive */
    inbox_quiet(pair.server_box, 0);
    send_pattern(&pair, 2 * LARGE, LARGE);
    ck_assert_uint_eq(take_received(&pair), 3 * LARGE);
    check_pieces(&to, 3 * LARGE, 0);
    until_open(&pair, 1, 2 * LARGE - 1);
    send_pattern(&pair, 2 * LARGE - 1, 3 * LARGE);
    ck_assert_uint_eq(take_received(&pair), 2 * LARGE - 1);
    check_pieces(&behind, 2 * LARGE - 1, 3 * LARGE);
    if (region != NULL)
        must(exs_mderegister(region, 0)); /* fails if an operation uses the region */
    pair_close(&pair);
    free(memory);
}
END_TEST

/* A receive without MSG_WAITALL completes when its first segment is full. */
START_TEST(no_more_than_came)
{
    uint8_t *memory = new_buffer(2 * LARGE);
    struct scattered to = {0};
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    add_piece(&to, memory, LARGE);
    add_piece(&to, memory + LARGE, LARGE);
    receive_into(&pair, &to);
    until_open(&pair, 1, LARGE);
    send_pattern(&pair, LARGE, 0);
    ck_assert_uint_eq(take_received(&pair), LARGE);
    check_pieces(&to, LARGE, 0);
    pair_close(&pair);
    free(memory);
}
END_TEST

/* Adds segments of random lengths. Some are empty, but not all. */
static uint64_t add_some_pieces(struct scattered *to, uint8_t *memory, struct chance *chance)
{
    uint64_t at = 0;

    for (size_t left = 1 + chance_below(chance, PIECES_MAX - 1); left > 0; left--) {
        size_t length = chance_below(chance, 4) == 0 ? 0 : chance_size(chance, 1, LARGE);

        add_piece(to, memory + at, length);
        at += length;
    }
    if (at == 0)
        add_piece(to, memory + at++, 1);
    return at;
}

/* Random sends and receives, either first: the bytes arrive in order, and a receive with MSG_WAITALL gets all
 * of them. */
START_TEST(any_pieces)
{
    const size_t room = PIECES_MAX * LARGE;
    uint8_t *memory = new_buffer(room);
    exs_mhandle_t region = exs_mregister(memory, room, 0);
    struct chance chance = chance_new();
    uint64_t sent = 0, got = 0;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int round = 0; round < 200; round++) {
        struct scattered to = {.waitall = chance_below(&chance, 2) == 0,
                               .region = chance_below(&chance, 2) == 0 ? region : NULL};
        uint64_t total = add_some_pieces(&to, memory, &chance), wanted = to.waitall ? total : 1;
        /* these bytes fit into the receive ring */
        bool before = wanted <= 2 * LARGE && chance_below(&chance, 2) == 0;

        memset(memory, CANARY, room);
        if (!before)
            receive_into(&pair, &to);
        while (sent - got < wanted) {
            size_t length = chance_size(&chance, 1, LARGE);

            send_pattern(&pair, length, sent);
            sent += length;
        }
        if (before)
            receive_into(&pair, &to);
        uint64_t bytes = take_received(&pair);

        ck_assert(to.waitall ? bytes == total : bytes > 0 && bytes <= total);
        got = check_pieces(&to, bytes, got);
    }
    pair_close(&pair);
    must(exs_mderegister(region, 0));
    free(memory);
}
END_TEST

/* ---- Messages ----------------------------------------------------------------------------------------- */

/* A message needs one contiguous destination. A receive into several segments therefore advertises a part of
 * the receive ring, from which the message is copied into the segments. */
START_TEST(a_message_in_pieces)
{
    uint8_t *memory = new_buffer(BOUNCE_SIZE);
    exs_mhandle_t region = _i == 0 ? NULL : exs_mregister(memory, BOUNCE_SIZE, 0);
    static const size_t lengths[] = {1, 100, 101, 4000, BOUNCE_SIZE};
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    for (int i = 0; i < COUNT(lengths); i++) {
        struct scattered to = {.region = region};

        memset(memory, CANARY, BOUNCE_SIZE);
        add_piece(&to, memory + 1, 100);
        add_piece(&to, memory, 0);
        add_piece(&to, memory + 101, BOUNCE_SIZE - 101);
        add_piece(&to, memory, 1);
        receive_into(&pair, &to);
        until_open(&pair, 1, BOUNCE_SIZE);
        send_pattern(&pair, lengths[i], 0);
        ck_assert_uint_eq(take_received(&pair), lengths[i]);
        check_pieces(&to, lengths[i], 0);
    }
    if (region != NULL)
        must(exs_mderegister(region, 0));
    pair_close(&pair);
    free(memory);
}
END_TEST

/* The list of receives consists of this number of replacements for receives that have ended, and of nothing
 * else. */
static bool stand_ins_are(const struct conn *conn, uint32_t wanted)
{
    const struct op *op;
    uint32_t count = 0;

    STAILQ_FOREACH (op, &conn->rx.recvs, link) {
        count++;
        if (op->piece_count > 0 || !op->in.advertised || op->in.recv_ring == NULL)
            return false;
    }
    return count == wanted && conn->adverts.count == wanted &&
           (uint32_t)__builtin_popcount(conn->rx.slots) == wanted;
}

/* SHUT_RD ends receives at once, although the peer may still write into what was advertised to it. A
 * replacement stays in the list for each, until the peer has answered. */
START_TEST(others_wait_instead)
{
    uint8_t memory[3][100];
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    const struct conn *conn = conn_of(pair.server);

    for (int i = 0; i < 3; i++)
        must(exs_recv(pair.server, memory[i], 100, 0, pair.server_box->queue, NULL, NULL));
    until_open(&pair, 3, 100);
    must(exs_shutdown(pair.server, SHUT_RD, 0, pair.server_box->queue, NULL));
    ck_assert(stand_ins_are(conn, 3));
    /* The client does not know of the shutdown yet, because it has not been polled since. */
    must(exs_send(pair.client, "late", 4, 0, pair.client_box->queue, NULL, NULL));
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(take_received(&pair), 0);
    take_good(pair.server_box, EXS_EVT_SHUTDOWN, pair.server);
    while (!stand_ins_are(conn, 0)) /* until the peer has answered */
        inbox_pump(pair.server_box, WAIT_MS);
    inbox_quiet(pair.server_box, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    pair_close(&pair);
}
END_TEST

/* ---- Unmapped segments -------------------------------------------------------------------------------- */

/* An address below which the kernel maps nothing (vm.mmap_min_addr). */
#define NOWHERE ((void *)(uintptr_t)(8 * sysconf(_SC_PAGESIZE)))

/* The event has the number of bytes in the segments before the unmapped one. The other bytes stay for the next
 * receive. */
START_TEST(a_piece_nowhere)
{
    uint8_t memory[200];
    struct scattered to = {.waitall = true};
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    add_piece(&to, memory, 100);
    add_piece(&to, NOWHERE, 50);
    add_piece(&to, memory + 100, 50);
    receive_into(&pair, &to);
    send_pattern(&pair, 200, 0);
    exs_event_t event = take_failed(pair.server_box, EXS_EVT_RECV, pair.server, EFAULT);

    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 100);
    pattern_check(memory, 100, 1, 0);
    must(exs_recv(pair.server, memory, 100, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    ck_assert_uint_eq(take_received(&pair), 100);
    pattern_check(memory, 100, 1, 100);
    pair_close(&pair);
}
END_TEST

/* A message cannot stay for the next receive: nothing of it is delivered. */
START_TEST(a_message_nowhere)
{
    uint8_t memory[100];
    struct scattered to = {0};
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    add_piece(&to, memory, sizeof(memory));
    add_piece(&to, NOWHERE, 50);
    receive_into(&pair, &to);
    until_open(&pair, 1, 150);
    send_pattern(&pair, 101, 0);
    exs_event_t event = take_failed(pair.server_box, EXS_EVT_RECV, pair.server, EACCES);

    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("place");
    TCase *streams = add_case(suite, "streams", 10), *messages = add_case(suite, "messages", 60);
    TCase *nowhere = add_case(suite, "nowhere", 10);

    tcase_add_loop_test(streams, one_piece_after_the_other, 0, 2);
    tcase_add_test(streams, no_more_than_came);
    tcase_add_test(streams, any_pieces);
    tcase_add_loop_test(messages, a_message_in_pieces, 0, 2);
    tcase_add_test(messages, others_wait_instead);
    tcase_add_test(nowhere, a_piece_nowhere);
    tcase_add_test(nowhere, a_message_nowhere);
    return run_suite(suite);
}
