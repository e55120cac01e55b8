/* SPDX-License-Identifier: BSD-2-Clause */
/* How much and how long clients may hold exs-serve: connections that are too many or too slow, and its memory.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/support/fake_exs.h"
#include "tools/files/giving.h"
#include "tools/files/inlet.h"

enum { PATIENCE = 60, RATE = 1000, OF_ONE = 3, REFUSED = 16 };

static char folder[] = "inlet-XXXXXX";
static struct inlets inlets;
static FILE *said; /* on standard error */

static void gone(struct inlets *all)
{
    (void)all;
}

static int asked_again; /* for inlets_read */

static void again(struct inlets *all)
{
    (void)all;
    asked_again++;
}

static void deliver(void *ahandle, const exs_event_t *event)
{
    inlet_event(ahandle, event);
}

static void setup(void)
{
    const struct store_limits limits = {.total = 1 << 30, .files = 1000};

    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(store_open(&inlets.store, folder, &limits), 0);
    inlets.queue = (exs_qhandle_t)&inlets;
    inlets_begin(&inlets);
    inlets.patience = PATIENCE;
    inlets.rate = RATE;
    inlets.of_one = OF_ONE;
    inlets.gone = gone;
    inlets.again = again;
    fake_deliver = deliver;
    said = tmpfile();
    ck_assert_int_ne(dup2(fileno(said), STDERR_FILENO), -1);
}

/* How often was this said? */
static int count_said(const char *what)
{
    char line[512];
    int count = 0;

    rewind(said);
    while (fgets(line, sizeof(line), said) != NULL)
        count += strstr(line, what) != NULL;
    return count;
}

/* Everything has come back. */
static void teardown(void)
{
    struct dirent *entry;

    inlets_close_all(&inlets);
    for (int sock = 0; sock < 1000; sock++)
        fake_closed(sock);
    ck_assert_int_eq(inlets.count, 0);
    inlets_free(&inlets);
    ck_assert_int_eq(fake_regions, 0);
    ck_assert(STAILQ_EMPTY(&fake_calls));
    store_close(&inlets.store);
    DIR *stream = opendir(folder);
    while ((entry = readdir(stream)) != NULL) {
        ck_assert_msg(strstr(entry->d_name, ".part") == NULL, "a temporary file is left: %s", entry->d_name);
        unlinkat(dirfd(stream), entry->d_name, 0);
    }
    closedir(stream);
    rmdir(folder);
}

static void open_from(int sock, unsigned host)
{
    struct sockaddr_storage peer = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&peer;

    v4->sin_family = AF_INET;
    v4->sin_addr.s_addr = htonl(0x7f000000 + host);
    v4->sin_port = htons((in_port_t)(1000 + sock)); /* which does not matter */
    inlet_open(&inlets, sock, &peer);
}

/* A header and a name. */
static void begin_file(int sock, uint64_t size)
{
    const struct transfer_header header = {.name_length = 4, .size = size};
    unsigned char bytes[TRANSFER_HEADER + 4];

    transfer_put_header(bytes, &header);
    memcpy(bytes + TRANSFER_HEADER, "file", 4);
    ck_assert_uint_eq(fake_arrive(sock, bytes, sizeof(bytes)), sizeof(bytes));
}

/* A whole file, of no data and the name n. */
static size_t compose_empty(unsigned char bytes[TRANSFER_HEADER + 1 + TRANSFER_DIGEST])
{
    const struct transfer_header header = {.name_length = 1, .size = 0};
    XXH3_state_t *state = XXH3_createState();

    transfer_put_header(bytes, &header);
    bytes[TRANSFER_HEADER] = 'n';
    XXH3_128bits_reset(state);
    transfer_digest(state, bytes + TRANSFER_HEADER + 1);
    XXH3_freeState(state);
    return TRANSFER_HEADER + 1 + TRANSFER_DIGEST;
}

static void pass(int seconds)
{
    while (seconds-- > 0)
        inlets_second(&inlets);
}

static void expect_told(int sock, const char *want)
{
    unsigned char reply[TRANSFER_REPLY + TRANSFER_TEXT_MAX + 1] = {0};
    struct transfer_reply what;

    ck_assert_int_gt(fake_sent(sock, reply, sizeof(reply) - 1), TRANSFER_REPLY);
    ck_assert(transfer_get_reply(reply, &what));
    ck_assert_int_eq(what.status, TRANSFER_REFUSED);
    ck_assert_msg(strstr((char *)reply + TRANSFER_REPLY, want) != NULL, "said: %s", reply + TRANSFER_REPLY);
}

