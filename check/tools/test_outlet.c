/* SPDX-License-Identifier: BSD-2-Clause */
/* test_outlet.c - tools/files/outlet.h: invalid replies of a server, and filtering of text from another program. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/support/fake_exs.h"
#include "check/support/runner.h"
#include "tools/common/clock.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/files/outlet.h"

static char path[] = "outlet-XXXXXX";
static unsigned char answer[TRANSFER_REPLY + TRANSFER_TEXT_MAX];
static struct outlet outlet;

static void setup(void)
{
    int fd = mkstemp(path);

    ck_assert_int_eq(write(fd, "data", 4), 4);
    close(fd);
    fake_reset();
    fake_stream = answer;
}

static void teardown(void)
{
    unlink(path);
}

static void compose(enum transfer_status status, const char *text)
{
    const struct transfer_reply reply = {.status = status, .text_length = strlen(text)};

    transfer_put_reply(answer, &reply);
    memcpy(answer + TRANSFER_REPLY, text, reply.text_length);
    fake_stream_left = TRANSFER_REPLY + reply.text_length;
}

static void expect_failure(const char *want)
{
    ck_assert_int_eq(outlet_file(&outlet, path, 0, path), -1);
    ck_assert_msg(strstr(outlet.client.error, want) != NULL, "said: %s", outlet.client.error);
}

START_TEST(text_is_filtered)
{
    compose(TRANSFER_REFUSED, "no\x1b]0;title\a\x1b[2J\nyour disk\xc2\x9b is \xe2\x80\xae full");
    expect_failure("the server did not take it: no?]0;title??[2J?your disk? is ? full");
}
END_TEST

START_TEST(texts_are_filtered_alike)
{
    static const char *const texts[][2] = {{"", ""},
                                           {"plain text ~", "plain text ~"},
                                           {"gr\xc3\xbc\xc3\x9f dich \xe2\x82\xac \xf0\x9f\x98\x80",
                                            "gr\xc3\xbc\xc3\x9f dich \xe2\x82\xac \xf0\x9f\x98\x80"},
                                           {"\x7f\x01\x1f\xc2\x80\xc2\x9f\xc2\xa0", "?????\xc2\xa0"},
                                           {"\xff\xfe\x80", "???"},
                                           {"\xc0\xaf\xe0\x80\xaf", "?????"}, /* overlong encodings */
                                           {"\xed\xa0\x80", "?"},             /* half of a surrogate pair */
                                           {"\xf4\x90\x80\x80", "????"},      /* above the last code point */
                                           {"\xe2\x82", "??"},                /* truncated */
                                           {"\xe2\x82z\xe2\x81\xa6", "??z?"}};
    char text[64];

    snprintf(text, sizeof(text), "%s", texts[_i][0]);
    ck_assert_ptr_eq(terminal_filter(text), text);
    ck_assert_str_eq(text, texts[_i][1]);
}
END_TEST

START_TEST(no_reply)
{
    compose(TRANSFER_STORED, "stored");
    answer[_i] ^= 0x80;
    expect_failure(_i == 7  ? "it closed the connection" /* the text is shorter than announced */
                   : _i < 8 ? "is this an exs-serve?"
                            : "the digests differ");
}
END_TEST

/* The server echoes the client's header, whose version equals the status of a refusal. */
START_TEST(sent_back)
{
    const struct transfer_header header = {
        .version = TRANSFER_DETAILED, .name_length = 8, .size = 4, .mode = 0644, .seconds = 981173106};

    transfer_put_header(answer, &header);
    memcpy(answer + TRANSFER_HEADER, "the name", 8);
    fake_stream_left = TRANSFER_HEADER + 8;
    expect_failure("is this an exs-serve?");
    compose(TRANSFER_REFUSED, "");
    fake_stream = answer;
    expect_failure("is this an exs-serve?");
}
END_TEST

