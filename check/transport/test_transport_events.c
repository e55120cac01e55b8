/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_transport_events.c - completion channels: which events are raised, when and how often; and completion queues
 * that overflow.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "check/support/endpoints.h"
#include "soft/engine/context.h"
#include "soft/lock.h"

static struct pair *new_pair(void)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    for (int i = 0; i < 2; i++) {
        int fd = pair->end[i].channel->fd;
        ck_assert_int_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
    }
    return pair;
}

static bool readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) == 1;
}

static void expect_no_event(struct end *end)
{
    struct ibv_cq *cq;
    void *context;
    ck_assert_msg(!readable(end->channel->fd), "the channel is readable, but no event is due");
    errno = 0;
    ck_assert_int_eq(soft_get_cq_event(end->channel, &cq, &context), -1);
    ck_assert_int_eq(errno, EAGAIN);
}

/* Expects exactly one event, for this completion queue. */
static void expect_event(struct end *end, struct ibv_cq *due)
{
    struct ibv_cq *cq = NULL;
    void *context = &cq;
    ck_assert_msg(readable(end->channel->fd), "an event is due, but the channel is not readable");
    ck_assert_int_eq(soft_get_cq_event(end->channel, &cq, &context), 0);
    ck_assert_ptr_eq(cq, due);
    ck_assert_ptr_eq(context, due->cq_context);
    soft_ack_cq_events(cq, 1);
    expect_no_event(end);
}

static void send_to(struct end *from, struct end *to, unsigned flags)
{
    post_receive(to, 1, 0, 8);
    post(from, to, &(struct work){.opcode = IBV_WR_SEND, .length = 8, .flags = flags});
    ck_assert(network_run(from->network, RUN_STEPS));
}

static void arm(struct ibv_cq *cq, int solicited_only)
{
    ck_assert_int_eq(ibv_req_notify_cq(cq, solicited_only), 0);
}

START_TEST(no_event_unless_armed)
{
    struct pair *pair = new_pair();
    send_to(&pair->end[0], &pair->end[1], IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
    expect_no_event(&pair->end[0]);
    expect_no_event(&pair->end[1]);
    pair_free(pair);
}
END_TEST

START_TEST(one_event_for_each_arming)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (int i = 0; i < 5; i++) {
        arm(b->recv_cq, 0);
        arm(a->send_cq, 0);
        arm(a->send_cq, 0); /* arming twice has no further effect */
        expect_no_event(b);
        send_to(a, b, IBV_SEND_SIGNALED);
        send_to(a, b, IBV_SEND_SIGNALED);
        expect_event(b, b->recv_cq);
        expect_event(a, a->send_cq);
        send_to(a, b, IBV_SEND_SIGNALED);
        expect_no_event(b);
        expect_no_event(a);
    }
    pair_free(pair);
}
END_TEST

/* Arming a queue that holds completions raises an event only for new ones; therefore an application polls once more
 * after it has armed. */
START_TEST(old_completions_raise_nothing)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    send_to(a, b, 0);
    arm(b->recv_cq, 0);
    expect_no_event(b);
    expect_wc(b->recv_cq, 1, IBV_WC_SUCCESS);
    expect_no_event(b);
    send_to(a, b, 0);
    expect_event(b, b->recv_cq);
    pair_free(pair);
}
END_TEST

/* Polling a completion does not remove its event. */
START_TEST(polling_keeps_the_event)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    arm(b->recv_cq, 0);
    send_to(a, b, 0);
    expect_wc(b->recv_cq, 1, IBV_WC_SUCCESS);
    expect_event(b, b->recv_cq);
    pair_free(pair);
}
END_TEST

START_TEST(solicited_only)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    arm(b->recv_cq, 1);
    arm(a->send_cq, 1);
    send_to(a, b, IBV_SEND_SIGNALED);
    expect_no_event(b);
    send_to(a, b, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
    expect_event(b, b->recv_cq);
    expect_no_event(a); /* a send completion is never solicited */
    arm(b->recv_cq, 1);
    post_receive(b, 2, 0, 0);
    post(a, b,
         &(struct work){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 3000, .flags = IBV_SEND_SOLICITED});
    run(pair);
    expect_event(b, b->recv_cq);
    pair_free(pair);
}
END_TEST

/* The wider of two arm requests applies, in either order. */
START_TEST(solicited_then_any)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    arm(b->recv_cq, _i);
    arm(b->recv_cq, !_i);
    send_to(a, b, 0);
    expect_event(b, b->recv_cq);
    pair_free(pair);
}
END_TEST

