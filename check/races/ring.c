/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring.c - the rings of shared memory and their wake-ups: shm.c with its rings and bitmaps, between contexts with one
 * thread each, like processes. A ring has space for two batches, so that senders also wait for space.
 */
#include <string.h>
#include "core/base/fds.h"
#include "core/base/settings.h"
#include "soft/link/shm.h"
#include "kernel.h"
#include "scenarios.h"

#undef SHM_RING_BYTES
#define SHM_RING_BYTES 128u
#undef SHM_MTU
#define SHM_MTU 48
#undef SHM_LOOKS_AGAIN
#define SHM_LOOKS_AGAIN 1
#undef SOFT_BURST_LONG
#define SOFT_BURST_LONG 48

#ifdef __clang__ /* in the library this file is the only one of its translation unit */
#pragma clang diagnostic ignored "-Wstatic-in-inline"
#endif
#include "soft/link/shm_ring.c"
#undef MASK
#include "soft/link/shm_bitmap.c"
#include "soft/link/shm.c"
#include "soft/link/shm_peer.c"

#define BURST 40  /* bytes; two of them fill a ring */
#define SLOTTED 2 /* peers of the context with a notification bitmap */

/* Contexts, each like a process; `there` has one peer for each thread that sends to it. */
static struct end {
    struct shm shm;
    struct service_member service;
    struct kernel_wakefd wakefd;
    unsigned took[SLOTTED], drained;
} here[SLOTTED], there;
static struct shm_peer out[SLOTTED], in[SLOTTED];
static struct shm_wakefd wakefds[1 + SLOTTED]; /* of `there`, and of each `here`; the index is the descriptor */
static struct shm_area areas[SLOTTED];
static struct shm_slots slots;
static struct shm_bitmap bitmap;

/* ---- Functions of other modules -------------------------------------------------------------- */

static struct kernel_wakefd *wakefd_of(int fd)
{
    return fd == 0 ? &there.wakefd : &here[fd - 1].wakefd;
}

void shm_wakefd_ring(int fd)
{
    wakefd_ring(wakefd_of(fd));
}

uint64_t fds_flag_take(int fd)
{
    return wakefd_hear(wakefd_of(fd));
}

/* Each packet contains its number, which must be the next one at this end. */
void soft_input_shared(struct ibv_context *context, const struct soft_path *path, const uint8_t *bytes,
                       size_t length)
{
    const struct shm_peer *peer = (const struct shm_peer *)path->link;
    struct end *end = context == there.shm.context ? &there : &here[peer - out];
    unsigned *took = &end->took[end == &there ? peer - in : 0];

    EXPECT(length == BURST && bytes[0] == *took && bytes[BURST - 1] == *took);
    ++*took;
}

void soft_link_drained(struct soft_link *link)
{
    here[(struct shm_peer *)link - out].drained++;
}

void soft_link_failed(struct ibv_context *context, const struct soft_link *link)
{
    (void)context, (void)link;
    race_fail("a ring is broken");
}

bool shm_sealed_populate(void *start, size_t length)
{
    (void)start, (void)length;
    return true;
}

const struct settings *settings(void)
{
    static const struct settings none;

    return &none;
}

/* ---- The ends -------------------------------------------------------------------------------- */

static void make_end(struct end *end, int wakefd)
{
    memset(end, 0, sizeof *end);
    wakefd_clear(&end->wakefd);
    atomic_store(&end->service.state, SERVICE_WATCH);
    shm_init(&end->shm, (struct ibv_context *)end, &end->service);
    end->shm.wakefd = wakefd;
}

static void make_peer(struct shm_peer *peer, struct end *end, struct shm_area *area, int wakefd, bool maker)
{
    int from = maker ? 0 : 1;

    memset(peer, 0, sizeof *peer);
    peer->link.room = shm_link_room;
    peer->link.send = shm_link_send;
    peer->path.link = &peer->link;
    peer->area = area;
    peer->out = (struct shm_ring){.control = &area->control[from], .bytes = area->bytes[from]};
    peer->in = (struct shm_ring){.control = &area->control[1 - from], .bytes = area->bytes[1 - from]};
    peer->shm = &end->shm;
    wakefds[wakefd].fd = wakefd;
    peer->wakefd = &wakefds[wakefd];
    shm_look_at(peer); /* as shm_join() does */
}

