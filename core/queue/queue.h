/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue.h - an event queue: it holds the events of operations, and it drives the sockets that belong to it.
 *
 * A queue has two parts with a lock each:
 *   - a list of events and a doorbell (events.lock; no other lock is taken while it is held);
 *   - what drives sockets: CM event channels, completion channels, a timer (lock). For these sockets the queue is the
 *     `home`: their queue pairs use its channels, and its lock guards them.
 * The queue's descriptor is one epoll over all of these. Queues share nothing with each other.
 *
 * A private queue belongs to one socket and has no handle. It has no descriptor, and its channels have none: threads
 * that run it sleep on what its wait sets list (waitset.h), and are woken when that changes (`events.sleepers`).
 *
 * An operation may name a queue other than its socket's home. The home is then attached to the named queue, its
 * `host`; a struct attachment connects the two. The host's epoll contains the home's descriptors and the host drives
 * the home, so an application watches only the descriptor of the queue that it named. The attachment lasts as long as
 * the host has a use for it (detach.c). If too many queues would watch the home of a listener, the others are on a
 * standby list (`hosts.standby`): they watch no descriptor, but poll the home on a timer (accept.c).
 *
 * The queue that the application gave a socket to (`owner`, socket.h) may differ from its home: a request that
 * was answered for an accept of one queue may become a connection that an accept of another queue returns.
 *
 * A turn is one pass over a queue: its completions, connection events and timers, then those of its attached queues.
 *
 * Locks are taken in this order: socket slot, listener's queue, home queue, regions (memory.h), nic's map, events.
 */
#ifndef XS_QUEUE_H
#define XS_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "core/base/doorbell.h"
#include "core/base/mutex.h"
#include "core/device/registry.h"
#include "ask.h"
#include "op.h"
#include "socket.h"
#include "spin.h"
#include "wait.h"

#define DEPTH_PROBES 2 /* maximum number of epolls between a device's descriptor and a queue's epoll */

struct handle_slot;
struct handle_table;
struct nic;
struct sock;

/* A descriptor or wait set that the queue watches. Owned by the queue. */
struct source {
    LIST_ENTRY(source) link;
    int fd;                /* of the wait set, if there is one; -1: the wait set has no descriptor so far */
    struct waitset *waits; /* owned by a device; or NULL */
};

/* The attachment of one queue, the home, to another, the host (attach.c). Owned by both queues. Made and freed with the
 * home's lock and the host's events.lock, which are "both locks" below. */
struct attachment {
    LIST_ENTRY(attachment) of_host, of_home;
    struct queue *host;
    struct queue *home; /* a reference */

    /* guarded by the host's events.lock: */
    unsigned round; /* the host's round in which it was last found ready */
    bool stuck;     /* the home has work that no descriptor signals */
    /* What the host uses the home for: operations, polls, accepts and sockets that it owns. While that is 0 the
     * attachment is in the host's list `attached.idle`, since `idle_since` (ns, clock.h). */
    int uses;
    uint64_t idle_since;
    TAILQ_ENTRY(attachment) of_idle;

    /* Written with both locks. In both cases the host does not watch the home's descriptors, but polls the home on a
     * timer. on_standby: the attachment is on the home's standby list. unwatched: no descriptor was free; the host
     * tries again after each poll. */
    bool on_standby;
    bool unwatched;

    /* guarded by the home's lock: */
    int accepts;                    /* accepts of the host that are pending at a listener of the home */
    unsigned visit;                 /* not on_standby: the home's `hosts.visits` when the host last drove it */
    TAILQ_ENTRY(attachment) behind; /* on_standby: its link in the home's `hosts.standby` */
};

struct op_chunk; /* operations allocated together */

/* Events, and the doorbell that announces them. Guarded by events.lock. */
struct queue_events {
    struct mutex lock;
    struct op_list list;         /* completed, not yet dequeued */
    uint64_t taken;              /* events dequeued since the queue was made */
    uint64_t turns, empty_turns; /* calls that dequeue events, and those of them that found none */
    struct doorbell raise;       /* makes the queue's descriptor readable */
    /* Threads inside xs_dequeue(): they will see new events, so the descriptor need not be made readable. Incremented
     * without the lock, decremented with it; pairs with the load, under the lock, by a thread that completes an
     * operation. */
    _Atomic int dequeuers;
    LIST_HEAD(, xs_sleeper) sleepers;
    /* A loop busy-polls between its iterations, so `raise` is kept set. Read without the lock it pairs with nothing:
     * a stale value causes at most a needless wake-up. */
    atomic_bool is_kept_readable;
    bool is_stuck; /* the last turn left work that no descriptor signals, so `raise` is kept set */
};

