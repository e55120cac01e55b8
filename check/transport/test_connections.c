/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_connections.c - the connection manager's calls from several threads: threads that wait for events and are
 * cancelled, and objects that are destroyed at the same time.
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "core/base/fds.h"
#include "soft/cm/cm.h"
#include "check/support/endpoints.h"
#include "check/support/self.h"
#include "soft/lock.h"

#define ROUNDS 200

static bool peer_went; /* getpeername() fails as if the peer had closed */

/* Replaces the C library's function in this program. */
int getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
    if (!peer_went)
        return (int)syscall(SYS_getpeername, fd, address, length);
    errno = ENOTCONN;
    return -1;
}

/* A thread that waits on a channel. Fields that are not atomic belong to the thread that created it. */
struct waiter {
    struct rdma_event_channel *channel;
    pthread_t thread;
    _Atomic pid_t tid;  /* 0 until it runs */
    _Atomic int events; /* events that it got and acknowledged */
    _Atomic int error;  /* errno of its call */
    int most;           /* events that it waits for */
};

static void *wait_for_events(void *arg)
{
    struct waiter *waiter = arg;
    waiter->tid = gettid();
    pthread_cleanup_push(forget_frames, NULL);
    while (waiter->events < waiter->most) {
        struct rdma_cm_event *event;
        if (soft_get_cm_event(waiter->channel, &event) == -1) {
            waiter->error = errno;
            break;
        }
        soft_ack_cm_event(event);
        waiter->events++;
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void start(struct waiter *waiter, struct rdma_event_channel *channel, int most)
{
    *waiter = (struct waiter){.channel = channel, .most = most};
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_for_events, waiter), 0);
}

static bool stop(struct waiter *waiter) /* returns true if the thread was still waiting */
{
    void *result;
    pthread_cancel(waiter->thread);
    ck_assert_int_eq(pthread_join(waiter->thread, &result), 0);
    return result == PTHREAD_CANCELED;
}

static struct rdma_event_channel *new_channel(void)
{
    struct rdma_event_channel *channel = soft_create_event_channel();
    ck_assert_ptr_nonnull(channel);
    return channel;
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *channel)
{
    struct rdma_cm_id *id;
    ck_assert_int_eq(soft_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    return id;
}

/* Raises an event of the identifier, here of its address resolution. */
static void raise_event(struct rdma_cm_id *id)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(9)};
    ck_assert_int_eq(soft_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
}

static void ignore(int signal)
{
    (void)signal;
}

/* As with the kernel's channels, destroying a channel does not wake a thread that waits on it: the thread sleeps until
 * the program ends. */
START_TEST(channel_ends_under_a_sleeper)
{
    struct sigaction action = {.sa_handler = ignore};
    struct waiter waiter;
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        start(&waiter, new_channel(), 1);
        await_sleep(&waiter.tid);
        soft_destroy_event_channel(waiter.channel);
        pthread_kill(waiter.thread, SIGUSR1); /* wakes the thread, which must not use the channel */
        ck_assert(stop(&waiter));
        ck_assert_int_eq(waiter.error, 0);
        ck_assert_int_eq(waiter.events, 0);
    }
}
END_TEST

/* The same while the thread is being woken: it either has the event, or continues to sleep. */
START_TEST(channel_ends_under_one_that_wakes)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct waiter waiter;
        struct rdma_event_channel *channel = new_channel();
        struct rdma_cm_id *id = new_id(channel);
        start(&waiter, channel, 1);
        await_sleep(&waiter.tid);
        raise_event(id);
        soft_destroy_id(id);
        soft_destroy_event_channel(channel);
        stop(&waiter);
        ck_assert_int_eq(waiter.error, 0);
    }
}
END_TEST

/* With several waiting threads, one after the other or at once, each event is delivered to one thread. */
START_TEST(many_waiters)
{
    struct waiter waiters[4];
    struct rdma_event_channel *channel = new_channel();
    struct rdma_cm_id *ids[4];
    int events = 0;
    for (int i = 0; i < 4; i++) {
        start(&waiters[i], channel, 1);
        ids[i] = new_id(channel);
    }
    for (int i = 0; i < 4; i++)
        raise_event(ids[i]);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(waiters[i].thread, NULL), 0);
        events += waiters[i].events;
        soft_destroy_id(ids[i]);
    }
    ck_assert_int_eq(events, 4);
    soft_destroy_event_channel(channel);
}
END_TEST

