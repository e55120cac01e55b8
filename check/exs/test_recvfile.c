/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_recvfile.c - exs_recvfile: elements are files by descriptor, files by path, and memory. The peer's data
 * arrive through the receive ring, or the peer writes directly into the mapped file. Tests where ranges start
 * and end, the end of stream, and messages.
 */
#include "check/support/files.h"

#include <fcntl.h>
#include <sys/stat.h>

#define SEED 5
#define GROUND 0x5A /* the old contents of files */

static struct pair pair; /* of the running test, made by the fixture, as is the folder */
static struct folder folder;

static void open_all(void)
{
    init_library();
    folder_make(&folder);
    pair_open(&pair, AF_INET, SOCK_STREAM);
}

static void open_mapping(void)
{
    must(setenv("EXS_MAP", "1", 1));
    open_all();
}

static void open_copying(void)
{
    must(setenv("EXS_MAP", "0", 1));
    open_all();
}

static void close_all(void)
{
    inbox_quiet(pair.server_box, QUIET_MS);
    pair_close(&pair);
    folder_clear(&folder);
}

static void receive_files(const struct pair *on, exs_xferfile_t *vector, int count, int flags)
{
    must(exs_recvfile(on->server, vector, count, flags, on->server_box->queue, vector));
}

/* Takes the event of that receive: without error, with this number of bytes and these flags. */
static void files_came(const struct pair *on, const exs_xferfile_t *vector, int count, off_t length, int flags)
{
    exs_event_t event = take_good(on->server_box, EXS_EVT_RECVFILE, on->server);
    const exs_evt_xferfile_t *done = &event.exs_evt_union.exs_evt_xferfile;

    ck_assert_ptr_eq(event.exs_evt_ahandle, vector);
    ck_assert_ptr_eq(done->exs_evt_vec, vector);
    ck_assert_int_eq(done->exs_evt_vec_cnt, count);
    ck_assert_int_eq(done->exs_evt_length, length);
    ck_assert_int_eq(done->exs_evt_flags, flags);
}

struct sending { /* a send of the client; its bytes are freed when it has completed */
    uint8_t *bytes;
    size_t length;
};

static struct sending send_pattern(const struct pair *on, size_t length, uint64_t at)
{
    struct sending sending = {.bytes = new_buffer(length + 1), .length = length};

    pattern_fill(sending.bytes, length, SEED, at);
    must(exs_send(on->client, sending.bytes, length, 0, on->client_box->queue, NULL, NULL));
    return sending;
}

static void was_sent(const struct pair *on, const struct sending *sending)
{
    exs_event_t event = take_good(on->client_box, EXS_EVT_SEND, on->client);

    ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, sending->length);
    free(sending->bytes);
}

static void shut_down(const struct pair *on)
{
    must(exs_shutdown(on->client, SHUT_WR, 0, on->client_box->queue, NULL));
    take_good(on->client_box, EXS_EVT_SHUTDOWN, on->client);
}

/* ---- Ranges -------------------------------------------------------------------------- */

static const struct range {
    off_t there, offset; /* bytes: the file's length before; where the range starts */
    size_t length;
} ranges[] = {
    {0, 0, 1},
    {0, 0, 4096},
    {0, 0, 300001},
    {0, 1, 300000},
    {100000, 0, 100000},
    {100000, 50000, 100000},
    {300001, 5000, 200000},
    {300001, 4096, 8192},
    {300001, 4097, 8193},
    {300001, 300000, 1},
    {10, 300000, 20000}, /* a hole before it */
    {10, 100, 10},
    {9 * MIB, MIB - 1, 6 * MIB + 1}, /* several windows */
    {0, 0, 12 * MIB},
    {5, (off_t)5 << 30, 100001},
};

/* is the receive posted before the data, after it, or in between? */
enum { WAITS, COMES_BEFORE, COMES_BETWEEN };

