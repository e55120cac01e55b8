/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_recvfile_refused.c - exs_recvfile calls that fail: they consume nothing of the stream and keep no
 * descriptor open. Also files that may be written but not read.
 */
#include "receiving.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

/* ---- Calls that fail ----------------------------------------------------------------- */

static void refused_flags(exs_xferfile_t element, int flags, int error)
{
    static uint8_t byte[1];
    exs_xferfile_t vector[2] = {by_memory(byte, 1, NULL), element};

    must_fail(exs_recvfile(pair.server, &element, 1, flags, pair.server_box->queue, NULL), error);
    must_fail(exs_recvfile(pair.server, &element, 1, flags | EXS_BLOCK, NULL, NULL), error);
    must_fail(exs_blocking_recvfile(pair.server, &element, 1, flags), error);
    must_fail(exs_recvfile(pair.server, vector, 2, flags, pair.server_box->queue, NULL), error);
}

static void refused(exs_xferfile_t element, int error)
{
    refused_flags(element, 0, error);
}

static void nothing_was_taken(void)
{
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1000, 1);
}

START_TEST(wrong_ranges)
{
    int file = folder_file(&folder, "file", 100);
    const char *name = folder_path(&folder, "file");

    for (int i = 0; i < 2; i++) {
        refused(i ? by_fd(file, -1, 1) : by_path(name, -1, 1), EINVAL);
        refused(i ? by_fd(file, -1, 0) : by_path(name, -1, 0), EINVAL);
        refused(i ? by_fd(file, INT64_MAX, 1) : by_path(name, INT64_MAX, 1), EINVAL);
        refused(i ? by_fd(file, 1, INT64_MAX) : by_path(name, 1, INT64_MAX), EINVAL);
        refused(i ? by_fd(file, 0, SIZE_MAX) : by_path(name, 0, SIZE_MAX), EINVAL);
        refused(i ? by_fd(file, 0, EXS_FILE_MAX + 1) : by_path(name, 0, EXS_FILE_MAX + 1), EFBIG);
        refused(i ? by_fd(file, 0, EXS_FILE_MAX + 4) : by_path(name, 0, EXS_FILE_MAX + 4), EFBIG);
        refused(i ? by_fd(file, 7, EXS_FILE_MAX + 1) : by_path(name, 7, EXS_FILE_MAX + 1), EFBIG);
    }
    /* no element may follow one without a length */
    exs_xferfile_t vector[] = {by_fd(file, 0, 0), by_fd(file, 0, 10)};

    must_fail(exs_recvfile(pair.server, vector, 2, 0, pair.server_box->queue, NULL), EINVAL);
    vector[0] = vector[1] = by_fd(file, 0, INT64_MAX); /* together more bytes than an event can report */
    must_fail(exs_recvfile(pair.server, vector, 2, EXS_BIGFILE, pair.server_box->queue, NULL), EINVAL);
    nothing_was_taken();
    file_has_length(file, 100);
    close(file);
}
END_TEST

START_TEST(wrong_elements)
{
    int file = folder_file(&folder, "file", 100), only = open(folder_path(&folder, "file"), O_RDONLY),
        appends = open(folder_path(&folder, "file"), O_RDWR | O_APPEND),
        place = open(folder_path(&folder, "file"), O_PATH);
    uint8_t memory[100];
    exs_mhandle_t region = exs_mregister(memory, sizeof memory, EXS_MRF_RECV_DISABLE);
    exs_xferfile_t flagged = by_fd(file, 0, 10);
    char long_name[PATH_MAX + 1];

    memset(long_name, 'x', PATH_MAX);
    long_name[PATH_MAX] = 0;
    refused(by_fd(-1, 0, 10), EINVAL);
    refused(by_fd(19999, 0, 10), EINVAL);
    refused(by_fd(only, 0, 10), EACCES);
    refused(by_fd(place, 0, 10), EACCES);
    refused(by_fd(appends, 0, 10), EINVAL);
    refused(by_path(NULL, 0, 10), EINVAL);
    refused(by_path("", 0, 10), EINVAL);
    refused(by_path("/no/such/file", 0, 10), ENOENT);
    refused(by_path("/proc/self/stat/us", 0, 10), ENOTDIR);
    refused(by_path(long_name, 0, 10), ENAMETOOLONG);
    refused(by_memory(NULL, 10, NULL), EINVAL);
    refused(by_memory(memory, EXS_MSG_MAX + 1, NULL), EINVAL);
    refused(by_memory(memory, 10, EXS_MHANDLE_INVALID), EINVAL);
    refused(by_memory(memory, 10, region), EACCES);
    flagged.exs_xfv.exs_fdv.exs_flags = EXS_SHUT_WR;
    refused(flagged, EINVAL);
    flagged = by_fd(file, 0, 10);
    flagged.exs_xfv_type = 0;
    refused(flagged, EINVAL);
    refused_flags(by_fd(file, 0, 10), EXS_UNSIGNALED, EINVAL);
    refused_flags(by_fd(file, 0, 10), MSG_WAITALL, EINVAL);
    exs_xferfile_t empty[] = {by_memory(memory, 0, NULL), by_memory(memory, 0, NULL)};

    must_fail(exs_recvfile(pair.server, empty, 2, 0, pair.server_box->queue, NULL), EINVAL);
    nothing_was_taken();
    must(exs_mderegister(region, 0));
    close(file);
    close(only);
    close(appends);
    close(place);
}
END_TEST

