/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_host_lookup.c - connecting by name, during the lookup: only blocking calls wait for it, and its result is
 * discarded if the connect times out, is cancelled or closed, or the process has forked.
 */
#include <poll.h>
#include <unistd.h>
#include "check/support/asleep.h"
#include "check/support/processes.h"
#include "named.h"

static bool is_readable(exs_qhandle_t queue, int ms)
{
    struct pollfd fd = {.fd = exs_qfd(queue), .events = POLLIN};

    return poll(&fd, 1, ms) == 1;
}

/* The call returns and the loop sleeps. The result of the lookup wakes it through the queue's descriptor. */
START_TEST(nobody_waits)
{
    struct inbox box;
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    inbox_open(&box, 4);
    answer.waits = true;
    answer.error = EAI_NONAME;
    connect_host(client, &box);
    await(&asked);
    inbox_quiet(&box, QUIET_MS);
    ck_assert(!is_readable(box.queue, 0));
    must_fail(exs_connect_host(client, "host", "service", 0, NULL, box.queue, NULL), EINVAL);
    sem_post(&go);
    ck_assert(is_readable(box.queue, WAIT_MS));
    take_failed(&box, EXS_EVT_CONNECT, client, ENXIO);
    close_socket(&box, client);
    inbox_close(&box);
}
END_TEST

/* EXS_DEBUG writes one line for the failed lookup. */
START_TEST(said_once)
{
    FILE *said = tmpfile();
    struct inbox box;
    char line[512];
    int client, lines = 0;

    ck_assert_ptr_nonnull(said);
    must(exs_fini());
    must(setenv("EXS_DEBUG", "1", 1));
    must(exs_init(EXS_VERSION));
    must(dup2(fileno(said), STDERR_FILENO));
    client = exs_socket(PF_INET, SOCK_STREAM, 0);
    inbox_open(&box, 4);
    answer.error = EAI_NONAME;
    connect_host(client, &box);
    take_failed(&box, EXS_EVT_CONNECT, client, ENXIO);
    rewind(said);
    while (fgets(line, sizeof line, said) != NULL)
        lines += strstr(line, "host 'host', service '7': ") != NULL;
    ck_assert_int_eq(lines, 1);
    close_socket(&box, client);
    inbox_close(&box);
}
END_TEST

/* The event goes to another queue than the socket's home queue. */
START_TEST(another_queue)
{
    struct inbox first, second;
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    inbox_open(&first, 4);
    inbox_open(&second, 4);
    answer.error = EAI_NONAME;
    if (_i == 0) {
        connect_host(client, &first);
        take_failed(&first, EXS_EVT_CONNECT, client, ENXIO);
    } else {
        must_fail(exs_blocking_connect_host(client, "host", "service"), ENXIO);
    }
    answer.waits = true;
    connect_host(client, &second);
    inbox_quiet(&second, QUIET_MS);
    sem_post(&go);
    ck_assert(is_readable(second.queue, WAIT_MS));
    take_failed(&second, EXS_EVT_CONNECT, client, ENXIO);
    close_socket(_i == 0 ? &first : &second, client);
    inbox_close(&first);
    inbox_close(&second);
}
END_TEST

/* The connect ends before the lookup: the result is discarded. */
START_TEST(given_up)
{
    struct inbox box;
    struct address address = loopback(AF_INET, 1);
    struct timeval limit = {.tv_usec = 50000};
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    inbox_open(&box, 4);
    name_leads_to(&address);
    answer.waits = true;
    must(exs_connect_host(client, "host", "service", 0, _i == 0 ? &limit : NULL, box.queue, &answer));
    await(&asked);
    if (_i == 1)
        ck_assert_int_eq(exs_cancel(client, &answer, 0), 1);
    if (_i != 2)
        take_failed(&box, EXS_EVT_CONNECT, client, _i == 0 ? ETIMEDOUT : ECANCELED);
    must(exs_close(client, 0, box.queue, NULL));
    if (_i == 2)
        take_failed(&box, EXS_EVT_CONNECT, client, ECANCELED);
    take_good(&box, EXS_EVT_CLOSE, client);
    inbox_close(&box);
    must(exs_fini());
    must(exs_init(EXS_VERSION));
    sem_post(&go);
    await(&freed);
}
END_TEST

START_TEST(limit_of_a_blocking_call)
{
    struct timeval limit = {.tv_usec = 200000};
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    answer.waits = true;
    answer.error = EAI_AGAIN;
    double start = seconds_now();
    must_fail(exs_connect_host(client, "host", "service", EXS_BLOCK, &limit, NULL, NULL), ETIMEDOUT);
    double took = seconds_now() - start;
    ck_assert_msg(took > 0.18 && took < 0.2 + LATE_S, "a limit of 0.2 s took %.3f s", took);
    sem_post(&go);
    must(exs_blocking_close(client));
}
END_TEST

