/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_conn.h - connections of InfiniBand's connection manager: states, retransmission, and the effect of each message in
 * each state (IBA volume 1, 12.9; if the specification leaves a choice, as in Linux).
 *
 *   connecting end  IDLE -REQ-> REQ_SENT -(MRA)-> REQ_HEARD -REP-> REPLIED -RTU-> ESTABLISHED
 *   listening end   IDLE -REQ-> REQUESTED -(MRA)-> REQUESTED -REP-> REP_SENT -(MRA)-> REP_HEARD
 *                   -RTU-> ESTABLISHED
 *   disconnecting   ESTABLISHED -DREQ-> DREQ_SENT -DREP-> TIMEWAIT -> IDLE
 *   its peer        ESTABLISHED -DREQ, DREP-> TIMEWAIT -> IDLE
 *
 * Look-ups (ib_sidr.c) find the queue pair of a datagram service and connect nothing:
 *   asking end      IDLE -SIDR_REQ-> ASKED -SIDR_REP-> IDLE
 *   listening end   IDLE -SIDR_REQ-> QUESTIONED -SIDR_REP-> ANSWERED -> IDLE
 *
 * Any message may be lost, duplicated or delayed. REQ, REP and DREQ are sent again at intervals until they are
 * answered, with the same bytes, so that the peer recognizes a duplicate. A duplicate is answered like the first one.
 * An interval is seconds long, because the peer's application may take time to answer. REQ and DREQ are also sent again
 * a few times within the first interval, so that one lost packet does not cost seconds. In TIMEWAIT a connection's
 * numbers and queue pair stay reserved until none of its packets can still be in the network.
 *
 * This code reads no clock and no socket, and allocates no memory. struct ib_world is its environment: a clock and
 * callbacks. Its user is ib_port.c, or a test. The user owns each struct ib_conn, which is on the world's list from
 * ib_connect(), ib_ask() or the callback `request` until ib_end(). One lock of the user guards the world and all its
 * connections.
 */
#ifndef SOFT_IB_CONN_H
#define SOFT_IB_CONN_H

#include <sys/queue.h>
#include "soft/engine/wire.h"
#include "ib_message.h"

enum ib_state {
    IB_IDLE,
    IB_REQ_SENT,
    IB_REQ_HEARD, /* the peer has asked for more time (MRA) */
    IB_REPLIED,
    IB_REQUESTED,
    IB_REP_SENT,
    IB_REP_HEARD,
    IB_ESTABLISHED,
    IB_DREQ_SENT,
    IB_TIMEWAIT,
    IB_ASKED,
    IB_QUESTIONED,
    IB_ANSWERED /* the reply is kept, to answer duplicates */
};

enum ib_event {
    IB_EV_REPLIED,      /* REP arrived: the user makes the queue pair ready, then calls ib_establish() */
    IB_EV_ESTABLISHED,  /* RTU arrived */
    IB_EV_REJECTED,     /* REJ arrived; the connection is IDLE or in TIMEWAIT */
    IB_EV_UNREACHABLE,  /* no valid answer arrived, after all retries; the connection is IDLE */
    IB_EV_ABSENT,       /* ib_absent(): no process of the peer's host has the port; the connection is IDLE */
    IB_EV_DISCONNECTED, /* the connection ended; the callback must put the queue pair into the error state */
    IB_EV_UNANSWERED,   /* DREQ was not answered after all retries; the connection is in TIMEWAIT */
    IB_EV_OVER,         /* TIMEWAIT or ANSWERED is over; the connection is IDLE */
    IB_EV_RESOLVED      /* SIDR_REP arrived, with any status; the look-up is IDLE */
};

/* A connection or look-up. */
struct ib_conn {
    enum ib_state state;
    struct soft_path path; /* the path of its messages */
    uint32_t local_id, remote_id;
    uint32_t local_qpn, remote_qpn;
    uint64_t remote_guid;
    uint64_t service;           /* the service ID of a look-up */
    uint64_t transaction;       /* transaction ID of the messages that set it up */
    uint64_t interval;          /* ns between two transmissions of a message */
    uint64_t timewait;          /* duration of TIMEWAIT, ns */
    unsigned tries, tries_left; /* retransmissions of a message: maximum, and how many are left */
    uint64_t said;              /* when `mad` was sent first, ns */
    unsigned early;             /* retransmissions of `mad` within the first interval */
    uint64_t due; /* when `mad` is sent again, or when TIMEWAIT or ANSWERED ends, ns; or NEVER_NS */
    uint8_t mad[IB_MAD_BYTES]; /* the last REQ, REP, DREQ, SIDR_REQ or SIDR_REP */
    void *user;
    LIST_ENTRY(ib_conn) all;
};

/* The environment of the connections. */
struct ib_world {
    struct soft_clock *clock;
    uint64_t guid; /* GUID of this node */
    uint64_t next_transaction;
    LIST_HEAD(, ib_conn) conns;

