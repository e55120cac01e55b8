/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ended_early.c - sends that end before all of their bytes are sent: by a timeout, a file that fails, or
 * exs_cancel. The table of exs(7) says what follows: the peer never takes a part for the whole, and no send follows
 * missing bytes unless the application has been told of them.
 */
#include "lingering.h"
#include "sending.h"

#define LIMIT_US 100000
#define PART ((size_t)9000) /* bytes of a failing exs_sendfile that precede the file */

static uint8_t *out, *in;

static void limit_sends(long microseconds)
{
    const struct timeval limit = {.tv_usec = microseconds};

    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
}

static void open_kind(int type)
{
    pair_open(&pair, AF_INET, type);
    out = new_buffer(LENGTH);
    in = new_buffer(3 * LENGTH);
    pattern_fill(out, LENGTH, 1, 0);
}

static void close_kind(bool client_too)
{
    if (client_too)
        close_socket(pair.client_box, pair.client);
    close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
    free(out);
    free(in);
}

static int send_long(int flags, exs_qhandle_t queue)
{
    return (int)exs_send(pair.client, out, LENGTH, flags, queue, out, NULL);
}

static int send_word(const char *word)
{
    return (int)exs_send(pair.client, word, strlen(word), 0, pair.client_box->queue, NULL, NULL);
}

static int error_of_client(void)
{
    int error = 0;
    socklen_t length = sizeof error;

    must(exs_getsockopt(pair.client, SOL_SOCKET, SO_ERROR, &error, &length));
    return error;
}

/* Receives until the connection ends: the bytes are in `in`, and *error is 0 or the errno. */
static size_t drain(int *error)
{
    size_t bytes = 0;

    for (*error = -1; *error == -1;) {
        if (exs_recv(pair.server, in + bytes, LENGTH, 0, pair.server_box->queue, NULL, NULL) < 0) {
            *error = errno;
            break;
        }
        exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECV, pair.server);
        size_t length = event.exs_evt_union.exs_evt_xfer.exs_evt_length;

        bytes += length;
        if (event.exs_evt_errno != 0 || length == 0)
            *error = event.exs_evt_errno;
    }
    return bytes;
}

static void ends_orderly(size_t bytes)
{
    int error;
    size_t got = drain(&error);

    ck_assert_int_eq(error, 0);
    ck_assert_uint_eq(got, bytes);
}

static void ends_broken(void)
{
    int error;

    drain(&error);
    ck_assert_int_eq(error, ECONNRESET);
}

/* ---- Failures that can't be reported ------------------------------------------------------------------- */

/* A send without a queue times out: the connection breaks, and later sends fail. */
START_TEST(without_a_queue)
{
    open_kind(kinds[_i].type);
    limit_sends(LIMIT_US);
    must(send_long(EXS_UNSIGNALED, NULL));
    while (error_of_client() == 0)
        inbox_pump(pair.client_box, 20);
    ck_assert_int_eq(error_of_client(), ECONNRESET);
    must_fail(send_word("END"), ECONNRESET);
    ends_broken();
    close_kind(true);
}
END_TEST

/* A send without a queue follows the one that times out: the connection breaks, too, after the first one's event. */
START_TEST(before_one_without_a_queue)
{
    open_kind(SOCK_STREAM);
    limit_sends(LIMIT_US);
    must(send_long(0, pair.client_box->queue));
    limit_sends(0);
    must(exs_send(pair.client, "END", 3, EXS_UNSIGNALED, NULL, NULL, NULL));
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ETIMEDOUT);
    while (error_of_client() == 0)
        inbox_pump(pair.client_box, 20);
    ends_broken();
    close_kind(true);
}
END_TEST

/* ---- Failures that are reported ------------------------------------------------------------------------ */

/* On a STREAM all operations that follow the failed send end, too, in order. After its event was dequeued, new sends
 * continue behind the part that was sent. */
