/* SPDX-License-Identifier: BSD-2-Clause */
/* shm.c - sending and receiving packets through the rings of a context's peers, and the wake-ups between them. */
#include "core/base/copy.h"
#include "core/base/fds.h"
#include "core/base/log.h"
#include "shm.h"

#define UNNOTIFIED_MAX 262144          /* bytes that are put into a ring before its sleeping peer is woken */
#define BYTES_MAX (SHM_RING_BYTES / 2) /* maximum that one poll receives, with the context locked */
#define LOOK_MAX (SHM_RING_BYTES / 8)  /* the same for a caller that busy-polls */

/* ---- The eventfd ---- */

/* More writes than `owed` can count. A peer can add any number to the eventfd's counter. */
#define RINGS_MAX INT32_MAX

/* Reads the eventfd. Must be called before the rings are polled, because a write after the read announces packets that
 * this poll may not see. Returns whether the eventfd was written. *unexpected: there were more writes than `owed`, so
 * a peer has written whose ring was not polled yet. */
static bool drain_wakefd(struct shm *shm, bool *unexpected)
{
    uint64_t times = fds_flag_take(shm->wakefd);

    shm->owed -= times < RINGS_MAX ? (int64_t)times : RINGS_MAX;
    *unexpected = shm->owed < 0;
    return times > 0;
}

void shm_look_at(struct shm_peer *peer)
{
    if (!peer->looked_at)
        TAILQ_INSERT_TAIL(&peer->shm->looked_at, peer, looks);
    peer->looked_at = true;
}

void shm_look_no_more(struct shm_peer *peer)
{
    if (peer->looked_at)
        TAILQ_REMOVE(&peer->shm->looked_at, peer, looks);
    peer->looked_at = false;
}

/* ---- Sending ---- */

/* Counts a write to the eventfd. `rings`: a peer has cleared a flag of this end, and therefore writes the eventfd, or
 * has already. */
static void expect_ring(struct shm *shm, bool rings)
{
    shm->owed += rings;
}

/* Called when there is no space (`at` is NULL), or was none the last time. Sets the flag wants_room and then checks for
 * space again, because the peer may have emptied the ring in between. */
static __attribute__((noinline)) uint8_t *room_by_flag(struct shm_peer *peer, uint8_t *at, size_t size,
                                                       size_t *limit)
{
    struct shm_ring *out = &peer->out;

    if (at == NULL && !out->broken) {
        expect_ring(peer->shm, shm_ring_was_notified(out, &out->control->wants_room));
        if (!out->flagged)
            shm_ring_want_room(out);
        at = shm_ring_room(out, size, limit);
    }
    if (at != NULL)
        expect_ring(peer->shm, shm_ring_stay(out, &out->control->wants_room));
    if (out->broken && !peer->failed) { /* give_up() follows in the next poll, which must happen */
        shm_look_at(peer);
        shm_wakefd_ring(peer->shm->wakefd);
        peer->shm->owed++;
    }
    return at;
}

uint8_t *shm_link_room(struct soft_link *link, size_t size, size_t *limit)
{
    struct shm_peer *peer = (struct shm_peer *)link;
    struct shm_ring *out = &peer->out;
    uint8_t *at = shm_ring_room(out, size, limit);

    if (at == NULL || out->flagged)
        at = room_by_flag(peer, at, size, limit);
    link->full = at == NULL;
    link->far = false;
    if (size >= COPY_LONG)
        link->far = shm_ring_begin(out);
    return at;
}

/* Wakes a peer after this end has cleared one of its flags: sets this end's bit in its bitmap, and writes its
 * eventfd. */
static void notify_peer(struct shm_peer *peer)
{
    if (peer->bitmap != NULL)
        shm_bitmap_notify(peer->bitmap, peer->slot_there);
    shm_wakefd_ring(peer->wakefd->fd);
}

void shm_notify_peer(struct shm_peer *peer)
{
    if (peer->unnotified_bytes == 0)
        return;
    LIST_REMOVE(peer, unnotified);
    peer->unnotified_bytes = 0;
    if (shm_ring_needs_notify(&peer->out))
        notify_peer(peer);
}

void shm_sent(struct shm *shm)
{
    struct shm_peer *peer;

    while ((peer = LIST_FIRST(&shm->unnotified)) != NULL)
        shm_notify_peer(peer);
}

/* Waking a peer costs more than sending a batch, and the peer sleeps again as soon as its ring is empty. So it is
 * woken once for many batches: after UNNOTIFIED_MAX bytes, or by shm_sent() at the end of a pass. */
