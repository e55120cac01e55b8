/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_close_driven.c - a close that names no queue is brought to its end by the queue that drives its socket,
 * and by the call itself where there is none, or none any more.
 *
 * The queue goes while a call relies on it: the call has to wait for its socket's lock, so where it gives that
 * back it calls the kernel to wake whoever wants it next. There it is held.
 */
#include "check/support/support.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include "core/base/mutex.h"
#include "core/sock/sock.h"

/* Where nobody would bring it to its end it is not begun. */
START_TEST(alone)
{
    struct pair pair;
    char byte;

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    must_fail(xs_start_close(&(struct ask){.type = EXS_EVT_CLOSE, .sockno = pair.client}), EAGAIN);
    ck_assert_int_eq(exs_blocking_send(pair.client, "x", 1, 0, NULL), 1);
    ck_assert_int_eq(exs_blocking_recv(pair.server, &byte, 1, 0, NULL), 1);
    must(exs_close(pair.client, 0, NULL, NULL));
    ck_assert(!xs_sock_has_left(pair.client));
    must(exs_blocking_close(pair.server));
    must(exs_blocking_close(pair.listener));
}
END_TEST

#ifndef MUTEX_IS_PTHREAD

static _Thread_local exs_qhandle_t goes; /* when this thread wakes another */
static sem_t waits;                      /* such a thread does, for a lock */

static void look_at_futex(int operation)
{
    exs_qhandle_t queue = goes;

    if (operation == FUTEX_WAIT_PRIVATE) {
        must(sem_post(&waits));
    } else if (operation == FUTEX_WAKE_PRIVATE) {
        goes = NULL;
        must(exs_qdelete(queue));
    }
}

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long (*own)(long, ...), arguments[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < COUNT(arguments); i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_futex && goes != NULL)
        look_at_futex((int)arguments[1]);
    *(void **)&own = dlsym(RTLD_NEXT, "syscall");
    return own(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

struct closing { /* a socket, and the queue that drives it */
    int socket;
    exs_qhandle_t queue;
};

static void *close_it(void *argument)
{
    const struct closing *closing = argument;

    goes = closing->queue;
    must(exs_close(closing->socket, 0, NULL, NULL));
    return NULL;
}

/* A queue that drives the client, and has nothing to do. */
static exs_qhandle_t make_driver(const struct pair *pair)
{
    exs_qhandle_t queue = exs_qcreate(4);
    exs_event_t event;
    char byte;

    ck_assert_ptr_ne(queue, EXS_QHANDLE_INVALID);
    must(exs_send(pair->client, "x", 1, 0, queue, NULL, NULL));
    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, NULL), 1);
    ck_assert_int_eq(event.exs_evt_errno, 0);
    ck_assert_int_eq(exs_blocking_recv(pair->server, &byte, 1, 0, NULL), 1);
    return queue;
}

START_TEST(its_queue_goes)
{
    struct closing closing;
    struct pair pair;

    must(sem_init(&waits, 0, 0));
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    closing = (struct closing){.socket = pair.client, .queue = make_driver(&pair)};
    struct sock *sock = xs_sock_get_locked(pair.client);

    ck_assert_ptr_nonnull(sock);
    pthread_t thread = thread_start(close_it, &closing);

    while (sem_wait(&waits) < 0)
        ck_assert_int_eq(errno, EINTR);
    xs_sock_put_locked(sock);
    thread_join(thread);
    must_fail(exs_qdelete(closing.queue), EINVAL); /* it has gone, as it was to */
    ck_assert_msg(!xs_sock_has_left(pair.client), "nobody brings the close to its end");
    must(exs_blocking_close(pair.server));
    must(exs_blocking_close(pair.listener));
}
END_TEST

#endif

int main(void)
{
    Suite *suite = suite_create("close driven");
    TCase *tcase = add_case(suite, "close driven", 20);

    tcase_add_test(tcase, alone);
#ifndef MUTEX_IS_PTHREAD
    tcase_add_test(tcase, its_queue_goes);
#endif
    return run_suite(suite);
}
