/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core.h - what the core offers to loop/: starting operations and polling for their events. No function here blocks,
 * except that xs_spin() and xs_spin_for_events() busy-poll for a limited time.
 *
 * xs_start() checks the request, starts the operation and returns 0; or it starts nothing and returns -1 and errno.
 * An operation that was started has exactly one event. It is added to the event queue that the request names or, if
 * the request has a `waiter`, delivered to that waiter.
 *
 * A waiter's `home` is the socket's home queue (queue.h): the queue that drives the socket's queue pair.
 */
#ifndef XS_CORE_H
#define XS_CORE_H

#include <exs.h>
#include <stdbool.h>
#include <sys/queue.h>
#include "core/base/waitset.h"

/* Handles pack a slot and a generation into a pointer; lengths of files and positions in streams are size_t in
 * places. */
_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8, "EXS needs a 64-bit processor");

struct polling;
struct queue;

/* A blocking call that waits for one operation. Owned by the caller, who must keep it until `deliver` was called. */
struct waiter {
    /* Called once, with locks held, by the thread that completes the operation: must only record the event and wake
     * the waiting thread. */
    void (*deliver)(struct waiter *waiter, const exs_event_t *event);
    struct queue *home; /* out: the queue that the caller must run while it waits, and a reference to it */
};

struct ask;