static void expect_open(int sock)
{
    ck_assert_ptr_nonnull(fake_first(sock, EXS_EVT_RECV));
    ck_assert_ptr_null(fake_first(sock, EXS_EVT_CLOSE));
}

/* ---- Slow ones ----------------------------------------------------------------------------------------- */

START_TEST(silent)
{
    open_from(1, 1);
    begin_file(1, 100);
    pass(PATIENCE);
    expect_open(1);
    ck_assert_ptr_null(fake_first(1, EXS_EVT_SEND));
    pass(1);
    expect_told(1, "silent for too long");
    expect_open(1);
    pass(PATIENCE + 1);
    ck_assert(fake_closed(1));
    ck_assert_int_eq(inlets.count, 0);
}
END_TEST

/* One byte now and then is not enough, in whatever a conversation consists of. */
START_TEST(byte_by_byte)
{
    open_from(1, 1);
    if (_i == 1)
        begin_file(1, 1 << 20);
    for (int seconds = 0; seconds < PATIENCE; seconds += PATIENCE - 1) {
        ck_assert_uint_eq(fake_arrive(1, "E", 1), 1);
        pass(PATIENCE - 1);
    }
    expect_told(1, "too slow");
    pass(PATIENCE + 1);
    ck_assert(fake_closed(1));
}
END_TEST

/* Who was fast at first has no right to be slow then; who is fast enough has all the time that it needs. */
START_TEST(fast_enough)
{
    static unsigned char data[1 << 20];

    open_from(1, 1);
    begin_file(1, INT32_MAX / 4);
    fake_arrive(1, data, sizeof(data));
    pass(1);
    for (int second = 0; second < 10 * PATIENCE; second++) {
        ck_assert_uint_eq(fake_arrive(1, data, RATE), RATE);
        pass(1);
    }
    expect_open(1);
    ck_assert_ptr_null(fake_first(1, EXS_EVT_SEND));
    for (int second = 0; second < 2 * PATIENCE + 2; second++) {
        fake_arrive(1, data, RATE / 2);
        pass(1);
    }
    expect_told(1, "too slow");
}
END_TEST

/* Small files, each of which waits for its reply: slow by bytes, but not by what is done. */
START_TEST(small_files)
{
    unsigned char bytes[TRANSFER_HEADER + 1 + TRANSFER_DIGEST], reply[256];

    compose_empty(bytes);
    open_from(1, 1);
    for (int second = 0; second < 3 * PATIENCE; second++) {
        ck_assert_uint_eq(fake_arrive(1, bytes, sizeof(bytes)), sizeof(bytes));
        ck_assert_int_gt(fake_sent(1, reply, sizeof(reply)), 0);
        pass(1);
    }
    expect_open(1);
}
END_TEST

/* Who goes on with a file that was broken off reads what is there first, and gets the time for that; nobody
 * gets any by asking alone. */
START_TEST(asking)
{
    enum { THERE = 3 * PATIENCE * RATE };
    const struct transfer_header header = {.name_length = 4, .size = 2 * THERE, .asks = true};
    unsigned char bytes[TRANSFER_HEADER + 4], reply[256];
    static unsigned char data[TRANSFER_OFFSET + THERE];

    transfer_put_header(bytes, &header);
    memcpy(bytes + TRANSFER_HEADER, "file", 4);
    inlets.store.limits.keep = 1000;
    for (int round = 0; round < 2; round++) {
        open_from(1 + round, 1);
        pass(PATIENCE - 1);
        ck_assert_uint_eq(fake_arrive(1 + round, bytes, sizeof(bytes)), sizeof(bytes));
        ck_assert_int_eq(fake_sent(1 + round, reply, sizeof(reply)), TRANSFER_REPLY + TRANSFER_OFFSET);
        ck_assert_uint_eq(transfer_get_offset(reply + TRANSFER_REPLY), round * THERE);
        pass(round == 0 ? 1 : THERE / RATE + PATIENCE);
        ck_assert_ptr_null(fake_first(1 + round, EXS_EVT_SEND));
        if (round == 0) {
            fake_arrive(1, data, sizeof(data));
            fake_arrive(1, "", 0); /* it breaks off */
            ck_assert(fake_closed(1));
        }
    }
    pass(1);
    expect_told(2, "silent for too long");
    open_from(3, 3);
    pass(PATIENCE - 1);
    memcpy(bytes + TRANSFER_HEADER, "more", 4);
    fake_arrive(3, bytes, sizeof(bytes));
    ck_assert_int_gt(fake_sent(3, reply, sizeof(reply)), 0);
    pass(2);
    expect_told(3, "too slow");
}
END_TEST

