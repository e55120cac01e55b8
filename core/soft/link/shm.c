/* SPDX-License-Identifier: BSD-2-Clause */
/* shm.c - the packets that go through the rings of a context's peers, and when the bell is rung and heard. */
#include <stdio.h>
#include "core/copy.h"
#include "core/fds.h"
#include "core/settings.h"
#include "shm.h"

#define UNCALLED_MAX 262144            /* bytes that a sleeping peer is not told of during a turn */
#define BYTES_MAX (SHM_RING_BYTES / 2) /* taken in while the context stays locked */
#define LOOK_MAX (SHM_RING_BYTES / 8)  /* the same of who looks again, after giving back what has come */

/* ---- The bell ---- */

/* More than anybody is owed. A peer can write any number there. */
#define RINGS_MAX INT32_MAX

/* Before looking: whoever rings after that has not been seen. It may still be on its way, to be heard at
 * another look. Has it been rung? And by somebody who did not owe that, as far as is known before his ring is
 * looked into? */
static bool hear(struct shm *shm, bool *unexpected)
{
    uint64_t times = fds_flag_take(shm->bell);

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

/* What is said of a flag that was up and that we take down, or find taken down: rings that are to come. */
static void expect_ring(struct shm *shm, bool rings)
{
    shm->owed += rings;
}

/* Where there is no room, or was none the last time: the flag first, and then once more, for the peer may have taken
 * everything in between. */
static __attribute__((noinline)) uint8_t *room_by_flag(struct shm_peer *peer, uint8_t *at, size_t size,
                                                       size_t *limit)
{
    struct shm_ring *out = &peer->out;

    if (at == NULL && !out->broken) {
        expect_ring(peer->shm, shm_ring_was_called(out, &out->control->wants_room));
        if (!out->flagged)
            shm_ring_want_room(out);
        at = shm_ring_room(out, size, limit);
    }
    if (at != NULL)
        expect_ring(peer->shm, shm_ring_stay(out, &out->control->wants_room));
    if (out->broken && !peer->failed) { /* to be given up at the next look, which must come */
        shm_look_at(peer);
        shm_bell_ring(peer->shm->bell);
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

/* One of its flags was up, and we have taken it down. */
static void call(struct shm_peer *peer)
{
    if (peer->board != NULL)
        shm_board_call(peer->board, peer->seat_there);
    shm_bell_ring(peer->bell->fd);
}

void shm_call_peer(struct shm_peer *peer)
{
    if (peer->uncalled_bytes == 0)
        return;
    LIST_REMOVE(peer, uncalled);
    peer->uncalled_bytes = 0;
    if (shm_ring_calls(&peer->out))
        call(peer);
}

void shm_sent(struct shm *shm)
{
    struct shm_peer *peer;

    while ((peer = LIST_FIRST(&shm->uncalled)) != NULL)
        shm_call_peer(peer);
}

/* To wake a peer costs us more than a train does, and it falls asleep again when it has taken what there is: so
 * it is called for many trains, or at the end of a turn. */
void shm_link_send(struct soft_link *link, const struct soft_path *path, uint8_t *train, size_t length,
                   size_t stride)
{
    struct shm_peer *peer = (struct shm_peer *)link;

    (void)path, (void)train; /* it lies where link_room said */
    shm_ring_put(&peer->out, length, stride, link->ack);
    link->ack = 0;
    if (peer->uncalled_bytes == 0)
        LIST_INSERT_HEAD(&peer->shm->uncalled, peer, uncalled);
    peer->uncalled_bytes += length;
    service_traffic(peer->shm->service);
    if (peer->uncalled_bytes >= UNCALLED_MAX)
        shm_call_peer(peer);
}

/* Is there room again for what found none? */
static void look_for_room(struct shm_peer *peer)
{
    size_t limit;

    if (peer->link.full && shm_link_room(&peer->link, SHM_MTU + SHM_ALIGN, &limit) != NULL)
        soft_link_drained(&peer->link);
}

/* ---- Receiving ---- */

/* The acknowledgement is behind the packets: some of them may be answers that come before it. */
static int give(struct shm_peer *peer, const struct shm_train *train)
{
    int packets = 0;

    for (size_t at = 0; at < train->length; at += train->stride, packets++) {
        size_t left = train->length - at;

        soft_input_shared(peer->shm->context, &peer->path, train->bytes + at,
                          left < train->stride ? left : train->stride);
    }
    if (train->ack != 0)
        soft_input_ack(&peer->link, train->ack);
    return packets;
}

/* One so long that it may be wanted to know how long it took to be copied. */
static __attribute__((noinline)) int give_timed(struct shm_peer *peer, const struct shm_train *train)
{
    uint64_t begun = shm_pace_begin(&peer->in.pace, train->length) ? now_ns() : 0;
    int packets = give(peer, train);
    uint64_t took = begun != 0 ? shm_ring_took(train) : 0;

    if (took != 0)
        shm_pace_took(&peer->in.pace, !shm_ring_went_far(train), train->length, took + now_ns() - begun);
    return packets;
}

/* What lies there, up to so many bytes. */
static int empty_ring(struct shm_peer *peer, size_t *budget)
{
    struct shm_train train;
    int packets = 0;

    while (*budget > 0 && shm_ring_next(&peer->in, &train)) {
        packets += train.length >= SHM_PACE_MIN ? give_timed(peer, &train) : give(peer, &train);
        *budget -= train.whole < *budget ? train.whole : *budget;
        if (shm_ring_taken(&peer->in, &train))
            call(peer);
    }
    return packets;
}

/* Each learns how far the other has come, and what is free therefore. */
static void share_room(struct shm_peer *peer)
{
    if (shm_ring_tell(&peer->in))
        call(peer);
    shm_ring_see_room(&peer->out);
}

/* Who looks at the next look, too, need not be called: the flag stays down, or is taken down. Of room
 * both learn when there is nothing else to do: a line of the cache that goes from one to the other is waited for. */
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

/* All of it; then the flag is up, unless the time is. */
static int look(struct shm_peer *peer, size_t *budget)
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
    if (settings()->debug)
        fprintf(stderr, "exs: a connection is ended because %s\n",
                peer->out.has_no_memory ? "the kernel has no memory for what goes through shared memory"
                                        : "its peer lies in shared memory");
    soft_link_failed(peer->shm->context, &peer->link);
}

static void called(void *arg, unsigned seat)
{
    struct shm *shm = arg;
    struct shm_peer *peer = shm->seats->sitting[seat];

    if (peer != NULL)
        shm_look_at(peer);
}

/* How many of those with a seat have called? */
static unsigned take_calls(struct shm *shm)
{
    return shm->seats == NULL ? 0 : shm_board_take(shm->seats->board, called, shm);
}

/* What is to be heard, so that nobody who has not been seen is heard: before the bell's other callers are
 * looked for. */
static unsigned listen_for_calls(struct shm *shm, bool hears)
{
    unsigned calls = take_calls(shm);
    struct shm_peer *peer;
    bool unexpected;

    TAILQ_FOREACH (peer, &shm->looked_at, looks)
        expect_ring(shm, shm_ring_was_called(&peer->in, &peer->in.control->sleeps));
    if (hears && shm->owed > 0 && hear(shm, &unexpected))
        calls += take_calls(shm);
    return calls;
}

/* Who used up the time of the others goes behind them. One whose flag is up calls for what comes, not for what there is. */
static int look_at_all(struct shm *shm, size_t *budget, bool watches)
{
    struct shm_peer *peer, *next;
    int packets = 0;

    shm->unwatched = false;

    for (peer = TAILQ_FIRST(&shm->looked_at); peer != NULL; peer = next) {
        bool had_time = *budget > 0;

        expect_ring(shm, shm_ring_was_called(&peer->in, &peer->in.control->sleeps));
        packets += watches || peer->seats != NULL ? look(peer, budget) : look_on(peer, budget);
        look_for_room(peer);
        give_up(peer);
        next = TAILQ_NEXT(peer, looks);
        if (peer->seats != NULL && ((peer->in.flagged && *budget > 0) || peer->failed)) {
            shm_look_no_more(peer);
        } else if (had_time && *budget == 0 && next != NULL) {
            shm_look_no_more(peer);
            shm_look_at(peer);
        }
    }
    return packets;
}

/* At anybody's ring, as far as can be seen without taking it. */
static bool has_come(struct shm *shm)
{
    struct shm_peer *peer;

    TAILQ_FOREACH (peer, &shm->looked_at, looks) {
        if (!peer->failed && (!shm_ring_is_empty(&peer->in) || peer->in.broken))
            return true;
    }
    return false;
}

/* Who polls is here again at once, but for locks: what comes before that is found where they are held. */
static int look_again(struct shm *shm, size_t *budget)
{
    for (int i = 0; i < SHM_LOOKS_AGAIN; i++)
        if (has_come(shm))
            return look_at_all(shm, budget, false);
    return 0;
}

/* Where nothing came the bell may have been rung all the same: for room, or by somebody who is gone. An
 * unexpected one, and nobody's bit: all are looked into. */
int shm_receive(struct shm *shm, bool hears, bool watches)
{
    size_t budget = watches ? BYTES_MAX : LOOK_MAX;
    unsigned calls = listen_for_calls(shm, hears);
    int packets = look_at_all(shm, &budget, watches);
    bool unexpected;

    if (packets == 0 && !watches)
        packets = look_again(shm, &budget);
    if (packets == 0 && hears && hear(shm, &unexpected)) {
        calls += take_calls(shm);
        if (calls == 0 && unexpected && shm->seats != NULL)
            shm_seats_each(shm->seats, called, shm);
        packets = look_at_all(shm, &budget, watches);
    }
    if (shm->owed < 0) /* rings of nobody whose flag was up */
        shm->owed = 0;
    if (budget == 0 && watches) {
        shm_bell_ring(shm->bell);
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
        shm_bell_ring(shm->bell);
        shm->owed++;
    }
}