static void fill_range(const struct range *range, bool named, int order)
{
    int fd = folder_file(&folder, "file", range->there);
    const char *path = folder_path(&folder, "file");
    exs_xferfile_t one =
        named ? by_path(path, range->offset, range->length) : by_fd(fd, range->offset, range->length);
    off_t end = range->offset + (off_t)range->length, length = end > range->there ? end : range->there;
    struct sending first = {0}, rest;
    size_t early = order == WAITS ? 0 : order == COMES_BEFORE ? range->length : range->length / 3;

    if (range->there > 0)
        file_fill(fd, 0, (size_t)range->there, GROUND);
    if (early > 0)
        first = send_pattern(&pair, early, 0);
    inbox_pump(pair.server_box, early > 0 ? 5 : 0);
    receive_files(&pair, &one, 1, EXS_BIGFILE);
    inbox_pump(pair.client_box, early > 0 ? 0 : 5);
    if (early < range->length)
        rest = send_pattern(&pair, range->length - early, early);
    files_came(&pair, &one, 1, (off_t)range->length, 0);
    if (early > 0)
        was_sent(&pair, &first);
    if (early < range->length)
        was_sent(&pair, &rest);
    file_has_length(fd, length);
    file_has_pattern(fd, range->offset, range->length, SEED, 0);
    file_has_value(fd, 0, (size_t)(range->offset < range->there ? range->offset : range->there), GROUND);
    if (range->there > end)
        file_has_value(fd, end, (size_t)(range->there - end), GROUND);
    ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 0); /* the file offset is unchanged */
    close(fd);
}

START_TEST(every_range)
{
    pair.client_box->beside = pair.server_box;
    pair.server_box->beside = pair.client_box;
    for (int order = WAITS; order <= COMES_BETWEEN; order++)
        fill_range(&ranges[_i / 2], _i % 2 == 0, order);
}
END_TEST

/* A hole before the received range stays a hole. */
START_TEST(between_far_ends)
{
    int fd = folder_file(&folder, "file", 0);
    exs_xferfile_t one = by_fd(fd, (off_t)6 << 30, 100000);
    struct sending sending = send_pattern(&pair, 100000, 0);
    struct stat status;

    pair.server_box->beside = pair.client_box;
    receive_files(&pair, &one, 1, 0);
    files_came(&pair, &one, 1, 100000, 0);
    was_sent(&pair, &sending);
    must(fstat(fd, &status));
    ck_assert_int_lt(status.st_blocks, (1 << 20) / 512);
    close(fd);
}
END_TEST

/* Registered and unregistered memory, long and short, and files by descriptor and by path. */
START_TEST(mixture)
{
    uint8_t *plain = new_buffer(100000), *registered = new_buffer(100000), few[10];
    exs_mhandle_t region = exs_mregister(registered, 100000, EXS_MRF_SEND_DISABLE);
    int first = folder_file(&folder, "first", 0), third = folder_file(&folder, "third", 0);
    char path[200];

    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    snprintf(path, sizeof path, "%s", folder_path(&folder, "second"));
    exs_xferfile_t vector[] = {by_memory(plain, 100000, NULL),   by_fd(first, 3, 200000),
                               by_memory(few, sizeof few, NULL), by_path(path, 0, 77),
                               by_memory(few, 0, NULL),          by_memory(registered, 100000, region),
                               by_fd(third, 0, 5 * MIB),         by_fd(first, 200003, 1)};
    size_t length = 100000 + 200000 + 10 + 77 + 100000 + 5 * MIB + 1;
    struct sending before = {0}, rest;

    pair.server_box->beside = pair.client_box;
    if (_i > 0)
        before = send_pattern(&pair, (size_t)_i * 70000, 0);
    inbox_pump(pair.server_box, _i > 0 ? 5 : 0);
    receive_files(&pair, vector, COUNT(vector), 0);
    rest = send_pattern(&pair, length - (size_t)_i * 70000, (uint64_t)_i * 70000);
    files_came(&pair, vector, COUNT(vector), (off_t)length, 0);
    if (_i > 0)
        was_sent(&pair, &before);
    was_sent(&pair, &rest);
    pattern_check(plain, 100000, SEED, 0);
    file_has_pattern(first, 3, 200000, SEED, 100000);
    pattern_check(few, 10, SEED, 300000);
    int second = open(path, O_RDONLY);

    must(second);
    file_has_length(second, 77);
    file_has_pattern(second, 0, 77, SEED, 300010);
    pattern_check(registered, 100000, SEED, 300087);
    file_has_pattern(third, 0, 5 * MIB, SEED, 400087);
    file_has_length(third, 5 * MIB);
    file_has_pattern(first, 200003, 1, SEED, length - 1);
    file_has_length(first, 200004);
    must(exs_mderegister(region, 0));
    close(first);
    close(second);
    close(third);
    free(plain);
    free(registered);
}
END_TEST

