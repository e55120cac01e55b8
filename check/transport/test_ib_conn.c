/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_conn.c - InfiniBand's connections between two ends on a virtual clock: every mask of what is lost,
 * and of what comes twice, of the first packets of a connection's life, and of a look-up; and time-outs,
 * refusals and what comes from a former life.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "core/soft/cm/ib_conn.h"

#define MASKED 12      /* packets that a mask is about */
#define FLIGHT 1000000 /* ns that a packet takes */
#define QUEUE 64
#define CONNS 4
#define LOG 16
#define SERVICE UINT64_C(0x01061234)
#define SECOND UINT64_C(1000000000)

/* One packet under way. */
struct flight {
    uint64_t at;
    int to;
    uint8_t mad[IB_MAD_BYTES];
};

struct network;

struct end {
    struct ib_world world; /* first */
    struct network *network;
    int number;
    struct soft_path path; /* to the other */
    struct ib_conn conns[CONNS];
    int used;
    bool listens, accepts, hangs_up;
    uint32_t next_qpn;
    int log[LOG];
    int logged;
    unsigned rejected; /* the last reason, or a look-up's status */
};

struct network {
    struct soft_clock clock; /* first */
    uint64_t now;
    struct end ends[2];
    struct flight flights[QUEUE];
    int count;
    unsigned sent;
    unsigned lost, doubled; /* masks */
    bool deaf;              /* nothing arrives */
    struct soft_path third; /* to another host, for both ends; of what is sent there the last is kept */
    struct ib_message to_third;
    unsigned of_type[32]; /* sent, by the attribute's last bits */
};

/* ---- The network ---- */

static uint64_t clock_now(struct soft_clock *clock)
{
    return ((struct network *)clock)->now;
}

static void launch(struct network *network, int to, const uint8_t *mad, uint64_t delay)
{
    struct flight *flight = &network->flights[network->count++];

    ck_assert_int_lt(network->count, QUEUE);
    flight->at = network->now + delay;
    flight->to = to;
    memcpy(flight->mad, mad, IB_MAD_BYTES);
}

static void send_mad(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES])
{
    struct end *self = (struct end *)world;
    struct network *network = self->network;
    unsigned bit = network->sent < MASKED ? 1u << network->sent : 0;

    if (memcmp(path, &network->third, sizeof *path) == 0) {
        ck_assert(ib_decode(&network->to_third, mad));
        return;
    }
    ck_assert_mem_eq(path, &self->path, sizeof *path);
    network->sent++;
    network->of_type[mad[17] & 31]++;
    if (network->deaf || (network->lost & bit) != 0)
        return;
    launch(network, !self->number, mad, FLIGHT);
    if ((network->doubled & bit) != 0)
        launch(network, !self->number, mad, 3 * FLIGHT);
}

/* By another host. */
static void third_says(struct network *network, int end, const struct ib_message *message)
{
    uint8_t mad[IB_MAD_BYTES];

    ib_encode(message, mad);
    ib_arrive(&network->ends[end].world, &network->third, mad);
}

/* ---- The users ---- */

static const struct ib_req some_req = {
    .service = SERVICE,
    .psn = 5,
    .responder_resources = 1,
    .initiator_depth = 1,
    .remote_response = 20,
    .local_response = 20,
    .retry_count = 7,
    .rnr_retry_count = 7,
    .cm_retries = 15,
    .pkey = 0xffff,
    .mtu = 3,
    .hop_limit = 64,
    .ack_timeout = 19,
};

static struct ib_conn *request(struct ib_world *world, const struct soft_path *path,
                               const struct ib_message *req, enum ib_reason *why)
{
    struct end *self = (struct end *)world;

    ck_assert(memcmp(path, &self->path, sizeof *path) == 0 ||
              memcmp(path, &self->network->third, sizeof *path) == 0);
    ck_assert_uint_eq(req->type == IB_REQ ? req->req.service : req->sidr_req.service, SERVICE);
    *why = IB_INVALID_SERVICE;
    if (!self->listens)
        return NULL;
    ck_assert_int_lt(self->used, CONNS);
    return &self->conns[self->used++];
}

