/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_stopped.c - peers whose process is stopped for some seconds, or gets no CPU time, on the software device, which is
 * part of that process. The connection survives, over shared memory as over TCP.
 */
#include "check/support/processes.h"
#include "check/support/support.h"

#include <signal.h>
#include <stdlib.h>

#define STOPPED_MS 6000 /* longer than the queue pair's retries, and than a short outage */
#define LENGTH 1000

static const char *const links[] = {"shm", "tcp"};

/* Receives until the stream ends, and reports the number of bytes, or -1 if it did not end in order. */
static void receiver(int fd, void *arg)
{
    struct address address;
    char bytes[LENGTH];
    ssize_t got, sum = 0;

    (void)arg;
    init_library();
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    tell(fd, &address, sizeof address);
    int socket = exs_blocking_accept(listener, NULL, NULL);
    must(socket);
    tell(fd, "x", 1);
    while ((got = exs_read(socket, bytes, sizeof bytes)) > 0)
        sum += got;
    if (got == -1)
        sum = -1;
    tell(fd, &sum, sizeof sum);
    must(exs_blocking_close(socket));
    must(exs_blocking_close(listener));
    exit(0);
}

struct stopped { /* this process's end of a connection to a process that is stopped */
    struct child child;
    struct inbox box;
    int socket;
};

static void stopped_open(struct stopped *s, const char *link)
{
    struct address address;
    char ready;

    ck_assert_int_eq(setenv("EXS_LINK", link, 1), 0);
    child_start(&s->child, receiver, NULL);
    init_library();
    inbox_open(&s->box, 16);
    hear(s->child.fd, &address, sizeof address);
    must(s->socket = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_connect(s->socket, SA(&address), address.length, 0, NULL, s->box.queue, NULL));
    take_good(&s->box, EXS_EVT_CONNECT, s->socket);
    hear(s->child.fd, &ready, 1);
}

/* The peer has received this number of bytes, and then the end of the stream. */
static void stopped_close(struct stopped *s, ssize_t bytes)
{
    ssize_t received;

    hear(s->child.fd, &received, sizeof received);
    ck_assert_int_eq(received, bytes);
    child_join(&s->child);
    inbox_close(&s->box);
}

START_TEST(send_to_a_stopped_process)
{
    static char bytes[LENGTH];
    struct stopped s;

    stopped_open(&s, links[_i]);
    process_stop(s.child.pid);
    must(exs_send(s.socket, bytes, LENGTH, 0, s.box.queue, NULL, NULL));
    if (!on_rdma())
        inbox_quiet(&s.box, STOPPED_MS);
    ck_assert_int_eq(kill(s.child.pid, SIGCONT), 0);
    take_good(&s.box, EXS_EVT_SEND, s.socket);
    close_socket(&s.box, s.socket);
    stopped_close(&s, LENGTH);
}
END_TEST

/* The close waits only 5 seconds for the peer, which nevertheless receives the end of the stream when it continues. */
START_TEST(close_towards_a_stopped_process)
{
    static char bytes[LENGTH];
    struct stopped s;

    stopped_open(&s, links[_i]);
    must(exs_send(s.socket, bytes, LENGTH, 0, s.box.queue, NULL, NULL));
    take_good(&s.box, EXS_EVT_SEND, s.socket);
    process_stop(s.child.pid);
    close_socket(&s.box, s.socket);
    ck_assert_int_eq(kill(s.child.pid, SIGCONT), 0);
    stopped_close(&s, LENGTH);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stopped");
    TCase *tcase = add_bare_case(suite, "stopped", 30);

    tcase_add_loop_test(tcase, send_to_a_stopped_process, 0, 2);
    tcase_add_loop_test(tcase, close_towards_a_stopped_process, 0, 2);
    return run_suite(suite);
}
