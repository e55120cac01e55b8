/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ib_message.c - InfiniBand's connection management messages: decoded as Linux's connection manager sent them,
 * encoded and decoded again, and invalid ones.
 */
#include <arpa/inet.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "check/support/runner.h"
#include "soft/cm/ib_address.h"
#include "soft/cm/ib_message.h"

/* From Linux 6.1 on rxe: 10.77.0.2 connects to port 8810 of 10.77.0.1. Trailing bytes that are left off are zero. */
static const uint8_t seen_req[IB_MAD_BYTES] = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xfb, 0xff, 0x6b, 0xec, 0x00, 0x10,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xec, 0x6b, 0xff, 0xfb, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x01, 0x06, 0x22, 0x6a, 0x50, 0x54, 0x00, 0xff, 0xfe, 0x77, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x14, 0x10, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0xa0, 0xdc, 0x27, 0xf5, 0xa6,
    0xff, 0xff, 0x57, 0xf0, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0xff, 0xff, 0x0a, 0x4d, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff,
    0x0a, 0x4d, 0x00, 0x01, 0xbc, 0x5e, 0xc0, 0x00, 0x00, 0x40, 0x00, 0x98, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x40, 0xe4, 0x3e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x0a, 0x4d, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x4d,
    0x00, 0x01, 0x45, 0x58, 0x53, 0x32, 0x00, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x02, 0x00, 0x20,
    0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x11, 0xd9, 0x00, 0x00, 0x7f, 0xc0, 0x37, 0x6a, 0xd0,
};
static const uint8_t seen_rep[IB_MAD_BYTES] = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xfb, 0xff, 0x6b, 0xec,
    0x00, 0x13, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x22, 0xd1, 0x2f, 0xcb, 0xec, 0x6b, 0xff, 0xfb,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x56, 0x93, 0xfd, 0x00,
    0x10, 0x10, 0x78, 0xe0, 0x50, 0x54, 0x00, 0xff, 0xfe, 0x77, 0x00, 0x01, 0x45, 0x58, 0x53, 0x32,
    0x00, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x02, 0x00, 0x20, 0x00, 0x04, 0x00, 0x00,
    0x00, 0x00, 0x11, 0xd9, 0x00, 0x00, 0x7f, 0xbb, 0x06, 0xa3, 0x80,
};
static const uint8_t seen_rtu[IB_MAD_BYTES] = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xfb, 0xff, 0x6b, 0xec,
    0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xec, 0x6b, 0xff, 0xfb, 0x22, 0xd1, 0x2f, 0xcb,
};
static const uint8_t seen_dreq[IB_MAD_BYTES] = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xfb, 0xff, 0x6b, 0xec, 0x00, 0x15,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xec, 0x6b, 0xff, 0xfb, 0x22, 0xd1, 0x2f, 0xcb, 0x00, 0x00, 0x14,
};
static const uint8_t seen_drep[IB_MAD_BYTES] = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xfb, 0xff, 0x6b, 0xec,
    0x00, 0x16, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x22, 0xd1, 0x2f, 0xcb, 0xec, 0x6b, 0xff, 0xfb,
};
static const uint8_t seen_rej[IB_MAD_BYTES] = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xfb, 0xff, 0x6b, 0xeb, 0x00, 0x12,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xeb, 0x6b, 0xff, 0xfb, 0x00, 0x00, 0x00, 0x08,
};

#define HEADER 24

static struct ib_message decoded(const uint8_t *mad)
{
    struct ib_message message;
    uint8_t again[IB_MAD_BYTES];

    ck_assert(ib_decode(&message, mad));
    ib_encode(&message, again);
    ck_assert_mem_eq(again, mad, IB_MAD_BYTES);
    return message;
}

/* ---- As captured ---- */

