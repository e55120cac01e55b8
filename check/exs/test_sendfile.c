/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_sendfile.c - exs_sendfile: elements are files by descriptor, files by path, and memory. Tests where
 * ranges start and end, and files that are closed, or sent again, while they are sent.
 */
#include "sending.h"

#include <fcntl.h>

static const struct range {
    off_t offset;
    size_t length;
} ranges[] = {
    {0, 0},
    {0, FILE_LENGTH},
    {0, 1},
    {1, 1},
    {FILE_LENGTH - 1, 0},
    {FILE_LENGTH - 1, 1},
    {1, 0},
    {4095, 2},
    {4096, 4096},
    {4097, 8191},
    {65535, 100000},
    {12345, 0},
    {8192, 1},
    {FILE_LENGTH / 2, 0},
    {299999, 2},
};

START_TEST(every_range)
{
    char name[220];

    snprintf(name, sizeof name, "%s/file", folder);
    for (int i = 0; i < 2 * COUNT(ranges); i++) {
        const struct range *r = &ranges[i / 2];
        size_t length = r->length ? r->length : FILE_LENGTH - (size_t)r->offset;
        exs_xferfile_t one = i % 2 ? by_fd(file, r->offset, r->length) : by_path(name, r->offset, r->length);
        post_file(&one, 1, 0);
        receive_part((uint64_t)r->offset, length);
        file_was_sent(&one, 1, (off_t)length);
    }
    ck_assert_int_eq(lseek(file, 0, SEEK_CUR), FILE_LENGTH); /* where the fixture left it */
}
END_TEST

/* A file opened with O_DIRECT: reads must be of whole blocks, into aligned memory. */
START_TEST(opened_for_whole_blocks)
{
    char name[220];

    snprintf(name, sizeof name, "%s/file", folder);
    int direct = open(name, O_RDONLY | O_DIRECT | O_CLOEXEC);

    if (direct == -1 && errno == EINVAL)
        return; /* the file system does not support O_DIRECT */
    must(direct);
    for (int i = 0; i < COUNT(ranges); i++) {
        exs_xferfile_t one = by_fd(direct, ranges[i].offset, ranges[i].length);
        size_t length = ranges[i].length != 0 ? ranges[i].length : FILE_LENGTH - (size_t)ranges[i].offset;

        post_file(&one, 1, 0);
        receive_part((uint64_t)ranges[i].offset, length);
        file_was_sent(&one, 1, (off_t)length);
    }
    close(direct);
}
END_TEST

