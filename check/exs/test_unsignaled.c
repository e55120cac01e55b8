/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_unsignaled.c - unsignaled work requests: the completion of a later request implies theirs, or their own
 * failure reports them, or the end of the connection. The device, which is in memory here, cannot make the
 * library accept completions of requests that were not posted to it.
 */
#include "in_memory.h"

#include <unistd.h>
#include "core/sock/sock.h"
#include "inside.h"

#define PART 4096            /* bytes of the longest work request */
#define PARTS 12             /* more than one call posts to the device */
#define FEW_PARTS (5 * PART) /* bytes */
#define SHORT 8
#define QUARTER 16 /* of the queue's depth: at least one request in this many is signaled */
#define TOLD_LATE (SQ_DEPTH + SQ_DEPTH / 2)

static uint8_t in[FEW_PARTS], out[PARTS * PART];
static FILE *said; /* replaces standard error */
static int sock;
static struct conn *conn;
static struct mock_qp *pair;

static void connected(void)
{
    const struct mock_config config = {
        .max_request = PART, .max_wr = 64, .max_cqe = 65536, .reads = 16, .has_inline = true};

    must(setenv("EXS_DEBUG", "1", 1));
    memory_begin(&config);
    sock = connect_one();
    conn = conn_of(sock);
    pair = mock_qp_of(&LIST_FIRST(&mock_ids)->id);
    pair->id->peer->out.compared = false; /* it does not know the bytes that are sent */
    said = tmpfile();
    ck_assert_ptr_nonnull(said);
    must(dup2(fileno(said), STDERR_FILENO));
}

/* ---- Helpers ------------------------------------------------------------------------------------------ */

/* Sends short messages without an event and without a queue. */
static void hush(int count)
{
    for (int i = 0; i < count; i++)
        must(exs_send(sock, out, SHORT, EXS_UNSIGNALED, NULL, NULL, NULL));
}

static void told(size_t length)
{
    must(exs_send(sock, out, length, 0, queue, NULL, NULL));
}

static void wanted(void)
{
    must(exs_recv(sock, in, sizeof(in), 0, queue, NULL, NULL));
}

static void linger(int error)
{
    must(exs_close(sock, EXS_LINGER, queue, NULL));
    expect(EXS_EVT_CLOSE, sock, error);
}

static void nothing_under_way(void)
{
    ck_assert_uint_eq(conn->sq.head, conn->sq.tail);
    ck_assert(!conn_awaits(conn));
}

static bool is_signaled(uint32_t entry)
{
    return pair->sends[entry % MOCK_SENDS].signaled;
}

/* The peer receives everything and returns its credits. */
static void heard(void)
{
    peer_hears(pair->id->peer, SQ_DEPTH);
    ck_assert(peer_control(pair->id->peer, (struct control){.type = CONTROL_CREDIT}));
    expect_nothing();
}

/* Exactly one line was logged, which contains this. */
static void only_said(const char *part)
{
    char line[512] = "", other[512];

    rewind(said);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), said));
    ck_assert_msg(strstr(line, part) != NULL, "this was said: %s", line);
    ck_assert_msg(fgets(other, sizeof(other), said) == NULL, "and this was said: %s", other);
}

/* ---- Completion by a later request ---------------------------------------------------------------------- */

START_TEST(one_tells_of_those_before)
{
    uint64_t before = mock_progress;

    hush(3);
    told(SHORT);
    for (uint32_t entry = 0; entry < 4; entry++)
        ck_assert_int_eq(is_signaled(entry), entry == 3);
    ck_assert(conn_awaits(conn));
    send_all();
    ck_assert_uint_eq(mock_progress - before, 4 + 1);
    expect(EXS_EVT_SEND, sock, 0);
    nothing_under_way();
    close_one(sock);
}
END_TEST

