/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for one operation: run the queue that the socket lives on until it is done.
 *
 * Each thread has a loop of its own, made when it first waits. Its watcher on the queue's descriptor stays
 * where it is between calls, since most threads wait on one socket again and again.
 */
#include <errno.h>
#include <ev.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include "core/fds.h"
#include "wait.h"

struct thread_loop {
    struct ev_loop *loop;
    unsigned generation;
    ev_io io;              /* on the descriptor of `watched` */
    struct queue *watched; /* a reference */
    ev_io wake; /* on an eventfd: another thread harvested our event. An ev_async would end the process
                 * where there is no descriptor for it. */
};

/* The thread that delivers may not touch the wait or the loop any more once the one that waits could be gone
 * with them; so there is a state between. */
enum { WAITING, DELIVERING, DONE };

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void nothing_io(EV_P_ ev_io *w, int revents)
{
    (void)w, (void)revents, (void)loop;
}

static void woken(EV_P_ ev_io *w, int revents)
{
    eventfd_t value;

    (void)revents, (void)loop;
    eventfd_read(w->fd, &value);
}

static void nothing_timer(EV_P_ ev_timer *w, int revents)
{
    (void)w, (void)revents, (void)loop;
}

/* ---- The thread's loop ------------------------------------------------------------------------------ */

static void unwatch(struct thread_loop *thread)
{
    if (thread->watched == NULL)
        return;
    ev_io_stop(thread->loop, &thread->io);
    xs_release_home(thread->watched);
    thread->watched = NULL;
}

static void free_loop(void *argument)
{
    struct thread_loop *thread = argument;

    unwatch(thread);
    ev_io_stop(thread->loop, &thread->wake);
    fds_close(thread->wake.fd);
    ev_loop_destroy(thread->loop);
    free(thread);
}

static void free_main(void)
{
    struct thread_loop *thread = pthread_getspecific(key);

    if (thread != NULL && thread->generation == xs_generation()) {
        pthread_setspecific(key, NULL);
        free_loop(thread);
    }
}

static void make_key(void)
{
    pthread_key_create(&key, free_loop);
    atexit(free_main); /* the thread that returns from main has no other end */
}

static struct thread_loop *new_loop(void)
{
    struct thread_loop *thread = calloc(1, sizeof(*thread));
    int wake;

    if (thread == NULL)
        return NULL;
    wake = fds_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake < 0)
        goto free_thread;
    thread->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    if (thread->loop == NULL) {
        errno = ENOMEM;
        goto close_wake;
    }
    thread->generation = xs_generation();
    ev_init(&thread->io, nothing_io);
    ev_io_init(&thread->wake, woken, wake, EV_READ);
    ev_io_start(thread->loop, &thread->wake);
    pthread_setspecific(key, thread);
    return thread;
close_wake:
    fds_close(wake);
free_thread:
    free(thread);
    return NULL;
}

static struct thread_loop *get_loop(void)
{
    pthread_once(&key_once, make_key);
    struct thread_loop *thread = pthread_getspecific(key);

    if (thread != NULL && thread->generation == xs_generation())
        return thread;
    return new_loop(); /* what a forked child inherited is its parent's */
}

/* Watch this queue, a reference that is taken over; its descriptor was made before the operation was started.
 */
static void watch(struct thread_loop *thread, struct queue *queue)
{
    if (thread->watched == queue) {
        xs_release_home(queue);
        return;
    }
    unwatch(thread);
    ev_io_set(&thread->io, xs_run_fd(queue), EV_READ);
    ev_io_start(thread->loop, &thread->io);
    thread->watched = queue;
}

/* ---- Waiting for an operation ------------------------------------------------------------------------ */

static void wake(struct wait *wait)
{
    if (!pthread_equal(wait->owner, pthread_self()))
        eventfd_write(wait->thread->wake.fd, 1);
}

static void deliver(struct waiter *waiter, const exs_event_t *event)
{
    struct wait *wait = (struct wait *)waiter;

    wait->event = *event;
    atomic_store_explicit(&wait->state, DELIVERING, memory_order_release);
    wake(wait);
    atomic_store_explicit(&wait->state, DONE, memory_order_release);
}

static void move(struct waiter *waiter, struct queue *home)
{
    struct wait *wait = (struct wait *)waiter;

    atomic_store(&wait->moved, home);
    wake(wait);
}

int wait_begin(struct wait *wait)
{
    *wait = (struct wait){.waiter = {.deliver = deliver, .move = move}, .owner = pthread_self()};
    wait->thread = get_loop();
    return wait->thread != NULL ? 0 : -1;
}

static bool is_done(struct wait *wait)
{
    int state = atomic_load_explicit(&wait->state, memory_order_acquire);

    while (state == DELIVERING) { /* a few instructions of the other thread */
        sched_yield();
        state = atomic_load_explicit(&wait->state, memory_order_acquire);
    }
    return state == DONE;
}

/* The queue to run from now on, when it has changed; NULL else. */
static struct queue *next_home(struct wait *wait, struct queue *home)
{
    struct queue *moved = atomic_exchange(&wait->moved, NULL);

    if (moved == NULL)
        return home;
    if (home != NULL)
        xs_release_home(home);
    return moved;
}

const exs_event_t *wait_end(struct wait *wait)
{
    struct thread_loop *thread = wait->thread;
    struct queue *home = wait->waiter.home;

    while (!is_done(wait)) {
        home = next_home(wait, home);
        if (home != NULL)
            watch(thread, home);
        home = NULL;
        ev_run(thread->loop, EVRUN_ONCE); /* what has come already makes the descriptor readable */
        xs_run(thread->watched);
    }
    home = next_home(wait, home);
    if (home != NULL)
        xs_release_home(home);
    if (wait->event.exs_evt_type == EXS_EVT_CLOSE)
        unwatch(thread);
    if (wait->event.exs_evt_errno == 0)
        return &wait->event;
    errno = wait->event.exs_evt_errno;
    return NULL;
}

/* ---- Waiting for a descriptor ------------------------------------------------------------------------- */

int wait_readable(int fd, double seconds)
{
    struct thread_loop *thread = get_loop();
    ev_timer timer;
    ev_io io;

    if (thread == NULL)
        return -1;
    struct queue *watched =
        thread->watched; /* its descriptor may be ready all the time: not our business now */

    if (watched != NULL)
        ev_io_stop(thread->loop, &thread->io);
    ev_io_init(&io, nothing_io, fd, EV_READ);
    ev_io_start(thread->loop, &io);
    ev_init(&timer, nothing_timer);
    if (seconds >= 0) {
        ev_now_update(thread->loop);
        ev_timer_set(&timer, seconds, 0);
        ev_timer_start(thread->loop, &timer);
    }
    ev_run(thread->loop, EVRUN_ONCE);
    ev_timer_stop(thread->loop, &timer);
    ev_io_stop(thread->loop, &io);
    if (watched != NULL)
        ev_io_start(thread->loop, &thread->io);
    return 0;
}
