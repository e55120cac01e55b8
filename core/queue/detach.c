/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * detach.c - ends the attachment of a guest to a host (guest.c) when the host has no use for it any more.
 *
 * A use is an operation or a poll whose event goes to the host; an accept of the host that is pending at a listener;
 * or a socket that the host owns and whose home is the guest. For the queue of the progress thread, pending sends are
 * a use (progress.c). The host counts them. Without a use, connections would wake the host needlessly, and queues
 * that were used once would occupy the guest's descriptors and the kernel's limits.
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

void xs_guest_use(struct guest *guest, int change)
{
    struct queue *host = guest->host;
    bool was_idle = guest->uses == 0;

    guest->uses += change;
    if (was_idle && guest->uses > 0) {
        TAILQ_REMOVE(&host->idle, guest, of_idle);
    } else if (!was_idle && guest->uses == 0) {
        guest->idle_since = now_ns();
        TAILQ_INSERT_TAIL(&host->idle, guest, of_idle);
    }
}

void xs_guest_use_unlocked(struct guest *guest, int change)
{
    mutex_lock(&guest->host->events_lock);
    xs_guest_use(guest, change);
    mutex_unlock(&guest->host->events_lock);
}

void xs_guest_unuse(struct guest *guest)
{
    mutex_lock(&guest->host->events_lock);
    xs_guest_use(guest, -guest->uses);
    mutex_unlock(&guest->host->events_lock);
}

/* Called with the host's events_lock. */
static bool was_kept_long(const struct guest *guest, uint64_t now)
{
    return guest->uses == 0 && now - guest->idle_since >= KEPT_NS;
}

bool xs_has_idle_guests(const struct queue *host)
{
    const struct guest *first = TAILQ_FIRST(&host->idle);

    return first != NULL && was_kept_long(first, now_ns());
}

/* Is the attachment unused? Called with the lock of its `home`, under which no use can be added. */
static bool is_unused(struct guest *guest, bool at_once)
{
    mutex_lock(&guest->host->events_lock);
    bool is_unused = at_once ? guest->uses == 0 : was_kept_long(guest, now_ns());

    mutex_unlock(&guest->host->events_lock);
    return is_unused;
}

bool xs_detach_idle_hosts(struct queue *home, bool at_once)
{
    struct guest *guest, *next;
    bool any = false;

    for (guest = LIST_FIRST(&home->hosts); guest != NULL; guest = next) {
        next = LIST_NEXT(guest, of_home);
        if (!is_unused(guest, at_once))
            continue;
        xs_queue_unhost(guest);
        any = true;
    }
    return any;
}

/* Find the attachments that have been idle for KEPT_NS, and take a reference to the `home` of each. Returns how
 * many. */
static int find_idle(struct queue *host, struct queue *homes[DETACHED_AT_ONCE])
{
    const struct guest *guest;
    uint64_t now = now_ns();
    int count = 0;

    mutex_lock(&host->events_lock);
    TAILQ_FOREACH (guest, &host->idle, of_idle) {
        if (count == DETACHED_AT_ONCE || !was_kept_long(guest, now))
            break;
        xs_queue_ref(guest->home);
        homes[count++] = guest->home;
    }
    mutex_unlock(&host->events_lock);
    return count;
}

void xs_detach_idle_guests(struct queue *host)
{
    struct queue *homes[DETACHED_AT_ONCE];
    int count = find_idle(host, homes);

    for (int i = 0; i < count; i++) {
        struct queue *home = homes[i];

        mutex_lock(&home->lock);
        struct guest *guest = xs_queue_guest(host, home);

        if (guest != NULL && is_unused(guest, false))
            xs_queue_unhost(guest);
        xs_queue_unlock(home);
        xs_queue_unref(home);
    }
}
