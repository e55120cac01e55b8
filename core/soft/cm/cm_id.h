/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_id.h - an event channel and the identifiers on it, as the connection manager's own files see them.
 *
 * One lock for each channel guards the channel and all its identifiers. Lock order: a channel (two of them in
 * the order of their addresses), then a context, then the service thread's.
 */
#ifndef SOFT_CM_ID_H
#define SOFT_CM_ID_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <rdma/rdma_cma.h>
#include "cm.h"
#include "cm_message.h"
#include "core/waitset.h"
#include "core/soft/link/shm_meet.h"
#include "core/soft/link/tcp.h"
#include "core/soft/service/home.h"
#include "ib_port.h"

#define CM_HOP_LIMIT 64 /* of packets to one peer */

enum cm_state {
    CM_IDLE, /* perhaps bound */
    CM_ADDR_RESOLVED,
    CM_ROUTE_RESOLVED,
    CM_LISTENING,
    CM_HALF_OPEN, /* TCP is up and the request awaited; the user doesn't know the identifier yet */
    CM_REFUSING,  /* the same, but refused: waits for the peer to read that and hang up */
    CM_REQUESTED, /* the user has to accept or to reject */
    CM_REPLIED,   /* accepted, but the peer hasn't said that it is ready */
    CM_TCP_CONNECTING,
    CM_REQUEST_SENT,
    CM_RESPONDED, /* the user has to establish, with a queue pair of his own */
    CM_ESTABLISHED,
    CM_DISCONNECTED /* over, one way or another */
};

/* Each state that ends by itself does so after the same time for all, so their queues are in order. */
enum cm_timeout {
    CM_TIMEOUT_HEAD_START, /* for the host to be reached by TCP before it is asked otherwise as well */
    CM_TIMEOUT_TCP,        /* to reach the host */
    CM_TIMEOUT_HANDSHAKE,  /* for the user at the other end to answer */
    CM_TIMEOUT_HALF_OPEN,  /* for a request to be complete */
    CM_TIMEOUT_PAUSE,      /* until a listener without room or descriptors, or a request, tries again */
    CM_TIMEOUT_TIMEWAIT,   /* until packets of a connection that has ended are gone */
    CM_TIMEOUTS,
    CM_NO_TIMEOUT = CM_TIMEOUTS
};

/* An event to be: a part of its identifier, so that none is lost for want of memory. */
struct cm_pending {
    TAILQ_ENTRY(cm_pending) entry;
    struct cm_id *id;
    bool queued;
    enum rdma_cm_event_type type;
    int status;
};

/* At most one event of each kind is on its way at any time. */
enum cm_kind { CM_KIND_ADDR, CM_KIND_ROUTE, CM_KIND_CONNECT, CM_KIND_DISCONNECT, CM_KIND_TIMEWAIT, CM_KINDS };

TAILQ_HEAD(cm_ids, cm_id);

/* What carries a connection's messages: TCP between our own (cm_stream.c), InfiniBand's connection manager with
 * everybody else (cm_ib.c). All of it under the channel's lock. */
struct cm_transport {
    bool meets; /* two ends on one host can find out (cm_link.c) */
    /* Both ends' addresses, or `local` alone where `remote` is NULL. 0 or an errno. */
    int (*names)(const struct cm_id *id, union soft_addr *local, union soft_addr *remote);
    /* The largest path MTU whose packets fit into what the route can carry. */
    enum ibv_mtu (*mtu)(const struct cm_id *id);
    /* What it found a round trip to take, ns; 0: it doesn't know. */
    uint64_t (*round_trip)(const struct cm_id *id);
    /* A broken connection shows later. */
    void (*send)(struct cm_id *id, const struct cm_message *message);
};

extern const struct cm_transport cm_tcp, cm_ib;

