/* SPDX-License-Identifier: BSD-2-Clause */
/* test_sendfile_cut.c - exs_sendfile of a file that is truncated, or cannot be mapped, while it waits to be
 * sent. */
#include "sending.h"

/* ---- Truncated files ------------------------------------------------------------------- */

/* Truncates the file while it waits to be sent, and receives until the send's event. */
static exs_event_t send_and_cut(exs_xferfile_t *one, int large, char *in, size_t length)
{
    post_file(one, 1, 0);
    inbox_quiet(pair.client_box, 20);
    must(ftruncate(large, 0));
    must(exs_recv(pair.server, in, length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    return inbox_take(pair.client_box, EXS_EVT_SENDFILE, pair.client);
}

/* A truncated file is an error of the send and causes no SIGBUS. */
START_TEST(truncated)
{
    size_t length = 64 * MIB;
    int large = new_file("large", (off_t)length);
    exs_xferfile_t one = _i ? by_path(path, 0, 0) : by_fd(large, 0, 0);
    char *in = new_buffer(length);
    exs_event_t event = send_and_cut(&one, large, in, length);

    ck_assert_msg(event.exs_evt_errno != 0, "a file that is no more was sent");
    ck_assert_int_lt(event.exs_evt_union.exs_evt_xferfile.exs_evt_length, length);
    close_socket(pair.client_box, pair.client);
    event = inbox_take(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_lt(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
    close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
    close(large);
    free(in);
    folder_remove();
}
END_TEST

/* A small send may already have completed; then the receiver gets the old bytes. */
START_TEST(truncated_small)
{
    int copy = new_file("copy", 10000);
    exs_xferfile_t one = by_fd(copy, 0, 0);
    char in[10000];

    post_file(&one, 1, 0);
    must(ftruncate(copy, 0));
    must(exs_recv(pair.server, in, sizeof in, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    exs_event_t event = inbox_take(pair.client_box, EXS_EVT_SENDFILE, pair.client);
    close_socket(pair.client_box, pair.client);
    exs_event_t received = inbox_take(pair.server_box, EXS_EVT_RECV, pair.server);
    if (event.exs_evt_errno == 0) {
        ck_assert_uint_eq(received.exs_evt_union.exs_evt_xfer.exs_evt_length, sizeof in);
        same_bytes(in, sizeof in, 0);
    }
    close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
    close(copy);
    folder_remove();
}
END_TEST

/* A send of a truncated file does not shut down the stream although its flags request that: the application can
 * send more. */
START_TEST(cut_is_no_end)
{
    size_t length = 64 * MIB;
    int large = new_file("large", (off_t)length);
    exs_xferfile_t one = by_fd(large, 0, 0);
    char *in = new_buffer(length);

    one.exs_xfv.exs_fdv.exs_flags = EXS_SHUT_WR;
    exs_event_t sent = send_and_cut(&one, large, in, length);

    ck_assert_int_eq(sent.exs_evt_errno, EIO);
    inbox_quiet(pair.server_box, QUIET_MS);
    must(exs_send(pair.client, "more", 4, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    close_socket(pair.client_box, pair.client);
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);

    ck_assert_int_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length,
                     sent.exs_evt_union.exs_evt_xferfile.exs_evt_length + 4);
    close_socket(pair.server_box, pair.server);
    pair_close_rest(&pair);
    close(large);
    free(in);
    folder_remove();
}
END_TEST

/* ---- Files that cannot be mapped ------------------------------------------------------- */

/* errno of mmap and of the event: no memory, more memory than may be locked, and a file system without mmap */
static const struct {
    int map, event; /* errno */
} why_not[] = {{ENOMEM, ENOMEM}, {EAGAIN, ENOMEM}, {ENODEV, EIO}, {EPERM, EIO}};

/* Nothing of the file is sent, and the error is the one that exs_sendfile(3) describes. */
START_TEST(not_mapped)
{
    exs_xferfile_t one = by_fd(file, 0, 0);

    map_errno = why_not[_i].map;
    post_file(&one, 1, 0);
    exs_event_t event = take_failed(pair.client_box, EXS_EVT_SENDFILE, pair.client, why_not[_i].event);

    map_errno = 0;
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xferfile.exs_evt_length, 0);
    post_file(&one, 1, 0);
    receive_part(0, FILE_LENGTH);
    file_was_sent(&one, 1, FILE_LENGTH);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sendfile, cut short");
    TCase *cut = add_bare_case(suite, "cut short", 20),
          *cut_mapped = add_bare_case(suite, "cut short, mapped", 20),
          *unmapped = add_bare_case(suite, "not mapped", 20);

    tcase_add_checked_fixture(cut, folder_open, NULL);
    tcase_add_loop_test(cut, truncated, 0, 2);
    tcase_add_test(cut, truncated_small);
    tcase_add_test(cut, cut_is_no_end);
    tcase_add_checked_fixture(cut_mapped, folder_open_mapped, NULL);
    tcase_add_loop_test(cut_mapped, truncated, 0, 2);
    tcase_add_checked_fixture(unmapped, folder_open_mapped, folder_close);
    tcase_add_loop_test(unmapped, not_mapped, 0, COUNT(why_not));
    return run_suite(suite);
}