static _Atomic pid_t waiter;

static void *connect_by_name(void *socket)
{
    waiter = gettid();
    must_fail(exs_blocking_connect_host(*(int *)socket, "host", "service"), ENXIO);
    return NULL;
}

/* The result of the lookup wakes the call before its timeout. */
START_TEST(wakes_a_blocking_call)
{
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    answer.waits = true;
    answer.error = EAI_NONAME;
    pthread_t thread = thread_start(connect_by_name, &client);
    await(&asked);
    await_sleep(&waiter);
    double start = seconds_now();
    sem_post(&go);
    thread_join(thread);
    double took = seconds_now() - start;
    ck_assert_msg(took < LATE_S, "what was answered at once took %.3f s", took);
    must(exs_blocking_close(client));
}
END_TEST

/* ---- Many lookups -------------------------------------------------------------------------- */

#define AT_ONCE 8 /* maximum number of concurrent lookups */
#define MANY 20

static void begin_many(int *clients, struct inbox *box)
{
    answer.waits = true;
    answer.error = EAI_NONAME;
    for (int i = 0; i < MANY; i++) {
        must(clients[i] = exs_socket(PF_INET, SOCK_STREAM, 0));
        connect_host(clients[i], box);
    }
    for (int i = 0; i < AT_ONCE; i++)
        await(&asked);
}

static void let_go(int count)
{
    for (int i = 0; i < count; i++)
        sem_post(&go);
}

/* Further lookups wait in a list, and can be cancelled. */
START_TEST(many)
{
    struct inbox box;
    int clients[MANY];

    inbox_open(&box, MANY);
    int threads = count_threads();

    begin_many(clients, &box);
    inbox_quiet(&box, QUIET_MS);
    ck_assert_int_eq(atomic_load(&asks), AT_ONCE);
    ck_assert_int_eq(exs_cancel(clients[MANY - 2], &answer, 0), 1);
    take_failed(&box, EXS_EVT_CONNECT, clients[MANY - 2], ECANCELED);
    let_go(MANY - 1);
    for (int i = 0; i < MANY; i++) {
        if (i != MANY - 2)
            take_failed(&box, EXS_EVT_CONNECT, clients[i], ENXIO);
        close_socket(&box, clients[i]);
    }
    ck_assert_int_eq(atomic_load(&asks), MANY - 1);
    while (count_threads() > threads)
        sched_yield();
    /* The lookup threads have ended; a new lookup starts another one. */
    clients[0] = exs_socket(PF_INET, SOCK_STREAM, 0);
    connect_host(clients[0], &box);
    let_go(1);
    take_failed(&box, EXS_EVT_CONNECT, clients[0], ENXIO);
    close_socket(&box, clients[0]);
    inbox_close(&box);
}
END_TEST

static void connect_in_child(void)
{
    struct inbox box;

    must(exs_init(EXS_VERSION));
    inbox_open(&box, 4);
    answer.waits = false;
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    connect_host(client, &box);
    take_failed(&box, EXS_EVT_CONNECT, client, ENXIO);
    ck_assert_int_eq(atomic_load(&asks), AT_ONCE + 1);
    close_socket(&box, client);
    inbox_close(&box);
}

/* The child has neither the parent's lookup threads nor its lookups. */
START_TEST(forked)
{
    struct inbox box;
    int clients[MANY];

    inbox_open(&box, MANY);
    begin_many(clients, &box);
    pid_t pid = fork();

    if (pid == 0) {
        connect_in_child();
        _exit(0);
    }
    process_join(pid);
    let_go(MANY);
    for (int i = 0; i < MANY; i++) {
        take_failed(&box, EXS_EVT_CONNECT, clients[i], ENXIO);
        close_socket(&box, clients[i]);
    }
    inbox_close(&box);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host lookup");
    TCase *c = named_case(suite, "lookup");

    tcase_add_test(c, nobody_waits);
    tcase_add_test(c, said_once);
    tcase_add_loop_test(c, another_queue, 0, 2);
    tcase_add_loop_test(c, given_up, 0, 3);
    tcase_add_test(c, limit_of_a_blocking_call);
    tcase_add_test(c, wakes_a_blocking_call);
    tcase_add_test(c, many);
    tcase_add_test(c, forked);
    return run_suite(suite);
}
