/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tcp_handshake.c - how the TCP link and the connection manager share the socket of the passive side: the peer's
 * frames follow its RTU at once, and are received whether or not the application reads its event channel.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "check/support/cmpeer.h"
#include "check/support/endpoints.h"
#include "check/support/roce.h"
#include "core/base/bytes.h"
#include "core/base/settings.h"
#include "soft/link/tcp_frame.h"

enum { SIZE = 1000, PSN = 0x777, FLAGS = 23, BY_TCP = 32, MOMENT_MS = 10, MOMENTS = 1000 };

static struct cmside side;
static int far; /* the peer's end of the connection */
static struct said rep;
static uint8_t payload[SIZE], memory[SIZE], stream[SIZE + 200];
static struct ibv_mr *region;

/* The device has accepted, with a receive posted, and its REP has been read. */
static void setup(void)
{
    struct said req = said(SAID_REQ);
    struct ibv_sge sge = {(uintptr_t)memory, SIZE, 0};
    struct ibv_recv_wr receive = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;

    ck_assert_int_eq(setenv("EXS_LINK", "tcp", 1), 0);
    settings_read(NULL);
    for (size_t i = 0; i < SIZE; i++)
        payload[i] = (uint8_t)(i * 31 + 7);
    req.bytes[FLAGS] |= BY_TCP;
    cmside_listen(&side);
    far = stranger_dial(&side);
    stranger_says(far, &req);
    cmside_expect(&side, RDMA_CM_EVENT_CONNECT_REQUEST);
    ck_assert_int_eq(cmside_accept(&side), 0);
    region = soft_reg_mr(side.pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE);
    ck_assert_ptr_nonnull(region);
    sge.lkey = region->lkey;
    ck_assert_int_eq(ibv_post_recv(side.id->qp, &receive, &bad), 0);
    rep = stranger_hears(&side, far, SAID_REP);
    ck_assert_int_ne(rep.bytes[FLAGS] & BY_TCP, 0);
}

static void teardown(void)
{
    soft_destroy_id_qp(side.id);
    ck_assert_int_eq(soft_dereg_mr(region), 0);
    cmside_close(&side);
    close(far);
}

/* Stores the peer's RTU and `packets` messages. Returns their length. */
static size_t write_stream(int packets)
{
    struct said rtu = said(SAID_RTU);
    struct roce roce = {.opcode = SEND_ONLY,
                        .psn = get32(rep.bytes + 12),
                        .qpn = get32(rep.bytes + 8),
                        .migreq = true,
                        .ackreq = true,
                        .pkey = 0xffff,
                        .payload = payload,
                        .payload_length = SIZE};
    uint8_t *frame = stream + rtu.size;
    size_t length;

    memcpy(stream, rtu.bytes, rtu.size);
    if (packets == 0)
        return rtu.size;
    length = roce_write(frame + TCP_FRAME_HEADER, &roce);
    put32(frame, UINT32_C(1) << 24 | (uint32_t)length);
    put32(frame + 4, 0);
    return rtu.size + TCP_FRAME_HEADER + length;
}

/* The application only polls its completion queue, until a completion is found. */
static void expect_message(void)
{
    struct ibv_wc wc;
    int found = 0;

    for (int moment = 0; moment < MOMENTS && found == 0; moment++) {
        found = ibv_poll_cq(side.id->recv_cq, 1, &wc);
        if (found == 0)
            ck_assert_int_ge(poll(NULL, 0, MOMENT_MS), 0);
    }
    ck_assert_int_eq(found, 1);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(memory, payload, SIZE);
}

START_TEST(message_before_the_event_channel_is_looked_at)
{
    struct pollfd channel = {.fd = side.channel->fd, .events = POLLIN};

    stranger_says_bytes(far, stream, write_stream(1));
    expect_message();
    ck_assert_int_eq(poll(&channel, 1, 0), 1);
    cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
    ck_assert_int_eq(poll(&channel, 1, 0), 0);
}
END_TEST

START_TEST(message_says_that_the_peer_is_ready)
{
    stranger_says_bytes(far, stream, write_stream(1));
    expect_message();
    ck_assert_int_eq(soft_notify(side.id, IBV_EVENT_COMM_EST), 0);
    cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
    ck_assert_int_eq(soft_notify(side.id, IBV_EVENT_COMM_EST), 0);
    cmside_quiet(&side);
}
END_TEST