void shm_link_send(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
                   size_t stride)
{
    struct shm_peer *peer = (struct shm_peer *)link;

    (void)path, (void)burst; /* it is where shm_link_room() said */
    shm_ring_put(&peer->out, length, stride, link->ack);
    link->ack = 0;
    if (peer->unnotified_bytes == 0)
        LIST_INSERT_HEAD(&peer->shm->unnotified, peer, unnotified);
    peer->unnotified_bytes += length;
    service_traffic(peer->shm->service);
    if (peer->unnotified_bytes >= UNNOTIFIED_MAX)
        shm_notify_peer(peer);
}

/* If the engine found no space before, and there is space now, tells the engine. */
static void look_for_room(struct shm_peer *peer)
{
    size_t limit;

    if (peer->link.full && shm_link_room(&peer->link, SHM_MTU + SHM_ALIGN, &limit) != NULL)
        soft_link_drained(&peer->link);
}

/* ---- Receiving ---- */

/* Passes a batch to the engine; returns the number of packets. The acknowledgement is processed after the packets,
 * because some of them may be responses that precede it. */
static int deliver_burst(struct shm_peer *peer, const struct shm_burst *burst)
{
    int packets = 0;

    for (size_t at = 0; at < burst->length; at += burst->stride, packets++) {
        size_t left = burst->length - at;

        soft_input_shared(peer->shm->context, &peer->path, burst->bytes + at,
                          left < burst->stride ? left : burst->stride);
    }
    if (burst->ack != 0)
        soft_input_ack(&peer->link, burst->ack);
    return packets;
}

/* Like deliver_burst(), for a batch that is long enough to measure its copy. */
static __attribute__((noinline)) int give_timed(struct shm_peer *peer, const struct shm_burst *burst)
{
    uint64_t begun = shm_pace_begin(&peer->in.pace, burst->length) ? now_ns() : 0;
    int packets = deliver_burst(peer, burst);
    uint64_t took = begun != 0 ? shm_ring_took(burst) : 0;

    if (took != 0)
        shm_pace_took(&peer->in.pace, !shm_ring_went_far(burst), burst->length, took + now_ns() - begun);
    return packets;
}

/* Receives all batches in a ring, up to *budget bytes. */
static int empty_ring(struct shm_peer *peer, size_t *budget)
{
    struct shm_burst burst;
    int packets = 0;

    while (*budget > 0 && shm_ring_next(&peer->in, &burst)) {
        packets += burst.length >= SHM_PACE_MIN ? give_timed(peer, &burst) : deliver_burst(peer, &burst);
        *budget -= burst.whole < *budget ? burst.whole : *budget;
        if (shm_ring_taken(&peer->in, &burst))
            notify_peer(peer);
    }
    return packets;
}

/* Publishes this end's position in the incoming ring, and reads the peer's position in the outgoing one, so that both
 * ends know the free space. */
static void share_room(struct shm_peer *peer)
{
    if (shm_ring_tell(&peer->in))
        notify_peer(peer);
    shm_ring_see_room(&peer->out);
}

/* Polls one ring for a caller that polls again soon: the need-wakeup flag is cleared or stays clear. Positions are
 * exchanged only if there were no packets, because each exchange waits for a cache line of the other CPU. */
static int look_on(struct shm_peer *peer, size_t *budget)
{
    struct shm_ring *in = &peer->in;
    int packets = empty_ring(peer, budget);

    if (packets > 0)
        expect_ring(peer->shm, shm_ring_stay(in, &in->control->sleeps));
    else
        share_room(peer);
    peer->shm->unwatched = peer->shm->unwatched || !in->flagged;
    return packets;
}

/* Polls one ring and sets its need-wakeup flag when it is empty, unless the budget is used up first. */
static int poll_peer(struct shm_peer *peer, size_t *budget)
{
    struct shm *shm = peer->shm;
    struct shm_ring *in = &peer->in;
    int packets = empty_ring(peer, budget);

    while (!in->flagged && !in->broken && *budget > 0) {
        int more;

        shm_ring_sleep(in);
        if (shm_ring_is_empty(in))
            break;
        if ((more = empty_ring(peer, budget)) > 0)
            expect_ring(shm, shm_ring_stay(in, &in->control->sleeps));
        packets += more;
    }
    share_room(peer);
    return packets;
}

static void give_up(struct shm_peer *peer)
{
    if ((!peer->in.broken && !peer->out.broken) || peer->failed)
        return;
    peer->failed = peer->in.broken = peer->out.broken = true;
    xs_log("closing a connection: %s", peer->out.has_no_memory
                                           ? "the kernel has no memory for its shared memory"
                                           : "the peer has written an invalid value to shared memory");
    soft_link_failed(peer->shm->context, &peer->link);
}