static void accept_it(struct end *self, struct ib_conn *conn)
{
    struct ib_message rep = {.rep = {.qpn = self->next_qpn++, .psn = 7}};

    ck_assert_int_eq(ib_accept(&self->world, conn, &rep), 0);
}

static void reply_to_it(struct end *self, struct ib_conn *conn, unsigned status)
{
    struct ib_message reply = {.sidr_rep = {.qpn = 0x55, .qkey = 0x66, .status = (uint8_t)status}};

    reply.private_data[0] = 'r';
    ck_assert_int_eq(ib_reply(&self->world, conn, &reply), 0);
}

#define REQUESTED 100

static void requested(struct ib_world *world, struct ib_conn *conn, const struct ib_message *req)
{
    struct end *self = (struct end *)world;

    ck_assert_int_lt(self->logged, LOG);
    self->log[self->logged++] = REQUESTED;
    if (req->type == IB_SIDR_REQ) {
        ck_assert_uint_eq(req->private_data[215], 'q');
        if (self->accepts)
            reply_to_it(self, conn, IB_SIDR_VALID);
        return;
    }
    ck_assert_uint_eq(req->req.psn, 5);
    if (self->accepts)
        accept_it(self, conn);
}

static void tell(struct ib_world *world, struct ib_conn *conn, enum ib_event event,
                 const struct ib_message *message)
{
    struct end *self = (struct end *)world;

    ck_assert_int_lt(self->logged, LOG);
    self->log[self->logged++] = (int)event;
    if (event == IB_EV_REJECTED)
        self->rejected = message->rej.reason;
    if (event == IB_EV_RESOLVED) {
        self->rejected = message->sidr_rep.status;
        ck_assert_uint_eq(message->sidr_rep.service, SERVICE);
        ck_assert(self->rejected != 0 || (message->sidr_rep.qpn == 0x55 && message->sidr_rep.qkey == 0x66 &&
                                          message->private_data[0] == 'r'));
    }
    if (event != IB_EV_REPLIED)
        return;
    ck_assert_uint_eq(message->rep.psn, 7);
    ck_assert_int_eq(ib_establish(world, conn), 0);
    if (self->hangs_up)
        ck_assert_int_eq(ib_disconnect(world, conn), 0);
}

static struct network *network_new(void)
{
    const struct sockaddr_in addresses[] = {
        {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)},
        {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000002)},
    };
    struct network *network = calloc(1, sizeof *network);

    network->clock.now = clock_now;
    network->now = 1000 * SECOND;
    network->third.remote.in =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000003)};
    for (int i = 0; i < 2; i++) {
        struct end *end = &network->ends[i];

        end->network = network;
        end->number = i;
        end->next_qpn = 0x100;
        end->listens = end->accepts = end->hangs_up = true;
        end->path.local.in = addresses[i];
        end->path.remote.in = addresses[!i];
        end->world = (struct ib_world){
            .clock = &network->clock,
            .guid = 0x1111 * (uint64_t)(i + 1),
            .next_id = 0xffffffff, /* 0 is not given */
            .id_step = 1,
            .next_transaction = 77,
            .send = send_mad,
            .request = request,
            .requested = requested,
            .tell = tell,
        };
    }
    return network;
}

static struct ib_conn *connect_from(struct network *network, uint32_t qpn)
{
    struct end *self = &network->ends[0];
    struct ib_message req = {.req = some_req};
    struct ib_conn *conn = &self->conns[self->used++];

    req.req.qpn = qpn;
    conn->path = self->path;
    ck_assert_int_eq(ib_connect(&self->world, conn, &req), 0);
    return conn;
}

static uint64_t next_time(const struct network *network)
{
    uint64_t least = NEVER_NS;

    for (int i = 0; i < network->count; i++)
        if (network->flights[i].at < least)
            least = network->flights[i].at;
    for (int i = 0; i < 2; i++)
        if (ib_deadline(&network->ends[i].world) < least)
            least = ib_deadline(&network->ends[i].world);
    return least;
}

static void land_one(struct network *network, int which)
{
    struct flight flight = network->flights[which];
    struct end *to = &network->ends[flight.to];

    network->flights[which] = network->flights[--network->count];
    ib_arrive(&to->world, &to->path, flight.mad);
}

