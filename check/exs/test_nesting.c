/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_nesting.c - the kernel limits how many epoll instances may watch a queue's descriptor, and how deeply
 * epoll instances may be nested. epoll_ctl(2) fails for the one that is too many, and connections continue to
 * work.
 */
#include "check/support/support.h"

#include <sys/epoll.h>
#include <sys/resource.h>

enum { MOST = 200 };

static int epolls[MOST], count;
static struct inbox box;

static int watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    ck_assert_int_lt(count, MOST);
    must(epolls[count] = epoll_create1(EPOLL_CLOEXEC));
    return epoll_ctl(epolls[count++], EPOLL_CTL_ADD, fd, &event);
}

static void begin(void)
{
    struct rlimit limit;

    must(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &limit));
    inbox_open(&box, 8);
}

static void end(void)
{
    while (count > 0)
        close(epolls[--count]);
    inbox_close(&box);
}

/* The queue can still connect, accept and transfer data. */
static void expect_connections(void)
{
    struct pair pair;

    pair_open_on(&pair, AF_INET, SOCK_STREAM, &box, &box);
    pass_bytes(&box, pair.client, &box, pair.server, 100 * KIB, 1);
    pair_close(&pair);
}

/* Adds epoll instances until epoll_ctl() fails. Returns how many were possible. */
static int fill(int fd)
{
    int taken = 0;

    while (watch(fd) == 0)
        taken++;
    ck_assert_int_eq(errno, EINVAL);
    return taken;
}

START_TEST(side_by_side)
{
    begin();
    ck_assert_int_ge(fill(exs_qfd(box.queue)), 50);
    expect_connections();
    end();
}
END_TEST

START_TEST(with_one_between)
{
    begin();
    must(watch(exs_qfd(box.queue)));
    ck_assert_int_ge(fill(epolls[0]), 10);
    expect_connections();
    end();
}
END_TEST

START_TEST(too_deep)
{
    begin();
    must(watch(exs_qfd(box.queue)));
    must(watch(epolls[0]));
    must_fail(watch(epolls[1]), ELOOP);
    expect_connections();
    end();
}
END_TEST

/* Two queues that epoll instances watch up to the limit. When one of them also drives a socket of the other,
 * the limit holds for both together, and the receive fails with ENOSPC. */
START_TEST(of_two_queues)
{
    exs_qhandle_t second = exs_qcreate(4);
    exs_event_t event;
    struct pair pair;
    char byte;

    begin();
    pair_open_on(&pair, AF_INET, SOCK_STREAM, &box, &box);
    int most = fill(exs_qfd(box.queue));

    for (int i = 0; i < most; i++)
        must(watch(exs_qfd(second)));
    must_fail(exs_recv(pair.server, &byte, 1, 0, second, NULL, NULL), ENOSPC);
    expect_connections();
    close(epolls[--count]); /* the last one that watches the second queue */
    for (int i = 0; i < most + 1; i++)
        close(epolls[i]); /* and all that watch the first one */
    must(exs_recv(pair.server, &byte, 1, 0, second, NULL, NULL));
    must(exs_send(pair.client, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    ck_assert_int_eq(exs_qdequeue(second, &event, 1, NULL), 1);
    must(exs_qdelete(second));
    pair_close(&pair);
    memmove(epolls, epolls + most + 1, (size_t)(count - most - 1) * sizeof(epolls[0]));
    count -= most + 1;
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nesting");
    TCase *tcase = add_case(suite, "nesting", 20);

    tcase_add_test(tcase, side_by_side);
    tcase_add_test(tcase, with_one_between);
    tcase_add_test(tcase, too_deep);
    tcase_add_test(tcase, of_two_queues);
    return run_suite(suite);
}
