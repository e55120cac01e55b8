/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_timer.c - the timers of a channel: one queue for each timeout, so that starting and stopping a timer needs no
 * search.
 *
 * If the channel has no descriptor, the time of its wait set is only changed to an earlier one, because an early
 * wake-up is harmless to a thread that sleeps on a wait set. If the channel has a descriptor, the time is set exactly
 * to the first timer that runs: when the descriptor is readable, an application may expect an event, and block until
 * there is one.
 */
#include "core/base/clock.h"
#include "cm_id.h"

/* In the order of enum cm_timeout. The third is that of the kernel's connection manager: 16 requests of 6.1 s each;
 * the last is about the kernel's TIMEWAIT. */
static const uint64_t limits[CM_TIMEOUTS] = {
    3 * NS_PER_S / 10, 20 * NS_PER_S, 98 * NS_PER_S, 10 * NS_PER_S, NS_PER_S / 10, 2 * NS_PER_S,
};

static void arm_timer(struct cm_channel *channel, uint64_t deadline)
{
    if (channel->public.fd == -1 && deadline < channel->waits.wakefd.at)
        waitset_time(&channel->waits, deadline);
}

void cm_timer_settle(struct cm_channel *channel)
{
    uint64_t next = NEVER_NS;

    if (channel->public.fd == -1)
        return;
    for (int timeout = 0; timeout < CM_TIMEOUTS; timeout++) {
        const struct cm_id *id = TAILQ_FIRST(&channel->timeouts[timeout]);

        if (id != NULL && id->deadline < next)
            next = id->deadline;
    }
    if (next != channel->waits.wakefd.at)
        waitset_time(&channel->waits, next);
}

void cm_timer_start(struct cm_id *id, enum cm_timeout timeout)
{
    struct cm_channel *channel = cm_channel_of(id);

    cm_timer_stop(id);
    id->timeout = timeout;
    id->deadline = now_ns() + limits[timeout];
    TAILQ_INSERT_TAIL(&channel->timeouts[timeout], id, timed);
    arm_timer(channel, id->deadline);
}

uint64_t cm_timer_elapsed(const struct cm_id *id)
{
    return id->timeout == CM_NO_TIMEOUT ? 0 : now_ns() + limits[id->timeout] - id->deadline;
}

void cm_timer_stop(struct cm_id *id)
{
    if (id->timeout == CM_NO_TIMEOUT)
        return;
    TAILQ_REMOVE(&cm_channel_of(id)->timeouts[id->timeout], id, timed);
    id->timeout = CM_NO_TIMEOUT;
}

void cm_timer_move(struct cm_id *id, struct cm_channel *from, struct cm_channel *to)
{
    struct cm_ids *queue;
    struct cm_id *before;

    if (id->timeout == CM_NO_TIMEOUT)
        return;
    TAILQ_REMOVE(&from->timeouts[id->timeout], id, timed);
    queue = &to->timeouts[id->timeout];
    before = TAILQ_LAST(queue, cm_ids);
    while (before != NULL && before->deadline > id->deadline)
        before = TAILQ_PREV(before, cm_ids, timed);
    if (before == NULL)
        TAILQ_INSERT_HEAD(queue, id, timed);
    else
        TAILQ_INSERT_AFTER(queue, before, id, timed);
    arm_timer(to, id->deadline);
}

struct cm_id *cm_timer_expired(struct cm_channel *channel, uint64_t now)
{
    uint64_t next = NEVER_NS;

    for (int timeout = 0; timeout < CM_TIMEOUTS; timeout++) {
        struct cm_id *id = TAILQ_FIRST(&channel->timeouts[timeout]);

        if (id == NULL)
            continue;
        if (id->deadline <= now) {
            cm_timer_stop(id);
            return id;
        }
        if (id->deadline < next)
            next = id->deadline;
    }
    waitset_time(&channel->waits, next);
    return NULL;
}