/* Until nothing more happens, or so long. */
static void run_for(struct network *network, uint64_t ns)
{
    uint64_t until = ns_after(network->now, ns), next;

    while ((next = next_time(network)) <= until && next != NEVER_NS) {
        network->now = next;
        for (int i = 0; i < network->count; i++)
            if (network->flights[i].at <= next) {
                land_one(network, i);
                break;
            }
        for (int i = 0; i < 2; i++)
            ib_timers(&network->ends[i].world);
    }
    if (ns != NEVER_NS)
        network->now = until;
}

static void network_free(struct network *network)
{
    for (int i = 0; i < 2; i++)
        for (int conn = 0; conn < network->ends[i].used; conn++)
            ib_end(&network->ends[i].world, &network->ends[i].conns[conn]);
    ck_assert(LIST_EMPTY(&network->ends[0].world.conns) && LIST_EMPTY(&network->ends[1].world.conns));
    free(network);
}

static void expect_log(const struct network *network, int end, const int *events, int count)
{
    const struct end *self = &network->ends[end];

    ck_assert_msg(self->logged == count && memcmp(self->log, events, sizeof *events * (size_t)count) == 0,
                  "end %d, lost %x, doubled %x: %d events, the first %d %d %d %d", end, network->lost,
                  network->doubled, self->logged, self->log[0], self->log[1], self->log[2], self->log[3]);
}
#define expect_events(network, end, ...)                                                                       \
    expect_log(network, end, (const int[]){__VA_ARGS__},                                                       \
               (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

/* ---- Masks ---- */

/* Set up, and torn down as soon as it is: each end is told all of it, once, and nothing is left. Where RTU was
 * lost the other end may learn of the end first. */
static void live_and_die(unsigned lost, unsigned doubled)
{
    struct network *network = network_new();

    network->lost = lost;
    network->doubled = doubled;
    (void)connect_from(network, 0x77);
    run_for(network, NEVER_NS);
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
    network_free(network);
}

START_TEST(every_mask_of_losses)
{
    for (unsigned mask = 0; mask < 1u << MASKED; mask++)
        live_and_die(mask, 0);
}
END_TEST

START_TEST(every_mask_of_doubles)
{
    for (unsigned mask = 0; mask < 1u << MASKED; mask++)
        live_and_die(0, mask);
}
END_TEST

/* What is not lost may come twice: three ways for each of the first packets. */
START_TEST(losses_and_doubles)
{
    for (unsigned lost = 0; lost < 256; lost++)
        for (unsigned doubled = 0; doubled < 256; doubled++)
            if ((lost & doubled) == 0)
                live_and_die(lost, doubled);
}
END_TEST

/* ---- Time-outs ---- */

START_TEST(nobody_there)
{
    struct network *network = network_new();
    uint64_t interval = ib_time_ns(20) + 2 * ib_time_ns(18);

    network->deaf = true;
    (void)connect_from(network, 0x77);
    run_for(network, 4 * SECOND);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 6);
    run_for(network, interval - 4 * SECOND - 1);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 6);
    run_for(network, 15 * interval);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 5 + 16);
    ck_assert_int_eq(network->ends[0].logged, 0);
    run_for(network, 1);
    expect_events(network, 0, IB_EV_UNREACHABLE);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 5 + 16);
    ck_assert_uint_eq(network->of_type[IB_REJ & 31], 1);
    ck_assert(next_time(network) == NEVER_NS);
    network_free(network);
}
END_TEST

/* RTU never comes; the peer that gives up says so, and the other is rid of it, too. */
START_TEST(only_one_way)
{
    struct network *network = network_new();
    struct end *self = &network->ends[1];

    self->accepts = false;
    (void)connect_from(network, 0x77);
    run_for(network, SECOND);
    network->deaf = true;
    accept_it(self, &self->conns[0]);
    run_for(network, 16 * ib_time_ns(20) - 1);
    expect_events(network, 1, REQUESTED);
    ck_assert_uint_eq(network->of_type[IB_REP & 31], 16);
    run_for(network, 1);
    expect_events(network, 1, REQUESTED, IB_EV_UNREACHABLE);
    network_free(network);
}
END_TEST

