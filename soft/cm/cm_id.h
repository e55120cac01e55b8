/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_id.h - event channels and identifiers. Only the connection manager's own files include this header.
 *
 * Each channel has one lock, which guards the channel and all its identifiers. Lock order: a channel (two of them in
 * the order of their addresses), then a context, then the service thread's lock.
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
#include "core/base/waitset.h"
#include "soft/link/shm_setup.h"
#include "soft/link/tcp.h"
#include "soft/service/home.h"
#include "ib_port.h"

#define CM_HOP_LIMIT 64 /* hop limit (TTL) of packets to one peer */

enum cm_state {
    CM_IDLE, /* may be bound */
    CM_ADDR_RESOLVED,
    CM_ROUTE_RESOLVED,
    CM_LISTENING,
    CM_HALF_OPEN, /* TCP is established, and the request is not complete; the application does not know of it */
    CM_REFUSING,  /* the request was refused; waits until the peer has read that and closes */
    CM_REQUESTED, /* the application must accept or reject the request */
    CM_REPLIED,   /* the application has accepted, and the peer's RTU has not arrived */
    CM_TCP_CONNECTING,
    CM_REQUEST_SENT,
    CM_RESPONDED, /* the application must call soft_establish(), because it has created the queue pair itself */
    CM_ESTABLISHED,
    CM_DISCONNECTED /* the connection has ended or failed */
};

/* Kinds of timers. All timers of one kind have the same duration, so their queues are in order of expiry. */
enum cm_timeout {
    CM_TIMEOUT_HEAD_START, /* time for one transport before the other one is tried as well */
    CM_TIMEOUT_TCP, /* time for a TCP connection to the host, and then for a sign that it knows the protocol */
    CM_TIMEOUT_HANDSHAKE, /* time for the application at the other end to answer */
    CM_TIMEOUT_HALF_OPEN, /* time until a request must be complete */
    CM_TIMEOUT_PAUSE,     /* time until a listener without descriptors, or a postponed request, tries again */
    CM_TIMEOUT_TIMEWAIT,  /* time until no packet of an ended connection can still arrive */
    CM_TIMEOUTS,
    CM_NO_TIMEOUT = CM_TIMEOUTS
};

/* An event that was not delivered yet. It is a part of its identifier, so that no event is lost because no memory is
 * available. Delivering it makes a copy, which the application owns until soft_ack_cm_event() frees it. */
struct cm_pending {
    TAILQ_ENTRY(cm_pending) entry;
    struct cm_id *id;
    bool queued;
    enum rdma_cm_event_type type;
    int status;
};

/* At most one event of each kind is pending at any time. */
enum cm_kind { CM_KIND_ADDR, CM_KIND_ROUTE, CM_KIND_CONNECT, CM_KIND_DISCONNECT, CM_KIND_TIMEWAIT, CM_KINDS };

TAILQ_HEAD(cm_ids, cm_id);

/* How a connection's messages travel: over TCP between software devices (cm_stream.c), by InfiniBand's connection
 * manager to all others (cm_ib.c). All functions are called with the channel locked. */
struct cm_transport {
    bool meets; /* two ends on one host can share memory (cm_link.c) */
    /* Returns both ends' addresses, or only *local if `remote` is NULL. 0 or an errno. */
    int (*names)(const struct cm_id *id, union soft_addr *local, union soft_addr *remote);
    /* Returns the largest path MTU whose packets fit into the packets of the route. */
    enum ibv_mtu (*mtu)(const struct cm_id *id);
    /* Returns the measured round-trip time, ns; 0: unknown. */
    uint64_t (*round_trip)(const struct cm_id *id);
    /* Sends a message. A broken connection is reported later. */
    void (*send)(struct cm_id *id, const struct cm_message *message);
};

extern const struct cm_transport cm_tcp, cm_ib;

