/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib.c - fuzzes InfiniBand's connection manager (ib_conn.h). Messages with any contents arrive, with the communication
 * IDs of existing connections and others. The application makes any calls, and time passes.
 *
 * For every input: a decoded message, encoded again, decodes to the same message, and so do the addresses in it. No
 * connection gets an event after its end or out of order. Messages go to the peer only.
 */
#include <check.h>
#include <stdlib.h>
#include "check/fuzz/ib_ends.h"
#include "check/fuzz/input.h"
#include "core/base/bytes.h"
#include "soft/cm/ib_address.h"
#include "soft/cm/ib_conn.h"

#define CONNS 6
#define ENDS 0xfd /* the first byte of an input for ib_ends.c */
#define HOSTS 2
#define SERVICE UINT64_C(0x01111234)
#define BY_ADDRESS 232 /* a step's first byte, from this up */

/* A connection, and which events it had. */
struct one {
    struct ib_conn conn; /* must be the first member */
    bool taken, established, gone;
    bool asked; /* SIDR: nothing more follows its answer */
};

static struct ib_fuzz {
    struct ib_world world; /* must be the first member */
    struct soft_clock clock;
    uint64_t now;
    struct input input;
    struct one ones[CONNS];
    struct soft_path hosts[HOSTS];
    uint32_t given;
} fuzz;

static uint64_t clock_now(struct soft_clock *clock)
{
    (void)clock;
    return fuzz.now;
}

/* ---- The world ---- */

static void check_message(const struct ib_message *message)
{
    uint8_t mad[IB_MAD_BYTES], again[IB_MAD_BYTES];
    struct ib_message back;

    ib_encode(message, mad);
    ck_assert(ib_decode(&back, mad));
    ib_encode(&back, again);
    ck_assert_mem_eq(mad, again, IB_MAD_BYTES);
}

static uint32_t number(struct ib_world *world)
{
    (void)world;
    return 0xfffffffe + fuzz.given++;
}

static void sent(struct ib_world *world, const struct soft_path *to, const uint8_t mad[IB_MAD_BYTES])
{
    struct ib_message message;
    bool known = false;

    (void)world;
    ck_assert(ib_decode(&message, mad));
    check_message(&message);
    for (int i = 0; i < HOSTS; i++)
        known |= memcmp(to, &fuzz.hosts[i], sizeof *to) == 0;
    ck_assert(known);
}

static struct one *free_one(void)
{
    for (int i = 0; i < CONNS; i++)
        if (!fuzz.ones[i].taken) {
            memset(&fuzz.ones[i], 0, sizeof fuzz.ones[i]);
            fuzz.ones[i].taken = true;
            return &fuzz.ones[i];
        }
    return NULL;
}

/* The addresses in a REQ's private data survive encoding and decoding. Only the low half of the version byte is
 * lost. */
static void check_addresses(const uint8_t bytes[IB_ADDRESS_BYTES])
{
    union soft_addr from, to, from_again, to_again;
    uint8_t again[IB_ADDRESS_BYTES];

    if (!ib_address_decode(&from, &to, bytes))
        return;
    ck_assert(from.sa.sa_family == to.sa.sa_family && to.in.sin_port == 0);
    ib_address_encode(&from, &to, again);
    ck_assert(ib_address_decode(&from_again, &to_again, again));
    ck_assert_mem_eq(&from, &from_again, sizeof from);
    ck_assert_mem_eq(&to, &to_again, sizeof to);
    ck_assert(again[0] == bytes[0] && again[1] == (bytes[1] & 0xf0) && again[2] == bytes[2] &&
              again[3] == bytes[3]);
}

static void check_service(uint64_t service)
{
    enum ib_space space;
    uint16_t port;

    if (ib_service_port(service, &space, &port))
        ck_assert_uint_eq(ib_service(space, port), service);
}

static struct ib_conn *request(struct ib_world *world, const struct soft_path *from,
                               const struct ib_message *req, enum ib_reason *why)
{
    struct one *one = free_one();

    (void)world, (void)from;
    check_addresses(req->private_data);
    check_service(req->type == IB_REQ ? req->req.service : req->sidr_req.service);
    ck_assert(req->type == IB_REQ || req->type == IB_SIDR_REQ);
    *why = IB_INVALID_SERVICE;
    return one == NULL ? NULL : &one->conn;
}

static void end_one(struct one *one)
{
    ib_end(&fuzz.world, &one->conn);
    one->taken = false;
}

static void requested(struct ib_world *world, struct ib_conn *conn, const struct ib_message *req)
{
    (void)world;
    ck_assert(conn->state == (req->type == IB_REQ ? IB_REQUESTED : IB_QUESTIONED) &&
              ((struct one *)conn)->taken);
    ((struct one *)conn)->asked = req->type == IB_SIDR_REQ;
    check_message(req);
}

