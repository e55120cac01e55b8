/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * service.h - the thread that drives the device while the application does not.
 *
 * A peer's one-sided operation must be carried out, and a lost packet sent again, also while the application is
 * busy or asleep in something else. One thread for the whole process sees to it. It steps aside while the
 * application drives the device itself, so that no packet wakes two threads:
 *
 *   IDLE   nothing is on its way. The thread sleeps on the sockets, and a packet wakes it once.
 *   CALLED traffic has begun, and the thread is told: it makes that WATCH.
 *   WATCH  there is traffic. Once a millisecond, or a few times more rarely where the next timer is not due
 *          before that or the application is found there each time, the thread looks: have timers come due? Do
 *          packets lie there that the application has left alone since the last look? Then
 *   SERVE  the thread takes in the packets itself, as they come, until the application attends again.
 *
 * After some ticks without traffic and with no deadline left a context is IDLE again, and when all are, the
 * thread sleeps without a time-out.
 */
#ifndef SOFT_SERVICE_H
#define SOFT_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <infiniband/verbs.h>

#define SERVICE_SOCKETS 30 /* of one context and its groups, a bell, two epolls of more sockets, and a door */
#define SERVICE_TICK_NS UINT64_C(1000000) /* how often the thread looks, at most */

enum service_state { SERVICE_IDLE, SERVICE_CALLED, SERVICE_WATCH, SERVICE_SERVE };

/* One context in the thread's care. Part of its link, which sets `context` and leaves the rest to the service:
 * the atomic ones are anybody's, `summoned` its finder's, all others the service lock's. */
struct service_member {
    struct ibv_context *context;
    int sockets[SERVICE_SOCKETS];
    int count;
    int door;         /* one of these, or -1: it tells of each who comes once, for some can't be let in yet */
    atomic_int state; /* an enum service_state. From IDLE to CALLED it is who calls, and pairs with the thread's
                       * taking the list of those; all else is under the lock */
    atomic_bool attended;  /* the application was here since the thread last looked: pairs with nothing */
    atomic_uint traffic;   /* counts batches of packets: pairs with nothing */
    unsigned traffic_seen; /* its value at the last tick */
    unsigned quiet;        /* ticks without traffic or deadline */
    uint64_t due;          /* when the thread looks next, ns of CLOCK_MONOTONIC */
    uint64_t patience;     /* after which it does at the latest when nothing is due, ns */
    bool late;             /* packets were waiting, unattended, at the last tick */
    bool absent;           /* the thread had to serve, and the application has not been here since */
    bool suspended;        /* hands off: the context is about to be closed */
    struct service_member *summoned; /* next in the list of those that call */
    LIST_ENTRY(service_member) watched;
};

/* Take a context into care; the first one starts the thread. 0 or an errno. */
int service_join(struct service_member *member);
/* Never touched again when this returns; the last one ends the thread. Not with the context locked. */
void service_leave(struct service_member *member);
/* Its packets come on this socket too. 0 or an errno. */
int service_add(struct service_member *member, int socket);
/* The same, and they wake the application, too: soft_watch. (locked) */
int service_attach(struct service_member *member, int socket);
/* As service_add, of a unix socket that listens; one at most. */
int service_add_door(struct service_member *member, int socket);
/* Not on this one any more. (locked) */
void service_remove(struct service_member *member, int socket);
/* While suspended the thread doesn't touch the context. Not with the context locked. */
void service_suspend(struct service_member *member);
void service_resume(struct service_member *member);
/* IDLE no longer: there is traffic. (locked) */
void service_summon(struct service_member *member);
/* In the child of a fork, where the thread doesn't exist: as if nobody had ever joined. */
void service_forget(void);

/* Something else that the thread sees to, one for the process: `run`, whenever `fd` is readable, or the time
 * has come that was said last. No lock of the service's is held, and only a fork waits for it. After a member
 * has joined that never leaves. */
void service_errand(int fd, void (*run)(void));
/* When it is due next, ns of CLOCK_MONOTONIC; NEVER_NS. Under whatever lock the errand's owner has. */
void service_errand_due(uint64_t at);

/* The application is about to sleep where packets don't wake it: SERVE, until soft_is_awaited has become false
 * and the application has been here again. (locked) */
void service_take_over(struct service_member *member);

/* The application drives the device. (locked; the hottest path, so it writes only to change something) */
static inline void service_attended(struct service_member *member)
{
    if (!atomic_load_explicit(&member->attended, memory_order_relaxed))
        atomic_store_explicit(&member->attended, true, memory_order_relaxed);
}

/* Packets came or went, so timers may be running now. (locked) */
static inline void service_traffic(struct service_member *member)
{
    unsigned traffic = atomic_load_explicit(&member->traffic, memory_order_relaxed);

    atomic_store_explicit(&member->traffic, traffic + 1, memory_order_relaxed);
    if (atomic_load_explicit(&member->state, memory_order_relaxed) == SERVICE_IDLE)
        service_summon(member);
}

#endif
