/* SPDX-License-Identifier: BSD-2-Clause */
/* test_silence.c - an idle queue causes no wake-ups, and a thread that waits for it uses no CPU time. */
#include "check/support/player.h"

#include <poll.h>

static void queue_silent(exs_qhandle_t queue, int ms)
{
    struct inbox box = {.queue = queue};

    inbox_quiet(&box, ms);
    free(box.kept);
}

/* Traffic of each kind, so that the library has timers and packets to finish. */
static void make_traffic(struct pair *pair)
{
    for (uint64_t i = 0; i < 50; i++) {
        pass_bytes(pair->client_box, pair->client, pair->server_box, pair->server, 1 + i * 3000, i);
        pass_bytes(pair->server_box, pair->server, pair->client_box, pair->client, 1 + i * 100, i);
    }
}

/* Counts the wake-ups of both queues during this time. Each queue is polled as an application would. */
static int count_wakes(struct pair *pair, int ms)
{
    struct pollfd wait[2] = {{.fd = exs_qfd(pair->client_box->queue), .events = POLLIN},
                             {.fd = exs_qfd(pair->server_box->queue), .events = POLLIN}};
    double end = seconds_now() + ms / 1e3;
    int wakes = 0, left;

    while ((left = (int)((end - seconds_now()) * 1e3)) > 0) {
        wakes += poll(wait, 2, left) > 0;
        queue_silent(pair->client_box->queue, 0);
        queue_silent(pair->server_box->queue, 0);
    }
    return wakes;
}

START_TEST(idle_is_silent)
{
    struct pair pair;
    char in[100];

    pair_open(&pair, AF_INET, _i ? SOCK_SEQPACKET : SOCK_STREAM);
    for (int round = 0; round < 2; round++) { /* before any traffic, and after some */
        inbox_quiet(pair.client_box, QUIET_MS);
        inbox_quiet(pair.server_box, QUIET_MS);
        double cpu = seconds_of_cpu();
        int wakes = count_wakes(&pair, 200);
        cpu = seconds_of_cpu() - cpu;
        ck_assert_msg(wakes <= 3, "%d wake-ups in 0.2 s of nothing", wakes);
        ck_assert_msg(cpu < 0.02, "%.3f s of CPU in 0.2 s of nothing", cpu);
        make_traffic(&pair);
    }
    /* a pending receive is idle, too */
    must(exs_recv(pair.server, in, sizeof in, 0, pair.server_box->queue, NULL, NULL));
    inbox_quiet(pair.client_box, QUIET_MS);
    double cpu = seconds_of_cpu();
    int wakes = count_wakes(&pair, 200);
    cpu = seconds_of_cpu() - cpu;
    ck_assert_msg(wakes <= 3 && cpu < 0.02, "%d wake-ups, %.3f s of CPU in 0.2 s of waiting", wakes, cpu);
    must(exs_send(pair.client, in, 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    pair_close(&pair);
}
END_TEST

START_TEST(not_readable_when_drained)
{
    struct pair pair;
    struct inbox *boxes[2];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    make_traffic(&pair);
    boxes[0] = pair.client_box;
    boxes[1] = pair.server_box;
    inbox_quiet(boxes[0], QUIET_MS);
    for (int i = 0; i < 2; i++) {
        struct pollfd wait = {.fd = exs_qfd(boxes[i]->queue), .events = POLLIN};
        ck_assert_msg(poll(&wait, 1, 50) == 0, "the queue of the %s has nothing and is readable",
                      i ? "server" : "client");
    }
    pair_close(&pair);
}
END_TEST

/* A thread that sleeps in exs_qdequeue, or in a blocking receive, uses no CPU time either. */
static void *receive_a_byte(void *arg)
{
    struct pair *pair = arg;
    char byte;

    ck_assert_int_eq(exs_read(pair->server, &byte, 1), 1);
    return NULL;
}

START_TEST(waiting_is_asleep)
{
    struct pair pair;
    struct inbox box;
    exs_event_t event;

    inbox_open(&box, 0);
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    pthread_t thread = thread_start(receive_a_byte, &pair);
    exs_qdequeue(box.queue, &event, 1, &(struct timeval){0, 50000});
    double cpu = seconds_of_cpu();
    exs_qdequeue(box.queue, &event, 1, &(struct timeval){0, 200000});
    cpu = seconds_of_cpu() - cpu;
    ck_assert_msg(cpu < 0.02, "%.3f s of CPU in 0.2 s of waiting", cpu);
    ck_assert_int_eq(exs_write(pair.client, "x", 1), 1);
    thread_join(thread);
    pair_close_blocking(&pair);
    inbox_close(&box);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("silence");
    TCase *silence = add_case(suite, "silence", 15);

    tcase_add_loop_test(silence, idle_is_silent, 0, 2);
    tcase_add_test(silence, not_readable_when_drained);
    tcase_add_test(silence, waiting_is_asleep);
    return run_suite(suite);
}
