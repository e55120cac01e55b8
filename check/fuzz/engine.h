/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h - two queue pairs of the embedded device on the virtual network, and what must hold whatever comes.
 *
 * The parts: engine.c does what the input says, step by step, engine_world.c makes the pair, engine_work.c
 * posts work, engine_packet.c builds packets that nobody sent, ledger.c counts work requests and their
 * completions.
 */
#ifndef CHECK_FUZZ_ENGINE_H
#define CHECK_FUZZ_ENGINE_H

#include "check/fuzz/input.h"
#include "check/support/endpoints.h"
#include "soft/engine/engine.h"

#define LOCKED 4096  /* bytes of a region that nobody may write: neither a peer nor, without the right, we */
#define MEMORY 16384 /* bytes of an end's region */

enum { WORKS = 200 }; /* posted in one run; fewer than a completion queue of the usual size holds */

/* One work request, from its post to its completion. */
struct work_entry {
    uint8_t end;                /* whose */
    bool receive, shared, owed; /* owed: a completion is, once its queue pair is in error */
    bool done;
    uint32_t length; /* of a receive */
};

/* All work requests of one run; wr_id is the place in it. */
struct ledger {
    struct work_entry entries[WORKS];
    unsigned count;
};

struct world {
    struct input input;
    struct pair *pair;
    struct ledger ledger;
    struct ibv_ah *ah[2]; /* of datagrams, to the other end; NULL where there are none */
    uint8_t *locked[2];   /* filled with GUARD_BYTE */
    struct ibv_mr *locked_mr[2];
    uint8_t *vanishing[2]; /* a file's memory, which */
    int files[2];          /* may be cut off, */
    struct ibv_mr *vanishing_mr[2];
    struct ibv_mr *spare[2]; /* comes and goes: a region over the same memory, or NULL */
    struct ibv_mw *mw[2];    /* binds come to it and go; NULL of datagrams */
    uint32_t stale;          /* the key of one that is gone */
    bool overflowed;         /* a completion queue is small on purpose: completions may be lost */
};

static inline struct end *world_end(struct world *world, unsigned number)
{
    return &world->pair->end[number & 1];
}

/* engine_world.c: the pair that the first bytes of the input ask for, with the ways they leave to it; and its
 * end, when nothing may have been written where it must not. */
void world_open(struct world *world, const uint8_t *data, size_t size);
void world_close(struct world *world);
/* A new window in place of the end's, which keeps a region from going. */
void world_renew_window(struct world *world, unsigned number);

/* engine_work.c: that end posts one work request, or one receive. */
void work_send(struct world *world, unsigned number);
void work_receive(struct world *world, unsigned number);

/* engine_packet.c: a packet for one of the ends, much like one that it expects. */
void packet_inject(struct world *world);
/* A key of that end, most likely the right one. */
uint32_t packet_key(struct world *world, unsigned number);
/* Instead of the key of the end's memory, that of the region which the address is in: a right that is missing
 * is then all that forbids it. */
uint32_t packet_fitting_key(const struct world *world, unsigned number, uint64_t address, uint32_t key);
/* An address in its memory, most likely. */
uint64_t packet_address(struct world *world, unsigned number);

/* ledger.c: the next work request's number; its entry is in `entry`, NULL when there are enough. */
struct work_entry *ledger_add(struct ledger *ledger, uint64_t *id);
void ledger_forget(struct ledger *ledger, uint64_t from); /* those were not accepted */
/* The end's queue pair is new, or reset: nothing of what it held is owed. */
void ledger_waive(struct ledger *ledger, unsigned end);
void ledger_poll(struct world *world, unsigned end, int most);
void ledger_expect_settled(struct world *world, unsigned end);

#endif
