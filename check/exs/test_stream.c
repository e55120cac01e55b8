/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_stream.c - what a connection delivers under any mixture of operations: the bytes that were sent, in
 * order, once (a); nothing is written into a buffer behind the received bytes, or after its receive has
 * completed (b); no deadlock while both sides send and neither receives (e).
 *
 * Each run prints its random seed. EXS_SEED=... repeats a run; EXS_LONG=1 spends a minute on each test.
 */
#include "check/support/support.h"

#define SLOTS 16 /* most concurrent operations of one direction */
#define USUAL_MOST (256 * KIB)

struct slot { /* one operation and its buffer */
    char *buffer;
    exs_mhandle_t region; /* or NULL */
    size_t room;          /* bytes of the buffer */
    size_t length;        /* bytes of the operation; 0: free */
    size_t got;           /* bytes received at its last use; canary bytes follow */
    int flags;
    uint64_t number;
};

struct way { /* one direction of one socket */
    struct slot slots[SLOTS];
    size_t most;     /* bytes of the longest operation */
    int at_once;     /* most pending operations, 1 to SLOTS */
    uint64_t posted; /* number of operations */
    uint64_t done;   /* number of operations */
    uint64_t bytes;  /* of the stream, so far */
    uint64_t total;  /* of the stream, in the end */
    uint64_t seed;   /* of its pattern */
    bool over;       /* the last send was posted (out), or the end of stream was received (in) */
};

struct end { /* one socket and its part of the test; owned by the thread that runs it */
    int socket;
    bool packets; /* SOCK_SEQPACKET */
    struct inbox *box;
    struct chance chance;
    struct way out, in;
    bool shut;      /* shut down for writing, with an event */
    int hesitation; /* posts an operation once in this many attempts */
};

/* ---- Buffers ------------------------------------------------------------------------- */

static void slot_make_room(struct end *e, struct slot *s, size_t length)
{
    if (length <= s->room && chance_below(&e->chance, 8))
        return;
    if (s->region)
        must(exs_mderegister(s->region, 0));
    free(s->buffer);
    s->room = length + chance_below(&e->chance, 100);
    s->buffer = new_buffer(s->room);
    s->got = 0;
    s->region = NULL;
    if (chance_below(&e->chance, 2) == 0)
        return;
    s->region = exs_mregister(s->buffer, s->room, 0);
    ck_assert_msg(s->region != EXS_MHANDLE_INVALID, "exs_mregister: %s", strerror(errno));
}

static void way_free(struct way *w)
{
    for (int i = 0; i < SLOTS; i++) {
        if (w->slots[i].region)
            must(exs_mderegister(w->slots[i].region, 0));
        free(w->slots[i].buffer);
    }
}

/* Mostly short and medium sizes; one in 200 is up to 64 MiB, if the test has time for it. */
static size_t draw_size(struct end *e, const struct way *w)
{
    if (w->most > USUAL_MOST && chance_below(&e->chance, 200))
        return chance_size(&e->chance, 1, USUAL_MOST);
    return chance_size(&e->chance, 1, w->most);
}

/* ---- Sending ------------------------------------------------------------------------- */

static void post_send(struct end *e)
{
    struct way *w = &e->out;
    struct slot *s = &w->slots[w->posted % SLOTS];
    size_t length = draw_size(e, w);

    if (length > w->total - w->bytes)
        length = (size_t)(w->total - w->bytes);
    slot_make_room(e, s, length);
    s->length = length;
    s->number = w->posted++;
    pattern_fill(s->buffer, length, w->seed, w->bytes);
    must(exs_send(e->socket, s->buffer, length, 0, e->box->queue, s, s->region));
    w->bytes += length;
    if (w->bytes < w->total)
        return;
    w->over = true;
    must(exs_shutdown(e->socket, SHUT_WR, 0, e->box->queue, e));
}

static void sent(struct end *e, const exs_event_t *event)
{
    struct slot *s = event->exs_evt_ahandle;

    ck_assert_uint_eq(s->number, e->out.done); /* in order */
    e->out.done++;
    ck_assert_uint_eq(event->exs_evt_union.exs_evt_xfer.exs_evt_length, s->length);
    s->length = 0;
}

/* ---- Receiving ----------------------------------------------------------------------- */

