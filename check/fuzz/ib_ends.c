/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_ends.c - fuzzes the endpoints of a process at InfiniBand's connection manager (ib_port.h). Packets with any bytes
 * and requests for listeners arrive, the endpoints' owners make calls, and time passes.
 *
 * For every input: an event names an endpoint that has an owner, and arrives in the owner's box. An endpoint without an
 * owner is gone when its timewait is over. Messages go to the peer only.
 */
#include <check.h>
#include "check/fuzz/ib_ends.h"
#include "soft/cm/ib_address.h"
#include "soft/cm/ib_end.h"

#define SLOTS 6
#define BOXES 2

/* An owner and its endpoint. The port sees `user` as a mere address; the owner's is that of its slot. */
struct slot {
    struct ib_end *end; /* NULL: none */
    struct ib_box *box;
    bool listens;
};

static struct {
    struct soft_clock clock;
    uint64_t now;
    struct input *input;
    struct soft_path path;
    struct ib_box boxes[BOXES];
    struct slot slots[SLOTS];
    uint32_t given;
} ends;

static uint64_t clock_now(struct soft_clock *clock)
{
    (void)clock;
    return ends.now;
}

static uint32_t number(struct ib_world *world)
{
    (void)world;
    return 0xfffffff0 + 16 * ends.given++;
}

static void sent(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES])
{
    uint8_t packet[QP1_PACKET];
    struct ib_message message;

    (void)world;
    ck_assert(ib_same_address(&path->remote, &ends.path.remote));
    ck_assert(ib_decode(&message, mad));
    qp1_write(packet, ends.now & 0xffffff, mad);
    ck_assert_ptr_eq(qp1_read(packet, sizeof packet), packet + QP1_HEADERS);
}

static struct slot *free_slot(void)
{
    for (int i = 0; i < SLOTS; i++)
        if (ends.slots[i].end == NULL)
            return &ends.slots[i];
    return NULL;
}

static struct slot *some_slot(void)
{
    return &ends.slots[input_u8(ends.input) % SLOTS];
}

static struct ib_box *some_box(void)
{
    return &ends.boxes[input_u8(ends.input) % BOXES];
}

static struct cm_id *user_of(struct slot *slot)
{
    return (struct cm_id *)(void *)slot;
}

static void leave(struct slot *slot)
{
    if (slot->end != NULL)
        ib_port_leave(slot->end);
    slot->end = NULL;
}

/* ---- Steps ---- */

/* Any packet; the port takes those that are valid for queue pair 1. */
static void come(void)
{
    uint8_t packet[QP1_PACKET], how = input_u8(ends.input);
    const uint8_t header[IB_MAD_BYTES] = {1, 7, 2, 3};
    const uint8_t *bytes, *mad;
    const struct slot *slot = some_slot();
    size_t got;

    qp1_write(packet, how, header);
    packet[QP1_HEADERS + 17] = (uint8_t)(IB_REQ + (how >> 4) % 10);
    got = input_bytes(ends.input, &bytes, how & 1 ? IB_MAD_BYTES - 24 : 12);
    memcpy(packet + QP1_HEADERS + 24, bytes, got);
    if ((how & 2) && slot->end != NULL) /* of an existing connection */
        for (int i = 0; i < 4; i++) {
            packet[QP1_HEADERS + 24 + i] = (uint8_t)(slot->end->conn.remote_id >> (24 - 8 * i));
            packet[QP1_HEADERS + 28 + i] = (uint8_t)(slot->end->conn.local_id >> (24 - 8 * i));
        }
    if (input_u8(ends.input) == 255)
        packet[input_u8(ends.input) % 48] ^= 1;
    mad = qp1_read(packet, how & 4 ? sizeof packet - input_u8(ends.input) : sizeof packet);
    if (mad != NULL && (how & 8))
        ib_absent(&ib_port.world, &ends.path, mad);
    else if (mad != NULL)
        ib_arrive(&ib_port.world, &ends.path, mad);
}

/* A valid REQ or SIDR_REQ. */
static void be_asked(void)
{
    uint8_t how = input_u8(ends.input), mad[IB_MAD_BYTES];
    struct ib_message req = {
        .type = IB_REQ,
        .local_id = how & 7,
        .req = {.service = ib_service(IB_SPACE_TCP, how >> 6),
                .ca_guid = 2,
                .qpn = 2 + (how >> 3 & 7),
                .mtu = 3},
    };
    union ibv_gid gid;

    soft_gid_of(&gid, &ends.path.remote.sa);
    memcpy(req.req.local_gid, gid.raw, IB_GID_BYTES);
    if (how & 0x20) {
        req.type = IB_SIDR_REQ;
        req.sidr_req.service = ib_service(IB_SPACE_UDP, how >> 6);
    }
    ib_address_encode(&ends.path.remote, &ends.path.local, req.private_data);
    ib_encode(&req, mad);
    ib_arrive(&ib_port.world, &ends.path, mad);
}