/* A completion with an error counts as solicited. */
START_TEST(errors_are_solicited)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    post_receive(a, 1, 0, 8);
    arm(a->recv_cq, 1);
    qp_fail(a->qp);
    expect_event(a, a->recv_cq);
    post_receive(b, 1, 0, 8);
    arm(b->send_cq, 1);
    struct end target = *a;
    post(b, &target, &(struct work){.opcode = IBV_WR_RDMA_WRITE, .length = 8});
    qp_fail(b->qp);
    expect_event(b, b->send_cq);
    pair_free(pair);
}
END_TEST

START_TEST(two_queues_on_one_channel)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    arm(a->send_cq, 0);
    arm(a->recv_cq, 0);
    send_to(a, b, IBV_SEND_SIGNALED);
    send_to(b, a, 0);
    struct ibv_cq *first, *second;
    void *context;
    ck_assert_int_eq(soft_get_cq_event(a->channel, &first, &context), 0);
    ck_assert(readable(a->channel->fd));
    ck_assert_int_eq(soft_get_cq_event(a->channel, &second, &context), 0);
    ck_assert_ptr_eq(first, a->send_cq);
    ck_assert_ptr_eq(second, a->recv_cq);
    expect_no_event(a);
    soft_ack_cq_events(first, 1);
    soft_ack_cq_events(second, 1);
    pair_free(pair);
}
END_TEST

/* ---- Polling all completion queues of a channel ---- */

static unsigned receives; /* calls of the link's receive() since the test reset it */

static int count_receive(struct soft_wire *wire, struct ibv_context *context)
{
    (void)wire, (void)context;
    receives++;
    return 0;
}

static int poll_channel(struct end *end, int room, struct ibv_wc *wc)
{
    receives = 0;
    return soft_poll_channel(end->channel, room, wc);
}

/* One poll drives the device once, and finds the completions of both queues. */
START_TEST(one_poll_for_all_queues)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_wc wc[4];

    arm(a->send_cq, 0);
    arm(a->recv_cq, 0);
    soft_context_of(a->context)->wire->receive = count_receive;
    ck_assert_int_eq(poll_channel(a, 4, wc), 0);
    ck_assert_uint_eq(receives, 1);
    send_to(a, b, IBV_SEND_SIGNALED);
    send_to(b, a, 0);
    ck_assert_int_eq(poll_channel(a, 4, wc), 2);
    ck_assert_uint_eq(receives, 0);
    ck_assert_int_eq(wc[0].opcode, IBV_WC_SEND);
    ck_assert_int_eq(wc[1].opcode, IBV_WC_RECV);
    expect_no_event(a);
    pair_free(pair);
}
END_TEST

/* Completions that the array has no room for stay in the queue, and so does the event. */
START_TEST(a_full_poll_leaves_the_rest)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_wc wc[3];

    arm(a->send_cq, 0);
    arm(a->recv_cq, 0);
    for (int i = 0; i < 3; i++)
        send_to(a, b, IBV_SEND_SIGNALED);
    send_to(b, a, 0);
    ck_assert_int_eq(poll_channel(a, 2, wc), 2);
    ck_assert(readable(a->channel->fd));
    ck_assert_int_eq(poll_channel(a, 3, wc), 2);
    ck_assert_int_eq(wc[0].opcode, IBV_WC_SEND);
    ck_assert_int_eq(wc[1].opcode, IBV_WC_RECV);
    expect_no_event(a);
    ck_assert_int_eq(poll_channel(a, 3, wc), 0);
    pair_free(pair);
}
END_TEST

/* A completion that arrives after the poll makes the descriptor readable; the poll has armed the queue again. */
START_TEST(an_emptied_queue_is_armed)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0], *b = &pair->end[1];
    struct ibv_wc wc;

    arm(b->recv_cq, 0);
    for (int i = 0; i < 3; i++) {
        send_to(a, b, 0);
        ck_assert(readable(b->channel->fd));
        ck_assert_int_eq(poll_channel(b, 1, &wc), 1);
        expect_no_event(b);
    }
    pair_free(pair);
}
END_TEST

/* An event that was not fetched is removed with its completion queue. */
START_TEST(destroyed_queue_leaves_no_event)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0];
    struct ibv_cq *cq = soft_create_cq(a->context, 10, NULL, a->channel, 0), *own = a->send_cq;
    a->send_cq = cq;
    struct ibv_qp *qp = qp_new(a, &pair->setup);
    a->send_cq = own;
    qp_fail(qp);
    arm(cq, 0);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
    ck_assert(readable(a->channel->fd));
    ck_assert_int_eq(soft_destroy_qp(qp), 0);
    ck_assert_int_eq(soft_destroy_cq(cq), 0);
    expect_no_event(a);
    pair_free(pair);
}
END_TEST

START_TEST(queue_without_a_channel)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0];
    struct ibv_cq *cq = soft_create_cq(a->context, 10, NULL, NULL, 0);
    ck_assert_ptr_nonnull(cq);
    ck_assert_int_ge(cq->cqe, 10);
    arm(cq, 0);
    expect_none(cq);
    ck_assert_int_eq(soft_destroy_cq(cq), 0);
    pair_free(pair);
}
END_TEST

