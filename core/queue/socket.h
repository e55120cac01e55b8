/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * socket.h - the data of a socket, which its queue, its connection and the functions of sock/ share. core/sock/sock.h
 * has the functions, and describes a socket's life.
 */
#ifndef XS_SOCKET_H
#define XS_SOCKET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/queue.h>
#include "core/device/registry.h"
#include "op.h"

struct conn;
struct lookup;
struct polled;
struct queue;

/* Whether what was sent on a socket is complete; if not, whether the application knows that (ending.h). */
enum sent { SENT_WHOLE = 0, SENT_TORN = 1, SENT_UNREPORTED = 2, SENT_TORN_UNREPORTED = 3, SENT_LOST = 4 };

/* Keepalive (probe.c), unless options change it: */
#define PROBE_S 8 /* s, between two probes of an idle peer */
#define PROBES 4  /* unanswered probes after the first until the peer counts as gone */

/* What exs_setsockopt changes (sockopt.c). An accepted connection starts with its listener's. */
struct options {
    bool lingers;            /* SO_LINGER: a close waits for pending sends, */
    uint64_t linger;         /* for this long, ns; 0: a close aborts the connection */
    uint32_t receive_buffer; /* SO_RCVBUF: bytes, a power of 2; 0: RECV_RING_SIZE */
    int send_buffer;         /* SO_SNDBUF: bytes; 0: unlimited */
    bool refuses;            /* EXS_SO_SENDLIMIT: a nonblocking send beyond SO_SNDBUF fails */
    bool reuses;             /* SO_REUSEADDR */
    bool ipv6_only;          /* IPV6_V6ONLY */
    bool keeps_alive;        /* SO_KEEPALIVE: the peer is probed on any device, at the times below (probe.c) */
    uint32_t keep_idle;      /* TCP_KEEPIDLE, TCP_KEEPINTVL: s; 0: PROBE_S */
    uint32_t keep_interval;
    uint32_t keep_count;   /* TCP_KEEPCNT; 0: PROBES */
    uint32_t user_timeout; /* TCP_USER_TIMEOUT: ms; 0: the device's default */
};

enum sock_state {
    SOCK_FRESH,
    SOCK_BOUND,
    SOCK_LISTENING,
    /* a peer's request was answered; not established, and not returned by an accept (incoming.c) */
    SOCK_HALF_OPEN,
    SOCK_ARRIVED, /* established, and not returned by an accept */
    SOCK_CONNECTING,
    SOCK_CONNECTED, /* also if it has broken since then, see conn->state.stage */
    SOCK_CLOSING
};

union sock_address {
    struct sockaddr_in6 in6; /* the longest one first, so that {0} clears all bytes */
    struct sockaddr_in in;
    struct sockaddr sa;
};

/* A connection request that waits for an accept. Owned by the listener. */
struct request {
    TAILQ_ENTRY(request) link;
    struct rdma_cm_id *id;
    int device;
    size_t length;
    /* RDMA READs that the peer wants outstanding, and that it serves at once */
    uint8_t reads_wanted, reads_served;
    uint8_t private_data[256];
};

struct sock {
    /* References: the table, the home, calls. Each decrement pairs with the last one, whose thread frees the socket. */
    _Atomic int refs;
    int number;        /* the descriptor that stands for the socket (table.c), */
    uint64_t identity; /* as long as the descriptor has this identity (fds.h) */
    int family, type;
    _Atomic int status_flags; /* O_NONBLOCK or 0. Pairs with nothing (nonblocking.c) */
    enum sock_state state;
    pthread_mutex_t guard; /* guards a socket without a home */
    /* The queue that drives the socket; a reference; written once. The store pairs with the load by a thread that finds
     * it set and then takes the queue's lock. */
    _Atomic(struct queue *) home;
    LIST_ENTRY(sock) at_home;
    /* The queue that the application gave the socket to, which can't be deleted before the socket is closed. Usually
     * the home; or a queue that the home is attached to, if the request was answered for another queue's accept.
     * NULL: none, since the socket was connected or accepted by a blocking call, or was bound first. Guarded by the
     * home's lock. */
    struct queue *owner;
    struct conn *conn; /* NULL: there is no queue pair */
    /* enum sent (ending.h): whether all that was sent is complete. Written with the lock, but a thread that dequeues
     * the event clears SENT_UNREPORTED without. Pairs with nothing: a thread that learned of the event from another
     * thread is ordered behind that thread. */
    _Atomic uint8_t sent;