/* Operations whose events go to this queue, for sockets of other queues. Guarded by events.lock. */
struct op_pool {
    struct op_list free_ops;
    STAILQ_HEAD(, op_chunk) chunks;
    int ops;        /* operations in `chunks` */
    int free_count; /* operations in `free_ops` */
    int depth;      /* the depth that the application asked for */
    int pending;    /* operations started and not completed, without those that struct own_ops counts */
};

/* The queues that are attached to this one. Guarded by events.lock. */
struct attached_queues {
    LIST_HEAD(, attachment) list;
    /* attachments that the queue has no use for, the longest unused one first */
    TAILQ_HEAD(idle_attachments, attachment) idle;
    int migrated;                  /* sockets that it owns and whose home is another queue */
    int unwatched;                 /* attachments that are on_standby or unwatched */
    struct doorbell poll_timer;    /* the timer by which the queue polls the homes of these */
    int depth_probe[DEPTH_PROBES]; /* epolls that are never readable (sources.c); -1: none */
    unsigned rounds;               /* passes over the attachments */
    bool has_stuck;                /* some attachment is `stuck` */
};

/* Operations for sockets whose home this queue is. Guarded by the queue's lock. */
struct own_ops {
    struct op_list free_ops;
    struct op_list done; /* completed since the lock was taken; xs_queue_unlock() appends them to `events` */
    int pending;         /* started and not completed */
};

/* The queues to which this one is attached. Guarded by the queue's lock. */
struct queue_hosts {
    LIST_HEAD(, attachment) list;         /* attachments to queues that watch this one */
    TAILQ_HEAD(line, attachment) standby; /* the standby list, the one that has waited longest first */
    int standby_count;
    unsigned visits; /* how often its hosts have driven it, those of `standby` excepted */
};

/* The channels of the devices. Guarded by the queue's lock. */
struct queue_channels {
    LIST_HEAD(, source) sources;                /* the descriptors and wait sets that the queue watches */
    struct rdma_event_channel *cm[DEVICES_MAX]; /* of each device, made when first needed */
    struct waitset *cm_waits[DEVICES_MAX];      /* the channel's wait set, owned by the channel; or NULL */
    LIST_HEAD(, nic) nics;
};

/* What the queue does at a time. Guarded by the queue's lock. */
struct queue_time {
    TAILQ_HEAD(timed_socks, sock) socks; /* sockets with a deadline, the earliest first */
    bool keeps_time;                     /* uses a timer even if no descriptor of the queue is watched */
    struct doorbell timer;               /* has no descriptor until it is needed */
    /* ns: when a device's timer expires, or before; NEVER_NS: it has none */
    uint64_t device_due;
    unsigned busy_turns; /* turns since the CM channels were last read, */
    uint64_t busy_since; /* and, approximately, the time of that, ns */
};

struct queue {
    /* References: the handle, sockets whose home this is, attachments to hosts, waiters. Each decrement pairs with
     * the last one, whose thread frees what the others wrote. */
    _Atomic int refs;
    /* Number of attached queues. Pairs with nothing: a queue that has just been attached makes the descriptor
     * readable. */
    _Atomic int attachment_count;
    /* A connect of the private queue's socket failed, so xs_queue_strip() may close descriptors. Set by
     * xs_open_failed(); pairs with the load in xs_release_home(). */
    _Atomic bool failed;
    /* xs_queue_prepare_sleep() has work: a device has packets to send before the thread sleeps, or a timer that this
     * queue does not know of. Updated by each turn and each post. Pairs with nothing: the thread that reads it wrote it
     * last, or the thread that wrote it calls xs_queue_prepare_sleep() itself. */
    _Atomic bool waits;
    /* Number of hosts and sleepers, which must be woken by packets. Pairs with nothing: a host or sleeper that is added
     * while `waits` is set calls xs_queue_prepare_sleep() itself, and a thread that has held the lock since an earlier
     * one was added sees that one. */
    _Atomic int others;
    /* The thread (pthread_self()) that handles events which exs_qpoll() with EXS_LOOP_BUDGET has returned: it will call
     * that again, or exs_qprepare(). 0: none. Pairs with nothing: a thread looks for itself only. */
    atomic_uintptr_t handler;
    atomic_bool busy_polls; /* a loop busy-polls the queue; pairs with nothing, since it is advisory */
    /* NULL for a private queue and for one that was deleted. Written with `lock` and `events.lock`, and read with
     * either of them, or by a user of the handle. */
    exs_qhandle_t handle;
    struct handle_slot *slot; /* of the handle, as long as that has users */
    bool drives_sends;        /* the queue of the library's progress thread (progress.c) */
    struct spin spin;         /* whether threads that wait for this queue busy-poll first */
    int fd; /* epoll: the sources, those of attachments, and `raise`; -1 for a private queue */