static void post_recv(struct end *e)
{
    struct way *w = &e->in;
    struct slot *s = &w->slots[w->posted % SLOTS];

    if (s->buffer) /* nothing may have been written since its receive completed */
        same_bytes(s->buffer, s->room, CANARY);
    size_t length = draw_size(e, w);
    slot_make_room(e, s, length);
    s->length = length;
    s->number = w->posted++;
    s->flags = chance_below(&e->chance, 2) ? MSG_WAITALL : 0;
    must(exs_recv(e->socket, s->buffer, length, s->flags, e->box->queue, s, s->region));
}

/* The expected size is that of the peer's packet, which is drawn here from the same random numbers. */
static void received(struct end *e, const exs_event_t *event)
{
    struct way *w = &e->in;
    struct slot *s = event->exs_evt_ahandle;
    const exs_evt_xfer_t *xfer = &event->exs_evt_union.exs_evt_xfer;

    ck_assert_uint_eq(s->number, w->done);
    w->done++;
    ck_assert_ptr_eq(xfer->exs_evt_buffer, s->buffer);
    ck_assert_uint_le(xfer->exs_evt_length, s->length);
    ck_assert_msg(!w->over || xfer->exs_evt_length == 0, "bytes came after the end");
    if (xfer->exs_evt_length == 0 || (!e->packets && s->flags && xfer->exs_evt_length < s->length))
        w->over = true;
    pattern_check(s->buffer, xfer->exs_evt_length, w->seed, w->bytes);
    same_bytes(s->buffer + xfer->exs_evt_length, s->room - xfer->exs_evt_length, CANARY);
    memset(s->buffer, CANARY, xfer->exs_evt_length);
    w->bytes += xfer->exs_evt_length;
    s->length = 0;
}

/* ---- Both ---------------------------------------------------------------------------- */

/* Both ends draw the two directions from the same seed, and each draws its own habits. */
static void end_open(struct end *e, int socket, struct inbox *box, uint64_t seed, size_t most, bool second)
{
    struct chance both = {seed ^ 0x123456789};

    *e = (struct end){.socket = socket, .box = box, .chance = {second ? ~seed : seed}};
    e->hesitation = 1 + (int)chance_below(&e->chance, 4);
    for (int i = 0; i < 2; i++) {
        struct way *w = i == second ? &e->out : &e->in;
        size_t send_most = most ? most : chance_size(&both, 1, USUAL_MOST);
        size_t recv_most = most ? most : chance_size(&both, 1, USUAL_MOST);
        size_t least = send_most < recv_most ? send_most : recv_most;
        w->most = w == &e->out ? send_most : recv_most;
        w->at_once = 1 + (int)chance_below(&e->chance, SLOTS);
        w->seed = seed + (uint64_t)i;
        /* not a million operations of one byte */
        w->total = most ? 3 * most : 1 + chance_size(&both, 0, least < 8 * KIB ? 1000 * least : 8 * MIB);
    }
}

static bool end_is_over(const struct end *e)
{
    return e->shut && e->in.over && e->out.done == e->out.posted && e->in.done == e->in.posted;
}

/* Posts an operation, or none, at random. */
static void end_post(struct end *e, bool may_receive)
{
    int out = (int)(e->out.posted - e->out.done), in = (int)(e->in.posted - e->in.done);

    if (!e->out.over && out < e->out.at_once && chance_below(&e->chance, (size_t)e->hesitation) == 0)
        post_send(e);
    if (may_receive && !e->in.over && in < e->in.at_once &&
        chance_below(&e->chance, (size_t)e->hesitation) == 0)
        post_recv(e);
}

static bool end_is_full(const struct end *e, bool may_receive)
{
    bool out = e->out.over || (int)(e->out.posted - e->out.done) == e->out.at_once;
    bool in = !may_receive || e->in.over || (int)(e->in.posted - e->in.done) == e->in.at_once;

    return out && in;
}

