/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_owner.c - a request is answered for the accept of one queue, and another queue's accept or a blocking
 * accept returns the connection. Then the other queue owns it: the first queue can be deleted, the second
 * cannot, and a close of the socket completes.
 */
#include "check/support/support.h"

#include <fcntl.h>
#include <sched.h>
#include "core/conn/conn.h"
#include "core/sock/sock.h"

static exs_qhandle_t first, second;
static struct inbox client_box;
static exs_acceptaddr_t wanted[3];
static struct address address;
static int listener, client;
static const struct timeval at_once = {0, 0};

static void drive(exs_qhandle_t queue, int ms)
{
    exs_event_t event;

    for (double end = seconds_now() + ms / 1e3; seconds_now() < end;)
        ck_assert_int_eq(exs_qdequeue(queue, &event, 1, &(struct timeval){.tv_usec = 5000}), 0);
}

static void expect_event(exs_qhandle_t queue, int type, int error)
{
    exs_event_t event;

    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, NULL), 1);
    ck_assert_int_eq(event.exs_evt_type, type);
    ck_assert_int_eq(event.exs_evt_errno, error);
}

/* A client's request is answered for an accept of the first queue. That accept is cancelled. */
static void begin(void)
{
    first = exs_qcreate(8);
    second = exs_qcreate(8);
    inbox_open(&client_box, 8);
    listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    for (int i = 0; i < COUNT(wanted); i++)
        wanted[i] = (exs_acceptaddr_t){.exs_ahandle = &wanted[i]};
    must(exs_accept(listener, &wanted[0], 1, 0, first));
    must(client = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_connect(client, SA(&address), address.length, 0, NULL, client_box.queue, NULL));
    inbox_pump(&client_box, 100);
    drive(first, 100);
    ck_assert_int_eq(exs_cancel(listener, &wanted[0], 0), 1);
    expect_event(first, EXS_EVT_ACCEPT, ECANCELED);
}

/* The connection is established, and the second queue's accept returns it. */
static int give_to_second(void)
{
    take_good(&client_box, EXS_EVT_CONNECT, client);
    must(exs_accept(listener, &wanted[1], 1, 0, second));
    expect_event(second, EXS_EVT_ACCEPT, 0);
    return wanted[1].exs_socket;
}

static void end(void)
{
    close_socket(&client_box, client);
    must(exs_blocking_close(listener));
    inbox_close(&client_box);
}

static void *read_one(void *arg)
{
    char byte;

    ck_assert_int_eq(exs_read(*(int *)arg, &byte, 1), 1);
    return NULL;
}

static void wait_for_receive(int number)
{
    double end = seconds_now() + WAIT_MS / 1e3;

    for (bool waits = false; !waits;) {
        struct sock *sock = xs_sock_get_locked(number);

        ck_assert_ptr_nonnull(sock);
        waits = !STAILQ_EMPTY(&sock->conn->rx.recvs);
        xs_sock_put_locked(sock);
        ck_assert(seconds_now() < end);
        sched_yield();
    }
}

static exs_qstatus_t status_of(exs_qhandle_t queue)
{
    exs_qstatus_t status;

    must(exs_qstatus(queue, &status));
    return status;
}

/* A thread waits to read from the connection at that time. */
START_TEST(first_is_deleted)
{
    begin();
    int server = give_to_second(), fd = exs_qfd(first);
    pthread_t thread = thread_start(read_one, &server);

    wait_for_receive(server);
    ck_assert_int_eq(status_of(first).exs_sockets, 0);
    ck_assert_int_eq(status_of(first).exs_pending, 0);
    ck_assert_int_eq(status_of(second).exs_sockets, 1);
    must(exs_qdelete(first));
    must_fail(fcntl(fd, F_GETFD), EBADF);
    ck_assert_int_eq(exs_write(client, "x", 1), 1);
    thread_join(thread);
    struct inbox second_box = {.queue = second};

    pass_bytes(&client_box, client, &second_box, server, 100 * KIB, 1);
    free(second_box.kept);
    must(exs_close(server, 0, second, NULL));
    expect_event(second, EXS_EVT_CLOSE, 0);
    must(exs_qdelete(second));
    end();
}
END_TEST

