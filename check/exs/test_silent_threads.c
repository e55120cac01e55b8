/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_silent_threads.c - threads send short fire-and-forget messages (EXS_UNSIGNALED, without a queue) on one
 * socket, while others receive, cancel, and close the socket. Messages arrive whole and in the order of each
 * sender. A number that is no socket any more is an error and does no harm.
 */
#include "check/support/support.h"

#include <sched.h>
#include <stdatomic.h>

enum { SENDERS = 4, EACH = 3000, SHORT = 64, ROUNDS = 60 };

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
static struct pair pair;
static atomic_int running;
static atomic_bool over;

struct word { /* one message of one sender */
    int sender, number;
    char rest[SHORT - 2 * sizeof(int)];
};
_Static_assert(sizeof(struct word) == SHORT, "a short send");

struct sender {
    int id, socket;
    bool may_fail;
};

/* each message stays in memory until the test ends */

static void *send_words(void *arg)
{
    const struct sender *sender = arg;
    static struct word words[SENDERS][EACH];

    for (int i = 0; i < EACH; i++) {
        struct word *word = &words[sender->id][i];

        *word = (struct word){.sender = sender->id, .number = i};
        memset(word->rest, sender->id * 31 + i, sizeof word->rest);
        if (exs_send(sender->socket, word, sizeof *word, EXS_UNSIGNALED, NULL, NULL, NULL) != 0) {
            ck_assert_msg(sender->may_fail, "%s", strerror(errno));
            ck_assert_msg(errno == EBADF || errno == ECONNRESET || errno == EPIPE || errno == ENOTCONN, "%s",
                          strerror(errno));
            break;
        }
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void word_is_next(const struct word *word, int *next)
{
    ck_assert(word->sender >= 0 && word->sender < SENDERS);
    ck_assert_int_eq(word->number, next[word->sender]);
    same_bytes(word->rest, sizeof word->rest, (unsigned char)(word->sender * 31 + word->number));
    next[word->sender]++;
}

/* This thread drives the queues of both ends; or the sender's queue is not driven before all messages were
 * sent. */
START_TEST(several_senders)
{
    struct sender senders[SENDERS];
    pthread_t threads[SENDERS];
    int next[SENDERS] = {0};
    struct word word;

    pair_open(&pair, AF_INET, types[_i & 1]);
    if (_i & 2)
        pair.server_box->beside = NULL;
    atomic_store(&running, SENDERS);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.id = i, .socket = pair.client};
        threads[i] = thread_start(send_words, &senders[i]);
    }
    if (_i & 2)
        for (int i = 0; i < SENDERS; i++)
            thread_join(threads[i]);
    pair.server_box->beside = pair.client_box;
    for (int i = 0; i < SENDERS * EACH; i++) {
        must(exs_recv(pair.server, &word, sizeof word, MSG_WAITALL * !(_i & 1), pair.server_box->queue, NULL,
                      NULL));
        exs_event_t event = take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        ck_assert_uint_eq(event.exs_evt_union.exs_evt_xfer.exs_evt_length, SHORT);
        word_is_next(&word, next);
    }
    if (!(_i & 2))
        for (int i = 0; i < SENDERS; i++)
            thread_join(threads[i]);
    inbox_quiet(pair.client_box, QUIET_MS);
    pair_close(&pair);
}
END_TEST

/* The socket is closed while threads send, and its number may be given to another socket, also one of a
 * connection that is closed. */
START_TEST(closed_meanwhile)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct sender senders[SENDERS];
        pthread_t threads[SENDERS];
        char in[SHORT];

        pair_open(&pair, AF_INET, types[_i & 1]);
        atomic_store(&running, SENDERS);
        for (int i = 0; i < SENDERS; i++) {
            senders[i] = (struct sender){.id = i, .socket = pair.client, .may_fail = true};
            threads[i] = thread_start(send_words, &senders[i]);
        }
        for (int i = 0; i < round; i++) {
            must(exs_recv(pair.server, in, sizeof in, 0, pair.server_box->queue, NULL, NULL));
            take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        }
        if (_i & 2)
            must(exs_cancel(pair.client, NULL, EXS_CANCEL_ALL));
        if (_i & 4)
            close_socket(pair.server_box, pair.server);
        close_socket(pair.client_box, pair.client);
        if (!(_i & 4))
            close_socket(pair.server_box, pair.server);
        for (int i = 0; i < SENDERS; i++)
            thread_join(threads[i]);
        pair_close_rest(&pair);
    }
}
END_TEST

/* Threads busy-poll both queues, while others send and this one posts receives. */
static atomic_int seen;

