/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_handshake_receipt.c - a listener acknowledges a request before its application answers. A client therefore waits
 * long for an application, and only as long as for TCP if a server accepts the TCP connection and sends nothing.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "check/support/cmpeer.h"
#include "check/support/endpoints.h"
#include "core/base/clock.h"
#include "soft/cm/cm_id.h"

#define FLAGS 23 /* offset in a REQ */
#define FLAG_MRA 64

static enum cm_timeout timeout_of(const struct cmside *side)
{
    return ((struct cm_id *)(void *)side->id)->timeout;
}

/* Lets the timer that runs expire now. */
static void expire(struct cmside *side)
{
    struct cm_id *id = (struct cm_id *)(void *)side->id;
    struct cm_channel *channel = cm_lock(id);

    id->deadline = now_ns();
    waitset_time(&channel->waits, id->deadline);
    cm_unlock(channel);
}

/* ---- The listener ---- */

/* A client of EXS 2.1 does not set the flag, and would not understand the message. */
START_TEST(listener_acknowledges)
{
    struct said req = said(SAID_REQ), rtu = said(SAID_RTU);
    struct cmside side;
    int fd;

    if (_i)
        said_put(&req, FLAGS, 1, FLAG_MRA);
    cmside_listen(&side);
    fd = stranger_dial(&side);
    stranger_says(fd, &req);
    cmside_expect(&side, RDMA_CM_EVENT_CONNECT_REQUEST);
    if (_i)
        stranger_hears(&side, fd, SAID_MRA);
    ck_assert_int_eq(cmside_accept(&side), 0);
    stranger_hears(&side, fd, SAID_REP);
    stranger_says(fd, &rtu);
    cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
    close(fd);
    cmside_expect(&side, RDMA_CM_EVENT_DISCONNECTED);
    cmside_close(&side);
}
END_TEST

/* ---- The client ---- */

START_TEST(silent_server_is_given_up)
{
    struct said req;
    struct cmside side;
    int fd = cmside_connect(&side, &req);

    ck_assert_uint_eq(req.bytes[FLAGS] & FLAG_MRA, FLAG_MRA);
    ck_assert_int_eq(timeout_of(&side), CM_TIMEOUT_TCP);
    expire(&side);
    ck_assert_int_eq(cmside_expect(&side, RDMA_CM_EVENT_UNREACHABLE).status, -ETIMEDOUT);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}
END_TEST

/* The acknowledgement and the reply arrive separately or together. */
START_TEST(application_gets_time)
{
    struct said mra = said(SAID_MRA), rep = said(SAID_REP), req;
    struct cmside side;
    int fd = cmside_connect(&side, &req);
    uint8_t both[SAID_MAX];

    said_put(&rep, 18, 1, req.bytes[18]);
    if (_i) {
        memcpy(both, mra.bytes, mra.size);
        memcpy(both + mra.size, rep.bytes, rep.size);
        stranger_says_bytes(fd, both, mra.size + rep.size);
    } else {
        stranger_says(fd, &mra);
        while (timeout_of(&side) == CM_TIMEOUT_TCP)
            cmside_quiet(&side);
        ck_assert_int_eq(timeout_of(&side), CM_TIMEOUT_HANDSHAKE);
        stranger_says(fd, &rep);
    }
    cmside_expect(&side, RDMA_CM_EVENT_ESTABLISHED);
    close(fd);
    cmside_expect(&side, RDMA_CM_EVENT_DISCONNECTED);
    cmside_close(&side);
}
END_TEST

/* A server can't prolong the wait for ever. */
START_TEST(second_acknowledgement)
{
    struct said mra = said(SAID_MRA), req;
    struct cmside side;
    int fd = cmside_connect(&side, &req);

    stranger_says(fd, &mra);
    stranger_says(fd, &mra);
    ck_assert_int_eq(cmside_expect(&side, RDMA_CM_EVENT_CONNECT_ERROR).status, -EPROTO);
    stranger_is_dropped(&side, fd);
    cmside_close(&side);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handshake: receipts");
    TCase *tcase = new_case(suite, "receipts");

    tcase_add_loop_test(tcase, listener_acknowledges, 0, 2);
    tcase_add_test(tcase, silent_server_is_given_up);
    tcase_add_loop_test(tcase, application_gets_time, 0, 2);
    tcase_add_test(tcase, second_acknowledgement);
    return run_suite(suite);
}