START_TEST(behind_it)
{
    open_kind(SOCK_STREAM);
    limit_sends(LIMIT_US);
    must(send_long(0, pair.client_box->queue));
    limit_sends(0);
    must(send_word("behind"));
    must(exs_send(pair.client, "unsignaled", 10, EXS_UNSIGNALED, pair.client_box->queue, NULL, NULL));
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, &pair));
    exs_event_t event = take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ETIMEDOUT);
    size_t moved = event.exs_evt_union.exs_evt_xfer.exs_evt_length;

    ck_assert(moved > 0 && moved < LENGTH);
    for (int i = 0; i < 2; i++) {
        event = take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
        ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    }
    ends(pair.client_box, EXS_EVT_SHUTDOWN, &pair, ECANCELED);
    must(send_word("more"));
    must(exs_close(pair.client, EXS_LINGER, pair.client_box->queue, NULL));
    ends_orderly(moved + 4);
    pattern_check(in, moved, 1, 0);
    ck_assert_mem_eq(in + moved, "more", 4);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_CLOSE, pair.client);
    close_kind(false);
}
END_TEST

/* A message that times out before it was started is not sent. Others are not affected. */
START_TEST(messages_behind_it)
{
    open_kind(SOCK_SEQPACKET);
    limit_sends(LIMIT_US);
    must(send_long(0, pair.client_box->queue));
    limit_sends(0);
    must(send_word("behind"));
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ETIMEDOUT);
    must(send_word("more"));
    for (int i = 0; i < 2; i++) {
        must(exs_recv(pair.server, in, LENGTH, 0, pair.server_box->queue, NULL, NULL));
        exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);

        ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, i == 0 ? 6 : 4);
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    }
    close_socket(pair.client_box, pair.client);
    ends_orderly(0);
    close_kind(false);
}
END_TEST

/* Starts an exs_sendfile of PART bytes of memory and a file that can't be mapped. It fails with ENOMEM, within the call
 * or when earlier sends are done. */
static void send_failing(exs_xferfile_t element[2], size_t part)
{
    out = new_buffer(LENGTH);
    pattern_fill(out, LENGTH, 1, 0);
    in = new_buffer(3 * LENGTH);
    element[0] =
        (exs_xferfile_t){.exs_xfv_type = EXS_IOVEC, .exs_xfv.exs_iov = {.exs_base = out, .exs_length = part}};
    element[part > 0] = by_fd(file, 0, 0);
    map_errno = ENOMEM;
    post_file(element, part > 0 ? 2 : 1, 0);
}

/* Between the failure and its event no operation is started, not even the end of the stream, because missing bytes
 * would precede it. */
START_TEST(before_it_is_told)
{
    exs_xferfile_t element[2];
    size_t part = _i ? PART : 0;

    send_failing(element, part);
    must_fail(send_word("x"), ECANCELED);
    must_fail(exs_send(pair.client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL), ECANCELED);
    must_fail(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL), ECANCELED);
    must_fail(exs_write(pair.client, "x", 1), ECANCELED);
    exs_event_t event = take_failed(pair.client_box, EXS_EVT_SENDFILE, pair.client, ENOMEM);

    ck_assert_int_eq(event.exs_evt_union.exs_evt_xferfile.exs_evt_length, part);
    map_errno = 0;
    must(send_word("more"));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    close_socket(pair.client_box, pair.client);
    ends_orderly(part + 4);
    pattern_check(in, part, 1, 0);
    close_kind(false);
    folder_remove();
}
END_TEST

/* No byte was sent and the failure was dequeued: the stream is complete and may end. */
START_TEST(told_before_the_end)
{
    exs_xferfile_t element[2];

    send_failing(element, 0);
    take_failed(pair.client_box, EXS_EVT_SENDFILE, pair.client, ENOMEM);
    close_socket(pair.client_box, pair.client);
    ends_orderly(0);
    close_kind(false);
    folder_remove();
}
END_TEST