/* The user's identifier; until the CONNECT_REQUEST is delivered its listener's. */
struct cm_id {
    struct rdma_cm_id public; /* first: the user holds a pointer to it */
    void *beyond[4];          /* where librdmacm keeps its own: rsockets look there, and find none */
    enum cm_state state;
    int fd;        /* the TCP socket; -1: none yet, or no longer */
    int number;    /* cm_number.h: what holds a datagram identifier's, as long as there is that; or -1 */
    bool numbered; /* it has one, be it one that others may have, too, */
    unsigned seat; /* and asks at this one of the peer's; */
    struct cm_message *claim; /* what the only seat said that claims to have it; NULL: none so far */
    const struct cm_transport *transport;
    struct ib_end *ib;      /* at RoCE's port: a listener's besides its socket, or a connection's; or NULL */
    enum ibv_mtu route_mtu; /* of the latter */
    bool reuse_addr, af_only;
    bool sync;                /* it has a channel of its own, which its calls wait on: cm_sync.c */
    bool unbound;             /* the user didn't bind the socket that connects */
    bool asked_tcp, asked_ib; /* in vain, or both at the same time: CM_TCP_CONNECTING and `ib` */
    bool tcp_refused;         /* nobody listens by TCP, */
    bool doubted;             /* and whether the host speaks as adapters do is not known */
    unsigned refusals;        /* how often nobody listened */
    unsigned postponed;       /* how often the request had to wait, with TCP established */
    bool ended;               /* there was a connection, */
    bool left;                /* and the user has ended it; perhaps the peer had before */
    uint8_t traffic_class;    /* of IP, for what is sent */
    uint8_t ack_timeout;
    uint32_t psn;                      /* the first that we want to receive */
    struct ibv_sa_path_rec path;       /* what public.route tells programs other than EXS */
    struct ibv_qp_init_attr *endpoint; /* what a listener's connections get: cm_sync.c */
    void *connect;                     /* and what an endpoint that connects says first, or NULL */
    size_t connect_length;
    struct cm_pending pending[CM_KINDS];
    LIST_HEAD(, cm_join) joins; /* multicast groups: cm_multicast.c */
    unsigned unacknowledged;    /* events about it that the user holds */

    enum cm_timeout timeout; /* which one runs */
    uint64_t deadline;
    TAILQ_ENTRY(cm_id) timed;

    struct cm_id *listener; /* while it is this listener's */
    struct cm_ids children; /* a listener's, oldest first */
    TAILQ_ENTRY(cm_id) child;
    unsigned half_open; /* how many of the children are */
    uint64_t patience;  /* ns: how long one of them may send nothing while others wait (cm_half_open.c) */

    struct shm_meeting *meeting; /* a listener's; cm_link.c, as these: */
    int guest;                   /* who brought what the request names; -1: nobody */
    struct shm_peer *offered;    /* until its queue pair has it; or NULL */
    struct shm_refusal refusal;  /* why it is NULL */
    bool names_udp;              /* `own` names a UDP port, and no link has been chosen */
    struct tcp_peer *tcp;        /* `fd` is its socket, which also carries packets; or NULL */

    struct cm_message own, peer; /* what each end said in REQ, REP or REJ */
    uint8_t in[CM_SIZE_MAX];
    size_t in_length;
    uint8_t out[CM_SIZE_MAX + CM_HEADER + CM_HEADER];
    size_t out_length;
};

struct cm_channel {
    struct rdma_event_channel public; /* first. Its fd is that of `waits`; -1 of one that is quiet */
    pthread_mutex_t lock;
    pthread_cond_t acknowledged; /* an event was */
    unsigned waiters;            /* threads asleep in soft_get_cm_event */
    bool gone;                   /* destroyed; the last waiter frees it */
    struct waitset waits;        /* for sockets, time-outs, and events that are pending */
    struct soft_home *home;      /* its device context, made when first needed: its own, or, */
    bool common; /* where programs, or adapters, find each other by it, the one of all channels */
    TAILQ_HEAD(, cm_pending) pending;
    struct cm_event
        *spare; /* the next one delivered, so that whoever holds none needs no memory for it; or NULL */
    struct cm_ids timeouts[CM_TIMEOUTS];
    struct ib_box ib; /* its bell is among `waits` once there is one */
};

/* ---- cm_channel.c: the channel ------------------------------------------------------------- */

/* An identifier's channel, locked. */
struct cm_channel *cm_lock(struct cm_id *id);
/* Rings the doorbell if there is something to deliver. Keeps errno. */
void cm_unlock(struct cm_channel *channel);
/* The channel's context, made if need be. NULL and errno. */
struct ibv_context *cm_context(struct cm_channel *channel);
/* Do all channels share it (soft_share_context)? */
bool cm_is_shared(void);
void cm_post(struct cm_id *id, enum cm_kind kind, enum rdma_cm_event_type type, int status);
/* The same, by a place for it that is not among the identifier's own. */
void cm_post_pending(struct cm_id *id, struct cm_pending *pending, enum rdma_cm_event_type type, int status);
/* Undelivered events are as if they had never been. */
void cm_unpost(struct cm_id *id);
void cm_unpost_pending(struct cm_id *id, struct cm_pending *pending);
/* (locked) Until the user holds no event about it; unlocked meanwhile. */
void cm_await_acknowledgement(struct cm_id *id);
/* Wait for these events (EPOLLIN, EPOLLOUT) of the identifier's socket. 0 or an errno. */
int cm_register(struct cm_id *id, uint32_t events);
void cm_want(struct cm_id *id, uint32_t events);
struct cm_channel *cm_channel_of(const struct cm_id *id);

