/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_end.h - what the port (ib_port.h) keeps, as its own files see it: ib_port.c, which does what users ask
 * for, and ib_told.c, which takes what the world of connections (ib_conn.h) tells. All of it is guarded by the
 * port's lock.
 */
#ifndef SOFT_IB_END_H
#define SOFT_IB_END_H

#include <pthread.h>
#include <sys/epoll.h>
#include "core/soft/engine/shuffle.h"
#include "core/soft/link/qp1.h"
#include "ib_budget.h"
#include "ib_port.h"

#define IB_ENDS_MAX 8192    /* of connections, those included that nobody uses any more */
#define IB_KEPT_MAX 512     /* that nobody uses, in case that a peer has missed something */
#define IB_KEPT_OPEN_MAX 64 /* doors of requests and look-ups whose listeners have gone */

#define IB_DOOR_EVENTS (EPOLLIN | EPOLLET) /* told of each who comes once, for some can't be let in yet */

struct ib_end {
    struct ib_conn conn; /* first; of a listener it never begins */
    struct cm_id *user;  /* NULL: nobody any more, or, with `listener`, nobody yet */
    struct ib_box *box;
    bool requested;  /* `user` is to know of it */
    unsigned events; /* 1 << enum ib_event, the same */
    bool queued;     /* in the box */
    struct ib_message said;
    struct ib_end *listener; /* of a request that its user hasn't seen */
    const void *came_to;     /* the listener, until it goes: only compared */
    bool has_door;           /* `door` is open: a listener's, or that of a request whose listener has gone, */
    int door;                /* where others pass on what is for it, */
    uint32_t door_place;     /* as ib_pass_close wants it */
    TAILQ_ENTRY(ib_end) news;
    /* A listener's: */
    union soft_addr addr;
    enum ib_space space;
    bool one_family;
    unsigned backlog, untaken;
    LIST_ENTRY(ib_end) listeners;
};

extern struct ib_port {
    pthread_mutex_t lock;
    struct ib_world world;
    struct soft_shuffle numbers; /* of connections: each ends with the share, modulo QP1_SHARES */
    uint32_t numbers_given;
    struct qp1 qp1;
    int epoll; /* of all sockets; -1: not open */
    int door;  /* what others pass on of connections comes by this */
    unsigned ends;
    unsigned kept_open; /* of these doors */
    int heard;          /* the door that is, or was last; -1: it was closed meanwhile */
    LIST_HEAD(, ib_end) listeners;
    struct ib_budget budget;
} ib_port;

/* The world's callbacks. */
void ib_told_send(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES]);
struct ib_conn *ib_told_request(struct ib_world *world, const struct soft_path *path,
                                const struct ib_message *req, enum ib_reason *why);
void ib_told_requested(struct ib_world *world, struct ib_conn *conn, const struct ib_message *req);
void ib_told_event(struct ib_world *world, struct ib_conn *conn, enum ib_event event,
                   const struct ib_message *message);

/* One of the port's sockets is readable, or has an error. */
void ib_hear(int fd);

/* Who listens here; or NULL. */
struct ib_end *ib_told_listener(enum ib_space space, const union soft_addr *addr, in_port_t port);

/* The service that a REQ or a SIDR_REQ is for. False: it is none of librdmacm's. */
bool ib_told_service(const struct ib_message *req, enum ib_space *space, uint16_t *port);

/* Into its box, and out of it. */
void ib_end_post(struct ib_end *end);
void ib_end_unpost(struct ib_end *end);
/* Its listener waits no longer for its user to see it. */
void ib_end_untake(struct ib_end *end);
void ib_end_close_door(struct ib_end *end);
void ib_end_free(struct ib_end *end);

#endif