/* The socket is closed before the event was dequeued: the stream can't end in order. */
START_TEST(closed_before_it_is_told)
{
    exs_xferfile_t element[2];
    bool lingers = _i & 1;

    send_failing(element, _i & 2 ? PART : 0);
    must(exs_close(pair.client, lingers ? EXS_LINGER : 0, pair.client_box->queue, NULL));
    ends_broken();
    take_failed(pair.client_box, EXS_EVT_SENDFILE, pair.client, ENOMEM);
    take_failed(pair.client_box, EXS_EVT_CLOSE, pair.client, lingers ? ECONNRESET : 0);
    close_kind(false);
    folder_remove();
}
END_TEST

/* The event is discarded with its queue, and counts as dequeued. */
START_TEST(told_to_a_queue_that_is_deleted)
{
    exs_qhandle_t other = exs_qcreate(4);
    exs_xferfile_t element = by_fd(file, 0, 0);

    out = in = NULL;
    map_errno = ENOMEM;
    must(exs_sendfile(pair.client, &element, 1, 0, other, NULL));
    must_fail(send_word("x"), ECANCELED);
    must(exs_qdelete(other));
    must(send_word("x"));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    close_kind(true);
    folder_remove();
}
END_TEST

/* The send fails while other operations wait behind it. */
START_TEST(on_standby)
{
    exs_xferfile_t element[2];
    size_t part = _i ? PART : 0;
    exs_event_t event;
    char *first = new_buffer(LENGTH);

    must(exs_send(pair.client, first, LENGTH, 0, pair.client_box->queue, first, NULL));
    send_failing(element, part);
    must(send_word("behind"));
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, &pair));
    must(exs_recv(pair.server, in, LENGTH + part, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    event = take_failed(pair.client_box, EXS_EVT_SENDFILE, pair.client, ENOMEM);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xferfile.exs_evt_length, part);
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
    take_failed(pair.client_box, EXS_EVT_SHUTDOWN, pair.client, ECANCELED);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    map_errno = 0;
    inbox_quiet(pair.server_box, QUIET_MS);
    must(send_word("more"));
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, &pair));
    ends_orderly(4);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    free(first);
    close_kind(true);
    folder_remove();
}
END_TEST

/* ---- The end of the stream after an incomplete send ----------------------------------------------------- */

enum { BY_TIME, BY_CANCEL, BY_CALL, CUTS };

/* A send of LENGTH ends in its middle, and its event is dequeued. Returns the number of bytes sent. */
static size_t cut(int way)
{
    exs_event_t event;

    limit_sends(way == BY_CANCEL ? 0 : LIMIT_US);
    if (way == BY_CALL)
        return (size_t)exs_blocking_send(pair.client, out, LENGTH, 0, NULL);
    must(send_long(0, pair.client_box->queue));
    if (way == BY_CANCEL)
        ck_assert_int_eq(exs_cancel(pair.client, out, 0), 1);
    event = take_failed(pair.client_box, EXS_EVT_SEND, pair.client, way == BY_CANCEL ? ECANCELED : ETIMEDOUT);
    return event.exs_evt_union.exs_evt_xfer.exs_evt_length;
}

/* The peer gets an error instead of an end of the stream, whether the application closes, lingers or shuts down. */
START_TEST(no_end)
{
    int way = _i % CUTS, how = _i / CUTS;

    open_kind(SOCK_STREAM);
    size_t moved = cut(way);

    ck_assert(moved > 0 && moved < LENGTH);
    if (how == 0)
        close_socket(pair.client_box, pair.client);
    else if (how == 1)
        must(exs_close(pair.client, EXS_LINGER, pair.client_box->queue, NULL));
    else
        must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    ends_broken();
    if (how == 1)
        take_failed(pair.client_box, EXS_EVT_CLOSE, pair.client, ECONNRESET);
    if (how == 2)
        take_failed(pair.client_box, EXS_EVT_SHUTDOWN, pair.client, ECONNRESET);
    close_kind(how == 2);
}
END_TEST

