/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_handshake.c - messages of the connection manager (over TCP) with invalid contents: numbers out of range, wrong
 * lengths, other versions. The connection of such a message is closed, and its contents have no effect.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include "check/support/cmpeer.h"
#include "check/support/endpoints.h"
#include "core/base/clock.h"
#include "soft/cm/cm_id.h"

#define REQ_PRIVATE 56
#define REP_PRIVATE 196
#define REJ_PRIVATE 148
#define OTHER_VERSION 0x8001 /* a REJ's reason */

static int route_mtu; /* the path MTU of every route; 0: what the kernel reports */

/* Replaces the C library's function in this program. */
int getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    long result = syscall(SYS_getsockopt, fd, level, option, value, length);

    if (result == 0 && route_mtu != 0 && level == IPPROTO_IP && option == IP_MTU)
        memcpy(value, &route_mtu, sizeof route_mtu);
    return (int)result;
}

static struct soft_cm_counters counters(void)
{
    struct soft_cm_counters counters;

    soft_query_cm_counters(&counters);
    return counters;
}

/* ---- Invalid contents ---- */

static void expect_no_request(const struct said *message)
{
    uint64_t malformed = counters().refused_malformed;
    struct cmside side;
    int fd;

    cmside_listen(&side);
    fd = stranger_dial(&side);
    stranger_says(fd, message);
    stranger_is_dropped(&side, fd);
    ck_assert_uint_eq(counters().refused_malformed, malformed + 1);
    cmside_close(&side);
}

START_TEST(impossible_request)
{
    struct said message = said_damaged(SAID_REQ, &said_damage[_i]);

    expect_no_request(&message);
}
END_TEST

START_TEST(request_with_long_private_data)
{
    struct said message = said(SAID_REQ);

    said_put(&message, 24, 1, REQ_PRIVATE + 1);
    expect_no_request(&message);
}
END_TEST

START_TEST(not_a_request)
{
    struct said message = said((enum said_type)_i);

    expect_no_request(&message);
}
END_TEST

/* A SIDR_REQ at a listener of RDMA_PS_TCP is rejected with the reason "invalid service ID". */
START_TEST(question_about_datagrams)
{
    struct said message = said(SAID_SIDR_REQ), rej;
    struct cmside side;
    int fd;

    cmside_listen(&side);
    fd = stranger_dial(&side);
    stranger_says(fd, &message);
    rej = stranger_hears(&side, fd, SAID_REJ);
    ck_assert_uint_eq((unsigned)rej.bytes[8] << 8 | rej.bytes[9], 8);
    ck_assert_uint_eq(counters().refused_malformed, 1);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}
END_TEST

/* A REQ for an unreliable or extended connection, for an unknown transport type, or for RDMA_PS_IB is rejected with the
 * reason. */
START_TEST(request_for_another_kind)
{
    static const struct {
        size_t at;
        uint8_t value, reason;
    } rows[] = {{25, 1, 28}, {25, 3, 28}, {25, 255, 28}, {26, 1, 8}};
    struct said message = said(SAID_REQ), rej;
    struct cmside side;
    int fd;

    said_put(&message, rows[_i].at, 1, rows[_i].value);
    cmside_listen(&side);
    fd = stranger_dial(&side);
    stranger_says(fd, &message);
    rej = stranger_hears(&side, fd, SAID_REJ);
    ck_assert_uint_eq((unsigned)rej.bytes[8] << 8 | rej.bytes[9], rows[_i].reason);
    ck_assert_uint_eq(counters().requests, 0);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}
END_TEST

/* The REQ for a reliable connection of RDMA_PS_TCP is the same as in earlier versions. */
START_TEST(kind_that_is_asked_for)
{
    struct said req;
    struct cmside side;
    int fd = cmside_connect(&side, &req);

    ck_assert_mem_eq(req.bytes + 25, "\0\0\0", 3);
    close(fd);
    cmside_expect(&side, RDMA_CM_EVENT_UNREACHABLE);
    cmside_close(&side);
}
END_TEST