/* A slow user: asked again, the end says that it takes time, and nobody asks for so long. */
START_TEST(a_slow_answer)
{
    struct network *network = network_new();
    struct end *self = &network->ends[1];

    self->accepts = false;
    (void)connect_from(network, 0x77);
    run_for(network, 60 * SECOND);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 2);
    ck_assert_uint_eq(network->of_type[IB_MRA & 31], 1);
    ck_assert_uint_eq(network->ends[0].conns[0].state, IB_REQ_HEARD);
    run_for(network, 60 * SECOND);
    ck_assert_uint_eq(network->of_type[IB_REQ & 31], 10);
    accept_it(self, &self->conns[0]);
    run_for(network, NEVER_NS);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED, IB_EV_OVER);
    network_free(network);
}
END_TEST

/* Both are connected, and nothing arrives any more. */
static struct network *network_deaf(void)
{
    struct network *network = network_new();

    network->ends[0].hangs_up = false;
    (void)connect_from(network, 0x77);
    run_for(network, SECOND);
    network->deaf = true;
    return network;
}

/* DREQ in vain: the end comes all the same. */
START_TEST(no_answer_to_the_end)
{
    struct network *network = network_deaf();
    struct end *self = &network->ends[_i];

    ck_assert_int_eq(ib_disconnect(&self->world, &self->conns[0]), 0);
    ck_assert_int_eq(ib_disconnect(&self->world, &self->conns[0]), EINVAL);
    run_for(network, 16 * self->conns[0].interval - 1);
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 5 + 16);
    ck_assert_uint_eq(self->conns[0].state, IB_DREQ_SENT);
    run_for(network, NEVER_NS);
    if (_i == 0) {
        expect_events(network, 0, IB_EV_REPLIED, IB_EV_UNANSWERED, IB_EV_OVER);
        expect_events(network, 1, REQUESTED, IB_EV_ESTABLISHED);
    } else {
        expect_events(network, 0, IB_EV_REPLIED);
        expect_events(network, 1, REQUESTED, IB_EV_ESTABLISHED, IB_EV_UNANSWERED, IB_EV_OVER);
    }
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 5 + 16);
    network_free(network);
}
END_TEST

/* One that is lost costs a quarter of a second; where the peer has asked for less, less. */
START_TEST(the_end_is_said_again_soon)
{
    static const uint64_t intervals[] = {0, 600000000, 100000000};
    struct network *network = network_deaf();
    struct end *self = &network->ends[0];
    uint64_t first = SECOND / 4;

    if (_i > 0)
        self->conns[0].interval = intervals[_i];
    if (self->conns[0].interval < first)
        first = self->conns[0].interval;
    ck_assert_int_eq(ib_disconnect(&self->world, &self->conns[0]), 0);
    run_for(network, first - 1);
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 1);
    network->deaf = false;
    run_for(network, 1 + 2 * FLIGHT);
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 2);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED);
    run_for(network, NEVER_NS);
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 2);
    network_free(network);
}
END_TEST

/* The peer has answered, and gone with its connection, and the answer was lost: its host says so when it is
 * asked again, which is as good. Of another connection, and of another host's, that means nothing. */
START_TEST(nobody_there_to_answer_the_end)
{
    struct network *network = network_deaf();
    struct end *self = &network->ends[0];
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
    run_for(network, NEVER_NS);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED, IB_EV_OVER);
    ck_assert_uint_eq(network->of_type[IB_DREQ & 31], 1);
    network_free(network);
}
END_TEST

/* ---- Refusals ---- */

