/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_linger_cut.c - EXS_LINGER and SO_LINGER if the sends do not arrive, because the time is over or the peer has
 * closed: the close reports it. With a time of 0 the close cuts off everything.
 */
#include "check/support/files.h"
#include "check/support/processes.h"
#include "lingering.h"

/* Returns the number of bytes received before ECONNRESET. */
static size_t received_until_cut(struct pair *pair)
{
    uint8_t *in = new_buffer(LENGTH);
    size_t bytes = 0, got;

    while (exs_recv(pair->server, in, LENGTH, 0, pair->server_box->queue, NULL, NULL) == 0) {
        exs_event_t event = inbox_take(pair->server_box, EXS_EVT_RECV, pair->server);
        errno = event.exs_evt_errno;
        if (errno != 0)
            break;
        got = event.exs_evt_union.exs_evt_xfer.exs_evt_length;
        ck_assert_uint_gt(got, 0); /* otherwise it is an orderly end */
        pattern_check(in, got, 0, bytes);
        bytes += got;
    }
    ck_assert_int_eq(errno, ECONNRESET);
    free(in);
    return bytes;
}

/* The close fails when the time is over, not before, and the sends report their bytes. A shorter SO_SNDTIMEO makes no
 * difference. */
START_TEST(time_is_over)
{
    const struct timeval limit = {.tv_usec = 500000};
    struct pair pair;
    size_t moved = 0;

    pair_open_kind(&pair, _i);
    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    uint8_t *out = send_all(&pair);
    set_linger(pair.client, 1, 1);
    double start = seconds_now();
    close_client(&pair, 0);
    for (int i = 0; i < SENDS; i++) {
        exs_event_t event = take_failed(pair.client_box, EXS_EVT_SEND, pair.client, ECANCELED);
        moved += event.exs_evt_union.exs_evt_xfer.exs_evt_length;
    }
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, ETIMEDOUT);
    double took = seconds_now() - start;
    ck_assert_msg(took >= 1 && took < 1 + 5 * LATE_S, "it took %g s", took);
    ck_assert_uint_eq(received_until_cut(&pair), moved);
    ck_assert_int_eq(moved > 0, kinds[_i].type == SOCK_STREAM);
    free(out);
    close_server(&pair);
}
END_TEST

/* The peer closes: the sends will never arrive. */
START_TEST(peer_leaves)
{
    struct pair pair;

    pair_open_kind(&pair, _i);
    uint8_t *out = send_all(&pair);
    close_client(&pair, EXS_LINGER);
    close_socket(pair.server_box, pair.server);
    client_ends(&pair, out, ECANCELED, ECONNRESET);
    free(out);
    pair_close_rest(&pair);
}
END_TEST

/* The peer has reset the connection before the close, and nothing had been sent: the close succeeds. */
START_TEST(peer_has_left)
{
    struct pair pair;

    pair_open_kind(&pair, 0);
    set_linger(pair.client, 1, 60);
    set_linger(pair.server, 1, 0);
    if (_i == 1)
        must(exs_recv(pair.client, &pair, 1, 0, pair.client_box->queue, &pair, NULL));
    close_socket(pair.server_box, pair.server);
    if (_i == 1)
        ends(pair.client_box, EXS_EVT_RECV, &pair, ECONNRESET);
    close_client(&pair, 0);
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, 0);
    pair_close_rest(&pair);
}
END_TEST

/* With a time of 0 the peer gets ECONNRESET, even if no send is pending, and even with EXS_LINGER. */
START_TEST(cuts)
{
    struct pair pair;
    bool sends = _i & 1;
    uint8_t *out = NULL;

    pair_open_kind(&pair, 0);
    set_linger(pair.client, 1, 0);
    if (sends)
        out = send_all(&pair);
    close_client(&pair, _i & 2 ? EXS_LINGER : 0);
    if (sends)
        client_ends(&pair, out, ECANCELED, 0);
    else
        ends(pair.client_box, EXS_EVT_CLOSE, &pair, 0);
    ck_assert(received_until_cut(&pair) == 0 || sends);
    free(out);
    close_server(&pair);
}
END_TEST

/* Without lingering the close cancels the pending reads. With lingering they fail when the peer closes, and the close
 * reports that. */