#define TRANSACTION UINT64_C(0x00000002fbff6bec)
#define CLIENT 0xec6bfffb /* the connection's communication IDs */
#define SERVER 0x22d12fcb
#define CLIENT_GUID UINT64_C(0x505400fffe770002)
#define SERVER_GUID UINT64_C(0x505400fffe770001)

static void expect_gid(const uint8_t gid[IB_GID_BYTES], const char *text)
{
    struct in6_addr addr;

    ck_assert_int_eq(inet_pton(AF_INET6, text, &addr), 1);
    ck_assert_mem_eq(gid, &addr, IB_GID_BYTES);
}

static void expect_ids(const struct ib_message *message, enum ib_type type, uint32_t local, uint32_t remote)
{
    ck_assert_uint_eq(message->type, type);
    ck_assert_uint_eq(message->transaction, TRANSACTION);
    ck_assert_uint_eq(message->local_id, local);
    ck_assert_uint_eq(message->remote_id, remote);
}

START_TEST(a_request_that_was_seen)
{
    struct ib_message message = decoded(seen_req);
    const struct ib_req *req = &message.req;
    union soft_addr from, to;
    enum ib_space space;
    uint16_t port;

    expect_ids(&message, IB_REQ, CLIENT, 0);
    ck_assert(ib_service_port(req->service, &space, &port));
    ck_assert_uint_eq(space, IB_SPACE_TCP);
    ck_assert_uint_eq(port, 8810);
    ck_assert_uint_eq(req->ca_guid, CLIENT_GUID);
    ck_assert_uint_eq(req->qkey, 0);
    ck_assert_uint_eq(req->qpn, 0x14);
    ck_assert_uint_eq(req->responder_resources, 16);
    ck_assert_uint_eq(req->initiator_depth, 16);
    ck_assert_uint_eq(req->remote_response, 20);
    ck_assert_uint_eq(req->local_response, 20);
    ck_assert_uint_eq(req->transport, IB_RC);
    ck_assert(!req->flow_control && !req->srq);
    ck_assert_uint_eq(req->psn, 0xdc27f5);
    ck_assert_uint_eq(req->retry_count, 6);
    ck_assert_uint_eq(req->rnr_retry_count, 7);
    ck_assert_uint_eq(req->cm_retries, 15);
    ck_assert_uint_eq(req->pkey, 0xffff);
    ck_assert_uint_eq(req->mtu, 5);
    expect_gid(req->local_gid, "::ffff:10.77.0.2");
    expect_gid(req->remote_gid, "::ffff:10.77.0.1");
    ck_assert_uint_eq(req->flow_label, 0xbc5ec);
    ck_assert_uint_eq(req->traffic_class, 0);
    ck_assert_uint_eq(req->hop_limit, 64);
    ck_assert_uint_eq(req->ack_timeout, 19);
    ck_assert(ib_address_decode(&from, &to, message.private_data));
    ck_assert_uint_eq(from.in.sin_addr.s_addr, htonl(0x0a4d0002));
    ck_assert_uint_eq(ntohs(from.in.sin_port), 58430);
    ck_assert_uint_eq(to.in.sin_addr.s_addr, htonl(0x0a4d0001));
    ck_assert_mem_eq(message.private_data + IB_ADDRESS_BYTES, "EXS2", 4);
}
END_TEST

START_TEST(answers_that_were_seen)
{
    struct ib_message rep = decoded(seen_rep), rtu = decoded(seen_rtu);

    expect_ids(&rep, IB_REP, SERVER, CLIENT);
    ck_assert_uint_eq(rep.rep.qpn, 0x14);
    ck_assert_uint_eq(rep.rep.psn, 0x5693fd);
    ck_assert_uint_eq(rep.rep.qkey, 0);
    ck_assert_uint_eq(rep.rep.responder_resources, 16);
    ck_assert_uint_eq(rep.rep.initiator_depth, 16);
    ck_assert_uint_eq(rep.rep.ack_delay, 15);
    ck_assert(!rep.rep.flow_control && !rep.rep.srq);
    ck_assert_uint_eq(rep.rep.rnr_retry_count, 7);
    ck_assert_uint_eq(rep.rep.ca_guid, SERVER_GUID);
    ck_assert_mem_eq(rep.private_data, "EXS2", 4);
    expect_ids(&rtu, IB_RTU, CLIENT, SERVER);
}
END_TEST