/* Its listener has gone: the connection is there, and a request that comes again is answered as ever. */
START_TEST(the_listener_has_gone)
{
    struct network *network = network_new();
    struct end *self = &network->ends[1];
    uint8_t req[IB_MAD_BYTES];

    network->lost = _i == 0 ? 1u << 1 : 1u << 2; /* REP, or MRA, which is told to the first that comes again */
    self->accepts = _i == 0;
    memcpy(req, connect_from(network, 0x77)->mad, sizeof req);
    run_for(network, FLIGHT);
    ck_assert_int_eq(self->used, 1);
    self->listens = false;
    run_for(network, SECOND);
    if (_i == 1) {
        ck_assert_uint_eq(network->of_type[IB_MRA & 31], 2);
        accept_it(self, &self->conns[0]);
        run_for(network, SECOND / 10);
    }
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED);
    ck_assert_uint_eq(network->of_type[IB_REP & 31], _i == 0 ? 2 : 1);
    ck_assert_uint_eq(self->conns[0].state, IB_TIMEWAIT);
    ib_arrive(&self->world, &self->path, req);
    ck_assert(ib_decode(&network->to_third, network->flights[0].mad));
    ck_assert_uint_eq(network->to_third.rej.reason, IB_STALE);
    run_for(network, NEVER_NS);
    network_free(network);
}
END_TEST

START_TEST(nobody_listens)
{
    struct network *network = network_new();

    network->ends[1].listens = false;
    (void)connect_from(network, 0x77);
    run_for(network, NEVER_NS);
    expect_events(network, 0, IB_EV_REJECTED);
    ck_assert_uint_eq(network->ends[0].rejected, IB_INVALID_SERVICE);
    network_free(network);
}
END_TEST

START_TEST(refused)
{
    struct network *network = network_new();
    struct end *self = &network->ends[1];
    uint8_t data[200] = {0};

    self->accepts = false;
    (void)connect_from(network, 0x77);
    run_for(network, SECOND);
    ck_assert_int_eq(ib_refuse(&self->world, &self->conns[0], IB_CONSUMER, data, ib_private(IB_REJ) + 1),
                     EINVAL);
    ck_assert_int_eq(ib_refuse(&self->world, &self->conns[0], IB_CONSUMER, data, ib_private(IB_REJ)), 0);
    ck_assert_int_eq(ib_refuse(&self->world, &self->conns[0], IB_CONSUMER, data, 0), EINVAL);
    run_for(network, NEVER_NS);
    expect_events(network, 0, IB_EV_REJECTED);
    ck_assert_uint_eq(network->ends[0].rejected, IB_CONSUMER);
    network_free(network);
}
END_TEST

/* Who connects goes before there is an answer: the other end is told, though it knows no number of his. */
START_TEST(no_longer_wanted)
{
    struct network *network = network_new();

    network->ends[1].accepts = false;
    struct ib_conn *conn = connect_from(network, 0x77);
    run_for(network, SECOND);
    ib_end(&network->ends[0].world, conn);
    run_for(network, NEVER_NS);
    expect_events(network, 1, REQUESTED, IB_EV_REJECTED);
    ck_assert_uint_eq(network->ends[1].rejected, IB_TIMEOUT);
    network_free(network);
}
END_TEST

/* ---- A former life ---- */

/* The peer has started anew, and uses a queue pair that is known here: it is refused once, and the old end
 * goes. */
START_TEST(a_peer_that_forgot)
{
    struct network *network = network_new();
    struct end *self = &network->ends[0];

    self->hangs_up = false;
    (void)connect_from(network, 0x77);
    run_for(network, SECOND);
    LIST_INIT(&self->world.conns); /* it dies */
    self->conns[0].local_id = 0;
    self->logged = 0;
    (void)connect_from(network, 0x77);
    run_for(network, SECOND / 2);
    expect_events(network, 0, IB_EV_REJECTED);
    ck_assert_uint_eq(self->rejected, IB_STALE);
    expect_events(network, 1, REQUESTED, IB_EV_ESTABLISHED, IB_EV_DISCONNECTED);
    run_for(network, NEVER_NS);
    self->logged = 0;
    (void)connect_from(network, 0x77);
    run_for(network, SECOND);
    expect_events(network, 0, IB_EV_REPLIED);
    network_free(network);
}
END_TEST

