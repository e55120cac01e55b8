/* SPDX-License-Identifier: BSD-2-Clause */
/* test_sendfile_refused.c - exs_sendfile calls that fail: they send nothing at all. */
#include "sending.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* A file that is open for writing only, or with O_PATH. The call fails, and the connection continues. */
START_TEST(opened_for_something_else)
{
    static const size_t lengths[] = {1, 8192, 100000};
    char name[220];

    snprintf(name, sizeof name, "%s/file", folder);
    int other = open(name, (_i == 0 ? O_WRONLY : O_PATH) | O_CLOEXEC);

    must(other);
    for (int i = 0; i < COUNT(lengths); i++) {
        exs_xferfile_t one = by_fd(other, 0, lengths[i]);

        must_fail(exs_sendfile(pair.client, &one, 1, 0, pair.client_box->queue, NULL), EACCES);
    }
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1000, 1);
    close(other);
}
END_TEST

/* Each element is short enough, but the sum of their lengths overflows. */
START_TEST(too_long_together)
{
    int sparse = memfd_create("sparse", MFD_CLOEXEC);
    exs_xferfile_t vector[] = {by_fd(sparse, 0, 0), by_fd(sparse, 0, 0), by_fd(sparse, 0, 2)};

    must(ftruncate(sparse, INT64_MAX));
    must_fail(exs_sendfile(pair.client, vector, 3, EXS_BIGFILE, pair.client_box->queue, NULL), EINVAL);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1000, 1);
    close(sparse);
}
END_TEST

static void refused(exs_xferfile_t element, int error)
{
    exs_xferfile_t vector[2] = {by_fd(file, 0, 0), element};

    must_fail(exs_sendfile(pair.client, &element, 1, 0, pair.client_box->queue, NULL), error);
    must_fail(exs_sendfile(pair.client, &element, 1, EXS_BLOCK, NULL, NULL), error);
    must_fail(exs_sendfile(pair.client, &element, 1, EXS_UNSIGNALED, NULL, NULL), error);
    must_fail(exs_blocking_sendfile(pair.client, &element, 1, 0), error);
    /* one invalid element: nothing of the others is sent either */
    must_fail(exs_sendfile(pair.client, vector, 2, 0, pair.client_box->queue, NULL), error);
}

static void nothing_came(void)
{
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1000, 1);
}

START_TEST(wrong_ranges)
{
    char name[220];

    snprintf(name, sizeof name, "%s/file", folder);
    for (int i = 0; i < 2; i++) {
        refused(i ? by_fd(file, 0, FILE_LENGTH + 1) : by_path(name, 0, FILE_LENGTH + 1), EINVAL);
        refused(i ? by_fd(file, 1, FILE_LENGTH) : by_path(name, 1, FILE_LENGTH), EINVAL);
        refused(i ? by_fd(file, FILE_LENGTH + 1, 0) : by_path(name, FILE_LENGTH + 1, 0), EINVAL);
        refused(i ? by_fd(file, FILE_LENGTH + 1, 1) : by_path(name, FILE_LENGTH + 1, 1), EINVAL);
        refused(i ? by_fd(file, -1, 1) : by_path(name, -1, 1), EINVAL);
        refused(i ? by_fd(file, -1, 0) : by_path(name, -1, 0), EINVAL);
        refused(i ? by_fd(file, INT64_MAX, 1) : by_path(name, INT64_MAX, 1), EINVAL);
    }
    nothing_came();
}
END_TEST

START_TEST(wrong_elements)
{
    exs_xferfile_t flagged = by_fd(file, 0, 0);
    char long_name[PATH_MAX + 1];

    memset(long_name, 'x', PATH_MAX);
    long_name[PATH_MAX] = 0;
    refused(by_fd(-1, 0, 0), EINVAL);
    refused(by_fd(19999, 0, 0), EINVAL);
    refused(by_path(NULL, 0, 0), EINVAL);
    refused(by_path("", 0, 0), EINVAL);
    refused(by_path("/no/such/file", 0, 0), ENOENT);
    refused(by_path("/proc/self/stat/us", 0, 0), ENOTDIR);
    refused(by_path(long_name, 0, 0), ENAMETOOLONG);
    refused(by_memory(NULL, 10, NULL), EINVAL);
    flagged.exs_xfv.exs_fdv.exs_flags = 64;
    refused(flagged, EINVAL);
    flagged.exs_xfv_type = 0;
    refused(flagged, EINVAL);
    nothing_came();
}
END_TEST

/* Only regular files can be sent. The error for the path of a directory is EISDIR. */
START_TEST(not_a_file)
{
    int ends[2], pipes[2], null = open("/dev/null", O_RDWR), directory = open(folder, O_RDONLY);
    char fifo[220];

    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    must(pipe(pipes));
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    must(mkfifo(fifo, 0600));
    int watch = file_watch_opens(fifo);
    refused(by_fd(ends[0], 0, 0), ENODEV);
    refused(by_fd(pipes[0], 0, 0), ENODEV);
    refused(by_fd(null, 0, 0), ENODEV);
    refused(by_fd(directory, 0, 0), ENODEV);
    refused(by_fd(pair.server, 0, 0), ENODEV);
    refused(by_path(folder, 0, 0), EISDIR);
    refused(by_path(fifo, 0, 0), ENODEV); /* and does not wait for a writer */
    ck_assert(!file_was_opened(watch));   /* opening it would wake a process that waits at the other end */
    must(close(open(fifo, O_RDWR | O_CLOEXEC)));
    ck_assert(file_was_opened(watch));
    close(watch);
    refused(by_path("/dev/null", 0, 0), ENODEV);
    nothing_came();
    must(unlink(fifo));
    close(null);
    close(directory);
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(pipes[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sendfile, what is refused");
    TCase *not = add_bare_case(suite, "what is refused", 20);

    tcase_add_checked_fixture(not, folder_open, folder_close);
    tcase_add_loop_test(not, opened_for_something_else, 0, 2);
    tcase_add_test(not, too_long_together);
    tcase_add_test(not, wrong_ranges);
    tcase_add_test(not, wrong_elements);
    tcase_add_test(not, not_a_file);
    return run_suite(suite);
}
