/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_advice.c - with EXS_DEBUG, the library writes one line to standard error for each call that fails with EINVAL or
 * EFAULT, which names the argument, for each connect that fails, and for each file that it can't use.
 */
#include "check/support/files.h"

#include <fcntl.h>

#define NOUGHTS "00000000000000000000000000000000000000000000000000000000000"
#define FIFTY_NINE "is.sixty.bytes.of.something.that.is.no.setting.of.ours.now."
#define SIXTY FIFTY_NINE "."

static FILE *said; /* standard error of the test's process */
static struct pair pair;

static void listen_to_it(void)
{
    ck_assert_int_eq(setenv("EXS_DEBUG", "1", 1), 0);
    said = tmpfile();
    ck_assert_ptr_nonnull(said);
    init_library();
    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(dup2(fileno(said), STDERR_FILENO));
}

static void says(const char *call, long result, int error, const char *argument)
{
    char line[512] = "";

    ck_assert_msg(result == -1 && errno == error, "%s: %ld, %s", call, result, strerrorname_np(errno));
    rewind(said);
    ck_assert_msg(fgets(line, sizeof line, said) != NULL, "%s: nothing was said", call);
    ck_assert_msg(strncmp(line, "exs: invalid argument: ", 23) == 0 && strstr(line + 23, argument) != NULL,
                  "%s: %s", call, line);
    ck_assert_ptr_null(fgets(line, sizeof line, said));
    ck_assert_int_eq(ftruncate(fileno(said), 0), 0);
    rewind(said);
}

#define SAYS(call, argument) says(#call, (long)(call), EINVAL, argument)
#define SAYS_FAULT(call, argument) says(#call, (long)(call), EFAULT, argument)

START_TEST(transfers)
{
    exs_qhandle_t queue = pair.client_box->queue;
    exs_xferfile_t none = {.exs_xfv_type = 9}, path = {.exs_xfv_type = EXS_PATHVEC};
    char byte = 0;

    SAYS(exs_send(pair.client, NULL, 1, 0, queue, NULL, NULL), "the buffer is NULL");
    SAYS(exs_send(pair.client, &byte, (size_t)EXS_MSG_MAX + 1, 0, queue, NULL, NULL),
         "is more than EXS_MSG_MAX");
    SAYS(exs_send(pair.client, &byte, 1, EXS_BLOCK | EXS_UNSIGNALED, NULL, NULL, NULL), "EXS_UNSIGNALED");
    SAYS(exs_send(pair.client, &byte, 1, 0, NULL, NULL, NULL), "qhandle is NULL");
    SAYS(exs_send(pair.client, &byte, 1, 0, EXS_QHANDLE_INVALID, NULL, NULL), "qhandle is not a queue");
    SAYS(exs_send(pair.client, &byte, 1, 0, queue, NULL, EXS_MHANDLE_INVALID), "mhandle");
    SAYS(exs_recv(pair.client, &byte, 0, 0, queue, NULL, NULL), "length is 0");
    SAYS(exs_sendfile(pair.client, NULL, 1, 0, queue, NULL), "sendvec is NULL");
    SAYS(exs_sendfile(pair.client, &none, 0, 0, queue, NULL), "sendvec_cnt is 0");
    SAYS(exs_sendfile(pair.client, &none, 1, 0, queue, NULL), "exs_xfv_type 9");
    SAYS(exs_sendfile(pair.client, &none, 1, 2, queue, NULL), "flags 0x2");
    SAYS(exs_sendfile(pair.client, &path, 1, 0, queue, NULL), "exs_path is NULL");
    path.exs_xfv_type = EXS_FDVEC;
    path.exs_xfv.exs_fdv = (exs_fdvec_t){.exs_fildes = fileno(said), .exs_offset = 1};
    SAYS(exs_sendfile(pair.client, &path, 1, 0, queue, NULL), "exs_offset 1");
    SAYS(exs_shutdown(pair.client, 17, 0, queue, NULL), "how is 17");
}
END_TEST

