/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_queue.c - the rules of an event queue: each expected event arrives once, in order, and no other; and no
 * wake-up is lost, however threads wait. (test_silence.c tests that an idle queue causes no wake-ups,
 * test_loop.c the same rules in libev loops.)
 */
#include "check/support/player.h"

#include <poll.h>
#include <sys/epoll.h>

/* ---- Ways to wait -------------------------------------------------------------------- */

/* What a thread waits with. After a lost wake-up a wait would not end; it fails when poll or epoll times out. */
struct waiter {
    exs_qhandle_t queue;
    int epoll; /* or -1 */
    int wakes; /* number of waits that returned */
};

typedef void wait_fn(struct waiter *w);

static void wait_poll(struct waiter *w)
{
    struct pollfd wait = {.fd = exs_qfd(w->queue), .events = POLLIN};

    ck_assert_msg(poll(&wait, 1, WAIT_MS) == 1, "a wake-up was lost: poll");
    ck_assert_int_eq(wait.revents, POLLIN);
}

static void wait_epoll(struct waiter *w)
{
    struct epoll_event event;

    ck_assert_msg(epoll_wait(w->epoll, &event, 1, WAIT_MS) == 1, "a wake-up was lost: epoll");
}

static void wait_not(struct waiter *w)
{
    (void)w;
}

static const struct way {
    const char *name;
    wait_fn *wait;
    int epoll;  /* events to watch for; 0: no epoll */
    bool drain; /* dequeue until a call returns fewer events than requested */
    const struct timeval *timeout;
} ways[] = {
    {"poll", wait_poll, 0, false, &(const struct timeval){0, 0}},
    {"epoll", wait_epoll, EPOLLIN, false, &(const struct timeval){0, 0}},
    {"epoll, edges", wait_epoll, EPOLLIN | EPOLLET, true, &(const struct timeval){0, 0}},
    {"exs_qdequeue with a limit", wait_not, 0, false, &(const struct timeval){20, 0}},
    {"exs_qdequeue without", wait_not, 0, false, NULL},
};

static void waiter_open(struct waiter *w, exs_qhandle_t queue, const struct way *way)
{
    *w = (struct waiter){.queue = queue, .epoll = -1};
    if (!way->epoll)
        return;
    struct epoll_event event = {.events = (uint32_t)way->epoll};
    must(w->epoll = epoll_create1(EPOLL_CLOEXEC));
    must(epoll_ctl(w->epoll, EPOLL_CTL_ADD, exs_qfd(queue), &event));
}

static void waiter_close(struct waiter *w)
{
    if (w->epoll >= 0)
        close(w->epoll);
}

/* Waits once and passes each event to its player. Returns the number of events. */
static int serve(struct waiter *w, const struct way *way, int batch)
{
    exs_event_t events[64];
    int got, all = 0;

    way->wait(w);
    w->wakes++;
    do {
        got = exs_qdequeue(w->queue, events, batch, way->timeout);
        ck_assert_msg(got >= 0 && got <= batch, "exs_qdequeue: %d, %s", got, strerror(errno));
        ck_assert_msg(got > 0 || (way->timeout && way->timeout->tv_sec == 0), "a wake-up was lost: %s",
                      way->name);
        for (int i = 0; i < got; i++)
            player_event(events[i].exs_evt_ahandle, &events[i]);
        all += got;
    } while (way->drain && got == batch);
    return all;
}

/* ---- Wake-ups ------------------------------------------------------------------------ */

struct side { /* a thread with a queue, a way to wait and a player */
    struct player player;
    const struct way *way;
    struct chance chance;
    int socket, rounds;
    exs_qhandle_t queue;
    bool serves;
    uint64_t seed;
};

static void *play(void *arg)
{
    struct side *s = arg;
    struct waiter w;

    waiter_open(&w, s->queue, s->way);
    player_open(&s->player, s->socket, s->queue, s->serves, s->rounds, 20000, s->seed);
    while (!player_is_over(&s->player))
        serve(&w, s->way, 1 + (int)chance_below(&s->chance, 3));
    /* The library causes a few wake-ups per round; thousands would mean that it spins. */
    ck_assert_msg(w.wakes <= 30 * s->rounds + 100, "%s woke up %d times for %d rounds", s->way->name, w.wakes,
                  s->rounds);
    player_close(&s->player);
    waiter_close(&w);
    return NULL;
}

