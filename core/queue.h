/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue.h - an event queue: where events wait, and what drives the sockets that live on it.
 *
 * A queue is two things with a lock each:
 *   - a list of events and a doorbell (events_lock, a leaf: nothing is locked behind it);
 *   - the home of sockets: CM event channels, completion channels, a timer (lock).
 * Its descriptor is one epoll fd over all of them. Queues share nothing.
 *
 * A private queue, which belongs to one socket, has no descriptor, and its channels have none: the threads that
 * run it sleep on what those wait for, and are told when that changes (sleepers).
 *
 * A socket whose operation names another queue than its home makes its home a guest of that queue: the other
 * queue watches and drives it too, so a loop needs to watch no other descriptor than the one it asked for. That
 * lasts as long as something needs it (detach.c).
 * Where too many would watch a listener's home, the others are in line: they look at it now and then
 * (accept.c).
 *
 * The queue that a socket lives on need not be the one that the application gave it to (sock.h, `owner`): a
 * connection that was answered for an accept of one queue may be given to an accept of another.
 *
 * Locks are taken in this order: socket slot, listener's queue, home queue, regions (memory.h), nic's map,
 * events.
 */
#ifndef XS_QUEUE_H
#define XS_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "core.h"
#include "device.h"
#include "doorbell.h"
#include "mutex.h"
#include "op.h"
#include "spin.h"

#define DEVICES_MAX 2
#define DEPTH_PROBES 2 /* epolls in each other, at most, between a device's descriptor and a queue's epoll */

struct handle_slot;
struct handle_table;
struct nic;
struct sock;

struct source {
    LIST_ENTRY(source) link;
    int fd;                /* -1: its wait set's, which nobody has asked for */
    struct waitset *waits; /* a device's; or NULL */
};

/* One queue hosted by another (guest.c). */
struct guest {
    LIST_ENTRY(guest) of_host, of_home;
    struct queue *host;
    struct queue *home; /* a reference */
    unsigned round; /* of the host, in which it was last ready; under the host's events_lock, as is the next */
    bool stuck;     /* it has something to do, and no descriptor tells of it */
    /* Also under the host's events_lock: what the host has there, which are operations, polls, accepts and sockets
     * that it owns. Without any the guest is in the host's list `idle`, since then (ns). */
    int uses;
    uint64_t idle_since;
    TAILQ_ENTRY(guest) of_idle;
    bool in_line;   /* it isn't watched: the host looks at it when its time comes. Set with both locks */
    bool unwatched; /* for want of descriptors: the host looks at it by the clock until there are some. Set with
                     * both locks */
    int accepts;    /* of a listener: the host's, that wait there; guarded by the home's lock, as are these: */
    unsigned visit; /* of those that watch: which of the home's, when the host was there last */
    TAILQ_ENTRY(guest) behind; /* of those in line */
};

struct op_chunk; /* operations allocated together */

struct queue {
    _Atomic int refs; /* the handle, sockets at home, guests' hosts, waiters. One less pairs with the last one
                       * less, which frees what the others wrote */
    _Atomic int guest_count; /* pairs with nothing: who has just become a guest makes the descriptor readable */
    _Atomic bool failed; /* a socket of its own did not get connected: xs_queue_strip has something to do. Set
                           * by xs_open_failed, which pairs with xs_release_home's look */
    _Atomic bool waits;  /* what a device of its was given is not acknowledged, or a timer of one is not known
                           * here: xs_queue_rest has something to do. As of the last turn or request, which were this thread's own or will rest
                           * themselves: it pairs with nothing */
    /* Hosts and sleepers, of which the one that begins while something waits rests by himself: so who has had the lock
     * since then sees those that were there before, and it pairs with nothing. */
    _Atomic int others;
    atomic_bool looks_on; /* a loop does: for its devices (device.h); pairs with nothing */
    exs_qhandle_t handle; /* NULL for a private queue, which belongs to one socket, and of one that was deleted:
                           * that is written with both locks, and read with either, or by a user of the handle */
    struct handle_slot *slot; /* of the handle, as long as it has users */
    /* Of a call that waits, and gone when that returns: it drives nothing that outlasts it. Set before it hosts
     * anybody, and only read then. */
    bool is_a_calls;
    bool drives_sends; /* the library's own (progress.c) */
    struct spin spin; /* whether whoever waits here looks before sleeping */
    int fd;           /* epoll: sources, those of guests, and `raise`; -1 of a private one */