/* An identifier. The application owns it, but its listener owns it until its CONNECT_REQUEST is delivered. */
struct cm_id {
    struct rdma_cm_id public; /* first: the application holds a pointer to it */
    void *beyond[4];          /* zeros where librdmacm has private fields, which rsockets read */
    enum cm_state state;
    int fd;        /* the TCP socket; -1: none yet, or no longer */
    int number;    /* descriptor that holds a datagram identifier's number (cm_number.h); or -1 */
    bool numbered; /* it has a number; with SO_REUSEADDR others may have the same */
    unsigned slot; /* the slot of the peer's number that is being asked (cm_number.h) */
    /* The reply of a slot that claims the number, until all slots were asked; or NULL. */
    struct cm_message *claim;
    const struct cm_transport *transport;
    struct ib_end *ib;      /* its endpoint at RoCE's port, which a listener has in addition to `fd`; or NULL */
    enum ibv_mtu route_mtu; /* if `ib` is not NULL: the route's path MTU */
    bool reuse_addr, af_only;
    bool sync;                /* synchronous, with a private channel on which its calls block: cm_sync.c */
    bool unbound;             /* the application did not bind it before it connected */
    bool asked_tcp, asked_ib; /* transports tried so far; both run if CM_TCP_CONNECTING and `ib` */
    bool tcp_refused;         /* the host has no listener at this TCP port */
    bool doubted;             /* it is not known whether the host answers at RoCE's port */
    unsigned refusals;        /* how often the host had no listener */
    unsigned postponed;       /* how often the request was postponed, with TCP established */
    bool ended;               /* there was a connection, and it has ended */
    bool left;                /* the application has disconnected; the peer may have done so before */
    uint8_t traffic_class;    /* IP traffic class of packets that are sent */
    uint8_t ack_timeout;
    uint32_t psn;                /* the first PSN that this end expects */
    struct ibv_sa_path_rec path; /* public.route points here; for applications other than EXS */
    /* Attributes for the queue pairs of a listener's connections (cm_sync.c). */
    struct ibv_qp_init_attr *endpoint;
    void *connect; /* private data from rdma_addrinfo, of an endpoint that connects; or NULL */
    size_t connect_length;
    struct cm_pending pending[CM_KINDS];
    LIST_HEAD(, cm_join) joins; /* multicast groups: cm_multicast.c */
    unsigned unacknowledged;    /* events about it that the application has not acknowledged */

    enum cm_timeout timeout;  /* the kind of the timer that runs; or CM_NO_TIMEOUT */
    uint64_t deadline;        /* when it expires, ns of CLOCK_MONOTONIC */
    TAILQ_ENTRY(cm_id) timed; /* entry in the channel's queue of timers of this kind */

    struct cm_id *listener; /* its owner, until the CONNECT_REQUEST is delivered; else NULL */
    struct cm_ids children; /* the identifiers that a listener owns, oldest first */
    TAILQ_ENTRY(cm_id) child;
    unsigned half_open; /* number of children in CM_HALF_OPEN */
    uint64_t patience;  /* ns: how long one of them may be idle while others wait (cm_half_open.c) */

    /* Used by cm_link.c: */
    struct shm_setup *setup;    /* a listener's unix sockets */
    int guest;                  /* unix socket of the client that offers memory; -1: none */
    struct shm_peer *offered;   /* offered shared memory, until the queue pair owns it; or NULL */
    struct shm_refusal refusal; /* why `offered` is NULL */
    bool names_udp;             /* `own` names a UDP port, and no link has been chosen */
    struct tcp_peer *tcp;       /* the tcp link, whose packets `fd` carries, too; or NULL */

    struct cm_message own, peer; /* the REQ, REP or REJ of this end, and of the peer */
    uint8_t in[CM_SIZE_MAX];     /* the first in_length bytes of a message that is arriving */
    size_t in_length;
    uint8_t out[CM_SIZE_MAX + CM_HEADER + CM_HEADER]; /* out_length bytes that the socket has not taken yet */
    size_t out_length;
};

/* An event channel. */
struct cm_channel {
    struct rdma_event_channel public; /* first. Its fd is that of `waits`; -1: a quiet channel */
    pthread_mutex_t lock;
    pthread_cond_t acknowledged; /* an event was acknowledged */
    unsigned waiters;            /* threads that sleep in soft_get_cm_event() */
    bool gone;                   /* it was destroyed, and the last waiter frees it */
    struct waitset waits;        /* readable for sockets, timers and pending events */
    struct soft_home *home;      /* its device context, created when it is first needed */
    bool common;                 /* `home` is the context that all channels share */
    TAILQ_HEAD(, cm_pending) pending;
    struct cm_event *spare; /* memory for the next event, so that delivering it can't fail; or NULL */
    struct cm_ids timeouts[CM_TIMEOUTS];
    struct ib_box ib; /* `waits` contains its eventfd, if it has one */
};