static void tell(struct ib_world *world, struct ib_conn *conn, enum ib_event event,
                 const struct ib_message *message)
{
    struct one *one = (struct one *)conn;

    (void)world;
    ck_assert(one->taken);
    if (message != NULL)
        check_message(message);
    switch (event) {
    case IB_EV_REPLIED:
    case IB_EV_ESTABLISHED:
        ck_assert(!one->established && !one->gone);
        one->established = true;
        break;
    case IB_EV_OVER:
        ck_assert((one->gone || one->asked) && conn->state == IB_IDLE);
        break;
    case IB_EV_RESOLVED:
        ck_assert(!one->established && !one->gone && conn->state == IB_IDLE && message->type == IB_SIDR_REP);
        one->gone = true;
        break;
    case IB_EV_REJECTED:
    case IB_EV_UNREACHABLE:
    case IB_EV_ABSENT:
    case IB_EV_DISCONNECTED:
    case IB_EV_UNANSWERED:
        ck_assert(!one->gone && (conn->state == IB_IDLE || conn->state == IB_TIMEWAIT));
        one->gone = true;
        break;
    }
    if (input_u8(&fuzz.input) % 8 == 7)
        end_one(one);
}

/* ---- Steps ---- */

static struct one *pick(void)
{
    return &fuzz.ones[input_u8(&fuzz.input) % CONNS];
}

/* This includes messages that the connection manager does not handle. */
static void check_decoded(const uint8_t mad[IB_MAD_BYTES])
{
    struct ib_message message;

    if (ib_decode(&message, mad))
        check_message(&message);
}

/* A MAD of any bytes arrives. Its header is valid, except perhaps for one bit. */
static void come(void)
{
    uint8_t how = input_u8(&fuzz.input), mad[IB_MAD_BYTES] = {1, 7, 2, 3};
    const struct ib_conn *conn = &pick()->conn;
    const uint8_t *bytes;
    size_t got = input_bytes(&fuzz.input, &bytes, how & 1 ? IB_MAD_BYTES - 24 : 12);

    if (how & 2)
        put64(mad + 8, conn->transaction);

    memcpy(mad + 24, bytes, got);
    mad[17] = (uint8_t)(IB_REQ + (how >> 4) % 10);
    if (mad[17] == IB_SIDR_REP && how & 2) /* of a pending SIDR request */
        put32(mad + 24, conn->local_id);
    else if (how & 2) { /* of an existing connection */
        for (int i = 0; i < 4; i++) {
            mad[24 + i] = (uint8_t)(conn->remote_id >> (24 - 8 * i));
            mad[28 + i] = (uint8_t)(conn->local_id >> (24 - 8 * i));
        }
        mad[32] = (uint8_t)(conn->local_qpn >> 16);
        mad[33] = (uint8_t)(conn->local_qpn >> 8);
        mad[34] = (uint8_t)conn->local_qpn;
    }
    if (mad[17] == IB_REQ && !(how & 1)) { /* a valid REQ */
        mad[24 + 34] = 9;
        mad[24 + 50] = 0x30;
    }
    if (mad[17] == IB_REP && !(how & 1))
        mad[24 + 14] = 9;
    if (input_u8(&fuzz.input) == 255)
        mad[input_u8(&fuzz.input) % 24] ^= 1;
    check_decoded(mad);
    ib_arrive(&fuzz.world, &fuzz.hosts[how >> 2 & 1], mad);
}

static void connect_one(void)
{
    struct one *one = free_one();
    uint8_t how = input_u8(&fuzz.input);
    struct ib_message req = {.req = {.qpn = 2 + how % 4u,
                                     .mtu = 3,
                                     .cm_retries = how >> 4,
                                     .remote_response = 20,
                                     .local_response = 20,
                                     .ack_timeout = 19}};
    struct ib_message question = {.sidr_req = {.service = SERVICE, .pkey = 0xffff}};

    if (one == NULL)
        return;
    one->conn.path = fuzz.hosts[how >> 2 & 1];
    if (how & 8) {
        ck_assert_int_eq(ib_ask(&fuzz.world, &one->conn, &question), 0);
        return;
    }
    ck_assert_int_eq(ib_connect(&fuzz.world, &one->conn, &req), 0);
}

/* An address that a host may have, or one that none may have. */
static union soft_addr some_address(uint8_t how)
{
    union soft_addr addr = {0};
    const uint8_t *bytes;

