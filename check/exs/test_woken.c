/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_woken.c - a sleeping thread is woken, also by data that arrive after another thread has stopped polling
 * the same queue.
 *
 * A peer does not signal a context that is polled, and a polling thread reads the wake-up eventfd (wakefd) only
 * once in 1024 polls. Completions that it then finds wake other waiters; a one-sided write completes nothing at
 * its target. In these tests a thread polls until it has consumed the signal of such a write. Then no flag asks
 * the peer for a signal, the eventfd is not signaled, and no other waiter was notified. Only the thread that
 * stops polling can take care of the waiters, because the service thread is suspended.
 *
 * A thread may have its own time, which stands still or advances when the thread reads it, and a thread can be
 * stopped at a gate where it reads the clock.
 */
#include "check/support/asleep.h"
#include "check/support/support.h"

#include <dlfcn.h>
#include <exs_ev.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>
#include "core/api/core.h"
#include "core/queue/nic.h"
#include "core/queue/queue.h"
#include "inside.h"

#define LONG "1000000" /* us; EXS_WAIT_US_MAX */
#define STEP_NS 1000   /* ns by which a thread's own time advances at each reading */
#define LATE_MS ((int)(LATE_S * 1e3))

enum { HEARD = 2048 }; /* polls after which the wakefd was read for certain: one in 1024 reads it */

/* ---- Time -------------------------------------------------------------------------------- */

static _Thread_local struct { /* this thread's own time, ns */
    bool is_set;
    long long now, step;
} own_time;
static _Thread_local bool stops; /* this thread stops at the gate if it is shut */
static atomic_long looks;        /* number of readings of threads' own times */

/* Where the test stops another thread. */
static struct {
    atomic_bool is_shut, is_passed;
    sem_t arrived, go;
} gate;

static void await(sem_t *what)
{
    while (sem_wait(what) < 0)
        ck_assert_int_eq(errno, EINTR);
}

static void stop_at_gate(void)
{
    if (!stops || !gate.is_shut)
        return;
    sem_post(&gate.arrived);
    await(&gate.go);
    if (!gate.is_shut)
        gate.is_passed = true;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now)
{
    int (*own)(clockid_t, struct timespec *);

    if (id == CLOCK_MONOTONIC && own_time.is_set) {
        stop_at_gate();
        looks++;
        own_time.now += own_time.step;
        *now = (struct timespec){.tv_sec = own_time.now / 1000000000, .tv_nsec = own_time.now % 1000000000};
        return 0;
    }
    *(void **)&own = dlsym(RTLD_NEXT, "clock_gettime");
    return own(id, now);
}

/* Gives this thread its own time. */
static void set_own_time(long long step)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    own_time.now = now.tv_sec * 1000000000LL + now.tv_nsec;
    own_time.step = step;
    own_time.is_set = true;
}

static void shut_gate(void)
{
    must(sem_init(&gate.arrived, 0, 0));
    must(sem_init(&gate.go, 0, 0));
    gate.is_passed = false;
    gate.is_shut = true;
}

/* Lets the other thread run from one reading of the clock to the next, until is_there(). */
static void hold_when(bool (*is_there)(const struct conn *), const struct conn *conn)
{
    for (;;) {
        await(&gate.arrived);
        if (is_there(conn))
            return;
        must(sem_post(&gate.go));
    }
}

/* Releases the other thread. It has passed the gate when this returns. */
static void open_gate(void)
{
    gate.is_shut = false;
    must(sem_post(&gate.go));
    while (!gate.is_passed)
        sched_yield();
}

static bool comes(sem_t *what)
{
    struct timespec limit;
    int result;

    must(clock_gettime(CLOCK_REALTIME, &limit));
    limit.tv_sec += (time_t)LATE_S + 1;
    do
        result = sem_timedwait(what, &limit);
    while (result < 0 && errno == EINTR);
    return result == 0;
}

/* ---- A write whose signal was consumed ----------------------------------------------------- */

static void init_with(const char *spin)
{
    must(setenv("EXS_SPIN", spin, 1));
    must(setenv("EXS_LINK", "shm", 1));
    init_library();
}

static void set_mode(exs_qhandle_t queue, int mode, int us)
{
    must(exs_qmodify(queue, EXS_QATTR_WAIT, &(exs_qattr_t){.exs_wait = mode, .exs_wait_us = us}));
}

static bool is_readable(exs_qhandle_t queue, int within_ms)
{
    return poll(&(struct pollfd){.fd = exs_qfd(queue), .events = POLLIN}, 1, within_ms) == 1;
}