/* The application has not yet dequeued the accept's event, so the new socket is known only to the second queue. */
START_TEST(second_is_kept)
{
    begin();
    take_good(&client_box, EXS_EVT_CONNECT, client);
    must(exs_accept(listener, &wanted[1], 1, 0, second));
    /* attaches the listener's owner to this queue, too */
    must(exs_accept(listener, &wanted[2], 1, 0, client_box.queue));
    for (double until = seconds_now() + WAIT_MS / 1e3; status_of(second).exs_events == 0;) {
        ck_assert(seconds_now() < until);
        inbox_pump(&client_box, 1);
    }
    must_fail(exs_qdelete(second), EBUSY);
    must(exs_qdelete(first));
    must_fail(exs_qdelete(second), EBUSY);
    expect_event(second, EXS_EVT_ACCEPT, 0);
    must(exs_close(wanted[1].exs_socket, 0, NULL, NULL));
    for (double until = seconds_now() + WAIT_MS / 1e3; exs_qdelete(second) < 0;) {
        exs_event_t event;

        ck_assert_int_eq(errno, EBUSY);
        ck_assert(seconds_now() < until);
        ck_assert_int_eq(exs_qdequeue(second, &event, 1, &at_once), 0);
        inbox_pump(&client_box, 1);
    }
    ck_assert_int_eq(exs_cancel(listener, &wanted[2], 0), 1);
    take_failed(&client_box, EXS_EVT_ACCEPT, listener, ECANCELED);
    end();
}
END_TEST

/* A socket that a blocking accept returned is closed without a queue, in the background. Its number becomes free. */
START_TEST(blocking_accept)
{
    begin();
    take_good(&client_box, EXS_EVT_CONNECT, client);
    int server = exs_blocking_accept(listener, NULL, NULL);

    must(server);
    ck_assert_int_eq(status_of(first).exs_sockets, 0);
    must(exs_close(server, 0, NULL, NULL));
    must(exs_qdelete(first));
    must(exs_qdelete(second));
    for (double until = seconds_now() + WAIT_MS / 1e3; fcntl(server, F_GETFD) != -1;)
        ck_assert(seconds_now() < until);
    ck_assert_int_eq(errno, EBADF);
    end();
}
END_TEST

/* A poll of the listener finds the connection that had arrived for an accept that is cancelled. */
START_TEST(no_accept_is_left)
{
    exs_pollfd_t fd;

    begin();
    must(exs_accept(listener, &wanted[1], 1, 0, second));
    take_good(&client_box, EXS_EVT_CONNECT, client);
    fd = (exs_pollfd_t){.exs_fd = listener, .exs_events = EXS_POLLIN};
    must(exs_poll(&fd, 1, 0, NULL, first, NULL));
    drive(first, 20); /* the connection arrives, but not yet at the second queue's accept */
    ck_assert_int_eq(exs_cancel(listener, &wanted[1], 0), 1);
    ck_assert_int_eq(status_of(first).exs_events, 1);
    expect_event(first, EXS_EVT_POLL, 0);
    ck_assert_int_eq(fd.exs_revents, EXS_POLLIN);
    expect_event(second, EXS_EVT_ACCEPT, ECANCELED);
    end();
    must(exs_qdelete(first));
    must(exs_qdelete(second));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("owner");
    TCase *tcase = add_case(suite, "owner", 20);

    tcase_add_test(tcase, first_is_deleted);
    tcase_add_test(tcase, second_is_kept);
    tcase_add_test(tcase, blocking_accept);
    tcase_add_test(tcase, no_accept_is_left);
    return run_suite(suite);
}