    /* Callback: returns the next connection number. It must not return a number again before it has returned all
     * others, and the number must not be predictable from those of other connections. The caller skips 0 and numbers in
     * use. */
    uint32_t (*number)(struct ib_world *world);
    /* Callback: sends a management datagram on this path. */
    void (*send)(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES]);
    /* Callback: a REQ or SIDR_REQ has arrived. Returns a struct ib_conn, all zero except for `user`; or NULL, and sets
     * *why to the reason with which the request is refused, or to 0: the peer gets no answer, and may send the request
     * again. */
    struct ib_conn *(*request)(struct ib_world *world, const struct soft_path *path,
                               const struct ib_message *req, enum ib_reason *why);
    /* Callback: the request is complete. The user must call ib_accept(), ib_reply() or ib_refuse() for it. */
    void (*requested)(struct ib_world *world, struct ib_conn *conn, const struct ib_message *req);
    /* Callback: reports an event, and the message that has caused it, or NULL. The callback may call ib_end() on any
     * connection. */
    void (*tell)(struct ib_world *world, struct ib_conn *conn, enum ib_event event,
                 const struct ib_message *message);
};

/* Returns the time that a 5-bit field of a message encodes: 4.096 us * 2^n, ns. */
static inline uint64_t ib_time_ns(unsigned n)
{
    return UINT64_C(4096) << n;
}

/* ---- Called by the user. They return 0 or an errno; EINVAL: the connection is in another state ---- */

/* Connects. The caller has set conn->path, and all else in *conn is 0. The caller has set all members of *req except
 * type, transaction, IDs and GUID. */
int ib_connect(struct ib_world *world, struct ib_conn *conn, struct ib_message *req);
/* Accepts a request. The caller has set all members of *rep except type, transaction, IDs and GUID. The queue pair must
 * be ready to receive and to send. */
int ib_accept(struct ib_world *world, struct ib_conn *conn, struct ib_message *rep);
/* Refuses a request, a REP, or a look-up. The reply to a look-up has no reason. */
int ib_refuse(struct ib_world *world, struct ib_conn *conn, unsigned reason, const void *data, size_t length);
/* Called after IB_EV_REPLIED, when the queue pair is ready; or, on the listening end, when the first packet has arrived
 * at the queue pair before the RTU. */
int ib_establish(struct ib_world *world, struct ib_conn *conn);
int ib_disconnect(struct ib_world *world, struct ib_conn *conn);
/* Starts a look-up. *question has a service, a P_Key and private data. */
int ib_ask(struct ib_world *world, struct ib_conn *conn, struct ib_message *question);
/* Answers a look-up. *reply has a status, private data, and the queue pair, if there is one. */
int ib_reply(struct ib_world *world, struct ib_conn *conn, struct ib_message *reply);
/* Removes the connection from the world's list, in any state. Notifies the peer if one message can do that. */
void ib_end(struct ib_world *world, struct ib_conn *conn);

/* ---- Called by the user when something has arrived or a timer is due ---- */

/* A management datagram has arrived, on this path. */
void ib_arrive(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES]);
/* The destination host of this datagram, which was sent here, has reported (ICMP) that no process has RoCE's port. */
void ib_absent(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES]);
/* Returns whether a REJ withdraws a request that was not answered; it then contains the GUID of the sender's node. */
bool ib_is_unanswered(const struct ib_message *rej);
/* Returns the time when ib_timers() must be called, ns; or NEVER_NS. */
uint64_t ib_deadline(const struct ib_world *world);
/* Sends the messages again that are due, and ends the states that are over. */
void ib_timers(struct ib_world *world);

/* ---- Between ib_conn.c, ib_arrive.c and ib_sidr.c ---- */

/* Times are encoded: ib_time_ns(). */
#define IB_TIME_MAX 24     /* maximum time that a peer may ask for: 69 s */
#define IB_RESPONSE_MIN 20 /* minimum interval between transmissions of REP: 4.3 s */
#define IB_REPLY_RETRIES 4 /* maximum retransmissions of REP, about those of a SYN-ACK in Linux */
#define IB_END_RETRIES 15  /* maximum retransmissions of DREQ, as in Linux */
#define IB_SERVICE_TIME 24 /* time in an MRA to a repeated REQ: the application may take 69 s */

#define IB_SIDR_RESPONSE 20 /* interval between transmissions of SIDR_REQ: 4.3 s, as in Linux */
#define IB_SIDR_RETRIES 15  /* maximum retransmissions of SIDR_REQ */

void ib_send(struct ib_world *world, const struct soft_path *path, const struct ib_message *message);
/* Returns a message of this type to the peer, with the connection's numbers. */
struct ib_message ib_answer(const struct ib_conn *conn, enum ib_type type);
/* Sends the message and enters `state`; sends the message again until the state changes. */
void ib_say(struct ib_world *world, struct ib_conn *conn, const struct ib_message *message,
            enum ib_state state);
/* Enters a state without a timer: nothing is sent again. */
void ib_rest(struct ib_conn *conn, enum ib_state state);
/* Enters TIMEWAIT. */
void ib_wait_out(struct ib_world *world, struct ib_conn *conn);
/* Gives the connection a number that is not in use. */
void ib_number(struct ib_world *world, struct ib_conn *conn);
void ib_sidr_req_arrives(struct ib_world *world, const struct soft_path *from,
                         const struct ib_message *question);
void ib_sidr_rep_arrives(struct ib_world *world, const struct soft_path *from, const struct ib_message *reply);

#endif