/* The stream ends in order if another send of at least one byte completes. */
START_TEST(goes_on)
{
    open_kind(SOCK_STREAM);
    size_t moved = cut(_i);

    limit_sends(0);
    must(exs_send(pair.client, out + moved, LENGTH - moved, 0, pair.client_box->queue, NULL, NULL));
    must(exs_close(pair.client, EXS_LINGER, pair.client_box->queue, NULL));
    ends_orderly(LENGTH);
    pattern_check(in, LENGTH, 1, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_CLOSE, pair.client);
    close_kind(false);
}
END_TEST

/* The next send transfers no byte, because it times out or is empty: the stream can't end in order. */
START_TEST(does_not_go_on)
{
    open_kind(SOCK_STREAM);
    size_t moved = cut(BY_TIME);

    if (_i == 0) {
        limit_sends(LIMIT_US);
        must(exs_send(pair.client, out + moved, LENGTH - moved, 0, pair.client_box->queue, NULL, NULL));
        take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ETIMEDOUT);
    } else {
        must(exs_send(pair.client, out, 0, 0, pair.client_box->queue, NULL, NULL));
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    }
    close_socket(pair.client_box, pair.client);
    ends_broken();
    close_kind(false);
}
END_TEST

/* Sends that follow a cancelled one are sent, as exs_cancel(3) says, but the stream can't end in order. */
START_TEST(behind_a_cancelled_one)
{
    open_kind(SOCK_STREAM);
    must(send_long(0, pair.client_box->queue));
    must(send_word("behind"));
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, &pair));
    ck_assert_int_eq(exs_cancel(pair.client, out, 0), 1);
    take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
    ends_broken();
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_failed(pair.client_box, EXS_EVT_SHUTDOWN, pair.client, ECONNRESET);
    close_kind(true);
}
END_TEST

/* A send with MSG_DONTWAIT that transfers a part is complete. */
START_TEST(at_once)
{
    open_kind(SOCK_STREAM);
    must(send_long(MSG_DONTWAIT, pair.client_box->queue));
    exs_event_t event = take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    size_t moved = event.exs_evt_union.exs_evt_xfer.exs_evt_length;

    ck_assert(moved > 0 && moved < LENGTH);
    close_socket(pair.client_box, pair.client);
    ends_orderly(moved);
    close_kind(false);
}
END_TEST

/* ---- Lingering closes ------------------------------------------------------------------------------------ */

/* Both ends linger: each discards what the other sends. */
START_TEST(two_lingering_closes)
{
    size_t length;

    open_kind(kinds[_i].type);
    length = kinds[_i].type == SOCK_STREAM ? LENGTH : 5;
    if (_i >= 2) { /* makes no difference to the other end */
        must(exs_shutdown(pair.client, SHUT_RD, 0, pair.client_box->queue, NULL));
        take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    }
    for (int i = 0; i < 3; i++) {
        must(exs_send(pair.client, out, length, 0, pair.client_box->queue, NULL, NULL));
        must(exs_send(pair.server, out, length, 0, pair.server_box->queue, NULL, NULL));
    }
    must(exs_close(pair.client, EXS_LINGER, pair.client_box->queue, NULL));
    must(exs_close(pair.server, EXS_LINGER, pair.server_box->queue, NULL));
    int whole = inbox_take(pair.client_box, EXS_EVT_CLOSE, pair.client).exs_evt_errno == 0;

    whole += inbox_take(pair.server_box, EXS_EVT_CLOSE, pair.server).exs_evt_errno == 0;
    ck_assert_int_ge(whole, 1); /* the other end may have had more to send */
    for (int i = 0; i < 3; i++) {
        inbox_take(pair.client_box, EXS_EVT_SEND, pair.client);
        inbox_take(pair.server_box, EXS_EVT_SEND, pair.server);
    }
    pair_close_rest(&pair);
    free(out);
    free(in);
}
END_TEST

/* The peer sends before it receives: the lingering client discards that, so the peer then receives all that the close
 * waits for. */