START_TEST(cut_reply)
{
    compose(TRANSFER_STORED, "stored");
    fake_stream_left = (size_t)_i;
    expect_failure("no answer from the server: it closed the connection");
    fake_stream = answer;
    fake_stream_left = (size_t)_i;
    fake_stream_errno = ECONNRESET;
    expect_failure("no answer from the server: Connection reset");
}
END_TEST

/* The server has sent a reason before it closed the connection. */
START_TEST(told_before_the_end)
{
    compose(TRANSFER_REFUSED, "the disk is full");
    fake_failing = EPIPE;
    expect_failure("the server did not take it: the disk is full");
    fake_stream_left = 0;
    fake_failing = EPIPE;
    expect_failure("no answer from the server");
}
END_TEST

/* Replies to a request to resume: more bytes than the file has, another reply, or the final reply immediately. */
START_TEST(asked)
{
    static const struct {
        uint64_t there;
        int status;
        const char *want;
    } rows[] = {{(1 << 20) + 1, TRANSFER_GO, "the server has more than there is"},
                {UINT64_MAX, TRANSFER_GO, "the server has more than there is"},
                {0, TRANSFER_STORED, "the server answered something else"},
                {0, TRANSFER_GO, "no answer from the server: it closed the connection"},
                {1 << 20, TRANSFER_GO, "no answer from the server: it closed the connection"},
                {0, TRANSFER_GO + 1, "is this an exs-serve?"}};
    const struct transfer_reply reply = {.status = (enum transfer_status)rows[_i].status,
                                         .text_length = TRANSFER_OFFSET};

    ck_assert_int_eq(truncate(path, 1 << 20), 0);
    transfer_put_reply(answer, &reply);
    transfer_put_offset(answer + TRANSFER_REPLY, rows[_i].there);
    fake_stream_left = TRANSFER_REPLY + TRANSFER_OFFSET;
    expect_failure(rows[_i].want);
    ck_assert_uint_eq(outlet.resumed, 0); /* because the digests differed */
}
END_TEST

static int sent_vectors, most_outstanding;

static int count_outstanding(void)
{
    const struct fake_call *call;
    int count = 0;

    STAILQ_FOREACH (call, &fake_calls, entry)
        count += call->type == EXS_EVT_SENDFILE;
    return count;
}

static void count_vector(void)
{
    int outstanding = count_outstanding();

    sent_vectors++;
    if (outstanding > most_outstanding)
        most_outstanding = outstanding;
}

/* Composes the replies to a file of many pieces: the server has no part of it, and at the end sends `answer`. */
static void compose_large(void)
{
    const struct transfer_reply go = {.status = TRANSFER_GO, .text_length = TRANSFER_OFFSET};
    static unsigned char both[2 * sizeof(answer)];

    ck_assert_int_eq(truncate(path, (16 << 20) + 1), 0);
    transfer_put_reply(both, &go);
    memset(both + TRANSFER_REPLY, 0, TRANSFER_OFFSET);
    memcpy(both + TRANSFER_REPLY + TRANSFER_OFFSET, answer, fake_stream_left);
    fake_stream = both;
    fake_stream_left += TRANSFER_REPLY + TRANSFER_OFFSET;
    fake_sending = count_vector;
    sent_vectors = most_outstanding = 0;
}

/* A client that is refused during a large file does not send the rest; a client that is not refused does. */
START_TEST(refused_meanwhile)
{
    static const struct {
        int status;
        bool hurries;
        int vectors;
        const char *want;
    } rows[] = {
        {TRANSFER_FAILED, true, 2, "the server did not take it: the disk is full"},
        {TRANSFER_STORED, true, 2, "the server answered too early"}, /* its digest is that of the part */
        {TRANSFER_GO, true, 2, "is this an exs-serve?"},             /* with a text of this length */
        {TRANSFER_FAILED, false, 10, "the server did not take it: the disk is full"}};

    compose((enum transfer_status)rows[_i].status, "the disk is full");
    compose_large();
    fake_stream_hurries = rows[_i].hurries;
    expect_failure(rows[_i].want);
    ck_assert_int_eq(sent_vectors, rows[_i].vectors);
    ck_assert_int_eq(count_outstanding(), 0);
}
END_TEST

