/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_poll_meanwhile.c - exs_poll of a socket that is closed while it begins: whenever that is, it is told
 * that there is no such socket.
 */
#include "check/exs/polled.h"

#include <stdatomic.h>
#include <dlfcn.h>
#include <sys/epoll.h>

/* ---- A moment in the middle of the call ------------------------------------------------------ */

static int closing = -1;   /* the socket that is closed when the library makes its next epoll, */
static int came_next = -1; /* and that epoll */

__attribute__((visibility("default"))) int epoll_create1(int flags)
{
    int (*own)(int), socket = closing;

    *(void **)&own = dlsym(RTLD_NEXT, "epoll_create1");
    if (socket == -1)
        return own(flags);
    closing = -1;
    must(exs_blocking_close(socket));
    came_next = own(flags);
    return came_next;
}

static int listen_for_it(void)
{
    struct address address;
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);

    ck_assert_int_eq(ready_now(listener, EXS_POLLIN), 0);
    return listener;
}

/* Nothing was ready, and the call is about to wait: what it waits by gets the socket's number. */
START_TEST(its_number_is_the_calls)
{
    int listener = listen_for_it();

    closing = listener;
    becomes_ready(listener, EXS_POLLIN, EXS_POLLNVAL);
    ck_assert_int_eq(came_next, listener);
}
END_TEST

/* Nothing was ready, and the operation is about to be: it makes what tells it the time. */
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

/* ---- Whenever it is -------------------------------------------------------------------------- */

/* Another thread closes the socket: before the call, in it, or while it sleeps. */
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

int main(void)
{
    Suite *suite = suite_create("poll meanwhile");
    TCase *tcase = add_case(suite, "poll", 20);

    tcase_add_test(tcase, its_number_is_the_calls);
    tcase_add_test(tcase, it_has_begun);
    tcase_add_test(tcase, at_random);
    return run_suite(suite);
}
