/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * EXS's own protocol from inside: what must hold of two connections at every moment while they talk. (What
 * happens when the other side lies: test_badpeer.c.)
 */
#include <poll.h>
#include "check/support/support.h"
#include "core/conn.h"
#include "core/core.h"
#include "core/library.h"
#include "core/nic.h"
#include "core/protocol.h"
#include "core/queue.h"
#include "core/sock.h"

#define LONGEST (300 * KIB) /* of one transfer: more than the hidden buffer holds */
#define AHEAD 6             /* transfers of one kind outstanding */
#define FEW_BYTES 100

static struct conn *conn_of(int socket)
{
    struct sock *sock = xs_sock_get(socket);

    ck_assert_ptr_nonnull(sock);
    struct conn *conn = sock->conn;

    xs_sock_put(sock);
    ck_assert_ptr_nonnull(conn);
    return conn;
}

/* ---- What always holds ----------------------------------------------------------------- */

/* The hidden buffer never holds more than it can, and is acknowledged forwards only, never ahead of the
 * copying. */
static void audit_hidden(const struct conn *to, const struct conn *from, uint64_t *acked)
{
    ck_assert_uint_le(to->hidden_in - to->hidden_out, HIDDEN_SIZE);
    ck_assert_uint_le(to->hidden_told, to->hidden_out);
    ck_assert_uint_le(to->hidden_in, from->hidden_sent);
    ck_assert_uint_le(from->hidden_sent - from->hidden_acked, from->peer.hidden_size);
    ck_assert_uint_le(from->hidden_acked, to->hidden_out);
    ck_assert_uint_ge(from->hidden_acked, *acked);
    *acked = from->hidden_acked;
}

/* What the peer may write into are the first receives, and never while the hidden buffer feeds them. */
static void audit_adverts(const struct conn *to, const struct conn *from)
{
    const struct op *op;
    uint32_t count = 0;
    bool behind = false;

    STAILQ_FOREACH (op, &to->recvs, link) {
        ck_assert(!op->advertised || !behind);
        ck_assert(!op->advertised || count == 0 || op->posted == 0);
        ck_assert_uint_le(op->posted, op->length);
        behind = behind || !op->advertised;
        count += op->advertised;
    }
    ck_assert_uint_eq(count, to->advertised);
    ck_assert_uint_le(count, ADVERTS_MAX);
    ck_assert_uint_le(from->advert_count, ADVERTS_MAX);
    ck_assert(to->rx_phase % 2 == 0 || to->advertised == 0);
    ck_assert(to->hidden_in == to->hidden_out || to->advertised == 0);
}

/* Credits are neither made nor lost: what one side may send and what the other owes is never more than was
 * posted. */
static void audit_credits(const struct conn *one, const struct conn *other)
{
    ck_assert_uint_le(one->credits, one->peer.credits);
    ck_assert_uint_le(one->credits + other->owed, RQ_DEPTH);
}

static void audit(const struct pair *pair, uint64_t acked[2])
{
    const struct conn *client = conn_of(pair->client), *server = conn_of(pair->server);

    audit_hidden(server, client, &acked[0]);
    audit_hidden(client, server, &acked[1]);
    audit_adverts(server, client);
    audit_adverts(client, server);
    audit_credits(client, server);
    audit_credits(server, client);
}

/* ---- Conversations --------------------------------------------------------------------- */

struct side {
    struct inbox *box;
    int socket;
    uint8_t *out, *in[AHEAD];
    size_t want[AHEAD];
    int sends, next, first,
        recvs; /* sends outstanding, and where the next is; likewise receives, from in[first] */
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

/* Take the events that are there. */
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

/* Bring everything that was sent to its receiver. */
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
        /* A WAITALL receive may ask for more than was sent: give it the rest. */
        if (one->recvs > 0 && one->got < other->sent && other->sends == 0)
            send_some(other, chance);
        if (other->recvs > 0 && other->got < one->sent && one->sends == 0)
            send_some(one, chance);
        harvest(one, other->seed);
        harvest(other, one->seed);
        audit(pair, acked);
    }
}

/* Receives that asked for more than there was ended with the socket. */
static void forget_receives(struct side *side)
{
    exs_event_t event;

    for (; side->recvs > 0; side->recvs--) {
        ck_assert_int_eq(exs_qdequeue(side->box->queue, &event, 1, &(struct timeval){20, 0}), 1);
        ck_assert_int_eq(event.exs_evt_type, EXS_EVT_RECV);
    }
}

