/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_world.h - the connection manager between its user, who does what the input says, and strangers on loopback
 * TCP.
 *
 * The parts: cm.c does the steps, cm_user.c is the user's side and keeps account of his identifiers,
 * cm_stranger.c is the other side, cm_system.c the clock and the system calls, which do as the input says too.
 * With CM_ROCE there is cm_adapter.c beside the strangers, who talk as adapters do, at the port of cm_port.c.
 */
#ifndef CHECK_FUZZ_CM_WORLD_H
#define CHECK_FUZZ_CM_WORLD_H

#include "check/fuzz/input.h"
#include "check/support/cmpeer.h"
#include "check/support/endpoints.h"
#include "soft/cm/cm_id.h"
#include "soft/verbs/verbs.h"

enum { CM_USERS = 8, CM_STRANGERS = 8, CM_CHANNELS = 2, CM_HELD = 4, CM_HALF_OPEN_MAX = 256 };

/* An identifier that the user has, and what he may still be told of it. */
struct user {
    struct rdma_cm_id *id; /* NULL: this place is free */
    struct ibv_pd *pd;
    bool active;
    bool address, route; /* asked for, and not yet answered */
    bool asked;          /* to connect, or to accept */
    bool told;           /* what came of that */
    bool ended, over;
};

struct stranger {
    int fd;           /* -1: this place is free */
    struct said said; /* what he is saying, */
    size_t at;        /* and how much of it he has */
};

struct cm_world {
    struct input input;
    struct rdma_event_channel *channels[CM_CHANNELS];
    struct rdma_cm_id *listener;
    struct sockaddr_in address; /* the listener's */
    struct user users[CM_USERS];
    struct stranger strangers[CM_STRANGERS];
    int listening; /* a stranger's */
    struct sockaddr_in stranger_address;
    struct rdma_cm_event *held[CM_HELD]; /* not acknowledged yet */
    unsigned requests;                   /* that the user was told of */
    int silent;                          /* a connection that fills the stranger's listener; -1: none */
};

/* cm_user.c */
void user_connect(struct cm_world *world);
void user_answer(struct cm_world *world); /* accept or reject */
void user_ends(struct cm_world *world);   /* disconnect, establish, destroy, migrate, set options */
void user_hears(struct cm_world *world, unsigned events);
void user_acknowledge(struct cm_world *world);
void user_destroy(struct cm_world *world, struct user *user);
void user_listen(struct cm_world *world);
void user_tries(struct cm_world *world); /* a channel and a listener of his own, which go again */
void user_expect_bounds(const struct cm_world *world);
void user_expect_counted(const struct cm_world *world, const struct soft_cm_counters *before);

/* cm_stranger.c */
void stranger_listens(struct cm_world *world);
void stranger_dials(struct cm_world *world);
void stranger_accepts(struct cm_world *world);
void stranger_speaks(struct cm_world *world, bool more);
void stranger_leaves(struct cm_world *world);
void stranger_floods(struct cm_world *world);
void strangers_go(struct cm_world *world);

/* cm_adapter.c */
void adapter_open(struct soft_home *home);
void adapter_begins(struct cm_world *world);
void adapter_acts(struct cm_world *world);
void adapter_hears(void); /* timers and all */
void adapter_ends(struct cm_world *world);

/* cm_system.c: how much one send or recv of the library takes (SIZE_MAX: all). */
extern size_t system_send_most, system_recv_most;
/* Where a name leads that is connected to; NULL: to itself. */
extern const struct sockaddr *(*system_leads)(const struct sockaddr *address, socklen_t *length);
void system_begin(void);       /* all as it is without us; before the first channel */
void system_pass(uint64_t ns); /* time, and what its timers do */

#endif
