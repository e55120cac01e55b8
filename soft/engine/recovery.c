/* SPDX-License-Identifier: BSD-2-Clause */
/* recovery.c - the arithmetic of loss recovery: see recovery.h. */
#include "core/base/clock.h"
#include "recovery.h"

#define GROWTH 4        /* packets by which the window grows per acknowledged window */
#define TRUSTED 2       /* timed answers that make an estimate */
#define DOUBLINGS 10    /* maximum doublings of the time until a probe */
#define IN_VAIN 3       /* NAKs without progress that do not reduce the window */
#define GUESSED 1000000 /* ns by which a round trip may differ from another measurement of it */

void soft_recovery_begin(struct soft_recovery *recovery)
{
    *recovery = (struct soft_recovery){
        .timed = SOFT_NO_PSN,
        .probed = SOFT_NO_PSN,
        .window = SOFT_WINDOW_START,
        .threshold = SOFT_WINDOW_MAX,
    };
}

/* ---- Round trips ---- */

void soft_recovery_expect(struct soft_recovery *recovery, uint64_t round)
{
    recovery->round = round;
    recovery->spread = round / 2 + GUESSED;
    recovery->answers = TRUSTED;
}

void soft_recovery_answered(struct soft_recovery *recovery, uint64_t now)
{
    uint64_t took = now - recovery->timed_at, off;

    recovery->timed = SOFT_NO_PSN;
    if (recovery->timed_at == 0 || now < recovery->timed_at)
        return; /* not sent yet: the answer is to another packet */
    if (recovery->probed_at > recovery->timed_at &&
        now - recovery->probed_at <= recovery->round + recovery->spread)
        return; /* it may answer the probe */
    if (recovery->answers == 0) {
        recovery->round = took;
        recovery->spread = took / 2;
    } else {
        off = took > recovery->round ? took - recovery->round : recovery->round - took;
        recovery->spread += off / 4 - recovery->spread / 4;
        recovery->round += took / 8 - recovery->round / 8;
    }
    if (recovery->answers < TRUSTED)
        recovery->answers++;
}

static bool has_estimate(const struct soft_recovery *recovery)
{
    return recovery->answers == TRUSTED;
}

/* ---- The window ---- */

static void grow_window(struct soft_recovery *recovery, uint64_t packets)
{
    uint64_t window = recovery->window;

    if (window >= SOFT_WINDOW_MAX)
        return;
    if (window < recovery->threshold) {
        window += packets;
    } else if ((recovery->grown += (uint32_t)packets) >= window) {
        recovery->grown = 0;
        window += GROWTH;
    }
    recovery->window = window < SOFT_WINDOW_MAX ? (uint32_t)window : SOFT_WINDOW_MAX;
}

static void halve_window(struct soft_recovery *recovery)
{
    uint32_t half = recovery->window / 2;

    recovery->window = recovery->threshold = half > SOFT_WINDOW_MIN ? half : SOFT_WINDOW_MIN;
    recovery->grown = 0;
}

void soft_recovery_progress(struct soft_recovery *recovery, uint64_t packets)
{
    grow_window(recovery, packets);
    recovery->refused_at = 0;
    recovery->refusals = 0;
    recovery->probed = SOFT_NO_PSN;
    recovery->probes = 0;
    recovery->silent = false;
    recovery->before[0] = 0;
}

void soft_recovery_lost(struct soft_recovery *recovery, uint64_t una, uint64_t high)
{
    if (una < recovery->paid)
        return;
    recovery->paid = high;
    recovery->before[0] = recovery->window;
    recovery->before[1] = recovery->threshold;
    halve_window(recovery);
}

void soft_recovery_undo(struct soft_recovery *recovery)
{
    if (recovery->before[0] > recovery->window) {
        recovery->window = recovery->before[0];
        recovery->threshold = recovery->before[1];
    }
    recovery->before[0] = 0;
}

/* ---- Sending again ---- */

void soft_recovery_repeat(struct soft_recovery *recovery, uint64_t now)
{
    recovery->timed = recovery->probed = SOFT_NO_PSN;
    recovery->repeated_at = now;
}

bool soft_recovery_is_stale(const struct soft_recovery *recovery, uint64_t now)
{
    return has_estimate(recovery) && recovery->refused_at != 0 &&
           now - recovery->repeated_at < recovery->round / 2;
}

bool soft_recovery_refused(struct soft_recovery *recovery, uint64_t now, uint64_t timeout, bool alone)
{
    bool charges = (alone && !has_estimate(recovery)) ||
                   (recovery->refused_at != 0 && now - recovery->refused_at >= timeout);

    if (recovery->refused_at == 0 || charges)
        recovery->refused_at = now;
    recovery->silent = false;
    if (recovery->refusals < IN_VAIN) {
        recovery->refusals++;
        recovery->probes = 0;
        return charges;
    }
    /* The first NAKs may be about reordered packets. A further one means that the flight was lost again, for example on
     * a path that loses long packets and delivers short ones. With a window of one packet the peer sends no further
     * NAK, and the answer to a probe is no reason to probe earlier. Without an estimate all NAKs may be about one
     * flight, because soft_recovery_is_stale() can't tell. */
    if (has_estimate(recovery))
        halve_window(recovery);
    return charges;
}

uint64_t soft_recovery_patience(const struct soft_recovery *recovery, uint64_t grain)
{
    uint64_t spread = 4 * recovery->spread, patience;

    if (!has_estimate(recovery) || recovery->silent || recovery->probes > DOUBLINGS)
        return NEVER_NS;
    if (spread < recovery->round)
        spread = recovery->round;
    patience = recovery->round + spread + grain;
    return patience << recovery->probes;
}

void soft_recovery_probe(struct soft_recovery *recovery, uint64_t una, uint64_t high, uint64_t now)
{
    /* The first probe may have been unnecessary. If a second one is needed, the path is congested. */
    if (recovery->probes > 0 && recovery->window > SOFT_WINDOW_MIN) {
        recovery->paid = high;
        halve_window(recovery);
        recovery->before[0] = 0;
    }
    if (recovery->timed == una)
        recovery->timed = SOFT_NO_PSN;
    recovery->probed = una;
    recovery->probed_at = now;
    recovery->probes++;
}

void soft_recovery_timeout(struct soft_recovery *recovery)
{
    recovery->silent = true;
    recovery->refused_at = 0;
    recovery->probes = 0;
}