START_TEST(against_one_that_only_sends)
{
    int error;

    open_kind(kinds[_i].type);
    must(send_long(0, pair.client_box->queue));
    must(exs_close(pair.client, EXS_LINGER, pair.client_box->queue, NULL));
    for (int i = 0; i < 3; i++)
        must(exs_send(pair.server, out, LENGTH, 0, pair.server_box->queue, NULL, NULL));
    for (int i = 0; i < 3; i++)
        take_good(pair.server_box, EXS_EVT_SEND, pair.server);
    ck_assert_uint_eq(drain(&error), LENGTH);
    ck_assert_int_eq(error, 0);
    pattern_check(in, LENGTH, 1, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_CLOSE, pair.client);
    close_kind(false);
}
END_TEST

/* A pending receive gets its bytes before the rest is discarded. */
START_TEST(with_a_receive)
{
    uint8_t *own = new_buffer(LENGTH);
    int error;

    open_kind(kinds[_i].type);
    must(exs_recv(pair.client, own, LENGTH, MSG_WAITALL, pair.client_box->queue, NULL, NULL));
    must(send_long(0, pair.client_box->queue));
    must(exs_close(pair.client, EXS_LINGER, pair.client_box->queue, NULL));
    for (int i = 0; i < 2; i++) {
        must(exs_send(pair.server, out, LENGTH, 0, pair.server_box->queue, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_SEND, pair.server);
    }
    take_good(pair.client_box, EXS_EVT_RECV, pair.client);
    pattern_check(own, LENGTH, 1, 0);
    ck_assert_uint_eq(drain(&error), LENGTH);
    ck_assert_int_eq(error, 0);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_CLOSE, pair.client);
    close_kind(false);
    free(own);
}
END_TEST

/* A pending peek gets its bytes, too, before they are discarded. */
START_TEST(with_a_peek)
{
    uint8_t seen[100];

    open_kind(SOCK_STREAM);
    must(exs_recv(pair.client, seen, sizeof seen, MSG_PEEK | MSG_WAITALL, pair.client_box->queue, NULL, NULL));
    must(send_long(0, pair.client_box->queue));
    must(exs_close(pair.client, EXS_LINGER, pair.client_box->queue, NULL));
    for (int i = 0; i < 2; i++) {
        must(exs_send(pair.server, out + i * 50, 50, 0, pair.server_box->queue, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_SEND, pair.server);
        inbox_pump(pair.client_box, 0);
    }
    exs_event_t event = take_good(pair.client_box, EXS_EVT_RECV, pair.client);

    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, sizeof seen);
    pattern_check(seen, sizeof seen, 1, 0);
    ends_orderly(LENGTH);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    take_good(pair.client_box, EXS_EVT_CLOSE, pair.client);
    close_kind(false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ended early");
    TCase *unreported = add_case(suite, "unreported", 20), *told = add_case(suite, "told", 20),
          *end = add_case(suite, "the end", 20), *closes = add_case(suite, "closes", 20),
          *files = add_bare_case(suite, "files", 20);

    tcase_add_loop_test(unreported, without_a_queue, 0, 4);
    tcase_add_test(unreported, before_one_without_a_queue);
    tcase_add_test(told, behind_it);
    tcase_add_test(told, messages_behind_it);
    tcase_add_checked_fixture(files, folder_open_mapped, NULL);
    tcase_add_loop_test(files, before_it_is_told, 0, 2);
    tcase_add_test(files, told_before_the_end);
    tcase_add_loop_test(files, closed_before_it_is_told, 0, 4);
    tcase_add_test(files, told_to_a_queue_that_is_deleted);
    tcase_add_loop_test(files, on_standby, 0, 2);
    tcase_add_loop_test(end, no_end, 0, 3 * CUTS);
    tcase_add_loop_test(end, goes_on, 0, CUTS);
    tcase_add_loop_test(end, does_not_go_on, 0, 2);
    tcase_add_test(end, behind_a_cancelled_one);
    tcase_add_test(end, at_once);
    tcase_add_loop_test(closes, two_lingering_closes, 0, 4);
    tcase_add_loop_test(closes, against_one_that_only_sends, 0, 4);
    tcase_add_loop_test(closes, with_a_receive, 0, 4);
    tcase_add_test(closes, with_a_peek);
    return run_suite(suite);
}