/* ---- cm_multicast.c: groups -------------------------------------------------------------------- */

/* An event is about to be delivered: what it says, if it is one of these. */
void cm_multicast_describe(struct cm_id *id, const struct cm_pending *pending, struct rdma_cm_event *event);
/* Its queue pair is about to go: it can't as long as it is attached. */
void cm_multicast_detach(struct cm_id *id);
void cm_multicast_leave_all(struct cm_id *id);

/* ---- cm_timer.c: time-outs ------------------------------------------------------------------- */

void cm_timer_start(struct cm_id *id, enum cm_timeout timeout);
void cm_timer_stop(struct cm_id *id);
/* The channel's descriptor, if it has one, is to call for the first time-out that runs, and for none that was
 * stopped. */
void cm_timer_settle(struct cm_channel *channel);
/* Put a timer that runs onto another channel, where its identifier goes. */
void cm_timer_move(struct cm_id *id, struct cm_channel *from, struct cm_channel *to);
/* An identifier whose time is over at `now` (ns of CLOCK_MONOTONIC), taken off the queue; NULL when there is none, with
 * the timer set again. */
struct cm_id *cm_timer_expired(struct cm_channel *channel, uint64_t now);

/* How long its timer has been running, ns. */
uint64_t cm_timer_elapsed(const struct cm_id *id);

/* ---- cm_half_open.c: connections of a listener without a complete request ----------------------- */

void cm_half_open_init(struct cm_id *listener);
/* Can the listener accept another connection? */
bool cm_half_open_has_room(struct cm_id *listener);
/* A connection has been accepted. Returns whether another had to be closed for it. */
bool cm_half_open_add(struct cm_id *listener, struct cm_id *id);
/* A request is complete. */
void cm_half_open_completed(struct cm_id *listener);
/* One of them is no longer half open: a listener that paused can go on. */
void cm_half_open_ended(struct cm_id *listener);

/* ---- cm_id.c: identifiers -------------------------------------------------------------------- */

struct cm_id *cm_id_new(struct cm_channel *channel, enum rdma_port_space ps);
/* Take it out of everything. */
void cm_id_detach(struct cm_id *id);
/* The same, and free it: one that the user doesn't know. */
void cm_id_free(struct cm_id *id);
void cm_id_close(struct cm_id *id);
/* Its socket alone. */
void cm_id_close_socket(struct cm_id *id);
/* Fill the public addresses from the socket's. 0 or an errno. */
int cm_id_addresses(struct cm_id *id);
/* Fill the public GIDs from the public addresses. */
void cm_id_gids(struct cm_id *id);
/* How what is sent gets from here to a GID. */
struct ibv_ah_attr cm_id_way(const struct cm_id *id, const union ibv_gid *to);
/* It is this context's; where that is shared, with its protection domain. */
void cm_id_use(struct cm_id *id, struct ibv_context *context);

/* ---- cm_sync.c: identifiers without a channel of the user's -------------------------------------- */

/* The end of a call on an identifier (not locked): wait for its event if it is such a one. Returns `result`, or
 * -1 and errno when the event tells of a failure. */
int cm_complete(struct cm_id *id, int result);

/* ---- cm_socket.c: TCP ------------------------------------------------------------------------- */

int cm_socket_open(sa_family_t family, bool af_only);
int cm_socket_bind(int fd, const struct sockaddr *addr, bool reuse);
/* What every connection needs: no delay, and a bound on how long a dead host goes unnoticed. */
void cm_socket_tune(int fd);
/* Both ends; IPv4 addresses that IPv6 sockets give in disguise come as what they are. 0 or an errno. */
int cm_socket_names(int fd, union soft_addr *local, union soft_addr *remote);
/* The largest path MTU whose packets fit into what the route can carry. */
enum ibv_mtu cm_socket_mtu(int fd);
/* The same without a connection. 0 or an errno. */
int cm_socket_route_mtu(const union soft_addr *local, const union soft_addr *remote, enum ibv_mtu *mtu);
/* What TCP found a round trip to take, ns; 0: it doesn't know. */
uint64_t cm_socket_round_trip(int fd);
socklen_t cm_addr_size(const struct sockaddr *addr);

/* ---- cm_stream.c: messages over it ------------------------------------------------------------- */