/* A message in several requests has one event, with all its bytes, when the last request completes. */
START_TEST(the_last_part_tells_of_all)
{
    hush(1);
    told(sizeof(out));
    ck_assert_uint_eq(conn->sq.tail, 1 + PARTS);
    for (uint32_t entry = 0; entry <= PARTS; entry++)
        ck_assert_int_eq(is_signaled(entry), entry == PARTS);
    for (int i = 0; i < PARTS; i++)
        mock_sent(pair, IBV_WC_SUCCESS);
    expect_nothing();
    ck_assert_uint_eq(conn->sq.head, 0);
    ck_assert(mock_key_in_use(pair->qp.pd, pair->sends[PARTS].lkey));
    mock_sent(pair, IBV_WC_SUCCESS);
    exs_event_t event = expect(EXS_EVT_SEND, sock, 0);

    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, sizeof(out));
    nothing_under_way();
    close_one(sock);
}
END_TEST

/* A request whose bytes the device does not copy is signaled, although its send has no event. */
START_TEST(a_longer_one_is_waited_for)
{
    must(exs_send(sock, out, MOCK_INLINE + 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    ck_assert(is_signaled(0));
    ck_assert_int_eq(conn->sq.posted[0].kind, POSTED_DATA);
    send_all();
    expect_nothing();
    nothing_under_way();
    close_one(sock);
}
END_TEST

/* No operation waits for the completions, and entries of the send queue are reclaimed all the same. */
START_TEST(one_in_so_many_has_its_own)
{
    uint32_t row = 0;

    for (int i = 0; i < TOLD_LATE; i++) {
        uint32_t entry = conn->sq.tail;

        hush(1);
        ck_assert_uint_eq(conn->sq.tail, entry + 1);
        row = is_signaled(entry) ? 0 : row + 1;
        ck_assert_uint_lt(row, QUARTER);
        heard();
    }
    ck_assert_uint_ge(conn->sq.head, TOLD_LATE - QUARTER);
    close_one(sock);
}
END_TEST

/* A close waits for the FIN and for everything behind it, so these are signaled. */
START_TEST(from_the_end_on_each_has_its_own)
{
    hush(2);
    must(exs_shutdown(sock, SHUT_WR, 0, queue, NULL));
    uint32_t end = conn->sq.tail - 1;

    ck_assert_uint_eq(end, 2);
    ck_assert(is_signaled(end));
    wanted();
    ck_assert_uint_gt(conn->sq.tail, end + 1); /* the advertisement */
    for (uint32_t entry = end; entry != conn->sq.tail; entry++)
        ck_assert(is_signaled(entry));
    send_all();
    expect(EXS_EVT_SHUTDOWN, sock, 0);
    nothing_under_way();
    must(exs_close(sock, 0, queue, NULL));
    send_all();
    expect(EXS_EVT_RECV, sock, ECANCELED);
    expect(EXS_EVT_CLOSE, sock, 0);
}
END_TEST

/* ---- Failures -------------------------------------------------------------------------------------------- */

/* If any of the earlier requests fails, the later ones have not arrived. */
START_TEST(one_in_front_fails)
{
    hush(3);
    told(SHORT);
    for (int i = 0; i < _i; i++)
        mock_sent(pair, IBV_WC_SUCCESS);
    mock_sent(pair, IBV_WC_REM_ACCESS_ERR);
    expect(EXS_EVT_SEND, sock, ECONNRESET);
    nothing_under_way();
    only_said("failure");
    ck_assert_int_eq(sock_sent(conn->sock), SENT_LOST);
    linger(ECONNRESET);
}
END_TEST

/* A part of a message fails: the operation fails, and the device no longer uses its memory. */
START_TEST(a_part_fails)
{
    told(sizeof(out));
    mock_sent(pair, IBV_WC_SUCCESS);
    mock_sent(pair, IBV_WC_REM_ACCESS_ERR);
    expect(EXS_EVT_SEND, sock, ECONNRESET);
    nothing_under_way();
    close_one(sock);
}
END_TEST

/* The last requests were unsignaled. If they had arrived they have no completions, otherwise each is flushed,
 * and so are later requests. Either way the connection ends. */
START_TEST(the_last_are_flushed)
{
    wanted();
    hush(3);
    ck_assert(!conn_awaits(conn));
    for (int i = 0; i < _i; i++)
        mock_sent(pair, IBV_WC_SUCCESS);
    mock_break(pair);
    expect(EXS_EVT_RECV, sock, ECONNRESET);
    nothing_under_way();
    ck_assert_int_eq(conn->state.stage, CONN_DRAINED);
    close_one(sock);
}
END_TEST

/* The completion of a flushed unsignaled request may arrive late, for example from devices that flush the
 * receive queue first. */
START_TEST(a_late_one_is_no_ones)
{
    hush(2);
    wanted();
    uint64_t names[2] = {pair->sends[0].wr_id, pair->sends[1].wr_id};

    pair->send_head = pair->send_tail;
    mock_break(pair);
    expect(EXS_EVT_RECV, sock, ECONNRESET);
    for (int i = 0; i < 2; i++)
        mock_stray(pair->qp.send_cq, names[i], IBV_WC_WR_FLUSH_ERR);
    expect_nothing();
    nothing_under_way();
    rewind(said);
    ck_assert_int_eq(fgetc(said), EOF);
    linger(ECONNRESET);
}
END_TEST

/* The completion of a signaled request is waited for, because the device may still read its memory. */
START_TEST(a_late_one_is_waited_for)
{
    told(PART);
    uint64_t name = pair->sends[0].wr_id;

    pair->send_head = pair->send_tail;
    mock_break(pair);
    expect_nothing();
    ck_assert_int_eq(conn->state.stage, CONN_BROKEN);
    mock_stray(pair->qp.send_cq, name, IBV_WC_WR_FLUSH_ERR);
    expect(EXS_EVT_SEND, sock, ECONNRESET);
    nothing_under_way();
    close_one(sock);
}
END_TEST

/* The peer has shut down its direction and leaves when it has got this end's FIN. This shutdown may therefore
 * not succeed if requests before it were lost. */
START_TEST(an_end_behind_what_is_lost)
{
    ck_assert(peer_control(pair->id->peer, (struct control){.type = CONTROL_FIN}));
    expect_nothing();
    hush(_i);
    must(exs_shutdown(sock, SHUT_WR, 0, queue, NULL));
    mock_break(pair);
    expect(EXS_EVT_SHUTDOWN, sock, _i ? ECONNRESET : 0);
    close_one(sock);
}
END_TEST

/* The peer's credits acknowledge the requests that have arrived. */
START_TEST(a_close_tells_of_the_lost)
{
    bool has_come = _i == 1;

    hush(1);
    if (has_come)
        heard();
    hush(_i == 2);
    mock_break(pair);
    expect_nothing();
    ck_assert_int_eq(sock_sent(conn->sock) == SENT_LOST, !has_come);
    linger(has_come ? 0 : ECONNRESET);
}
END_TEST

/* The device refuses the second half of a list of requests, and completes the first half. */
START_TEST(a_part_is_refused)
{
    must(exs_send(sock, out, _i % 2 ? FEW_PARTS : SHORT, 0, queue, NULL, NULL));
    send_all();
    expect(EXS_EVT_SEND, sock, 0);
    mock_fail((unsigned)_i, ENOMEM);
    /* false if the registration failed */
    bool is_begun = exs_send(sock, out, FEW_PARTS, 0, queue, NULL, NULL) == 0;

    mock_fail(0, 0);
    send_all();
    if (is_begun) {
        expect(EXS_EVT_SEND, sock, conn_broken(conn) ? ECONNRESET : 0);
        rewind(said);
        ck_assert_int_eq(fgetc(said), EOF); /* the library knows the request of each completion */
    }
    nothing_under_way();
    close_one(sock);
}
END_TEST

/* One of the requests that the device took is signaled, and the library waits for it. */
START_TEST(what_is_taken_is_owed)
{
    exs_mhandle_t region = exs_mregister(out, sizeof(out), 0);

    hush(QUARTER - 3);
    mock_fail(1 + 3, ENOMEM); /* after the registration */
    must(exs_send(sock, out, FEW_PARTS, 0, queue, NULL, region));
    mock_fail(0, 0);
    ck_assert(conn_broken(conn));
    ck_assert_uint_eq(conn->sq.tail, QUARTER);
    ck_assert_uint_eq(conn->sq.signaled, QUARTER);
    expect(EXS_EVT_SEND, sock, ECONNRESET);
    nothing_under_way();
    must(exs_mderegister(region, 0));
    close_one(sock);
}
END_TEST

/* ---- A device that reports false completions -------------------------------------------------------------- */

/* Completions of requests that completed long ago, or were never posted. */
START_TEST(what_was_not_posted)
{
    const enum ibv_wc_status status = _i & 1 ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;

    wanted();
    told(SHORT);
    send_all();
    expect(EXS_EVT_SEND, sock, 0);
    hush(_i & 2);
    uint32_t head = conn->sq.head;

    mock_mislead(pair, (uint32_t)_i * 5, status);
    expect(EXS_EVT_RECV, sock, ECONNRESET);
    ck_assert_int_eq(pair->qp.state, IBV_QPS_ERR);
    ck_assert_uint_eq(conn->sq.head - head, _i & 2);
    nothing_under_way();
    only_said("completed an unknown work request");
    close_one(sock);
}
END_TEST

/* Completions of two connections in turn, and of a closed one in between. */
START_TEST(each_has_its_own)
{
    int other = connect_one();
    struct conn *its = conn_of(other);
    struct mock_qp *its_pair = mock_qp_of(its->id);

    for (int i = 0; i < 4; i++) {
        must(exs_send(other, out, SHORT, 0, queue, NULL, NULL));
        told(SHORT);
        mock_sent(its_pair, IBV_WC_SUCCESS);
        mock_sent(pair, IBV_WC_SUCCESS);
        expect(EXS_EVT_SEND, sock, 0); /* in any order */
        expect(EXS_EVT_SEND, other, 0);
        ck_assert_uint_eq(its->sq.head, its->sq.tail);
        nothing_under_way();
    }
    uint64_t name = pair->sends[0].wr_id;

    close_one(sock);
    for (int i = 0; i < 2; i++)
        mock_stray(its_pair->qp.send_cq, name, IBV_WC_REM_ACCESS_ERR);
    expect_rest();
    rewind(said);
    ck_assert_int_eq(fgetc(said), EOF);
    close_one(other);
}
END_TEST

/* Completions from another device than the connection's have no effect, neither before nor after the connection
 * is closed. */
START_TEST(what_another_was_given)
{
    mock_replace(&rdma_device);
    int other = connect_one();
    struct mock_qp *its = mock_qp_of(conn_of(other)->id);

    hush(2);
    for (int i = 0; i < 2; i++) {
        mock_stray(its->qp.send_cq, pair->sends[1].wr_id, IBV_WC_REM_ACCESS_ERR);
        expect_nothing();
        ck_assert_uint_eq(conn->sq.head, 0);
        ck_assert(!conn_broken(conn));
    }
    uint64_t name = pair->sends[1].wr_id;

    close_one(sock);
    mock_stray(its->qp.send_cq, name, IBV_WC_REM_ACCESS_ERR);
    expect_nothing();
    close_one(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unsignaled");
    TCase *tests = add_bare_case(suite, "unsignaled", 10);

    tcase_add_checked_fixture(tests, connected, memory_end);
    tcase_add_test(tests, one_tells_of_those_before);
    tcase_add_test(tests, the_last_part_tells_of_all);
    tcase_add_test(tests, a_longer_one_is_waited_for);
    tcase_add_test(tests, one_in_so_many_has_its_own);
    tcase_add_test(tests, from_the_end_on_each_has_its_own);
    tcase_add_loop_test(tests, one_in_front_fails, 0, 3);
    tcase_add_test(tests, a_part_fails);
    tcase_add_loop_test(tests, the_last_are_flushed, 0, 5);
    tcase_add_test(tests, a_late_one_is_no_ones);
    tcase_add_test(tests, a_late_one_is_waited_for);
    tcase_add_loop_test(tests, an_end_behind_what_is_lost, 0, 2);
    tcase_add_loop_test(tests, a_close_tells_of_the_lost, 0, 3);
    tcase_add_loop_test(tests, a_part_is_refused, 0, 10);
    tcase_add_test(tests, what_is_taken_is_owed);
    tcase_add_loop_test(tests, what_was_not_posted, 0, 8);
    tcase_add_test(tests, each_has_its_own);
    tcase_add_test(tests, what_another_was_given);
    return run_suite(suite);
}