static void end_event(struct end *e, const exs_event_t *event)
{
    ck_assert_msg(event->exs_evt_errno == 0, "%s: %s", exs_strevent(event->exs_evt_type),
                  strerror(event->exs_evt_errno));
    ck_assert_int_eq(event->exs_evt_socket, e->socket);
    if (event->exs_evt_type == EXS_EVT_SEND)
        sent(e, event);
    else if (event->exs_evt_type == EXS_EVT_RECV)
        received(e, event);
    else if (event->exs_evt_type == EXS_EVT_SHUTDOWN && event->exs_evt_ahandle == e && !e->shut)
        e->shut = true;
    else
        ck_abort_msg("nobody asked for this %s", exs_strevent(event->exs_evt_type));
}

/* Passes a box's events to the end whose socket it is. */
static void deliver(struct inbox *box, struct end *ends, int count)
{
    for (int i = 0; i < box->count; i++) {
        struct end *e = ends;
        while (e < ends + count && e->socket != box->kept[i].exs_evt_socket)
            e++;
        ck_assert(e < ends + count);
        end_event(e, &box->kept[i]);
    }
    box->count = 0;
}

static bool all_over(const struct end *ends, int count)
{
    return end_is_over(&ends[0]) && (count == 1 || end_is_over(&ends[1]));
}

static void ends_close(struct end *ends, int count)
{
    for (int i = 0; i < count; i++) {
        ck_assert_uint_eq(ends[i].in.bytes, ends[i].in.total);
        way_free(&ends[i].out);
        way_free(&ends[i].in);
    }
}

/* Runs the ends. With `quiet_start` neither end receives before both have sent all that they may. */
static void run_ends(struct end *ends, int count, bool quiet_start)
{
    struct inbox *box = ends[0].box;
    bool receive = !quiet_start;
    double moved = seconds_now();

    while (!all_over(ends, count)) {
        bool full = true;
        for (int i = 0; i < count; i++) {
            end_post(&ends[i], receive);
            full = full && end_is_full(&ends[i], receive);
        }
        /* all operations that may wait are waiting, so this thread waits, too */
        inbox_pump(box, full ? (receive ? 500 : 50) : 0);
        if (box->count || (box->beside && box->beside->count))
            moved = seconds_now();
        else if (full)
            receive = true;
        ck_assert_msg(seconds_now() - moved < WAIT_MS / 1e3, "a deadlock: nothing moves");
        deliver(box, ends, count);
        if (box->beside)
            deliver(box->beside, ends, count);
    }
    ends_close(ends, count);
}

static void run_pair(uint64_t seed, size_t most, bool quiet_start)
{
    struct chance chance = {seed};
    struct inbox box;
    struct pair pair;
    struct end ends[2];
    bool one_queue = chance_below(&chance, 2);

    inbox_open(&box, 16);
    if (one_queue)
        pair_open_on(&pair, AF_INET, SOCK_STREAM, &box, &box);
    else
        pair_open(&pair, AF_INET, SOCK_STREAM);
    end_open(&ends[0], pair.client, pair.client_box, seed, most, false);
    end_open(&ends[1], pair.server, pair.server_box, seed, most, true);
    run_ends(ends, 2, quiet_start);
    pair_close(&pair);
    inbox_close(&box);
}

/* ---- The tests ----------------------------------------------------------------------- */

START_TEST(any_mixture)
{
    struct chance chance = chance_new();
    double end = seconds_now() + seconds_to_spend();

    do {
        run_pair(chance_next(&chance), 0, chance_below(&chance, 4) == 0);
    } while (seconds_now() < end);
}
END_TEST

START_TEST(large_mixture)
{
    struct chance chance = chance_new();
    double end = seconds_now() + seconds_to_spend();

    do {
        run_pair(chance_next(&chance), 64 * MIB, chance_below(&chance, 2) == 0);
    } while (seconds_now() < end);
}
END_TEST

