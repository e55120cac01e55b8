/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_sendfile.c - exs_sendfile: files by descriptor and by path, memory, mixtures; where a range may
 * begin and end; what is refused; and files that are closed, changed or cut short while they are sent.
 */
#include "check/support/files.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#define FILE_LENGTH ((size_t)300001)
#define FILE_SEED 77

static struct pair pair; /* of the running test, made by the fixture */
static char folder[100], path[200];
static int file; /* open, FILE_LENGTH bytes of pattern */

static int new_file(const char *name, off_t length)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    must(fd);
    must(ftruncate(fd, length));
    return fd;
}

static void folder_open(void)
{
    const char *where = getenv("TMPDIR");
    char *bytes = new_buffer(FILE_LENGTH);

    init_library();
    snprintf(folder, sizeof folder, "%s/exs-check-XXXXXX", where && strlen(where) < 50 ? where : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    file = new_file("file", 0);
    pattern_fill(bytes, FILE_LENGTH, FILE_SEED, 0);
    ck_assert_int_eq(write(file, bytes, FILE_LENGTH), FILE_LENGTH);
    free(bytes);
    pair_open(&pair, AF_INET, SOCK_STREAM);
}

/* On the embedded device, too, which reads files by itself unless it is told to. */
static void folder_open_mapped(void)
{
    setenv("EXS_MAP", "1", 1);
    folder_open();
}

static void folder_remove(void)
{
    close(file);
    unlink(path);
    snprintf(path, sizeof path, "%s/file", folder);
    unlink(path);
    must(rmdir(folder));
}

static void folder_close(void)
{
    inbox_quiet(pair.client_box, QUIET_MS); /* no call that failed left an event */
    pair_close(&pair);
    folder_remove();
}

static void post_file(exs_xferfile_t *vector, int count, int flags)
{
    must(exs_sendfile(pair.client, vector, count, flags, pair.client_box->queue, vector));
}

static void file_was_sent(const exs_xferfile_t *vector, int count, off_t length)
{
    exs_event_t event = take_good(pair.client_box, EXS_EVT_SENDFILE, pair.client);
    const exs_evt_xferfile_t *done = &event.exs_evt_union.exs_evt_xferfile;

    ck_assert_ptr_eq(event.exs_evt_ahandle, vector);
    ck_assert_ptr_eq(done->exs_evt_vec, vector);
    ck_assert_int_eq(done->exs_evt_vec_cnt, count);
    ck_assert_int_eq(done->exs_evt_length, length);
}

static char *receive(size_t length)
{
    char *in = new_buffer(length + 1);

    must(exs_recv(pair.server, in, length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, length);
    return in;
}

static void receive_part(uint64_t at, size_t length)
{
    char *in = receive(length);

    pattern_check(in, length, FILE_SEED, at);
    free(in);
}

/* ---- What is sent -------------------------------------------------------------------- */

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

/* Which reads whole blocks only, to memory that begins at one. */
START_TEST(opened_for_whole_blocks)
{
    char name[220];

    snprintf(name, sizeof name, "%s/file", folder);
    int direct = open(name, O_RDONLY | O_DIRECT | O_CLOEXEC);

    if (direct == -1 && errno == EINVAL)
        return; /* a file system that has no such thing */
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

/* To write, or only to name it: nothing begins, and the connection goes on. */
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

/* Memory, registered and not, files by both names and a file with nothing in it. */
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

/* The same file again, at once; and the descriptor closed as soon as the call has returned. */
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

/* ---- Large files --------------------------------------------------------------------- */

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
    post_file(&part, 1, 0); /* the file may be large where the part is not */
    free(receive(1));
    file_was_sent(&part, 1, 1);
    close(large);
}
END_TEST

/* ---- What is refused ----------------------------------------------------------------- */

static void refused(exs_xferfile_t element, int error)
{
    exs_xferfile_t vector[2] = {by_fd(file, 0, 0), element};

    must_fail(exs_sendfile(pair.client, &element, 1, 0, pair.client_box->queue, NULL), error);
    must_fail(exs_sendfile(pair.client, &element, 1, EXS_BLOCK, NULL, NULL), error);
    must_fail(exs_sendfile(pair.client, &element, 1, EXS_UNSIGNALED, NULL, NULL), error);
    must_fail(exs_blocking_sendfile(pair.client, &element, 1, 0), error);
    /* One bad element, and nothing at all is sent */
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

/* Only a file that can be mapped; and what has the name of a folder is told so. */
START_TEST(not_a_file)
{
    int ends[2], pipes[2], null = open("/dev/null", O_RDWR), directory = open(folder, O_RDONLY);
    char fifo[220];

    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    must(pipe(pipes));
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    must(mkfifo(fifo, 0600));
    refused(by_fd(ends[0], 0, 0), ENODEV);
    refused(by_fd(pipes[0], 0, 0), ENODEV);
    refused(by_fd(null, 0, 0), ENODEV);
    refused(by_fd(directory, 0, 0), ENODEV);
    refused(by_fd(pair.server, 0, 0), ENODEV);
    refused(by_path(folder, 0, 0), EISDIR);
    refused(by_path(fifo, 0, 0), ENODEV); /* and does not wait for a writer */
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

/* ---- A file that is cut short while it waits to be sent ------------------------------ */

/* Receive until the transfer has its event, which must be an error and must not be a SIGBUS. */
START_TEST(truncated)
{
    size_t length = 64 * MIB;
    int large = new_file("large", (off_t)length);
    exs_xferfile_t one = _i ? by_path(path, 0, 0) : by_fd(large, 0, 0);
    char *in = new_buffer(length);
    exs_event_t event = {0};

    post_file(&one, 1, 0);
    inbox_quiet(pair.client_box, 20);
    must(ftruncate(large, 0));
    must(exs_recv(pair.server, in, length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    event = inbox_take(pair.client_box, EXS_EVT_SENDFILE, pair.client);
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

/* A small transfer may be over already; then what came must be what was there. */
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

int main(void)
{
    Suite *suite = suite_create("sendfile");
    TCase *sent = add_bare_case(suite, "what is sent", 20), *mapped = add_bare_case(suite, "mapped", 20),
          *large = add_bare_case(suite, "large files", 60), *not = add_bare_case(suite, "what is refused", 20),
          *cut = add_bare_case(suite, "cut short", 20),
          *cut_mapped = add_bare_case(suite, "cut short, mapped", 20);

    tcase_add_checked_fixture(sent, folder_open, folder_close);
    tcase_add_test(sent, every_range);
    tcase_add_test(sent, opened_for_whole_blocks);
    tcase_add_loop_test(sent, opened_for_something_else, 0, 2);
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
    tcase_add_checked_fixture(large, folder_open, folder_close);
    tcase_add_test(large, largest_file);
    tcase_add_test(large, larger_file);
    tcase_add_test(large, too_large);
    tcase_add_checked_fixture(not, folder_open, folder_close);
    tcase_add_test(not, wrong_ranges);
    tcase_add_test(not, wrong_elements);
    tcase_add_test(not, not_a_file);
    tcase_add_checked_fixture(cut, folder_open, NULL);
    tcase_add_loop_test(cut, truncated, 0, 2);
    tcase_add_test(cut, truncated_small);
    tcase_add_checked_fixture(cut_mapped, folder_open_mapped, NULL);
    tcase_add_loop_test(cut_mapped, truncated, 0, 2);
    return run_suite(suite);
}