    addr.sa.sa_family = how & 1 ? AF_INET6 : AF_INET;
    if (how & 1) {
        size_t got = input_bytes(&fuzz.input, &bytes, sizeof addr.in6.sin6_addr);
        memcpy(&addr.in6.sin6_addr, bytes, got);
    } else {
        addr.in.sin_addr.s_addr = htonl(input_u32(&fuzz.input));
    }
    return addr;
}

static bool is_host(const union soft_addr *addr)
{
    uint32_t first = ntohl(addr->in.sin_addr.s_addr) >> 24;
    const struct in6_addr *v6 = &addr->in6.sin6_addr;

    if (addr->sa.sa_family == AF_INET)
        return first > 0 && (first < 224 || first >= 240) && addr->in.sin_addr.s_addr != INADDR_BROADCAST;
    return v6->s6_addr[0] != 0xff && !IN6_IS_ADDR_UNSPECIFIED(v6);
}

/* A REQ as librdmacm sends it, with IP addresses in the private data and a service ID, perhaps with one byte changed. A
 * valid one is decoded, whichever hosts it names. */
static void come_by_address(void)
{
    uint8_t how = input_u8(&fuzz.input), mad[IB_MAD_BYTES];
    union soft_addr from = some_address(how), to = some_address(how), source, target;
    struct ib_message req = {
        .type = IB_REQ, .local_id = 1 + (how >> 6), .req = {.qpn = 9, .mtu = 3, .remote_response = 20}};
    bool right;

    from.in.sin_port = input_u16(&fuzz.input);
    ib_address_encode(&from, &to, req.private_data);
    if (how & 2)
        req.private_data[input_u8(&fuzz.input) % IB_ADDRESS_BYTES] ^=
            (uint8_t)(1 + input_u8(&fuzz.input) % 255);
    right = ib_address_decode(&source, &target, req.private_data);
    ck_assert(how & 2 || right == (is_host(&from) && is_host(&to)));
    if (right && !(how & 2)) {
        ck_assert_mem_eq(&source, &from, sizeof from);
        ck_assert_mem_eq(&target, &to, sizeof to);
    }
    req.req.service = how & 4 ? input_u64(&fuzz.input)
                              : ib_service(how & 8 ? IB_SPACE_UDP : IB_SPACE_TCP, input_u16(&fuzz.input));
    ib_encode(&req, mad);
    ib_arrive(&fuzz.world, &fuzz.hosts[how >> 4 & 1], mad);
}

static void do_something(void)
{
    struct ib_message rep = {.rep = {.qpn = 9}}, reply = {.sidr_rep = {.qpn = 9}};
    struct one *one = pick();

    if (!one->taken)
        return;
    switch (input_u8(&fuzz.input) % 5) {
    case 0:
        (void)ib_accept(&fuzz.world, &one->conn, &rep);
        (void)ib_reply(&fuzz.world, &one->conn, &reply);
        break;
    case 1:
        one->gone |= ib_refuse(&fuzz.world, &one->conn, IB_CONSUMER, "no", 2) == 0 && !one->asked;
        break;
    case 2:
        one->established |= ib_establish(&fuzz.world, &one->conn) == 0;
        break;
    case 3:
        (void)ib_disconnect(&fuzz.world, &one->conn);
        break;
    default:
        end_one(one);
    }
}

static void world_open(const uint8_t *data, size_t size)
{
    memset(&fuzz, 0, sizeof fuzz);
    fuzz.input = (struct input){data, size};
    fuzz.clock.now = clock_now;
    fuzz.now = 1000;
    for (unsigned i = 0; i < HOSTS; i++)
        fuzz.hosts[i].remote.in =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001 + i)};
    fuzz.world = (struct ib_world){
        .clock = &fuzz.clock,
        .guid = 1,
        .number = number,
        .send = sent,
        .request = request,
        .requested = requested,
        .tell = tell,
    };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == ENDS) {
        ib_ends_fuzz(&(struct input){data + 1, size - 1});
        return 0;
    }
    world_open(data, size);
    while (input_left(&fuzz.input) > 0) {
        uint8_t what = input_u8(&fuzz.input);

        switch (what >= BY_ADDRESS ? 4 : what % 4) {
        case 0:
            come();
            break;
        case 1:
            connect_one();
            break;
        case 2:
            do_something();
            break;
        case 4:
            come_by_address();
            break;
        default:
            if (ib_deadline(&fuzz.world) != NEVER_NS)
                fuzz.now = ib_deadline(&fuzz.world);
            ib_timers(&fuzz.world);
        }
    }
    for (int i = 0; i < CONNS; i++)
        if (fuzz.ones[i].taken)
            end_one(&fuzz.ones[i]);
    ck_assert(LIST_EMPTY(&fuzz.world.conns));
    return 0;
}