/* Both ends send far more than a receive ring holds. For a while neither receives, then both do. */
START_TEST(no_deadlock)
{
    struct pair pair;
    size_t length = 24 * MIB;
    char *out = new_buffer(length), *in[2] = {new_buffer(length), new_buffer(length)};
    enum { SENDS = 6 };

    pair_open(&pair, AF_INET, _i ? SOCK_SEQPACKET : SOCK_STREAM);
    pattern_fill(out, length, 6, 0);
    size_t piece = length / SENDS;
    for (size_t i = 0; i < SENDS; i++) {
        must(exs_send(pair.client, out + i * piece, piece, 0, pair.client_box->queue, NULL, NULL));
        must(exs_send(pair.server, out + i * piece, piece, 0, pair.server_box->queue, NULL, NULL));
    }
    double end = seconds_now() + 0.1;
    while (seconds_now() < end)
        inbox_pump(pair.client_box, 10);
    for (size_t i = 0; i < SENDS; i++) {
        must(exs_recv(pair.client, in[0] + i * piece, piece, MSG_WAITALL, pair.client_box->queue, NULL, NULL));
        must(exs_recv(pair.server, in[1] + i * piece, piece, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    }
    for (int i = 0; i < SENDS; i++) {
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
        take_good(pair.server_box, EXS_EVT_SEND, pair.server);
        take_good(pair.client_box, EXS_EVT_RECV, pair.client);
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    }
    pattern_check(in[0], length, 6, 0);
    pattern_check(in[1], length, 6, 0);
    pair_close(&pair);
    free(out);
    free(in[0]);
    free(in[1]);
}
END_TEST

/* More one-byte operations than any device has queue entries for; none is received yet. */
START_TEST(no_deadlock_of_small_sends)
{
    struct pair pair;
    enum { MANY = 20000 };
    char *out = new_buffer(MANY), *in = new_buffer(MANY);

    pair_open(&pair, AF_INET, SOCK_STREAM);
    pattern_fill(out, MANY, 2, 0);
    for (int i = 0; i < MANY; i++) {
        must(exs_send(pair.client, out + i, 1, i < MANY - 1 ? EXS_UNSIGNALED : 0, pair.client_box->queue, NULL,
                      NULL));
        must(exs_send(pair.server, out + i, 1, i < MANY - 1 ? EXS_UNSIGNALED : 0, pair.server_box->queue, NULL,
                      NULL));
    }
    for (int i = 0; i < 2; i++) {
        struct inbox *box = i ? pair.client_box : pair.server_box;
        memset(in, CANARY, MANY);
        must(exs_recv(i ? pair.client : pair.server, in, MANY, MSG_WAITALL, box->queue, NULL, NULL));
        take_good(box, EXS_EVT_RECV, -1);
        pattern_check(in, MANY, 2, 0);
    }
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.server_box, EXS_EVT_SEND, pair.server);
    pair_close(&pair);
    free(out);
    free(in);
}
END_TEST

/* ---- Two processes ------------------------------------------------------------------- */

static void play_the_server(int fd, void *arg)
{
    uint64_t seed = *(uint64_t *)arg;
    struct inbox box;
    struct address address;
    exs_acceptaddr_t wanted = {0};
    struct end end;

    init_library();
    inbox_open(&box, 16);
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    tell(fd, &address, sizeof address);
    take_good(&box, EXS_EVT_ACCEPT, listener);
    end_open(&end, wanted.exs_socket, &box, seed, 0, true);
    run_ends(&end, 1, false);
    close_socket(&box, wanted.exs_socket);
    close_socket(&box, listener);
    inbox_close(&box);
}

START_TEST(two_processes)
{
    struct chance chance = chance_new();
    uint64_t seed = chance_next(&chance);
    struct inbox box;
    struct address address;
    struct child server;
    struct end end;

    child_start(&server, play_the_server, &seed);
    init_library();
    inbox_open(&box, 16);
    hear(server.fd, &address, sizeof address);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, client);
    end_open(&end, client, &box, seed, 0, false);
    run_ends(&end, 1, false);
    close_socket(&box, client);
    child_join(&server);
    inbox_close(&box);
}
END_TEST

/* ---- Packets ------------------------------------------------------------------------- */

struct packets { /* both ends draw the same sizes from the same seed */
    struct chance lengths, rooms;
    uint64_t posted, done;
    char *buffers[SLOTS];
    size_t length[SLOTS], room[SLOTS];
};

#define PACKET_MOST (2 * MIB)

static void send_packet(struct pair *pair, struct packets *p, uint64_t seed)
{
    int i = (int)(p->posted % SLOTS);

    p->length[i] = chance_size(&p->lengths, 1, PACKET_MOST);
    pattern_fill(p->buffers[i], p->length[i], seed ^ p->posted++, 0);
    must(exs_send(pair->client, p->buffers[i], p->length[i], 0, pair->client_box->queue, p->buffers[i], NULL));
}