/* As on a device that takes no longer requests than this. */
static void cut_requests(const struct pair *pair, uint32_t bytes)
{
    conn_of(pair->client)->nic->max_request = bytes;
    conn_of(pair->server)->nic->max_request = bytes;
}

static const uint32_t requests_of[] = {UINT32_MAX, 32 * KIB, 1000};

/* Advertisements do cross with data and are dropped, and the hidden buffer is given back: else nothing was
 * tried. */
static bool saw_all(const struct pair *pair, const uint64_t acked[2])
{
    return conn_of(pair->client)->stale_adverts + conn_of(pair->server)->stale_adverts > 0 &&
           acked[0] + acked[1] > 0;
}

/* For the time that there is, and on until all was seen; Check's time-out is the limit of that. */
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

/* A message that takes more requests than the queue pair holds arrives whole, and each of its bytes once. */
START_TEST(long_messages_are_cut)
{
    struct pair pair;
    size_t length = 1000 * SQ_DEPTH * 3 + 1;

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    cut_requests(&pair, 1000);
    for (int i = 0; i < 3; i++) {
        uint32_t before = conn_of(pair.client)->sq_tail;

        pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, length, (uint64_t)i);
        ck_assert_uint_ge(conn_of(pair.client)->sq_tail - before, length / 1000);
    }
    pair_close(&pair);
}
END_TEST

/* One end whose device has no immediate data is enough: then neither uses any, in either direction. */
START_TEST(immediate_data_is_agreed_on)
{
    struct pair one, other;

    pair_open(&one, AF_INET, SOCK_STREAM);
    struct nic *client = conn_of(one.client)->nic, *server = conn_of(one.server)->nic;

    client->immediate = _i & 1;
    server->immediate = _i & 2;
    pair_open_on(&other, AF_INET, SOCK_SEQPACKET, one.client_box, one.server_box);
    ck_assert_ptr_eq(conn_of(other.client)->nic, client);
    ck_assert_ptr_eq(conn_of(other.server)->nic, server);
    ck_assert_int_eq(conn_of(other.client)->immediate, _i == 3);
    ck_assert_int_eq(conn_of(other.server)->immediate, _i == 3);
    pass_bytes(other.client_box, other.client, other.server_box, other.server, LONGEST, 1);
    pass_bytes(other.server_box, other.server, other.client_box, other.client, LONGEST, 2);
    pair_close(&other);
    pair_close(&one);
}
END_TEST

/* Two that talk in short messages send nothing else; credits go along, unless the peer does not read them where
 * they would be: in the immediate data. Where there is none the SEND behind each WRITE takes them. */
START_TEST(short_messages_return_credits)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct conn *client = conn_of(pair.client), *server = conn_of(pair.server);
    bool read = _i == 0 || !client->immediate;
    uint16_t flags = (client->immediate ? HELLO_IMM_CREDITS : HELLO_NO_IMMEDIATE) | HELLO_EMPTY_END;
    uint32_t messages = 4 * RQ_DEPTH, requests = client->immediate ? messages : 2 * messages;

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
    ck_assert_int_eq(client->sq_tail == requests, read);
    ck_assert_int_eq(server->sq_tail == requests, read);
    pair_close(&pair);
}
END_TEST

static void think_of_peer(int socket)
{
    struct conn *conn = conn_of(socket);

    xs_sock_lock(conn->sock);
    xs_probe(conn);
    xs_sock_unlock(conn->sock);
}

/* A device that never says that its tries are used up is not waited for for ever. */
START_TEST(silence_has_an_end)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct conn *conn = conn_of(pair.client);

    inbox_quiet(pair.client_box, QUIET_MS);
    think_of_peer(pair.client);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(conn->error, 0);
        think_of_peer(pair.client); /* the first of these asks; no answer is harvested */
    }
    think_of_peer(pair.client);
    ck_assert_int_eq(conn->error, ETIMEDOUT);
    pair_close(&pair);
}
END_TEST

