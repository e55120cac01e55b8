/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_recvfile_large.c - exs_recvfile with large numbers: elements around 1 GiB, files beyond 4 GiB, sparse
 * files. Tests that move few bytes always run; those that move many run only if EXS_LONG is set.
 */
#include "receiving.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define GIB ((off_t)1 << 30)

static void receive_file(exs_xferfile_t *element, int flags)
{
    must(exs_recvfile(pair.server, element, 1, flags, pair.server_box->queue, element));
}

static exs_event_t came(int error, off_t length)
{
    exs_event_t event = inbox_take(pair.server_box, EXS_EVT_RECVFILE, pair.server);

    ck_assert_int_eq(event.exs_evt_errno, error);
    ck_assert_int_eq(event.exs_evt_union.exs_evt_xferfile.exs_evt_length, length);
    return event;
}

static void send_bytes(size_t length)
{
    uint8_t *bytes = new_buffer(length);

    pattern_fill(bytes, length, SEED, 0);
    must(exs_send(pair.client, bytes, length, 0, pair.client_box->queue, NULL, NULL));
    take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    free(bytes);
}

/* ---- Few bytes ----------------------------------------------------------------------- */

/* An element without a length receives no more than the longest possible file can hold. More bytes are EFBIG,
 * and the next receive gets them; an end of stream at that place is no error. */
START_TEST(no_room_behind)
{
    const off_t last = INT64_MAX - 10;
    bool more = _i == 0;
    int file = memfd_create("exs-long", MFD_CLOEXEC);
    exs_xferfile_t element = by_fd(file, last, 0);
    uint8_t in[10];

    must(file);
    receive_file(&element, EXS_BIGFILE);
    send_bytes(more ? 20 : 10);
    if (!more)
        inbox_quiet(pair.server_box, QUIET_MS);
    if (more) {
        came(EFBIG, 10);
        must(exs_recv(pair.server, in, 10, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        pattern_check(in, 10, SEED, 10);
    } else {
        must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
        take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
        exs_event_t event = came(0, 10);

        ck_assert_int_eq(event.exs_evt_union.exs_evt_xferfile.exs_evt_flags, EXS_EOF);
    }
    file_has_length(file, INT64_MAX);
    file_has_pattern(file, last, 10, SEED, 0);
    close(file);
}
END_TEST

/* The longest element without EXS_BIGFILE, and longer ones with it; the stream ends early. */
START_TEST(longest_asked_for)
{
    static const off_t more[] = {-1, 0, 1, 4, 4 * GIB};
    int file = folder_file(&folder, "file", 0);
    exs_xferfile_t element = by_fd(file, 3, (size_t)(GIB + more[_i]));

    if (more[_i] > 0)
        must_fail(exs_recvfile(pair.server, &element, 1, 0, pair.server_box->queue, NULL), EFBIG);
    receive_file(&element, more[_i] > 0 ? EXS_BIGFILE : 0);
    send_bytes(100000);
    must(exs_shutdown(pair.client, SHUT_WR, 0, pair.client_box->queue, NULL));
    take_good(pair.client_box, EXS_EVT_SHUTDOWN, pair.client);
    came(0, 100000);
    file_has_length(file, 100003);
    file_has_pattern(file, 3, 100000, SEED, 0);
    close(file);
}
END_TEST

/* ---- Many bytes: EXS_LONG ------------------------------------------------------------ */

static int sparse_file(const char *name, off_t length)
{
    int file = folder_file(&folder, name, length);

    for (off_t at = 0; at < length; at += 500 * (off_t)MIB + 12345)
        ck_assert_int_eq(pwrite(file, &at, sizeof at, at), sizeof at);
    ck_assert_int_eq(pwrite(file, "end", 3, length - 3), 3);
    return file;
}

/* Returns a checksum of the file's bytes, which depends on their order. */
static uint64_t digest(int file)
{
    uint64_t *bytes = malloc(4 * MIB), sum = UINT64_C(0xcbf29ce484222325);
    off_t at = 0;
    ssize_t got;

    ck_assert_ptr_nonnull(bytes);
    while ((got = pread(file, bytes, 4 * MIB, at)) > 0) {
        memset((uint8_t *)bytes + got, 0, (size_t)(-got & 7));
        for (ssize_t i = 0; i < (got + 7) / 8; i++)
            sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
        at += got;
    }
    must(got);
    free(bytes);
    return sum ^ (uint64_t)at;
}

static const struct {
    off_t length;
    bool open_ended;
    int flags;
} larges[] = {
    {GIB - 1, false, 0},
    {GIB, false, 0},
    {GIB, true, 0},
    {GIB + 1, false, EXS_BIGFILE},
    {GIB + 4, true, EXS_BIGFILE},
    {5 * GIB + 4099, true, EXS_BIGFILE},
};

START_TEST(sparse)
{
    off_t length = larges[_i].length;
    int from = sparse_file("from", length), to = folder_file(&folder, "to", 0);
    exs_xferfile_t all = by_fd(from, 0, 0), element = by_fd(to, 0, larges[_i].open_ended ? 0 : (size_t)length);
    double begun = seconds_now();

    all.exs_xfv.exs_fdv.exs_flags = EXS_SHUT_WR;
    receive_file(&element, larges[_i].flags);
    must(exs_sendfile(pair.client, &all, 1, EXS_BIGFILE, pair.client_box->queue, NULL));
    exs_event_t event = came(0, length);

    ck_assert_int_eq(event.exs_evt_union.exs_evt_xferfile.exs_evt_flags, larges[_i].open_ended ? EXS_EOF : 0);
    printf("%.0f MiB in %.1f s\n", (double)length / (double)MIB, seconds_now() - begun);
    take_good(pair.client_box, EXS_EVT_SENDFILE, pair.client);
    file_has_length(to, length);
    ck_assert_uint_eq(digest(from), digest(to));
    close(from);
    close(to);
}
END_TEST

/* One byte more than an element without a length receives without EXS_BIGFILE: EFBIG, and the next receive gets
 * that byte. */
START_TEST(one_byte_more)
{
    int from = sparse_file("from", GIB + 1), to = folder_file(&folder, "to", 0);
    exs_xferfile_t all = by_fd(from, 0, 0), element = by_fd(to, 0, 0);
    char last;

    receive_file(&element, 0);
    must(exs_sendfile(pair.client, &all, 1, EXS_BIGFILE, pair.client_box->queue, NULL));
    came(EFBIG, GIB);
    must(exs_recv(pair.server, &last, 1, 0, pair.server_box->queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_int_eq(last, 'd');
    take_good(pair.client_box, EXS_EVT_SENDFILE, pair.client);
    must(ftruncate(from, GIB));
    file_has_length(to, GIB);
    ck_assert_uint_eq(digest(from), digest(to));
    close(from);
    close(to);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recvfile, large");
    TCase *little = add_bare_case(suite, "large numbers", 20), *much = add_bare_case(suite, "large files", 300);

    tcase_add_checked_fixture(little, open_all, close_all);
    tcase_add_loop_test(little, no_room_behind, 0, 2);
    tcase_add_loop_test(little, longest_asked_for, 0, 5);
    tcase_add_checked_fixture(much, open_all, close_all);
    if (getenv("EXS_LONG") != NULL) {
        tcase_add_loop_test(much, sparse, 0, COUNT(larges));
        tcase_add_test(much, one_byte_more);
    }
    return run_suite(suite);
}
