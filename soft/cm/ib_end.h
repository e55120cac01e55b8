/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_end.h - the data of the port (ib_port.h), for the files that share it: ib_port.c implements the calls of its
 * users, ib_told.c the callbacks of struct ib_world (ib_conn.h), ib_hear.c reads the sockets. The port's lock guards
 * all of it.
 */
#ifndef SOFT_IB_END_H
#define SOFT_IB_END_H

#include <pthread.h>
#include <sys/epoll.h>
#include "soft/engine/shuffle.h"
#include "soft/link/qp1.h"
#include "ib_budget.h"
#include "ib_port.h"

/* Maximum numbers of endpoints: in total; without a user, kept to answer duplicates; of requests and look-ups whose
 * listener is closed, and which have an inbox. */
#define IB_ENDS_MAX 8192
#define IB_KEPT_MAX 512
#define IB_KEPT_OPEN_MAX 64

#define IB_INBOX_EVENTS (EPOLLIN | EPOLLET) /* edge-triggered: a connection may have to stay in the backlog */

/* An endpoint: a connection, look-up or listener. */
struct ib_end {
    struct ib_conn conn;     /* first; unused in a listener */
    struct cm_id *user;      /* NULL: it has no user any more, or, if `listener` is not NULL, no user yet */
    struct ib_box *box;      /* the event queue of the user's channel */
    bool requested;          /* the listener's user has not seen this request yet */
    unsigned events;         /* bits 1 << enum ib_event: events that the user has not seen yet */
    bool queued;             /* it is on the list of `box` */
    struct ib_message said;  /* the last REQ, REP, REJ, SIDR_REQ or SIDR_REP that arrived */
    struct ib_end *listener; /* the listener of a request that its user has not seen yet; else NULL */
    const void *came_to;     /* the listener, until it is closed; the pointer is only compared */
    bool has_inbox;          /* `inbox` is open: it is a listener, or a request whose listener is closed */
    int inbox;               /* unix socket to which other processes pass on datagrams for it */
    uint32_t inbox_place;    /* argument of ib_pass_close() */
    TAILQ_ENTRY(ib_end) news;
    /* For a listener. `untaken`: number of requests that its user has not seen. */
    union soft_addr addr;
    enum ib_space space;
    bool one_family;
    unsigned backlog, untaken;
    LIST_ENTRY(ib_end) listeners;
};

/* The only port. */
extern struct ib_port {
    pthread_mutex_t lock;
    struct ib_world world;
    struct soft_shuffle numbers; /* connection numbers; each modulo QP1_SHARES is the share */
    uint32_t numbers_given;
    struct qp1 qp1;
    int epoll;     /* watches all sockets; -1: the port is not open */
    int inbox;     /* unix socket to which other processes pass on datagrams for this process's connections */
    unsigned ends; /* number of endpoints */
    unsigned kept_open; /* number of inboxes that IB_KEPT_OPEN_MAX limits */
    int heard;          /* the unix socket that ib_hear() is reading; -1: a callback has closed it */
    LIST_HEAD(, ib_end) listeners;
    struct ib_budget budget;
} ib_port;

/* The callbacks of struct ib_world. */
void ib_told_send(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES]);
struct ib_conn *ib_told_request(struct ib_world *world, const struct soft_path *path,
                                const struct ib_message *req, enum ib_reason *why);
void ib_told_requested(struct ib_world *world, struct ib_conn *conn, const struct ib_message *req);
void ib_told_event(struct ib_world *world, struct ib_conn *conn, enum ib_event event,
                   const struct ib_message *message);

/* Called when one of the port's sockets is readable, or has an error. */
void ib_hear(int fd);

/* Returns this process's listener at this address and port; or NULL. */
struct ib_end *ib_told_listener(enum ib_space space, const union soft_addr *addr, in_port_t port);

/* Finds the port that a REQ or SIDR_REQ is for. False: its service ID is not one of librdmacm. */
bool ib_told_service(const struct ib_message *req, enum ib_space *space, uint16_t *port);

/* Adds the endpoint to its event queue, and signals the queue's eventfd. */
void ib_end_post(struct ib_end *end);
/* Removes the endpoint from its event queue. */
void ib_end_unpost(struct ib_end *end);
/* Called when a request no longer counts in its listener's backlog. */
void ib_end_untake(struct ib_end *end);
void ib_end_close_inbox(struct ib_end *end);
void ib_end_free(struct ib_end *end);

#endif