/* A device that has small queues is served, one that has none worth the name is refused. */
START_TEST(queues_fit_the_device)
{
    static const struct {
        uint32_t max_wr;
        int max_cqe;
        uint32_t depth;
    } device[] = {{1000, 1000, 64}, {64, 127, 32}, {31, 1000, 16}, {16, 32, 16},
                  {16, 31, 0},      {15, 1000, 0}, {0, 0, 0}};
    struct pair one, other;

    pair_open(&one, AF_INET, SOCK_STREAM);
    struct nic *nic = conn_of(one.client)->nic;

    nic->max_wr = device[_i].max_wr;
    nic->max_cqe = device[_i].max_cqe;
    cut_requests(&one, 1000);
    if (device[_i].depth == 0) {
        int socket = exs_socket(AF_INET, SOCK_STREAM, 0);

        must(exs_connect(socket, SA(&one.address), one.address.length, 0, NULL, one.client_box->queue, NULL));
        take_failed(one.client_box, EXS_EVT_CONNECT, socket, ENODEV);
        close_socket(one.client_box, socket);
    } else {
        pair_open_on(&other, AF_INET, SOCK_STREAM, one.client_box, one.server_box);
        ck_assert_ptr_eq(conn_of(other.client)->nic, nic);
        ck_assert_uint_eq(conn_of(other.client)->depth, device[_i].depth);
        ck_assert_uint_eq(conn_of(other.server)->peer.credits, device[_i].depth);
        for (int i = 0; i < 5; i++) {
            pass_bytes(other.client_box, other.client, other.server_box, other.server, LONGEST, 1);
            pass_bytes(other.server_box, other.server, other.client_box, other.client, LONGEST, 2);
        }
        pair_close(&other);
    }
    pair_close(&one);
}
END_TEST

static bool is_readable(exs_qhandle_t queue, int within_ms)
{
    return poll(&(struct pollfd){.fd = exs_qfd(queue), .events = POLLIN}, 1, within_ms) == 1;
}

/* Only one who was silent is asked, only once until it answers, and it does not wake up for that. */
START_TEST(an_idle_peer_is_probed)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct conn *conn = conn_of(pair.client);

    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, FEW_BYTES, 1);
    inbox_quiet(pair.client_box, QUIET_MS);
    inbox_quiet(pair.server_box, QUIET_MS);
    uint32_t before = conn->sq_tail;

    think_of_peer(pair.client);
    ck_assert_uint_eq(conn->sq_tail, before);
    think_of_peer(pair.client);
    think_of_peer(pair.client);
    ck_assert_uint_eq(conn->sq_tail, before + 1);
    ck_assert(is_readable(pair.client_box->queue, WAIT_MS)); /* the acknowledgement */
    ck_assert(!is_readable(pair.server_box->queue, QUIET_MS));
    inbox_quiet(pair.client_box, QUIET_MS);
    ck_assert_uint_eq(conn->sq_head, conn->sq_tail);
    think_of_peer(pair.client);
    ck_assert_uint_eq(conn->sq_tail, before + 1);
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, FEW_BYTES, 2);
    pair_close(&pair);
}
END_TEST

/* A queue whose host always has something better to do gets its turn all the same: a run of a few. */
START_TEST(connections_get_their_turn)
{
    struct pair pair;
    exs_acceptaddr_t wanted = {.exs_ahandle = NULL};
    int client, runs = 0;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct sock *listener = xs_sock_get(pair.listener);
    struct queue *home = atomic_load(&listener->home);

    must(client = exs_socket(AF_INET, SOCK_STREAM, 0));
    must(exs_accept(pair.listener, &wanted, 1, 0, pair.server_box->queue));
    must(exs_connect(client, SA(&pair.address), pair.address.length, 0, NULL, pair.client_box->queue, NULL));
    while (listener->state == SOCK_LISTENING && !STAILQ_EMPTY(&listener->accepts)) {
        /* The client's end goes on by itself; the listener's is driven only here, by its event channel. */
        inbox_pump(pair.client_box, 1);
        if (poll(&(struct pollfd){.fd = home->channel[xs_devices() - 1]->fd, .events = POLLIN}, 1, 0) == 0)
            continue;
        ck_assert_int_lt(runs++, 1000);
        xs_sock_lock(listener);
        xs_turn_home(home, &(struct turn){.watched = BY_LEVEL, .harvested = 1});
        xs_sock_unlock(listener);
    }
    xs_sock_put(listener);
    exs_event_t event = take_good(pair.server_box, EXS_EVT_ACCEPT, pair.listener);

    take_good(pair.client_box, EXS_EVT_CONNECT, client);
    close_socket(pair.client_box, client);
    close_socket(pair.server_box, event.exs_evt_union.exs_evt_accept.exs_evt_newsocket);
    pair_close(&pair);
}
END_TEST

/* ---- Messages -------------------------------------------------------------------------- */

