/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue.h - an event queue: it holds the events of operations, and it drives the sockets that belong to it.
 *
 * A queue has two parts, each with its own lock:
 *   - `events.lock` guards a list of events and a doorbell. No other lock is taken while it is held.
 *   - `lock` guards the parts that drive sockets: CM event channels, completion channels, a timer. The queue is the
 *     `home` of these sockets: their queue pairs use its channels, and its lock guards the sockets, too.
 * The queue's descriptor is one epoll with the descriptors of both parts. Queues share nothing with each other.
 *
 * A private queue belongs to one socket and has no handle. Neither the queue nor its channels have a descriptor.
 * Threads that run it sleep on the descriptors that its wait sets list (waitset.h), and are woken when the list changes
 * (`events.sleepers`).
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
    int fd;                /* the descriptor, or that of `waits`; -1: `waits` has no descriptor so far */
    struct waitset *waits; /* the wait set, owned by a device; NULL: the source is a descriptor */
};

/* The attachment of one queue, the home, to another, the host (attach.c). Owned by both queues. Made and freed with the
 * home's lock and the host's events.lock, which are "both locks" below. */
struct attachment {
    LIST_ENTRY(attachment) of_host, of_home;
    struct queue *host;
    struct queue *home; /* a reference */

    /* guarded by the host's events.lock: */
    unsigned round; /* the value of the host's `attached.rounds` when the home was last found ready */
    bool stuck;     /* the home has work that no descriptor signals */
    /* How many operations, polls, accepts and sockets of the host use the home. While it is 0 the attachment is in the
     * host's list `attached.idle`, since the time `idle_since` (ns, clock.h). */
    int uses;
    uint64_t idle_since;
    TAILQ_ENTRY(attachment) of_idle;

    /* Written with both locks, and read with either. If one of these is set, the host does not watch the home's
     * descriptors, but polls the home on a timer. on_standby: the attachment is on the home's standby list. unwatched:
     * watching failed, because no descriptor was free; the host tries again after each poll. */
    bool on_standby;
    bool unwatched;

    /* guarded by the home's lock: */
    int accepts;    /* accepts of the host that are pending at a listener of the home */
    unsigned visit; /* if not on_standby: the home's `hosts.visits` when the host last drove it */
    TAILQ_ENTRY(attachment) behind; /* if on_standby: its link in the home's `hosts.standby` */
};

struct op_chunk; /* operations allocated together */

/* Events, and the doorbell that announces them. Guarded by events.lock. */
struct queue_events {
    struct mutex lock;
    struct op_list list;         /* operations that have completed and whose events were not dequeued */
    uint64_t taken;              /* events dequeued since the queue was made */
    uint64_t turns, empty_turns; /* calls that dequeue events, and those of them that found none */
    struct doorbell raise;       /* makes the queue's descriptor readable */
    /* Number of threads inside xs_dequeue(). While it is not 0 the descriptor need not be made readable, because these
     * threads will see new events. Incremented without the lock, decremented with it; pairs with the load, under the
     * lock, by a thread that completes an operation. */
    _Atomic int dequeuers;
    LIST_HEAD(, xs_sleeper) sleepers; /* threads that sleep on the queue's wait sets */
    /* An event loop busy-polls between its iterations, so `raise` is kept set. A read without the lock pairs with
     * nothing: a stale value causes at most a needless wake-up. */
    atomic_bool is_kept_readable;
    bool is_stuck; /* the last turn left work that no descriptor signals, so `raise` is kept set */
};

/* The queue's operations. Those that are started from here are of sockets whose home is another queue, and their events
 * go to this queue; struct own_ops has those of sockets whose home this queue is. Guarded by events.lock. */
struct op_pool {
    struct op_list free_ops;
    STAILQ_HEAD(, op_chunk) chunks;
    int ops;        /* operations in `chunks` */
    int free_count; /* operations in `free_ops` */
    int depth;      /* number of operations that the application has asked for (exs_qcreate) */
    int pending;    /* operations started and not completed, without those that struct own_ops counts */
};

/* The queues that are attached to this one. Guarded by events.lock. */
struct attached_queues {
    LIST_HEAD(, attachment) list;
    /* attachments with 0 uses; first the one that has been unused for the longest time */
    TAILQ_HEAD(idle_attachments, attachment) idle;
    int migrated;                  /* sockets that this queue owns and whose home is another queue */
    int unwatched;                 /* attachments that are on_standby or unwatched */
    struct doorbell poll_timer;    /* expires when the queue must poll the homes that it does not watch */
    int depth_probe[DEPTH_PROBES]; /* nested epolls that are never readable, see sources.c; -1: none */
    unsigned rounds;               /* passes over the attachments */
    bool has_stuck;                /* some attachment is `stuck` */
};