START_TEST(interruptible)
{
    static const char why[] = "flags has EXS_INTR without EXS_BLOCK";
    exs_qhandle_t queue = pair.client_box->queue;
    exs_acceptaddr_t one = {0};
    exs_xferfile_t file = {.exs_xfv_type = EXS_FDVEC};
    char byte = 0;

    SAYS(exs_send(pair.client, &byte, 1, EXS_INTR, queue, NULL, NULL), why);
    SAYS(exs_recv(pair.client, &byte, 1, EXS_INTR, queue, NULL, NULL), why);
    SAYS(exs_sendfile(pair.client, &file, 1, EXS_INTR, queue, NULL), why);
    SAYS(exs_accept(pair.listener, &one, 1, EXS_INTR, queue), why);
    SAYS(exs_connect_host(pair.client, "::1", "1", EXS_INTR, NULL, queue, NULL), why);
}
END_TEST

START_TEST(others)
{
    exs_qhandle_t queue = pair.client_box->queue;
    exs_acceptaddr_t one = {0};
    exs_event_t event;
    struct timeval late = {.tv_usec = -1};
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    char name[8];
    int fresh = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(fresh);
    SAYS(exs_bind(fresh, NULL, length), "address is NULL");
    SAYS(exs_bind(fresh, (struct sockaddr *)&address, 3), "not 3");
    SAYS(exs_bind(pair.client, (struct sockaddr *)&address, length), "was bound or used");
    SAYS(exs_listen(fresh, -1), "backlog is -1");
    SAYS(exs_listen(pair.client, 1), "was connected");
    SAYS(exs_accept(pair.listener, NULL, 1, 0, queue), "addrvec is NULL");
    SAYS(exs_accept(pair.listener, &one, 0, 0, queue), "addrvec_cnt is 0");
    SAYS(exs_accept(fresh, &one, 1, 0, queue), "does not listen");
    SAYS(exs_connect(fresh, (struct sockaddr *)&address, length, 2, NULL, queue, NULL), "flags 0x2");
    SAYS(exs_connect(fresh, (struct sockaddr *)&address, length, 0, &late, queue, NULL), "timeout");
    SAYS(exs_connect(pair.client, (struct sockaddr *)&address, length, 0, NULL, queue, NULL), "is connected");
    SAYS(exs_close(fresh, 2, NULL, NULL), "flags 0x2");
    SAYS(exs_qdequeue(queue, &event, 0, NULL), "evtvec_cnt is 0");
    SAYS(exs_qdequeue(NULL, &event, 1, NULL), "qhandle");
    SAYS(exs_qdelete(NULL), "qhandle");
    SAYS(exs_qfd(NULL), "qhandle");
    SAYS(exs_qcreate(-1), "depth is -1");
    SAYS(exs_mregister(NULL, 1, 0), "addr is NULL");
    SAYS(exs_mregister(name, 0, 0), "size is 0");
    SAYS(exs_mregister(name, 1, 64), "flags 0x40");
    SAYS(exs_mderegister(NULL, 0), "mhandle");
    SAYS(exs_getdevice(pair.client, name, 0), "size is 0");
    SAYS(exs_fcntl(fresh, 77), "cmd is 77");
}
END_TEST

START_TEST(results)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    struct timeval long_second = {.tv_usec = 1500000};
    exs_event_t event;
    char memory[8];
    exs_mhandle_t region = exs_mregister(memory, sizeof memory, 0);

    SAYS_FAULT(exs_getsockname(pair.client, NULL, &length), "address is NULL");
    SAYS_FAULT(exs_getpeername(pair.client, (struct sockaddr *)&address, NULL), "address_len is NULL");
    SAYS_FAULT(exs_getdevice(pair.client, NULL, 8), "name is NULL");
    SAYS_FAULT(exs_qdequeue(pair.client_box->queue, NULL, 1, NULL), "evtvec is NULL");
    SAYS_FAULT(exs_qdequeue(pair.client_box->queue, &event, 1, &long_second), "timeout is 0 s and 1500000 us");
    SAYS_FAULT(exs_setsockopt(pair.client, SOL_SOCKET, SO_KEEPALIVE, NULL, 4), "value is NULL");
    SAYS_FAULT(exs_mexport(pair.client, region, memory, 8, EXS_REMOTE_READ, NULL), "token is NULL");
    must(exs_mderegister(region, 0));
}
END_TEST

static void expect_line(const char *what)
{
    char line[512] = "";

    rewind(said);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, said));
    ck_assert_msg(strstr(line, what) != NULL, "%s", line);
    ck_assert_ptr_null(fgets(line, sizeof line, said));
    ck_assert_int_eq(ftruncate(fileno(said), 0), 0);
    rewind(said);
}

