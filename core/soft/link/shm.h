/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm.h - the link of the embedded device between two processes of one host: packets without a check, in rings
 * of memory that both have mapped (shm_ring.h). How two find each other is in shm_meet.h.
 *
 * A context has one bell, an eventfd, which all its peers ring; to its completion channels and to the service
 * thread it is what a socket is: readable means that somebody should look. Whoever has looked into a ring and
 * found it empty has its flag up, so whatever is put there then rings. A bell is rung once for each flag that
 * was taken down, so it is known how often it is to be heard (`owed`), and who was just looking need not ask
 * the kernel. Whoever polls leaves the flags of the seatless down, into whose rings he looks again soon, and the
 * bell unheard; when he says that he sleeps the flags go up (shm_watch), and when he doesn't come for a while the
 * service thread sees to it.
 *
 * A context looks into the rings of its first few peers at each look. With more, each further one has a seat at
 * a board (shm_board.h), and its ring is looked into when it has called, or was not empty at the end of the
 * last look: so a look costs what there is to do, not what there is.
 *
 * What the peer may do to us: nothing but what its own queue pair's packets may. The memory can't be cut short,
 * for it is sealed; a ring with lies in it is broken, and its queue pair in error; one that is not emptied is
 * full, and the queue pair's time-outs see to it. Only a process of our own user is a peer here: it holds the
 * bell, too.
 */
#ifndef SOFT_SHM_H
#define SOFT_SHM_H

#include <stdint.h>
#include <sys/queue.h>
#include "core/soft/engine/wire.h"
#include "core/soft/service/service.h"
#include "shm_bell.h"
#include "shm_board.h"
#include "shm_ring.h"

#define SHM_MTU 65536       /* bytes: few packets; copying in and copying out overlap, and stay in cache */
#define SHM_PEERS SHM_SEATS /* of a context, at most */
#define SHM_SEATLESS 8      /* that are looked at, at each look: only with more there is a board */
#define SHM_LOOKS_AGAIN 32  /* of who polls, in one; together not much longer than what they spare */

/* What two have mapped; direction 0 is from the one who made it. */
struct shm_area {
    struct shm_control control[2];
    _Alignas(4096) uint8_t bytes[2][SHM_RING_BYTES];
};

/* Part of a context's home; guarded by the context's lock. */
struct shm {
    struct ibv_context *context;
    struct service_member *service;
    bool ready; /* the bell is there, and watched */
    int bell;
    bool unwatched; /* a flag is down, and whoever looks no more has to put it up */
    int64_t owed;   /* times that it has been rung, or is about to be, and was not heard; less than 0 within a
                     * look: heard before it was seen who rang */
    TAILQ_HEAD(shm_peers, shm_peer)
    looked_at;                      /* the seatless, and of the others those who have called or have more */
    LIST_HEAD(, shm_peer) uncalled; /* whose trains were told, and whose bells were not rung */
    unsigned count, most;           /* of peers; most: SHM_PEERS, but in a test */
    struct shm_seats *seats;        /* NULL: there is no board yet */
};

/* A queue pair's way to its peer. Whoever makes it owns it, until shm_assign: then the path that names its
 * link. */
struct shm_peer {
    struct soft_link link; /* first */
    struct soft_path path; /* by it: what its packets come on */
    struct shm *shm;       /* from shm_assign on */
    struct shm_area *area;
    struct shm_ring out, in;
    bool looked_at;          /* it is of those */
    bool failed;             /* it has lied */
    struct shm_seats *seats; /* where it has its seat; NULL: it is seatless */
    int seat;
    struct shm_bell *bell;   /* the peer's; NULL: not known yet */
    struct shm_board *board; /* the peer's, where we have this seat; NULL: it has none for us */
    unsigned seat_there;
    int meeting, memory,
        spare;             /* of one who offers, until it is answered; else -1. Spare: a place for the board */
    size_t uncalled_bytes; /* told since its bell was seen to; more than 0: it is of the uncalled */
    TAILQ_ENTRY(shm_peer) looks;
    LIST_ENTRY(shm_peer) uncalled;
};

void shm_init(struct shm *shm, struct ibv_context *context, struct service_member *service);
/* For one peer more, if all that are under way in the process should become this context's: a bell, from the
 * first one on, and with many of them a board; both stay. 0 or an errno. (locked) */
int shm_prepare(struct shm *shm);
/* In the child of a fork: none is under way. */
void shm_forget(void);
/* The context is gone. */
void shm_end(struct shm *shm);

/* Of mapped memory; which end is ours? With a seat of these, or seatless: NULL. NULL and errno. */
struct shm_peer *shm_peer_new(struct shm_seats *seats, struct shm_area *area, bool maker);
/* With all that it has. One that was joined goes by its link's leave(). */
void shm_peer_free(struct shm_peer *peer);
/* It is this context's, and about to be the link of a path. The bell is there, and so is the peer's. (not
 * locked) */
void shm_assign(struct shm *shm, struct shm_peer *peer);
/* The queue pair is ready for packets: nothing that comes may be lost. (not locked) */
void shm_join(struct shm_peer *peer);

/* As struct soft_wire has them. (locked) Who does not hear leaves the bell to be heard another time. Who does not
 * watch is not to be called by the seatless, at whose rings it looks again soon, or shm_watch() comes. */
int shm_receive(struct shm *shm, bool hears, bool watches);
void shm_watch(struct shm *shm);
void shm_sent(struct shm *shm);

/* ---- Between the link's own files (locked) ----------------------------------------------------- */

/* As struct soft_link has them. */
uint8_t *shm_link_room(struct soft_link *link, size_t size, size_t *limit);
void shm_link_send(struct soft_link *link, const struct soft_path *path, uint8_t *train, size_t length,
                   size_t stride);
/* At the next look; or at none. */
void shm_look_at(struct shm_peer *peer);
void shm_look_no_more(struct shm_peer *peer);
/* Of what was put there for it, before anything else is. */
void shm_call_peer(struct shm_peer *peer);

#endif