/* Operations of sockets whose home this queue is. Guarded by the queue's lock. */
struct own_ops {
    struct op_list free_ops;
    struct op_list done; /* completed since the lock was taken; xs_queue_unlock() appends them to `events` */
    int pending;         /* started and not completed */
};

/* The queues to which this one is attached. Guarded by the queue's lock. */
struct queue_hosts {
    LIST_HEAD(, attachment) list;         /* attachments to queues that watch this one */
    TAILQ_HEAD(line, attachment) standby; /* the standby list; first the attachment that has waited longest */
    int standby_count;
    unsigned visits; /* how often hosts that are not on the standby list have driven this queue */
};

/* The channels of the devices. Guarded by the queue's lock. */
struct queue_channels {
    LIST_HEAD(, source) sources; /* the descriptors and wait sets that the queue watches */
    /* The CM event channel of each device, made when first needed. */
    struct rdma_event_channel *cm[DEVICES_MAX];
    struct waitset *cm_waits[DEVICES_MAX]; /* the channel's wait set, owned by the channel; or NULL */
    LIST_HEAD(, nic) nics;
};

/* The queue's timers. Guarded by the queue's lock. */
struct queue_time {
    TAILQ_HEAD(timed_socks, sock) socks; /* sockets with a deadline, the earliest first */
    bool keeps_time;                     /* the queue uses a timer even if none of its descriptors is watched */
    struct doorbell timer;               /* has no descriptor until it is needed */
    /* ns: a device's timer expires then, or later; NEVER_NS: no timer of a device runs */
    uint64_t device_due;
    /* Turns since the CM channels were last read, and the approximate time of that, ns. */
    unsigned busy_turns;
    uint64_t busy_since;
};

struct queue {
    /* References: one for the handle, for each socket whose home this is, for each attachment to a host, and for each
     * waiter. Each decrement pairs with the last one, whose thread frees the queue. */
    _Atomic int refs;
    /* Number of attached queues. Pairs with nothing: a queue that has just been attached makes the descriptor
     * readable. */
    _Atomic int attachment_count;
    /* A connect of the private queue's socket failed, so xs_queue_strip() may close descriptors. Set by
     * xs_open_failed(); pairs with the load in xs_release_home(). */
    _Atomic bool failed;
    /* xs_queue_prepare_sleep() has work to do: sends are held, or a device holds back packets that it must send before
     * the thread sleeps, or has a timer that this queue does not know of. Updated by each turn and each post. Pairs
     * with nothing: the thread that reads it wrote it last, or the thread that wrote it calls xs_queue_prepare_sleep()
     * itself. */
    _Atomic bool waits;
    /* Number of hosts and sleepers, which must be woken by packets. Pairs with nothing: a host or sleeper that is added
     * while `waits` is set calls xs_queue_prepare_sleep() itself, and a thread that has held the lock since an earlier
     * one was added sees that one. */
    _Atomic int others;
    atomic_bool busy_polls; /* a loop busy-polls the queue; pairs with nothing, since it is advisory */
    /* NULL for a private queue and for one that was deleted. Written with `lock` and `events.lock`, and read with
     * either of them, or by a user of the handle. */
    exs_qhandle_t handle;
    struct handle_slot *slot; /* the slot of the handle, as long as the handle has users */
    bool drives_sends;        /* this is the queue of the library's progress thread (progress.c) */
    struct spin spin;         /* decides whether threads that wait for this queue busy-poll first */
    /* The queue's descriptor: an epoll of its sources, those of its attached queues, and `events.raise`. -1: a private
     * queue. */
    int fd;

    struct queue_events events;
    struct op_pool pool;
    struct attached_queues attached;

    struct mutex lock;
    /* guarded by lock: */
    struct own_ops own;
    struct queue_hosts hosts;
    struct queue_channels channels;
    struct queue_time time;
    LIST_HEAD(, conn) held;     /* connections with sends that are held (conn/batch.c) */
    LIST_HEAD(, sock) socks;    /* sockets whose home this is */
    LIST_HEAD(, polling) polls; /* polls whose event goes to this queue, and which have an epoll */
    uint64_t completions;       /* completions that were polled since the queue was made */
    exs_stats_t gone;           /* sum of the counters of connections that were freed */

