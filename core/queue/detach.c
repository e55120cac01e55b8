/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * detach.c - ends the attachment of a home to a host (attach.c) when the host has no use for it any more.
 *
 * A use is an operation or a poll whose event goes to the host and whose socket the home drives; an accept of the host
 * that is pending at a listener; or a socket that the host owns and the home drives. For the queue of the progress
 * thread, pending sends are a use (progress.c). Uses are counted in the attachment. If an unused attachment stayed,
 * connections would wake the host needlessly, and hosts that used the home once would use up the number of epolls that
 * the kernel lets watch its descriptors.
 *
 * An attachment without a use is kept for a while, because a loop that starts one operation after the other would
 * have to make it again each time. After that the next turn of the host ends it, or another queue that starts to
 * watch the same home. If the kernel's limits permit no further queue to watch the home, unused attachments end at
 * once.
 */
#include "core/base/clock.h"
#include "queue.h"

#define KEPT_NS (NS_PER_S / 100) /* time that an attachment is kept after its last use */
#define DETACHED_AT_ONCE 16      /* attachments detached in one pass */

void xs_attachment_use(struct attachment *attachment, int change)
{
    struct queue *host = attachment->host;
    bool was_idle = attachment->uses == 0;

    attachment->uses += change;
    if (was_idle && attachment->uses > 0) {
        TAILQ_REMOVE(&host->attached.idle, attachment, of_idle);
    } else if (!was_idle && attachment->uses == 0) {
        attachment->idle_since = now_ns();
        TAILQ_INSERT_TAIL(&host->attached.idle, attachment, of_idle);
    }
}

void xs_attachment_use_unlocked(struct attachment *attachment, int change)
{
    mutex_lock(&attachment->host->events.lock);
    xs_attachment_use(attachment, change);
    mutex_unlock(&attachment->host->events.lock);
}

void xs_attachment_unuse(struct attachment *attachment)
{
    mutex_lock(&attachment->host->events.lock);
    xs_attachment_use(attachment, -attachment->uses);
    mutex_unlock(&attachment->host->events.lock);
}

/* Called with the host's events.lock. */
static bool was_kept_long(const struct attachment *attachment, uint64_t now)
{
    return attachment->uses == 0 && now - attachment->idle_since >= KEPT_NS;
}

bool xs_has_idle_attachments(const struct queue *host)
{
    const struct attachment *first = TAILQ_FIRST(&host->attached.idle);

    return first != NULL && was_kept_long(first, now_ns());
}

/* Is the attachment unused? Called with the lock of its `home`, under which no use can be added. */
static bool is_unused(struct attachment *attachment, bool at_once)
{
    mutex_lock(&attachment->host->events.lock);
    bool is_unused = at_once ? attachment->uses == 0 : was_kept_long(attachment, now_ns());

    mutex_unlock(&attachment->host->events.lock);
    return is_unused;
}

bool xs_detach_idle_hosts(struct queue *home, bool at_once)
{
    struct attachment *attachment, *next;
    bool any = false;

    for (attachment = LIST_FIRST(&home->hosts.list); attachment != NULL; attachment = next) {
        next = LIST_NEXT(attachment, of_home);
        if (!is_unused(attachment, at_once))
            continue;
        xs_queue_unhost(attachment);
        any = true;
    }
    return any;
}

/* Find the attachments that have been idle for KEPT_NS, and take a reference to the `home` of each. Returns how
 * many. */
static int find_idle(struct queue *host, struct queue *homes[DETACHED_AT_ONCE])
{
    const struct attachment *attachment;
    uint64_t now = now_ns();
    int count = 0;

    mutex_lock(&host->events.lock);
    TAILQ_FOREACH (attachment, &host->attached.idle, of_idle) {
        if (count == DETACHED_AT_ONCE || !was_kept_long(attachment, now))
            break;
        xs_queue_ref(attachment->home);
        homes[count++] = attachment->home;
    }
    mutex_unlock(&host->events.lock);
    return count;
}

void xs_detach_idle_attachments(struct queue *host)
{
    struct queue *homes[DETACHED_AT_ONCE];
    int count = find_idle(host, homes);

    for (int i = 0; i < count; i++) {
        struct queue *home = homes[i];

        mutex_lock(&home->lock);
        struct attachment *attachment = xs_queue_attachment(host, home);

        if (attachment != NULL && is_unused(attachment, false))
            xs_queue_unhost(attachment);
        xs_queue_unlock(home);
        xs_queue_unref(home);
    }
}