/* ---- cm_channel.c: the channel ------------------------------------------------------------- */

/* Locks an identifier's channel and returns it. */
struct cm_channel *cm_lock(struct cm_id *id);
/* Unlocks a channel, and makes its descriptor readable if an event is pending. Keeps errno. */
void cm_unlock(struct cm_channel *channel);
/* Returns the channel's context, and creates it if there is none. NULL and errno on failure. */
struct ibv_context *cm_context(struct cm_channel *channel);
/* Returns whether all channels share one context (soft_share_context()). */
bool cm_is_shared(void);
/* Adds an event of this kind to the channel's pending events. */
void cm_post(struct cm_id *id, enum cm_kind kind, enum rdma_cm_event_type type, int status);
/* Like cm_post(), with a struct cm_pending outside of the identifier. */
void cm_post_pending(struct cm_id *id, struct cm_pending *pending, enum rdma_cm_event_type type, int status);
/* Remove events of the identifier that were not delivered yet. */
void cm_unpost(struct cm_id *id);
void cm_unpost_pending(struct cm_id *id, struct cm_pending *pending);
/* Waits until the application has acknowledged all events about the identifier. Called with the channel locked; unlocks
 * it while it waits. */
void cm_await_acknowledgement(struct cm_id *id);
/* Adds the identifier's socket to the channel's wait set, for these events (EPOLLIN, EPOLLOUT). 0 or an errno.
 * cm_want() changes the events. */
int cm_register(struct cm_id *id, uint32_t events);
void cm_want(struct cm_id *id, uint32_t events);
struct cm_channel *cm_channel_of(const struct cm_id *id);

/* ---- cm_multicast.c: groups -------------------------------------------------------------------- */

/* Fills in an event that is about to be delivered, if it is an event of a multicast group. */
void cm_multicast_describe(struct cm_id *id, const struct cm_pending *pending, struct rdma_cm_event *event);
/* Detaches the queue pair from all groups, before it is destroyed. */
void cm_multicast_detach(struct cm_id *id);
/* Leaves all groups. */
void cm_multicast_leave_all(struct cm_id *id);

/* ---- cm_timer.c: timers ---------------------------------------------------------------------- */

/* Starts the identifier's timer, in place of one that runs. */
void cm_timer_start(struct cm_id *id, enum cm_timeout timeout);
void cm_timer_stop(struct cm_id *id);
/* If the channel has a descriptor: sets the timer of its wait set to the first timer that runs. */
void cm_timer_settle(struct cm_channel *channel);
/* Moves an identifier's timer to another channel. */
void cm_timer_move(struct cm_id *id, struct cm_channel *from, struct cm_channel *to);
/* Removes an identifier whose timer has expired at `now` (ns of CLOCK_MONOTONIC) from the queue and returns it; NULL:
 * there is none, and the wait set's timer is set again. */
struct cm_id *cm_timer_expired(struct cm_channel *channel, uint64_t now);

/* Returns the time since the identifier's timer was started, ns. */
uint64_t cm_timer_elapsed(const struct cm_id *id);

/* ---- cm_half_open.c: connections of a listener without a complete request ----------------------- */

void cm_half_open_init(struct cm_id *listener);
/* Returns whether the listener may accept another connection. */
bool cm_half_open_has_room(struct cm_id *listener);
/* Adds a TCP connection that was accepted. Returns whether another one had to be closed for it. */
bool cm_half_open_add(struct cm_id *listener, struct cm_id *id);
/* Must be called when a request is complete. */
void cm_half_open_completed(struct cm_id *listener);
/* Must be called when a connection is no longer half-open: a listener that paused can continue. */
void cm_half_open_ended(struct cm_id *listener);

/* ---- cm_id.c: identifiers -------------------------------------------------------------------- */

