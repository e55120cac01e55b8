/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_world.h - the connection manager between its application ("user") and untrusted peers ("strangers") on loopback
 * TCP, both of which do what the input says.
 *
 * cm.c contains the steps, cm_user.c the application, which records the state of its identifiers, cm_stranger.c the
 * peers, and cm_system.c the clock and the system calls. With CM_ROCE, cm_adapter.c adds peers that behave like
 * adapters, at the port of cm_port.c.
 */
#ifndef CHECK_FUZZ_CM_WORLD_H
#define CHECK_FUZZ_CM_WORLD_H

#include "check/fuzz/input.h"
#include "check/support/cmpeer.h"
#include "check/support/endpoints.h"
#include "soft/cm/cm_id.h"
#include "soft/verbs/verbs.h"

enum { CM_USERS = 8, CM_STRANGERS = 8, CM_CHANNELS = 2, CM_HELD = 4, CM_HALF_OPEN_MAX = 256 };

/* An identifier of the application, and the events that it may still get. */
struct user {
    struct rdma_cm_id *id; /* NULL: this slot is free */
    struct ibv_pd *pd;
    bool active;
    bool address, route; /* resolution was requested, and not yet answered */
    bool asked;          /* to connect, or to accept */
    bool told;           /* its result was delivered */
    bool ended, over;
};

struct stranger {
    int fd;           /* -1: this slot is free */
    struct said said; /* the message being sent, */
    size_t at;        /* and how much of it was sent */
};

struct cm_world {
    struct input input;
    struct rdma_event_channel *channels[CM_CHANNELS];
    struct rdma_cm_id *listener;
    struct sockaddr_in address; /* of the listener */
    struct user users[CM_USERS];
    struct stranger strangers[CM_STRANGERS];
    int listening; /* listening socket of a peer */
    struct sockaddr_in stranger_address;
    struct rdma_cm_event *held[CM_HELD]; /* not acknowledged yet */
    unsigned requests;                   /* number of requests that were delivered */
    /* A connection that fills the queue of the peer's listener; -1: none. */
    int silent;
};

/* cm_user.c */
void user_connect(struct cm_world *world);
void user_answer(struct cm_world *world); /* accept or reject */
void user_ends(struct cm_world *world);   /* disconnect, establish, destroy, migrate, set options */
void user_hears(struct cm_world *world, unsigned events);
void user_acknowledge(struct cm_world *world);
void user_destroy(struct cm_world *world, struct user *user);
void user_listen(struct cm_world *world);
void user_tries(struct cm_world *world); /* a channel and a listener that are destroyed again */
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
void adapter_hears(void); /* packets and timers */
void adapter_ends(struct cm_world *world);

/* cm_system.c: the maximum number of bytes that one send() or recv() of the library transfers (SIZE_MAX: all). */
extern size_t system_send_most, system_recv_most;
/* Replaces the address of a connect(); NULL: it is not replaced. */
extern const struct sockaddr *(*system_leads)(const struct sockaddr *address, socklen_t *length);
void system_begin(void);       /* the initial state, to be set before the first channel */
void system_pass(uint64_t ns); /* advances the clock, and runs its timers */

#endif
