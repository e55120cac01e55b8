/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq.h - completion queues and completion channels.
 *
 * Guarded by the context's lock, except the counts of acknowledged events in the ibv_cq, which the ibv_cq's own mutex
 * guards, as in rdma-core.
 */
#ifndef SOFT_CQ_H
#define SOFT_CQ_H

#include <stdbool.h>
#include <sys/queue.h>
#include "core/base/waitset.h"
#include "event.h"

#define SOFT_MAX_CQE (1 << 22)

struct soft_channel {
    /* fd: that of `waits`. In a context with names it is the descriptor of the waitset's doorbell (an eventfd), because
     * programs written for rdma-core take readable to mean an event; -1 for a quiet channel. */
    struct ibv_comp_channel ibv;
    struct waitset waits; /* events, and all descriptors of soft_watch() */
    unsigned outside; /* Number of consecutive calls of soft_get_cq_event() that found an event immediately. */
    TAILQ_HEAD(, soft_cq) pending;
    LIST_ENTRY(soft_channel) link;
};

enum soft_arm { SOFT_UNARMED, SOFT_ARM_SOLICITED, SOFT_ARM_ANY };

struct soft_cq {
    struct ibv_cq_ex ibv; /* As large as rdma-core's struct, which begins with an ibv_cq. */
    struct ibv_wc *ring;  /* cqe entries */
    unsigned head, count; /* the oldest entry; number of entries */
    bool overrun;
    enum soft_arm armed;
    /* Armed since the last poll, so the next poll does not drive the device. Only in contexts without names, whose
     * users call soft_stop_polling() before they sleep. */
    bool rearmed;
    bool awaited;          /* Armed by a thread that will sleep where packets do not wake it. */
    unsigned events;       /* in the channel's list, not yet fetched */
    uint32_t delivered;    /* Fetched events; destroying waits until the same number was acknowledged. */
    unsigned users;        /* queue pairs, one for each direction, and XRC's SRQs */
    struct ibv_wc current; /* the completion of ibv_start_poll() or ibv_next_poll() */
    struct soft_events async;
    TAILQ_ENTRY(soft_cq) link;
};

/* 0, or the errno for a call that names an invalid completion queue. (locked) */
int soft_cq_check(const struct ibv_cq *cq);
/* Adds a completion. False: the queue was full, and is now in the error state. */
bool soft_cq_add(struct soft_cq *cq, const struct ibv_wc *wc, bool solicited);
/* Removes all completions of this queue pair. (locked) */
void soft_cq_take_back(struct soft_cq *cq, uint32_t qpn);
/* notify: adds an event of the queue and wakes waiting threads. forget: drops its events. */
void soft_channel_notify(struct soft_channel *channel, struct soft_cq *cq);
void soft_channel_forget(struct soft_channel *channel, struct soft_cq *cq);
/* True if the application waits on the channel's descriptor and not in soft_get_cq_event(), as far as known. */
bool soft_channel_sleeps_outside(const struct soft_channel *channel);
/* Makes the descriptor readable if and only if there are events. */
void soft_channel_flag(struct soft_channel *channel);
int soft_cq_take(struct soft_cq *cq, int room, struct ibv_wc *wc); /* (locked) returns how many */
void soft_cq_arm(struct soft_cq *cq, enum soft_arm armed);         /* (locked) */
/* A poll found no completion. Counts it in `activity` if it found packets, because the rest of a message will probably
 * arrive soon; sends delayed ACKs. (locked) */
void soft_nothing_completed(struct soft_context *context);
int soft_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *cq, int solicited_only);

#endif