    /* CM ids: a listener or bound socket has one for each device, a connection that of `device` */
    struct rdma_cm_id *id[DEVICES_MAX];
    int device; /* the index of the device that carries, or is tried for, the connection; -1: none */
    bool bound; /* by exs_bind or exs_listen: a device without an id does not have its address */
    union sock_address peer;
    socklen_t peer_length;

    LIST_HEAD(, polled) polls; /* of exs_poll (poll.c), including some that have completed */
    bool is_followed;          /* a poll or a close waits for changes of the connection */

    struct op *opening;        /* the connect, until it is established */
    int connect_error;         /* SO_ERROR: why the last connect in the background failed, or 0 */
    struct op *closing;        /* the close, until it is done */
    bool lingers;              /* the event of the close reports whether all that was sent has arrived */
    bool closes_in_background; /* the library's thread drives the close (progress.c) */
    /* close: ns, when it stops waiting for the peer; 0: not while sends are pending */
    uint64_t close_due;
    int open_error;           /* why the last device that was tried could not connect */
    struct lookup *lookup;    /* connect by name: its addresses (host.c), until it is established; or NULL */
    uint64_t lookup_deadline; /* ns: of the whole connect */

    /* listener */
    /* its port; 0: does not listen. Pairs with nothing: nothing else is read with it */
    _Atomic in_port_t listens_at;
    /* the maximum number of requests and arrived connections while no accept is pending */
    int backlog;
    TAILQ_HEAD(requests, request) requests;
    int requests_held;
    struct op_list accepts; /* pending accepts */
    struct op *next_accept; /* the accept that the next request is answered for; NULL: the first */
    TAILQ_HEAD(incoming_socks, sock) half_open, arrived; /* oldest first */
    int half_open_count,
        half_open_private; /* sockets in half_open; those of them whose home is a private queue */
    int arrived_count;
    /* ns, how long a half-open connection may be silent while requests wait; 0: the default */
    uint64_t patience;
    /* Set while the listener's timer is handled: all CM events that have arrived were handled before (incoming.c). */
    bool listened;

    /* half-open or arrived: */
    bool alone;            /* answered for a blocking accept; its home is a private queue */
    struct sock *listener; /* the listener whose list it is in, */
    TAILQ_ENTRY(sock) incoming;
    uint64_t since; /* and since when, ns */

    TAILQ_ENTRY(sock) by_time;
    /* ns, 0 = none: the earliest of the times below, or of a connect or close */
    uint64_t deadline;
    uint64_t probe_due;                 /* ns, 0 = none: when the peer is probed (probe.c) */
    uint64_t receive_limit, send_limit; /* ns, 0 = none: the timeout of an operation, from its start */
    struct options options;
    /* sends: there is a timeout or a limit of bytes; receives: there is a timeout. Both: or EXS_CHECK is set. */
    bool sends_bounded, receives_bounded;
};

static inline enum sent sock_sent(const struct sock *sock)
{
    return (enum sent)atomic_load_explicit(&sock->sent, memory_order_relaxed);
}

static inline bool sock_is_stream(const struct sock *sock)
{
    return sock->type == SOCK_STREAM;
}

/* ---- Timeouts (limit.c); called with the lock -------------------------------------------------- */

/* Sets the socket's deadline (ns), unless an earlier one is set. A spurious timeout is harmless, so deadlines are not
 * moved back when an operation completes. */
void xs_sock_wake_by(struct sock *sock, uint64_t deadline);
/* Sets the deadline of an operation that starts now: `limit` (ns) from now. */
void xs_limit(struct sock *sock, struct op *op, uint64_t limit);
/* Sets the time (ns) of the next probe of the peer. */
void xs_sock_probe_at(struct sock *sock, uint64_t when);

#endif