/* A thread that is cancelled anywhere in the call does not leave a lock held. */
START_TEST(cancelled_anywhere)
{
    struct rdma_event_channel *channel = new_channel();
    struct rdma_cm_id *id = new_id(channel);
    int events = 0, taken = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct waiter waiter;
        struct rdma_cm_event *event;
        struct rdma_cm_id *other = new_id(channel);
        start(&waiter, channel, 1);
        if (i % 2)
            await_sleep(&waiter.tid);
        raise_event(other);
        stop(&waiter);
        ck_assert_int_eq(waiter.error, 0);
        taken += waiter.events;
        events++;
        if (waiter.events == 0) { /* the event is still in the channel */
            ck_assert_int_eq(soft_get_cm_event(channel, &event), 0);
            ck_assert_ptr_eq(event->id, other);
            soft_ack_cm_event(event);
            taken++;
        }
        soft_destroy_id(other);
    }
    ck_assert_int_eq(taken, events);
    soft_destroy_id(id);
    soft_destroy_event_channel(channel);
}
END_TEST

/* ---- An identifier outlives the events about it -------------------------------------------------- */

struct destroyer {
    struct rdma_cm_id *id;
    _Atomic pid_t tid;
    _Atomic bool done;
};

static void *destroy(void *arg)
{
    struct destroyer *destroyer = arg;
    destroyer->tid = gettid();
    soft_destroy_id(destroyer->id);
    destroyer->done = true;
    return NULL;
}

static void expect_waits_for(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
    struct destroyer destroyer = {.id = id};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, destroy, &destroyer), 0);
    await_sleep(&destroyer.tid);
    ck_assert(!destroyer.done);
    soft_ack_cm_event(event);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

START_TEST(destroy_waits_for_acknowledgement)
{
    for (int i = 0; i < 20; i++) {
        struct rdma_event_channel *channel = new_channel();
        struct rdma_cm_id *id = new_id(channel);
        struct rdma_cm_event *event;
        raise_event(id);
        ck_assert_int_eq(soft_get_cm_event(channel, &event), 0);
        ck_assert_int_eq(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
        expect_waits_for(id, event);
        soft_destroy_event_channel(channel);
    }
}
END_TEST

static struct rdma_cm_event *expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;
    ck_assert_int_eq(soft_get_cm_event(channel, &event), 0);
    ck_assert_msg(event->event == type, "event %d, want %d", event->event, type);
    return event;
}

