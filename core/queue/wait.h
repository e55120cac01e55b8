/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.h - functions for threads and event loops that wait for a queue: running it, sleeping on it, busy polling it,
 * and dequeuing its events. No function here blocks, except that xs_spin() and xs_spin_for_...() busy-poll for a
 * limited time.
 */
#ifndef XS_WAIT_H
#define XS_WAIT_H

#include <exs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "core/base/waitset.h"

struct doorbell;
struct queue;

/* Runs a waiter's home queue once: processes completions, connection events and timers, and adds or delivers the
 * events of all operations that complete. The caller must call it again while the descriptors that it sleeps on are
 * readable. */
void xs_run(struct queue *home);
/* Must be called before the waiter sleeps (struct device, `stop_polling`). */
void xs_prepare_sleep_home(struct queue *home);
#define XS_SOURCES_MAX 32 /* maximum number of wait sets that a thread sleeps on */
/* A thread that sleeps until xs_run() has something to do. Owned by the caller. */
struct xs_sleeper {
    LIST_ENTRY(xs_sleeper) link;
    struct queue *home;
    const struct doorbell *wakefd; /* the thread's eventfd, signaled when `fds` or `deadline` is out of date */
    /* Out: the descriptors that the thread must poll: first its eventfd, then those that make the queue ready. */
    struct pollfd fds[1 + XS_SOURCES_MAX * WAITSET_LISTED];
    int count;         /* out: entries of `fds` */
    uint64_t deadline; /* out: the time when the thread must wake up at the latest, ns, clock.h */
    /* The earliest deadline that the thread knows of or has been woken for, ns. Guarded by the home's events.lock. */
    uint64_t wakes_by;
};
/* Must be called before and after the thread sleeps. xs_sleep_begin() fills the sleeper, and also does
 * what xs_prepare_sleep_home() does. */
void xs_sleep_begin(struct queue *home, struct xs_sleeper *sleeper);
void xs_sleep_end(struct xs_sleeper *sleeper);
/* Drops a waiter's reference to its home. */
void xs_release_home(struct queue *home);

/* Busy-polls the home queue, if its settings and the results of earlier spins allow it (spin.h), until
 * is_over(argument) returns true, which is called without locks. Returns true then, and false if the caller should
 * sleep. */
bool xs_spin(struct queue *home, bool (*is_over)(void *), void *argument);
/* Like xs_spin(), but until the queue has events, or until the time `limit` (ns, clock.h). Returns true if the caller
 * should call xs_dequeue() at once. */
bool xs_spin_for_events(struct queue *queue, uint64_t limit);
/* Like xs_spin_for_events(), but for this time (ns), whatever the queue's settings and earlier polls say. */
bool xs_spin_for_budget(struct queue *queue, uint64_t ns);

/* Returns the queue of a handle, which can't be deleted until xs_queue_put(); or NULL if the handle is invalid. */
struct queue *xs_queue_get(exs_qhandle_t handle);
/* Ends the use of a queue. Does nothing for NULL. */
void xs_queue_put(struct queue *queue);
/* Logs that the handle is invalid. Returns -1 and EINVAL. */
int xs_no_queue(exs_qhandle_t handle) __attribute__((cold));

/* Like exs_qcreate(), but fails with the errno of the system call that failed. */
exs_qhandle_t xs_queue_make(int depth);
/* Like exs_qdequeue(), but never waits. */
int xs_dequeue(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt);

/* ---- For loops that watch the queue's descriptor level-triggered (look.c) ---- */

/* exs_qpoll() with EXS_LOOP_BUDGET. Returns the number of events; 0: the iteration is over, and the caller must return
 * to the loop; -1 and errno. */
int xs_dequeue_in_loop(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt);
/* Must be called before a loop sleeps. Ends the iteration. */
void xs_prepare_sleep_in_loop(struct queue *queue);
/* Returns true if this thread handles events that xs_dequeue_in_loop() gave it from this queue: it will call that again, or
 * xs_prepare_sleep_in_loop(). */
bool xs_loop_handles(const struct queue *queue);
/* Returns true if a send that this thread starts now on a socket of `home` may be held (conn/batch.c): it handles
 * events of that queue, and they are more than the sends that it has started since then, with this one. Called with
 * the home's lock, once for each send. */
bool xs_loop_may_hold(const struct queue *home);
/* This thread holds a send on a socket of `home`. Called with the home's lock. */
void xs_loop_holds(struct queue *home);
/* Ends this thread's batch: posts the sends that it holds. Called without locks, before the thread takes more events, sleeps
 * or waits. */
void xs_loop_end_batch(void);

#endif