/* Several pieces are in flight at a time. */
START_TEST(pieces_overlap)
{
    compose(TRANSFER_REFUSED, "no");
    compose_large();
    expect_failure("the server did not take it: no");
    ck_assert_int_eq(sent_vectors, 10);
    ck_assert_int_eq(most_outstanding, 4);
}
END_TEST

/* A piece cannot be started, or fails while others are outstanding: all events are removed, and the first error is
 * reported. */
START_TEST(a_piece_fails)
{
    static const struct {
        int error,
            after; /* calls that succeed: header, reply, its text, queue; 4 pieces; events and pieces alternately */
        const char *want;
    } rows[] = {{ENOMEM, 3, "exs_qcreate: Cannot allocate memory"},
                {EPIPE, 4, "the server did not take it: the disk is full"},
                {ECANCELED, 6, "cannot send: Operation canceled"},
                {EPIPE, 8, "the server did not take it: the disk is full"},
                {ETIMEDOUT, 8, "cannot send: Connection timed out"},
                {ECONNRESET, 12, "the server did not take it: the disk is full"},
                {EIO, 20, "cannot send: Input/output error"}};

    compose(TRANSFER_FAILED, "the disk is full");
    compose_large();
    fake_failing = rows[_i].error;
    fake_fails_from = rows[_i].after;
    expect_failure(rows[_i].want);
    ck_assert_int_eq(fake_failing, 0);
    ck_assert_int_eq(count_outstanding(), 0);
}
END_TEST

/* A small file is sent without asking for an offset. */
START_TEST(not_asked)
{
    const struct transfer_reply reply = {.status = TRANSFER_GO, .text_length = TRANSFER_OFFSET};

    transfer_put_reply(answer, &reply);
    fake_stream_left = TRANSFER_REPLY + TRANSFER_OFFSET;
    expect_failure("the server answered something else");
}
END_TEST

/* A file found in a folder was replaced before it is sent: by a link, at its name or on its path, or by a pipe. */
START_TEST(replaced_meanwhile)
{
    static char top[] = "outlet-tree-XXXXXX";
    char in[64], file[96], target[64];

    ck_assert_ptr_nonnull(mkdtemp(top));
    snprintf(in, sizeof(in), "%s/in", top);
    snprintf(file, sizeof(file), "%s/%s", in, path);
    snprintf(target, sizeof(target), "../../%s", path);
    ck_assert_int_eq(_i == 1 ? symlink("..", in) : mkdir(in, 0700), 0);
    if (_i == 0)
        ck_assert_int_eq(symlink(target, file), 0);
    else if (_i == 2)
        ck_assert_int_eq(mkfifo(file, 0600), 0);
    else if (_i == 3)
        ck_assert_int_eq(rename(path, file), 0);
    compose(TRANSFER_REFUSED, "no");
    ck_assert_int_eq(outlet_file(&outlet, file, strlen(top) + 1, file + strlen(top) + 1), -1);
    ck_assert_msg(strstr(outlet.client.error, _i < 3 ? "cannot be sent: it was removed or replaced"
                                                     : "the server did not take it: no") != NULL,
                  "said: %s", outlet.client.error);
    unlink(file);
    if (unlink(in) == -1)
        rmdir(in);
    rmdir(top);
}
END_TEST

/* A server closes an idle connection, for example while the client reads standard input: the client connects again. */
START_TEST(quiet_for_long)
{
    static struct sockaddr_in somewhere = {.sin_family = AF_INET};
    struct addrinfo address = {.ai_addr = (struct sockaddr *)&somewhere, .ai_addrlen = sizeof(somewhere)};

    outlet.client.sock = 1;
    outlet.client.addresses = &address;
    outlet.client.heard = _i == 0 ? 0 : clock_seconds() + 60;
    compose(TRANSFER_REFUSED, "no");
    expect_failure("the server did not take it: no");
    ck_assert_str_eq(outlet.client.device, _i == 0 ? "fake" : "");
}
END_TEST

