/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_nonblocking.c - O_NONBLOCK and SOCK_NONBLOCK as exs_fcntl(3) describes them, and the messages of
 * exs_errmsg() for what a program that was written for TCP may try.
 */
#include "check/support/support.h"

#include <fcntl.h>
#include <sys/socket.h>

#define HAS(words)                                                                                             \
    do {                                                                                                       \
        const char *text_ = exs_errmsg();                                                                      \
        ck_assert_msg(strstr(text_, words) != NULL, "%s has no %s", text_, words);                             \
    } while (0)

static void set_nonblocking(int sock)
{
    must(exs_fcntl(sock, F_SETFL, exs_fcntl(sock, F_GETFL) | O_NONBLOCK));
}

static short wait_until(int sock, short events)
{
    const struct timeval limit = {.tv_sec = WAIT_MS / 1000};
    exs_pollfd_t fd = {.exs_fd = sock, .exs_events = events};

    ck_assert_int_eq(exs_poll(&fd, 1, EXS_BLOCK, &limit, NULL, NULL), 1);
    return fd.exs_revents;
}

static int error_of(int sock)
{
    int error = -1;

    must(exs_getsockopt(sock, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}));
    return error;
}

START_TEST(reads)
{
    struct pair pair;
    char in[8] = "";

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    set_nonblocking(pair.server);
    must_fail(exs_read(pair.server, in, sizeof in), EAGAIN);
    HAS("exs_recv on socket");
    must_fail(exs_recv(pair.server, in, sizeof in, EXS_BLOCK | MSG_WAITALL, NULL, NULL, NULL), EAGAIN);
    must_fail(exs_blocking_recvmsg(pair.server, &(exs_msghdr_t){&(exs_iovec_t){in, 8, NULL, 0}, 1, 0}, 0),
              EAGAIN);
    ck_assert_int_eq(exs_write(pair.client, "hello", 5), 5);
    must(wait_until(pair.server, EXS_POLLIN));
    ck_assert_int_eq(exs_read(pair.server, in, sizeof in), 5);
    ck_assert_str_eq(in, "hello");
    must_fail(exs_read(pair.server, in, sizeof in), EAGAIN);
    must(exs_shutdown(pair.client, SHUT_WR, EXS_BLOCK, NULL, NULL));
    must(wait_until(pair.server, EXS_POLLIN));
    ck_assert_int_eq(exs_read(pair.server, in, sizeof in), 0);
    must(exs_fcntl(pair.server, F_SETFL, 0));
    pair_close_blocking(&pair);
}
END_TEST

/* A writer that gets EAGAIN has filled the buffers of the connection. After the peer has read, it can write
 * again. */