/* A descriptor of the link makes the channel readable, and is not an event by itself. */
START_TEST(watched_descriptors)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0];
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct ibv_cq *cq;
    void *context;
    soft_lock(a->context);
    ck_assert_int_eq(soft_watch(a->context, fd), 0);
    soft_unlock(a->context);
    struct ibv_comp_channel *later = soft_create_comp_channel(a->context);
    expect_no_event(a);
    ck_assert(!readable(later->fd));
    ck_assert_int_eq(eventfd_write(fd, 1), 0);
    ck_assert(readable(a->channel->fd));
    ck_assert(readable(later->fd));
    errno = 0;
    ck_assert_int_eq(soft_get_cq_event(a->channel, &cq, &context), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert(readable(a->channel->fd)); /* level-triggered: no thread has read it */
    soft_lock(a->context);
    soft_unwatch(a->context, fd);
    soft_unlock(a->context);
    expect_no_event(a);
    ck_assert(!readable(later->fd));
    ck_assert_int_eq(soft_destroy_comp_channel(later), 0);
    close(fd);
    pair_free(pair);
}
END_TEST

/* ---- Waiting ---- */

/* A thread that waits. `tid` is 0 until it runs; the other fields belong to its creator. */
struct waiter {
    struct end *end;
    pthread_t thread;
    _Atomic pid_t tid;
};

static void *wait_for_event(void *arg)
{
    struct waiter *waiter = arg;
    struct ibv_cq *cq = NULL;
    void *context;
    int error;
    waiter->tid = gettid();
    pthread_cleanup_push(forget_frames, NULL);
    error = soft_get_cq_event(waiter->end->channel, &cq, &context);
    pthread_cleanup_pop(0);
    if (error)
        return NULL;
    soft_ack_cq_events(cq, 1);
    return cq;
}

static void start_waiting(struct waiter *waiter, struct end *end)
{
    waiter->end = end;
    waiter->tid = 0;
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_for_event, waiter), 0);
}

/* A thread that sleeps in get_cq_event() is woken by another thread's work. */
START_TEST(sleeper_is_woken)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (int i = 0; i < 20; i++) {
        struct waiter waiter;
        void *got;
        arm(b->recv_cq, 0);
        start_waiting(&waiter, b);
        await_sleep(&waiter.tid);
        send_to(a, b, 0);
        ck_assert_int_eq(pthread_join(waiter.thread, &got), 0);
        ck_assert_ptr_eq(got, b->recv_cq);
        expect_wc(b->recv_cq, 1, IBV_WC_SUCCESS);
    }
    pair_free(pair);
}
END_TEST

/* The same without an order between the two: the event may arrive before the thread sleeps, or while it is about to. */
START_TEST(waiting_races_with_the_event)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (int i = 0; i < 200; i++) {
        struct waiter waiter;
        void *got;
        arm(b->recv_cq, 0);
        start_waiting(&waiter, b);
        send_to(a, b, 0);
        ck_assert_int_eq(pthread_join(waiter.thread, &got), 0);
        ck_assert_ptr_eq(got, b->recv_cq);
        expect_wc(b->recv_cq, 1, IBV_WC_SUCCESS);
    }
    pair_free(pair);
}
END_TEST

/* A thread that is cancelled anywhere in the call does not leave a lock held. */
START_TEST(cancelled_anywhere)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    for (int i = 0; i < 200; i++) {
        struct waiter waiter;
        void *got;
        arm(b->recv_cq, 0);
        start_waiting(&waiter, b);
        if (i % 2)
            await_sleep(&waiter.tid);
        send_to(a, b, 0);
        pthread_cancel(waiter.thread);
        ck_assert_int_eq(pthread_join(waiter.thread, &got), 0);
        if (got == PTHREAD_CANCELED) {
            struct ibv_cq *cq;
            void *context;
            ck_assert_int_eq(soft_get_cq_event(b->channel, &cq, &context), 0);
            soft_ack_cq_events(cq, 1);
        }
        expect_wc(b->recv_cq, 1, IBV_WC_SUCCESS);
    }
    pair_free(pair);
}
END_TEST

/* An error completion raises an event, too, so that a thread that waits for the connection wakes up. */
START_TEST(failure_wakes)
{
    struct setup setup = setup_default();
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0];
    struct waiter waiter;
    void *got;
    post_receive(a, 1, 0, 8);
    arm(a->recv_cq, 0);
    start_waiting(&waiter, a);
    await_sleep(&waiter.tid);
    qp_fail(a->qp);
    ck_assert_int_eq(pthread_join(waiter.thread, &got), 0);
    ck_assert_ptr_eq(got, a->recv_cq);
    expect_wc(a->recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
    pair_free(pair);
}
END_TEST

