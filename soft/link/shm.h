/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm.h - the software device's link between two processes of one host: packets without an ICRC, in rings of memory
 * that both processes have mapped (shm_ring.h). shm_setup.h describes how the two processes find each other.
 *
 * Wake-ups. A context has one eventfd (`wakefd`), which all its peers write to; completion channels and the service
 * thread watch it as they watch a socket: readable means that the context should be polled. A receiver that has
 * emptied a ring sets the ring's need-wakeup flag, and the next sender clears the flag and writes the eventfd. Each
 * cleared flag produces exactly one write, so the receiver knows how many writes it has not read yet (`owed`), and
 * skips read(2) on the eventfd while there are none. A receiver that busy-polls leaves the flags of peers without a
 * slot clear, because it polls their rings again soon, and does not read the eventfd. It sets the flags before it
 * sleeps (shm_watch()); if it stops polling without sleeping, the service thread sets them.
 *
 * Polling. A context polls the rings of its first SHM_UNSLOTTED peers each time. Each further peer has a slot, which is
 * a bit number in the context's notification bitmap (shm_bitmap.h), and its ring is polled only if the peer has set the
 * bit or the ring was not empty at the end of the last poll. The cost of a poll therefore depends on the number of
 * active peers, not of all peers.
 *
 * Trust. A peer can do no more than the packets of its queue pair could. The memory is sealed, so the peer can't
 * truncate it. A ring with invalid contents is marked broken and its queue pair goes to the error state. A ring that
 * the peer does not empty is full, and the queue pair's timeouts handle that. A peer is always a process of the same
 * user, because it has the eventfd, too.
 */
#ifndef SOFT_SHM_H
#define SOFT_SHM_H

#include <stdint.h>
#include <sys/queue.h>
#include "soft/engine/wire.h"
#include "soft/service/service.h"
#include "shm_wakefd.h"
#include "shm_bitmap.h"
#include "shm_ring.h"

/* Bytes of payload in a packet: so long that packets are few, and so short that the copies of sender and receiver
 * overlap and stay in the cache. */
#define SHM_MTU 65536
#define SHM_PEERS SHM_SLOTS /* maximum number of a context's peers */
#define SHM_UNSLOTTED 8 /* maximum number of peers without a slot: with more peers the context has a bitmap */
#define SHM_LOOKS_AGAIN 32 /* checks of the rings in one busy poll; they take little longer than a call does */

/* The memory that both processes have mapped. Direction 0 is from the process that created it. */
struct shm_area {
    struct shm_control control[2];
    _Alignas(4096) uint8_t bytes[2][SHM_RING_BYTES];
};

/* A context's part of the link. Part of its struct soft_home; guarded by the context's lock. */
struct shm {
    struct ibv_context *context;
    struct service_member *service;
    bool ready; /* the eventfd exists and is watched */
    int wakefd; /* the eventfd that peers write to */
    /* At least one need-wakeup flag is clear: the thread that polls must set it before it sleeps. */
    bool unwatched;
    /* Number of writes to the eventfd that were made or are about to be made, and that this context has not read.
     * Negative only within a poll, if the eventfd was read before the peer that wrote it was found. */
    int64_t owed;
    /* The peers whose rings are polled: all without a slot, and those with a slot that have set their bit or have more
     * packets. */
    TAILQ_HEAD(shm_peers, shm_peer)
    looked_at;
    LIST_HEAD(, shm_peer) unnotified; /* peers that were not woken yet for packets in their ring */
    unsigned count, most;             /* number of peers, and its maximum: SHM_PEERS, except in a test */
    struct shm_slots *slots;          /* NULL: there is no bitmap yet */
};

/* The link of one queue pair to its peer. The caller of shm_peer_new() owns it until shm_assign(). From then on the
 * path that names its link owns it, and the link's leave() frees it. */
struct shm_peer {
    struct soft_link link; /* first */
    struct soft_path path; /* names `link`; the engine gets the peer's packets with this path */
    struct shm *shm;       /* set by shm_assign() */
    struct shm_area *area;
    struct shm_ring out, in; /* the two directions */
    bool looked_at;          /* on the context's list `looked_at` */
    bool failed;             /* a ring is broken, and the queue pair has been put into the error state */
    struct shm_slots *slots; /* the slots of this context, of which the peer has `slot`; NULL: it has none */
    int slot;
    struct shm_wakefd *wakefd; /* the peer's eventfd; NULL: not known yet */
    /* The peer's bitmap, in which this end has the slot `slot_there`; NULL: it has none. */
    struct shm_bitmap *bitmap;
    unsigned slot_there;
    /* On the connecting side, until the listener has answered, else -1: the unix socket, the descriptor of the shared
     * memory, and a descriptor that is reserved for the peer's bitmap. */
    int setup, memory, spare;
    /* Bytes sent since the peer was last woken; more than 0 if the peer is on the list `unnotified`. */
    size_t unnotified_bytes;
    TAILQ_ENTRY(shm_peer) looks;
    LIST_ENTRY(shm_peer) unnotified;
};

void shm_init(struct shm *shm, struct ibv_context *context, struct service_member *service);
/* Prepares for one more peer: creates the eventfd for the first one, and the bitmap for the one after SHM_UNSLOTTED;
 * both stay. Peers of this process that no context has yet are counted as this context's. Returns 0 or an errno, EUSERS
 * at the maximum. (locked) */
int shm_prepare(struct shm *shm);
/* In the child of a fork: forgets the parent's peers, eventfds and deferred closes. */
void shm_forget(void);
/* Frees the resources of the context's part, when the context is closed. */
void shm_end(struct shm *shm);

/* Makes a peer. It owns the mapped memory `area`; `maker`: this process created that memory. The peer gets a slot of
 * `slots`, or none if `slots` is NULL. Returns NULL and errno on failure. */
struct shm_peer *shm_peer_new(struct shm_slots *slots, struct shm_area *area, bool maker);
/* Frees the peer with all its resources. After shm_join() the link's leave() does that. */
void shm_peer_free(struct shm_peer *peer);
/* Adds the peer to this context; a path is about to name its link. Both eventfds must be known. (not locked) */
void shm_assign(struct shm *shm, struct shm_peer *peer);
/* Called when the queue pair can receive: from now on the peer's ring is polled. (not locked) */
void shm_join(struct shm_peer *peer);

/* Callbacks of struct soft_wire. (locked) */
/* Polls the rings. Returns the number of packets. `hears`: read the eventfd; otherwise it stays readable for a later
 * poll. `watches`: set the need-wakeup flag of each ring that is empty; otherwise the flags of peers without a slot
 * stay clear, and the caller must soon poll again or call shm_watch(). */
int shm_receive(struct shm *shm, bool hears, bool watches);
/* Sets the need-wakeup flags that are clear. */
void shm_watch(struct shm *shm);
/* Called when a step of the engine has ended: wakes the peers on the list `unnotified`. */
void shm_sent(struct shm *shm);

/* ---- Between the link's own files (locked) ----------------------------------------------------- */

/* Callbacks of struct soft_link. */
uint8_t *shm_link_room(struct soft_link *link, size_t size, size_t *limit);
void shm_link_send(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
                   size_t stride);
/* Add the peer to the context's list `looked_at`, and remove it. */
void shm_look_at(struct shm_peer *peer);
void shm_look_no_more(struct shm_peer *peer);
/* Called after packets were put into the peer's ring: wakes the peer if its need-wakeup flag is set. */
void shm_notify_peer(struct shm_peer *peer);

#endif
