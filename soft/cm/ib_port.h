/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_port.h - this process's endpoints (connections, listeners and look-ups) at queue pair 1 of RoCE's port, by
 * InfiniBand's connection manager.
 *
 * The service thread receives the datagrams and sends messages again, whether the application calls the library or
 * not. It queues events for the application (in the code: news) in the event queue of an event channel (struct ib_box),
 * and the channel's descriptor is then readable.
 *
 * One lock guards everything here. It is taken after a channel's lock, and no lock is taken after it. The port owns
 * each struct ib_end, an endpoint. Its user, a struct cm_id, holds a pointer from the call that returned it to
 * ib_port_leave(). After that the port keeps the endpoint as long as the peer may send a message again.
 */
#ifndef SOFT_IB_PORT_H
#define SOFT_IB_PORT_H

#include <stdbool.h>
#include <sys/queue.h>
#include "core/base/doorbell.h"
#include "soft/service/home.h"
#include "ib_address.h"
#include "ib_conn.h"

struct cm_id;
struct ib_end;

/* The event queue of an event channel: a list of endpoints with pending events, and an eventfd (`wakefd`) that is
 * readable while the list is not empty. The channel creates the eventfd before any other thread knows the queue; after
 * that only the port uses it. */
struct ib_box {
    struct doorbell wakefd;
    TAILQ_HEAD(, ib_end) news;
};

/* A pending event. */
struct ib_news {
    struct cm_id *user; /* the endpoint's user; for a request before ib_port_adopt(), the listener's user */
    struct ib_end *end;
    bool requested; /* a request has arrived, and `event` is not used */
    enum ib_event event;
    struct ib_message said; /* the last REQ, REP, REJ, SIDR_REQ or SIDR_REP that arrived */
    struct soft_path path;  /* the path of the peer's messages */
};

/* Opens the port, with the context's share of RoCE's port, if it is not open. 0 or an errno; ENOTCONN if the context
 * has no share. */
int ib_port_open(struct soft_home *home);

/* Listens for requests to this address (or a wildcard) and port: for connections or, in the port space of datagrams,
 * look-ups. NULL and errno. */
struct ib_end *ib_port_listen(struct ib_box *box, struct cm_id *user, enum ib_space space,
                              const union soft_addr *addr, bool one_family, int backlog);
/* Like ib_connect(). NULL and errno. */
struct ib_end *ib_port_connect(struct ib_box *box, struct cm_id *user, const struct soft_path *path,
                               struct ib_message *req);
/* Like ib_ask(). NULL and errno. */
struct ib_end *ib_port_ask(struct ib_box *box, struct cm_id *user, const struct soft_path *path,
                           struct ib_message *question);
/* Like ib_accept(), ib_reply(), ib_refuse(), ib_establish() and ib_disconnect(): 0 or an errno. */
int ib_port_accept(struct ib_end *end, struct ib_message *rep);
int ib_port_reply(struct ib_end *end, struct ib_message *reply);
int ib_port_refuse(struct ib_end *end, unsigned reason, const void *data, size_t length);
int ib_port_establish(struct ib_end *end);
int ib_port_disconnect(struct ib_end *end);
/* Returns whether the peer has sent any answer to the request or look-up. */
bool ib_port_is_heard(const struct ib_end *end);
/* The user drops its pointer to the endpoint, and gets no more events of it. */
void ib_port_leave(struct ib_end *end);

/* Sets the user of a request's endpoint. */
void ib_port_adopt(struct ib_end *end, struct cm_id *user);
/* Moves the endpoint's pending and future events to another event queue. */
void ib_port_move(struct ib_end *end, struct ib_box *box);
/* Takes the next event from the queue. False: there is none. */
bool ib_port_next(struct ib_box *box, struct ib_news *news);

/* Called when the process exits: disconnects all connections. Does nothing if the lock is held. */
void ib_port_settle(void);
/* Closes the port when the device is no longer in use, unless there is a listener. */
void ib_port_end(void);
/* Called in a forked child: forgets everything. */
void ib_port_forget(void);

#endif
