/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_peer.c - creates and frees a context's part of the link, and its peers. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include "core/base/fds.h"
#include "shm.h"
#include "slow_close.h"

/* Number of peers of the process that shm_assign() has not added to a context yet. Relaxed: only a count, pairs with
 * nothing. */
static atomic_uint unassigned;

void shm_init(struct shm *shm, struct ibv_context *context, struct service_member *service)
{
    *shm = (struct shm){.context = context, .service = service, .wakefd = -1, .most = SHM_PEERS};
    TAILQ_INIT(&shm->looked_at);
    LIST_INIT(&shm->unnotified);
}

/* Creates the context's eventfd and has it watched. 0 or an errno. */
static int make_wakefd(struct shm *shm)
{
    struct soft_wire *wire = soft_wire_of(shm->context);
    int error = 0;

    if (wire->open != NULL && (error = wire->open(wire, shm->context)) != 0)
        return error;
    shm->wakefd = fds_own_private(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (shm->wakefd == -1)
        return errno;
    error = service_attach(shm->service, shm->wakefd);
    if (error != 0) {
        fds_close(shm->wakefd);
        shm->wakefd = -1;
    }
    shm->ready = error == 0;
    return error;
}

int shm_prepare(struct shm *shm)
{
    unsigned peers = shm->count + atomic_load_explicit(&unassigned, memory_order_relaxed);
    int error;

    if (peers >= shm->most)
        return EUSERS;
    if (!shm->ready && (error = make_wakefd(shm)) != 0)
        return error;
    if (peers >= SHM_UNSLOTTED && shm->slots == NULL && (shm->slots = shm_slots_new()) == NULL)
        return errno;
    return 0;
}

void shm_forget(void)
{
    atomic_store_explicit(&unassigned, 0, memory_order_relaxed);
    shm_wakefd_forget();
    slow_close_forget();
}

void shm_end(struct shm *shm)
{
    if (shm->wakefd != -1)
        fds_close(shm->wakefd);
    shm->wakefd = -1;
    if (shm->slots != NULL)
        shm_slots_leave(shm->slots);
    shm->slots = NULL;
}

/* ---- Peers ---- */

static void link_leave(struct soft_link *link)
{
    struct shm_peer *peer = (struct shm_peer *)link;

    shm_look_no_more(peer);
    if (peer->slots != NULL)
        peer->slots->slot_owner[peer->slot] = NULL;
    shm_notify_peer(peer);
    peer->shm->count--;
    shm_peer_free(peer);
}

/* Reserves a slot, unless `slots` is NULL. False and errno. */
static bool sit_down(struct shm_peer *peer, struct shm_slots *slots)
{
    if (slots == NULL)
        return true;
    peer->slot = shm_slot_reserve(slots);
    if (peer->slot != -1)
        peer->slots = slots;
    return peer->slot != -1;
}

struct shm_peer *shm_peer_new(struct shm_slots *slots, struct shm_area *area, bool maker)
{
    struct shm_peer *peer = calloc(1, sizeof *peer);
    unsigned out = maker ? 0 : 1, in = 1 - out;

    if (peer == NULL)
        return NULL;
    if (!sit_down(peer, slots)) {
        free(peer);
        return NULL;
    }
    peer->link = (struct soft_link){.name = "shm",
                                    .mtu = SHM_MTU,
                                    .lossless = true,
                                    .carries_ack = true,
                                    .room = shm_link_room,
                                    .send = shm_link_send,
                                    .leave = link_leave};
    peer->path.link = &peer->link;
    peer->area = area;
    peer->out = (struct shm_ring){.control = &area->control[out], .bytes = area->bytes[out]};
    peer->in = (struct shm_ring){.control = &area->control[in], .bytes = area->bytes[in]};
    peer->setup = peer->memory = peer->spare = -1;
    atomic_fetch_add_explicit(&unassigned, 1, memory_order_relaxed);
    return peer;
}

void shm_peer_free(struct shm_peer *peer)
{
    int fds[] = {peer->setup, peer->memory, peer->spare};

    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] != -1)
            fds_close(fds[i]);
    if (peer->shm == NULL)
        atomic_fetch_sub_explicit(&unassigned, 1, memory_order_relaxed);
    if (peer->slots != NULL)
        shm_slot_give_back(peer->slots, peer->slot);
    if (peer->wakefd != NULL)
        shm_wakefd_give_back(peer->wakefd);
    if (peer->bitmap != NULL)
        shm_bitmap_unmap(peer->bitmap);
    munmap(peer->area, sizeof *peer->area);
    free(peer);
}

void shm_assign(struct shm *shm, struct shm_peer *peer)
{
    soft_lock(shm->context);
    peer->shm = shm;
    shm->count++;
    atomic_fetch_sub_explicit(&unassigned, 1, memory_order_relaxed);
    soft_unlock(shm->context);
}

/* A poll before this did not know the peer, and may have read the eventfd's write for packets that had arrived already.
 * Hence the eventfd is written here, which causes another poll. */
void shm_join(struct shm_peer *peer)
{
    struct shm *shm = peer->shm;

    soft_lock(shm->context);
    if (peer->slots != NULL)
        peer->slots->slot_owner[peer->slot] = peer;
    shm_look_at(peer);
    shm->owed++;
    soft_unlock(shm->context);
    shm_wakefd_ring(shm->wakefd);
}
