/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_edges.c - an edge-triggered watcher of a queue loses no wake-up when two things happen at the same time: data, a
 * connection request, the end of another connection, data of a socket with a private home queue. As exs_qfd(3) says,
 * the watcher dequeues after each edge until it gets fewer events than it asked for.
 */
#include "check/support/support.h"

#include <poll.h>
#include <sys/epoll.h>

enum source { DATA, REQUEST, END, GUEST, SOURCES };

#define PAIRS (SOURCES * SOURCES)
#define AT_ONCE 8       /* maximum number of events per dequeue */
#define TOGETHER_MS 200 /* time in which both have probably happened */
#define LATE_MS                                                                                                \
    (WAIT_MS / 15) /* a later wake-up has another cause, for example a timer or a retransmitted packet */

/* State of both ends. The test's thread drives the server's end; another thread makes blocking calls at the
 * clients'. */
struct scene {
    struct inbox box; /* of the server */
    struct address address;
    int listener;
    int client[SOURCES], server[SOURCES];
    int newcomer;
    enum source both[2];
};

/* A connection by a blocking connect. The server accepts it on the queue, or by a blocking accept, which gives it a
 * private home queue. */
static void *connect_one(void *arg)
{
    struct scene *scene = arg;
    int sock;

    must(sock = exs_socket(AF_INET, SOCK_STREAM, 0));
    must(exs_blocking_connect(sock, SA(&scene->address), scene->address.length));
    scene->newcomer = sock;
    return NULL;
}

static void open_one(struct scene *scene, enum source source)
{
    exs_acceptaddr_t wanted = {.exs_addr = NULL};
    pthread_t thread = thread_start(connect_one, scene);

    if (source == GUEST) {
        must(scene->server[source] = exs_blocking_accept(scene->listener, NULL, NULL));
    } else {
        must(exs_accept(scene->listener, &wanted, 1, 0, scene->box.queue));
        exs_event_t event = take_good(&scene->box, EXS_EVT_ACCEPT, scene->listener);

        scene->server[source] = event.exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    }
    thread_join(thread);
    scene->client[source] = scene->newcomer;
}

/* Starts the server's operation for one source of events. */
static void expect(struct scene *scene, enum source source, char *in, exs_acceptaddr_t *wanted)
{
    if (source == REQUEST)
        must(exs_accept(scene->listener, wanted, 1, 0, scene->box.queue));
    else
        must(exs_recv(scene->server[source], in, 1, 0, scene->box.queue, NULL, NULL));
}

struct provocation {
    struct scene *scene;
    enum source source;
};

static void *provoke(void *arg)
{
    struct provocation *it = arg;
    struct scene *scene = it->scene;

    if (it->source == REQUEST)
        connect_one(scene);
    else if (it->source == END)
        must(exs_shutdown(scene->client[END], SHUT_WR, EXS_BLOCK, NULL, NULL));
    else
        must(exs_write(scene->client[it->source], "x", 1));
    return NULL;
}

static int dequeue_all(struct scene *scene, exs_event_t *events, int room)
{
    int count = 0, got;

    do {
        ck_assert_int_le(count + AT_ONCE, room);
        must(got = exs_qdequeue(scene->box.queue, events + count, AT_ONCE, &(struct timeval){0, 0}));
        count += got;
    } while (got == AT_ONCE);
    return count;
}

static void edges(struct scene *scene, int epoll)
{
    exs_event_t events[4 * AT_ONCE];
    exs_acceptaddr_t wanted = {.exs_addr = NULL};
    char in[2];
    int count;

    for (int i = 0; i < 2; i++)
        expect(scene, scene->both[i], &in[i], &wanted);
    count = dequeue_all(scene, events, COUNT(events));
    ck_assert_int_eq(count, 0);
    struct provocation each[] = {{scene, scene->both[0]}, {scene, scene->both[1]}};
    pthread_t threads[] = {thread_start(provoke, &each[0]), thread_start(provoke, &each[1])};

    poll(NULL, 0, TOGETHER_MS); /* so that both have probably happened; the test is valid if not */
    while (count < 2) {
        struct epoll_event edge;

        ck_assert_msg(epoll_wait(epoll, &edge, 1, LATE_MS) == 1, "a wake-up was lost with %d of 2 events",
                      count);
        count += dequeue_all(scene, events + count, COUNT(events) - count);
    }
    ck_assert_int_eq(count, 2);
    thread_join(threads[0]);
    thread_join(threads[1]);
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(events[i].exs_evt_errno, 0);
        if (events[i].exs_evt_type != EXS_EVT_ACCEPT)
            continue;
        close_socket(&scene->box, events[i].exs_evt_union.exs_evt_accept.exs_evt_newsocket);
        must(exs_blocking_close(scene->newcomer));
    }
}

/* Opens one connection of each kind, triggers both sources, and closes all. */
static void one_round(enum source first, enum source second)
{
    struct scene scene = {.both = {first, second}};
    struct epoll_event edge = {.events = EPOLLIN | EPOLLET};
    int epoll;

    inbox_open(&scene.box, 0);
    scene.listener = open_listener(AF_INET, SOCK_STREAM, 4, &scene.address);
    open_one(&scene, DATA);
    open_one(&scene, END);
    open_one(&scene, GUEST);
    must(epoll = epoll_create1(EPOLL_CLOEXEC));
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, exs_qfd(scene.box.queue), &edge));
    edges(&scene, epoll);
    close(epoll);
    for (enum source source = DATA; source < SOURCES; source++) {
        if (source == REQUEST)
            continue;
        close_socket(&scene.box, scene.server[source]);
        must(exs_blocking_close(scene.client[source]));
    }
    close_socket(&scene.box, scene.listener);
    inbox_close(&scene.box);
}

START_TEST(whatever_comes_together)
{
    enum source first = (enum source)(_i / SOURCES), second = (enum source)(_i % SOURCES);

    if (first != second)
        one_round(first, second);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("edges");
    TCase *together = add_case(suite, "together", 30);

    tcase_add_loop_test(together, whatever_comes_together, 0, PAIRS);
    return run_suite(suite);
}
