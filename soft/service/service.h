/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * service.h - the thread that drives the device while the application does not.
 *
 * A peer's one-sided operation must be executed, and a lost packet must be sent again, even while the application is
 * busy or sleeps elsewhere. One thread for the whole process does this. While the application drives the device itself,
 * packets do not wake this thread, so that a packet does not wake two threads. A context is in one of four states:
 *
 *   IDLE   no traffic. The thread sleeps on the sockets, and a packet wakes it once.
 *          The state becomes WATCH; or SERVE, if the thread had to serve before and the application has not
 *          driven the device since, or sleeps where packets do not wake it.
 *   CALLED traffic has begun, and the thread is being woken: it changes the state to WATCH.
 *   WATCH  traffic. Packets do not wake the thread, which visits the context at intervals (ticks). If packets have been
 *          in the sockets at two ticks in a row and the application has not driven the device in between, the
 *          state becomes
 *   SERVE  the thread itself processes packets as they arrive, until the application drives the device again.
 *
 * A tick is a visit of the thread to a context in WATCH or SERVE: the thread checks whether the application has driven
 * the device since the last tick and whether packets wait, and runs the timers that are due. The time until the next
 * tick is the first of these that applies:
 *     packets wait: 1 ms
 *     a thread of the application sleeps where packets wake it: 16 ms
 *     a timer of the device runs: until it is due, but 1 to 8 ms
 *     otherwise: 1 to 4 ms, twice as long after each tick before which the application has driven the device
 *
 * After some ticks without traffic and without a pending timer a context becomes IDLE. When all contexts are IDLE, the
 * thread sleeps without a timeout.
 */
#ifndef SOFT_SERVICE_H
#define SOFT_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <infiniband/verbs.h>

/* Descriptors of one context: its sockets and those of its groups, the shm link's eventfd, two epolls of further
 * sockets, and a listening unix socket. */
#define SERVICE_SOCKETS 30
#define SERVICE_TICK_NS UINT64_C(1000000) /* shortest time between two ticks of a context */

enum service_state { SERVICE_IDLE, SERVICE_CALLED, SERVICE_WATCH, SERVICE_SERVE };

/* A member: one context that the service thread handles. Part of the context's struct soft_home, which sets `context`;
 * all other fields belong to the service. Any thread may access the atomic fields. `scheduled` belongs to the thread
 * that changed the state to CALLED, and then to the service thread. The service lock guards all other fields. */
struct service_member {
    struct ibv_context *context;
    int sockets[SERVICE_SOCKETS];
    int count;
    /* The listening unix socket among `sockets`, or -1. It is watched edge-triggered, because the link may leave a
     * connection waiting in it for a while. */
    int listener;
    /* An enum service_state. Any thread changes IDLE to CALLED, which pairs with the service thread's exchange of the
     * list `scheduled`; all other changes are made with the service lock held. */
    atomic_int state;
    /* The application has driven the device since the last tick. Relaxed: pairs with nothing. */
    atomic_bool attended;
    atomic_uint traffic;   /* counts batches of packets. Relaxed: pairs with nothing */
    unsigned traffic_seen; /* the value of `traffic` at the last tick */
    unsigned quiet;        /* consecutive ticks without traffic or timer */
    uint64_t due;          /* when the next tick is due, ns of CLOCK_MONOTONIC */
    uint64_t patience;     /* maximum time until the next tick if no timer is due, ns */
    bool late;      /* packets were waiting at the last tick, and the application had not driven the device */
    bool absent;    /* the thread had to serve, and the application has not driven the device since */
    bool suspended; /* the context is about to be closed, and the thread must not touch it */
    struct service_member *scheduled;    /* next in the service's list `scheduled` of members in CALLED */
    TAILQ_ENTRY(service_member) watched; /* in the list of members in WATCH or SERVE */
};

/* Registers a context, and starts the thread for the first one. 0 or an errno. */
int service_join(struct service_member *member);
/* Removes a context, and stops the thread after the last one. When this returns, the thread no longer touches the
 * member. The caller must not hold the context's lock. */
void service_leave(struct service_member *member);
/* Makes the thread watch this socket, on which the context's packets arrive. 0 or an errno. */
int service_add(struct service_member *member, int socket);
/* Like service_add(); packets on the socket wake the application, too (soft_watch). (locked) */
int service_attach(struct service_member *member, int socket);
/* Like service_add(), for a listening unix socket; at most one. */
int service_add_listener(struct service_member *member, int socket);
/* Makes the thread stop watching a socket. (locked) */
void service_remove(struct service_member *member, int socket);
/* Make the thread not touch the context, and let it touch the context again. The caller must not hold the context's
 * lock. */
void service_suspend(struct service_member *member);
void service_resume(struct service_member *member);
/* Called when traffic has begun: changes IDLE to CALLED, adds the member to the list `scheduled`, and wakes the thread.
 * (locked) */
void service_schedule(struct service_member *member);
/* Called in a forked child, where the thread does not exist: forgets all members. */
void service_forget(void);

/* Sets the thread's additional task, one for the process (the connection manager's): the thread calls `run` when `fd`
 * is readable, and at the time that service_task_due() has set. While `run` runs, the thread holds no lock of the
 * service except `task_lock`, for which fork() waits. A member that never leaves must have joined before. */
void service_task(int fd, void (*run)(void));
/* Sets when the task is due next, ns of CLOCK_MONOTONIC, or NEVER_NS. The caller serializes calls with its own lock. */
void service_task_due(uint64_t at);

/* Called when the application is about to sleep where packets do not wake it: changes the state to SERVE, until
 * soft_is_awaited() is false and the application has driven the device again. (locked) */
void service_take_over(struct service_member *member);

/* Records that the application drives the device. This is on the data path, so it stores only if the value changes.
 * (locked) */
static inline void service_polled(struct service_member *member)
{
    if (!atomic_load_explicit(&member->attended, memory_order_relaxed))
        atomic_store_explicit(&member->attended, true, memory_order_relaxed);
}

/* Records that packets were sent or received, so timers may be running now. (locked) */
static inline void service_traffic(struct service_member *member)
{
    unsigned traffic = atomic_load_explicit(&member->traffic, memory_order_relaxed);

    atomic_store_explicit(&member->traffic, traffic + 1, memory_order_relaxed);
    if (atomic_load_explicit(&member->state, memory_order_relaxed) == SERVICE_IDLE)
        service_schedule(member);
}

#endif