static void poll_slot(void *arg, unsigned slot)
{
    struct shm *shm = arg;
    struct shm_peer *peer = shm->slots->slot_owner[slot];

    if (peer != NULL)
        shm_look_at(peer);
}

/* Takes the bits of the bitmap, and adds their peers to the list `looked_at`. Returns the number of bits. */
static unsigned take_calls(struct shm *shm)
{
    return shm->slots == NULL ? 0 : shm_bitmap_take(shm->slots->bitmap, poll_slot, shm);
}

/* Before the rings are polled: takes the bits of the bitmap, counts the flags that peers have cleared, and reads the
 * eventfd if it was or will be written. After that read it takes the bits again: a peer sets its bit before it writes,
 * so each write that was read has its bit taken. Returns the number of bits. */
static unsigned listen_for_calls(struct shm *shm, bool hears)
{
    unsigned calls = take_calls(shm);
    struct shm_peer *peer;
    bool unexpected;

    TAILQ_FOREACH (peer, &shm->looked_at, looks)
        expect_ring(shm, shm_ring_was_notified(&peer->in, &peer->in.control->sleeps));
    if (hears && shm->owed > 0 && drain_wakefd(shm, &unexpected))
        calls += take_calls(shm);
    return calls;
}

/* Polls the rings on the list. A peer that uses up the budget goes to the end of the list. A peer with a slot leaves
 * the list when its flag is set and its ring is empty. */
static int look_at_all(struct shm *shm, size_t *budget, bool watches)
{
    struct shm_peer *peer, *next;
    int packets = 0;

    shm->unwatched = false;

    for (peer = TAILQ_FIRST(&shm->looked_at); peer != NULL; peer = next) {
        bool had_time = *budget > 0;

        expect_ring(shm, shm_ring_was_notified(&peer->in, &peer->in.control->sleeps));
        packets += watches || peer->slots != NULL ? poll_peer(peer, budget) : look_on(peer, budget);
        look_for_room(peer);
        give_up(peer);
        next = TAILQ_NEXT(peer, looks);
        if (peer->slots != NULL && ((peer->in.flagged && *budget > 0) || peer->failed)) {
            shm_look_no_more(peer);
        } else if (had_time && *budget == 0 && next != NULL) {
            shm_look_no_more(peer);
            shm_look_at(peer);
        }
    }
    return packets;
}

/* Whether any ring on the list has a batch. */
static bool has_come(struct shm *shm)
{
    struct shm_peer *peer;

    TAILQ_FOREACH (peer, &shm->looked_at, looks) {
        if (!peer->failed && (!shm_ring_is_empty(&peer->in) || peer->in.broken))
            return true;
    }
    return false;
}

/* Checks the bitmap and the rings a few more times for a caller that busy-polls, without releasing and taking the locks
 * for each check. */
static int look_again(struct shm *shm, size_t *budget)
{
    for (int i = 0; i < SHM_LOOKS_AGAIN; i++)
        if (take_calls(shm) > 0 || has_come(shm))
            return look_at_all(shm, budget, false);
    return 0;
}

/* If no packets were found the eventfd may still be readable: a peer has freed space, or a peer has written it and then
 * disconnected. After an unexpected write without any bit all peers with a slot are polled. */
int shm_receive(struct shm *shm, bool hears, bool watches)
{
    size_t budget = watches ? BYTES_MAX : LOOK_MAX;
    unsigned calls = listen_for_calls(shm, hears);
    int packets = look_at_all(shm, &budget, watches);
    bool unexpected;

    if (packets == 0 && !watches)
        packets = look_again(shm, &budget);
    if (packets == 0 && hears && drain_wakefd(shm, &unexpected)) {
        calls += take_calls(shm);
        if (calls == 0 && unexpected && shm->slots != NULL)
            shm_slots_each(shm->slots, poll_slot, shm);
        packets = look_at_all(shm, &budget, watches);
    }
    if (shm->owed < 0) /* writes of a peer that cleared no flag */
        shm->owed = 0;
    if (budget == 0 && watches) {
        shm_wakefd_ring(shm->wakefd);
        shm->owed++;
    } else if (budget == 0) {
        shm->unwatched = true;
    }
    if (packets > 0)
        service_traffic(shm->service);
    return packets;
}

void shm_watch(struct shm *shm)
{
    struct shm_peer *peer;
    bool is_late = false;

    TAILQ_FOREACH (peer, &shm->looked_at, looks) {
        if (peer->in.flagged || peer->in.broken)
            continue;
        share_room(peer);
        shm_ring_sleep(&peer->in);
        is_late = is_late || !shm_ring_is_empty(&peer->in) || peer->in.broken;
    }
    shm->unwatched = false;
    if (is_late) {
        shm_wakefd_ring(shm->wakefd);
        shm->owed++;
    }
}