/* ---- When the channel's timer is set ---- */

static uint64_t due(const struct cmside *side)
{
    return ((struct cm_channel *)side->channel)->waits.wakefd.at;
}

/* The timer is set only while a timeout runs. Otherwise the channel's descriptor would become readable, and the program
 * would wait for an event that does not come. */
START_TEST(nothing_is_due)
{
    struct said req = said(SAID_REQ), rtu = said(SAID_RTU);
    struct cmside side;
    int fd;

    cmside_listen(&side);
    ck_assert_uint_eq(due(&side), NEVER_NS);
    fd = stranger_dial(&side);
    stranger_says_bytes(fd, req.bytes, req.size - 1);
    cmside_quiet(&side);
    ck_assert_uint_ne(due(&side), NEVER_NS);
    stranger_says_bytes(fd, req.bytes + req.size - 1, 1);
    cmside_expect(&side, RDMA_CM_EVENT_CONNECT_REQUEST);
    ck_assert_uint_eq(due(&side), NEVER_NS);
    ck_assert_int_eq(cmside_accept(&side), 0);
    ck_assert_uint_ne(due(&side), NEVER_NS);
    stranger_hears(&side, fd, SAID_REP);
    stranger_says(fd, &rtu);
    cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
    ck_assert_uint_eq(due(&side), NEVER_NS);
    close(fd);
    cmside_expect(&side, RDMA_CM_EVENT_DISCONNECTED);
    cmside_close(&side);
}
END_TEST

/* A message of unknown type whose length is 0 must not be waited for. */
START_TEST(unknown_type_without_size)
{
    static const uint8_t types[] = {0, 8, 255};
    struct said message = said(SAID_REQ);

    message.bytes[5] = types[_i];
    said_put(&message, 6, 2, 0);
    expect_no_request(&message);
}
END_TEST

/* A change of any byte of the magic number: the connection is closed without an answer, and counted in
 * refused_magic. */
START_TEST(not_our_magic)
{
    struct said message = said(SAID_REQ);
    struct soft_cm_counters before = counters(), after;
    struct cmside side;
    int fd;

    message.bytes[_i] ^= 0x20;
    cmside_listen(&side);
    fd = stranger_dial(&side);
    stranger_says(fd, &message);
    stranger_is_dropped(&side, fd);
    after = counters();
    ck_assert_uint_eq(after.refused_magic, before.refused_magic + 1);
    ck_assert_uint_eq(after.refused_malformed + after.refused_version, 0);
    cmside_close(&side);
}
END_TEST

/* A REQ of another version is answered with a REJ, whose format is the same in every version. */
START_TEST(request_of_another_version)
{
    struct said message = said(SAID_REQ), rej;
    struct cmside side;
    int fd;

    message.bytes[4] = (uint8_t)_i;
    cmside_listen(&side);
    fd = stranger_dial(&side);
    stranger_says(fd, &message);
    rej = stranger_hears(&side, fd, SAID_REJ);
    ck_assert_uint_eq((unsigned)rej.bytes[8] << 8 | rej.bytes[9], OTHER_VERSION);
    ck_assert_uint_eq(counters().refused_version, 1);
    ck_assert_uint_eq(counters().refused_malformed, 0);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}
END_TEST

