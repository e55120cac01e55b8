/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * service_thread.h - what service.c (registers and removes members) shares with service_thread.c (the thread).
 *
 * Lock order: a context's lock is taken before the service lock, because the links add sockets from inside the engine.
 * The thread itself holds the service lock first, so it only tries a context's lock. If that fails, another thread
 * holds the lock and is driving the device, so the service thread has nothing to do. A member becomes IDLE with both
 * locks held; otherwise the application could send something in between, and no thread would watch its timer. The lock
 * of the additional task is taken before the service lock by fork handlers, and alone by the thread while the task
 * runs.
 */
#ifndef SOFT_SERVICE_THREAD_H
#define SOFT_SERVICE_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include "service.h"

/* The only service. */
extern struct service {
    pthread_mutex_t gate; /* serializes starting and stopping the thread; taken before `lock` */
    pthread_mutex_t lock; /* guards everything below, and the members */
    pthread_t thread;
    sem_t begun; /* posted when the thread runs */
    unsigned members;
    bool forks_wait; /* the fork handlers are installed; guarded by `gate` */
    bool quit;       /* the thread must return */
    /* An eventfd that wakes the thread, and an epoll with this eventfd and the members' sockets. -1: none. */
    int epoll, wake;
    pthread_mutex_t task_lock; /* held while the additional task runs */
    int task;                  /* the additional task's descriptor; -1: none */
    void (*run_task)(void);
    /* When the additional task is due, ns, or NEVER_NS. A thread stores it before it wakes the service thread; the
     * store pairs with the service thread's load after the wake-up. */
    atomic_uint_fast64_t task_due;
    TAILQ_HEAD(, service_member) watched; /* all members in WATCH or SERVE, the oldest first */
    /* Members in CALLED, a linked list. The compare-exchange that adds a member pairs with the exchange that takes the
     * whole list. */
    _Atomic(struct service_member *) scheduled;
} service_shared;

/* The thread's main function; returns after `quit` is set. */
void *service_run(void *unused);

/* The functions below are called with the service lock. */

/* Sets whether packets of the member wake the thread: always (EPOLLIN), once (EPOLLIN | EPOLLONESHOT) or never (0). */
void service_arm(struct service_member *member, uint32_t events);
/* Changes the state to WATCH. */
void service_watch(struct service_member *member);
/* Changes all members in CALLED to WATCH. */
void service_run_scheduled(void);

#endif
