/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_port.h - the process's place among InfiniBand's connection managers: its connections and listeners at
 * queue pair 1 of RoCE's port.
 *
 * The service thread hears what comes and says again what has to be, whatever the program does meanwhile. What
 * the program is to know is left in the box of an event channel, whose descriptor is readable then.
 *
 * One lock guards everything here. It is taken behind a channel's, and nothing is locked behind it. A struct
 * ib_end is the port's: its user holds a pointer from the call that gave it to ib_port_leave, after which the
 * port keeps it for as long as the peer may still ask for it.
 */
#ifndef SOFT_IB_PORT_H
#define SOFT_IB_PORT_H

#include <stdbool.h>
#include <sys/queue.h>
#include "core/doorbell.h"
#include "core/soft/service/home.h"
#include "ib_address.h"
#include "ib_conn.h"

struct cm_id;
struct ib_end;

/* An event channel's. Its owner makes the bell, with nobody else about, and then nothing but the port touches
 * it. */
struct ib_box {
    struct doorbell bell;
    TAILQ_HEAD(, ib_end) news;
};

struct ib_news {
    struct cm_id *user; /* whose it is; of a request the listener's, until ib_port_adopt */
    struct ib_end *end;
    bool requested; /* or else: */
    enum ib_event event;
    struct ib_message said; /* REQ, REP, REJ, SIDR_REQ or SIDR_REP: the last that came */
    struct soft_path path;  /* of the peer's messages */
};

/* This process answers from now on, with the context's share of the port. 0 or an errno; ENOTCONN where the
 * context isn't on it. */
int ib_port_open(struct soft_home *home);

/* Requests for this address and port, wildcards included: of connections, or, in the port space of datagrams,
 * look-ups. NULL and errno. */
struct ib_end *ib_port_listen(struct ib_box *box, struct cm_id *user, enum ib_space space,
                              const union soft_addr *addr, bool one_family, int backlog);
/* As ib_connect. NULL and errno. */
struct ib_end *ib_port_connect(struct ib_box *box, struct cm_id *user, const struct soft_path *path,
                               struct ib_message *req);
/* As ib_ask. NULL and errno. */
struct ib_end *ib_port_ask(struct ib_box *box, struct cm_id *user, const struct soft_path *path,
                           struct ib_message *question);
/* As ib_accept, ib_reply, ib_refuse, ib_establish and ib_disconnect: 0 or an errno. */
int ib_port_accept(struct ib_end *end, struct ib_message *rep);
int ib_port_reply(struct ib_end *end, struct ib_message *reply);
int ib_port_refuse(struct ib_end *end, unsigned reason, const void *data, size_t length);
int ib_port_establish(struct ib_end *end);
int ib_port_disconnect(struct ib_end *end);
/* Has there been an answer to what it asked? */
bool ib_port_is_heard(const struct ib_end *end);
/* Its user is gone, and hears nothing of it any more. */
void ib_port_leave(struct ib_end *end);

/* What came of a request is this user's from now on; or its news go to another box. */
void ib_port_adopt(struct ib_end *end, struct cm_id *user);
void ib_port_move(struct ib_end *end, struct ib_box *box);
/* The next thing that the box's owner is to know. */
bool ib_port_next(struct ib_box *box, struct ib_news *news);

/* The process is about to end: tell all peers. */
void ib_port_settle(void);
/* Nobody uses the device any more: the port is given back, unless somebody listens there. */
void ib_port_end(void);
/* In the child of a fork: forget it all. */
void ib_port_forget(void);

#endif