/* Its reply is not taken: nothing can be said any more. */
START_TEST(deaf)
{
    open_from(1, 1);
    fake_arrive(1, "This is no file transfer at all.", 32);
    ck_assert_ptr_nonnull(fake_first(1, EXS_EVT_SEND));
    pass(PATIENCE + 1);
    ck_assert(fake_closed(1));
}
END_TEST

/* ---- Many ---------------------------------------------------------------------------------------------- */

START_TEST(of_one_address)
{
    for (int sock = 1; sock <= OF_ONE; sock++)
        open_from(sock, 1);
    open_from(10, 2); /* another address is not concerned */
    open_from(11, 1);
    for (int sock = 1; sock <= OF_ONE; sock++)
        ck_assert_ptr_null(fake_first(sock, EXS_EVT_SEND));
    ck_assert_ptr_null(fake_first(10, EXS_EVT_SEND));
    expect_told(11, "your address has 3 connections already");
    begin_file(11, 1 << 20); /* is dropped */
    expect_open(11);
    ck_assert_uint_eq(inlets.store.files, 0);
    ck_assert_uint_eq(fake_arrive(11, "", 0), 0); /* it ends */
    ck_assert(fake_closed(11));
    ck_assert_uint_eq(fake_arrive(2, "", 0), 0);
    ck_assert(fake_closed(2));
    open_from(12, 1);
    ck_assert_ptr_null(fake_first(12, EXS_EVT_SEND));
}
END_TEST

/* Nor does it get far by coming again and again. */
START_TEST(refused_again)
{
    for (int sock = 1; sock <= OF_ONE + REFUSED + 100; sock++)
        open_from(sock, 1);
    ck_assert_int_eq(inlets.count, OF_ONE + REFUSED);
    for (int sock = OF_ONE + 1; sock <= OF_ONE + REFUSED; sock++)
        expect_told(sock, "your address");
    /* They share their memory: one block for each that is served, and one. */
    ck_assert_int_eq(fake_regions, OF_ONE + 1);
    /* Who ends makes room for the next at once, however many are still being told. */
    fake_arrive(1, "", 0);
    ck_assert(fake_closed(1));
    open_from(500, 1);
    expect_open(500);
    ck_assert_ptr_null(fake_first(500, EXS_EVT_SEND));
    fake_arrive(500, "", 0);
    ck_assert(fake_closed(500));
    pass(PATIENCE + 1);
    for (int sock = OF_ONE + 1; sock <= OF_ONE + REFUSED; sock++)
        ck_assert(fake_closed(sock));
}
END_TEST

/* Buffers of connections that are gone are given back, but for a few. */
START_TEST(blocks_given_back)
{
    enum { MANY = 200 };

    for (int sock = 1; sock <= MANY; sock++)
        open_from(sock, (unsigned)sock);
    ck_assert_int_eq(fake_regions, MANY);
    for (int sock = 1; sock <= MANY; sock++) {
        fake_arrive(sock, "", 0);
        ck_assert(fake_closed(sock));
    }
    ck_assert_int_eq(inlets.count, 0);
    ck_assert_int_eq(fake_regions, BLOCKS_KEPT);
}
END_TEST

/* Nothing is left of a connection that could not be made, wherever that failed. */
START_TEST(shortage)
{
    fake_failing = ENOMEM;
    fake_fails_from = _i;
    open_from(1, 1);
    fake_failing = 0;
    if (inlets.count == 1 && fake_first(1, EXS_EVT_CLOSE) == NULL)
        begin_file(1, 10);
}
END_TEST

/* ---- Files that are given ------------------------------------------------------------------------------ */

enum { LENGTH = 2 << 20, PIECE = 16 << 10 }; /* what RATE and PATIENCE make of a piece */