START_TEST(rtu_and_message_come_byte_by_byte)
{
    size_t length = write_stream(1);

    for (size_t i = 0; i < length; i++) {
        struct ibv_wc wc;

        stranger_says_bytes(far, stream + i, 1);
        if (i < length - 4)
            ck_assert_int_eq(ibv_poll_cq(side.id->recv_cq, 1, &wc), 0);
        if (i == 6)
            cmside_quiet(&side);
    }
    expect_message();
    cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
}
END_TEST

/* The identifier moves to another channel before or after the link has received the RTU. */
START_TEST(identifier_moves)
{
    struct rdma_event_channel *former = side.channel, *other = soft_create_event_channel();
    bool is_received_before = _i == 1;

    ck_assert_int_ne(fcntl(other->fd, F_SETFL, O_NONBLOCK), -1);
    if (is_received_before) {
        stranger_says_bytes(far, stream, write_stream(1));
        expect_message();
    }
    ck_assert_int_eq(soft_migrate_id(side.id, other), 0);
    side.channel = other;
    if (!is_received_before) {
        stranger_says_bytes(far, stream, write_stream(1));
        expect_message();
    }
    cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
    ck_assert_int_eq(soft_migrate_id(side.id, former), 0);
    side.channel = former;
    cmside_quiet(&side);
    soft_destroy_event_channel(other);
}
END_TEST

/* Everything that the peer sends has arrived before the application reads an event. */
START_TEST(whole_connection_before_the_event_channel_is_looked_at)
{
    static const uint8_t dreq[TCP_FRAME_HEADER] = {TCP_FRAME_DREQ};

    stranger_says_bytes(far, stream, write_stream(1));
    stranger_says_bytes(far, dreq, sizeof dreq);
    ck_assert_int_eq(shutdown(far, SHUT_WR), 0);
    cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
    cmside_expect(&side, RDMA_CM_EVENT_DISCONNECTED);
    expect_message();
    ck_assert_int_eq(qp_state(side.id->qp), IBV_QPS_RTS);
}
END_TEST

/* Streams that start with an RTU's first byte or with something else. */
static const uint8_t wrong[][TCP_FRAME_HEADER] = {
    {0xe8, 'E', 'X', 'S', 1, 5, 0, 8}, /* a DREQ of the connection manager */
    {TCP_FRAME_DREQ},
    {'G', 'E', 'T', ' ', '/', ' ', 'H', 'T'},
};

START_TEST(something_else_in_place_of_an_rtu)
{
    stranger_says_bytes(far, wrong[_i], sizeof wrong[_i]);
    ck_assert_int_eq(cmside_expect(&side, RDMA_CM_EVENT_CONNECT_ERROR).status, -EPROTO);
    ck_assert_int_eq(qp_state(side.id->qp), IBV_QPS_ERR);
}
END_TEST

START_TEST(stream_ends_before_or_within_an_rtu)
{
    stranger_says_bytes(far, stream, write_stream(0) - (_i == 0 ? TCP_FRAME_HEADER : 1));
    ck_assert_int_eq(shutdown(far, SHUT_WR), 0);
    ck_assert_int_eq(cmside_expect(&side, RDMA_CM_EVENT_UNREACHABLE).status, -ECONNRESET);
    ck_assert_int_eq(qp_state(side.id->qp), IBV_QPS_ERR);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tcp handshake");
    TCase *accepting = new_case(suite, "accepting");

    tcase_add_checked_fixture(accepting, setup, teardown);
    tcase_set_timeout(accepting, 60);
    tcase_add_test(accepting, message_before_the_event_channel_is_looked_at);
    tcase_add_test(accepting, message_says_that_the_peer_is_ready);
    tcase_add_test(accepting, rtu_and_message_come_byte_by_byte);
    tcase_add_loop_test(accepting, identifier_moves, 0, 2);
    tcase_add_test(accepting, whole_connection_before_the_event_channel_is_looked_at);
    tcase_add_loop_test(accepting, something_else_in_place_of_an_rtu, 0, sizeof wrong / sizeof *wrong);
    tcase_add_loop_test(accepting, stream_ends_before_or_within_an_rtu, 0, 2);
    return run_suite(suite);
}
