/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_poll_meanwhile.c - exs_poll of a socket that is closed while the call starts: at each moment the poll
 * reports that the socket does not exist. Also: threads that complete one poll at the same time.
 */
#include "check/exs/polled.h"
#include "core/base/fds.h"

#include <stdatomic.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

/* ---- A close in the middle of the call ------------------------------------------------------- */

static int closing = -1;   /* close this socket at the library's next epoll_create1() */
static int came_next = -1; /* the number of that epoll instance */

__attribute__((visibility("default"))) int epoll_create1(int flags)
{
    int (*own)(int), socket = closing;

    *(void **)&own = dlsym(RTLD_NEXT, "epoll_create1");
    if (socket == -1)
        return own(flags);
    closing = -1;
    /* the library blocks forks while it creates a descriptor, and the close creates some, too */
    fds_let_fork();
    must(exs_blocking_close(socket));
    fds_hold_fork();
    came_next = own(flags);
    return came_next;
}

static int counted = -1, looks; /* descriptor, and how often the library polled it */

__attribute__((visibility("default"))) int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit,
                                                 const sigset_t *mask)
{
    int (*own)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);

    *(void **)&own = dlsym(RTLD_NEXT, "ppoll");
    looks += count > 0 && fds[0].fd == counted && counted != -1;
    return own(fds, count, limit, mask);
}

static int listen_for_it(void)
{
    struct address address;
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);

    ck_assert_int_eq(ready_now(listener, EXS_POLLIN), 0);
    return listener;
}

/* The socket was not ready, and the call is about to wait. Its epoll instance gets the number of the closed
 * socket. */
START_TEST(its_number_is_the_calls)
{
    int listener = listen_for_it();

    closing = listener;
    becomes_ready(listener, EXS_POLLIN, EXS_POLLNVAL);
    ck_assert_int_eq(came_next, listener);
}
END_TEST

/* The socket was not ready, and the poll is about to be queued. The timer's descriptor gets the number of the
 * closed socket. */
START_TEST(it_has_begun)
{
    const struct timeval minute = {.tv_sec = 60};
    int listener = listen_for_it();
    exs_pollfd_t fd = {.exs_fd = listener, .exs_events = EXS_POLLIN};
    struct inbox box;

    inbox_open(&box, 1);
    closing = listener;
    must(exs_poll(&fd, 1, 0, &minute, box.queue, NULL));
    ck_assert_int_eq(came_next, listener);
    exs_event_t event = take_good(&box, EXS_EVT_POLL, -1);

    ck_assert_int_eq(event.exs_evt_union.exs_evt_poll.exs_evt_ready, 1);
    ck_assert_int_eq(fd.exs_revents, EXS_POLLNVAL);
    inbox_close(&box);
}
END_TEST

/* ---- A close at a random moment -------------------------------------------------------------- */

/* Another thread closes the socket before the call, during it, or while it sleeps. */
static void *close_soon(void *argument)
{
    must(exs_blocking_close(*(int *)argument));
    return NULL;
}

START_TEST(at_random)
{
    struct chance chance = chance_new();

    for (int i = 0; i < 1000; i++) {
        struct address address = loopback(AF_INET, 0);
        int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);
        pthread_t thread = thread_start(close_soon, &listener);

        for (size_t spins = chance_below(&chance, 20000); spins > 0; spins--)
            atomic_signal_fence(memory_order_seq_cst);
        becomes_ready(listener, EXS_POLLIN, EXS_POLLNVAL);
        thread_join(thread);
    }
}
END_TEST

/* ---- Two threads -------------------------------------------------------------------------- */

/* Only the thread that has claimed the poll may write the array's results for ordinary descriptors. A pass of
 * the queue that claims nothing must not poll them, because a thread that holds a socket's lock may have
 * claimed the poll. */
START_TEST(only_who_claims_writes)
{
    struct pair pair;
    int ends[2];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    ck_assert_int_eq(pipe(ends), 0);
    exs_pollfd_t fds[] = {{.exs_fd = ends[0], .exs_events = EXS_POLLIN},
                          {.exs_fd = pair.client, .exs_events = EXS_POLLIN}};
    must(exs_poll(fds, 2, 0, NULL, pair.client_box->queue, NULL));
    counted = ends[0];
    looks = 0;
    /* many passes of the queue */
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1000, 1);
    ck_assert_int_eq(looks, 0);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    exs_event_t event = take_good(pair.client_box, EXS_EVT_POLL, -1);

    ck_assert_int_eq(event.exs_evt_union.exs_evt_poll.exs_evt_ready, 1);
    ck_assert_int_eq(fds[0].exs_revents, EXS_POLLIN);
    ck_assert_int_eq(looks, 1);
    counted = -1;
    close(ends[0]);
    close(ends[1]);
    pair_close(&pair);
}
END_TEST

struct echo { /* shared by two threads, while a third one polls */
    int sockets[2], pipe;
    atomic_bool over;
};

static void *send_on(void *argument)
{
    struct echo *echo = argument;

    while (!echo->over)
        ck_assert_int_eq(exs_blocking_send(echo->sockets[0], "x", 1, 0, NULL), 1);
    must(exs_shutdown(echo->sockets[0], SHUT_WR, EXS_BLOCK, NULL, NULL));
    return NULL;
}

static void *answer(void *argument)
{
    struct echo *echo = argument;
    char bytes[64];

    while (exs_read(echo->sockets[1], bytes, sizeof(bytes)) > 0) {
        exs_blocking_send(echo->sockets[1], "y", 1, MSG_DONTWAIT, NULL);
        ck_assert(write(echo->pipe, "z", 1) == 1 || errno == EAGAIN);
    }
    return NULL;
}

/* Polls of a socket that other threads drive and of a pipe that becomes ready at the same time. What a poll
 * reports is available, and the thread sanitizer finds no race. */
START_TEST(others_finish_it)
{
    struct pair pair;
    int ends[2];
    char bytes[4096];

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
    struct echo echo = {.sockets = {pair.client, pair.server}, .pipe = ends[1]};
    pthread_t sends = thread_start(send_on, &echo), answers = thread_start(answer, &echo);

    for (int i = 0; i < 500; i++) {
        exs_pollfd_t fds[] = {{.exs_fd = pair.client, .exs_events = EXS_POLLIN},
                              {.exs_fd = ends[0], .exs_events = EXS_POLLIN}};

        must(exs_poll(fds, 2, EXS_BLOCK, &(struct timeval){.tv_usec = 2000}, NULL, NULL));
        if (fds[0].exs_revents)
            ck_assert_int_gt(exs_blocking_recv(pair.client, bytes, sizeof(bytes), MSG_DONTWAIT, NULL), 0);
        if (fds[1].exs_revents)
            ck_assert_int_gt(read(ends[0], bytes, sizeof(bytes)), 0);
    }
    echo.over = true;
    thread_join(sends);
    thread_join(answers);
    close(ends[0]);
    close(ends[1]);
    pair_close_blocking(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("poll meanwhile");
    TCase *tcase = add_case(suite, "poll", 20);

    tcase_add_test(tcase, its_number_is_the_calls);
    tcase_add_test(tcase, it_has_begun);
    tcase_add_test(tcase, at_random);
    tcase_add_test(tcase, only_who_claims_writes);
    tcase_add_test(tcase, others_finish_it);
    return run_suite(suite);
}