struct cm_id *cm_id_new(struct cm_channel *channel, enum rdma_port_space ps);
/* Removes an identifier from all lists, and closes its sockets. */
void cm_id_detach(struct cm_id *id);
/* Like cm_id_detach(), and frees the identifier, which the application does not know. */
void cm_id_free(struct cm_id *id);
/* Stops the identifier's timer, and closes its sockets and its endpoint at RoCE's port. */
void cm_id_close(struct cm_id *id);
/* Closes only the TCP socket. */
void cm_id_close_socket(struct cm_id *id);
/* Sets the public addresses to those of the socket. 0 or an errno. */
int cm_id_addresses(struct cm_id *id);
/* Computes the public GIDs from the public addresses. */
void cm_id_gids(struct cm_id *id);
/* Returns the attributes of an address handle for packets to a GID. */
struct ibv_ah_attr cm_id_way(const struct cm_id *id, const union ibv_gid *to);
/* Sets the identifier's context and, if the context is shared, its protection domain. */
void cm_id_use(struct cm_id *id, struct ibv_context *context);

/* ---- cm_sync.c: identifiers without the application's channel -------------------------------------- */

/* Called at the end of a call on an identifier (not locked), whose result is `result`: if the identifier is synchronous
 * and `result` is 0, waits for the event of the call. Returns `result`, or -1 and errno if the event reports a
 * failure. */
int cm_complete(struct cm_id *id, int result);

/* ---- cm_socket.c: TCP ------------------------------------------------------------------------- */

int cm_socket_open(sa_family_t family, bool af_only);
int cm_socket_bind(int fd, const struct sockaddr *addr, bool reuse);
/* Sets the options of a connection: TCP_NODELAY, and keepalive, by which the failure of a host is detected in time. */
void cm_socket_tune(int fd);
/* Returns the addresses of both ends; IPv4-mapped addresses are returned as IPv4 addresses. 0 or an errno. */
int cm_socket_names(int fd, union soft_addr *local, union soft_addr *remote);
/* Returns the largest path MTU whose packets fit into the packets of the connection's route. */
enum ibv_mtu cm_socket_mtu(int fd);
/* Like cm_socket_mtu(), for the route between two addresses. 0 or an errno. */
int cm_socket_route_mtu(const union soft_addr *local, const union soft_addr *remote, enum ibv_mtu *mtu);
/* Returns the round-trip time that TCP has measured, ns; 0: unknown. */
uint64_t cm_socket_round_trip(int fd);
socklen_t cm_addr_size(const struct sockaddr *addr);

/* ---- cm_stream.c: messages over TCP ------------------------------------------------------------ */

/* Sends the bytes of `out` that the socket takes now. */
void cm_send_rest(struct cm_id *id);
/* Reads one message into id->in. 1: it is complete; 0: more bytes must arrive; -errno: from cm_message_size(), or
 * -ECONNRESET if the connection has ended. */
int cm_receive(struct cm_id *id);
/* Reads and discards bytes. False: the connection has ended. */
bool cm_discard(struct cm_id *id);

/* ---- cm_ib.c: InfiniBand's connection manager ---------------------------------------------------- */

/* Returns whether the identifier's context has a share of RoCE's port, and its kind of connection can be set up
 * there. */
bool cm_ib_has_port(const struct cm_id *id);
/* A listener with a TCP socket also listens at RoCE's port, if EXS_ROCE asks for it. 0 or an errno. */
int cm_ib_listen(struct cm_id *id, int backlog);
/* Sends the request. 0 or an errno. */
int cm_ib_connect(struct cm_id *id);
/* Returns whether the host has sent any answer. */
bool cm_ib_is_heard(const struct cm_id *id);
/* Sends a DREQ. The connection has ended when the peer has answered, or when all retries are used up; until then the
 * state is CM_DISCONNECTED and `ib` is not NULL. False: the identifier has no connection at RoCE's port. */
bool cm_ib_disconnect(struct cm_id *id);
/* Called when the channel's event queue (struct ib_box) is readable: handles its first event. */
void cm_ib_ready(struct cm_channel *channel);
/* Moves the identifier's events to this channel's event queue. 0 or an errno. */
int cm_ib_move(struct cm_id *id, struct cm_channel *to);
void cm_ib_close(struct cm_id *id);

/* ---- cm_ib_datagram.c: the same for datagrams -------------------------------------------------------- */

/* Starts the look-up that `own` describes. NULL and errno on failure. */
struct ib_end *cm_ib_ask(struct cm_id *id, const struct soft_path *path);
/* Handles the reply to a look-up. */
void cm_ib_answered(struct cm_id *id, const struct ib_message *said);
/* Answers a look-up. */
void cm_ib_reply(struct cm_id *id, const struct cm_message *message);