    /* What the thread of misuse.c that looks for events that are not dequeued (EXS_CHECK) has seen last. Used only by
     * that thread. */
    struct untaken {
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
/* Take and drop a reference. */
void xs_queue_ref(struct queue *queue);
void xs_queue_unref(struct queue *queue);
/* Closes the descriptors of a private queue whose socket is not connected (SOCK_FRESH), if it has no more than `refs`
 * references. They are made again when they are needed. Called with the lock. */
void xs_queue_strip(struct queue *queue, int refs);
/* Returns the table of all handles of queues. */
struct handle_table *xs_queue_handles(void);
uint32_t xs_queue_count(void); /* returns the number of queues that have a handle */
void xs_queue_reset(void);     /* forgets all queues, in a forked child */

/* Adds or removes a descriptor, or a device's wait set (fd is -1), as a source of the queue and of its hosts. Called
 * with the lock. Returns 0, or -1 and errno. */
int xs_queue_watch(struct queue *queue, int fd, struct waitset *waits);
void xs_queue_unwatch(struct queue *queue, int fd, const struct waitset *waits);

/* Makes a descriptor for each wait set of the queue, for hosts to watch. Called with the lock. Returns 0, or -1 and
 * errno. */
int xs_queue_show(struct queue *queue);
/* Make and close the queue's epoll and the descriptors that it needs. xs_queue_make_descriptor() returns 0, or -1 and
 * errno; the caller must then call xs_queue_close_descriptor(). Called with the lock, or by the only user. */
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
/* Sets the number of bytes in the event of a transfer. */
void xs_op_moved(struct op *op, uint64_t bytes);
/* Adds a flag to the event of a receive: MSG_TRUNC or EXS_EOF. */
void xs_op_flag(struct op *op, int flag);
/* Completes the operation with this errno and delivers its event. The caller must not use the operation any more. */
void xs_op_complete(struct op *op, int error);
/* Frees an operation that could not be started; it has no event. */
void xs_op_cancel(struct op *op);

/* Moves the operations of `own.done` to `events.list`. Called by xs_queue_unlock(). */
void xs_queue_tell(struct queue *queue);
/* Releases the queue's lock. mutex_unlock() must not be used for it. */
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
/* Add a source of the home to the host's epoll, and remove it. Adding returns 0, or -1 and errno. */
int xs_attachment_watch(struct attachment *attachment, const struct source *source);
void xs_attachment_unwatch(const struct attachment *attachment, const struct source *source);
/* Tries to watch the home of an attachment that is `unwatched`, or sets the timer for the next poll. */
void xs_attachment_watch_again(struct attachment *attachment);

/* Returns the queue's CM event channel for a device, made at first use; NULL and errno on failure. Called with the
 * lock. */
struct rdma_event_channel *xs_queue_channel(struct queue *queue, int device);

/* How the thread that runs a queue learns that it must run the queue again.
 *   BY_LEVEL    It watches the descriptor level-triggered. A turn may leave work undone, because the descriptor stays
 *               readable.
 *   BY_EDGE     It watches the descriptor edge-triggered. A turn that leaves work undone must make the descriptor
 *               readable again.
 *   BY_POLLING  It watches the descriptor level-triggered. The turn is a single non-blocking poll for completions,
 *               before the descriptor has signaled anything. */
enum watched { BY_LEVEL, BY_POLLING, BY_EDGE };

/* One pass over a queue: how the caller watches the queue, and the results. */
struct turn {
    enum watched watched;
    int harvested; /* number of completions that were polled */
    int others;    /* number of connection events, and of deadlines that passed; not `others` of the queue */
    bool left;     /* some work was left undone */
    bool busy;     /* work was left undone because there were completions, and the next turn must do it */
    bool stuck;    /* no descriptor signals the work that is left */
};

/* Runs the queue and its attached queues once. Called without the lock. Returns with events.lock held, and with all
 * events in the queue's list. */
void xs_turn(struct queue *queue, struct turn *turn);
/* Runs the queue without its attached queues: completions, connection events, timers. Connection events and timers cost
 * system calls. With BY_LEVEL a turn that finds completions does not handle them, unless 256 turns or about 20 ms have
 * passed since the last time; with BY_EDGE (exs_qdequeue) each turn handles them. Called with the lock. */
void xs_turn_home(struct queue *queue, struct turn *turn);
/* Runs those attached queues that have work. Called without the lock. */
void xs_turn_attachments(struct queue *queue, struct turn *turn);
/* Polls for completions without reading completion events or arming the completion queues, for a caller that will run
 * the queue or sleep afterwards. Returns true if there were completions, or packets that may lead to some. Called
 * without the lock. */
bool xs_queue_look(struct queue *queue);
/* Like xs_queue_look(), for a caller that dequeues events next. Sets *came to the result of xs_queue_look(). Returns
 * true, with events.lock held, if the poll has added events to the queue's list. */
bool xs_queue_look_for_events(struct queue *queue, bool *came);
/* Returns true if packets that may lead to completions have arrived since the last poll or turn. Called without the
 * lock. */
bool xs_queue_has_activity(struct queue *queue);
/* Like exs_qdequeue(), but does not wait and does not check its arguments. */
int xs_queue_dequeue(struct queue *queue, exs_event_t *events, int most, enum watched watched);
/* Checks the arguments of a call that dequeues events. Returns the queue, which can't be deleted until xs_queue_put();
 * or NULL and errno. */
struct queue *xs_dequeue_begin(exs_qhandle_t qhandle, const exs_event_t *evtvec, int evtvec_cnt);
/* Takes events from the queue's list and returns their number. Called with events.lock, as is xs_events_show(). */
int xs_events_take(struct queue *queue, exs_event_t *events, int most);
/* Makes the descriptor readable if events are left in the list, if work is left that no descriptor signals, or if
 * is_kept_readable is set; else clears it. */
void xs_events_show(struct queue *queue);
/* Called when an event loop that watches the descriptor level-triggered calls back: starts the time of the loop's
 * iteration. `active`: the call has found events. Returns true if the caller should busy-poll before the loop
 * sleeps. */
bool xs_spin_turn(struct queue *queue, bool active);
/* Busy-polls for events for the time of the loop's iteration. SPUN_EMPTY: the loop may sleep. Called without the
 * locks; returns with events.lock held if *has_lock is set, and then there are events. */
enum spun xs_spin_in_turn(struct queue *queue, bool *has_lock);
/* Returns true if busy polling is off for the queue. A loop's iteration may then end with one non-blocking poll (the
 * single poll). */
bool xs_spin_is_off(struct queue *queue);
/* Returns true if the single poll should be made, given the results of earlier ones. */
bool xs_single_poll_pays(struct queue *queue);
/* Records the result of a single poll; `is_empty`: it found no event. */
void xs_single_poll_learn(struct queue *queue, bool is_empty);
/* Called when the application has handled its events and may sleep now: has the devices send the packets that they hold
 * back, and sets the queue's timer for the devices' timers (struct device, `stop_polling`). Called with the lock. */
void xs_queue_prepare_sleep(struct queue *queue);
/* Called when the calling thread stops polling, but does not sleep. Calls xs_queue_prepare_sleep() if other threads
 * sleep on the queue or hosts watch it, so that packets wake them. Called without the lock. */
void xs_prepare_sleep_for_waiters(struct queue *home);
/* Updates `waits`, after completions were polled or work requests posted. Called with the lock. */
void xs_queue_note_waits(struct queue *queue);
/* Detaches all queues that are attached to this one, because a queue that was deleted drives nothing. Called without
 * the lock. */
void xs_queue_release_attachments(struct queue *queue);

/* Add `change` to the number of the host's uses of the attachment. The caller of xs_attachment_use() holds the host's
 * events.lock; xs_attachment_use_unlocked() takes it. */
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

/* Sets the socket's deadline (ns, 0: none). The threads and hosts that wait for the queue wake up at that time. Called
 * with the lock. */
void xs_queue_time(struct queue *queue, struct sock *sock, uint64_t deadline);
/* Returns when the earliest timer of the queue expires; NEVER_NS: there is none. Called with the lock. */
uint64_t xs_queue_due(const struct queue *queue);
/* Sets the queue's timer to the time of xs_queue_due(). A queue whose descriptors are not watched needs no timer,
 * because the threads that wait for it sleep with a timeout. Called with the lock. */
void xs_queue_set_timer(struct queue *queue);
/* Returns true if the queue's descriptors are watched, or may be. Called with the lock. */
bool xs_queue_needs_timer(const struct queue *queue);
/* Returns false if the queue needs a timer and has none, because no descriptor was free. */
bool xs_queue_keeps_time(const struct queue *queue);
/* Wakes the threads that sleep on the queue and would wake up later than `deadline`. Called with the lock. */
void xs_queue_wake_by(struct queue *queue, uint64_t deadline);

#endif