    struct queue_events events;
    struct op_pool pool;
    struct attached_queues attached;

    struct mutex lock;
    /* guarded by lock: */
    struct own_ops own;
    struct queue_hosts hosts;
    struct queue_channels channels;
    struct queue_time time;
    LIST_HEAD(, sock) socks;    /* whose home this is */
    LIST_HEAD(, polling) polls; /* polls whose event goes to this queue, and which have an epoll */
    uint64_t completions;       /* polled since the queue was made */
    exs_stats_t gone;           /* sum of the counters of connections that were freed */

    struct untaken { /* what the checking thread of misuse.c saw last; used only by that thread */
        uint64_t turns, completions;
        bool readable; /* the descriptor was readable, and no thread had polled the queue */
    } untaken;
};

/* Makes a queue, with a handle or private, and with one reference for the caller. Returns NULL and errno on failure. */
struct queue *xs_queue_new(bool private, int depth);
/* Checks a depth that an application asks for. Returns 0, or -1 and EINVAL. */
int xs_check_depth(int depth);
/* Return how many sockets the queue owns, and how many operations whose events go to it have not completed. Called with
 * `lock` and `events.lock`. */
int xs_queue_own_socks(const struct queue *queue);
int xs_queue_own_pending(const struct queue *queue);
void xs_queue_ref(struct queue *queue);
void xs_queue_unref(struct queue *queue);
/* Closes the descriptors of a private queue whose socket is not connected (SOCK_FRESH), if it has no more than `refs`
 * references. They are made again when they are needed. Called with the lock. */
void xs_queue_strip(struct queue *queue, int refs);
struct handle_table *xs_queue_handles(void);
uint32_t xs_queue_count(void); /* queues that have a handle */
void xs_queue_reset(void);     /* forgets all queues, in a forked child */

/* Adds or removes a descriptor, or a device's wait set (fd is -1), as a source of the queue and of its hosts. Called
 * with the lock. Returns 0, or -1 and errno. */
int xs_queue_watch(struct queue *queue, int fd, struct waitset *waits);
void xs_queue_unwatch(struct queue *queue, int fd, const struct waitset *waits);

/* Makes a descriptor for each wait set of the queue, for hosts to watch. Called with the lock. Returns 0, or -1 and
 * errno. */
int xs_queue_show(struct queue *queue);
/* Make or close the queue's epoll and the descriptors that it needs. Making returns 0, or -1 and errno; then the
 * caller must close what was made. Called with the lock, or by the only user. */
int xs_queue_make_descriptor(struct queue *queue);
void xs_queue_close_descriptor(struct queue *queue);
/* Closes the timer's descriptor; the next timer that is set makes another. Called with the lock. */
void xs_queue_drop_timer(struct queue *queue);
/* Closes the descriptors of the wait sets of a queue that has no epoll and no hosts any more. Called with the lock. */
void xs_queue_hide(struct queue *queue);

/* Allocates operations for this depth into the pool. Returns false, and has changed nothing, if there is no memory.
 * Called without the locks. */
bool xs_ops_reach(struct queue *queue, int depth);
/* Frees the pool of a queue that is about to be freed. */
void xs_ops_free(struct queue *queue);

/* Moves unused operations from own.free_ops back to an empty pool. Called with the lock. */
void xs_ops_return(struct queue *queue);

/* Takes an operation from the queue's pool; its event goes to the queue, or to `waiter`. Until it ends it counts as a
 * use of `attachment`, unless that is NULL. Returns NULL and ENOMEM on failure. */
struct op *xs_op_new(struct queue *queue, struct attachment *attachment, int type, int sockno,
                     exs_ahandle_t ahandle, struct waiter *waiter);
/* Like xs_op_new(), for a socket whose home is this queue. The queue's lock must be held, now and when the operation
 * is completed or cancelled. All of a socket's operations whose events go to its home must be made so, to keep their
 * events in order. */
struct op *xs_op_new_at_home(struct queue *queue, int type, int sockno, exs_ahandle_t ahandle,
                             struct waiter *waiter);