/* ---- cm_ib_hear.c: converts the peer's messages to struct cm_message --------------------------------- */

#define CM_IB_ACK_TIMEOUT 19 /* minimum timeout of a queue pair to another vendor's device: 2.1 s */

void cm_ib_hear_request(struct cm_message *peer, const struct ib_message *said);
void cm_ib_hear_reply(struct cm_id *id, const struct ib_message *said);
void cm_ib_hear_refusal(struct cm_id *id, const struct ib_message *said);
void cm_ib_hear_question(struct cm_message *peer, const struct ib_message *said);

/* ---- cm_choice.c: which transport is first ----------------------------------------------------------- */

/* Returns whether InfiniBand's connection manager must be tried first. */
bool cm_choice_is_ib(const struct cm_id *id);
/* Records that the host answered by the identifier's current transport. */
void cm_choice_learn(const struct cm_id *id);
/* With EXS_DEBUG, prints which transport is being tried and why. */
void cm_choice_tell(const struct cm_id *id, const char *because);

/* ---- cm_link.c: the link for the packets -------------------------------------------------------- */

/* Opens a listener's unix sockets. */
void cm_link_listen(struct cm_id *id);
/* Called when a request has arrived: finds the shared memory that it names. */
void cm_link_requested(struct cm_id *id);
/* Fills the parts of `own` that describe the link to this address. */
void cm_link_describe(struct cm_id *id, const union soft_addr *remote);
/* Returns how often a request that offers no shared memory should be postponed and tried again, because this process or
 * the listener is setting up too many connections at the moment. 0: the request offers memory, or waiting would not
 * help. */
unsigned cm_link_tries(const struct cm_id *id);
/* Called when both REQ and REP are known: sets the path's link to shm if both messages name it, else to tcp if both
 * name it, else to none (UDP). 0 or an errno. */
int cm_link_choose(struct cm_id *id, struct soft_path *path);
/* Called when the queue pair of the path is ready to receive: starts the link. */
void cm_link_begin(struct cm_id *id, struct soft_path *path);
/* Called after cm_link_describe(): returns whether the link may still be UDP. */
bool cm_link_may_be_udp(const struct cm_id *id);
/* Must be called when the reply to the request was sent. */
void cm_link_replied(struct cm_id *id);
/* Called in state CM_REPLIED when the tcp link has received a message or the stream has ended. Returns 1: the peer's
 * RTU has arrived; -EPROTO: another message has arrived; -ECONNRESET: the stream has ended before. */
int cm_link_hear(struct cm_id *id);
/* Must be called when the connection is established. */
void cm_link_established(struct cm_id *id);
/* Returns the events (EPOLLIN, EPOLLOUT) for which the socket must be watched in the identifier's state. */
uint32_t cm_link_events(const struct cm_id *id);
/* Releases the members of the identifier that this file uses. */
void cm_link_drop(struct cm_id *id);
/* Sets the counts by link. */
void cm_link_count(struct soft_cm_counters *out);

/* ---- cm_qp.c: queue pairs --------------------------------------------------------------------- */

/* Returns why the request in `peer` does not match the listener's kind of connections, an enum cm_reason; 0: it
 * does. */
uint16_t cm_qp_refuses(const struct cm_id *id);
/* Fills the parts of `own` that describe the queue pair. 0 or an errno. */
int cm_qp_describe(struct cm_id *id, enum cm_type type);
/* Moves the queue pair to RTS, with the values in `own` and `peer`. 0 or an errno. */
int cm_qp_connect(struct cm_id *id);
/* Moves the queue pair to ERR: all its work requests are flushed. */
void cm_qp_error(struct cm_id *id);
/* Processes the packets that arrived before the end of the connection. */
void cm_qp_drain(struct cm_id *id);

/* ---- cm_queues.c: an identifier's completion and receive queues ------------------------------------ */

/* Completes `attr`: sets the objects that it does not name to those of the identifier, and creates missing completion
 * queues, which the identifier then has. 0 or an errno. */
int cm_queues_complete(struct rdma_cm_id *public, struct ibv_qp_init_attr_ex *attr);
/* Destroys the completion queues that were created for the identifier. */
void cm_queues_drop_cqs(struct rdma_cm_id *public);

/* ---- cm_datagram.c: the port space of datagrams ---------------------------------------------------- */