/* The smallest and the largest valid values are accepted, and the REP contains no larger MTU than the REQ. */
START_TEST(extreme_request)
{
    static const struct damage extremes[][4] = {
        {{"least", 8, 4, 2}, {"", 12, 4, 0}, {"", 16, 2, 1}, {"", 18, 4, 0x01000000}},
        {{"most", 8, 4, 0xfffffe}, {"", 12, 4, 0xffffff}, {"", 16, 2, 65535}, {"", 18, 4, 0x05ffff07}},
    };
    struct said message = said(SAID_REQ), rep;
    struct cmside side;
    struct told told;
    int fd;

    for (int i = 0; i < 4; i++)
        said_put(&message, extremes[_i][i].at, extremes[_i][i].width, extremes[_i][i].value);
    said_put(&message, 24, 1, REQ_PRIVATE);
    memset(message.bytes + 28, 0x5a, REQ_PRIVATE);
    cmside_listen(&side);
    fd = stranger_dial(&side);
    stranger_says(fd, &message);
    told = cmside_expect(&side, RDMA_CM_EVENT_CONNECT_REQUEST);
    ck_assert_uint_eq(told.conn.qp_num, extremes[_i][0].value);
    ck_assert_uint_eq(told.conn.private_data_len, REQ_PRIVATE);
    expect_byte(told.private_data, REQ_PRIVATE, 0x5a);
    ck_assert_int_eq(cmside_accept(&side), 0);
    rep = stranger_hears(&side, fd, SAID_REP);
    ck_assert_uint_eq(rep.bytes[18], _i ? IBV_MTU_4096 : IBV_MTU_256); /* no larger than in the REQ */
    message = said(SAID_RTU);
    stranger_says(fd, &message);
    cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
    ck_assert_int_eq(qp_state(side.id->qp), IBV_QPS_RTS);
    close(fd);
    cmside_expect(&side, RDMA_CM_EVENT_DISCONNECTED);
    cmside_close(&side);
}
END_TEST

/* ---- Invalid answers to the device's own REQ ---- */

static void expect_no_connection(const struct said *answer)
{
    struct cmside side;
    struct said req;
    int fd = cmside_connect(&side, &req);
    struct told told;

    stranger_says(fd, answer);
    told = cmside_expect(&side, RDMA_CM_EVENT_CONNECT_ERROR);
    ck_assert_int_eq(told.status, -EPROTO);
    ck_assert_uint_eq(told.conn.private_data_len, 0);
    ck_assert_int_eq(qp_state(side.id->qp), IBV_QPS_ERR);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}

START_TEST(impossible_reply)
{
    struct said message = said_damaged(SAID_REP, &said_damage[_i]);

    expect_no_connection(&message);
}
END_TEST

START_TEST(reply_with_long_private_data)
{
    struct said message = said(SAID_REP);

    said_put(&message, 24, 1, REP_PRIVATE + 1);
    expect_no_connection(&message);
}
END_TEST

START_TEST(not_a_reply)
{
    static const enum said_type types[] = {SAID_REQ, SAID_RTU, SAID_DREQ, SAID_SIDR_REP};
    struct said message = said(types[_i]);

    expect_no_connection(&message);
}
END_TEST

START_TEST(impossible_reject)
{
    static const struct damage rejects[] = {
        {"private data too long", 10, 1, REJ_PRIVATE + 1},
        {"private data of 255 bytes", 10, 1, 255},
        {"no reason", 8, 2, 0},
        {"a size of 161", 6, 2, 161},
    };
    struct said message = said_damaged(SAID_REJ, &rejects[_i]);

    expect_no_connection(&message);
}
END_TEST

START_TEST(longest_reject)
{
    struct said message = said(SAID_REJ), req;
    struct cmside side;
    struct told told;
    int fd = cmside_connect(&side, &req);

    said_put(&message, 10, 1, REJ_PRIVATE);
    memset(message.bytes + 12, 0x5a, REJ_PRIVATE);
    stranger_says(fd, &message);
    told = cmside_expect(&side, RDMA_CM_EVENT_REJECTED);
    ck_assert_int_eq(told.status, 28);
    ck_assert_uint_eq(told.conn.private_data_len, REJ_PRIVATE);
    expect_byte(told.private_data, REJ_PRIVATE, 0x5a);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}
END_TEST

START_TEST(longest_reply)
{
    struct said message = said(SAID_REP), req;
    struct cmside side;
    struct told told;
    int fd = cmside_connect(&side, &req);

    said_put(&message, 18, 1, req.bytes[18]);
    said_put(&message, 24, 1, REP_PRIVATE);
    memset(message.bytes + 28, 0x5a, REP_PRIVATE);
    stranger_says(fd, &message);
    told = cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
    ck_assert_uint_eq(told.conn.private_data_len, REP_PRIVATE);
    expect_byte(told.private_data, REP_PRIVATE, 0x5a);
    close(fd);
    cmside_expect(&side, RDMA_CM_EVENT_DISCONNECTED);
    cmside_close(&side);
}
END_TEST