/* An end that is known nowhere is answered, so that whoever asks is done. */
START_TEST(an_end_of_nothing)
{
    struct network *network = network_new();
    struct ib_message dreq = {.type = IB_DREQ, .local_id = 5, .remote_id = 6, .dreq = {.qpn = 9}};
    uint8_t mad[IB_MAD_BYTES];

    ib_encode(&dreq, mad);
    ib_arrive(&network->ends[1].world, &network->ends[1].path, mad);
    ck_assert_int_eq(network->count, 1);
    ck_assert_uint_eq(network->of_type[IB_DREP & 31], 1);
    network_free(network);
}
END_TEST

/* The numbers are right and the queue pair or the host is not: nobody ends what is another's. */
START_TEST(an_end_by_another)
{
    struct network *network = network_new();
    struct end *self = &network->ends[1];

    network->ends[0].hangs_up = false;
    (void)connect_from(network, 0x77);
    run_for(network, SECOND);
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
    third_says(network, 1, &dreq);
    ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    ib_encode(&dreq, mad);
    ib_arrive(&self->world, &network->ends[1].path, mad);
    ck_assert_uint_eq(conn->state, IB_TIMEWAIT);
    network_free(network);
}
END_TEST

/* ---- In another's name ---- */

/* A third host says that it is this node, with the numbers that it is going to use: it is one peer more, and in
 * nobody's way. */
START_TEST(a_request_in_anothers_name)
{
    struct network *network = network_new();
    struct end *self = &network->ends[1];
    struct ib_message req = {.type = IB_REQ, .local_id = 0xffffffff, .req = some_req};

    network->ends[0].hangs_up = false;
    req.req.ca_guid = network->ends[0].world.guid;
    req.req.qpn = 0x77;
    third_says(network, 1, &req);
    ck_assert_uint_eq(network->to_third.type, IB_REP);
    struct ib_conn *conn = connect_from(network, 0x77);
    ck_assert_uint_eq(conn->local_id, req.local_id);
    run_for(network, SECOND / 2);
    expect_events(network, 0, IB_EV_REPLIED);
    expect_events(network, 1, REQUESTED, REQUESTED, IB_EV_ESTABLISHED);
    ck_assert_uint_eq(self->conns[0].state, IB_REP_SENT);
    network_free(network);
}
END_TEST

/* Its answer has the numbers that another host is going to answer with. */
START_TEST(an_answer_in_anothers_name)
{
    struct network *network = network_new();
    struct end *self = &network->ends[0];
    struct ib_conn *conn = &self->conns[self->used++];
    struct ib_message req = {.req = some_req}, rep = {.type = IB_REP};

    self->hangs_up = false;
    req.req.qpn = 0x70;
    conn->path = network->third;
    ck_assert_int_eq(ib_connect(&self->world, conn, &req), 0);
    rep.local_id = 0x55;
    rep.remote_id = network->to_third.local_id;
    rep.rep =
        (struct ib_rep){.ca_guid = network->ends[1].world.guid, .qpn = network->ends[1].next_qpn, .psn = 7};
    third_says(network, 0, &rep);
    ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    struct ib_conn *other = connect_from(network, 0x77);
    run_for(network, SECOND / 2);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_REPLIED);
    ck_assert_uint_eq(conn->state, IB_ESTABLISHED);
    ck_assert_uint_eq(other->state, IB_ESTABLISHED);
    network_free(network);
}
END_TEST

/* Data may overtake RTU, and then stands for it. */
START_TEST(data_before_rtu)
{
    struct network *network = network_new();
    struct end *self = &network->ends[1];

    network->ends[0].hangs_up = false;
    network->lost = 1u << 2;
    (void)connect_from(network, 0x77);
    run_for(network, SECOND);
    ck_assert_uint_eq(self->conns[0].state, IB_REP_SENT);
    ck_assert_int_eq(ib_establish(&self->world, &self->conns[0]), 0);
    ck_assert_int_eq(ib_establish(&self->world, &self->conns[0]), EINVAL);
    run_for(network, 100 * SECOND);
    ck_assert_uint_eq(network->of_type[IB_REP & 31], 1);
    ck_assert_int_eq(ib_disconnect(&self->world, &self->conns[0]), 0);
    run_for(network, NEVER_NS);
    expect_events(network, 0, IB_EV_REPLIED, IB_EV_DISCONNECTED, IB_EV_OVER);
    expect_events(network, 1, REQUESTED, IB_EV_DISCONNECTED, IB_EV_OVER);
    network_free(network);
}
END_TEST