static inline bool cm_is_datagram(const struct cm_id *id)
{
    return id->public.ps == RDMA_PS_UDP;
}

/* Returns whether an identifier is bound to a local address and port. */
static inline bool cm_is_bound(const struct cm_id *id)
{
    return id->fd != -1 || id->numbered;
}

/* Binds an identifier to an address and a number. 0 or an errno. */
int cm_datagram_bind(struct cm_id *id, const struct sockaddr *addr);
/* Opens the TCP socket of a listener, at one of its number's slots. 0 or an errno. */
int cm_datagram_slot(struct cm_id *id);
/* Sets the ports of a request's identifier to both numbers. Returns whether the request is for the listener's
 * number. */
bool cm_datagram_is_asked(struct cm_id *id);

/* Fills `own` with the SIDR_REQ for the application's parameters. 0 or an errno. */
int cm_datagram_question(struct cm_id *id, const struct rdma_conn_param *param);
/* Called when the peer's reply is in id->peer. */
void cm_datagram_answered(struct cm_id *id);
/* Keeps the reply of one slot until all slots have been asked. False: the request has failed. */
bool cm_datagram_take_claim(struct cm_id *id);
void cm_datagram_forget_claim(struct cm_id *id);
/* Called when all slots have been asked: uses the reply. `error`: an errno if a slot could not be asked, with which the
 * request fails; or 0. */
void cm_datagram_all_asked(struct cm_id *id, int error);
/* Send the application's answer. cm_datagram_accept() returns 0 or an errno. */
int cm_datagram_accept(struct cm_id *id, const struct rdma_conn_param *param);
void cm_datagram_reject(struct cm_id *id, const void *private_data, uint8_t length);
/* Fills in the parameters of an event, except the private data. */
void cm_datagram_describe(struct cm_id *id, struct rdma_ud_param *ud);

/* ---- cm_active.c, cm_passive.c, cm_connection.c: handlers of ready sockets and timers ---------- */

void cm_active_ready(struct cm_id *id, uint32_t events);
void cm_active_expired(struct cm_id *id);
/* Called when the peer's answer is in id->peer. */
void cm_active_answered(struct cm_id *id);
/* Called when the host has answered at RoCE's port that it has no listener there. */
void cm_active_unheard(struct cm_id *id);
void cm_listener_ready(struct cm_id *id);
void cm_listener_resume(struct cm_id *id);
void cm_passive_ready(struct cm_id *id);
void cm_passive_expired(struct cm_id *id);
/* Called when the request is in id->peer and the addresses are known: posts the CONNECT_REQUEST. False: no memory. */
bool cm_passive_requested(struct cm_id *id);
void cm_passive_established(struct cm_id *id);
/* Refuses a request because the application has rejected it, with private data. */
void cm_refuse_request(struct cm_id *id, const void *private_data, uint8_t length);
void cm_established_ready(struct cm_id *id);
/* Called when the TIMEWAIT of a connection that both ends have ended is over. */
void cm_timewait_expired(struct cm_id *id);
/* Called when the connection has ended: processes the packets that arrived before, and posts DISCONNECTED with this
 * status. */
void cm_ended(struct cm_id *id, int status);
/* Called when the connection can't be established: posts this event. */
void cm_failed(struct cm_id *id, enum rdma_cm_event_type type, int status);
void cm_connection_describe(struct rdma_conn_param *conn, const struct cm_message *peer);
/* Sets `own` from the application's parameters, with librdmacm's limits and defaults. 0 or an errno. */
int cm_conn_param(struct cm_id *id, const struct rdma_conn_param *param, size_t private_max);
/* Sets `own`'s private data: first the bytes of the endpoint's rdma_addrinfo, then those of the application. `most`:
 * the maximum of both. 0 or an errno. */
int cm_private_data(struct cm_id *id, const struct rdma_conn_param *param, size_t most);

/* Sends a message by the identifier's transport. */
static inline void cm_send(struct cm_id *id, const struct cm_message *message)
{
    id->transport->send(id, message);
}

static inline struct cm_id *cm_id_of(struct rdma_cm_id *id)
{
    return (struct cm_id *)id;
}

/* Converts an errno to what a call of librdmacm returns: 0, or -1 and errno. */
static inline int cm_result(int error)
{
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

#endif