static void *destroy_queue(void *cq)
{
    return soft_destroy_cq(cq) ? cq : NULL;
}

/* Destroying a completion queue waits until its events have been acknowledged. */
START_TEST(destroy_waits_for_acknowledgement)
{
    struct pair *pair = new_pair();
    struct end *a = &pair->end[0];
    struct ibv_cq *cq = soft_create_cq(a->context, 10, NULL, a->channel, 0), *own = a->send_cq, *got;
    a->send_cq = cq;
    struct ibv_qp *qp = qp_new(a, &pair->setup);
    a->send_cq = own;
    qp_fail(qp);
    arm(cq, 0);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    void *context, *failed;
    pthread_t thread;
    ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
    ck_assert_int_eq(soft_get_cq_event(a->channel, &got, &context), 0);
    ck_assert_int_eq(soft_destroy_qp(qp), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, destroy_queue, cq), 0);
    soft_ack_cq_events(got, 1);
    ck_assert_int_eq(pthread_join(thread, &failed), 0);
    ck_assert_ptr_null(failed);
    pair_free(pair);
}
END_TEST

/* ---- Overflow ---- */

/* More completions than the queue holds: the connection fails, and the completions in the queue stay valid. */
START_TEST(completion_queue_overflows)
{
    struct setup setup = setup_default();
    setup.cqe = 4;
    setup.send_depth = 200;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    int room = a->send_cq->cqe, polled = 0;
    ck_assert_int_ge(room, 4);
    ck_assert_int_lt(room, 150);
    for (uint64_t i = 0; i < (uint64_t)room + 20; i++)
        post(a, b,
             &(struct work){.id = i, .opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_SIGNALED});
    run(pair);
    ck_assert_int_eq(qp_state(a->qp), IBV_QPS_ERR);
    struct ibv_wc wc;
    int result;
    while ((result = ibv_poll_cq(a->send_cq, 1, &wc)) > 0) {
        expect(wc.wr_id == (uint64_t)polled, "completion %d is that of %llu", polled,
               (unsigned long long)wc.wr_id);
        polled++;
    }
    ck_assert_int_le(polled, room);
    pair_free(pair);
}
END_TEST

START_TEST(receive_queue_overflows)
{
    struct setup setup = setup_default();
    setup.cqe = 4;
    setup.recv_depth = setup.send_depth = 200;
    struct pair *pair = pair_new(&setup);
    struct end *a = &pair->end[0], *b = &pair->end[1];
    int room = b->recv_cq->cqe;
    for (int i = 0; i < room + 20; i++)
        post_receive(b, (uint64_t)i, 0, 8);
    for (int i = 0; i < room + 20; i++)
        post(a, b, &(struct work){.opcode = IBV_WR_SEND, .length = 8});
    run(pair);
    ck_assert_int_eq(qp_state(b->qp), IBV_QPS_ERR);
    struct ibv_wc wc;
    for (uint64_t i = 0; ibv_poll_cq(b->recv_cq, 1, &wc) > 0; i++)
        ck_assert_uint_eq(wc.wr_id, i);
    pair_free(pair);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("transport: events");
    TCase *events = new_case(suite, "events"), *waiting = new_case(suite, "waiting"),
          *overflow = new_case(suite, "overflow");
    tcase_add_test(events, no_event_unless_armed);
    tcase_add_test(events, one_event_for_each_arming);
    tcase_add_test(events, old_completions_raise_nothing);
    tcase_add_test(events, polling_keeps_the_event);
    tcase_add_test(events, solicited_only);
    tcase_add_loop_test(events, solicited_then_any, 0, 2);
    tcase_add_test(events, errors_are_solicited);
    tcase_add_test(events, two_queues_on_one_channel);
    tcase_add_test(events, one_poll_for_all_queues);
    tcase_add_test(events, a_full_poll_leaves_the_rest);
    tcase_add_test(events, an_emptied_queue_is_armed);
    tcase_add_test(events, destroyed_queue_leaves_no_event);
    tcase_add_test(events, queue_without_a_channel);
    tcase_add_test(events, watched_descriptors);
    tcase_set_timeout(waiting, 20);
    tcase_add_test(waiting, sleeper_is_woken);
    tcase_add_test(waiting, waiting_races_with_the_event);
    tcase_add_test(waiting, cancelled_anywhere);
    tcase_add_test(waiting, failure_wakes);
    tcase_add_test(waiting, destroy_waits_for_acknowledgement);
    tcase_add_test(overflow, completion_queue_overflows);
    tcase_add_test(overflow, receive_queue_overflows);
    return suite;
}

int main(void)
{
    soft_defer_cancellation(); /* as librdmacm's entry points do */

    return run_suite(suite());
}