/* The line tells why a connection could not be established, whether the peer is EXS or another program. */
START_TEST(connecting)
{
    static const struct timeval soon = {.tv_usec = 100000};
    int keep, keep_too, sock;
    struct address nobody = refusing_address(&keep), deaf = deaf_address(&keep_too);
    char port[8];

    snprintf(port, sizeof port, "%d", port_of(&deaf));
    must(sock = exs_socket(PF_INET, SOCK_STREAM, 0));
    must_fail(exs_blocking_connect(sock, SA(&nobody), nobody.length), ECONNREFUSED);
    expect_line("refused the connection: is a listener there");
    must_fail(exs_connect(sock, SA(&deaf), deaf.length, EXS_BLOCK, &soon, NULL, NULL), ETIMEDOUT);
    expect_line("did not answer in time");
    must_fail(exs_connect_host(sock, "127.0.0.1", port, EXS_BLOCK, &soon, NULL, NULL), ETIMEDOUT);
    expect_line("did not answer in time: is the host up, does its program call exs_accept, ");
    must(exs_blocking_close(sock));
    close(keep);
    close(keep_too);
}
END_TEST

/* Both ends belong to this thread, which does not drive the listener while it waits for the connect. The advice must
 * name the missing accept, not a firewall. */
START_TEST(connecting_to_oneself)
{
    static const struct timeval soon = {.tv_usec = 100000};
    static exs_acceptaddr_t wanted;
    struct inbox box;
    struct address address;
    int sock, listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    char advice[200];

    snprintf(advice, sizeof advice,
             "did not answer in time: socket %d of this process listens there, and nothing accepts", listener);
    must(sock = exs_socket(PF_INET, SOCK_STREAM, 0));
    must_fail(exs_connect(sock, SA(&address), address.length, EXS_BLOCK, &soon, NULL, NULL), ETIMEDOUT);
    expect_line(advice);
    inbox_open(&box, 4); /* the advice is the same with a pending accept that no thread drives */
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    must_fail(exs_connect(sock, SA(&address), address.length, EXS_BLOCK, &soon, NULL, NULL), ETIMEDOUT);
    expect_line(advice);
    must(exs_blocking_close(sock));
    must(exs_close(listener, 0, box.queue, NULL));
    take_failed(&box, EXS_EVT_ACCEPT, listener, ECANCELED);
    take_good(&box, EXS_EVT_CLOSE, listener);
    inbox_close(&box);
}
END_TEST

/* For a vector of files the line names the file that could not be used. For a wrong argument there is still one
 * line. */
START_TEST(one_of_the_files)
{
    exs_qhandle_t queue = pair.client_box->queue;
    exs_xferfile_t vector[2];
    struct folder folder;
    char paths[2][200], which[40];
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    must(root);
    folder_make(&folder);
    close(folder_file(&folder, "there", 100));
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s", folder_path(&folder, i == 0 ? "there" : "missing"));
        vector[i] = by_path(paths[i], 0, 0);
    }
    must_fail(exs_sendfile(pair.client, vector, 2, 0, queue, NULL), ENOENT);
    expect_line(paths[1]);
    vector[1] = by_fd(root, 0, 0);
    must_fail(exs_sendfile(pair.client, vector, 2, 0, queue, NULL), ENODEV);
    snprintf(which, sizeof which, "exs_fildes %d: ", root);
    expect_line(which);
    vector[1] = by_fd(-1, 0, 0);
    SAYS(exs_sendfile(pair.client, vector, 2, 0, queue, NULL), "exs_fildes -1 is not open");
    close(root);
    folder_clear(&folder);
}
END_TEST

/* ---- The environment ------------------------------------------------------------------------ */

