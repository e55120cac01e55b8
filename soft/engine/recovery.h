/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recovery.h - loss recovery of a requester: round-trip estimate, probes, window, and which NAKs cost a retry.
 *
 * This module knows no queue pair, clock or packet, only numbers: 64-bit PSNs, and nanoseconds. It can therefore be
 * tested alone.
 *
 *   round trip   One packet at a time is timed, which asks for an acknowledgement and was not sent before.
 *   probe        With an estimate, and as long as the peer answers, the requester does not wait for the ACK
 *                timeout: it sends the oldest packet once more when an answer is overdue. The ACK timeout still
 *                decides when a retry is counted and when the queue pair fails, as verbs define it. A peer that
 *                has not yet answered twice, or has let an ACK timeout pass, is not probed.
 *   window       The maximum number of unacknowledged packets. It doubles each round trip until the first loss, then
 *                grows slowly. It is halved for each flight (window of packets) with a loss, also if the
 *                retransmission is lost, and restored if nothing was lost after all.
 *   retries      A NAK shows that the peer is alive, so it only costs time: one retry for each ACK timeout
 *                without progress.
 */
#ifndef SOFT_RECOVERY_H
#define SOFT_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#define SOFT_NO_PSN UINT64_MAX
/* The window, in packets. */
#define SOFT_WINDOW_START 32
#define SOFT_WINDOW_MIN 1
#define SOFT_WINDOW_MAX 128

/* Part of a requester, guarded by the context's lock. Times are in ns. An unknown time is 0, an unknown PSN
 * SOFT_NO_PSN. */
struct soft_recovery {
    uint64_t round, spread;   /* smoothed round-trip time, and its mean deviation */
    uint64_t timed, timed_at; /* PSN of the packet that is timed; when it was sent */
    uint64_t probed;          /* PSN of a probe that is not acknowledged */
    uint64_t probed_at;       /* when the last probe was sent */
    uint64_t paid;            /* for losses before this PSN the window was already reduced */
    uint64_t refused_at; /* when the first NAK since the last progress arrived, or the last that cost a retry */
    uint64_t repeated_at;    /* when the flight was last sent again */
    uint32_t window, grown;  /* in packets: the window; packets acknowledged since it last grew */
    uint32_t threshold;      /* packets: a smaller window doubles each round trip */
    uint32_t before[2];      /* window and threshold before the last loss; 0: nothing to restore */
    uint8_t answers, probes; /* number of round trips timed, 2 at most; probes since the last progress */
    uint8_t refusals;        /* sequence NAKs since the last progress, 3 at most */
    bool silent;             /* an ACK timeout has passed since the peer last answered */
};

void soft_recovery_begin(struct soft_recovery *recovery);
/* Called when the round trip to this peer is known from another measurement (the connection manager's). The peer may
 * then be probed from the start. */
void soft_recovery_expect(struct soft_recovery *recovery, uint64_t round);

/* Called when a packet that asks for an answer is about to be sent for the first time. */
static inline void soft_recovery_time(struct soft_recovery *recovery, uint64_t psn)
{
    if (recovery->timed != SOFT_NO_PSN)
        return;
    recovery->timed = psn;
    recovery->timed_at = 0;
}

/* True if the packet that is timed has no time of sending yet; soft_recovery_left() must then be called. */
static inline bool soft_recovery_waits(const struct soft_recovery *recovery)
{
    return recovery->timed != SOFT_NO_PSN && recovery->timed_at == 0;
}

/* Called when packets have been sent at `now`: records the time of sending of the packet that is timed. */
static inline void soft_recovery_left(struct soft_recovery *recovery, uint64_t now)
{
    if (recovery->timed_at == 0)
        recovery->timed_at = now;
}

/* Called when all PSNs before `una` are acknowledged. True: the packet that is timed is among them, and the caller must
 * call soft_recovery_answered() with the current time. */
static inline bool soft_recovery_is_timed(const struct soft_recovery *recovery, uint64_t una)
{
    return recovery->timed < una;
}

/* Called when the packet that is timed is acknowledged: updates the round-trip estimate. */
void soft_recovery_answered(struct soft_recovery *recovery, uint64_t now);
/* Called when this number of packets was acknowledged. */
void soft_recovery_progress(struct soft_recovery *recovery, uint64_t packets);

/* Called when all unacknowledged packets are being sent again. */
void soft_recovery_repeat(struct soft_recovery *recovery, uint64_t now);
/* Called when a packet was lost: una, while those before PSN `high` were sent. Halves the window, once for each
 * flight. */
void soft_recovery_lost(struct soft_recovery *recovery, uint64_t una, uint64_t high);
/* Called when packets that were sent again turn out not to have been lost: restores the window. */
void soft_recovery_undo(struct soft_recovery *recovery);
/* True if a NAK has arrived so soon after the packets were sent again that it must be about their first
 * transmission. */
bool soft_recovery_is_stale(const struct soft_recovery *recovery, uint64_t now);
/* Called when a sequence NAK asks for the oldest unacknowledged packet. Returns whether that costs a retry. `timeout`
 * is the ACK timeout; NEVER_NS: none. `alone`: only that packet is outstanding, so no later packet can have arrived
 * before it; such a NAK is no sign of life of a peer that has never acknowledged anything. */
bool soft_recovery_refused(struct soft_recovery *recovery, uint64_t now, uint64_t timeout, bool alone);

/* Called when an RNR NAK shows that packet una has arrived, but the peer has no receive for it: the time without
 * progress is counted from 0 again. */
static inline void soft_recovery_came(struct soft_recovery *recovery)
{
    recovery->refused_at = 0;
}

/* Returns how long to wait for an answer before the next probe, ns; NEVER_NS: no probe. `grain`: by how many ns timers
 * and answers may be late on this link. */
uint64_t soft_recovery_patience(const struct soft_recovery *recovery, uint64_t grain);
/* Called when packet una is sent as a probe; the packets before PSN `high` were sent. */
void soft_recovery_probe(struct soft_recovery *recovery, uint64_t una, uint64_t high, uint64_t now);
/* Called when the ACK timer has expired. */
void soft_recovery_timeout(struct soft_recovery *recovery);

#endif