START_TEST(receiver_first)
{
    exs_xferfile_t one = by_fd(file, 0, 0);
    char *in = new_buffer(FILE_LENGTH);

    must(exs_recv(pair.server, in, FILE_LENGTH, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    post_file(&one, 1, 0);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    file_was_sent(&one, 1, (off_t)FILE_LENGTH);
    pattern_check(in, FILE_LENGTH, FILE_SEED, 0);
    free(in);
}
END_TEST

START_TEST(nothing_to_send)
{
    int empty = new_file("empty", 0);
    exs_xferfile_t vectors[] = {by_fd(empty, 0, 0), by_path(path, 0, 0), by_fd(file, (off_t)FILE_LENGTH, 0)};

    for (int i = 0; i < COUNT(vectors); i++) {
        post_file(&vectors[i], 1, 0);
        file_was_sent(&vectors[i], 1, 0);
        ck_assert_int_eq(exs_blocking_sendfile(pair.client, &vectors[i], 1, 0), 0);
    }
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 10, 1);
    close(empty);
}
END_TEST

/* Registered and unregistered memory, files by descriptor and by path, and an empty file. */
START_TEST(mixture)
{
    char memory[5000], name[220];
    exs_mhandle_t region = exs_mregister(memory, sizeof memory, EXS_MRF_RECV_DISABLE);
    int empty = new_file("empty", 0);

    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    snprintf(name, sizeof name, "%s/file", folder);
    pattern_fill(memory, sizeof memory, FILE_SEED, 0);
    exs_xferfile_t vector[] = {by_memory(memory, 5000, region), by_fd(file, 5000, 95000),
                               by_path(name, 100000, 1),        by_fd(empty, 0, 0),
                               by_path(name, 100001, 0),        by_memory(memory, 1, NULL)};
    post_file(vector, COUNT(vector), 0);
    receive_part(0, FILE_LENGTH);
    receive_part(0, 1);
    file_was_sent(vector, COUNT(vector), (off_t)FILE_LENGTH + 1);
    must(exs_mderegister(region, 0));
    close(empty);
}
END_TEST

START_TEST(as_many_elements_as_may_be)
{
    exs_xferfile_t vector[EXS_XFV_MAX];
    size_t part = 997;

    for (int i = 0; i < EXS_XFV_MAX; i++)
        vector[i] = by_fd(file, i * (off_t)part, part);
    post_file(vector, EXS_XFV_MAX, 0);
    receive_part(0, EXS_XFV_MAX * part);
    file_was_sent(vector, EXS_XFV_MAX, (off_t)(EXS_XFV_MAX * part));
}
END_TEST

START_TEST(shut_down_after_it)
{
    exs_xferfile_t vector[] = {by_fd(file, 0, 0), by_fd(file, 0, 10)};
    char byte;

    vector[1].exs_xfv.exs_fdv.exs_flags = EXS_SHUT_WR;
    post_file(vector, 2, 0);
    must_fail(exs_send(pair.client, "x", 1, 0, pair.client_box->queue, NULL, NULL), EPIPE);
    receive_part(0, FILE_LENGTH);
    receive_part(0, 10);
    file_was_sent(vector, 2, (off_t)FILE_LENGTH + 10);
    must(exs_recv(pair.server, &byte, 1, 0, pair.server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 0);
    must_fail(exs_sendfile(pair.client, vector, 1, 0, pair.client_box->queue, NULL), EPIPE);
    pass_bytes(pair.server_box, pair.server, pair.client_box, pair.client, 10, 1);
}
END_TEST

START_TEST(unsignaled)
{
    exs_xferfile_t one = by_fd(file, 0, 0);

    must(exs_sendfile(pair.client, &one, 1, EXS_UNSIGNALED, NULL, NULL));
    receive_part(0, FILE_LENGTH);
    post_file(&one, 1, EXS_UNSIGNALED);
    receive_part(0, FILE_LENGTH);
}
END_TEST

/* The same file is sent again immediately. The descriptor may be closed when the call has returned
 * (descriptor_closed). */
START_TEST(same_file_twice)
{
    exs_xferfile_t one = by_fd(file, 0, 0), two = by_fd(file, 0, 0);

    post_file(&one, 1, 0);
    post_file(&two, 1, 0);
    receive_part(0, FILE_LENGTH);
    receive_part(0, FILE_LENGTH);
    file_was_sent(&one, 1, (off_t)FILE_LENGTH);
    file_was_sent(&two, 1, (off_t)FILE_LENGTH);
}
END_TEST

START_TEST(descriptor_closed)
{
    int copy = dup(file);
    exs_xferfile_t files[8];

    for (int i = 0; i < COUNT(files); i++) {
        files[i] = by_fd(copy, 0, 0);
        post_file(&files[i], 1, 0);
    }
    close(copy);
    for (int i = 0; i < COUNT(files); i++) {
        receive_part(0, FILE_LENGTH);
        file_was_sent(&files[i], 1, (off_t)FILE_LENGTH);
    }
}
END_TEST

static void *receive_twice(void *arg)
{
    (void)arg;
    char *in = new_buffer(FILE_LENGTH);

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(exs_blocking_recv(pair.server, in, FILE_LENGTH, MSG_WAITALL, NULL), FILE_LENGTH);
        pattern_check(in, FILE_LENGTH, FILE_SEED, 0);
    }
    free(in);
    return NULL;
}

START_TEST(blocking)
{
    exs_xferfile_t one = by_fd(file, 0, 0);
    pthread_t thread = thread_start(receive_twice, NULL);

    ck_assert_int_eq(exs_sendfile(pair.client, &one, 1, EXS_BLOCK, NULL, NULL), 0);
    ck_assert_int_eq(exs_blocking_sendfile(pair.client, &one, 1, 0), 0);
    thread_join(thread);
}
END_TEST

/* One element is one packet. */
START_TEST(packet)
{
    struct pair packets;
    exs_xferfile_t one = by_fd(file, 1, 100000);
    char *in = new_buffer(FILE_LENGTH);

    pair_open(&packets, AF_INET, SOCK_SEQPACKET);
    must(exs_recv(packets.server, in, FILE_LENGTH, 0, packets.server_box->queue, NULL, NULL));
    must(exs_sendfile(packets.client, &one, 1, 0, packets.client_box->queue, NULL));
    exs_event_t event = take_good(packets.server_box, EXS_EVT_RECV, packets.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 100000);
    take_good(packets.client_box, EXS_EVT_SENDFILE, packets.client);
    pattern_check(in, 100000, FILE_SEED, 1);
    pair_close(&packets);
    free(in);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sendfile");
    TCase *sent = add_bare_case(suite, "what is sent", 20), *mapped = add_bare_case(suite, "mapped", 20);

    tcase_add_checked_fixture(sent, folder_open, folder_close);
    tcase_add_test(sent, every_range);
    tcase_add_test(sent, opened_for_whole_blocks);
    tcase_add_test(sent, receiver_first);
    tcase_add_test(sent, nothing_to_send);
    tcase_add_test(sent, mixture);
    tcase_add_test(sent, as_many_elements_as_may_be);
    tcase_add_test(sent, shut_down_after_it);
    tcase_add_test(sent, unsignaled);
    tcase_add_test(sent, same_file_twice);
    tcase_add_test(sent, descriptor_closed);
    tcase_add_test(sent, blocking);
    tcase_add_test(sent, packet);
    tcase_add_checked_fixture(mapped, folder_open_mapped, folder_close);
    tcase_add_test(mapped, every_range);
    tcase_add_test(mapped, mixture);
    return run_suite(suite);
}
