/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq.h - completion queues and completion channels.
 *
 * The event counts of a completion queue are guarded by its own mutex, as in rdma-core.
 */
#ifndef SOFT_CQ_H
#define SOFT_CQ_H

#include <stdbool.h>
#include <sys/queue.h>
#include "core/waitset.h"
#include "event.h"

#define SOFT_MAX_CQE (1 << 22)

struct soft_channel {
    struct ibv_comp_channel ibv; /* fd: that of `waits`; in a context with names, whose programs know nothing of
                                  * us, its doorbell's; -1 of one that is quiet */
    struct waitset waits;        /* for events, and all that soft_watch was given */
    unsigned outside;            /* events in a row that were there when soft_get_cq_event was called */
    TAILQ_HEAD(, soft_cq) pending;
    LIST_ENTRY(soft_channel) link;
};

enum soft_arm { SOFT_UNARMED, SOFT_ARM_SOLICITED, SOFT_ARM_ANY };

struct soft_cq {
    struct ibv_cq_ex ibv; /* as large as rdma-core's own, of which an ibv_cq is the beginning */
    struct ibv_wc *ring;  /* cqe entries */
    unsigned head, count; /* the oldest; how many */
    bool overrun;
    enum soft_arm armed;
    bool rearmed;          /* since it was last polled, where packets wake the one who armed it */
    bool awaited;          /* armed, by somebody who will sleep where he can't see packets */
    unsigned events;       /* on the channel's list, not yet fetched */
    uint32_t delivered;    /* fetched; destroying waits until as many have been acknowledged */
    unsigned users;        /* queue pairs, once for each direction */
    struct ibv_wc current; /* the one that ibv_start_poll or ibv_next_poll took */
    struct soft_events async;
    TAILQ_ENTRY(soft_cq) link;
};

/* 0, or the errno with which a call is refused that names it. (locked) */
int soft_cq_check(const struct ibv_cq *cq);
/* False: it was full, and is now broken. */
bool soft_cq_add(struct soft_cq *cq, const struct ibv_wc *wc, bool solicited);
/* None of this queue pair's completions is in it any more. (locked) */
void soft_cq_take_back(struct soft_cq *cq, uint32_t qpn);
void soft_channel_notify(struct soft_channel *channel, struct soft_cq *cq);
void soft_channel_forget(struct soft_channel *channel, struct soft_cq *cq);
/* Does whoever waits for events here sleep on the descriptor, rather than in soft_get_cq_event? */
bool soft_channel_sleeps_outside(const struct soft_channel *channel);
/* Make the descriptor readable exactly while there are events. */
void soft_channel_flag(struct soft_channel *channel);
int soft_cq_take(struct soft_cq *cq, int room, struct ibv_wc *wc); /* (locked) how many */
void soft_cq_arm(struct soft_cq *cq, enum soft_arm armed);         /* (locked) */
/* A look found no completion; where it found packets something is on its way. (locked) */
void soft_nothing_completed(struct soft_context *context);
int soft_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *cq, int solicited_only);

#endif