static void make_file(void)
{
    int fd = openat(inlets.store.directory, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    ck_assert_int_eq(ftruncate(fd, LENGTH), 0);
    close(fd);
    inlets.store.limits.gives = true;
}

/* Wants it, and has so much of it, or says so. */
static void want_file(int sock, uint64_t there)
{
    static unsigned char zeros[LENGTH];
    struct transfer_header header = {.version = TRANSFER_WANTS, .name_length = 4, .size = there};
    unsigned char bytes[TRANSFER_HEADER + 4];
    XXH3_state_t *state = XXH3_createState();

    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, zeros, there);
    transfer_digest(state, header.digest);
    XXH3_freeState(state);
    transfer_put_header(bytes, &header);
    memcpy(bytes + TRANSFER_HEADER, "file", 4);
    ck_assert_uint_eq(fake_arrive(sock, bytes, sizeof(bytes)), sizeof(bytes));
}

/* What the client takes next; bytes. */
static size_t take(int sock)
{
    static unsigned char bytes[LENGTH];
    ssize_t length = fake_sent_file(sock, bytes, sizeof(bytes));

    ck_assert_int_gt(length, 0);
    return (size_t)length;
}

static int count_sendfiles(int sock)
{
    const struct fake_call *call;
    int count = 0;

    STAILQ_FOREACH (call, &fake_calls, entry)
        count += call->sock == sock && call->type == EXS_EVT_SENDFILE;
    return count;
}

/* Two pieces are under way, to the end; then the next file may be asked for. */
START_TEST(given)
{
    make_file();
    open_from(1, 1);
    for (int round = 0; round < 2; round++) {
        size_t length = 0;

        want_file(1, 0);
        while (fake_first(1, EXS_EVT_SENDFILE) != NULL) {
            ck_assert_int_eq(count_sendfiles(1),
                             length < TRANSFER_REPLY + TRANSFER_COMING + LENGTH - PIECE ? GIVING_FLYING : 1);
            length += take(1);
        }
        ck_assert_uint_eq(length, TRANSFER_REPLY + TRANSFER_COMING + LENGTH + TRANSFER_DIGEST);
    }
    expect_open(1);
    ck_assert_int_eq(asked_again, 0);
}
END_TEST

/* Asking for more while something comes: later. */
START_TEST(wants_two)
{
    make_file();
    open_from(1, 1);
    want_file(1, 0);
    want_file(1, LENGTH / 2);
    for (int piece = 0; piece < LENGTH / PIECE; piece++) {
        ck_assert_int_eq(asked_again, 0);
        take(1);
    }
    ck_assert_int_eq(count_sendfiles(1), 0);
    ck_assert_int_eq(asked_again, 1);
}
END_TEST

START_TEST(takes_nothing)
{
    make_file();
    open_from(1, 1);
    want_file(1, 0);
    pass(PATIENCE);
    expect_open(1);
    pass(1);
    ck_assert(fake_closed(1));
    ck_assert_int_eq(count_said("silent for too long (exs-serve -t), it did not get all of a file"), 1);
}
END_TEST

/* Who takes as much as it must may take as long as that takes, and who takes less may not. */
START_TEST(takes_slowly)
{
    make_file();
    open_from(1, 1);
    want_file(1, 0);
    for (int seconds = 0; seconds < 10 * PATIENCE; seconds += PIECE / RATE) {
        take(1);
        pass(PIECE / RATE);
    }
    expect_open(1);
    for (int seconds = 0; seconds < 2 * PATIENCE + 2; seconds += PATIENCE - 1) {
        if (fake_first(1, EXS_EVT_CLOSE) == NULL)
            take(1);
        pass(PATIENCE - 1);
    }
    ck_assert(fake_closed(1));
    ck_assert_int_eq(count_said("too slow (exs-serve -r), it did not get all of a file"), 1);
}
END_TEST