static void play_a_game(struct pair *pair, exs_qhandle_t client_queue, exs_qhandle_t server_queue, int way,
                        int rounds)
{
    struct chance chance = chance_new();
    struct side sides[2];
    pthread_t threads[2];
    uint64_t seed = chance_next(&chance);

    for (int i = 0; i < 2; i++) {
        sides[i] = (struct side){.way = &ways[way], .rounds = rounds, .serves = i, .seed = seed};
        sides[i].chance = (struct chance){chance_next(&chance)};
        sides[i].socket = i ? pair->server : pair->client;
        sides[i].queue = i ? server_queue : client_queue;
        threads[i] = thread_start(play, &sides[i]);
    }
    thread_join(threads[0]);
    thread_join(threads[1]);
}

START_TEST(no_lost_wakeup)
{
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    play_a_game(&pair, pair.client_box->queue, pair.server_box->queue, _i, 3000);
    pair_close(&pair);
}
END_TEST

/* The operations name other queues than those of the sockets. The threads do not poll the sockets' queues. */
START_TEST(no_lost_wakeup_on_another_queue)
{
    struct pair pair;
    struct inbox others[2];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&others[0], 4);
    inbox_open(&others[1], 4);
    play_a_game(&pair, others[0].queue, others[1].queue, _i, 1500);
    inbox_quiet(pair.client_box, 0);
    inbox_quiet(pair.server_box, 0);
    pair_close(&pair);
    inbox_close(&others[0]);
    inbox_close(&others[1]);
}
END_TEST

/* Sockets of blocking calls, whose queues the application cannot see. */
START_TEST(no_lost_wakeup_on_blocking_sockets)
{
    struct pair pair;
    struct inbox queues[2];

    inbox_open(&queues[0], 4);
    inbox_open(&queues[1], 4);
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    play_a_game(&pair, queues[0].queue, queues[1].queue, _i, 1500);
    pair_close_blocking(&pair);
    inbox_close(&queues[0]);
    inbox_close(&queues[1]);
}
END_TEST

/* One thread serves both ends, one event at a time. */
START_TEST(one_queue_for_both_ends)
{
    struct inbox box;
    struct pair pair;
    struct player players[2];
    struct waiter w;

    inbox_open(&box, 4);
    pair_open_on(&pair, AF_INET, _i % 2 ? SOCK_SEQPACKET : SOCK_STREAM, &box, &box);
    waiter_open(&w, box.queue, &ways[_i / 2]);
    player_open(&players[0], pair.server, box.queue, true, 1500, 20000, 1);
    player_open(&players[1], pair.client, box.queue, false, 1500, 20000, 1);
    while (!player_is_over(&players[0]) || !player_is_over(&players[1]))
        serve(&w, &ways[_i / 2], 1);
    player_close(&players[0]);
    player_close(&players[1]);
    waiter_close(&w);
    pair_close(&pair);
    inbox_close(&box);
}
END_TEST

/* Two threads that share no queue and no socket. */
static void *play_alone(void *arg)
{
    struct inbox box;
    struct pair pair;
    struct player players[2];
    struct waiter w;

    inbox_open(&box, 4);
    pair_open_on(&pair, AF_INET, SOCK_STREAM, &box, &box);
    waiter_open(&w, box.queue, &ways[0]);
    player_open(&players[0], pair.server, box.queue, true, 1500, 20000, *(uint64_t *)arg);
    player_open(&players[1], pair.client, box.queue, false, 1500, 20000, *(uint64_t *)arg);
    while (!player_is_over(&players[0]) || !player_is_over(&players[1]))
        serve(&w, &ways[0], 8);
    player_close(&players[0]);
    player_close(&players[1]);
    pair_close(&pair);
    inbox_close(&box);
    return NULL;
}

