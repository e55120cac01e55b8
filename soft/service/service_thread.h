/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * service_thread.h - what service.c (registers and removes members) shares with service_thread.c (the thread).
 *
 * Lock order: a context's lock is taken before the service lock, because the links add sockets from inside the engine.
 * The thread itself holds the service lock first, so it only tries a context's lock. If that fails, the thread that
 * holds it is driving the device, and there is nothing to do. A member becomes IDLE with both locks held; otherwise the
 * application could send something in between, and no thread would watch its timer. The lock of the additional task is
 * taken before the service lock by fork handlers, and alone by the thread while the task runs.
 */
#ifndef SOFT_SERVICE_THREAD_H
#define SOFT_SERVICE_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include "service.h"

extern struct service {
    pthread_mutex_t gate; /* serializes starting and stopping the thread; taken before `lock` */
    pthread_mutex_t lock; /* guards everything below, and the members */
    pthread_t thread;
    sem_t begun; /* posted when the thread runs */
    unsigned members;
    bool forks_wait; /* the fork handlers are installed; guarded by `gate` */
    bool quit;
    int epoll, wake; /* of the members' sockets and of `wake`, an eventfd that wakes the thread; -1: none */
    pthread_mutex_t task_lock; /* held while the additional task runs */
    int task;                  /* the additional task's descriptor; -1: none */
    void (*run_task)(void);
    /* Stored by any thread before it wakes this one, which pairs with this thread's load after the wake-up. */
    atomic_uint_fast64_t task_due;
    TAILQ_HEAD(, service_member) watched; /* all members in WATCH or SERVE, the oldest first */
    /* Members in CALLED, a linked list. The compare-exchange that adds a member pairs with the exchange that takes the
     * whole list. */
    _Atomic(struct service_member *) scheduled;
} service_shared;

/* The thread's main function; returns after `quit` is set. */
void *service_run(void *unused);

/* All with the service lock held: */

/* Sets when packets of the member wake the thread: EPOLLIN: always; EPOLLIN | EPOLLONESHOT: once; 0: never. */
void service_arm(struct service_member *member, uint32_t events);
/* Changes the state to WATCH. */
void service_watch(struct service_member *member);
/* Changes all members in CALLED to WATCH. */
void service_run_scheduled(void);

#endif