/* Logs which argument is wrong. Returns -1 and EINVAL. */
int xs_invalid(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* Every public function calls one of these first, with its own name: in general, on a socket, or with a request.
 * Returns 0, or -1 and EPERM before exs_init() or ECHILD in a forked child. */
int xs_enter(const char *call);
int xs_enter_socket(const char *call, int sockno);
int xs_enter_ask(const struct ask *ask);
/* Returns a number that changes in a forked child: objects that a thread made before must then be made again. */
unsigned xs_generation(void);

/* Where to connect to: an address, or a host and a service by name. */
struct destination {
    const struct sockaddr *address;
    socklen_t address_length;
    bool by_name;
    const char *host, *service;
    const struct timeval *timeout;
};

/* A request: the arguments of a call on a socket. Owned by the caller, during the call. It is cleared for each
 * message, so it is kept small: arguments that only some types of operation have share a union. */
struct ask {
    int type; /* EXS_EVT_: of the operation's event */
    int sockno;
    int flags;
    int count; /* of files, of accepts */
    exs_qhandle_t qhandle;
    exs_ahandle_t ahandle;
    struct waiter *waiter; /* of a call that blocks, else NULL */

    void *buffer; /* transfers */
    size_t length;
    exs_mhandle_t mhandle;
    union {                           /* depends on the type: */
        exs_msghdr_t *message;        /* sendmsg, which does not change it, and recvmsg */
        exs_xferfile_t *files;        /* sendfile, recvfile */
        const exs_token_t *token;     /* one-sided */
        exs_acceptaddr_t *accepts;    /* accept */
        const struct destination *to; /* connect */
        int how;                      /* shutdown */
    };
    uint64_t offset; /* one-sided */
};
/* Starts the operation. `type` repeats the request's type: in each public function it is a constant, so the compiler
 * selects the implementation. Returns 0, or -1 and errno. */
int xs_start(const struct ask *ask, int type);
static inline bool ask_by_name(const struct ask *ask)
{
    return ask->type == EXS_EVT_CONNECT && ask->to->by_name;
}
/* A signal handler ran while the waiter waited for an operation on this socket. The operation ends with EINTR as soon
 * as possible, unless it completes before. Either way it is delivered to the waiter. */
void xs_interrupt(int sockno, const struct waiter *waiter);

/* How closing a socket completes: within the call that starts it; when the queue that drives the socket is run; or no
 * queue of the application drives the socket, and the caller must run its home queue. */
enum close_kind { CLOSE_AT_ONCE, CLOSE_DRIVEN, CLOSE_ALONE };
enum close_kind xs_close_kind(int sockno);

/* Returns true if the program has closed the socket's number by close(2). The socket itself is still open then. */
bool xs_number_is_lost(int sockno);

/* Runs a waiter's home queue once: processes completions, connection events and timers, and adds or delivers the
 * events of all operations that complete. The caller must come back while the descriptors that it sleeps on are
 * readable. */
void xs_run(struct queue *home);
/* Must be called before the waiter sleeps (struct device, `rest`). */
void xs_rest_home(struct queue *home);
#define XS_SOURCES_MAX 32
/* A thread that sleeps until xs_run() has something to do. Owned by the caller. */
struct xs_sleeper {
    LIST_ENTRY(xs_sleeper) link;
    struct queue *home;
    const struct doorbell *bell; /* the thread's eventfd, signaled when `fds` or `deadline` is out of date */
    /* out: what the thread must poll: first its eventfd, then what makes the queue ready */
    struct pollfd fds[1 + XS_SOURCES_MAX * WAITSET_LISTED];
    int count;         /* of fds */
    uint64_t deadline; /* out: when the thread must wake up at the latest, ns, clock.h */
    /* The deadline that the thread knows of, or has been woken for, ns; guarded by the home's events_lock. */
    uint64_t wakes_by;
};
/* Must be called before and after the thread sleeps. xs_sleep_begin() fills the sleeper, and has done what
 * xs_rest_home() does. */
void xs_sleep_begin(struct queue *home, struct xs_sleeper *sleeper);
void xs_sleep_end(struct xs_sleeper *sleeper);
void xs_release_home(struct queue *home);

/* Busy-polls the home queue, if its settings ask for it (spin.h), until `is_over`, which is called without locks,
 * returns true. Returns true then, and false if the caller should sleep. */
bool xs_spin(struct queue *home, bool (*is_over)(void *), void *argument);
/* Like xs_spin(), but until the queue has events, and until `limit` (ns, clock.h) at the latest. Returns true if the
 * caller should call xs_dequeue() at once. */
bool xs_spin_for_events(struct queue *queue, uint64_t limit);

/* Returns the queue of a handle, which can't be deleted until xs_queue_put(); or NULL if the handle is invalid. */
struct queue *xs_queue_get(exs_qhandle_t handle);
void xs_queue_put(struct queue *queue); /* or NULL */
/* Reports an invalid handle. Returns -1 and EINVAL. */
int xs_no_queue(exs_qhandle_t handle) __attribute__((cold));

/* Checks the arguments of exs_poll(). *limit: the timeout in ns, or NEVER_NS. Returns 0, or -1 and EINVAL. */
int xs_poll_check(const exs_pollfd_t *fds, int count, int flags, const struct timeval *timeout,
                  uint64_t *limit);
/* Runs the home queues of the sockets once. Returns a poll, with a reference, and in *ready the number of elements
 * that are ready now; or NULL and errno. A number that stands for a socket now is treated as a closed socket if it
 * stands for another file later. */
struct polling *xs_poll_now(exs_pollfd_t *fds, int count, int *ready);
void xs_poll_put(struct polling *polling);
/* Starts the poll's wait; its event goes to a queue that only the caller uses. Returns 0, or -1 and errno. */
int xs_poll_wait(struct polling *polling, uint64_t limit, exs_qhandle_t qhandle);
/* Starts a poll whose event is added to the queue within `limit` (ns, NEVER_NS for no timeout). Returns 0, or -1 and
 * errno. */
int xs_poll_start(exs_pollfd_t *fds, int count, uint64_t limit, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* Like exs_qcreate(), but with the errno of the failed system call. */
exs_qhandle_t xs_queue_make(int depth);
/* Like exs_qdequeue(), but never waits. */
int xs_dequeue(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt);

/* ---- For loops that watch the queue's descriptor level-triggered (look.c) ---- */

/* Like xs_dequeue(); called when the descriptor is readable. Returns -1 if the queue was deleted. *looks_on: in,
 * whether no other watcher of the loop is pending; out, whether the loop should call xs_loop_look() after the
 * application has handled these events. */
int xs_loop_dequeue(exs_qhandle_t qhandle, exs_event_t *events, int most, bool *looks_on);
/* Must be called before the loop sleeps. The queue may have been deleted, as for the functions below. */
void xs_loop_rest(exs_qhandle_t qhandle);
/* Busy-polls for more events if *looks_on is set, which the caller clears while other watchers of the loop are
 * pending; else only ends the busy polling, so that the descriptor is no longer kept readable. Returns the number of
 * events; 0: the caller must return to the loop, which sleeps if it may; -1: the queue was deleted. On return
 * *looks_on says whether the loop should call again after these events. */
int xs_loop_look(exs_qhandle_t qhandle, exs_event_t *events, int most, bool *looks_on);
/* The loop stops watching the queue, and does not call xs_loop_look() for it any more. */
void xs_loop_leave(exs_qhandle_t qhandle);

#endif
