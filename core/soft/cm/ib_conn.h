/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_conn.h - connections of InfiniBand's connection manager: states, what is sent again and when, and what a
 * message means in each state (IBA volume 1, 12.9; where it leaves a choice, as Linux's does).
 *
 *   who connects    IDLE -REQ-> REQ_SENT -(MRA)-> REQ_HEARD -REP-> REPLIED -RTU-> ESTABLISHED
 *   who listens     IDLE -REQ-> REQUESTED -(MRA)-> REQUESTED -REP-> REP_SENT -(MRA)-> REP_HEARD
 *                   -RTU-> ESTABLISHED
 *   who ends it     ESTABLISHED -DREQ-> DREQ_SENT -DREP-> TIMEWAIT -> IDLE
 *   the other       ESTABLISHED -DREQ, DREP-> TIMEWAIT -> IDLE
 *
 * Besides, look-ups (ib_sidr.c), which connect nothing:
 *   who asks        IDLE -SIDR_REQ-> ASKED -SIDR_REP-> IDLE
 *   who is asked    IDLE -SIDR_REQ-> QUESTIONED -SIDR_REP-> ANSWERED -> IDLE
 *
 * Any message may be lost, doubled or late. REQ, REP and DREQ are sent again until they are answered, with the
 * same bytes, so that a second one is known for what it is; each answer is given again when what it answers
 * comes again. An interval is seconds long, since somebody may have to think at the other end; REQ and DREQ are
 * sent again a few times sooner, so that one lost packet costs no seconds. In TIMEWAIT a connection's numbers
 * and queue pair are kept until no packet of it can be under way.
 *
 * There is no clock, socket or memory here: struct ib_world has the one, and its user the others. A struct
 * ib_conn is its user's, in the world's list from ib_begin, or the world's `request`, to ib_end; one lock of
 * the user's for all.
 */
#ifndef SOFT_IB_CONN_H
#define SOFT_IB_CONN_H

#include <sys/queue.h>
#include "core/soft/engine/wire.h"
#include "ib_message.h"

enum ib_state {
    IB_IDLE,
    IB_REQ_SENT,
    IB_REQ_HEARD, /* the peer has asked for time */
    IB_REPLIED,
    IB_REQUESTED,
    IB_REP_SENT,
    IB_REP_HEARD,
    IB_ESTABLISHED,
    IB_DREQ_SENT,
    IB_TIMEWAIT,
    IB_ASKED,
    IB_QUESTIONED,
    IB_ANSWERED /* the answer is kept */
};

enum ib_event {
    IB_EV_REPLIED,      /* REP came: make the queue pair ready, then ib_establish */
    IB_EV_ESTABLISHED,  /* RTU came */
    IB_EV_REJECTED,     /* with REJ; the connection is IDLE, or in TIMEWAIT */
    IB_EV_UNREACHABLE,  /* all was said in vain; it is IDLE */
    IB_EV_ABSENT,       /* ib_absent; it is IDLE */
    IB_EV_DISCONNECTED, /* either end has said so; the queue pair is to be in error when this returns */
    IB_EV_UNANSWERED,   /* the same, and all was said in vain; in TIMEWAIT */
    IB_EV_OVER,         /* TIMEWAIT is, or the time of an answer that is kept */
    IB_EV_RESOLVED      /* SIDR_REP came, whatever it says; the look-up is IDLE */
};

struct ib_conn {
    enum ib_state state;
    struct soft_path path; /* its messages' */
    uint32_t local_id, remote_id;
    uint32_t local_qpn, remote_qpn;
    uint64_t remote_guid;
    uint64_t service;           /* that a look-up asks for */
    uint64_t transaction;       /* of the messages that set it up */
    uint64_t interval;          /* ns from one sending of a message to the next */
    uint64_t timewait;          /* ns */
    unsigned tries, tries_left; /* how often a message is sent again */
    uint64_t said;              /* when it was sent first, and */
    unsigned early;             /* how often again before its interval was over */
    uint64_t due;               /* when `mad` is sent again, or TIMEWAIT or ANSWERED ends; NEVER_NS: not */
    uint8_t mad[IB_MAD_BYTES];  /* what is sent again: REQ, REP, DREQ, SIDR_REQ, or SIDR_REP */
    void *user;
    LIST_ENTRY(ib_conn) all;
};

struct ib_world {
    struct soft_clock *clock;
    uint64_t guid; /* of this node */
    uint64_t next_transaction;
    LIST_HEAD(, ib_conn) conns;

    /* The next number for a connection, a different one for as long as there are any: whoever knows those of
     * others can't tell it. 0, which is none, and one that is in use are left out. */
    uint32_t (*number)(struct ib_world *world);
    void (*send)(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES]);
    /* A connection is wanted, by REQ, or an answer, by SIDR_REQ. A struct ib_conn, all zero but for its user's
     * fields; or NULL, and why: 0, the peer is not answered, and may ask again. */
    struct ib_conn *(*request)(struct ib_world *world, const struct soft_path *path,
                               const struct ib_message *req, enum ib_reason *why);
    /* The request that it made is whole, and waits for ib_accept, or ib_reply, or ib_refuse. */
    void (*requested)(struct ib_world *world, struct ib_conn *conn, const struct ib_message *req);
    /* `message` is what brought it about, or NULL. The connection may be ended in here. */
    void (*tell)(struct ib_world *world, struct ib_conn *conn, enum ib_event event,
                 const struct ib_message *message);
};

