/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_handshake_order.c - valid messages of the connection manager (over TCP) in the wrong state, streams that end
 * early, and too many half-open connections. Each closes only its own connection, and the application gets one event if
 * it knows of the connection.
 */
#include <errno.h>
#include <string.h>
#include <poll.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "check/support/cmpeer.h"
#include "check/support/endpoints.h"

#define REP_PRIVATE 196
#define REJ_PRIVATE 148
#define HALF_OPEN_MAX 256 /* the limit where a process may have 1,024 descriptors */
#define WAIT_S 10

static struct soft_cm_counters counters(void)
{
    struct soft_cm_counters counters;

    soft_query_cm_counters(&counters);
    return counters;
}

/* ---- Messages in the wrong state ---- */

static int asked(struct cmside *side)
{
    struct said message = said(SAID_REQ);
    int fd;

    cmside_listen(side);
    fd = stranger_dial(side);
    stranger_says(fd, &message);
    cmside_expect(side, RDMA_CM_EVENT_CONNECT_REQUEST);
    return fd;
}

/* A message before the REP is an error. The application learns of it when it calls rdma_accept(). */
START_TEST(before_the_reply)
{
    struct said message = said((enum said_type)_i);
    struct cmside side;
    int fd = asked(&side);

    stranger_says(fd, &message);
    stranger_is_dropped(&side, fd);
    ck_assert_int_eq(cmside_accept(&side), -1);
    ck_assert_int_eq(errno, ECONNRESET);
    cmside_close(&side);
}
END_TEST

static void expect_no_establishment(const struct said *message)
{
    struct cmside side;
    struct told told;
    int fd = asked(&side);

    ck_assert_int_eq(cmside_accept(&side), 0);
    stranger_hears(&side, fd, SAID_REP);
    stranger_says(fd, message);
    told = cmside_expect(&side, RDMA_CM_EVENT_CONNECT_ERROR);
    ck_assert_int_eq(told.status, -EPROTO);
    ck_assert_uint_eq(told.conn.private_data_len, 0);
    ck_assert_int_eq(qp_state(side.id->qp), IBV_QPS_ERR);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}

/* Another message than RTU, or an invalid one, after the REP. */
START_TEST(after_the_reply)
{
    static const enum said_type types[] = {SAID_REQ, SAID_REP, SAID_REJ, SAID_DREQ};
    struct said message = said(types[_i]);

    expect_no_establishment(&message);
}
END_TEST

START_TEST(impossible_after_the_reply)
{
    struct said message = said_damaged(SAID_REP, &said_damage[_i]);

    memset(message.bytes + 28, 0x41, REP_PRIVATE);
    expect_no_establishment(&message);
}
END_TEST

START_TEST(impossible_reject_after_the_reply)
{
    struct said message = said(SAID_REJ);

    said_put(&message, 10, 1, 255);
    memset(message.bytes + 12, 0x41, REJ_PRIVATE);
    expect_no_establishment(&message);
}
END_TEST

/* Any message on an established connection ends it. */
START_TEST(after_the_establishment)
{
    struct said rtu = said(SAID_RTU), message = said((enum said_type)_i);
    struct cmside side;
    int fd = asked(&side);

    ck_assert_int_eq(cmside_accept(&side), 0);
    stranger_hears(&side, fd, SAID_REP);
    stranger_says(fd, &rtu);
    stranger_says(fd, &message);
    cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
    ck_assert_int_eq(cmside_expect(&side, RDMA_CM_EVENT_DISCONNECTED).status, 0);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}
END_TEST

START_TEST(after_our_establishment)
{
    struct said rep = said(SAID_REP), message = said((enum said_type)_i), req;
    struct cmside side;
    int fd = cmside_connect(&side, &req);

    stranger_says(fd, &rep);
    stranger_says(fd, &message);
    cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
    stranger_hears(&side, fd, SAID_RTU);
    ck_assert_int_eq(cmside_expect(&side, RDMA_CM_EVENT_DISCONNECTED).status, 0);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}
END_TEST

/* ---- Streams that end early ---- */

START_TEST(cut_request)
{
    struct said message = said(SAID_REQ);
    struct cmside side;

    cmside_listen(&side);
    for (size_t length = 0; length < message.size; length++) {
        uint64_t before = counters().hung_up;
        int fd = stranger_dial(&side);

        stranger_says_bytes(fd, message.bytes, length);
        shutdown(fd, SHUT_WR);
        stranger_is_dropped(&side, fd);
        ck_assert_uint_eq(counters().hung_up, before + 1);
    }
    cmside_close(&side);
}
END_TEST