    struct mutex events_lock;
    /* guarded by events_lock */
    struct op_list events; /* completed, not yet dequeued */
    struct op_list free_ops;
    STAILQ_HEAD(, op_chunk) chunks;
    int ops;                     /* in these, */
    int free_count;              /* and in free_ops */
    int depth;                   /* that the program asked for */
    int pending;                 /* started, not completed; but for those of own_pending */
    uint64_t taken;              /* events, by who dequeued them, ever; */
    uint64_t turns, empty_turns; /* looks at it, and those that found no event */
    struct doorbell raise;
    _Atomic int dequeuers; /* threads inside xs_dequeue: they will look, so nobody needs to raise. One more
                            * needs no lock, one less does: it pairs with the locked look of who completes */
    LIST_HEAD(, xs_sleeper) sleepers;
    LIST_HEAD(, guest) guests;
    TAILQ_HEAD(idle_guests, guest) idle; /* of these, those that it has no use for; the first for longest */
    int migrated;                        /* sockets that it owns, and that live on other queues */
    int lines;                           /* of the guests, those that are in_line or unwatched, */
    struct doorbell look;                /* and when it looks at them */
    int depth_probe[DEPTH_PROBES]; /* epolls that are never readable (sources.c); -1: none */
    unsigned rounds;      /* looks for guests that are ready */
    bool has_stuck;       /* some of them */
    /* By `raise`, while a loop looks between its turns. Read without the lock it pairs with nothing: who is wrong
     * about it rings in vain. */
    atomic_bool is_kept_readable;
    bool is_stuck; /* likewise: its last turn left what no descriptor tells of */

    struct mutex lock;
    /* guarded by lock */
    struct op_list own_free; /* for sockets that live here */
    struct op_list
        done; /* those that were completed since the lock was taken: xs_queue_unlock adds them to events */
    int own_pending; /* those started, not completed */
    LIST_HEAD(, source) sources;
    LIST_HEAD(, guest) hosts;     /* that watch it, */
    TAILQ_HEAD(line, guest) line; /* and that don't; the first has waited longest */
    int line_length;
    unsigned visits;                                 /* by those that watch */
    struct rdma_event_channel *channel[DEVICES_MAX]; /* of each device, when it was needed */
    struct waitset *channel_waits[DEVICES_MAX];      /* where that has one: its own */
    LIST_HEAD(, nic) nics;
    LIST_HEAD(, sock) socks;             /* at home here */
    TAILQ_HEAD(timed_socks, sock) timed; /* those with a deadline */
    LIST_HEAD(, polling) polls;          /* whose events go here, and which have an epoll */
    bool keeps_time;                     /* with a timer, even if whoever waits could do without */
    struct doorbell timer;               /* without a descriptor until needed */
    uint64_t device_due;  /* ns, when a device is to be looked at at the latest, or before; NEVER_NS */
    unsigned busy_turns;  /* since the CM channels were looked at, */
    uint64_t busy_since;  /* and when that was, nearly */
    uint64_t completions; /* harvested, ever */
    exs_stats_t gone;     /* what its connections had counted that are freed */

    struct untaken { /* how misuse.c's thread saw it last; that one's alone */
        uint64_t turns, completions;
        bool readable; /* its descriptor, with nobody looking */
    } untaken;
};

/* A queue with a handle, or a private one; one reference for the caller. NULL and errno. */
struct queue *xs_queue_new(bool private, int depth);
/* Of a depth that a program asks for: 0, or -1 and EINVAL. */
int xs_check_depth(int depth);
/* How many sockets it owns, and how many operations of its own have not ended. Called with both locks. */
int xs_queue_own_socks(const struct queue *queue);
int xs_queue_own_pending(const struct queue *queue);
void xs_queue_ref(struct queue *queue);
void xs_queue_unref(struct queue *queue);
/* A private queue whose socket is fresh again, and which nobody else has a reference to than these, does
 * without descriptors until it is needed again. Called with the lock. */
void xs_queue_strip(struct queue *queue, int refs);
struct handle_table *xs_queue_handles(void);
uint32_t xs_queue_count(void); /* those with a handle */
void xs_queue_reset(void);     /* forget all, in a forked child */

/* Watch fd, or a device's wait set (fd is -1), in the queue's descriptors. Called with the lock. 0, or -1 and
 * errno. */
int xs_queue_watch(struct queue *queue, int fd, struct waitset *waits);
void xs_queue_unwatch(struct queue *queue, int fd, const struct waitset *waits);

