/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_protocol.c - EXS's protocol, seen from inside the library: invariants of two connected endpoints during
 * random transfers. (test_badpeer.c tests a peer that violates the protocol.)
 */
#include "core/api/core.h"
#include "core/conn/protocol.h"
#include "core/queue/queue.h"
#include "inside.h"

#define LONGEST (300 * KIB) /* bytes of one transfer; more than the receive ring holds */
#define AHEAD 6             /* outstanding transfers of one kind */
#define FEW_BYTES 100

/* ---- Invariants ------------------------------------------------------------------------ */

/* The receive ring holds at most its size. Its acknowledged position only advances, and never beyond the bytes
 * that were copied. */
static void audit_recv_ring(const struct conn *to, const struct conn *from, uint64_t *acked)
{
    ck_assert_uint_le(to->ring.in - to->ring.out, from->peer_ring.size);
    ck_assert_uint_le(to->ring.acked, to->ring.out);
    ck_assert_uint_le(to->ring.in, from->tx.ring_sent);
    ck_assert_uint_le(from->tx.ring_sent - from->tx.ring_acked, from->peer_ring.size);
    ck_assert_uint_le(from->tx.ring_acked, to->ring.out);
    ck_assert_uint_ge(from->tx.ring_acked, *acked);
    *acked = from->tx.ring_acked;
}

/* The advertised receives are the first ones, and none is advertised while the receive ring has bytes for them. */
static void audit_adverts(const struct conn *to, const struct conn *from)
{
    const struct op *op;
    uint32_t count = 0;
    bool behind = false;

    STAILQ_FOREACH (op, &to->rx.recvs, link) {
        ck_assert(!op->in.advertised || !behind);
        ck_assert(!op->in.advertised || count == 0 || op->posted == 0);
        ck_assert_uint_le(op->posted, op->length);
        behind = behind || !op->in.advertised;
        count += op->in.advertised;
    }
    ck_assert_uint_eq(count, to->adverts.count);
    ck_assert_uint_le(count, ADVERTS_MAX);
    ck_assert_uint_le(from->peer_adverts.count, ADVERTS_MAX);
    ck_assert(to->rx.phase % 2 == 0 || to->adverts.count == 0);
    ck_assert(to->ring.in == to->ring.out || to->adverts.count == 0);
}

/* The credits of one side, together with those that the other side has not returned yet, never exceed the
 * number of posted receives. */
static void audit_credits(const struct conn *one, const struct conn *other)
{
    ck_assert_uint_le(one->credits.available, one->peer.credits);
    ck_assert_uint_le(one->credits.available + other->credits.unreturned, RQ_DEPTH);
}

static void audit(const struct pair *pair, uint64_t acked[2])
{
    const struct conn *client = conn_of(pair->client), *server = conn_of(pair->server);

    audit_recv_ring(server, client, &acked[0]);
    audit_recv_ring(client, server, &acked[1]);
    audit_adverts(server, client);
    audit_adverts(client, server);
    audit_credits(client, server);
    audit_credits(server, client);
}

/* ---- Transfers ------------------------------------------------------------------------- */

struct side {
    struct inbox *box;
    int socket;
    uint8_t *out, *in[AHEAD];
    size_t want[AHEAD];
    int sends, next, first,
        recvs; /* number of sends and the next buffer; number of receives, the first in in[first] */
    uint64_t sent, got, seed;
};

static void side_open(struct side *side, struct inbox *box, int socket, uint64_t seed)
{
    *side = (struct side){.box = box, .socket = socket, .seed = seed, .out = new_buffer(AHEAD * LONGEST)};
    for (int i = 0; i < AHEAD; i++)
        side->in[i] = new_buffer(LONGEST);
}

static void side_close(struct side *side)
{
    free(side->out);
    for (int i = 0; i < AHEAD; i++)
        free(side->in[i]);
}

static void send_some(struct side *side, struct chance *chance)
{
    size_t length = chance_size(chance, 1, LONGEST);
    uint8_t *place = side->out + side->next * LONGEST;

    if (side->sends == AHEAD)
        return;
    pattern_fill(place, length, side->seed, side->sent);
    must(exs_send(side->socket, place, length, 0, side->box->queue, NULL, NULL));
    side->sent += length;
    side->sends++;
    side->next = (side->next + 1) % AHEAD;
}

static void receive_some(struct side *side, struct chance *chance)
{
    int at = (side->first + side->recvs) % AHEAD;

    if (side->recvs == AHEAD)
        return;
    side->want[at] = chance_size(chance, 1, LONGEST);
    must(exs_recv(side->socket, side->in[at], side->want[at], chance_below(chance, 4) == 0 ? MSG_WAITALL : 0,
                  side->box->queue, NULL, NULL));
    side->recvs++;
}