START_TEST(ends_that_were_seen)
{
    struct ib_message dreq = decoded(seen_dreq), drep = decoded(seen_drep), rej = decoded(seen_rej);

    expect_ids(&dreq, IB_DREQ, CLIENT, SERVER);
    ck_assert_uint_eq(dreq.dreq.qpn, 0x14);
    expect_ids(&drep, IB_DREP, SERVER, CLIENT);
    ck_assert_uint_eq(rej.type, IB_REJ);
    ck_assert_uint_eq(rej.local_id, 0);
    ck_assert_uint_eq(rej.remote_id, 0xeb6bfffb);
    ck_assert_uint_eq(rej.rej.answered, IB_TO_REQ);
    ck_assert_uint_eq(rej.rej.reason, IB_INVALID_SERVICE);
    ck_assert_uint_eq(rej.rej.info_length, 0);
}
END_TEST

/* ---- Encoded and decoded ---- */

static uint64_t chance;

static uint64_t draw(unsigned bits)
{
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return chance >> (64 - bits);
}

static void draw_bytes(uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)draw(8);
}

static uint32_t draw_qpn(void)
{
    return 2 + (uint32_t)draw(23);
}

static void draw_req(struct ib_req *req)
{
    *req = (struct ib_req){
        .service = draw(63),
        .ca_guid = draw(63),
        .qpn = draw_qpn(),
        .psn = (uint32_t)draw(24),
        .qkey = (uint32_t)draw(32),
        .responder_resources = (uint8_t)draw(8),
        .initiator_depth = (uint8_t)draw(8),
        .remote_response = (uint8_t)draw(5),
        .local_response = (uint8_t)draw(5),
        .transport = draw(1) ? IB_UC : IB_RC,
        .flow_control = draw(1),
        .srq = draw(1),
        .retry_count = (uint8_t)draw(3),
        .rnr_retry_count = (uint8_t)draw(3),
        .cm_retries = (uint8_t)draw(4),
        .pkey = (uint16_t)draw(16),
        .mtu = (uint8_t)(1 + draw(2)),
        .flow_label = (uint32_t)draw(20),
        .traffic_class = (uint8_t)draw(8),
        .hop_limit = (uint8_t)draw(8),
        .ack_timeout = (uint8_t)draw(5),
    };
    draw_bytes(req->local_gid, IB_GID_BYTES);
    draw_bytes(req->remote_gid, IB_GID_BYTES);
}

static void draw_rest(struct ib_message *message)
{
    if (message->type == IB_REP)
        message->rep = (struct ib_rep){
            .ca_guid = draw(63),
            .qpn = draw_qpn(),
            .psn = (uint32_t)draw(24),
            .qkey = (uint32_t)draw(32),
            .responder_resources = (uint8_t)draw(8),
            .initiator_depth = (uint8_t)draw(8),
            .ack_delay = (uint8_t)draw(5),
            .rnr_retry_count = (uint8_t)draw(3),
            .flow_control = draw(1),
            .srq = draw(1),
        };
    if (message->type == IB_MRA) {
        message->mra.answered = draw(1) ? IB_TO_REP : IB_TO_OTHER;
        message->mra.service_time = (uint8_t)draw(5);
    }
    if (message->type == IB_REJ) {
        message->rej.answered = draw(1) ? IB_TO_REP : IB_TO_OTHER;
        message->rej.reason = (uint16_t)draw(16);
        message->rej.info_length = (uint8_t)(draw(6) + draw(3) + 1);
        draw_bytes(message->rej.info, message->rej.info_length);
    }
    if (message->type == IB_DREQ)
        message->dreq.qpn = (uint32_t)draw(24);
    if (message->type == IB_SIDR_REQ) {
        message->sidr_req.service = draw(63);
        message->sidr_req.pkey = (uint16_t)draw(16);
    }
    if (message->type == IB_SIDR_REP) {
        message->sidr_rep.service = draw(63);
        message->sidr_rep.qpn = draw_qpn();
        message->sidr_rep.qkey = (uint32_t)draw(32);
        message->sidr_rep.status = (uint8_t)draw(8);
    }
}