/* Have a descriptor of each wait set, which others will watch. Called with the lock. 0, or -1 and errno. */
int xs_queue_show(struct queue *queue);
/* Make the queue's own descriptor and what it needs; or close it. 0, or -1 and errno: then there may be a part of it.
 * Called with the lock, or by the only user. */
int xs_queue_make_descriptor(struct queue *queue);
void xs_queue_close_descriptor(struct queue *queue);
/* Close the timer's descriptor; the next timer that is set makes another. Called with the lock. */
void xs_queue_drop_timer(struct queue *queue);
/* No queue watches this one any more, which has no epoll itself: give these descriptors back. Called with the
 * lock. */
void xs_queue_hide(struct queue *queue);

/* Have operations for this depth in the pool; false: no memory, and nothing has changed. Called without the
 * locks. */
bool xs_ops_reach(struct queue *queue, int depth);
/* The queue is nobody's any more. */
void xs_ops_free(struct queue *queue);

/* Where the pool is empty: what sockets that live there have taken over and do not use goes back into it. Called
 * with the lock. */
void xs_ops_return(struct queue *queue);

/* An operation whose event goes to `queue` (or to waiter), and which uses this guest of it until it ends, if it
 * isn't NULL; ENOMEM. */
struct op *xs_op_new(struct queue *queue, struct guest *guest, int type, int sockno, exs_ahandle_t ahandle,
                     struct waiter *waiter);
/* The same for a socket that lives on the queue, whose lock is held now, and will be when it is completed or
 * cancelled. All operations of a socket that end there are such, so that their events keep their order. */
struct op *xs_op_new_at_home(struct queue *queue, int type, int sockno, exs_ahandle_t ahandle,
                             struct waiter *waiter);
/* For its event: so many bytes were moved; of a receive: MSG_TRUNC, EXS_EOF. */
void xs_op_moved(struct op *op, uint64_t bytes);
void xs_op_flag(struct op *op, int flag);
/* Deliver its event, with this errno; the operation is no longer the caller's. */
void xs_op_complete(struct op *op, int error);
/* It was not started after all: no event. */
void xs_op_cancel(struct op *op);

/* How everyone gives the queue's lock back. */
void xs_queue_tell(struct queue *queue);
static inline void xs_queue_unlock(struct queue *queue)
{
    if (!STAILQ_EMPTY(&queue->done))
        xs_queue_tell(queue);
    mutex_unlock(&queue->lock);
}

/* Let `host` watch and drive `home` as well, for as long as it has a use for it, which the caller is to note
 * before it gives the lock back. Called with home's lock, as are the next nine. 0, or -1 and errno: ENOSPC,
 * more loops than the kernel allows would watch it. */
int xs_queue_host(struct queue *host, struct queue *home);
/* Let it stand in line there instead, and look after a while. 0, or -1 and errno. */
int xs_queue_line_up(struct queue *host, struct queue *home);
/* One that watches goes to the end of the line. */
void xs_queue_step_back(struct guest *guest);
/* One in line has looked, and does so again after a while. */
void xs_queue_look_again(struct guest *guest);
/* That hosting, or NULL. */
struct guest *xs_queue_guest(const struct queue *host, const struct queue *home);
/* The end of it, and of a reference of the home, which is not the last. */
void xs_queue_unhost(struct guest *guest);
void xs_queue_leave_hosts(struct queue *home);
/* A source more of the home's, or less. -1 and errno. */
int xs_guest_watch(struct guest *guest, const struct source *source);
void xs_guest_unwatch(const struct guest *guest, const struct source *source);
/* One that is unwatched: try to watch it, or look again after a while. */
void xs_guest_watch_again(struct guest *guest);

/* The CM event channel of a device. NULL and errno. Called with the lock. */
struct rdma_event_channel *xs_queue_channel(struct queue *queue, int device);

/* How whoever runs a queue learns that it is to be run again. Where its descriptor is watched by level a turn
 * may leave something undone: the descriptor is still readable. Watched by edge, what is left undone must raise
 * it. A glance is a turn before anything has told of one, at completions alone, where it is watched by level. */
enum watched { BY_LEVEL, AT_A_GLANCE, BY_EDGE };

struct turn {
    enum watched watched;
    int harvested; /* completions, */
    int others;    /* events of connections, and times that have come */
    bool left;     /* something was left undone, */
    bool busy;     /* since there were completions; */
    bool stuck;    /* and no descriptor tells of it */
};