/* RTU is lost, and no data comes: REP comes again, and gets its answer again. */
START_TEST(rtu_again)
{
    struct network *network = network_new();

    network->ends[0].hangs_up = false;
    network->lost = 1u << 2;
    (void)connect_from(network, 0x77);
    run_for(network, ib_time_ns(20) + SECOND);
    expect_events(network, 1, REQUESTED, IB_EV_ESTABLISHED);
    ck_assert_uint_eq(network->of_type[IB_REP & 31], 2);
    ck_assert_uint_eq(network->of_type[IB_RTU & 31], 2);
    network_free(network);
}
END_TEST

/* ---- Look-ups ---- */

static struct ib_conn *ask_from(struct network *network)
{
    struct end *self = &network->ends[0];
    struct ib_message question = {.sidr_req = {.service = SERVICE, .pkey = 0xffff}};
    struct ib_conn *conn = &self->conns[self->used++];

    question.private_data[215] = 'q';
    conn->path = self->path;
    ck_assert_int_eq(ib_ask(&self->world, conn, &question), 0);
    return conn;
}

/* Whatever is lost or comes twice, there is one answer, and nobody is asked twice. */
static void look_up(unsigned lost, unsigned doubled)
{
    struct network *network = network_new();

    network->lost = lost;
    network->doubled = doubled;
    (void)ask_from(network);
    run_for(network, NEVER_NS);
    expect_events(network, 0, IB_EV_RESOLVED);
    expect_events(network, 1, REQUESTED, IB_EV_OVER);
    ck_assert_uint_eq(network->ends[0].rejected, IB_SIDR_VALID);
    if (lost == 0 && doubled == 0)
        ck_assert_uint_eq(network->sent, 2);
    network_free(network);
}

START_TEST(look_up_with_losses)
{
    for (unsigned mask = 0; mask < 1u << MASKED; mask++)
        look_up(mask, 0);
}
END_TEST

START_TEST(look_up_with_doubles)
{
    for (unsigned mask = 0; mask < 1u << MASKED; mask++)
        look_up(0, mask);
}
END_TEST

START_TEST(look_up_with_both)
{
    for (unsigned lost = 0; lost < 256; lost++)
        for (unsigned doubled = 0; doubled < 256; doubled++)
            if ((lost & doubled) == 0)
                look_up(lost, doubled);
}
END_TEST

START_TEST(nobody_to_ask)
{
    struct network *network = network_new();
    struct ib_conn *conn;

    network->deaf = true;
    conn = ask_from(network);
    ck_assert_int_eq(ib_ask(&network->ends[0].world, conn, &(struct ib_message){.type = IB_SIDR_REQ}), EINVAL);
    run_for(network, 16 * ib_time_ns(20) - 1);
    ck_assert_uint_eq(network->of_type[IB_SIDR_REQ & 31], 16);
    ck_assert_int_eq(network->ends[0].logged, 0);
    run_for(network, 1);
    expect_events(network, 0, IB_EV_UNREACHABLE);
    ck_assert_uint_eq(network->sent, 16); /* and nothing is taken back */
    ck_assert(next_time(network) == NEVER_NS);
    network_free(network);
}
END_TEST

/* The question comes again and again, and nobody asks the user again. */
START_TEST(a_slow_reply)
{
    struct network *network = network_new();
    struct end *self = &network->ends[1];

    self->accepts = false;
    (void)ask_from(network);
    run_for(network, 20 * SECOND);
    expect_events(network, 1, REQUESTED);
    ck_assert_uint_eq(network->of_type[IB_SIDR_REQ & 31], 5);
    ck_assert_uint_eq(network->sent, 5); /* and nothing else is said */
    reply_to_it(self, &self->conns[0], IB_SIDR_VALID);
    ck_assert_int_eq(ib_reply(&self->world, &self->conns[0], &(struct ib_message){.type = IB_SIDR_REP}),
                     EINVAL);
    run_for(network, SECOND);
    expect_events(network, 0, IB_EV_RESOLVED);
    network_free(network);
}
END_TEST

