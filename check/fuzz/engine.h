/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h - two queue pairs of the software device on the virtual network, and what must hold for every input.
 *
 * engine.c does the steps that the input says, engine_world.c creates the pair, engine_work.c posts work requests,
 * engine_packet.c builds forged packets, and ledger.c checks work requests and their completions.
 */
#ifndef CHECK_FUZZ_ENGINE_H
#define CHECK_FUZZ_ENGINE_H

#include "check/fuzz/input.h"
#include "check/support/endpoints.h"
#include "soft/engine/engine.h"

#define LOCKED 4096  /* bytes of a region without write permission */
#define MEMORY 16384 /* bytes of an end's region */

enum { WORKS = 200 }; /* posted in one run; fewer than a completion queue of the default size holds */

/* One work request, from posting to completion. */
struct work_entry {
    uint8_t end;                /* the end that posted it */
    bool receive, shared, owed; /* owed: a completion is required once its queue pair is in the error state */
    bool done;
    uint32_t length; /* of a receive */
};

/* All work requests of one run; wr_id is the index. */
struct ledger {
    struct work_entry entries[WORKS];
    unsigned count;
};

struct world {
    struct input input;
    struct pair *pair;
    struct ledger ledger;
    struct ibv_ah *ah[2]; /* of UD, to the other end; NULL otherwise */
    uint8_t *locked[2];   /* filled with GUARD_BYTE */
    struct ibv_mr *locked_mr[2];
    uint8_t *vanishing[2]; /* a mapped file */
    int files[2];          /* may be truncated */
    struct ibv_mr *vanishing_mr[2];
    struct ibv_mr *spare[2]; /* a second region of the same memory, or NULL */
    struct ibv_mw *mw[2];    /* bound and invalidated by requests; NULL with UD */
    uint32_t stale;          /* the key of a deregistered one */
    bool overflowed;         /* a completion queue is small on purpose, so completions may be lost */
};

static inline struct end *world_end(struct world *world, unsigned number)
{
    return &world->pair->end[number & 1];
}

/* engine_world.c: world_open() creates the pair that the first bytes of the input describe; world_close() checks that
 * no memory was written without permission. */
void world_open(struct world *world, const uint8_t *data, size_t size);
void world_close(struct world *world);
/* Replaces the end's window by a new one, because a bound window prevents deregistration. */
void world_renew_window(struct world *world, unsigned number);

/* engine_work.c: this end posts one send request, or one receive. */
void work_send(struct world *world, unsigned number);
void work_receive(struct world *world, unsigned number);

/* engine_packet.c: a packet for one of the ends, similar to one that it expects. */
void packet_inject(struct world *world);
/* A key of that end, most likely the right one. */
uint32_t packet_key(struct world *world, unsigned number);
/* Returns the key of the region that contains the address, instead of the key of the end's memory, so that only a
 * missing permission can forbid the access. */
uint32_t packet_fitting_key(const struct world *world, unsigned number, uint64_t address, uint32_t key);
/* An address in its memory, most likely. */
uint64_t packet_address(struct world *world, unsigned number);

/* ledger.c: stores the next work request's ID, and returns its entry, or NULL if there are enough. */
struct work_entry *ledger_add(struct ledger *ledger, uint64_t *id);
void ledger_forget(struct ledger *ledger, uint64_t from); /* they were refused */
/* The end's queue pair is new or was reset: none of its requests requires a completion. */
void ledger_waive(struct ledger *ledger, unsigned end);
void ledger_poll(struct world *world, unsigned end, int most);
void ledger_expect_settled(struct world *world, unsigned end);

#endif