static void expect_cut_reply(size_t length)
{
    struct said message = said(SAID_REP), req;
    struct cmside side;
    int fd = cmside_connect(&side, &req);
    struct told told;

    stranger_says_bytes(fd, message.bytes, length);
    shutdown(fd, SHUT_WR);
    told = cmside_expect(&side, RDMA_CM_EVENT_UNREACHABLE);
    ck_assert_int_eq(told.status, -ECONNRESET);
    ck_assert_uint_eq(told.conn.private_data_len, 0);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}

START_TEST(cut_reply)
{
    for (size_t length = 0; length < 224; length += 1 + length / 8)
        expect_cut_reply(length);
}
END_TEST

START_TEST(in_single_bytes)
{
    struct said message = said(SAID_REQ);
    struct cmside side;
    int fd;

    cmside_listen(&side);
    fd = stranger_dial(&side);
    for (size_t i = 0; i < message.size; i++) {
        stranger_says_bytes(fd, message.bytes + i, 1);
        if (i + 1 < message.size)
            cmside_quiet(&side);
    }
    cmside_expect(&side, RDMA_CM_EVENT_CONNECT_REQUEST);
    close(fd);
    cmside_close(&side);
}
END_TEST

/* ---- Too many connections ---- */

/* Drives the device until it has closed this number of half-open connections to make room for others. */
static void drive_until_dropped(struct cmside *side, unsigned count)
{
    for (int tenths = 0; tenths < 10 * WAIT_S && counters().half_open_dropped < count; tenths++) {
        cmside_quiet(side);
        poll(&(struct pollfd){.fd = side->channel->fd, .events = POLLIN}, 1, 100);
    }
    ck_assert_uint_eq(counters().half_open_dropped, count);
}

/* HALF_OPEN_MAX connections may be idle at once. The next one waits, and then replaces the oldest, and only that. */
START_TEST(half_open_connections)
{
    struct said message = said(SAID_REQ);
    struct cmside side;
    int fds[HALF_OPEN_MAX + 1];

    cmside_listen(&side);
    for (int i = 0; i < HALF_OPEN_MAX; i++) {
        fds[i] = stranger_dial(&side);
        cmside_quiet(&side);
    }
    ck_assert_uint_eq(counters().accepted, HALF_OPEN_MAX);
    ck_assert_uint_eq(counters().half_open_dropped, 0);
    fds[HALF_OPEN_MAX] = stranger_dial(&side);
    drive_until_dropped(&side, 1);
    stranger_is_dropped(&side, fds[0]);
    for (int i = 1; i <= HALF_OPEN_MAX; i++)
        ck_assert(stranger_is_there(fds[i]));
    stranger_says(fds[1], &message);
    cmside_expect(&side, RDMA_CM_EVENT_CONNECT_REQUEST);
    for (int i = 1; i <= HALF_OPEN_MAX; i++)
        close(fds[i]);
    cmside_close(&side);
}
END_TEST

/* A connection whose request waits to be read does not count as half open: the oldest idle one is closed. */
START_TEST(requests_stay)
{
    struct said message = said(SAID_REQ);
    struct cmside side;
    int request, fds[HALF_OPEN_MAX + 1];

    cmside_listen(&side);
    request = stranger_dial(&side);
    stranger_says(request, &message);
    for (int i = 0; i <= HALF_OPEN_MAX; i++)
        fds[i] = stranger_dial(&side);
    cmside_expect(&side, RDMA_CM_EVENT_CONNECT_REQUEST);
    drive_until_dropped(&side, 1);
    ck_assert_uint_eq(counters().accepted, HALF_OPEN_MAX + 2);
    ck_assert(stranger_is_there(request));
    stranger_is_dropped(&side, fds[0]);
    for (int i = 1; i <= HALF_OPEN_MAX; i++)
        close(fds[i]);
    close(request);
    cmside_close(&side);
}
END_TEST

/* Clients connect at the same time and send their requests a little later: those beyond the limit wait, and none is
 * closed. */