/* Set the event's number of bytes, and add a flag to it: MSG_TRUNC or EXS_EOF, of a receive. */
void xs_op_moved(struct op *op, uint64_t bytes);
void xs_op_flag(struct op *op, int flag);
/* Completes the operation with this errno and delivers its event. The caller must not use the operation any more. */
void xs_op_complete(struct op *op, int error);
/* Frees an operation that could not be started; it has no event. */
void xs_op_cancel(struct op *op);

/* Must be used to release the queue's lock. xs_queue_tell() moves the operations of `own.done` to `events.list`. */
void xs_queue_tell(struct queue *queue);
static inline void xs_queue_unlock(struct queue *queue)
{
    if (!STAILQ_EMPTY(&queue->own.done))
        xs_queue_tell(queue);
    mutex_unlock(&queue->lock);
}

/* Attaches `home` to `host`, unless it is attached already. The caller must count its use (xs_attachment_use()) before
 * it releases the lock, or the attachment may end. Called with the home's lock, as are the functions from here to
 * xs_attachment_watch_again(). Returns 0, or -1 and errno; ENOSPC: the kernel allows no more epolls that watch these
 * descriptors. */
int xs_queue_host(struct queue *host, struct queue *home);
/* Attaches `home` to `host` on the home's standby list. Returns 0, or -1 and errno. */
int xs_queue_add_standby(struct queue *host, struct queue *home);
/* Moves an attachment to the end of the standby list, so that the host stops watching the home. */
void xs_queue_demote(struct attachment *attachment);
/* Sets the host's timer for its next poll of a home that it does not watch. */
void xs_queue_look_again(struct attachment *attachment);
/* Returns the attachment of `home` to `host`, or NULL. */
struct attachment *xs_queue_attachment(const struct queue *host, const struct queue *home);
/* Ends the attachment and drops its reference to the home, which must not be the last one. xs_queue_leave_hosts() ends
 * the attachments of `home` to all of its hosts. */
void xs_queue_unhost(struct attachment *attachment);
void xs_queue_leave_hosts(struct queue *home);
/* Add a source of the home to the host's epoll, or remove it. Adding returns 0, or -1 and errno. */
int xs_attachment_watch(struct attachment *attachment, const struct source *source);
void xs_attachment_unwatch(const struct attachment *attachment, const struct source *source);
/* Tries to watch the home of an attachment that is `unwatched`, or sets the timer for the next poll. */
void xs_attachment_watch_again(struct attachment *attachment);

/* Returns the queue's CM event channel for a device, made at first use; NULL and errno on failure. Called with the
 * lock. */
struct rdma_event_channel *xs_queue_channel(struct queue *queue, int device);

/* How the thread that runs a queue learns that it must run it again. BY_LEVEL: it watches the descriptor
 * level-triggered, so a turn may leave work undone, because the descriptor is still readable. BY_EDGE:
 * edge-triggered, so a turn that leaves work undone must make the descriptor readable again. BY_POLLING:
 * level-triggered, and the turn is a single non-blocking poll for completions alone, before the descriptor has
 * signaled anything. */
enum watched { BY_LEVEL, BY_POLLING, BY_EDGE };

struct turn {
    enum watched watched;
    int harvested; /* number of completions that were polled */
    int others;    /* number of connection events, and of deadlines that passed */
    bool left;     /* some work was left undone */
    bool busy;     /* because there were completions; the next turn must do it */
    bool stuck;    /* no descriptor signals the work that is left */
};

/* Runs the queue and its attached queues once. Called without the lock. Returns with events.lock held, and with all
 * events in the queue's list. */
void xs_turn(struct queue *queue, struct turn *turn);
/* Runs the queue without its attached queues: completions, connection events, timers. With BY_LEVEL the last two, which
 * cost system calls, wait for a turn without completions, but for no more than 256 turns or about 20 ms; with BY_EDGE
 * (exs_qdequeue) they never wait. Called with the lock. */
void xs_turn_home(struct queue *queue, struct turn *turn);
/* Runs those attached queues that have work. Called without the lock. */
void xs_turn_attachments(struct queue *queue, struct turn *turn);
/* Polls for completions without reading completion events or arming the completion queues, for a caller that will run
 * the queue or sleep afterwards. Returns true if there were completions, or packets that may lead to some. Called
 * without the lock. */
bool xs_queue_look(struct queue *queue);
/* Like xs_queue_look(), for a caller that dequeues events next: *came is set to the result of xs_queue_look(). Returns
 * true, with events.lock held, if that has added events to the queue's list. */