static inline uint64_t ib_time_ns(unsigned n)
{
    return UINT64_C(4096) << n;
}

/* ---- The user's part: 0 or an errno, EINVAL where the state is another ---- */

/* Connect: *req has all but its type, transaction, IDs and GUID; conn->path is set, all else zero. */
int ib_connect(struct ib_world *world, struct ib_conn *conn, struct ib_message *req);
/* Answer a request: *rep has all but type, transaction, IDs and GUID. The queue pair is ready to receive and to
 * send. */
int ib_accept(struct ib_world *world, struct ib_conn *conn, struct ib_message *rep);
/* Either. A look-up has no reasons: it is rejected. */
int ib_refuse(struct ib_world *world, struct ib_conn *conn, unsigned reason, const void *data, size_t length);
/* The queue pair is ready, after IB_EV_REPLIED; or, at who listens, its first packet came before RTU. */
int ib_establish(struct ib_world *world, struct ib_conn *conn);
int ib_disconnect(struct ib_world *world, struct ib_conn *conn);
/* Look up: *question has a service, a P_Key and private data. */
int ib_ask(struct ib_world *world, struct ib_conn *conn, struct ib_message *question);
/* Answer one: *reply has a status, private data, and, if there is one, the queue pair. */
int ib_reply(struct ib_world *world, struct ib_conn *conn, struct ib_message *reply);
/* Out of the list, whatever the state; the peer is told where that can be done in one message. */
void ib_end(struct ib_world *world, struct ib_conn *conn);

/* ---- The world's ---- */

/* A management datagram has come, on this path. */
void ib_arrive(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES]);
/* This one of ours has found nobody at RoCE's port of its host. */
void ib_absent(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES]);
/* A refusal that names a request by its node, since it was never answered. */
bool ib_is_unanswered(const struct ib_message *rej);
/* When ib_timers has something to do; NEVER_NS. */
uint64_t ib_deadline(const struct ib_world *world);
void ib_timers(struct ib_world *world);

/* ---- Between ib_conn.c, ib_arrive.c and ib_sidr.c ---- */

#define IB_TIME_MAX 24     /* of what a peer may ask for, 69 s */
#define IB_RESPONSE_MIN 20 /* the time after which a request is answered again, at least: 4.3 s; */
#define IB_REPLY_RETRIES 4 /* and how often at most, about as often as a kernel answers by TCP */
#define IB_END_RETRIES 15  /* of DREQ, as Linux has it */
#define IB_SERVICE_TIME 24 /* that a request's user may take, 69 s: said when the request comes again */

#define IB_SIDR_RESPONSE 20 /* time in which a question is answered, 4.3 s, as Linux has it */
#define IB_SIDR_RETRIES 15

void ib_send(struct ib_world *world, const struct soft_path *path, const struct ib_message *message);
/* An answer of this type to the peer, with the connection's numbers. */
struct ib_message ib_answer(const struct ib_conn *conn, enum ib_type type);
/* Now, and again until it is answered. */
void ib_say(struct ib_world *world, struct ib_conn *conn, const struct ib_message *message,
            enum ib_state state);
/* Nothing is said again; to a state without a timer. */
void ib_rest(struct ib_conn *conn, enum ib_state state);
void ib_wait_out(struct ib_world *world, struct ib_conn *conn);
void ib_number(struct ib_world *world, struct ib_conn *conn);
void ib_sidr_req_arrives(struct ib_world *world, const struct soft_path *from,
                         const struct ib_message *question);
void ib_sidr_rep_arrives(struct ib_world *world, const struct soft_path *from, const struct ib_message *reply);

#endif