/* No one looks up a listener's address, or is told of it. */
static void listen_somewhere(void)
{
    uint8_t how = input_u8(ends.input);
    struct slot *slot = free_slot();
    union soft_addr addr = {.in6 = {.sin6_family = AF_INET, .sin6_port = htons(how & 3)}};

    if (slot == NULL)
        return;
    if (how & 4)
        addr.in.sin_addr = ends.path.local.in.sin_addr;
    *slot = (struct slot){.box = some_box(), .listens = true};
    slot->end = ib_port_listen(slot->box, user_of(slot), how & 1 ? IB_SPACE_UDP : IB_SPACE_TCP, &addr, how & 8,
                               how >> 4);
}

static void connect_somewhere(void)
{
    struct ib_message req = {.req = {.qpn = 2 + input_u8(ends.input) % 8u,
                                     .mtu = 3,
                                     .cm_retries = 2,
                                     .remote_response = 20,
                                     .ack_timeout = 19}};
    struct ib_message question = {.sidr_req = {.service = ib_service(IB_SPACE_UDP, 1)}};
    struct slot *slot = free_slot();

    if (slot == NULL)
        return;
    *slot = (struct slot){.box = some_box()};
    slot->end = input_u8(ends.input) & 1 ? ib_port_ask(slot->box, user_of(slot), &ends.path, &question)
                                         : ib_port_connect(slot->box, user_of(slot), &ends.path, &req);
}

static void look(void)
{
    struct ib_box *box = some_box();
    struct slot *slot, *child;
    struct ib_news news;

    if (!ib_port_next(box, &news))
        return;
    slot = (struct slot *)(void *)news.user;
    ck_assert(slot >= ends.slots && slot < ends.slots + SLOTS && slot->end != NULL && slot->box == box);
    if (!news.requested) {
        ck_assert_ptr_eq(slot->end, news.end);
        return;
    }
    ck_assert(slot->listens && news.said.type == (slot->end->space == IB_SPACE_UDP ? IB_SIDR_REQ : IB_REQ));
    child = free_slot();
    if (child == NULL) {
        ib_port_leave(news.end);
        return;
    }
    *child = (struct slot){.end = news.end, .box = box};
    ib_port_adopt(news.end, user_of(child));
}

static void do_something(void)
{
    struct ib_message rep = {.rep = {.qpn = 9}}, reply = {.sidr_rep = {.qpn = 9}};
    struct slot *slot = some_slot();
    uint8_t what = input_u8(ends.input) % 6;

    if (slot->end == NULL)
        return;
    if (what == 0) {
        leave(slot);
    } else if (what == 1) {
        slot->box = some_box();
        ib_port_move(slot->end, slot->box);
    } else if (!slot->listens) {
        if (what == 2)
            (void)(ib_port_accept(slot->end, &rep) == 0 || ib_port_reply(slot->end, &reply));
        else if (what == 3)
            (void)ib_port_refuse(slot->end, IB_CONSUMER, "no", 2);
        else if (what == 4)
            (void)ib_port_establish(slot->end);
        else
            (void)ib_port_disconnect(slot->end);
    }
}

static void wait_for_it(void)
{
    if (ib_deadline(&ib_port.world) != NEVER_NS)
        ends.now = ib_deadline(&ib_port.world);
    ib_timers(&ib_port.world);
}

static void open_all(struct input *input)
{
    const struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
    const struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000002)};

    memset(&ends, 0, sizeof ends);
    ends.input = input;
    ends.now = 1000;
    ends.clock.now = clock_now;
    ends.path.local.in = here;
    ends.path.remote.in = there;
    for (int i = 0; i < BOXES; i++) {
        ends.boxes[i].wakefd = (struct doorbell)DOORBELL_INIT(DOORBELL_PLAIN);
        TAILQ_INIT(&ends.boxes[i].news);
    }
    ib_port.qp1.fds[0] = ib_port.qp1.fds[1] = ib_port.qp1.out[0] = ib_port.qp1.out[1] = ib_port.epoll =
        ib_port.inbox = -1;
    ib_port.world = (struct ib_world){
        .clock = &ends.clock,
        .guid = 1,
        .number = number,
        .send = sent,
        .request = ib_told_request,
        .requested = ib_told_requested,
        .tell = ib_told_event,
    };
}

void ib_ends_fuzz(struct input *input)
{
    static void (*const happens[])(void) = {come, be_asked,     listen_somewhere, connect_somewhere,
                                            look, do_something, wait_for_it,      look};

    open_all(input);
    while (input_left(input) > 0)
        happens[input_u8(input) % (sizeof happens / sizeof *happens)]();
    for (int i = 0; i < SLOTS; i++)
        leave(&ends.slots[i]);
    while (!LIST_EMPTY(&ib_port.world.conns)) {
        ck_assert_uint_ne(ib_deadline(&ib_port.world), NEVER_NS);
        wait_for_it();
    }
    ck_assert(LIST_EMPTY(&ib_port.listeners));
    ck_assert_uint_eq(ib_port.ends, 0);
}