/* Dequeues the available events. */
static void harvest(struct side *side, uint64_t peer_seed)
{
    exs_event_t events[8];
    int count = exs_qdequeue(side->box->queue, events, 8, &(struct timeval){0, 0});

    must(count);
    for (int i = 0; i < count; i++) {
        size_t length = events[i].exs_evt_union.exs_evt_xfer.exs_evt_length;

        ck_assert_int_eq(events[i].exs_evt_errno, 0);
        if (events[i].exs_evt_type == EXS_EVT_SEND) {
            side->sends--;
            continue;
        }
        ck_assert_int_eq(events[i].exs_evt_type, EXS_EVT_RECV);
        ck_assert_ptr_eq(events[i].exs_evt_union.exs_evt_xfer.exs_evt_buffer, side->in[side->first]);
        pattern_check(side->in[side->first], length, peer_seed, side->got);
        side->got += length;
        side->first = (side->first + 1) % AHEAD;
        side->recvs--;
    }
}

static void act(struct side *side, struct chance *chance)
{
    if (chance_below(chance, 3) == 0)
        send_some(side, chance);
    if (chance_below(chance, 3) == 0)
        receive_some(side, chance);
}

/* Delivers everything that was sent. */
static void settle(struct side *one, struct side *other, struct chance *chance, const struct pair *pair,
                   uint64_t acked[2])
{
    double end = seconds_now() + WAIT_MS / 1000.0;

    while (one->got < other->sent || other->got < one->sent || one->sends > 0 || other->sends > 0) {
        ck_assert(seconds_now() < end);
        if (one->got < other->sent && one->recvs == 0)
            receive_some(one, chance);
        if (other->got < one->sent && other->recvs == 0)
            receive_some(other, chance);
        /* a receive with MSG_WAITALL may wait for more than was sent */
        if (one->recvs > 0 && one->got < other->sent && other->sends == 0)
            send_some(other, chance);
        if (other->recvs > 0 && other->got < one->sent && one->sends == 0)
            send_some(one, chance);
        harvest(one, other->seed);
        harvest(other, one->seed);
        audit(pair, acked);
    }
}

/* Receives that waited for more data ended with the socket. */
static void forget_receives(struct side *side)
{
    exs_event_t event;

    for (; side->recvs > 0; side->recvs--) {
        ck_assert_int_eq(exs_qdequeue(side->box->queue, &event, 1, &(struct timeval){20, 0}), 1);
        ck_assert_int_eq(event.exs_evt_type, EXS_EVT_RECV);
    }
}

static const uint32_t requests_of[] = {UINT32_MAX, 32 * KIB, 1000};

/* Whether the run has seen advertisements that crossed with data and were dropped, and ring space that was
 * released. */
static bool saw_all(const struct pair *pair, const uint64_t acked[2])
{
    return conn_of(pair->client)->adverts.stale + conn_of(pair->server)->adverts.stale > 0 &&
           acked[0] + acked[1] > 0;
}

/* Runs for its time, and longer until saw_all(); Check's timeout limits that. */
START_TEST(invariants)
{
    struct chance chance = chance_new();
    struct pair pair;
    struct side client, server;
    uint64_t acked[2] = {0, 0};
    double end;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    cut_requests(&pair, requests_of[_i]);
    side_open(&client, pair.client_box, pair.client, chance_next(&chance));
    side_open(&server, pair.server_box, pair.server, chance_next(&chance));
    for (end = seconds_now() + seconds_to_spend(); seconds_now() < end || !saw_all(&pair, acked);) {
        act(&client, &chance);
        act(&server, &chance);
        audit(&pair, acked);
        if (chance_below(&chance, 2) == 0)
            harvest(&client, server.seed);
        audit(&pair, acked);
        if (chance_below(&chance, 2) == 0)
            harvest(&server, client.seed);
        audit(&pair, acked);
    }
    settle(&client, &server, &chance, &pair, acked);
    must(exs_blocking_close(pair.client));
    must(exs_blocking_close(pair.server));
    forget_receives(&client);
    forget_receives(&server);
    pair_close_rest(&pair);
    side_close(&client);
    side_close(&server);
}
END_TEST

/* Two peers that exchange short messages send no separate credit messages: the immediate data return the
 * credits, unless the peer does not read them there. On a device without immediate data the SEND behind each
 * WRITE returns them. */
START_TEST(short_messages_return_credits)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct conn *client = conn_of(pair.client), *server = conn_of(pair.server);
    bool read = _i == 0 || !client->limits.immediate;
    uint16_t flags = (client->limits.immediate ? HELLO_IMM_CREDITS : HELLO_NO_IMMEDIATE) | HELLO_EMPTY_END |
                     HELLO_RING_GROWS;
    uint32_t messages = 4 * RQ_DEPTH, requests = client->limits.immediate ? messages : 2 * messages;

    ck_assert_uint_eq(client->peer.flags, flags);
    ck_assert_uint_eq(server->peer.flags, flags);
    if (!read)
        client->peer.flags = server->peer.flags = 0;
    for (uint64_t i = 0; i < messages; i++) {
        pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, FEW_BYTES, i);
        pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, FEW_BYTES, i);
        audit_credits(client, server);
        audit_credits(server, client);
    }
    ck_assert_int_eq(client->sq.tail == requests, read);
    ck_assert_int_eq(server->sq.tail == requests, read);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("protocol");
    TCase *talk = add_case(suite, "talk", 60);

    tcase_add_loop_test(talk, invariants, 0, COUNT(requests_of));
    tcase_add_loop_test(talk, short_messages_return_credits, 0, 2);
    return run_suite(suite);
}