/* An answer of another version, or a REJ for the version, is the status of the REJECTED event. */
START_TEST(answer_of_another_version)
{
    static const struct {
        uint8_t version;
        enum said_type type;
        uint32_t reason;
        int status;
    } answers[] = {
        {2, SAID_REP, 0, -EPROTONOSUPPORT},
        {1, SAID_REJ, OTHER_VERSION, -EPROTONOSUPPORT},
        {2, SAID_REJ, OTHER_VERSION, -EPROTONOSUPPORT},
        {2, SAID_REJ, 28, 28},
    };
    struct said message = said(answers[_i].type), req;
    struct cmside side;
    int fd = cmside_connect(&side, &req);

    message.bytes[4] = answers[_i].version;
    if (answers[_i].type == SAID_REJ)
        said_put(&message, 8, 2, answers[_i].reason);
    stranger_says(fd, &message);
    ck_assert_int_eq(cmside_expect(&side, RDMA_CM_EVENT_REJECTED).status, answers[_i].status);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}
END_TEST

/* The REQ's MTU is a maximum: a REP may have the same MTU or a smaller one. */
START_TEST(reply_with_larger_mtu)
{
    struct said message = said(SAID_REP), req;
    struct cmside side;
    int fd;

    route_mtu = 1500;
    fd = cmside_connect(&side, &req);
    ck_assert_uint_eq(req.bytes[18], IBV_MTU_1024);
    said_put(&message, 18, 1, (uint32_t)_i);
    stranger_says(fd, &message);
    if (_i > IBV_MTU_1024) {
        ck_assert_int_eq(cmside_expect(&side, RDMA_CM_EVENT_CONNECT_ERROR).status, -EPROTO);
        stranger_is_dropped(&side, fd);
    } else {
        struct ibv_qp_init_attr init;
        struct ibv_qp_attr attr;

        cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
        ck_assert_int_eq(soft_query_qp(side.id->qp, &attr, IBV_QP_PATH_MTU, &init), 0);
        ck_assert_int_eq(attr.path_mtu, _i);
        close(fd);
        cmside_expect(&side, RDMA_CM_EVENT_DISCONNECTED);
    }
    cmside_close(&side);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handshake");
    TCase *contents = new_case(suite, "contents");

    tcase_set_timeout(contents, 60);
    tcase_add_loop_test(contents, impossible_request, 0, said_damages);
    tcase_add_test(contents, request_with_long_private_data);
    tcase_add_loop_test(contents, not_a_request, SAID_REP, SAID_DREQ + 1);
    tcase_add_test(contents, question_about_datagrams);
    tcase_add_loop_test(contents, request_for_another_kind, 0, 4);
    tcase_add_test(contents, kind_that_is_asked_for);
    tcase_add_test(contents, nothing_is_due);
    tcase_add_loop_test(contents, unknown_type_without_size, 0, 3);
    tcase_add_loop_test(contents, not_our_magic, 0, 4);
    tcase_add_loop_test(contents, request_of_another_version, 2, 4);
    tcase_add_loop_test(contents, extreme_request, 0, 2);
    tcase_add_loop_test(contents, impossible_reply, 0, said_damages);
    tcase_add_test(contents, reply_with_long_private_data);
    tcase_add_loop_test(contents, not_a_reply, 0, 4);
    tcase_add_loop_test(contents, impossible_reject, 0, 4);
    tcase_add_test(contents, longest_reject);
    tcase_add_test(contents, longest_reply);
    tcase_add_loop_test(contents, answer_of_another_version, 0, 4);
    tcase_add_loop_test(contents, reply_with_larger_mtu, IBV_MTU_256, IBV_MTU_4096 + 1);
    return run_suite(suite);
}