/* Every field keeps its value, and no field overlaps another. */
START_TEST(there_and_back)
{
    chance = (uint64_t)_i;
    for (int i = 0; i < 1000; i++) {
        struct ib_message message, back;
        uint8_t mad[IB_MAD_BYTES];

        memset(&message, 0, sizeof message);
        message.type = (enum ib_type)_i;
        message.transaction = draw(63);
        message.local_id = (uint32_t)draw(32);
        if (_i != IB_REQ && _i != IB_SIDR_REQ && _i != IB_SIDR_REP)
            message.remote_id = (uint32_t)draw(32);
        draw_bytes(message.private_data, ib_private((unsigned)_i));
        if (_i == IB_REQ)
            draw_req(&message.req);
        draw_rest(&message);
        ib_encode(&message, mad);
        ck_assert(ib_decode(&back, mad));
        /* field by field, because the bytes between them are padding */
        uint8_t again[IB_MAD_BYTES];
        ib_encode(&back, again);
        ck_assert_mem_eq(again, mad, IB_MAD_BYTES);
        ck_assert_uint_eq(back.transaction, message.transaction);
        ck_assert_uint_eq(back.local_id, message.local_id);
        ck_assert_uint_eq(back.remote_id, message.remote_id);
        ck_assert_mem_eq(back.private_data, message.private_data, ib_private((unsigned)_i));
        if (_i == IB_REQ) {
            ck_assert_uint_eq(back.req.flow_label, message.req.flow_label);
            ck_assert_uint_eq(back.req.cm_retries, message.req.cm_retries);
            ck_assert_uint_eq(back.req.transport, message.req.transport);
            ck_assert_uint_eq(back.req.retry_count, message.req.retry_count);
            ck_assert_uint_eq(back.req.ack_timeout, message.req.ack_timeout);
            ck_assert_uint_eq(back.req.srq, message.req.srq);
            ck_assert_uint_eq(back.req.flow_control, message.req.flow_control);
        }
        if (_i == IB_REJ)
            ck_assert_mem_eq(back.rej.info, message.rej.info, message.rej.info_length);
    }
}
END_TEST

/* ---- Invalid messages ---- */

static const struct {
    const uint8_t *mad;
    unsigned at;
    uint8_t value;
} wrong[] = {
    {seen_req, 0, 2},                     /* base version */
    {seen_req, 1, 4},                     /* management class */
    {seen_req, 2, 1},                     /* class version */
    {seen_req, 3, 1},                     /* method */
    {seen_req, 16, 1},                    /* attribute ID: none of these */
    {seen_req, 17, 0x0f},                 /* nor this one */
    {seen_req, 17, 0x19},                 /* an alternate path, which is not supported */
    {seen_req, 17, 0xff},                 /* far from the valid ones */
    {seen_req, HEADER + 34, 1},           /* a management queue pair */
    {seen_req, HEADER + 43, 20 << 3 | 4}, /* a transport type that does not exist */
    {seen_req, HEADER + 43, 20 << 3 | 6}, /* one that is not supported */
    {seen_req, HEADER + 50, 0x07},        /* path MTUs */
    {seen_req, HEADER + 50, 0x67},
    {seen_rep, HEADER + 14, 0},                     /* a management queue pair */
    {seen_rej, HEADER + 8, 0xc0},                   /* a REJ for an unknown message type */
    {seen_rej, HEADER + 9, (IB_INFO_MAX + 1) << 1}, /* additional information that is longer than its field */
};