bool xs_queue_look_for_events(struct queue *queue, bool *came);
/* Returns true if packets that may lead to completions have arrived since the last poll or turn. Called without the
 * lock. */
bool xs_queue_has_activity(struct queue *queue);
/* Like exs_qdequeue(), but without waiting and without checking its arguments. */
int xs_queue_dequeue(struct queue *queue, exs_event_t *events, int most, enum watched watched);
/* Checks the arguments of a call that dequeues events. Returns the queue, which can't be deleted until xs_queue_put();
 * or NULL and errno. */
struct queue *xs_dequeue_begin(exs_qhandle_t qhandle, const exs_event_t *evtvec, int evtvec_cnt);
/* Takes events from the queue's list and returns their number. Called with events.lock, as is xs_events_show(). */
int xs_events_take(struct queue *queue, exs_event_t *events, int most);
/* Makes the descriptor readable if events are left in the list, if work is left that no descriptor signals, or if
 * is_kept_readable is set; else clears it. */
void xs_events_show(struct queue *queue);
/* Called when a loop that watches the descriptor level-triggered calls back. `active`: it found events. Returns true
 * if the caller should busy-poll before the loop sleeps. */
bool xs_spin_turn(struct queue *queue, bool active);
/* Busy-polls for events for the time of the loop's iteration. SPUN_EMPTY: the loop may sleep. Called without the
 * locks; returns with events.lock held if *has_lock is set, and then there are events. */
enum spun xs_spin_in_turn(struct queue *queue, bool *has_lock);
/* Returns true if busy polling is off for the queue. A loop's iteration may then end with one non-blocking poll. */
bool xs_spin_is_off(struct queue *queue);
/* Returns true if that single poll should be made, given the results of earlier ones. */
bool xs_single_poll_pays(struct queue *queue);
/* Records the result of that poll; `is_empty`: it found no event. */
void xs_single_poll_learn(struct queue *queue, bool is_empty);
/* The application has handled its events and may sleep now: has the devices send what they held back, and sets the
 * timer for them (struct device, `stop_polling`). Called with the lock. */
void xs_queue_prepare_sleep(struct queue *queue);
/* The calling thread stops polling, but does not sleep. Calls xs_queue_prepare_sleep() if other threads sleep on the
 * queue or hosts watch it, so that packets wake them. Called without the lock. */
void xs_prepare_sleep_for_waiters(struct queue *home);
/* Updates `waits`, after completions were polled or work requests posted. Called with the lock. */
void xs_queue_note_waits(struct queue *queue);
/* Detaches all queues that are attached to this one, because a queue that was deleted drives nothing. Called without
 * the lock. */
void xs_queue_release_attachments(struct queue *queue);

/* Adds `change` to the number of the host's uses of the attachment. Called with the host's events.lock; the second one
 * takes it. */
void xs_attachment_use(struct attachment *attachment, int change);
void xs_attachment_use_unlocked(struct attachment *attachment, int change);
/* Sets the number of uses to 0. Takes the host's events.lock. */
void xs_attachment_unuse(struct attachment *attachment);
/* Ends attachments of `home` to hosts that have not used them for a while; with `at_once`, to all hosts that do not use
 * them now. Called with the home's lock. Returns true if there were any. */
bool xs_detach_idle_hosts(struct queue *home, bool at_once);
/* Returns true if the host has attachments that have been unused for a while. Called with the host's events.lock. */
bool xs_has_idle_attachments(const struct queue *host);
/* Ends those attachments. Called without locks. */
void xs_detach_idle_attachments(struct queue *host);

/* Sets the socket's deadline (ns, 0 = none); the threads and hosts that wait for the queue wake up then. Called with
 * the lock. */
void xs_queue_time(struct queue *queue, struct sock *sock, uint64_t deadline);
/* Returns when the earliest timer of the queue expires; NEVER_NS: there is none. Called with the lock. */
uint64_t xs_queue_due(const struct queue *queue);
/* Sets the queue's timer for that. A queue whose descriptors are not watched needs none, since its waiter sleeps with
 * a timeout. Called with the lock. */
void xs_queue_set_timer(struct queue *queue);
/* Returns true if the queue's descriptors are watched, or may be. Called with the lock. */
bool xs_queue_needs_timer(const struct queue *queue);
/* Returns false if the queue needs a timer and has none, because no descriptor was free. */
bool xs_queue_keeps_time(const struct queue *queue);
/* Wakes the threads that sleep on the queue and would wake up later than `deadline`. Called with the lock. */
void xs_queue_wake_by(struct queue *queue, uint64_t deadline);

#endif