/* Nobody listens; the user says no, with a reason; or goes without a word. */
START_TEST(look_up_in_vain)
{
    struct network *network = network_new();
    struct end *self = &network->ends[1];
    uint8_t data[IB_PRIVATE_MAX] = {0};

    self->accepts = false;
    if (_i == 0)
        self->listens = false;
    (void)ask_from(network);
    run_for(network, SECOND);
    if (_i == 1) {
        ck_assert_int_eq(
            ib_refuse(&self->world, &self->conns[0], IB_CONSUMER, data, ib_private(IB_SIDR_REP) + 1), EINVAL);
        ck_assert_int_eq(ib_refuse(&self->world, &self->conns[0], IB_CONSUMER, data, ib_private(IB_SIDR_REP)),
                         0);
        ck_assert_uint_eq(self->conns[0].state, IB_ANSWERED);
    } else if (_i == 2) {
        ib_end(&self->world, &self->conns[0]);
    }
    run_for(network, NEVER_NS);
    expect_events(network, 0, IB_EV_RESOLVED);
    ck_assert_uint_eq(network->ends[0].rejected, _i == 0 ? IB_SIDR_UNSUPPORTED : IB_SIDR_REJECTED);
    network_free(network);
}
END_TEST

static void comes(struct network *network, int to, const struct soft_path *path, struct ib_message message)
{
    uint8_t mad[IB_MAD_BYTES];

    ib_encode(&message, mad);
    ib_arrive(&network->ends[to].world, path, mad);
}

/* Answers to another question, from another host, and of other kinds. */
START_TEST(answers_to_nothing)
{
    struct network *network = network_new();
    struct end *self = &network->ends[0];
    struct soft_path other = self->path;
    struct ib_conn *conn;
    struct ib_message reply = {.type = IB_SIDR_REP,
                               .sidr_rep = {.service = SERVICE, .qpn = 0x55, .qkey = 0x66}};

    network->deaf = true;
    conn = ask_from(network);
    reply.private_data[0] = 'r';
    reply.local_id = conn->local_id + 1;
    comes(network, 0, &self->path, reply);
    reply.local_id--;
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
    network_free(network);
}
END_TEST

/* A host that has started anew counts from the same number; and a connection's request with the number of a
 * look-up is none of its. */
START_TEST(a_question_that_is_another)
{
    struct network *network = network_new();
    struct end *self = &network->ends[1];
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
    network_free(network);
}
END_TEST

/* The host has nobody at RoCE's port: known at once, and only of this question. */
START_TEST(nobody_at_the_port)
{
    struct network *network = network_new();
    struct end *self = &network->ends[0];
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
    ck_assert(next_time(network) == NEVER_NS);
    network_free(network);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("InfiniBand's connections");
    TCase *tcase = tcase_create("connections");
    SRunner *runner = srunner_create(suite);
    int failed;

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
    tcase_add_loop_test(tcase, the_listener_has_gone, 0, 2);
    tcase_add_test(tcase, nobody_listens);
    tcase_add_test(tcase, refused);
    tcase_add_test(tcase, no_longer_wanted);
    tcase_add_test(tcase, a_peer_that_forgot);
    tcase_add_test(tcase, an_end_of_nothing);
    tcase_add_test(tcase, an_end_by_another);
    tcase_add_test(tcase, a_request_in_anothers_name);
    tcase_add_test(tcase, an_answer_in_anothers_name);
    tcase_add_test(tcase, data_before_rtu);
    tcase_add_test(tcase, rtu_again);
    tcase_add_test(tcase, look_up_with_losses);
    tcase_add_test(tcase, look_up_with_doubles);
    tcase_add_test(tcase, look_up_with_both);
    tcase_add_test(tcase, nobody_to_ask);
    tcase_add_test(tcase, a_slow_reply);
    tcase_add_loop_test(tcase, look_up_in_vain, 0, 3);
    tcase_add_test(tcase, answers_to_nothing);
    tcase_add_test(tcase, a_question_that_is_another);
    tcase_add_test(tcase, nobody_at_the_port);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