/* Who has something is looked at by turns, a piece each; it is not slow meanwhile, whatever that takes. */
START_TEST(readers)
{
    make_file();
    open_from(1, 1);
    open_from(2, 2);
    open_from(3, 3);
    want_file(1, LENGTH);
    want_file(2, LENGTH);
    want_file(3, LENGTH - 1);
    ck_assert_int_eq(asked_again, 1);
    for (int turn = 1; turn <= 6; turn++) {
        ck_assert_int_eq(count_sendfiles(1), turn > 4);
        ck_assert_int_eq(count_sendfiles(2), turn > 5);
        pass(PATIENCE / 3);
        if (turn == 2)
            ck_assert(fake_arrive(3, "", 0) == 0); /* it half closes, and waits on */
        inlets_read(&inlets);
        ck_assert_int_eq(asked_again, turn < 6 ? turn + 1 : 6);
    }
    ck_assert_uint_eq(take(1), TRANSFER_REPLY + TRANSFER_COMING + TRANSFER_DIGEST);
    ck_assert_uint_eq(take(2), TRANSFER_REPLY + TRANSFER_COMING + TRANSFER_DIGEST);
    ck_assert_uint_eq(take(3), TRANSFER_REPLY + TRANSFER_COMING + 1 + TRANSFER_DIGEST);
    inlets_read(&inlets); /* nobody waits */
    ck_assert_int_eq(asked_again, 6);
}
END_TEST

/* A reader that goes is none any more. */
START_TEST(reader_goes)
{
    make_file();
    open_from(1, 1);
    open_from(2, 2);
    want_file(1, LENGTH);
    want_file(2, LENGTH);
    if (_i == 1)
        inlets_read(&inlets);
    fake_complete(fake_first(1 + _i, EXS_EVT_RECV), ECONNRESET, 0, 0);
    ck_assert(fake_closed(1 + _i));
    for (int turn = 0; turn < 4; turn++)
        inlets_read(&inlets);
    ck_assert_int_eq(count_sendfiles(2 - _i), 1);
}
END_TEST