/* One turn of a queue and of the guests that it hosts. Called without the lock; returns with events_lock, and
 * all events are among the queue's. */
void xs_turn(struct queue *queue, struct turn *turn);
/* Of the queue alone: completions, connections, timers. Watched by level, connections and timers, which cost
 * system calls, wait for a turn without completions, unless there is none for long. Called with the lock. */
void xs_turn_home(struct queue *queue, struct turn *turn);
/* And of those of its guests that have something to do, without the lock. */
void xs_turn_guests(struct queue *queue, struct turn *turn);
/* Take what has completed, without taking events or arming, for who is about to run or to sleep. True: something has,
 * or was on its way at the last look. Called without the lock. */
bool xs_queue_look(struct queue *queue);
/* The same for who takes events then. True: there are some of them, and it returns with events_lock. */
bool xs_queue_look_for_events(struct queue *queue, bool *came);
/* Was something on its way at the last look, or turn? Called without the lock. */
bool xs_queue_stirs(struct queue *queue);
/* exs_qdequeue without waiting, and without looking at what it is given. */
int xs_queue_dequeue(struct queue *queue, exs_event_t *events, int most, enum watched watched);
/* Those that are there; called with events_lock, as is the next. */
int xs_events_take(struct queue *queue, exs_event_t *events, int most);
/* Have the descriptor tell of the others. */
void xs_events_show(struct queue *queue);
/* A loop that watches the descriptor by level has its turn, and gives the application events, or does not.
 * True: look for more before the loop sleeps. */
bool xs_spin_turn(struct queue *queue, bool active);
/* Look for events until the loop's turn ends. False: it may sleep. Called without the locks; *has_lock: it returns with
 * events_lock, and there are some. */
bool xs_spin_in_turn(struct queue *queue, bool *has_lock);
/* Whoever waits here sleeps at once. Then a loop's turn may end with a glance, and whether that pays the others before
 * it have taught. */
bool xs_spin_is_off(struct queue *queue);
bool xs_glance_pays(struct queue *queue);
void xs_glance_learn(struct queue *queue, bool in_vain);
/* The application has had its turn, and may sleep now. Called with the lock. */
void xs_queue_rest(struct queue *queue);
/* This thread, which was not woken while it looked, goes: from now on whoever else waits for the same is to be,
 * a thread that sleeps or a queue that hosts it. Called without the lock. */
void xs_rest_for_others(struct queue *home);
/* Something was harvested, or posted. Called with the lock. */
void xs_queue_note_waits(struct queue *queue);
/* Let go of all guests, without the lock: a queue that was deleted drives nothing any more. */
void xs_queue_release_guests(struct queue *queue);

/* The host has so many uses more for the guest, or fewer. Called with the host's events_lock, or without. */
void xs_guest_use(struct guest *guest, int change);
void xs_guest_use_unlocked(struct guest *guest, int change);
/* It has none any more. Called without the host's events_lock. */
void xs_guest_unuse(struct guest *guest);
/* End the watching of hosts that have had no use for the home for a while, or that have none now. Called with the
 * home's lock. True: there were some. */
bool xs_detach_idle_hosts(struct queue *home, bool at_once);
/* Does the host have guests that it has had no use for for a while? Called with the host's events_lock. */
bool xs_has_idle_guests(const struct queue *host);
/* Let go of these. Called without locks. */
void xs_detach_idle_guests(struct queue *host);

/* Wake up at the sock's deadline (ns, 0 = none), whoever sleeps and however. Called with the lock. */
void xs_queue_time(struct queue *queue, struct sock *sock, uint64_t deadline);
/* When there is something to do by the clock; NEVER_NS: never. Called with the lock. */
uint64_t xs_queue_due(const struct queue *queue);
/* Have the timer wake whoever watches the queue. Nobody may: then its waiter, whose sleep has a limit, does
 * without. Called with the lock. */
void xs_queue_set_timer(struct queue *queue);
/* Does anything watch the queue, or may it? Called with the lock. */
bool xs_queue_needs_timer(const struct queue *queue);
/* Does its timer, where it needs one, ring for what is due? */
bool xs_queue_keeps_time(const struct queue *queue);
/* Have the threads look again that sleep on the queue's descriptors for longer than that. Called with the lock. */
void xs_queue_wake_by(struct queue *queue, uint64_t deadline);

#endif