void cm_send_rest(struct cm_id *id);
/* Read one message into id->in. 1 when it is there; 0 when more must come; -errno: cm_message_size's, or
 * -ECONNRESET when the connection has ended. */
int cm_receive(struct cm_id *id);
/* Throw away what comes. False when the connection has ended. */
bool cm_discard(struct cm_id *id);

/* ---- cm_ib.c: InfiniBand's connection manager ---------------------------------------------------- */

/* Is the identifier's context where adapters look for peers? */
bool cm_ib_has_port(const struct cm_id *id);
/* A listener that has its socket answers there, too, if the environment asks for it. 0 or an errno. */
int cm_ib_listen(struct cm_id *id, int backlog);
/* 0 or an errno. */
int cm_ib_connect(struct cm_id *id);
/* Has the host answered anything? */
bool cm_ib_is_heard(const struct cm_id *id);
/* The peer of a connection is told that it ends; what it answers ends it, or that nothing is answered for long
 * enough. Until then it is CM_DISCONNECTED with an `ib`. False: there is none to be ended so. */
bool cm_ib_disconnect(struct cm_id *id);
/* The box has news: the first of them, as of each socket one thing is done at a time. */
void cm_ib_ready(struct cm_channel *channel);
/* Its news go to this channel. 0 or an errno. */
int cm_ib_move(struct cm_id *id, struct cm_channel *to);
void cm_ib_close(struct cm_id *id);

/* ---- cm_ib_datagram.c: the same, of datagrams -------------------------------------------------------- */

/* What `own` asks. NULL and errno. */
struct ib_end *cm_ib_ask(struct cm_id *id, const struct soft_path *path);
void cm_ib_answered(struct cm_id *id, const struct ib_message *said);
void cm_ib_reply(struct cm_id *id, const struct cm_message *message);

/* ---- cm_ib_hear.c: what the peer says ------------------------------------------------------------------ */

#define CM_IB_ACK_TIMEOUT 19 /* of the queue pairs, 2.1 s: who knows what is on the way to a foreign one */

void cm_ib_hear_request(struct cm_message *peer, const struct ib_message *said);
void cm_ib_hear_reply(struct cm_id *id, const struct ib_message *said);
void cm_ib_hear_refusal(struct cm_id *id, const struct ib_message *said);
void cm_ib_hear_question(struct cm_message *peer, const struct ib_message *said);

/* ---- cm_choice.c: by which of the two ---------------------------------------------------------------- */

bool cm_choice_is_ib(const struct cm_id *id);
/* It was answered by the transport that it has now. */
void cm_choice_learn(const struct cm_id *id);
/* Under EXS_DEBUG a line: the other end is asked by the transport that it has now. */
void cm_choice_tell(const struct cm_id *id, const char *because);

/* ---- cm_link.c: what carries the packets -------------------------------------------------------- */

/* A listener's part, and that of a request that came to it. */
void cm_link_listen(struct cm_id *id);
void cm_link_requested(struct cm_id *id);
/* What `own` says of it, between these addresses. */
void cm_link_describe(struct cm_id *id, const union soft_addr *remote);
/* `own` offers no memory, but may do so soon, since this process or the listener has too much of it under way: how
 * often it is to be tried again. 0: it offers some, or never will. */
unsigned cm_link_tries(const struct cm_id *id);
/* Both have spoken: the path's link, and whether its packets need a check. 0 or an errno. */
int cm_link_choose(struct cm_id *id, struct soft_path *path);
/* The queue pair of the path is ready to receive. */
void cm_link_begin(struct cm_id *id, struct soft_path *path);
/* Of what cm_link_describe has said: may the packets go by UDP? */
bool cm_link_may_be_udp(const struct cm_id *id);
/* The answer to the request has been sent. */
void cm_link_replied(struct cm_id *id);
/* The link has received the peer's RTU, or the stream has ended, in state CM_REPLIED. 1: the RTU has come; -EPROTO:
 * something else has come in its place; -ECONNRESET: nothing has, and the stream has ended. */
int cm_link_hear(struct cm_id *id);
/* The handshake is over: the connection is established. */
void cm_link_established(struct cm_id *id);
/* What the socket is watched for in the identifier's state. */
uint32_t cm_link_events(const struct cm_id *id);
void cm_link_drop(struct cm_id *id);
void cm_link_count(struct soft_cm_counters *out);

/* ---- cm_qp.c: queue pairs --------------------------------------------------------------------- */