static void recv_packet(struct pair *pair, struct packets *p)
{
    int i = (int)(p->posted++ % SLOTS);

    p->length[i] = chance_size(&p->lengths, 1, PACKET_MOST);
    p->room[i] = chance_below(&p->rooms, 4) ? PACKET_MOST : chance_size(&p->rooms, 1, PACKET_MOST);
    must(exs_recv(pair->server, p->buffers[i], p->room[i], 0, pair->server_box->queue, p->buffers[i], NULL));
}

/* Each receive gets one packet: whole, or truncated with MSG_TRUNC. */
static void packet_came(struct packets *p, const exs_event_t *event, uint64_t seed)
{
    int i = (int)(p->done % SLOTS);
    const exs_evt_xfer_t *xfer = &event->exs_evt_union.exs_evt_xfer;
    bool cut = p->length[i] > p->room[i];
    size_t length = cut ? p->room[i] : p->length[i];

    ck_assert_int_eq(event->exs_evt_errno, 0);
    ck_assert_ptr_eq(event->exs_evt_ahandle, p->buffers[i]);
    ck_assert_uint_eq(xfer->exs_evt_length, length);
    ck_assert_int_eq(xfer->exs_evt_flags & MSG_TRUNC, cut ? MSG_TRUNC : 0);
    pattern_check(p->buffers[i], length, seed ^ p->done++, 0);
    same_bytes(p->buffers[i] + length, PACKET_MOST - length, CANARY);
    memset(p->buffers[i], CANARY, length);
}

static void take_packets(struct pair *pair, struct packets *out, struct packets *in, uint64_t seed)
{
    struct inbox *box = pair->client_box;

    for (int i = 0; i < box->count; i++, out->done++) {
        ck_assert_int_eq(box->kept[i].exs_evt_errno, 0);
        ck_assert_ptr_eq(box->kept[i].exs_evt_ahandle, out->buffers[out->done % SLOTS]);
        ck_assert_uint_eq(box->kept[i].exs_evt_union.exs_evt_xfer.exs_evt_length,
                          out->length[out->done % SLOTS]);
    }
    box->count = 0;
    box = pair->server_box;
    for (int i = 0; i < box->count; i++)
        packet_came(in, &box->kept[i], seed);
    box->count = 0;
}

START_TEST(any_packets)
{
    struct chance chance = chance_new();
    uint64_t seed = chance_next(&chance);
    struct packets out = {.lengths = {seed}}, in = {.lengths = {seed}, .rooms = {~seed}};
    struct pair pair;
    double end = seconds_now() + seconds_to_spend();

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    for (int i = 0; i < SLOTS; i++) {
        out.buffers[i] = new_buffer(PACKET_MOST);
        in.buffers[i] = new_buffer(PACKET_MOST);
    }
    while (seconds_now() < end || out.posted > in.done) {
        bool more = seconds_now() < end;
        if (more && out.posted - out.done < SLOTS && chance_below(&chance, 3))
            send_packet(&pair, &out, seed);
        if ((in.posted < out.posted || more) && in.posted - in.done < SLOTS && chance_below(&chance, 3))
            recv_packet(&pair, &in);
        inbox_pump(pair.client_box, 0);
        take_packets(&pair, &out, &in, seed);
    }
    while (out.done < out.posted) {
        inbox_pump(pair.client_box, WAIT_MS);
        take_packets(&pair, &out, &in, seed);
    }
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    for (; in.done < in.posted; in.done++) {
        exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    }
    pair_close(&pair);
    for (int i = 0; i < SLOTS; i++) {
        free(out.buffers[i]);
        free(in.buffers[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream");
    TCase *random = add_case(suite, "mixtures", 60 + 4 * seconds_to_spend()),
          *deadlock = add_case(suite, "deadlock", 30), *processes = add_bare_case(suite, "processes", 60);

    tcase_add_test(random, any_mixture);
    tcase_add_test(random, large_mixture);
    tcase_add_test(random, any_packets);
    tcase_add_loop_test(deadlock, no_deadlock, 0, 2);
    tcase_add_test(deadlock, no_deadlock_of_small_sends);
    tcase_add_loop_test(processes, two_processes, 0, 3);
    return run_suite(suite);
}