/* Connects `active` to the listener. Returns the listener's connect request event. */
static struct rdma_cm_event *be_asked(struct rdma_cm_id *listener, struct rdma_cm_id *active,
                                      struct ibv_pd **pd)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rdma_conn_param parameters = {.retry_count = 7};
    struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    ck_assert_int_eq(soft_bind_addr(listener, (struct sockaddr *)&any), 0);
    ck_assert_int_eq(soft_listen(listener, 1), 0);
    ck_assert_int_eq(soft_resolve_addr(active, NULL, &listener->route.addr.src_addr, 1000), 0);
    soft_ack_cm_event(expect_event(active->channel, RDMA_CM_EVENT_ADDR_RESOLVED));
    *pd = soft_alloc_pd(active->verbs);
    ck_assert_ptr_nonnull(*pd);
    ck_assert_int_eq(soft_resolve_route(active, 1000), 0);
    soft_ack_cm_event(expect_event(active->channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
    ck_assert_int_eq(soft_create_id_qp(active, *pd, &attr), 0);
    ck_assert_int_eq(soft_connect(active, &parameters), 0);
    return expect_event(listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* A connect request event holds a reference to its listener. The new identifier belongs to the application, and may be
 * destroyed first. */
START_TEST(request_holds_its_listener)
{
    struct rdma_event_channel *channel = new_channel(); /* both identifiers, because its calls drive both */
    struct rdma_cm_id *listener = new_id(channel), *active = new_id(channel);
    struct ibv_pd *pd;
    struct rdma_cm_event *request = be_asked(listener, active, &pd);
    soft_destroy_id(request->id);
    expect_waits_for(listener, request);
    soft_destroy_id_qp(active);
    ck_assert_int_eq(soft_dealloc_pd(pd), 0);
    soft_destroy_id(active);
    soft_destroy_event_channel(channel);
}
END_TEST

/* Waits for this event of that identifier, and acknowledges all events before it. */
static void expect_for(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
    for (bool come = false; !come;) {
        struct rdma_cm_event *event;
        ck_assert_int_eq(soft_get_cm_event(id->channel, &event), 0);
        come = event->id == id && event->event == type;
        soft_ack_cm_event(event);
    }
}

/* Both ends of a connection, on one channel. */
struct ends {
    struct rdma_cm_id *listener, *active, *passive;
    struct ibv_pd *pd;
};

/* Requested, but not accepted. */
static struct ends ends_open(void)
{
    struct rdma_event_channel *channel = new_channel();
    struct ends ends = {.listener = new_id(channel), .active = new_id(channel)};
    struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct rdma_cm_event *request = be_asked(ends.listener, ends.active, &ends.pd);
    ends.passive = request->id;
    soft_ack_cm_event(request);
    ck_assert_int_eq(soft_create_id_qp(ends.passive, ends.pd, &attr), 0);
    return ends;
}

static void ends_accept(const struct ends *ends)
{
    struct rdma_conn_param parameters = {.retry_count = 7};
    ck_assert_int_eq(soft_accept(ends->passive, &parameters), 0);
    expect_for(ends->active, RDMA_CM_EVENT_ESTABLISHED);
    expect_for(ends->passive, RDMA_CM_EVENT_ESTABLISHED);
}

static void ends_close(const struct ends *ends)
{
    struct rdma_event_channel *channel = ends->listener->channel;
    soft_destroy_id_qp(ends->active);
    soft_destroy_id_qp(ends->passive);
    ck_assert_int_eq(soft_dealloc_pd(ends->pd), 0);
    soft_destroy_id(ends->active);
    soft_destroy_id(ends->passive);
    soft_destroy_id(ends->listener);
    soft_destroy_event_channel(channel);
}

/* A message that the peer sent before it disconnected has completed when the application gets the DISCONNECTED event,
 * even if the application then disconnects at once. */
START_TEST(sent_before_the_goodbye)
{
    struct ends ends = ends_open();
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
    struct ibv_recv_wr receive = {.wr_id = 7}, *bad_receive;
    struct ibv_wc wc;
    ck_assert_int_eq(ibv_post_recv(ends.passive->qp, &receive, &bad_receive), 0);
    ends_accept(&ends);
    ck_assert_int_eq(ibv_post_send(ends.active->qp, &send, &bad_send), 0);
    ck_assert_int_eq(soft_disconnect(ends.active), 0);
    expect_for(ends.passive, RDMA_CM_EVENT_DISCONNECTED);
    ck_assert_int_eq(soft_disconnect(ends.passive), 0);
    ck_assert_int_eq(ibv_poll_cq(ends.passive->recv_cq, 1, &wc), 1);
    ck_assert_uint_eq(wc.wr_id, 7);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ends_close(&ends);
}
END_TEST

static void accept_at_the_second_try(void)
{
    struct ends ends = ends_open();
    peer_went = true;
    errno = 0;
    ck_assert_int_eq(soft_accept(ends.passive, NULL), -1);
    ck_assert_int_eq(errno, ECONNRESET);
    peer_went = false;
    ends_accept(&ends);
    ends_close(&ends);
}

/* The descriptors that the peer passed with its request are taken once and closed once, however often the request is
 * answered. */
START_TEST(accepted_again)
{
    int before;
    accept_at_the_second_try(); /* descriptors that stay open in the process exist from here on */
    before = count_fds();
    accept_at_the_second_try();
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* These functions ignore the -1 of a call that failed, and keep errno. A wrong array index would be found by the
 * undefined-behaviour sanitizer. */
START_TEST(no_descriptor)
{
    errno = EMFILE;
    ck_assert_int_eq(fds_own(-1), -1);
    ck_assert_int_eq(errno, EMFILE);
    fds_disown(-1);
    ck_assert_int_eq(errno, EMFILE);
}
END_TEST

/* A private data length without private data is an error. */
START_TEST(connect_data_nowhere)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rdma_addrinfo to = {
        .ai_port_space = RDMA_PS_TCP,
        .ai_qp_type = IBV_QPT_RC,
        .ai_dst_addr = (struct sockaddr *)&own,
        .ai_dst_len = sizeof own,
        .ai_connect_len = 3,
    };
    struct rdma_cm_id *id = NULL;
    int before = count_fds();

    ck_assert_int_eq(soft_create_ep(&id, &to, NULL, NULL), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(id);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

int main(void)
{
    soft_defer_cancellation(); /* as librdmacm's entry points do */

    Suite *suite = suite_create("connections");
    TCase *waiting = new_case(suite, "waiting"), *holding = new_case(suite, "holding");
    tcase_set_timeout(waiting, 30);
    tcase_set_timeout(holding, 30);
    tcase_add_test(waiting, channel_ends_under_a_sleeper);
    tcase_add_test(waiting, channel_ends_under_one_that_wakes);
    tcase_add_test(waiting, many_waiters);
    tcase_add_test(waiting, cancelled_anywhere);
    tcase_add_test(holding, destroy_waits_for_acknowledgement);
    tcase_add_test(holding, request_holds_its_listener);
    tcase_add_test(holding, sent_before_the_goodbye);
    tcase_add_test(holding, accepted_again);
    tcase_add_test(holding, no_descriptor);
    tcase_add_test(holding, connect_data_nowhere);
    return run_suite(suite);
}
