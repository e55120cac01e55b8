/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq.h - completion queues and completion channels.
 *
 * The context's lock guards them, except the counts of acknowledged events in the ibv_cq, which the ibv_cq's own mutex
 * guards, as in rdma-core. Functions marked (locked) are called with the context's lock.
 */
#ifndef SOFT_CQ_H
#define SOFT_CQ_H

#include <stdbool.h>
#include <sys/queue.h>
#include "core/base/waitset.h"
#include "event.h"

#define SOFT_MAX_CQE (1 << 22) /* maximum entries of a completion queue */

struct soft_channel {
    /* Its fd is the epoll of `waits`, which is readable when an event exists or packets may have arrived. In a context
     * with names (wire.h) it is the eventfd in `waits`, which is readable only when an event exists, because programs
     * written for rdma-core rely on that. -1 for a quiet channel, which has no descriptor. */
    struct ibv_comp_channel ibv;
    struct waitset waits; /* its flag is set while an event exists; its members are those of soft_watch() */
    unsigned outside;     /* consecutive calls of soft_get_cq_event() that found an event immediately */
    TAILQ_HEAD(, soft_cq) pending; /* completion queues with events that are not fetched */
    LIST_ENTRY(soft_channel) link;
};

enum soft_arm { SOFT_UNARMED, SOFT_ARM_SOLICITED, SOFT_ARM_ANY };

struct soft_cq {
    struct ibv_cq_ex ibv; /* as large as rdma-core's struct, which begins with an ibv_cq */
    struct ibv_wc *ring;  /* ibv.cqe entries */
    unsigned head, count; /* index of the oldest completion; number of completions */
    bool overrun;         /* a completion did not fit: the queue is in the error state */
    enum soft_arm armed;
    /* The queue was armed since the last poll, so the next poll does not drive the device. Only in contexts without
     * names, whose users call soft_stop_polling() before they sleep. */
    bool rearmed;
    bool awaited; /* the thread that armed it will sleep where packets do not wake it */
    /* Events that are not fetched; more than 0: the queue is on its channel's list `pending`. */
    unsigned events;
    /* Events that were fetched; soft_destroy_cq() waits until all of them are acknowledged. */
    uint32_t delivered;
    unsigned users;        /* queue pairs, counted once for each direction, and XRC's shared receive queues */
    struct ibv_wc current; /* the completion of ibv_start_poll() or ibv_next_poll() */
    struct soft_events async;
    TAILQ_ENTRY(soft_cq) link;
};

/* Returns 0, or the errno for a call that names an invalid completion queue. (locked) */
int soft_cq_check(const struct ibv_cq *cq);
/* Adds a completion. False: the queue was full, and is now in the error state. (locked) */
bool soft_cq_add(struct soft_cq *cq, const struct ibv_wc *wc, bool solicited);
/* Removes all completions of this queue pair. (locked) */
void soft_cq_take_back(struct soft_cq *cq, uint32_t qpn);
/* Adds an event of the completion queue, and wakes waiting threads. (locked) */
void soft_channel_notify(struct soft_channel *channel, struct soft_cq *cq);
/* Drops the events of the completion queue. (locked) */
void soft_channel_forget(struct soft_channel *channel, struct soft_cq *cq);
/* Returns true if the application seems to sleep on the channel's descriptor and not in soft_get_cq_event(): its last
 * calls have found an event immediately. Only in contexts with names. (locked) */
bool soft_channel_sleeps_outside(const struct soft_channel *channel);
/* Sets the flag of `waits` if there are events, and clears it otherwise. (locked) */
void soft_channel_flag(struct soft_channel *channel);
/* Moves at most `room` completions to wc. Returns their number. (locked) */
int soft_cq_take(struct soft_cq *cq, int room, struct ibv_wc *wc);
/* Arms the queue: the next completion of this kind adds an event. (locked) */
void soft_cq_arm(struct soft_cq *cq, enum soft_arm armed);
/* Called when a poll has found no completion: sends delayed ACKs. If the poll has received packets, the rest of their
 * message will probably arrive soon, so this also increments `activity` (poll_state.h). (locked) */
void soft_nothing_completed(struct soft_context *context);
/* ibv_poll_cq() and ibv_req_notify_cq(). */
int soft_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *cq, int solicited_only);

#endif