START_TEST(impossible)
{
    struct ib_message message;
    static const struct ib_message nothing;
    uint8_t mad[IB_MAD_BYTES];

    memcpy(mad, wrong[_i].mad, sizeof mad);
    ck_assert(ib_decode(&message, mad));
    mad[wrong[_i].at] = wrong[_i].value;
    ck_assert(!ib_decode(&message, mad));
    ck_assert_mem_eq(&message, &nothing, sizeof message);
}
END_TEST

/* ---- Addresses ---- */

static union soft_addr address(const char *text, unsigned port)
{
    union soft_addr addr = {.in6.sin6_family = AF_INET};

    if (inet_pton(AF_INET, text, &addr.in.sin_addr) != 1) {
        addr = (union soft_addr){.in6.sin6_family = AF_INET6};
        ck_assert_int_eq(inet_pton(AF_INET6, text, &addr.in6.sin6_addr), 1);
    }
    addr.in.sin_port = htons((uint16_t)port);
    return addr;
}

START_TEST(addresses)
{
    static const char *const pairs[][2] = {{"10.1.2.3", "10.3.2.1"}, {"fd00::1", "fd00::2"}};
    union soft_addr from = address(pairs[_i][0], 1234), to = address(pairs[_i][1], 0), from_again, to_again;
    uint8_t bytes[IB_ADDRESS_BYTES];

    ib_address_encode(&from, &to, bytes);
    ck_assert(ib_address_decode(&from_again, &to_again, bytes));
    ck_assert_mem_eq(&from_again, &from, sizeof from);
    ck_assert_mem_eq(&to_again, &to, sizeof to);
    bytes[0] = 1;
    ck_assert(!ib_address_decode(&from_again, &to_again, bytes));
    bytes[0] = 0;
    bytes[1] = 0x50;
    ck_assert(!ib_address_decode(&from_again, &to_again, bytes));
}
END_TEST

START_TEST(addresses_of_no_host)
{
    static const char *const none[] = {"0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "::", "ff02::1"};
    union soft_addr no = address(none[_i], 0), from, to;
    union soft_addr yes = address(no.sa.sa_family == AF_INET ? "10.1.2.3" : "fd00::1", 5);
    uint8_t bytes[IB_ADDRESS_BYTES];

    ib_address_encode(&no, &yes, bytes);
    ck_assert(!ib_address_decode(&from, &to, bytes));
    ib_address_encode(&yes, &no, bytes);
    ck_assert(!ib_address_decode(&from, &to, bytes));
}
END_TEST

START_TEST(services)
{
    enum ib_space space;
    uint16_t port;

    ck_assert(ib_service(IB_SPACE_TCP, 0x226a) == UINT64_C(0x106226a));
    ck_assert(ib_service_port(ib_service(IB_SPACE_UDP, 65535), &space, &port));
    ck_assert_uint_eq(space, IB_SPACE_UDP);
    ck_assert_uint_eq(port, 65535);
    ck_assert(!ib_service_port(UINT64_C(0x13f226a), &space, &port));
    ck_assert(!ib_service_port(UINT64_C(0x100000106226a), &space, &port));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("InfiniBand's messages");
    TCase *tcase = new_case(suite, "messages");

    tcase_add_test(tcase, a_request_that_was_seen);
    tcase_add_test(tcase, answers_that_were_seen);
    tcase_add_test(tcase, ends_that_were_seen);
    tcase_add_loop_test(tcase, there_and_back, IB_REQ, IB_SIDR_REP + 1);
    tcase_add_loop_test(tcase, impossible, 0, sizeof wrong / sizeof *wrong);
    tcase_add_loop_test(tcase, addresses, 0, 2);
    tcase_add_loop_test(tcase, addresses_of_no_host, 0, 6);
    tcase_add_test(tcase, services);
    return run_suite(suite);
}