/* Lines about files that are given are as few as those of failures. */
START_TEST(given_lines)
{
    FILE *out = tmpfile();
    char line[512];
    int count = 0;

    ck_assert_int_ne(dup2(fileno(out), STDOUT_FILENO), -1);
    close(openat(inlets.store.directory, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    inlets.store.limits.gives = true;
    open_from(1, 1);
    for (int i = 0; i < 1000; i++) {
        want_file(1, 0);
        take(1);
    }
    pass(LINES_PERIOD);
    fflush(stdout);
    rewind(out);
    while (fgets(line, sizeof(line), out) != NULL)
        count += strstr(line, count < LINES_BURST ? "file: gave 0 bytes" : "gave 900 more files") != NULL;
    ck_assert_int_eq(count, LINES_BURST + 1);
    expect_open(1); /* small files, but many */
}
END_TEST

START_TEST(shortage_of_giving)
{
    make_file();
    open_from(1, 1);
    fake_failing = ENOMEM;
    fake_fails_from = _i;
    want_file(1, 0);
    fake_failing = 0;
    if (fake_first(1, EXS_EVT_CLOSE) == NULL)
        take(1);
}
END_TEST

/* ---- The end ------------------------------------------------------------------------------------------- */

/* Who is between files is closed at once; who is in the midst of one may finish it, and begin no other. */
START_TEST(finish)
{
    unsigned char bytes[TRANSFER_HEADER + 1 + TRANSFER_DIGEST], reply[256];
    size_t length = compose_empty(bytes);
    struct transfer_reply what;

    open_from(1, 1);
    open_from(2, 2);
    open_from(3, 3);
    ck_assert_uint_eq(fake_arrive(2, bytes, length - 1), length - 1);
    ck_assert_uint_eq(fake_arrive(3, bytes, length), length); /* its reply is on its way */
    ck_assert_int_eq(inlets_finish(&inlets), 2);
    ck_assert_ptr_nonnull(fake_first(1, EXS_EVT_CLOSE));
    expect_open(2);
    expect_open(3);
    ck_assert_uint_eq(fake_arrive(2, bytes + length - 1, 1), 1);
    ck_assert_uint_eq(fake_arrive(2, bytes, length), length); /* the next one */
    for (int sock = 2; sock <= 3; sock++) {
        expect_open(sock);
        ck_assert_int_ge(fake_sent(sock, reply, sizeof(reply)), TRANSFER_REPLY);
        ck_assert(transfer_get_reply(reply, &what));
        ck_assert_int_eq(what.status, TRANSFER_STORED);
        ck_assert_ptr_null(fake_first(sock, EXS_EVT_SEND));
        ck_assert_ptr_nonnull(fake_first(sock, EXS_EVT_CLOSE));
    }
    ck_assert_uint_eq(inlets.store.files, 2);
}
END_TEST

/* Who is given something gets all of it. */
START_TEST(finish_giving)
{
    make_file();
    open_from(1, 1);
    open_from(2, 2);
    want_file(1, 0);
    want_file(2, LENGTH);
    ck_assert_int_eq(inlets_finish(&inlets), 2);
    for (int turn = 0; turn < 2; turn++)
        inlets_read(&inlets);
    for (int sock = 1; sock <= 2; sock++) {
        while (fake_first(sock, EXS_EVT_SENDFILE) != NULL) {
            expect_open(sock);
            take(sock);
        }
        ck_assert(fake_closed(sock));
    }
    ck_assert_int_eq(count_said("did not get"), 0);
}
END_TEST

START_TEST(finish_giving_is_cut_short)
{
    make_file();
    open_from(1, 1);
    want_file(1, _i * LENGTH);
    inlets_close_all(&inlets);
    ck_assert(fake_closed(1));
    ck_assert_int_eq(count_said("the server is ending, it did not get all of a file"), 1);
}
END_TEST

START_TEST(finish_is_cut_short)
{
    open_from(1, 1);
    begin_file(1, 100);
    ck_assert_int_eq(inlets_finish(&inlets), 1);
    inlets_close_all(&inlets);
    ck_assert_ptr_nonnull(fake_first(1, EXS_EVT_CLOSE));
    ck_assert_int_eq(count_said("the server is ending, an unfinished file was dropped"), 1);
}
END_TEST

/* ---- Lines --------------------------------------------------------------------------------------------- */

START_TEST(lines)
{
    for (int i = 0; i < 1000; i++)
        inlets_say(&inlets, "line %d", i);
    ck_assert_int_eq(count_said("exs-serve: line"), LINES_BURST);
    pass(LINES_PERIOD - 1);
    ck_assert_int_eq(count_said("suppressed"), 0);
    pass(1);
    ck_assert_int_eq(count_said("exs-serve: 900 more lines suppressed"), 1);
    for (int i = 0; i < 1000; i++)
        inlets_say(&inlets, "another %d", i);
    ck_assert_int_eq(count_said("exs-serve: another"), LINES_PERIOD); /* one for each second */
}
END_TEST

/* The time is in front, but not where a journal has one of its own. */
START_TEST(times)
{
    struct stat status;
    char journal[64];

    inlets_say(&inlets, "told");
    ck_assert_int_eq(count_said("+0000 exs-serve: told"), 1);
    ck_assert_int_eq(fstat(STDERR_FILENO, &status), 0);
    snprintf(journal, sizeof(journal), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino + 1);
    setenv("JOURNAL_STREAM", journal, 1); /* another one's */
    inlets_say(&inlets, "told");
    ck_assert_int_eq(count_said("+0000 exs-serve: told"), 2);
    snprintf(journal, sizeof(journal), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    setenv("JOURNAL_STREAM", journal, 1);
    inlets_say(&inlets, "told");
    ck_assert_int_eq(count_said("+0000 exs-serve: told"), 2);
    ck_assert_int_eq(count_said("exs-serve: told"), 3);
}
END_TEST

int main(void)
{
    setenv("TZ", "UTC0", 1);

    Suite *suite = suite_create("inlet");
    TCase *tcase = tcase_create("connections");
    SRunner *runner = srunner_create(suite);

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, silent);
    tcase_add_loop_test(tcase, byte_by_byte, 0, 2);
    tcase_add_test(tcase, fast_enough);
    tcase_add_test(tcase, small_files);
    tcase_add_test(tcase, asking);
    tcase_add_test(tcase, deaf);
    tcase_add_test(tcase, of_one_address);
    tcase_add_test(tcase, refused_again);
    tcase_add_test(tcase, blocks_given_back);
    tcase_add_loop_test(tcase, shortage, 0, 8);
    tcase_add_test(tcase, given);
    tcase_add_test(tcase, wants_two);
    tcase_add_test(tcase, takes_nothing);
    tcase_add_test(tcase, takes_slowly);
    tcase_add_test(tcase, readers);
    tcase_add_loop_test(tcase, reader_goes, 0, 2);
    tcase_add_test(tcase, given_lines);
    tcase_add_loop_test(tcase, shortage_of_giving, 0, 3);
    tcase_add_test(tcase, finish);
    tcase_add_test(tcase, finish_giving);
    tcase_add_loop_test(tcase, finish_giving_is_cut_short, 0, 2);
    tcase_add_test(tcase, finish_is_cut_short);
    tcase_add_test(tcase, lines);
    tcase_add_test(tcase, times);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
