/* SPDX-License-Identifier: BSD-2-Clause */
/* ibnet.c - see ibnet.h. Two endpoints, their applications, and the network between them. */
#include "ibnet.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* ---- The network ---- */

static uint64_t clock_now(struct soft_clock *clock)
{
    return ((struct ibnet *)clock)->now;
}

static void launch(struct ibnet *network, int to, const uint8_t *mad, uint64_t delay)
{
    struct ibnet_flight *flight = &network->flights[network->count++];

    ck_assert_int_lt(network->count, IBNET_QUEUE);
    flight->at = network->now + delay;
    flight->to = to;
    memcpy(flight->mad, mad, IB_MAD_BYTES);
}

static uint32_t number(struct ib_world *world)
{
    return ((struct ibnet_end *)world)->next_id++;
}

static void send_mad(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES])
{
    struct ibnet_end *self = (struct ibnet_end *)world;
    struct ibnet *network = self->network;
    unsigned bit = network->sent < MASKED ? 1u << network->sent : 0;

    if (memcmp(path, &network->third, sizeof *path) == 0) {
        ck_assert(ib_decode(&network->to_third, mad));
        network->third_heard[mad[17] & 31]++;
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

void ibnet_third_says(struct ibnet *network, int end, const struct ib_message *message)
{
    uint8_t mad[IB_MAD_BYTES];

    ib_encode(message, mad);
    ib_arrive(&network->ends[end].world, &network->third, mad);
}

/* ---- The applications ---- */

const struct ib_req some_req = {
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
    struct ibnet_end *self = (struct ibnet_end *)world;

    ck_assert(memcmp(path, &self->path, sizeof *path) == 0 ||
              memcmp(path, &self->network->third, sizeof *path) == 0);
    ck_assert_uint_eq(req->type == IB_REQ ? req->req.service : req->sidr_req.service, SERVICE);
    *why = IB_INVALID_SERVICE;
    if (!self->listens)
        return NULL;
    ck_assert_int_lt(self->used, IBNET_CONNS);
    return &self->conns[self->used++];
}

void ibnet_accept(struct ibnet_end *self, struct ib_conn *conn)
{
    struct ib_message rep = {.rep = {.qpn = self->next_qpn++, .psn = 7}};

    ck_assert_int_eq(ib_accept(&self->world, conn, &rep), 0);
}

void ibnet_reply(struct ibnet_end *self, struct ib_conn *conn, unsigned status)
{
    struct ib_message reply = {.sidr_rep = {.qpn = 0x55, .qkey = 0x66, .status = (uint8_t)status}};

    reply.private_data[0] = 'r';
    ck_assert_int_eq(ib_reply(&self->world, conn, &reply), 0);
}

static void requested(struct ib_world *world, struct ib_conn *conn, const struct ib_message *req)
{
    struct ibnet_end *self = (struct ibnet_end *)world;

    ck_assert_int_lt(self->logged, IBNET_LOG);
    self->log[self->logged++] = REQUESTED;
    if (req->type == IB_SIDR_REQ) {
        ck_assert_uint_eq(req->private_data[215], 'q');
        if (self->accepts)
            ibnet_reply(self, conn, IB_SIDR_VALID);
        return;
    }
    ck_assert_uint_eq(req->req.psn, 5);
    if (self->accepts)
        ibnet_accept(self, conn);
}

static void tell(struct ib_world *world, struct ib_conn *conn, enum ib_event event,
                 const struct ib_message *message)
{
    struct ibnet_end *self = (struct ibnet_end *)world;

    ck_assert_int_lt(self->logged, IBNET_LOG);
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

struct ibnet *ibnet_new(void)
{
    const struct sockaddr_in addresses[] = {
        {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)},
        {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000002)},
    };
    struct ibnet *network = calloc(1, sizeof *network);

    network->clock.now = clock_now;
    network->now = 1000 * SECOND;
    network->third.remote.in =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000003)};
    for (int i = 0; i < 2; i++) {
        struct ibnet_end *end = &network->ends[i];

        end->network = network;
        end->number = i;
        end->next_qpn = 0x100;
        end->next_id = 0xffffffff; /* incremented to 0 next, which is not a valid ID */
        end->listens = end->accepts = end->hangs_up = true;
        end->path.local.in = addresses[i];
        end->path.remote.in = addresses[!i];
        end->world = (struct ib_world){
            .clock = &network->clock,
            .guid = 0x1111 * (uint64_t)(i + 1),
            .next_transaction = 77,
            .number = number,
            .send = send_mad,
            .request = request,
            .requested = requested,
            .tell = tell,
        };
    }
    return network;
}

struct ib_conn *ibnet_connect(struct ibnet *network, uint32_t qpn)
{
    struct ibnet_end *self = &network->ends[0];
    struct ib_message req = {.req = some_req};
    struct ib_conn *conn = &self->conns[self->used++];

    req.req.qpn = qpn;
    conn->path = self->path;
    ck_assert_int_eq(ib_connect(&self->world, conn, &req), 0);
    return conn;
}

uint64_t ibnet_next(const struct ibnet *network)
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

static void land_one(struct ibnet *network, int which)
{
    struct ibnet_flight flight = network->flights[which];
    struct ibnet_end *to = &network->ends[flight.to];

    network->flights[which] = network->flights[--network->count];
    ib_arrive(&to->world, &to->path, flight.mad);
}

void ibnet_run(struct ibnet *network, uint64_t ns)
{
    uint64_t until = ns_after(network->now, ns), next;

    while ((next = ibnet_next(network)) <= until && next != NEVER_NS) {
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

void ibnet_free(struct ibnet *network)
{
    for (int i = 0; i < 2; i++)
        for (int conn = 0; conn < network->ends[i].used; conn++)
            ib_end(&network->ends[i].world, &network->ends[i].conns[conn]);
    ck_assert(LIST_EMPTY(&network->ends[0].world.conns) && LIST_EMPTY(&network->ends[1].world.conns));
    free(network);
}

void ibnet_expect(const struct ibnet *network, int end, const int *events, int count)
{
    const struct ibnet_end *self = &network->ends[end];

    ck_assert_msg(self->logged == count && memcmp(self->log, events, sizeof *events * (size_t)count) == 0,
                  "end %d, lost %x, doubled %x: %d events, the first %d %d %d %d", end, network->lost,
                  network->doubled, self->logged, self->log[0], self->log[1], self->log[2], self->log[3]);
}

void ibnet_losses(void (*live)(unsigned lost, unsigned doubled))
{
    for (unsigned mask = 0; mask < 1u << MASKED; mask++)
        live(mask, 0);
}

void ibnet_doubles(void (*live)(unsigned lost, unsigned doubled))
{
    for (unsigned mask = 0; mask < 1u << MASKED; mask++)
        live(0, mask);
}

void ibnet_losses_and_doubles(void (*live)(unsigned lost, unsigned doubled))
{
    for (unsigned lost = 0; lost < 256; lost++)
        for (unsigned doubled = 0; doubled < 256; doubled++)
            if ((lost & doubled) == 0)
                live(lost, doubled);
}