static void send_one(const struct pair *pair)
{
    must(exs_send(pair->server, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
}

/* Processes everything that has arrived. Data that arrive afterwards signal the wakefd. */
static void settle(struct queue *home)
{
    for (int i = 0; i < 4; i++)
        xs_run(home);
    xs_prepare_sleep_home(home);
}

struct exported { /* a byte of a socket's memory into which the peer may write */
    char byte;
    exs_mhandle_t region;
    exs_token_t token;
};

static void export_byte(struct exported *exported, int socket)
{
    exported->region = exs_mregister(&exported->byte, 1, 0);
    ck_assert_ptr_ne(exported->region, EXS_MHANDLE_INVALID);
    must(exs_mexport(socket, exported->region, &exported->byte, 1, EXS_REMOTE_WRITE, &exported->token));
}

static void withdraw(struct exported *exported, int socket)
{
    ck_assert_int_eq(exported->byte, 'w');
    must(exs_munexport(socket, &exported->token));
    must(exs_mderegister(exported->region, 0));
}

/* ---- Host queues --------------------------------------------------------------------------- */

static int is_empty; /* ahandle of a receive that is cancelled */

static void *look_until_cancelled(void *argument)
{
    const struct pair *pair = argument;
    char byte;

    set_own_time(0);
    must_fail(exs_recv(pair->client, &byte, 1, EXS_BLOCK, NULL, &is_empty, NULL), ECANCELED);
    return NULL;
}

static void await_polls(void)
{
    long enough = looks + 2L * HEARD; /* the thread polls twice between two readings of the clock */

    while (looks < enough)
        sched_yield();
}

/* A blocking call of another thread polls, finds a write, and ends. */
static void look_and_leave(struct pair *pair)
{
    struct exported exported;

    export_byte(&exported, pair->client);
    pthread_t thread = thread_start(look_until_cancelled, pair);

    /* A call that polls would measure CPU contention, which would keep the other thread from polling. */
    ck_assert_int_eq(exs_rwrite(pair->server, "w", 1, &exported.token, 0, EXS_UNSIGNALED, NULL, NULL, NULL), 0);
    await_polls();
    ck_assert_int_eq(exs_cancel(pair->client, &is_empty, 0), 1);
    thread_join(thread);
    withdraw(&exported, pair->client);
}

/* The queue becomes a host before the other thread polls, or afterwards. */
START_TEST(a_host_is_woken)
{
    bool hosts_before = _i == 0;
    struct pair pair;
    struct inbox host;
    char byte = 0;

    init_with(LONG);
    pair_open_blocking(&pair, PF_INET, SOCK_STREAM);
    inbox_open(&host, 4);
    struct queue *home = conn_of(pair.client)->nic->queue;

    service_suspend(service_of(pair.client));
    if (hosts_before)
        must(exs_recv(pair.client, &byte, 1, 0, host.queue, NULL, NULL));
    settle(home);
    xs_spin_set(&home->spin, &(exs_qattr_t){.exs_wait = EXS_WAIT_ADAPTIVE, .exs_wait_us = EXS_WAIT_US_MAX});
    look_and_leave(&pair);
    if (!hosts_before)
        must(exs_recv(pair.client, &byte, 1, 0, host.queue, NULL, NULL));
    ck_assert_msg(!is_readable(host.queue, 0), "it is woken anyway");
    send_one(&pair);
    ck_assert_msg(is_readable(host.queue, LATE_MS), "who looked has left, and the host sleeps on");
    take_good(&host, EXS_EVT_RECV, pair.client);
    ck_assert_int_eq(byte, 'x');
    service_resume(service_of(pair.client));
    pair_close_blocking(&pair);
    inbox_close(&host);
}
END_TEST

/* ---- Threads ------------------------------------------------------------------------------- */

struct sleeper { /* a thread that receives a byte */
    int socket;
    _Atomic pid_t tid;
    sem_t woken;
};

static void *receive(void *argument)
{
    struct sleeper *sleeper = argument;
    char byte;

    set_own_time(STEP_NS);
    stops = true;
    sleeper->tid = gettid();
    ck_assert_int_eq(exs_blocking_recv(sleeper->socket, &byte, 1, 0, NULL), 1);
    ck_assert_int_eq(byte, 'x');
    must(sem_post(&sleeper->woken));
    return NULL;
}

/* Returns whether the thread is registered as a sleeper of the queue that owns the socket. */
static bool is_asleep(const struct conn *conn)
{
    struct queue *home = conn->nic->queue;

    mutex_lock(&home->events.lock);
    bool is = !LIST_EMPTY(&home->events.sleepers);

    mutex_unlock(&home->events.lock);
    return is;
}

/* Returns whether the thread's receive has started. If so, this thread holds the queue's lock, which the
 * receive needs next. */
static bool is_about_to_sleep(const struct conn *conn)
{
    return conn->rx.started > 0 && mutex_trylock(&conn->nic->queue->lock);
}

struct stage { /* a client whose owner is a loop's queue, and a thread that receives on it */
    struct pair pair;
    exs_qhandle_t queue;
    struct conn *conn;
    struct queue *home; /* the same queue */
    struct exported exported;
    struct sleeper sleeper;
    pthread_t thread;
    int rounds; /* number of callbacks in the loop's first iteration */
    unsigned turn;
};

static void stage_open(struct stage *stage)
{
    init_with(LONG);
    pair_open(&stage->pair, PF_INET, SOCK_STREAM);
    stage->queue = stage->pair.client_box->queue;
    stage->conn = conn_of(stage->pair.client);
    stage->home = stage->conn->nic->queue;
    stage->sleeper.socket = stage->pair.client;
    must(sem_init(&stage->sleeper.woken, 0, 0));
    service_suspend(service_of(stage->pair.client));
    export_byte(&stage->exported, stage->pair.client);
    settle(stage->home);
}

static void stage_close(struct stage *stage)
{
    thread_join(stage->thread);
    withdraw(&stage->exported, stage->pair.client);
    service_resume(service_of(stage->pair.client));
    pair_close(&stage->pair);
}

static void write_one(const struct stage *stage)
{
    must(exs_rwrite(stage->pair.server, "w", 1, &stage->exported.token, 0, EXS_UNSIGNALED, NULL, NULL, NULL));
}

static void fall_asleep(struct stage *stage, bool (*is_there)(const struct conn *))
{
    shut_gate();
    stage->thread = thread_start(receive, &stage->sleeper);
    hold_when(is_there, stage->conn);
}

/* Adds an event that needs no device. */
static void close_one(exs_qhandle_t queue)
{
    must(exs_close(exs_socket(PF_INET, SOCK_STREAM, 0), 0, queue, NULL));
}

/* Each callback adds another event, which the busy-polling watcher finds immediately. The last one waits for
 * the thread. */
static void look_on(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct stage *stage = w->data;

    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(events->exs_evt_type, EXS_EVT_CLOSE);
    if (++stage->rounds == 1) {
        stage->turn = ev_iteration(EV_A);
        write_one(stage);
    }
    if (stage->rounds <= HEARD) {
        close_one(w->queue);
        return;
    }
    ck_assert_uint_eq(ev_iteration(EV_A), stage->turn);
    open_gate();
    send_one(&stage->pair);
    ck_assert_msg(comes(&stage->sleeper.woken), "the loop waits for a thread that is not woken");
    exs_ev_stop(EV_A_ w);
    ev_break(EV_A_ EVBREAK_ALL);
}

/* The thread slept before the loop started to poll. It is stopped just before its system call, so that the
 * write's wakefd does not wake it; because of its timeout it reads the clock there. A callback of the loop
 * waits for the thread. */
START_TEST(a_thread_is_woken_while_a_callback_waits)
{
    static const struct timeval far = {.tv_sec = 1000};
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    struct stage stage = {.rounds = 0};
    exs_ev watcher = {.data = &stage};

    stage_open(&stage);
    set_mode(stage.queue, EXS_WAIT_NOTIFY, 0); /* so that it sleeps immediately */
    must(exs_setsockopt(stage.pair.client, SOL_SOCKET, SO_RCVTIMEO, &far, sizeof far));
    fall_asleep(&stage, is_asleep);
    set_mode(stage.queue, EXS_WAIT_ADAPTIVE, EXS_WAIT_US_MAX);
    exs_ev_init(&watcher, look_on, stage.queue);
    exs_ev_start(loop, &watcher);
    set_own_time(0);
    close_one(stage.queue);
    ev_run(loop, 0);
    own_time.is_set = false;
    ck_assert_int_gt(stage.rounds, HEARD);
    stage_close(&stage);
    ev_loop_destroy(loop);
}
END_TEST

/* The thread has prepared its sleep and is not registered as a sleeper yet, because it waits for the queue's
 * lock. The other thread holds that lock and polls. */
START_TEST(a_thread_is_woken_that_was_about_to_sleep)
{
    struct stage stage = {.rounds = 0};

    stage_open(&stage);
    set_mode(stage.queue, EXS_WAIT_ADAPTIVE, STEP_NS / 1000); /* us; ends as soon as it starts */
    write_one(&stage);
    fall_asleep(&stage, is_about_to_sleep);
    ck_assert(!atomic_load(&stage.home->waits)); /* the thread has nothing to flush */
    open_gate();
    await_sleep(&stage.sleeper.tid);
    for (int i = 0; i < HEARD; i++)
        xs_nic_look(stage.conn->nic);
    xs_queue_note_waits(stage.home);
    ck_assert(atomic_load(&stage.home->waits));
    xs_queue_unlock(stage.home);
    while (!is_asleep(stage.conn))
        sched_yield();
    send_one(&stage.pair);
    ck_assert_msg(comes(&stage.sleeper.woken), "a thread fell asleep while another looked, and is not woken");
    stage_close(&stage);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("woken");
    TCase *hosts = add_bare_case(suite, "hosts", 20), *threads = add_bare_case(suite, "threads", 20);

    if (!on_rdma()) { /* a hardware device signals each completion */
        tcase_add_loop_test(hosts, a_host_is_woken, 0, 2);
        tcase_add_test(threads, a_thread_is_woken_while_a_callback_waits);
        tcase_add_test(threads, a_thread_is_woken_that_was_about_to_sleep);
    }
    return run_suite(suite);
}
