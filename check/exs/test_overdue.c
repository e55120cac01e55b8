/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_overdue.c - a packet is lost while its sender sleeps in a blocking call or in the application's loop.
 * The sender wakes when the device's retransmission timer expires, and the device retransmits. Its service
 * thread is suspended and cannot do this.
 *
 * While a thread sleeps where packets wake it, the service thread polls the device less often, but it does not
 * stop, because a signal handler may delay the sleeping thread.
 *
 * Both ends are in this process, on the software device and its UDP link. This program's sendmsg() drops a
 * packet on request.
 */
#include "check/support/asleep.h"
#include "check/support/support.h"

#include <exs_ev.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include "core/base/clock.h"
#include "soft/engine/wire.h"
#include "soft/lock.h"
#include "soft/service/service_thread.h"
#include "inside.h"

enum { ACKNOWLEDGE = 0x11, WARM = 50, BYTES = 100, TIMES = 5 };

static _Atomic uint32_t
    loses; /* queue pair number: drop the next packet to it that is no acknowledgement; 0: drop none */

static uint32_t qpn_of(const uint8_t *bth)
{
    return (uint32_t)(bth[5] << 16 | bth[6] << 8 | bth[7]);
}

/* Replaces the system's function for the library. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    const uint8_t *bth = message->msg_iov->iov_base;
    uint32_t lost = atomic_load(&loses);

    if (lost != 0 && message->msg_iov->iov_len >= BYTES && bth[0] != ACKNOWLEDGE && qpn_of(bth) == lost) {
        atomic_store(&loses, 0);
        return (ssize_t)message->msg_iov->iov_len;
    }
    return syscall(SYS_sendmsg, fd, message, flags);
}

static void use(const char *link, const char *spin)
{
    must(spin != NULL ? setenv("EXS_SPIN", spin, 1) : unsetenv("EXS_SPIN"));
    must(setenv("EXS_DEVICE", "soft", 1));
    must(setenv("EXS_LINK", link, 1));
    init_library();
}

/* Drops the next packet from the client to this socket. */
static void lose_one_to(int server)
{
    atomic_store(&loses, conn_of(server)->qp->qp_num);
}

static struct pair pair;
static char bytes[BYTES];
static int sent;

/* Sends the next message, until TIMES were sent; the loop sleeps after each. */
static void one_is_sent(struct ev_loop *loop, exs_ev *w, exs_event_t *events, int count)
{
    (void)w;
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(events->exs_evt_type, EXS_EVT_SEND);
    ck_assert_int_eq(events->exs_evt_errno, 0);
    ck_assert_uint_eq(atomic_load(&loses), 0);
    if (++sent > TIMES) {
        ev_break(loop, EVBREAK_ALL);
        return;
    }
    lose_one_to(pair.server);
    must(exs_send(pair.client, bytes, BYTES, 0, pair.client_box->queue, NULL, NULL));
}

static void took_too_long(struct ev_loop *loop, ev_timer *w, int revents)
{
    (void)loop;
    (void)w;
    (void)revents;
    ck_abort_msg("nobody woke after %d of %d", sent, TIMES);
}

START_TEST(in_a_loop)
{
    struct ev_loop *loop;
    ev_timer limit;
    exs_ev watcher;

    use("udp", _i ? "0" : NULL);
    loop = ev_loop_new(EVFLAG_AUTO);
    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < WARM; i++) /* the device measures the round-trip time */
        pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, BYTES, 1);
    service_suspend(service_of(pair.client)); /* the server's thread acknowledges */
    exs_ev_init(&watcher, one_is_sent, pair.client_box->queue);
    exs_ev_start(loop, &watcher);
    ev_timer_init(&limit, took_too_long, LATE_S, 0);
    ev_timer_start(loop, &limit);
    must(exs_send(pair.client, bytes, BYTES, 0, pair.client_box->queue, NULL, NULL));
    ev_run(loop, 0);
    ck_assert_uint_lt(ev_iteration(loop), 50 * TIMES); /* the loop sleeps between the packets */
    exs_ev_stop(loop, &watcher);
    ev_timer_stop(loop, &limit);
    ev_loop_destroy(loop);
    service_resume(service_of(pair.client));
    pair_close(&pair);
}
END_TEST