/* Each connection has the timeout of -t, or none. */
START_TEST(patience)
{
    static struct sockaddr_in somewhere = {.sin_family = AF_INET};
    struct addrinfo address = {.ai_addr = (struct sockaddr *)&somewhere, .ai_addrlen = sizeof(somewhere)};

    outlet.client.patience = 7 * _i;
    ck_assert_int_eq(client_reach(&outlet.client, &address), 0);
    ck_assert_int_eq(fake_limit.tv_sec, 7 * _i);
    ck_assert_int_eq(client_bear(&outlet.client, 5 << 24), 0);
    ck_assert_int_eq(fake_limit.tv_sec, 12 * _i);
    fake_stream_errno = ETIMEDOUT;
    expect_failure("no answer from the server: Connection timed out");
}
END_TEST

static int how; /* how the file is changed */

static void change_file(void)
{
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};

    ck_assert_int_eq(how == 0 ? truncate(path, 5) : utimensat(AT_FDCWD, path, times, 0), 0);
}

/* The file changes during the transfer: the stored file may be a mixture, which is reported. */
START_TEST(changed_meanwhile)
{
    struct transfer_reply reply = {.status = TRANSFER_STORED};
    XXH3_state_t *state = XXH3_createState();

    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, "data", 4);
    transfer_digest(state, reply.digest);
    XXH3_freeState(state);
    transfer_put_reply(answer, &reply);
    fake_stream_left = TRANSFER_REPLY;
    how = _i;
    fake_sending = _i < 2 ? change_file : NULL;
    if (_i < 2)
        expect_failure("it changed while it was sent");
    else
        ck_assert_msg(outlet_file(&outlet, path, 0, path) == 0, "%s", outlet.client.error);
}
END_TEST

START_TEST(bytes)
{
    static const struct {
        const char *text;
        uint64_t value; /* 0: refused */
    } rows[] = {{"1", 1},
                {"1K", 1024},
                {"3G", UINT64_C(3) << 30},
                {"8191T", UINT64_C(8191) << 40},
                {"9223372036854775807", INT64_MAX},
                {"0", 0},
                {"", 0},
                {"K", 0},
                {"-1", 0},
                {" 1", 0},
                {"1KB", 0},
                {"1k", 0},
                {"9223372036854775808", 0},
                {"18446744073709551616", 0},
                {"18446744073709551615T", 0},
                {"16777216T", 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t value = 0;
        bool read = options_bytes(rows[i].text, &value);

        ck_assert_msg(read == (rows[i].value != 0), "'%s'", rows[i].text);
        ck_assert_msg(!read || value == rows[i].value, "'%s' is %llu", rows[i].text, (unsigned long long)value);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("outlet");
    TCase *tcase = new_case(suite, "replies");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, text_is_filtered);
    tcase_add_loop_test(tcase, texts_are_filtered_alike, 0, 10);
    tcase_add_loop_test(tcase, no_reply, 0, TRANSFER_REPLY);
    tcase_add_test(tcase, sent_back);
    tcase_add_loop_test(tcase, cut_reply, 0, TRANSFER_REPLY + 6);
    tcase_add_test(tcase, told_before_the_end);
    tcase_add_loop_test(tcase, asked, 0, 6);
    tcase_add_loop_test(tcase, refused_meanwhile, 0, 4);
    tcase_add_test(tcase, pieces_overlap);
    tcase_add_loop_test(tcase, a_piece_fails, 0, 7);
    tcase_add_test(tcase, not_asked);
    tcase_add_loop_test(tcase, replaced_meanwhile, 0, 4);
    tcase_add_loop_test(tcase, quiet_for_long, 0, 2);
    tcase_add_loop_test(tcase, patience, 0, 2);
    tcase_add_loop_test(tcase, changed_meanwhile, 0, 3);
    tcase_add_test(tcase, bytes);
    return run_suite(suite);
}
