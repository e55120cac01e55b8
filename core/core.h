/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core.h - what the core offers to loop/: starting operations and harvesting events, never waiting.
 *
 * xs_start checks everything, starts the operation and returns 0, or returns -1 with errno and starts
 * nothing. Where its one event goes: to the queue that was named, or, when `waiter` is given, to that
 * waiter.
 */
#ifndef XS_CORE_H
#define XS_CORE_H

#include <exs.h>
#include <stdbool.h>
#include <sys/queue.h>
#include "waitset.h"

/* Handles carry a slot and a generation in a pointer; lengths of files and positions in streams are size_t in places.
 */
_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8, "EXS needs a 64-bit processor");

struct polling;
struct queue;

/* Somebody who waits for one operation. Owned by the caller, who keeps it until `deliver` was called. */
struct waiter {
    /* Called once, from whatever thread harvested the event, with locks held: take note, wake up, return. */
    void (*deliver)(struct waiter *waiter, const exs_event_t *event);
    struct queue *home; /* out: the queue to run meanwhile, a reference too */
};

struct ask;

/* An argument is wrong: -1 and EINVAL, and in the log which. */
int xs_invalid(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* How every public call begins, by its name; on a socket; and by what is asked of one. 0, or -1 with EPERM
 * before exs_init, ECHILD in a forked child. */
int xs_enter(const char *call);
int xs_enter_socket(const char *call, int sockno);
int xs_enter_ask(const struct ask *ask);
/* Changes in a forked child, so that what belongs to a thread can be made anew. */
unsigned xs_generation(void);

/* Whom to connect to: an address, or a host and a service by name. */
struct destination {
    const struct sockaddr *address;
    socklen_t address_length;
    bool by_name;
    const char *host, *service;
    const struct timeval *timeout;
};

/* What is asked of a socket: the arguments of a call, each where it has a meaning. The caller's, during the
 * call. It is cleared for each message, so what only others have is elsewhere, or shares its place. */
struct ask {
    int type; /* EXS_EVT_: of the event that it ends in */
    int sockno;
    int flags;
    int count; /* of files, of accepts */
    exs_qhandle_t qhandle;
    exs_ahandle_t ahandle;
    struct waiter *waiter; /* of a call that blocks, else NULL */

    void *buffer; /* transfers */
    size_t length;
    exs_mhandle_t mhandle;
    union {                           /* as the type has it: */
        exs_msghdr_t *message;        /* sendmsg, recvmsg; a sender's is not changed */
        exs_xferfile_t *files;        /* sendfile, recvfile */
        const exs_token_t *token;     /* one-sided */
        exs_acceptaddr_t *accepts;    /* accept */
        const struct destination *to; /* connect */
        int how;                      /* shutdown */
    };
    uint64_t offset; /* one-sided */
};
/* Its type once more: who calls knows it beforehand, so that nothing is left to be chosen. */
int xs_start(const struct ask *ask, int type);
static inline bool ask_by_name(const struct ask *ask)
{
    return ask->type == EXS_EVT_CONNECT && ask->to->by_name;
}
/* A signal handler ran, and the waiter would wait no longer for what it asked of this socket: EINTR as soon as
 * can be, or as it would have ended. It is delivered to the waiter all the same. */
void xs_interrupt(int sockno, const struct waiter *waiter);

/* How the close of a socket comes to its end: within the call that starts it; when the queue that it lives on
 * is run; or nobody else runs that, and the caller must. */
enum close_kind { CLOSE_AT_ONCE, CLOSE_DRIVEN, CLOSE_ALONE };
enum close_kind xs_close_kind(int sockno);

/* Somebody has closed the socket's number by close(2): the socket itself is still to be closed. */
bool xs_number_is_lost(int sockno);

/* One turn of a waiter's home queue, whose descriptor the waiter watches by level; events of others go to their
 * own places. */
void xs_run(struct queue *home);
/* Before the waiter sleeps. */
void xs_rest_home(struct queue *home);
#define XS_SOURCES_MAX 32
/* A thread that sleeps until xs_run has something to do. The caller's. */
struct xs_sleeper {
    LIST_ENTRY(xs_sleeper) link;
    struct queue *home;
    const struct doorbell *bell; /* the thread's own, which is rung when it has to look again */
    struct pollfd fds[1 + XS_SOURCES_MAX * WAITSET_LISTED]; /* out: the bell, and what becomes ready with it */
    int count;
    uint64_t deadline; /* out: when there is something to do by the clock */
    uint64_t wakes_by; /* it has been rung for what is due earlier: by who locks the home */
};
/* Before and after it sleeps, which it may: it has rested. */
void xs_sleep_begin(struct queue *home, struct xs_sleeper *sleeper);
void xs_sleep_end(struct xs_sleeper *sleeper);
void xs_release_home(struct queue *home);

/* Look at the home for a while instead of sleeping, if it is one for that, until `is_over` says so, which is
 * called without locks. True: it does. */
bool xs_spin(struct queue *home, bool (*is_over)(void *), void *argument);
/* The same until it has events, for who then calls xs_dequeue; not beyond `limit` (ns, monotonic). True: call
 * that at once. */
bool xs_spin_for_events(struct queue *queue, uint64_t limit);

/* The queue of a handle, which is not deleted before xs_queue_put; NULL when it is none. */
struct queue *xs_queue_get(exs_qhandle_t handle);
void xs_queue_put(struct queue *queue); /* or NULL */
/* It is none: -1 and EINVAL. */
int xs_no_queue(exs_qhandle_t handle) __attribute__((cold));

/* exs_poll: its arguments; timeout in ns, NEVER_NS for none. 0, or -1 and EINVAL. */
int xs_poll_check(const exs_pollfd_t *fds, int count, int flags, const struct timeval *timeout,
                  uint64_t *limit);
/* A poll, with a reference, and how many are ready now, once the homes of the sockets have been run; NULL and
 * errno. What was a socket then is one that was closed, whatever gets its number later. */
struct polling *xs_poll_now(exs_pollfd_t *fds, int count, int *ready);
void xs_poll_put(struct polling *polling);
/* Have that wait, with an event on a queue that nobody else has. 0, or -1 and errno. */
int xs_poll_wait(struct polling *polling, uint64_t limit, exs_qhandle_t qhandle);
/* The same with an event, `limit` (ns, NEVER_NS for none) from now at the latest. 0, or -1 and errno. */
int xs_poll_start(exs_pollfd_t *fds, int count, uint64_t limit, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* exs_qcreate with the errno that the system gave. */
exs_qhandle_t xs_queue_make(int depth);
/* exs_qdequeue without waiting. */
int xs_dequeue(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt);

/* The same for a loop that watches the descriptor by level, whose turn begins. -1: the queue is gone. *looks_on: in,
 * nobody else is due in the loop; out, it pays to look on, once the application has done what these events make it
 * do. */
int xs_loop_dequeue(exs_qhandle_t qhandle, exs_event_t *events, int most, bool *looks_on);
/* The application has done that, and may sleep. The queue may be gone, here and below. */
void xs_loop_rest(exs_qhandle_t qhandle);
/* Look on, unless others are due in the loop: *looks_on, in. How many events; 0: back to the loop, which sleeps if it
 * may; -1: the queue is gone. Out: it pays to look on after these. */
int xs_loop_look(exs_qhandle_t qhandle, exs_event_t *events, int most, bool *looks_on);
/* The loop watches the queue no longer, and does not come to look on. */
void xs_loop_leave(exs_qhandle_t qhandle);

#endif