static void *look(void *arg)
{
    exs_event_t events[8];

    while (!atomic_load(&over)) {
        int count = exs_qdequeue(arg, events, COUNT(events), &(struct timeval){.tv_usec = 1000});

        must(count);
        for (int i = 0; i < count; i++) {
            ck_assert_int_eq(events[i].exs_evt_type, EXS_EVT_RECV);
            ck_assert_int_eq(events[i].exs_evt_errno, 0);
            ck_assert_uint_eq(events[i].exs_evt_union.exs_evt_xfer.exs_evt_length, SHORT);
        }
        atomic_fetch_add(&seen, count);
    }
    return NULL;
}

START_TEST(looked_on)
{
    const exs_qattr_t values = {.exs_wait = _i & 2 ? EXS_WAIT_ADAPTIVE : EXS_WAIT_BUSY_POLL,
                                .exs_wait_us = _i & 2 ? 100 : 0};
    enum { TOLD = SENDERS * EACH };
    static struct word words[TOLD];
    struct sender senders[SENDERS];
    pthread_t threads[SENDERS], lookers[4];
    int next[SENDERS] = {0};

    pair_open(&pair, AF_INET, types[_i & 1]);
    must(exs_qmodify(pair.client_box->queue, EXS_QATTR_WAIT, &values));
    must(exs_qmodify(pair.server_box->queue, EXS_QATTR_WAIT, &values));
    for (int i = 0; i < COUNT(lookers); i++)
        lookers[i] = thread_start(look, i & 1 ? pair.client_box->queue : pair.server_box->queue);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.id = i, .socket = pair.client};
        threads[i] = thread_start(send_words, &senders[i]);
    }
    for (int i = 0; i < TOLD; i++)
        must(exs_recv(pair.server, &words[i], SHORT, MSG_WAITALL * !(_i & 1), pair.server_box->queue, NULL,
                      NULL));
    for (int i = 0; i < SENDERS; i++)
        thread_join(threads[i]);
    while (atomic_load(&seen) < TOLD)
        sched_yield();
    atomic_store(&over, true);
    for (int i = 0; i < COUNT(lookers); i++)
        thread_join(lookers[i]);
    for (int i = 0; i < TOLD; i++)
        word_is_next(&words[i], next);
    pair_close(&pair);
}
END_TEST

/* Sends on the socket that has this number at the moment. */
static _Atomic int number;

static void *send_on_number(void *arg)
{
    static const char bytes[SHORT];
    long done = 0;

    while (!atomic_load(&over)) {
        if (exs_send(atomic_load(&number), bytes, 1 + (size_t)done % SHORT, EXS_UNSIGNALED, NULL, NULL, NULL) ==
            0)
            done++;
        else
            ck_assert_msg(errno == EBADF || errno == ECONNRESET || errno == EPIPE || errno == ENOTCONN, "%s",
                          strerror(errno));
        if (done % 64 == 0)
            sched_yield();
    }
    return arg;
}

static void *receive_on_number(void *arg)
{
    char in[SHORT];

    while (!atomic_load(&over)) {
        if (exs_recv(atomic_load(&number), in, sizeof in, MSG_DONTWAIT | EXS_BLOCK, NULL, NULL, NULL) < 0)
            ck_assert_msg(errno == EBADF || errno == ECONNRESET || errno == EPIPE || errno == ENOTCONN ||
                              errno == EAGAIN || errno == ECANCELED,
                          "%s", strerror(errno));
        sched_yield();
    }
    return arg;
}

START_TEST(numbers_change_hands)
{
    pthread_t threads[SENDERS];

    atomic_store(&number, -1);
    for (int i = 0; i < SENDERS; i++)
        threads[i] = thread_start(i == 0 ? receive_on_number : send_on_number, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        char in[SHORT];

        pair_open(&pair, AF_INET, types[_i]);
        atomic_store(&number, pair.client);
        for (int i = 0; i < round; i++) {
            must(exs_recv(pair.server, in, sizeof in, 0, pair.server_box->queue, NULL, NULL));
            take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        }
        close_socket(pair.client_box, pair.client);
        close_socket(pair.server_box, pair.server);
        pair_close_rest(&pair);
    }
    atomic_store(&over, true);
    for (int i = 0; i < SENDERS; i++)
        thread_join(threads[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("silent threads");
    TCase *tcase = add_case(suite, "threads", 60);

    tcase_add_loop_test(tcase, several_senders, 0, 4);
    tcase_add_loop_test(tcase, looked_on, 0, 4);
    tcase_add_loop_test(tcase, closed_meanwhile, 0, 8);
    tcase_add_loop_test(tcase, numbers_change_hands, 0, 2);
    return run_suite(suite);
}