START_TEST(writes)
{
    char *out = new_buffer(MIB), *in = new_buffer(MIB);
    struct pair pair;
    size_t sent = 0, received = 0, rounds;
    ssize_t result = 0;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    set_nonblocking(pair.client);
    for (rounds = 0; rounds < 1000 && (result = exs_write(pair.client, out, MIB)) > 0; rounds++)
        sent += (size_t)result;
    ck_assert_int_eq(result, -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_gt(sent, 0);
    while (received < sent) {
        result = exs_read(pair.server, in, MIB);
        must(result);
        received += (size_t)result;
    }
    must(wait_until(pair.client, EXS_POLLOUT));
    ck_assert_int_eq(exs_write(pair.client, "x", 1), 1);
    ck_assert_int_eq(exs_read(pair.server, in, MIB), 1);
    pair_close_blocking(&pair);
    free(out);
    free(in);
}
END_TEST

START_TEST(connects_and_accepts)
{
    struct address address;
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address), server, tries = 0;
    int client = exs_socket(PF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    char byte = 0;

    set_nonblocking(listener);
    must_fail(exs_blocking_accept(listener, NULL, NULL), EAGAIN);
    must_fail(exs_blocking_connect(client, SA(&address), address.length), EINPROGRESS);
    HAS("in the background");
    must_fail(exs_blocking_connect(client, SA(&address), address.length), EALREADY);
    do {
        must(wait_until(listener, EXS_POLLIN));
        server = exs_blocking_accept(listener, NULL, NULL);
        ck_assert(server >= 0 || (errno == EAGAIN && ++tries < 10));
    } while (server < 0);
    ck_assert_int_eq(wait_until(client, EXS_POLLOUT), EXS_POLLOUT);
    ck_assert_int_eq(error_of(client), 0);
    must_fail(exs_blocking_connect(client, SA(&address), address.length), EISCONN);
    ck_assert_int_eq(exs_fcntl(server, F_GETFL), O_RDWR);
    ck_assert_int_eq(exs_write(client, "x", 1), 1);
    ck_assert_int_eq(exs_read(server, &byte, 1), 1);
    ck_assert_int_eq(byte, 'x');
    must_fail(exs_blocking_accept(listener, NULL, NULL), EAGAIN);
    must(exs_shutdown(client, SHUT_WR, EXS_BLOCK, NULL, NULL));
    ck_assert_int_eq(exs_read(server, &byte, 1), 0);
    must(exs_blocking_close(server));
    must(exs_blocking_close(client));
    must(exs_blocking_close(listener));
}
END_TEST

/* The program makes no call while the connect is refused. */
START_TEST(connect_fails)
{
    int keep, sock = exs_socket(PF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct address nowhere = refusing_address(&keep);

    must_fail(exs_blocking_connect(sock, SA(&nowhere), nowhere.length), EINPROGRESS);
    ck_assert_int_ne(wait_until(sock, EXS_POLLOUT) & EXS_POLLOUT, 0);
    ck_assert_int_eq(error_of(sock), ECONNREFUSED);
    must(exs_blocking_close(sock));
    must(close(keep));
}
END_TEST

/* Several clients connect at once to a nonblocking listener, without another pending accept. */
START_TEST(many_connect)
{
    enum { CLIENTS = 20 };
    struct address address;
    int listener = open_listener(AF_INET, SOCK_STREAM, CLIENTS, &address), clients[CLIENTS], servers[CLIENTS];
    int accepted = 0;

    set_nonblocking(listener);
    for (int i = 0; i < CLIENTS; i++) {
        must(clients[i] = exs_socket(PF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        must_fail(exs_blocking_connect(clients[i], SA(&address), address.length), EINPROGRESS);
    }
    for (int tries = 0; accepted < CLIENTS && tries < 50 * CLIENTS; tries++) {
        must(wait_until(listener, EXS_POLLIN));
        servers[accepted] = exs_blocking_accept(listener, NULL, NULL);
        if (servers[accepted] >= 0)
            accepted++;
        else
            ck_assert_int_eq(errno, EAGAIN);
    }
    ck_assert_int_eq(accepted, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        ck_assert_int_eq(wait_until(clients[i], EXS_POLLOUT), EXS_POLLOUT);
        must(exs_blocking_close(clients[i]));
    }
    for (int i = 0; i < CLIENTS; i++)
        must(exs_blocking_close(servers[i]));
    must(exs_blocking_close(listener));
}
END_TEST

START_TEST(always_wait)
{
    exs_xferfile_t file = {.exs_xfv_type = EXS_IOVEC};
    exs_token_t token = {0};
    struct pair pair;
    char byte;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    set_nonblocking(pair.client);
    file.exs_xfv.exs_iov = (exs_iovec_t){&byte, 1, NULL, 0};
    must_fail(exs_blocking_sendfile(pair.client, &file, 1, 0), EAGAIN);
    HAS("O_NONBLOCK");
    must_fail(exs_blocking_recvfile(pair.client, &file, 1, 0), EAGAIN);
    must_fail(exs_rread(pair.client, &byte, 1, &token, 0, EXS_BLOCK, NULL, NULL, NULL), EAGAIN);
    must_fail(exs_rwrite(pair.client, &byte, 1, &token, 0, EXS_BLOCK, NULL, NULL, NULL), EAGAIN);
    pair_close_blocking(&pair);
}
END_TEST

/* ---- Calls that programs written for TCP try ------------------------------------------------------ */

START_TEST(explains)
{
    struct pair pair;
    char byte = 0;
    int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(tcp);
    must_fail(exs_socket(PF_INET, SOCK_DGRAM, 0), EAFNOSUPPORT);
    HAS("SOCK_SEQPACKET keeps");
    must_fail(exs_socket(PF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    HAS("family is 1");
    must_fail(exs_socket(PF_INET, SOCK_RAW, 0), EAFNOSUPPORT);
    HAS("socktype is 3");
    must_fail(exs_socket(PF_INET, SOCK_STREAM, IPPROTO_UDP), EAFNOSUPPORT);
    HAS("protocol is 17");
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    must_fail(exs_blocking_send(pair.client, &byte, 1, MSG_MORE, NULL), EOPNOTSUPP);
    HAS("exs_sendmsg");
    must_fail(exs_blocking_send(pair.client, &byte, 1, MSG_OOB, NULL), EOPNOTSUPP);
    HAS("urgent");
    must_fail(exs_blocking_recv(pair.client, &byte, 1, MSG_OOB, NULL), EOPNOTSUPP);
    HAS("urgent");
    must_fail(exs_blocking_recv(pair.client, &byte, 1, MSG_ERRQUEUE, NULL), EOPNOTSUPP);
    HAS("0x2000");
    must_fail(exs_read(pair.listener, &byte, 1), ENOTCONN);
    HAS("listens");
    must_fail(exs_read(tcp, &byte, 1), EBADF);
    HAS("socket of the kernel");
    must_fail(exs_read(STDERR_FILENO, &byte, 1), EBADF);
    HAS("Bad file descriptor: ");
    must(exs_setsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_usec = 1000},
                        sizeof(struct timeval)));
    must_fail(exs_read(pair.client, &byte, 1), ETIMEDOUT);
    HAS("time limit");
    pair_close_blocking(&pair);
    must(close(tcp));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nonblocking");
    TCase *tcase = add_case(suite, "nonblocking", 20);

    tcase_add_test(tcase, reads);
    tcase_add_test(tcase, writes);
    tcase_add_test(tcase, connects_and_accepts);
    tcase_add_test(tcase, connect_fails);
    tcase_add_test(tcase, many_connect);
    tcase_add_test(tcase, always_wait);
    tcase_add_test(tcase, explains);
    return run_suite(suite);
}
