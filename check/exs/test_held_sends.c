/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_held_sends.c - sends of a thread that handles a batch of events from exs_qpoll() with EXS_LOOP_BUDGET: over the
 * TCP link they share system calls, and they arrive also if the thread never polls again.
 */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "check/support/support.h"

enum { MESSAGES = 8 };

static _Thread_local int calls; /* of send(2), by this thread */

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    calls++;
    return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

static struct pair pair;
static char questions[MESSAGES], answers[MESSAGES];

static exs_qhandle_t server_queue(void)
{
    return pair.server_box->queue;
}

static void setup(void)
{
    must(setenv("EXS_LINK", "tcp", 1));
    must(setenv("EXS_DEVICE", "soft", 1));
    must(exs_init(EXS_VERSION));
    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
}

static void teardown(void)
{
    for (int i = 0; i < MESSAGES; i++)
        inbox_take(pair.client_box, EXS_EVT_RECV, pair.client);
    ck_assert_mem_eq(answers, "abcdefgh", MESSAGES);
    pair_close(&pair);
    must(exs_fini());
}

/* The client asks MESSAGES questions, and the server gets all of them in one batch of events. */
static void take_batch(void)
{
    exs_event_t events[MESSAGES];
    int count = 0;

    for (int i = 0; i < MESSAGES; i++) {
        must(exs_recv(pair.server, &questions[i], 1, 0, server_queue(), NULL, NULL));
        must(exs_recv(pair.client, &answers[i], 1, 0, pair.client_box->queue, NULL, NULL));
    }
    for (int i = 0; i < MESSAGES; i++)
        must(exs_send(pair.client, "?", 1, EXS_BLOCK, NULL, NULL, NULL));
    while (count < MESSAGES) {
        int more = exs_qpoll(server_queue(), events, MESSAGES, EXS_LOOP_BUDGET);

        ck_assert_int_ge(more, 0);
        count += more;
    }
    ck_assert_int_eq(count, MESSAGES);
}

static void answer(int from, int to)
{
    for (int i = from; i < to; i++)
        must(exs_send(pair.server, &"abcdefgh"[i], 1, EXS_UNSIGNALED, server_queue(), NULL, NULL));
}

/* Two calls would be enough: one for the first answer, and one for all others. The service thread may end a batch early. */
START_TEST(answers_share_calls)
{
    take_batch();
    calls = 0;
    answer(0, 1);
    ck_assert_int_eq(calls, 1);
    answer(1, MESSAGES);
    must(exs_qprepare(server_queue()));
    ck_assert_int_le(calls, MESSAGES / 2);
}
END_TEST

START_TEST(thread_never_polls_again)
{
    take_batch();
    answer(0, MESSAGES);
    for (int i = 0; i < MESSAGES; i++)
        inbox_take(pair.client_box, EXS_EVT_RECV, pair.client);
    ck_assert_mem_eq(answers, "abcdefgh", MESSAGES);
    take_batch(); /* for teardown() */
    answer(0, MESSAGES);
}
END_TEST

static void *answer_elsewhere(void *unused)
{
    (void)unused;
    answer(2, MESSAGES);
    ck_assert_int_ge(calls, MESSAGES - 2); /* this thread does not poll, so it sends at once */
    return NULL;
}

START_TEST(other_thread_sends_at_once)
{
    take_batch();
    answer(0, 2);
    thread_join(thread_start(answer_elsewhere, NULL));
}
END_TEST

/* The batch ends with exs_qprepare(): the thread may wait for anything now, and sends at once. */
START_TEST(after_the_batch)
{
    take_batch();
    must(exs_qprepare(server_queue()));
    calls = 0;
    answer(0, MESSAGES);
    ck_assert_int_ge(calls, MESSAGES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("held sends");
    TCase *tcase = new_case(suite, "held sends");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, answers_share_calls);
    tcase_add_test(tcase, thread_never_polls_again);
    tcase_add_test(tcase, other_thread_sends_at_once);
    tcase_add_test(tcase, after_the_batch);
    return run_suite(suite);
}
