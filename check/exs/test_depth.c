/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_depth.c - the depth of a queue is the number of operations, of any sockets, that can be in progress or completed
 * and not dequeued, without another allocation.
 */
#include "inside.h"

#include <fcntl.h>
#include "core/queue/queue.h"

enum { DEPTH = 16 };

static int ops_of(exs_qhandle_t qhandle)
{
    struct queue *queue = xs_queue_get(qhandle);

    ck_assert_ptr_nonnull(queue);
    int ops = queue->pool.ops;

    xs_queue_put(queue);
    return ops;
}

struct contended { /* a queue, a socket whose home it is, and a listener whose home it is or not */
    struct pair pair;
    struct inbox box, other;
    int listener, pipe[2];
    uint8_t bytes[DEPTH];
    exs_acceptaddr_t elements[DEPTH];
    exs_pollfd_t fds[DEPTH];
};

static void crowded_open(struct contended *c, bool listens_there)
{
    struct address address;

    *c = (struct contended){.listener = -1};
    inbox_open(&c->box, DEPTH);
    inbox_open(&c->other, DEPTH);
    pair_open_on(&c->pair, AF_INET, SOCK_STREAM, &c->box, &c->other);
    c->listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);
    must(exs_accept(c->listener, c->elements, 1, 0, listens_there ? c->box.queue : c->other.queue));
    ck_assert_int_eq(exs_cancel(c->listener, NULL, 0), 1);
    take_failed(listens_there ? &c->box : &c->other, EXS_EVT_ACCEPT, c->listener, ECANCELED);
    must(pipe2(c->pipe, O_CLOEXEC));
}

enum { RECEIVE, ACCEPT, POLL, KINDS };

static void start_one(struct contended *c, int kind, int number)
{
    c->fds[number] = (exs_pollfd_t){.exs_fd = c->pipe[0], .exs_events = EXS_POLLIN};
    if (kind == RECEIVE)
        must(exs_recv(c->pair.client, &c->bytes[number], 1, 0, c->box.queue, c, NULL));
    else if (kind == ACCEPT)
        must(exs_accept(c->listener, &c->elements[number], 1, 0, c->box.queue));
    else
        must(exs_poll(&c->fds[number], 1, 0, NULL, c->box.queue, NULL));
}

/* Ends the operations, of which the given number are of the first kind. */
static void crowded_close(struct contended *c, int first, int firsts, int others)
{
    static const int events[] = {EXS_EVT_RECV, EXS_EVT_ACCEPT, EXS_EVT_POLL};

    must(exs_cancel(c->listener, NULL, EXS_CANCEL_ALL));
    exs_cancel(c->pipe[0], NULL, EXS_CANCEL_ALL);
    must(exs_cancel(c->pair.client, NULL, EXS_CANCEL_ALL));
    for (int i = 0; i < DEPTH; i++)
        inbox_take(&c->box, i < firsts ? events[first] : events[others], -1);
    must(exs_blocking_close(c->listener));
    close(c->pipe[0]);
    close(c->pipe[1]);
    pair_close(&c->pair);
    c->box.beside = c->other.beside = NULL;
    inbox_close(&c->box);
    inbox_close(&c->other);
}

/* The first operations are of one kind, the others of another. */
START_TEST(two_kinds)
{
    int first = _i % KINDS, others = _i / KINDS % KINDS, ops;
    static const int firsts[] = {1, DEPTH / 2, DEPTH - 1};

    for (int i = 0; i < COUNT(firsts); i++) {
        struct contended c;

        crowded_open(&c, _i / KINDS / KINDS);
        ops = ops_of(c.box.queue);
        ck_assert_int_ge(ops, DEPTH);
        for (int number = 0; number < DEPTH; number++)
            start_one(&c, number < firsts[i] ? first : others, number);
        ck_assert_int_eq(ops_of(c.box.queue), ops);
        crowded_close(&c, first, firsts[i], others);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("depth");
    TCase *tcase = add_case(suite, "operations", 30);

    tcase_add_loop_test(tcase, two_kinds, 0, 2 * KINDS * KINDS);
    return run_suite(suite);
}
