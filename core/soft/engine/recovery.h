/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recovery.h - what a requester makes of losses: how long an answer takes, when to probe for one that does not
 * come, how many packets may be under way, and which NAK costs a retry.
 *
 * There is no queue pair, clock or packet here, only numbers: PSNs as the engine widens them, and nanoseconds.
 * So it can be tested alone.
 *
 *   round trip   One packet that asks for an acknowledgement is timed at once, and none that was sent twice.
 *   probe        With an estimate, and as long as the peer answers, silence is not waited for until the ACK
 *                time-out: the oldest packet is sent once more. The time-out remains what verbs promise: when a
 *                retry is counted, and when the queue pair fails. A peer that has not answered twice yet, or
 *                let a time-out pass, is not probed.
 *   window       Doubles in a round trip until the first loss, then grows slowly; half for each flight that
 *                lost something, also where it was sent again and lost again; as it was when it turns out that
 *                nothing was lost.
 *   retries      A NAK says that the peer is there. It costs time: a retry for each ACK time-out without
 *                progress.
 */
#ifndef SOFT_RECOVERY_H
#define SOFT_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>
#include "core/clock.h"

#define SOFT_NO_PSN UINT64_MAX
#define SOFT_WINDOW_START 32 /* packets */
#define SOFT_WINDOW_MIN 1
#define SOFT_WINDOW_MAX 128

/* Part of a requester. Times that are not known yet are 0, PSNs that are none SOFT_NO_PSN. */
struct soft_recovery {
    uint64_t round, spread;   /* an answer's usual time and by how much it differs, ns */
    uint64_t timed, timed_at; /* the packet whose answer is timed, and when it left */
    uint64_t probed;          /* sent once more, and not acknowledged since */
    uint64_t probed_at;       /* when there was a probe last */
    uint64_t paid;            /* losses before this PSN are of a flight that the window has paid for */
    uint64_t refused_at;      /* when a NAK came, or was counted, without progress since */
    uint64_t repeated_at;     /* when the flight was last sent again */
    uint32_t window, grown;   /* packets; PSNs acknowledged since it grew */
    uint32_t threshold;       /* it doubles below, */
    uint32_t before[2];       /* and both as they were before the last loss; 0: nothing to go back to */
    uint8_t answers, probes;  /* timed, up to 2; probes since the last answer */
    uint8_t refusals;         /* NAKs without progress, as far as they are counted */
    bool silent;              /* an ACK time-out has passed since */
};

void soft_recovery_begin(struct soft_recovery *recovery);
/* Somebody else's packets have been there and back in this time, so the peer may be probed from the start. */
void soft_recovery_expect(struct soft_recovery *recovery, uint64_t round);

/* A packet that asks for an answer is about to leave for the first time. */
static inline void soft_recovery_time(struct soft_recovery *recovery, uint64_t psn)
{
    if (recovery->timed != SOFT_NO_PSN)
        return;
    recovery->timed = psn;
    recovery->timed_at = 0;
}

/* It waits to be told when it left. */
static inline bool soft_recovery_waits(const struct soft_recovery *recovery)
{
    return recovery->timed != SOFT_NO_PSN && recovery->timed_at == 0;
}

static inline void soft_recovery_left(struct soft_recovery *recovery, uint64_t now)
{
    if (recovery->timed_at == 0)
        recovery->timed_at = now;
}

/* All before `una` is acknowledged. True: the time is wanted, by soft_recovery_answered. */
static inline bool soft_recovery_is_timed(const struct soft_recovery *recovery, uint64_t una)
{
    return recovery->timed < una;
}

void soft_recovery_answered(struct soft_recovery *recovery, uint64_t now);
/* So many packets are acknowledged. */
void soft_recovery_progress(struct soft_recovery *recovery, uint64_t packets);

/* The packets una..high are sent again, now. */
void soft_recovery_repeat(struct soft_recovery *recovery, uint64_t now);
/* Something of una..high was lost. */
void soft_recovery_lost(struct soft_recovery *recovery, uint64_t una, uint64_t high);
/* What was sent again had come all the same. */
void soft_recovery_undo(struct soft_recovery *recovery);
/* A NAK at una can't be about what was sent again just now. */
bool soft_recovery_is_stale(const struct soft_recovery *recovery, uint64_t now);
/* The peer asks for the oldest packet again: does that cost a retry? `timeout` is the ACK time-out, NEVER_NS:
 * none. `alone`: there is no other packet that could have come too early; of somebody who has never answered
 * otherwise that is no sign of life. */
bool soft_recovery_refused(struct soft_recovery *recovery, uint64_t now, uint64_t timeout, bool alone);

/* Packet una has come, and the peer has no room for it yet: what is refused of it from now on is counted anew. */
static inline void soft_recovery_came(struct soft_recovery *recovery)
{
    recovery->refused_at = 0;
}

/* How long to wait for an answer before the next probe; NEVER_NS: there is none. `grain` is by how much the
 * link is late with timers and answers. */
uint64_t soft_recovery_patience(const struct soft_recovery *recovery, uint64_t grain);
/* Packet una is sent once more, of those up to high. */
void soft_recovery_probe(struct soft_recovery *recovery, uint64_t una, uint64_t high, uint64_t now);
/* An ACK time-out has passed. */
void soft_recovery_timeout(struct soft_recovery *recovery);

#endif