START_TEST(as_many_elements_as_may_be)
{
    exs_xferfile_t vector[EXS_XFV_MAX];
    int fd = folder_file(&folder, "file", 0);
    size_t part = 9973;
    struct sending sending;

    for (int i = 0; i < EXS_XFV_MAX; i++)
        vector[i] = by_fd(fd, i * (off_t)part, part);
    receive_files(&pair, vector, EXS_XFV_MAX, 0);
    close(fd); /* the library has duplicated the descriptor */
    pair.server_box->beside = pair.client_box;
    sending = send_pattern(&pair, EXS_XFV_MAX * part, 0);
    files_came(&pair, vector, EXS_XFV_MAX, (off_t)(EXS_XFV_MAX * part), 0);
    was_sent(&pair, &sending);
    fd = open(folder_path(&folder, "file"), O_RDONLY);
    must(fd);
    file_has_pattern(fd, 0, EXS_XFV_MAX * part, SEED, 0);
    close(fd);
}
END_TEST

/* Bytes behind the range go to the next receives, of whatever kind. */
START_TEST(on_standby)
{
    int fd = folder_file(&folder, "file", 0);
    exs_xferfile_t first = by_fd(fd, 0, 100000), third = by_fd(fd, 100000, 200000);
    uint8_t *second = new_buffer(50000);
    struct sending sending;

    pair.server_box->beside = pair.client_box;
    receive_files(&pair, &first, 1, 0);
    must(exs_recv(pair.server, second, 50000, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    receive_files(&pair, &third, 1, 0);
    sending = send_pattern(&pair, 350000, 0);
    files_came(&pair, &first, 1, 100000, 0);
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    files_came(&pair, &third, 1, 200000, 0);
    was_sent(&pair, &sending);
    file_has_pattern(fd, 0, 100000, SEED, 0);
    pattern_check(second, 50000, SEED, 100000);
    file_has_pattern(fd, 100000, 200000, SEED, 150000);
    free(second);
    close(fd);
}
END_TEST

/* Ranges with random ends; the receive or the send is posted first. */
START_TEST(any_cut)
{
    struct chance chance = chance_new();
    double end = seconds_now() + seconds_to_spend();
    int fd = folder_file(&folder, "file", 0);
    uint64_t at = 0;

    pair.server_box->beside = pair.client_box;
    while (seconds_now() < end) {
        size_t length = chance_size(&chance, 1, 4 * MIB), cut = chance_below(&chance, length);
        exs_xferfile_t vector[] = {by_fd(fd, (off_t)chance_below(&chance, 9000), length - cut),
                                   by_fd(fd, (off_t)(5 * MIB + chance_below(&chance, 9000)), cut)};
        int count = cut > 0 ? 2 : 1;
        bool first = chance_below(&chance, 2);
        struct sending sending;

        if (first)
            receive_files(&pair, vector, count, 0);
        sending = send_pattern(&pair, length, at);
        if (!first)
            receive_files(&pair, vector, count, 0);
        files_came(&pair, vector, count, (off_t)length, 0);
        was_sent(&pair, &sending);
        file_has_pattern(fd, vector[0].exs_xfv.exs_fdv.exs_offset, length - cut, SEED, at);
        file_has_pattern(fd, vector[1].exs_xfv.exs_fdv.exs_offset, cut, SEED, at + length - cut);
        at += length;
    }
    close(fd);
}
END_TEST

/* ---- End of stream ------------------------------------------------------------------- */

static const size_t ends[] = {0, 1, 100, 8192, 8193, 65536, 65537, 131072, 300001, 4 * MIB, 9 * MIB + 7};

/* An element without a length receives until the end of stream. The file then ends with the received bytes,
 * unless it was longer before. */
START_TEST(until_the_end)
{
    size_t length = ends[_i / 3], memory = _i % 3 == 2 ? 1000 : 0;
    off_t there = _i % 3 == 1 ? 200000 : 0;
    int fd = folder_file(&folder, "file", there);
    uint8_t head[1000];
    exs_xferfile_t vector[] = {by_memory(head, sizeof head, NULL), by_fd(fd, 5, 0)},
                   *first = memory > 0 ? vector : vector + 1;
    struct sending sending;

    if (there > 0)
        file_fill(fd, 0, (size_t)there, GROUND);
    pair.server_box->beside = pair.client_box;
    receive_files(&pair, first, memory > 0 ? 2 : 1, length % 2 ? EXS_BIGFILE : 0);
    inbox_pump(pair.client_box, 5);
    sending = send_pattern(&pair, memory + length, 0);
    was_sent(&pair, &sending);
    inbox_quiet(pair.server_box, 0);
    shut_down(&pair);
    files_came(&pair, first, memory > 0 ? 2 : 1, (off_t)(memory + length), EXS_EOF);
    pattern_check(head, memory, SEED, 0);
    file_has_pattern(fd, 5, length, SEED, memory);
    off_t end = length > 0 ? 5 + (off_t)length : 0;

    file_has_length(fd, end > there ? end : there);
    if (there > end)
        file_has_value(fd, end, (size_t)(there - end), GROUND);
    close(fd);
}
END_TEST

/* The stream ends before the range does: the file ends with the received bytes. */
START_TEST(ends_early)
{
    size_t length = ends[_i];
    int fd = folder_file(&folder, "file", 0);
    exs_xferfile_t one = by_path(folder_path(&folder, "file"), 0, 20 * MIB);
    struct sending sending;

    pair.server_box->beside = pair.client_box;
    receive_files(&pair, &one, 1, 0);
    sending = send_pattern(&pair, length, 0);
    shut_down(&pair);
    files_came(&pair, &one, 1, (off_t)length, EXS_EOF);
    was_sent(&pair, &sending);
    file_has_length(fd, (off_t)length);
    file_has_pattern(fd, 0, length, SEED, 0);
    receive_files(&pair, &one, 1, 0); /* nothing more arrives */
    files_came(&pair, &one, 1, 0, EXS_EOF);
    file_has_length(fd, (off_t)length);
    close(fd);
}
END_TEST

static void *send_blocking(void *length)
{
    uint8_t *bytes = new_buffer(*(size_t *)length);

    pattern_fill(bytes, *(size_t *)length, SEED, 0);
    ck_assert_int_eq(exs_blocking_send(pair.client, bytes, *(size_t *)length, 0, NULL), *(size_t *)length);
    must(exs_shutdown(pair.client, SHUT_WR, EXS_BLOCK, NULL, NULL));
    free(bytes);
    return NULL;
}

START_TEST(blocking)
{
    size_t length = 3 * MIB;
    int fd = folder_file(&folder, "file", 0);
    exs_xferfile_t part = by_fd(fd, 0, MIB), rest = by_fd(fd, MIB, 0);
    pthread_t thread = thread_start(send_blocking, &length);

    ck_assert_int_eq(exs_blocking_recvfile(pair.server, &part, 1, 0), MIB);
    ck_assert_int_eq(exs_recvfile(pair.server, &rest, 1, EXS_BLOCK, NULL, NULL), 2 * MIB);
    ck_assert_int_eq(exs_blocking_recvfile(pair.server, &rest, 1, 0), 0);
    thread_join(thread);
    file_has_length(fd, (off_t)length);
    file_has_pattern(fd, 0, length, SEED, 0);
    close(fd);
}
END_TEST

/* ---- Messages ------------------------------------------------------------------------ */

/* bytes of the message and of the elements */
static const struct {
    size_t sent, memory, file;
} messages[] = {
    {100, 0, 100},
    {100, 50, 50},
    {8192, 0, 8192},
    {9000, 0, 9000},
    {300000, 100000, 200000},
    {10, 0, 300000},
    {300000, 10, 1000},
    {100000, 50000, 10000},
    {0, 0, 10},
    {8192, 8000, 10000},
    {9 * MIB, 1, 9 * MIB - 1},
};

START_TEST(message)
{
    size_t sent = messages[_i / 2].sent, memory = messages[_i / 2].memory, file = messages[_i / 2].file;
    size_t came = sent < memory + file ? sent : memory + file, in_memory = came < memory ? came : memory;
    int fd = folder_file(&folder, "file", 0);
    uint8_t *bytes = new_buffer(memory + 1);
    exs_xferfile_t vector[] = {by_memory(bytes, memory, NULL), by_fd(fd, 10, file)},
                   *first = memory > 0 ? vector : vector + 1;
    struct pair on;
    struct sending sending;

    pair_open(&on, AF_INET, SOCK_SEQPACKET);
    if (_i % 2 == 0)
        receive_files(&on, first, memory > 0 ? 2 : 1, 0);
    sending = send_pattern(&on, sent, 0);
    if (_i % 2 == 1)
        receive_files(&on, first, memory > 0 ? 2 : 1, 0);
    files_came(&on, first, memory > 0 ? 2 : 1, (off_t)came, sent > came ? MSG_TRUNC : 0);
    was_sent(&on, &sending);
    pattern_check(bytes, in_memory, SEED, 0);
    file_has_length(fd, came > in_memory ? (off_t)(10 + came - in_memory) : 0);
    file_has_pattern(fd, 10, came - in_memory, SEED, in_memory);
    pass_bytes(on.client_box, on.client, on.server_box, on.server, 1000, 1);
    pair_close(&on);
    close(fd);
    free(bytes);
}
END_TEST

/* Two receives into one file. The second one ends with fewer bytes than requested: the file keeps the bytes of
 * the first and is no longer than these. The second receive is on another connection, or on the same one. */
START_TEST(beside_another)
{
    const size_t half = 2 * MIB;
    bool apart = _i == 0;
    int fd = folder_file(&folder, "file", 0);
    exs_xferfile_t low = by_fd(fd, 0, half), high = by_fd(fd, (off_t)half, half);
    struct pair other;

    pair_open(&other, AF_INET, SOCK_STREAM);
    pair.server_box->beside = pair.client_box;
    if (apart) {
        receive_files(&other, &high, 1, 0);
        receive_files(&pair, &low, 1, 0);
    } else {
        receive_files(&pair, &low, 1, 0);
        receive_files(&pair, &high, 1, 0);
    }
    inbox_quiet(pair.server_box, 0);
    struct sending sending = send_pattern(&pair, apart ? half : 100000, 0);

    if (apart) {
        files_came(&pair, &low, 1, (off_t)half, 0);
        was_sent(&pair, &sending);
        shut_down(&other);
        files_came(&other, &high, 1, 0, EXS_EOF);
    } else {
        was_sent(&pair, &sending);
        shut_down(&pair);
        files_came(&pair, &low, 1, 100000, EXS_EOF);
        files_came(&pair, &high, 1, 0, EXS_EOF);
    }
    file_has_length(fd, (off_t)sending.length);
    file_has_pattern(fd, 0, sending.length, SEED, 0);
    pair_close(&other);
    close(fd);
}
END_TEST

static void add_cases(Suite *suite, const char *filled_name, const char *end_name, void (*fixture)(void))
{
    TCase *filled = add_bare_case(suite, filled_name, 20), *end = add_bare_case(suite, end_name, 20);

    tcase_add_checked_fixture(filled, fixture, close_all);
    tcase_add_loop_test(filled, every_range, 0, 2 * COUNT(ranges));
    tcase_add_test(filled, between_far_ends);
    tcase_add_loop_test(filled, mixture, 0, 6);
    tcase_add_test(filled, as_many_elements_as_may_be);
    tcase_add_test(filled, on_standby);
    tcase_add_test(filled, any_cut);
    tcase_add_loop_test(filled, message, 0, 2 * COUNT(messages));
    tcase_add_checked_fixture(end, fixture, close_all);
    tcase_add_loop_test(end, until_the_end, 0, 3 * COUNT(ends));
    tcase_add_loop_test(end, ends_early, 0, COUNT(ends));
    tcase_add_test(end, blocking);
    tcase_add_loop_test(end, beside_another, 0, 2);
}

int main(void)
{
    Suite *suite = suite_create("recvfile");

    add_cases(suite, "what is filled, mapped", "the end, mapped", open_mapping);
    add_cases(suite, "what is filled, copied", "the end, copied", open_copying);
    return run_suite(suite);
}