START_TEST(one_sided_cut)
{
    uint8_t *there = new_buffer(READ), *here;
    bool lingers = _i & 2;
    struct pair pair;

    pair_open_kind(&pair, _i & 1);
    here = read_all(&pair, there);
    close_client(&pair, lingers ? EXS_LINGER : 0);
    if (lingers) {
        set_linger(pair.server, 1, 0);
        close_socket(pair.server_box, pair.server);
    }
    for (size_t i = 0; i < READS; i++) {
        exs_event_t event = inbox_take(pair.client_box, EXS_EVT_RREAD, pair.client);
        ck_assert(event.exs_evt_errno == ECANCELED || (event.exs_evt_errno == 0 && i < READS - 1));
    }
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, lingers ? ECONNRESET : 0);
    if (!lingers)
        close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
    free(here);
    free(there);
}
END_TEST

/* Only the end of the stream is pending, and the peer process is stopped. */
START_TEST(end_is_late)
{
    struct address address;
    struct child child;
    struct inbox box;
    char ready;

    child_start(&child, child_accepts, NULL);
    init_library();
    inbox_open(&box, 4);
    hear(child.fd, &address, sizeof address);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    take_good(&box, EXS_EVT_CONNECT, client);
    hear(child.fd, &ready, 1);
    set_linger(client, 1, 1);
    process_stop(child.pid);
    must(exs_close(client, 0, box.queue, NULL));
    take_failed(&box, EXS_EVT_CLOSE, client, on_rdma() ? 0 : ETIMEDOUT); /* the peer's kernel acknowledges it */
    inbox_close(&box);
    child_kill(&child);
}
END_TEST

/* The file is truncated during a lingering close: the peer gets an error instead of an end of the stream, because the
 * data is incomplete. */
START_TEST(file_is_cut)
{
    struct folder folder;
    struct pair pair;

    folder_make(&folder);
    pair_open_kind(&pair, 0);
    int fd = folder_file(&folder, "long", (off_t)(64 * MIB));
    exs_xferfile_t file = by_fd(fd, 0, 64 * MIB);
    must(exs_sendfile(pair.client, &file, 1, 0, pair.client_box->queue, &file));
    must(ftruncate(fd, 0));
    close_client(&pair, EXS_LINGER);
    uint8_t *in = new_buffer(LENGTH);
    while (exs_recv(pair.server, in, LENGTH, 0, pair.server_box->queue, NULL, NULL) == 0) {
        exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECV, pair.server);
        if (event.exs_evt_errno == ECONNRESET)
            break;
        ck_assert_int_eq(event.exs_evt_errno, 0);
        ck_assert_uint_gt(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    }
    ends(pair.client_box, EXS_EVT_SENDFILE, &file, EIO);
    ends(pair.client_box, EXS_EVT_CLOSE, &pair, ECONNRESET);
    free(in);
    close(fd);
    close_server(&pair);
    folder_clear(&folder);
}
END_TEST

/* A blocking close fails when the time is over, and closes the socket nevertheless. */
START_TEST(call_that_gives_up)
{
    uint8_t *out = new_buffer(LENGTH);
    struct pair pair;
    struct inbox box;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&box, 4);
    set_linger(pair.client, 1, 1);
    must(exs_send(pair.client, out, LENGTH, 0, box.queue, out, NULL));
    must_fail(exs_blocking_close(pair.client), ETIMEDOUT);
    must_fail(exs_blocking_close(pair.client), EBADF);
    take_failed(&box, EXS_EVT_SEND, pair.client, ECANCELED);
    must(exs_blocking_close(pair.server));
    must(exs_blocking_close(pair.listener));
    inbox_close(&box);
    free(out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linger cut");
    TCase *tcase = add_case(suite, "linger cut", 30), *bare = add_bare_case(suite, "the end", 30);

    tcase_add_loop_test(tcase, time_is_over, 0, 2);
    tcase_add_loop_test(tcase, peer_leaves, 0, 4);
    tcase_add_loop_test(tcase, peer_has_left, 0, 2);
    tcase_add_loop_test(tcase, cuts, 0, 4);
    tcase_add_loop_test(tcase, one_sided_cut, 0, 4);
    tcase_add_test(bare, end_is_late);
    tcase_add_loop_test(tcase, file_is_cut, 0, 1);
    tcase_add_test(tcase, call_that_gives_up);
    return run_suite(suite);
}