START_TEST(all_at_once)
{
    struct said message = said(SAID_REQ);
    struct cmside side;
    int fds[HALF_OPEN_MAX + 100];
    const int count = sizeof fds / sizeof *fds;

    cmside_listen(&side);
    for (int i = 0; i < count; i++)
        fds[i] = stranger_dial(&side);
    cmside_quiet(&side);
    ck_assert_uint_eq(counters().accepted, HALF_OPEN_MAX);
    for (int i = 0; i < count; i++)
        stranger_says(fds[i], &message);
    for (int i = 0; i < count; i++) {
        cmside_expect(&side, RDMA_CM_EVENT_CONNECT_REQUEST);
        soft_destroy_id(side.id);
        side.id = NULL;
    }
    ck_assert_uint_eq(counters().half_open_dropped, 0);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    cmside_close(&side);
}
END_TEST

static int dial_from(const struct cmside *side, in_addr_t host)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&side->address, sizeof side->address), 0);
    return fd;
}

/* A host that opens connections without end displaces its own, not the one of another host, which is the oldest. */
START_TEST(a_flood_displaces_its_own)
{
    struct cmside side;
    int other, fds[3 * HALF_OPEN_MAX];
    const int count = sizeof fds / sizeof *fds, rlimit = 2 * (1 + count) + 100;

    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)rlimit, (rlim_t)rlimit}), 0);
    cmside_listen(&side);
    other = dial_from(&side, INADDR_LOOPBACK + 1);
    cmside_quiet(&side);
    for (int i = 0; i < count; i++)
        fds[i] = stranger_dial(&side);
    drive_until_dropped(&side, 1 + (unsigned)count - HALF_OPEN_MAX);
    ck_assert(stranger_is_there(other));
    ck_assert(stranger_is_there(fds[count - 1]));
    stranger_is_dropped(&side, fds[0]);
    for (int i = 1; i < count; i++)
        close(fds[i]);
    close(other);
    cmside_close(&side);
}
END_TEST

/* A connection whose request has arrived is no longer half open, and does not count against the limit. */
START_TEST(complete_requests_make_room)
{
    struct said message = said(SAID_REQ);
    struct cmside side;
    int silent;

    cmside_listen(&side);
    silent = stranger_dial(&side);
    for (int i = 0; i <= HALF_OPEN_MAX; i++) {
        int fd = stranger_dial(&side);

        stranger_says(fd, &message);
        cmside_expect(&side, RDMA_CM_EVENT_CONNECT_REQUEST);
        soft_destroy_id(side.id);
        side.id = NULL;
        close(fd);
    }
    ck_assert_uint_eq(counters().half_open_dropped, 0);
    ck_assert(stranger_is_there(silent));
    close(silent);
    cmside_close(&side);
}
END_TEST

/* The peer closes before the application reads its event: no event is delivered. */
START_TEST(gone_before_the_event)
{
    struct said message = said(SAID_REQ);
    struct cmside side;
    int fd;

    cmside_listen(&side);
    fd = stranger_dial(&side);
    stranger_says(fd, &message);
    close(fd);
    cmside_quiet(&side);
    ck_assert_uint_eq(counters().requests, 1);
    cmside_close(&side);
}
END_TEST

static TCase *add_order_case(Suite *suite, const char *name)
{
    TCase *tcase = new_case(suite, name);

    tcase_set_timeout(tcase, 60);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("handshake order");
    struct rlimit limit;
    TCase *times = add_order_case(suite, "times"), *streams = add_order_case(suite, "streams");

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 1024;
    setrlimit(RLIMIT_NOFILE, &limit);
    tcase_add_loop_test(times, before_the_reply, SAID_REQ, SAID_DREQ + 1);
    tcase_add_loop_test(times, after_the_reply, 0, 4);
    tcase_add_loop_test(times, impossible_after_the_reply, 0, said_damages);
    tcase_add_test(times, impossible_reject_after_the_reply);
    tcase_add_loop_test(times, after_the_establishment, SAID_REQ, SAID_DREQ + 1);
    tcase_add_loop_test(times, after_our_establishment, SAID_REQ, SAID_DREQ + 1);
    tcase_add_test(streams, cut_request);
    tcase_add_test(streams, cut_reply);
    tcase_add_test(streams, in_single_bytes);
    tcase_add_test(streams, half_open_connections);
    tcase_add_test(streams, requests_stay);
    tcase_add_test(streams, all_at_once);
    tcase_add_test(streams, a_flood_displaces_its_own);
    tcase_add_test(streams, complete_requests_make_room);
    tcase_add_test(streams, gone_before_the_event);
    return run_suite(suite);
}