static const struct {
    const char *name, *value, *line;
} odd_values[] = {
    {"EXS_LINK", "nonsense", "EXS_LINK=nonsense is not a link: set it to auto, shm, tcp or udp"},
    {"EXS_LINK", "udp-only", "EXS_LINK=udp-only is not a link"},
    {"EXS_TCP_CONGESTION", "warp", "EXS_TCP_CONGESTION=warp is unavailable: set it to one that `sysctl"},
    {"EXS_IMMEDIATE", "on", "EXS_IMMEDIATE=on is not known: set it to 0 or 1"},
    {"EXS_ROCE", "sometimes", "EXS_ROCE=sometimes is not known: set it to off, on, auto or only"},
    {"EXS_SPIN", "fifty",
     "EXS_SPIN=fifty is not a number of microseconds: set it to a number from 0 to 1000000"},
    {"EXS_MAP", "yes, always", "EXS_MAP=yes, always is not known: set it to 0 or 1"},
    {"EXS_IMMEDIATE", "whenever", "EXS_IMMEDIATE=whenever is not known: set it to 0 or 1"},
    {"EXS_CHECK", "everything", "EXS_CHECK=everything is not known: set it to 0, 1 or abort"},
    {"EXS_DEVICE", "no-such-device-0", "EXS_DEVICE=no-such-device-0 is not a device"},
    /* A value that is too long for the line is cut, between two characters, and ends with "...". */
    {"EXS_LINK", SIXTY "udp", "EXS_LINK=" SIXTY "udp is not a link"},
    {"EXS_LINK", SIXTY "udp.", "EXS_LINK=" SIXTY "... is not a link"},
    {"EXS_ROCE", FIFTY_NINE "\u00e9\u00e9\u00e9", "EXS_ROCE=" FIFTY_NINE "... is not known"},
    {"EXS_SPIN", "1" NOUGHTS "12345", "EXS_SPIN=1" NOUGHTS "... is not a number"},
    {"EXS_CHECK", SIXTY SIXTY, "EXS_CHECK=" SIXTY "... is not known"},
    {"EXS_DEVICE", SIXTY SIXTY, "EXS_DEVICE=" SIXTY "... is not a device"},
    /* Control characters are not written to the terminal. */
    {"EXS_LINK", "u\033[2Jdp\r\n", "EXS_LINK=u?[2Jdp?? is not a link"},
    {"EXS_ROCE", "\x9b\xc2\x9b\u202e\u00fc", "EXS_ROCE=???\u00fc is not known"},
    {"EXS_MAP", "\a", "EXS_MAP=? is not known"},
    {"EXS_DEVICE", "soft\n0", "EXS_DEVICE=soft?0 is not a device"},
};

START_TEST(odd_value)
{
    const bool is_device = strcmp(odd_values[_i].name, "EXS_DEVICE") == 0;

    must(setenv("EXS_DEBUG", "1", 1));
    must(setenv(odd_values[_i].name, odd_values[_i].value, 1));
    said = tmpfile();
    ck_assert_ptr_nonnull(said);
    must(dup2(fileno(said), STDERR_FILENO));
    must_fail(exs_init(EXS_VERSION), is_device ? ENODEV : EINVAL);
    expect_line(odd_values[_i].line);
}
END_TEST

/* Names of hosts and files may contain control characters, too. */
START_TEST(odd_names)
{
    exs_xferfile_t file = by_path("/missing\033]0;file\a", 0, 0);

    must_fail(exs_sendfile(pair.client, &file, 1, 0, pair.client_box->queue, NULL), ENOENT);
    expect_line("/missing?]0;file?: No such file");
}
END_TEST

/* A second exs_init, for another library of the process, does not change the setting. */
START_TEST(heard_once)
{
    ck_assert_int_eq(setenv("EXS_DEBUG", "0", 1), 0);
    must(exs_init(EXS_VERSION));
    SAYS(exs_qfd(NULL), "qhandle");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("advice");
    TCase *invalid = add_bare_case(suite, "invalid arguments", 20);

    tcase_add_checked_fixture(invalid, listen_to_it, NULL);
    tcase_add_test(invalid, transfers);
    tcase_add_test(invalid, interruptible);
    tcase_add_test(invalid, others);
    tcase_add_test(invalid, results);
    tcase_add_test(invalid, heard_once);
    tcase_add_test(invalid, connecting);
    tcase_add_test(invalid, connecting_to_oneself);
    tcase_add_test(invalid, one_of_the_files);
    tcase_add_test(invalid, odd_names);
    TCase *environment = add_bare_case(suite, "environment", 20);

    tcase_add_loop_test(environment, odd_value, 0, sizeof odd_values / sizeof odd_values[0]);
    return run_suite(suite);
}