static void prepare_pairs(int pairs, bool slotted)
{
    memset(areas, 0, sizeof areas);
    memset(&bitmap, 0, sizeof bitmap);
    memset(&slots, 0, sizeof slots);
    slots.bitmap = &bitmap;
    make_end(&there, 0);
    if (slotted)
        there.shm.slots = &slots;
    for (int i = 0; i < pairs; i++) {
        make_end(&here[i], i + 1);
        make_peer(&out[i], &here[i], &areas[i], 0, true);
        make_peer(&in[i], &there, &areas[i], i + 1, false);
        if (!slotted)
            continue;
        in[i].slots = &slots;
        in[i].slot = shm_slot_reserve(&slots);
        slots.slot_owner[in[i].slot] = &in[i];
        out[i].bitmap = &bitmap;
        out[i].slot_there = (unsigned)in[i].slot;
    }
}

static void send_one(int pair, unsigned number)
{
    struct soft_link *link = &out[pair].link;
    size_t limit;
    uint8_t *at;

    while ((at = link->room(link, BURST, &limit)) == NULL) {
        shm_sent(&here[pair].shm);
        wakefd_sleep(&here[pair].wakefd);
        shm_receive(&here[pair].shm, true, true);
    }
    for (int i = 0; i < BURST; i += BURST - 1)
        at[i] = (uint8_t)number;
    link->send(link, NULL, at, BURST, BURST);
}

static void receive(unsigned most)
{
    while (there.took[0] + there.took[1] < most)
        if (shm_receive(&there.shm, true, true) == 0 && there.took[0] + there.took[1] < most)
            wakefd_sleep(&there.wakefd);
}

/* Like an application that busy-polls, and calls shm_watch() before it sleeps. */
static void receive_polling(unsigned most)
{
    while (there.took[0] + there.took[1] < most) {
        if (shm_receive(&there.shm, false, false) > 0)
            continue;
        shm_watch(&there.shm);
        wakefd_sleep(&there.wakefd);
        shm_receive(&there.shm, true, true);
    }
}

/* ---- Batches in one direction ---------------------------------------------------------------- */

static void prepare_one(void)
{
    prepare_pairs(1, false);
}

static void send_two_at_once(void)
{
    send_one(0, 0);
    send_one(0, 1);
    shm_sent(&here[0].shm);
}

static void send_two(void)
{
    send_one(0, 0);
    shm_sent(&here[0].shm);
    send_one(0, 1);
    shm_sent(&here[0].shm);
}

static void take_two(void)
{
    receive(2);
}

static void take_two_polling(void)
{
    receive_polling(2);
}

static void took_two(void)
{
    EXPECT(there.took[0] == 2);
}

/* ---- More batches than fit in a ring --------------------------------------------------------- */

static void send_three(void)
{
    for (unsigned i = 0; i < 3; i++)
        send_one(0, i);
    shm_sent(&here[0].shm);
}

/* Two batches are in the ring. */
static void prepare_full(void)
{
    prepare_one();
    send_two_at_once();
}

static void send_third(void)
{
    send_one(0, 2);
    shm_sent(&here[0].shm);
}

static void take_three(void)
{
    receive(3);
}

static void take_three_polling(void)
{
    receive_polling(3);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static void prepare_slot(void)
{
    prepare_pairs(1, true);
}

static void prepare_slots(void)
{
    prepare_pairs(2, true);
}

static void first_sends(void)
{
    send_one(0, 0);
    shm_sent(&here[0].shm);
}

static void second_sends(void)
{
    send_one(1, 0);
    shm_sent(&here[1].shm);
}

static void took_each(void)
{
    EXPECT(there.took[0] == 1 && there.took[1] == 1);
}

SCENARIOS({"ring", "two bursts, one wakefd", prepare_one, {send_two_at_once, take_two}, took_two, NULL},
          {"ring-twice", "two bursts, two wakefds", prepare_one, {send_two, take_two}, took_two, NULL},
          {"ring-polled",
           "two bursts, two wakefds, to one who polls",
           prepare_one,
           {send_two, take_two_polling},
           took_two,
           NULL},
          {"ring-slot-polled",
           "two bursts from a slot, to one who polls",
           prepare_slot,
           {send_two, take_two_polling},
           took_two,
           NULL},
          {"ring-room", "three bursts, where two have room", prepare_one, {send_three, take_three}, NULL, NULL},
          {"ring-room-polled",
           "three bursts, where two have room, to one who polls",
           prepare_full,
           {send_third, take_three_polling},
           NULL,
           NULL},
          {"ring-slot", "two bursts from a slot", prepare_slot, {send_two, take_two}, took_two, NULL},
          {"ring-slots",
           "a burst from each of two slots",
           prepare_slots,
           {first_sends, second_sends, take_two},
           took_each,
           NULL});