START_TEST(hello_is_checked)
{
    const struct hello good = {.magic = HELLO_MAGIC,
                               .version = HELLO_VERSION,
                               .socktype = SOCK_STREAM,
                               .credits = RQ_DEPTH,
                               .adverts = ADVERTS_MAX,
                               .hidden_size = HIDDEN_SIZE,
                               .hidden_rkey = 0x12345678,
                               .hidden_addr = 0x123456789abcdef0};
    struct hello bad[8], read;
    uint8_t bytes[HELLO_SIZE];

    xs_hello_pack(&good, bytes);
    ck_assert_int_eq(xs_hello_unpack(&read, bytes, sizeof bytes, SOCK_STREAM), HELLO_OK);
    ck_assert_mem_eq(&read, &good, sizeof good);
    ck_assert_int_eq(xs_hello_unpack(&read, bytes, sizeof bytes, SOCK_SEQPACKET), HELLO_BAD_TYPE);
    for (size_t length = 0; length < sizeof bytes; length++)
        ck_assert_int_eq(xs_hello_unpack(&read, bytes, length, SOCK_STREAM), HELLO_NO_EXS);
    for (int i = 0; i < COUNT(bad); i++)
        bad[i] = good;
    bad[0].magic++;
    bad[1].version++;
    bad[2].credits = 0;
    bad[3].credits = UINT32_MAX;
    bad[4].adverts = 0;
    bad[5].hidden_size = 0;
    bad[6].hidden_size = UINT32_MAX;
    bad[7].hidden_addr = UINT64_MAX - 5;
    for (int i = 0; i < COUNT(bad); i++) {
        xs_hello_pack(&bad[i], bytes);
        ck_assert_int_eq(xs_hello_unpack(&read, bytes, sizeof bytes, SOCK_STREAM), i == 0   ? HELLO_NO_EXS
                                                                                   : i == 1 ? HELLO_BAD_VERSION
                                                                                            : HELLO_BAD_VALUE);
    }
}
END_TEST

START_TEST(noise_is_no_message)
{
    struct chance chance = chance_new();
    uint8_t bytes[64];
    struct control control;
    struct hello hello;

    for (int i = 0; i < 100000; i++) {
        size_t length = chance_below(&chance, sizeof bytes + 1);

        for (size_t j = 0; j < sizeof bytes; j++)
            bytes[j] = (uint8_t)chance_next(&chance);
        if (xs_control_unpack(&control, bytes, length)) {
            ck_assert_uint_eq(length, CONTROL_SIZE);
            ck_assert_uint_ge(control.type, CONTROL_ADVERT);
            ck_assert_uint_le(control.type, CONTROL_DATA);
        }
        ck_assert_int_ne(xs_hello_unpack(&hello, bytes, length, SOCK_STREAM), HELLO_OK);
    }
}
END_TEST

/* ---- The end of a connection ------------------------------------------------------------------------- */

/* The connection breaks when a send's completion is there, but not yet seen: it was sent. */
START_TEST(what_has_arrived_was_sent)
{
    struct pair pair;
    struct ibv_wc wc;
    bool receive = true;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    struct sock *sock = xs_sock_get(pair.client);

    must(exs_send(pair.client, "received", 8, 0, pair.client_box->queue, NULL, NULL));
    xs_sock_lock(sock);
    while (receive) { /* the device does its part while it is asked */
        if (ibv_poll_cq(sock->conn->cq->cq, 1, &wc) == 1)
            ck_assert_ptr_eq(xs_conn_of(wc.wr_id, &receive), sock->conn);
    }
    xs_conn_fail(sock->conn, ECONNRESET);
    xs_conn_completion(sock->conn, &wc, false);
    xs_sock_unlock(sock);
    xs_sock_put(sock);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("protocol");
    TCase *talk = add_case(suite, "talk", 60), *bare = add_bare_case(suite, "messages", 20);

    tcase_add_loop_test(talk, invariants, 0, COUNT(requests_of));
    tcase_add_test(talk, long_messages_are_cut);
    tcase_add_loop_test(talk, short_messages_return_credits, 0, 2);
    tcase_add_test(talk, an_idle_peer_is_probed);
    tcase_add_test(talk, silence_has_an_end);
    tcase_add_test(talk, connections_get_their_turn);
    tcase_add_loop_test(talk, queues_fit_the_device, 0, 7);
    tcase_add_loop_test(talk, immediate_data_is_agreed_on, 0, 4);
    tcase_add_test(talk, what_has_arrived_was_sent);
    tcase_add_test(bare, hello_is_checked);
    tcase_add_test(bare, noise_is_no_message);
    return run_suite(suite);
}
