/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recovery.h - loss recovery of a requester: round-trip estimate, probes, window, and which NAKs cost a retry.
 *
 * This module knows no queue pair, clock or packet, only numbers: 64-bit PSNs, and nanoseconds. It can therefore be
 * tested alone.
 *
 *   round trip   At most one packet that asks for an acknowledgement is timed at once, and never a retransmitted
 *                one.
 *   probe        With an estimate, and as long as the peer answers, the requester does not wait for the ACK
 *                timeout: it sends the oldest packet once more when an answer is overdue. The ACK timeout still
 *                decides when a retry is counted and when the queue pair fails, as verbs define it. A peer that
 *                has not yet answered twice, or has let an ACK timeout pass, is not probed.
 *   window       Doubles each round trip until the first loss, then grows slowly. It is halved for each flight
 *                with a loss, also if the retransmission is lost, and restored if nothing was lost after all.
 *   retries      A NAK shows that the peer is alive, so it only costs time: one retry for each ACK timeout
 *                without progress.
 */
#ifndef SOFT_RECOVERY_H
#define SOFT_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#define SOFT_NO_PSN UINT64_MAX
#define SOFT_WINDOW_START 32 /* packets */
#define SOFT_WINDOW_MIN 1
#define SOFT_WINDOW_MAX 128

/* Part of a requester, guarded by the context's lock. Times are in ns. An unknown time is 0, an unknown PSN
 * SOFT_NO_PSN. */
struct soft_recovery {
    uint64_t round, spread;   /* Smoothed round-trip time and its mean deviation. */
    uint64_t timed, timed_at; /* the packet being timed, and when it was sent */
    uint64_t probed;          /* A packet that was sent as a probe and is not acknowledged since. */
    uint64_t probed_at;       /* when the last probe was sent */
    uint64_t paid; /* Losses before this PSN belong to a flight for which the window was already reduced. */
    uint64_t refused_at;     /* when a NAK without progress since arrived or was counted */
    uint64_t repeated_at;    /* when the flight was last sent again */
    uint32_t window, grown;  /* packets; PSNs acknowledged since the window last grew */
    uint32_t threshold;      /* the window doubles while it is below */
    uint32_t before[2];      /* window and threshold before the last loss; 0: nothing to restore. */
    uint8_t answers, probes; /* timed answers, up to 2; probes since the last answer */
    uint8_t refusals;        /* counted NAKs without progress */
    bool silent;             /* an ACK timeout has passed since */
};

void soft_recovery_begin(struct soft_recovery *recovery);
/* Another measurement of the round trip to this peer is known (the connection manager's), so the peer may be probed
 * from the start. */
void soft_recovery_expect(struct soft_recovery *recovery, uint64_t round);

/* A packet that asks for an answer is about to be sent for the first time. */
static inline void soft_recovery_time(struct soft_recovery *recovery, uint64_t psn)
{
    if (recovery->timed != SOFT_NO_PSN)
        return;
    recovery->timed = psn;
    recovery->timed_at = 0;
}

/* True if a packet is timed whose time of sending is not recorded yet. */
static inline bool soft_recovery_waits(const struct soft_recovery *recovery)
{
    return recovery->timed != SOFT_NO_PSN && recovery->timed_at == 0;
}

static inline void soft_recovery_left(struct soft_recovery *recovery, uint64_t now)
{
    if (recovery->timed_at == 0)
        recovery->timed_at = now;
}

/* All PSNs before `una` are acknowledged. True: the caller must call soft_recovery_answered() with the time. */
static inline bool soft_recovery_is_timed(const struct soft_recovery *recovery, uint64_t una)
{
    return recovery->timed < una;
}

void soft_recovery_answered(struct soft_recovery *recovery, uint64_t now);
/* This number of packets was acknowledged. */
void soft_recovery_progress(struct soft_recovery *recovery, uint64_t packets);

/* The packets una..high are being sent again. */
void soft_recovery_repeat(struct soft_recovery *recovery, uint64_t now);
/* A packet of una..high was lost. */
void soft_recovery_lost(struct soft_recovery *recovery, uint64_t una, uint64_t high);
/* Packets that were sent again had not been lost. */
void soft_recovery_undo(struct soft_recovery *recovery);
/* True if a NAK at una is too early to be about packets that were sent again just now. */
bool soft_recovery_is_stale(const struct soft_recovery *recovery, uint64_t now);
/* A sequence NAK asks for the oldest packet. Returns whether that costs a retry. `timeout` is the ACK timeout;
 * NEVER_NS: none. `alone`: no other packet is outstanding that could have arrived too early, so from a peer that has
 * never answered properly the NAK is no sign of life. */
bool soft_recovery_refused(struct soft_recovery *recovery, uint64_t now, uint64_t timeout, bool alone);

/* An RNR NAK: packet una arrived, and the peer has no receive for it. The time without progress is counted from 0
 * again. */
static inline void soft_recovery_came(struct soft_recovery *recovery)
{
    recovery->refused_at = 0;
}

/* How long to wait for an answer before the next probe; NEVER_NS: no probe. `grain`: by how much the link may be late
 * with timers and answers. */
uint64_t soft_recovery_patience(const struct soft_recovery *recovery, uint64_t grain);
/* Packet una, of those up to high, is sent as a probe. */
void soft_recovery_probe(struct soft_recovery *recovery, uint64_t una, uint64_t high, uint64_t now);
/* The ACK timer has expired. */
void soft_recovery_timeout(struct soft_recovery *recovery);

#endif