START_TEST(in_a_call)
{
    use("udp", _i ? "0" : NULL);
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    for (int i = 0; i < WARM; i++) {
        must(exs_blocking_send(pair.client, bytes, BYTES, 0, NULL));
        must(exs_blocking_recv(pair.server, bytes, BYTES, MSG_WAITALL, NULL));
    }
    service_suspend(service_of(pair.client));
    for (int i = 0; i < TIMES; i++) {
        lose_one_to(pair.server);
        uint64_t limit = ns_after(now_ns(), (uint64_t)(LATE_S * 1e9));
        ck_assert_int_eq(exs_blocking_send(pair.client, bytes, BYTES, 0, NULL), BYTES);
        ck_assert_msg(now_ns() < limit, "call %d slept for too long", i);
        ck_assert_uint_eq(atomic_load(&loses), 0);
    }
    service_resume(service_of(pair.client));
    pair_close_blocking(&pair);
}
END_TEST

static _Atomic pid_t sleeper;
static char received[BYTES];

static void *receive_bytes(void *unused)
{
    (void)unused;
    atomic_store(&sleeper, gettid());
    ck_assert_int_eq(exs_blocking_recv(pair.client, received, BYTES, MSG_WAITALL, NULL), BYTES);
    return NULL;
}

/* Returns the time until the service thread polls the device next, in ns. */
static uint64_t left_alone(const struct service_member *member)
{
    soft_mutex_lock(&service_shared.lock);
    uint64_t due = member->due;

    soft_mutex_unlock(&service_shared.lock);
    return ns_left(due, now_ns());
}

/* The service thread polls the device of a sleeping thread less often than that of a thread that may be busy,
 * whether the device has a timer or not. */
START_TEST(left_alone_while_it_sleeps)
{
    const uint64_t long_enough = 10 * SERVICE_TICK_NS, limit = ns_after(now_ns(), (uint64_t)(LATE_S * 1e9));

    use(_i ? "tcp" : "udp", NULL);
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    const struct service_member *member = service_of(pair.client);
    pthread_t thread = thread_start(receive_bytes, NULL);
    await_sleep(&sleeper);
    must(exs_blocking_send(pair.server, bytes, 1, 0, NULL)); /* something for the service thread to process */
    while (left_alone(member) < long_enough) {
        ck_assert_uint_lt(now_ns(), limit);
        sched_yield();
    }
    ck_assert(soft_is_slept_on(member->context));
    must(exs_blocking_send(pair.server, bytes, BYTES - 1, 0, NULL));
    thread_join(thread);
    ck_assert(!soft_is_slept_on(member->context));
    pair_close_blocking(&pair);
}
END_TEST

static int release[2]; /* a pipe */
static atomic_bool is_held;

static void hold(int number)
{
    char byte;

    (void)number;
    atomic_store(&is_held, true);
    ck_assert_int_eq(read(release[0], &byte, 1), 1);
}

/* A signal handler may keep a thread from its packets although they have woken it, for example while a garbage
 * collector stops all threads. Then the service thread processes the packets; otherwise the peer would time
 * out. */
START_TEST(held_by_a_handler)
{
    static const char *const links[] = {"shm", "tcp", "udp"};
    const struct sigaction action = {.sa_handler = hold, .sa_flags = SA_RESTART};

    use(links[_i], NULL);
    must(pipe(release));
    must(sigaction(SIGUSR1, &action, NULL));
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    pthread_t thread = thread_start(receive_bytes, NULL);
    await_sleep(&sleeper);
    ck_assert_int_eq(pthread_kill(thread, SIGUSR1), 0);
    while (!is_held)
        sched_yield();
    ck_assert_int_eq(exs_blocking_send(pair.server, bytes, BYTES, 0, NULL), BYTES);
    ck_assert_int_eq(write(release[1], "", 1), 1);
    thread_join(thread);
    pair_close_blocking(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("overdue");
    TCase *tcase = add_bare_case(suite, "asleep", 20);

    tcase_add_loop_test(tcase, in_a_loop, 0, 2);
    tcase_add_loop_test(tcase, in_a_call, 0, 2);
    tcase_add_loop_test(tcase, left_alone_while_it_sleeps, 0, 2);
    tcase_add_loop_test(tcase, held_by_a_handler, 0, 3);
    return run_suite(suite);
}