/* Why what asks, by `peer`, isn't what the listener's connections are: an enum cm_reason; 0: it is. */
uint16_t cm_qp_refuses(const struct cm_id *id);
/* Fill the parts of `own` that describe the queue pair. 0 or an errno. */
int cm_qp_describe(struct cm_id *id, enum cm_type type);
/* To RTS, with what both ends said. 0 or an errno. */
int cm_qp_connect(struct cm_id *id);
/* To ERR: all its work is flushed. */
void cm_qp_error(struct cm_id *id);
/* Take in the packets that came before the end of the connection. */
void cm_qp_drain(struct cm_id *id);

/* ---- cm_queues.c: what an identifier has beside its queue pair ------------------------------------- */

/* Whatever a queue pair takes that `attr` doesn't say. 0 or an errno. The identifier names only the completion
 * queues that were made for it. */
int cm_queues_complete(struct rdma_cm_id *public, struct ibv_qp_init_attr_ex *attr);
void cm_queues_drop_cqs(struct rdma_cm_id *public);

/* ---- cm_datagram.c: the port space of datagrams ---------------------------------------------------- */

static inline bool cm_is_datagram(const struct cm_id *id)
{
    return id->public.ps == RDMA_PS_UDP;
}

/* To an address and port of its own. */
static inline bool cm_is_bound(const struct cm_id *id)
{
    return id->fd != -1 || id->numbered;
}

/* Give it an address and a number. 0 or an errno. */
int cm_datagram_bind(struct cm_id *id, const struct sockaddr *addr);
/* A socket for its listening. 0 or an errno. */
int cm_datagram_seat(struct cm_id *id);
/* Does this question mean the listener's number? Then the identifier that it is for knows both. */
bool cm_datagram_is_asked(struct cm_id *id);

/* What is to be asked, of what the user gives. 0 or an errno. */
int cm_datagram_question(struct cm_id *id, const struct rdma_conn_param *param);
/* The peer has spoken. */
void cm_datagram_answered(struct cm_id *id);
/* It has, at one seat of several: keep that until all have been asked. False: it has failed. */
bool cm_datagram_take_claim(struct cm_id *id);
void cm_datagram_forget_claim(struct cm_id *id);
/* They have been: use the claim; or an errno, why one could not be asked. */
void cm_datagram_all_asked(struct cm_id *id, int error);
/* The user's answers. Accepting: 0 or an errno. */
int cm_datagram_accept(struct cm_id *id, const struct rdma_conn_param *param);
void cm_datagram_reject(struct cm_id *id, const void *private_data, uint8_t length);
/* What the event of a datagram's peer tells, but for its private data. */
void cm_datagram_describe(struct cm_id *id, struct rdma_ud_param *ud);

/* ---- cm_active.c, cm_passive.c, cm_connection.c: what a ready socket or a time-out brings ------ */

void cm_active_ready(struct cm_id *id, uint32_t events);
void cm_active_expired(struct cm_id *id);
/* The answer is in id->peer. */
void cm_active_answered(struct cm_id *id);
/* The host speaks as adapters do, and nobody listens there. */
void cm_active_unheard(struct cm_id *id);
void cm_listener_ready(struct cm_id *id);
void cm_listener_resume(struct cm_id *id);
void cm_passive_ready(struct cm_id *id);
void cm_passive_expired(struct cm_id *id);
/* The request is in id->peer, the addresses are known: tell the user. False: there is no memory. */
bool cm_passive_requested(struct cm_id *id);
void cm_passive_established(struct cm_id *id);
/* What the user says no to, with private data. */
void cm_refuse_request(struct cm_id *id, const void *private_data, uint8_t length);
void cm_established_ready(struct cm_id *id);
/* What came of a connection that both ends have ended is over, too. */
void cm_timewait_expired(struct cm_id *id);
/* It has ended, with this status of its event; what came before that is taken in first. */
void cm_ended(struct cm_id *id, int status);
/* A connection that can't come about any more. */
void cm_failed(struct cm_id *id, enum rdma_cm_event_type type, int status);
void cm_connection_describe(struct rdma_conn_param *conn, const struct cm_message *peer);
/* The bounds that librdmacm puts on a connection's parameters, and its defaults. 0 or an errno. */
int cm_conn_param(struct cm_id *id, const struct rdma_conn_param *param, size_t private_max);
/* What an endpoint's address says goes before what the program says. 0 or an errno. */
int cm_private_data(struct cm_id *id, const struct rdma_conn_param *param, size_t most);

static inline void cm_send(struct cm_id *id, const struct cm_message *message)
{
    id->transport->send(id, message);
}

static inline struct cm_id *cm_id_of(struct rdma_cm_id *id)
{
    return (struct cm_id *)id;
}

/* What a call of librdmacm returns. */
static inline int cm_result(int error)
{
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

#endif
