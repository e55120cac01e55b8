/* SPDX-License-Identifier: BSD-2-Clause */
/* test_sendfile_large.c - exs_sendfile: the longest file that is sent without EXS_BIGFILE, and longer ones. */
#include "sending.h"

static void *receive_large(void *arg)
{
    off_t length = *(off_t *)arg;
    size_t most = 4 * MIB;
    char *in = new_buffer(most);

    for (off_t at = 0; at < length;) {
        size_t part = length - at < (off_t)most ? (size_t)(length - at) : most;
        ck_assert_int_eq(exs_blocking_recv(pair.server, in, part, MSG_WAITALL, NULL), part);
        same_bytes(in + 1, part - 2, 0);
        at += (off_t)part;
        ck_assert_int_eq(in[0], at == (off_t)part ? 'a' : 0);
        ck_assert_int_eq(in[part - 1], at == length ? 'z' : 0);
    }
    free(in);
    return NULL;
}

static void send_large(off_t length, int flags)
{
    int large = new_file("large", length);
    exs_xferfile_t one = by_fd(large, 0, 0);

    ck_assert_int_eq(pwrite(large, "a", 1, 0), 1);
    ck_assert_int_eq(pwrite(large, "z", 1, length - 1), 1);
    pthread_t thread = thread_start(receive_large, &length);
    post_file(&one, 1, flags);
    close(large);
    file_was_sent(&one, 1, length);
    thread_join(thread);
}

START_TEST(largest_file)
{
    send_large((off_t)EXS_FILE_MAX, 0);
}
END_TEST

START_TEST(larger_file)
{
    send_large((off_t)EXS_FILE_MAX + 12345, EXS_BIGFILE);
}
END_TEST

START_TEST(too_large)
{
    int large = new_file("large", (off_t)EXS_FILE_MAX + 1);
    exs_xferfile_t files[] = {by_fd(large, 0, 0), by_path(path, 0, 0), by_fd(large, 0, EXS_FILE_MAX + 1)},
                   part = by_fd(large, (off_t)EXS_FILE_MAX, 0);

    for (int i = 0; i < COUNT(files); i++) {
        must_fail(exs_sendfile(pair.client, &files[i], 1, 0, pair.client_box->queue, NULL), EFBIG);
        must_fail(exs_sendfile(pair.client, &files[i], 1, EXS_BLOCK, NULL, NULL), EFBIG);
        must_fail(exs_blocking_sendfile(pair.client, &files[i], 1, 0), EFBIG);
    }
    post_file(&part, 1, 0); /* a range of a large file may be short */
    free(receive(1));
    file_was_sent(&part, 1, 1);
    close(large);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sendfile, large files");
    TCase *large = add_bare_case(suite, "large files", 60);

    tcase_add_checked_fixture(large, folder_open, folder_close);
    tcase_add_test(large, largest_file);
    tcase_add_test(large, larger_file);
    tcase_add_test(large, too_large);
    return run_suite(suite);
}