START_TEST(two_threads)
{
    uint64_t seeds[2] = {3, 4};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        threads[i] = thread_start(play_alone, &seeds[i]);
    for (int i = 0; i < 2; i++)
        thread_join(threads[i]);
}
END_TEST

#define PAIRS 500

START_TEST(a_thousand_sockets)
{
    static struct player players[2 * PAIRS];
    struct inbox box;
    struct address address;
    struct waiter w;
    int listener = open_listener(AF_INET, SOCK_STREAM, PAIRS, &address), sockets[2 * PAIRS], over = 0;

    inbox_open(&box, 2 * PAIRS);
    for (int i = 0; i < PAIRS; i++)
        connect_ends(listener, SOCK_STREAM, &address, &box, &box, &sockets[2 * i], &sockets[2 * i + 1]);
    waiter_open(&w, box.queue, &ways[0]);
    for (int i = 0; i < 2 * PAIRS; i++)
        player_open(&players[i], sockets[i], box.queue, i % 2, 4, 2000, (uint64_t)(i / 2));
    while (over < 2 * PAIRS) {
        serve(&w, &ways[0], 64);
        while (over < 2 * PAIRS && player_is_over(&players[over]))
            over++;
    }
    inbox_quiet(&box, QUIET_MS);
    for (int i = 0; i < 2 * PAIRS; i++) {
        player_close(&players[i]);
        must(exs_close(sockets[i], 0, box.queue, NULL));
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        take_good(&box, EXS_EVT_CLOSE, -1);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

/* ---- Which events, in which order ---------------------------------------------------- */

#define BURST 600

/* Many operations at once: each event arrives once, and those of one direction in order. */
START_TEST(once_and_in_order)
{
    struct pair pair;
    char out[16], (*in)[16] = new_buffer(BURST * sizeof *in);

    pair_open(&pair, AF_INET, _i ? SOCK_SEQPACKET : SOCK_STREAM);
    memset(out, 'o', sizeof out);
    for (int i = 0; i < BURST; i++) {
        must(exs_recv(pair.server, in[i], 16, MSG_WAITALL, pair.server_box->queue, in[i], NULL));
        must(exs_send(pair.client, out, 16, i % 3 == 2 ? EXS_UNSIGNALED : 0, pair.client_box->queue, in[i],
                      NULL));
    }
    for (int i = 0; i < BURST; i++) {
        if (i % 3 != 2)
            ck_assert_ptr_eq(take_good(pair.client_box, EXS_EVT_SEND, -1).exs_evt_ahandle, in[i]);
        ck_assert_ptr_eq(take_good(pair.server_box, EXS_EVT_RECV, -1).exs_evt_ahandle, in[i]);
    }
    inbox_quiet(pair.client_box, QUIET_MS);
    inbox_quiet(pair.server_box, QUIET_MS);
    pair_close(&pair);
    free(in);
}
END_TEST

/* Each event arrives on the queue that its operation named, and on no other. */
START_TEST(queue_of_each_operation)
{
    struct pair pair;
    struct inbox boxes[3];
    char in[30];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < 3; i++) {
        inbox_open(&boxes[i], 0);
        boxes[i].beside = pair.client_box;
    }
    for (int i = 0; i < 30; i++)
        must(exs_recv(pair.server, in + i, 1, 0, boxes[i % 3].queue, in + i, NULL));
    must(exs_send(pair.client, "012345678901234567890123456789", 30, 0, boxes[0].queue, in, NULL));
    ck_assert_ptr_eq(take_good(&boxes[0], EXS_EVT_SEND, pair.client).exs_evt_ahandle, in);
    for (int i = 0; i < 30; i++)
        ck_assert_ptr_eq(take_good(&boxes[i % 3], EXS_EVT_RECV, pair.server).exs_evt_ahandle, in + i);
    ck_assert_mem_eq(in, "012345678901234567890123456789", 30);
    for (int i = 0; i < 3; i++) {
        inbox_quiet(&boxes[i], 5);
        boxes[i].beside = NULL;
        inbox_close(&boxes[i]);
    }
    inbox_quiet(pair.server_box, 5);
    pair_close(&pair);
}
END_TEST

/* Each queue drives a socket of the other one, because operations named it. Both can be deleted all the same. */
static void drive_each_other(void)
{
    struct inbox boxes[2];
    struct pair pair;
    char in[2];

    inbox_open(&boxes[0], 4);
    inbox_open(&boxes[1], 4);
    boxes[1].beside = &boxes[0];
    pair_open_on(&pair, AF_INET, SOCK_STREAM, &boxes[0], &boxes[1]);
    must(exs_recv(pair.server, in, 1, 0, boxes[0].queue, NULL, NULL));
    must(exs_recv(pair.client, in + 1, 1, 0, boxes[1].queue, NULL, NULL));
    must(exs_send(pair.server, "s", 1, 0, boxes[1].queue, NULL, NULL));
    must(exs_send(pair.client, "c", 1, 0, boxes[0].queue, NULL, NULL));
    take_good(&boxes[1], EXS_EVT_RECV, pair.client);
    take_good(&boxes[0], EXS_EVT_RECV, pair.server);
    take_good(&boxes[1], EXS_EVT_SEND, pair.server);
    take_good(&boxes[0], EXS_EVT_SEND, pair.client);
    ck_assert_mem_eq(in, "cs", 2);
    pair_close(&pair);
    must(exs_qdelete(boxes[0].queue));
    must(exs_qdelete(boxes[1].queue));
    free(boxes[0].kept);
    free(boxes[1].kept);
}

START_TEST(two_that_drive_each_other)
{
    drive_each_other(); /* first use: rdma-core keeps a device open that was used once */
    int before = count_fds();

    drive_each_other();
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* A queue holds as many events as it was created for; its descriptor is readable until the last one is
 * dequeued. */
START_TEST(full_queue)
{
    struct pair pair;
    struct inbox box;
    exs_event_t event;
    enum { DEPTH = 500 };

    inbox_open(&box, DEPTH);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < DEPTH; i++)
        must(exs_send(pair.client, "x", 1, 0, box.queue, NULL, NULL));
    char in[DEPTH];
    must(exs_recv(pair.server, in, DEPTH, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    inbox_quiet(pair.client_box, QUIET_MS);
    for (int i = 0; i < DEPTH; i++) {
        struct pollfd wait = {.fd = exs_qfd(box.queue), .events = POLLIN};
        ck_assert_msg(poll(&wait, 1, WAIT_MS) == 1, "event %d of %d", i, DEPTH);
        ck_assert_int_eq(exs_qdequeue(box.queue, &event, 1, &(struct timeval){1, 0}), 1);
    }
    inbox_quiet(&box, QUIET_MS);
    pair_close(&pair);
    inbox_close(&box);
}
END_TEST

START_TEST(dequeue_timeout)
{
    struct pair pair;
    struct inbox other;
    exs_event_t event;
    exs_qhandle_t queue;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&other, 0);
    for (int i = 0; i < 2; i++) { /* a queue without sockets, and that of a connection */
        queue = i ? pair.client_box->queue : other.queue;
        double start = seconds_now();
        ck_assert_int_eq(exs_qdequeue(queue, &event, 1, &(struct timeval){0, 0}), 0);
        ck_assert(seconds_now() - start < LATE_S);
        start = seconds_now();
        ck_assert_int_eq(exs_qdequeue(queue, &event, 1, &(struct timeval){0, 100000}), 0);
        double took = seconds_now() - start;
        ck_assert_msg(took >= 0.099 && took < 0.1 + LATE_S, "0.1 s took %.3f s", took);
    }
    pair_close(&pair);
    inbox_close(&other);
}
END_TEST

/* ---- Threads ------------------------------------------------------------------------- */

#define BLOCKING_BYTES 400

static void *write_bytes(void *arg)
{
    struct pair *pair = arg;

    for (int i = 0; i < BLOCKING_BYTES; i++)
        ck_assert_int_eq(exs_write(pair->client, &(char){(char)i}, 1), 1);
    return NULL;
}

/* One thread has asynchronous receives pending on both sockets, while another thread sends with blocking calls. */
START_TEST(blocking_beside_asynchronous)
{
    struct pair pair;
    char in[BLOCKING_BYTES], back[BLOCKING_BYTES];

    pair_open(&pair, AF_INET, _i ? SOCK_SEQPACKET : SOCK_STREAM);
    for (int i = 0; i < BLOCKING_BYTES; i++) {
        must(exs_recv(pair.server, in + i, 1, 0, pair.server_box->queue, in + i, NULL));
        must(exs_recv(pair.client, back + i, 1, 0, pair.client_box->queue, back + i, NULL));
    }
    pthread_t thread = thread_start(write_bytes, &pair);
    for (int i = 0; i < BLOCKING_BYTES; i++) {
        ck_assert_ptr_eq(take_good(pair.server_box, EXS_EVT_RECV, -1).exs_evt_ahandle, in + i);
        must(exs_send(pair.server, in + i, 1, EXS_UNSIGNALED, NULL, NULL, NULL));
        ck_assert_ptr_eq(take_good(pair.client_box, EXS_EVT_RECV, -1).exs_evt_ahandle, back + i);
        ck_assert_int_eq(back[i], (char)i);
    }
    thread_join(thread);
    pair_close(&pair);
}
END_TEST

#define SENDERS 4
#define EACH 200

static void *send_packets(void *arg)
{
    struct pair *pair = arg;

    for (int i = 0; i < EACH; i++)
        ck_assert_int_eq(exs_send(pair->client, &i, sizeof i, EXS_BLOCK, NULL, NULL, NULL), sizeof i);
    return NULL;
}

/* Several threads send on one socket: each message arrives once and whole. */
START_TEST(many_threads_one_socket)
{
    struct pair pair;
    pthread_t threads[SENDERS];
    int in[SENDERS * EACH], seen[EACH] = {0};

    pair_open(&pair, AF_INET, SOCK_SEQPACKET);
    for (int i = 0; i < COUNT(in); i++)
        must(exs_recv(pair.server, &in[i], sizeof in[i], 0, pair.server_box->queue, &in[i], NULL));
    for (int i = 0; i < SENDERS; i++)
        threads[i] = thread_start(send_packets, &pair);
    for (int i = 0; i < COUNT(in); i++) {
        ck_assert_ptr_eq(take_good(pair.server_box, EXS_EVT_RECV, -1).exs_evt_ahandle, &in[i]);
        ck_assert(in[i] >= 0 && in[i] < EACH);
        seen[in[i]]++;
    }
    for (int i = 0; i < SENDERS; i++)
        thread_join(threads[i]);
    for (int i = 0; i < EACH; i++)
        ck_assert_int_eq(seen[i], SENDERS);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *wake = add_case(suite, "wake-ups", 30), *events = add_case(suite, "events", 15),
          *threads = add_case(suite, "threads", 30);

    tcase_add_loop_test(wake, no_lost_wakeup, 0, COUNT(ways));
    tcase_add_loop_test(wake, no_lost_wakeup_on_another_queue, 0, COUNT(ways));
    tcase_add_loop_test(wake, no_lost_wakeup_on_blocking_sockets, 0, COUNT(ways));
    tcase_add_loop_test(wake, one_queue_for_both_ends, 0, 2 * COUNT(ways));
    tcase_add_test(wake, a_thousand_sockets);
    tcase_add_loop_test(events, once_and_in_order, 0, 2);
    tcase_add_test(events, queue_of_each_operation);
    tcase_add_test(events, two_that_drive_each_other);
    tcase_add_test(events, full_queue);
    tcase_add_test(events, dequeue_timeout);
    tcase_add_test(threads, two_threads);
    tcase_add_loop_test(threads, blocking_beside_asynchronous, 0, 2);
    tcase_add_test(threads, many_threads_one_socket);
    return run_suite(suite);
}
