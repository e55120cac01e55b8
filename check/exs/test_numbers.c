/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_numbers.c - a program that closes the library's descriptors by close(2). The number may belong to
 * another file when the library closes the socket or queue; the library must not close that file.
 */
#include "check/support/processes.h"
#include "check/support/support.h"

#include <fcntl.h>

/* Closes the library's descriptor `number` and gives the number to another file. */
static void take_number(int number)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

    must(file);
    must(close(number));
    ck_assert_int_eq(fcntl(file, F_DUPFD_CLOEXEC, number), number);
    must(close(file));
}

static void is_open(int number)
{
    must(fcntl(number, F_GETFD));
}

static void peer_sees_the_end(struct pair *pair)
{
    char byte;

    must(exs_recv(pair->server, &byte, 1, 0, pair->server_box->queue, NULL, NULL));
    exs_event_t event = inbox_take(pair->server_box, EXS_EVT_RECV, pair->server);
    ck_assert(event.exs_evt_errno == ECONNRESET || event.exs_evt_union.exs_evt_xfer.exs_evt_length == 0);
}

/* The connection ends, whether the program uses exs_close() or exs_blocking_close(), and whether the number is
 * in use by another file. */
START_TEST(socket_closed_behind_our_back)
{
    struct pair pair;
    bool taken = _i & 1, wait = _i & 2;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    if (taken)
        take_number(pair.client);
    else
        must(close(pair.client));
    if (wait)
        must_fail(exs_blocking_close(pair.client), EBADF);
    else
        must_fail(exs_close(pair.client, 0, pair.client_box->queue, NULL), EBADF);
    must_fail(exs_blocking_close(pair.client), EBADF);
    pair.server_box->beside = pair.client_box;
    peer_sees_the_end(&pair);
    if (taken)
        is_open(pair.client);
    close_socket(pair.server_box, pair.server);
    if (taken)
        is_open(pair.client);
    pair_close_rest(&pair);
}
END_TEST

START_TEST(fresh_socket_closed_behind_our_back)
{
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(sock);
    take_number(sock);
    must_fail(exs_fcntl(sock, F_SETFD, 0), EBADF);
    must_fail(exs_fcntl(sock, F_GETFD), EBADF);
    must_fail(exs_close(sock, 0, NULL, NULL), EBADF);
    is_open(sock);
    ck_assert_int_eq(fcntl(sock, F_GETFD), FD_CLOEXEC);
}
END_TEST

/* The number has been given to a new socket: a close closes the new one, once. */
START_TEST(number_of_a_new_socket)
{
    int old = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(old);
    must(close(old));
    ck_assert_int_eq(exs_socket(PF_INET6, SOCK_STREAM, 0), old);
    is_open(old);
    must(exs_listen(old, 1));
    must(exs_blocking_close(old));
    must_fail(fcntl(old, F_GETFD), EBADF);
    must_fail(exs_blocking_close(old), EBADF);
}
END_TEST

START_TEST(queue_closed_behind_our_back)
{
    exs_qhandle_t queue = exs_qcreate(1);
    int number = exs_qfd(queue);

    must(number);
    take_number(number);
    must(exs_qdelete(queue));
    is_open(number);
}
END_TEST

/* After a fork the library closes its descriptors in the child, but not other files that have their numbers. */
START_TEST(forked)
{
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0), other = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(sock);
    must(other);
    take_number(sock);
    pid_t child = fork();

    if (child == 0)
        _exit(fcntl(sock, F_GETFD) == -1 ? 1 : fcntl(other, F_GETFD) != -1 ? 2 : 0);
    process_join(child);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("numbers");
    TCase *lost = add_case(suite, "lost", 20);

    tcase_add_loop_test(lost, socket_closed_behind_our_back, 0, 4);
    tcase_add_test(lost, fresh_socket_closed_behind_our_back);
    tcase_add_test(lost, number_of_a_new_socket);
    tcase_add_test(lost, queue_closed_behind_our_back);
    tcase_add_test(lost, forked);
    return run_suite(suite);
}
