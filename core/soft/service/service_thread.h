/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * service_thread.h - what service.c, which takes members into care and lets them go, shares with
 * service_thread.c, which is the thread itself.
 *
 * Locks: a context is locked before the service, since links join and add sockets from inside the engine. The
 * thread itself holds the service lock first, so it only ever tries a context's lock; who holds that one is
 * driving the device, and there is nothing left to do. A member turns IDLE under both locks: had the
 * application sent something in between, nobody would watch its deadline. The errand's lock is taken before the
 * service's by who forks, and by the thread alone while it runs it.
 */
#ifndef SOFT_SERVICE_THREAD_H
#define SOFT_SERVICE_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include "core/soft/lock.h"
#include "service.h"

extern struct service {
    pthread_mutex_t gate; /* starting and ending the thread; taken before lock */
    pthread_mutex_t lock; /* everything below, and the members */
    pthread_t thread;
    sem_t begun; /* posted once the thread runs */
    unsigned members;
    bool forks_wait; /* the handlers of fork are in place; under gate */
    bool quit;
    int epoll, wake;
    pthread_mutex_t errand_lock; /* held while it runs */
    int errand;                  /* its descriptor; -1: there is none */
    void (*run_errand)(void);
    atomic_uint_fast64_t errand_due;     /* said by any thread before it wakes this one, which reads it then */
    LIST_HEAD(, service_member) watched; /* all in WATCH and SERVE */
    _Atomic(struct service_member *) summoned; /* a list: who adds itself pairs with who takes all of it */
} service_shared;

/* What the thread runs, until quit. */
void *service_run(void *unused);

/* All with the lock held: */

/* Let the member's packets wake the thread: EPOLLIN always, with EPOLLONESHOT once, 0 never. */
void service_arm(struct service_member *member, uint32_t events);
/* From whatever it is to WATCH. */
void service_watch(struct service_member *member);
/* To WATCH with all that have called. */
void service_answer_summons(void);

#endif