START_TEST(not_a_file)
{
    int ends[2], pipes[2], null = open("/dev/null", O_RDWR), directory = open(folder.path, O_RDONLY);
    char fifo[200];

    must(pipe(pipes));
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    snprintf(fifo, sizeof fifo, "%s", folder_path(&folder, "fifo"));
    must(mkfifo(fifo, 0600));
    int watch = file_watch_opens(fifo);
    refused(by_fd(ends[0], 0, 10), ENODEV);
    refused(by_fd(pipes[1], 0, 10), ENODEV);
    refused(by_fd(null, 0, 10), ENODEV);
    refused(by_fd(directory, 0, 10), ENODEV);
    refused(by_fd(pair.server, 0, 10), ENODEV);
    refused(by_path(folder.path, 0, 10), EISDIR);
    refused(by_path(fifo, 0, 10), ENODEV); /* and does not wait for a reader */
    ck_assert(!file_was_opened(watch));    /* opening it would wake a process that waits at the other end */
    must(close(open(fifo, O_RDWR | O_CLOEXEC)));
    ck_assert(file_was_opened(watch));
    close(watch);
    refused(by_path("/dev/null", 0, 10), ENODEV);
    nothing_was_taken();
    close(null);
    close(directory);
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(pipes[i]);
    }
}
END_TEST

/* Neither a call that fails nor a receive that has completed keeps a descriptor open. */
START_TEST(no_descriptor_stays)
{
    int file = folder_file(&folder, "file", 0), before = count_fds();
    exs_xferfile_t good[] = {by_fd(file, 0, 100), by_path(folder_path(&folder, "file"), 100, 100)};
    exs_xferfile_t bad[] = {good[0], good[1], by_path("", 0, 1)};

    for (int i = 0; i < 3; i++) {
        must_fail(exs_recvfile(pair.server, bad, 3, 0, pair.server_box->queue, NULL), EINVAL);
        receive_files(good, 2, 0);
        uint8_t *bytes = send_pattern(200, 0);

        take_good(pair.server_box, EXS_EVT_RECVFILE, pair.server);
        take_good(pair.client_box, EXS_EVT_SEND, pair.client);
        free(bytes);
        ck_assert_int_le(count_fds(), before); /* queues may close some of their descriptors */
    }
    close(file);
}
END_TEST

/* The element of a message needs a length. */
START_TEST(message_without_end)
{
    struct pair on;
    int file = folder_file(&folder, "file", 0);
    exs_xferfile_t open_ended = by_fd(file, 0, 0);

    pair_open(&on, AF_INET, SOCK_SEQPACKET);
    must_fail(exs_recvfile(on.server, &open_ended, 1, 0, on.server_box->queue, NULL), EINVAL);
    pair_close(&on);
    close(file);
}
END_TEST

/* A path that may be written and not read. Root may do both. */
START_TEST(write_only_path)
{
    int file = folder_file(&folder, "file", 0);
    exs_xferfile_t one = by_path(folder_path(&folder, "file"), 0, 100000);
    uint8_t *bytes;

    must(fchmod(file, 0200));
    receive_files(&one, 1, 0);
    bytes = send_pattern(100000, 0);
    take_good(pair.server_box, EXS_EVT_RECVFILE, pair.server);
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    file_has_pattern(file, 0, 100000, SEED, 0);
    must(fchmod(file, 0400));
    if (geteuid() != 0)
        refused(one, EACCES);
    free(bytes);
    close(file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recvfile, refused");
    TCase *not = add_bare_case(suite, "what is refused", 20);

    tcase_add_checked_fixture(not, open_all, close_all);
    tcase_add_test(not, wrong_ranges);
    tcase_add_test(not, wrong_elements);
    tcase_add_test(not, not_a_file);
    tcase_add_test(not, no_descriptor_stays);
    tcase_add_test(not, message_without_end);
    tcase_add_test(not, write_only_path);
    return run_suite(suite);
}
