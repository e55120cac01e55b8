/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * socket.h - the data of a socket, which its queue, its connection and core/sock/ share. The functions of sockets are
 * in core/sock/sock.h.
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

/* Whether the sends of a socket were sent completely and, if not, whether the application knows that (ending.h). */
enum sent { SENT_WHOLE = 0, SENT_TORN = 1, SENT_UNREPORTED = 2, SENT_TORN_UNREPORTED = 3, SENT_LOST = 4 };

/* The defaults of keepalive (probe.c). */
#define PROBE_S 8 /* s: time between two probes of an idle peer */
#define PROBES 4  /* unanswered probes after the first one, after which the connection breaks */

/* Options that exs_setsockopt changes (sockopt.c). An accepted socket gets those of its listener. */
struct options {
    /* SO_LINGER: a close waits for pending sends, `linger` ns at most; 0: it aborts the connection. */
    bool lingers;
    uint64_t linger;
    uint32_t receive_buffer; /* SO_RCVBUF: bytes, a power of 2; 0: RECV_RING_SIZE */
    int send_buffer;         /* SO_SNDBUF: bytes; 0: unlimited */
    bool refuses;            /* EXS_SO_SENDLIMIT: a nonblocking send beyond SO_SNDBUF fails */
    bool reuses;             /* SO_REUSEADDR */
    bool ipv6_only;          /* IPV6_V6ONLY */
    bool keeps_alive;        /* SO_KEEPALIVE: the peer is probed on any device, at the times below (probe.c) */
    /* TCP_KEEPIDLE and TCP_KEEPINTVL: s; 0: PROBE_S. */
    uint32_t keep_idle;
    uint32_t keep_interval;
    uint32_t keep_count;   /* TCP_KEEPCNT; 0: PROBES */
    uint32_t user_timeout; /* TCP_USER_TIMEOUT: ms; 0: the device's default */
};

enum sock_state {
    SOCK_FRESH,
    SOCK_BOUND,
    SOCK_LISTENING,
    /* the peer's request was answered, and the connection is not established yet (incoming.c) */
    SOCK_HALF_OPEN,
    SOCK_ARRIVED, /* the connection is established, and no accept has returned it yet */
    SOCK_CONNECTING,
    SOCK_CONNECTED, /* the connection was established; conn->state.stage says whether it has broken */
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
    int device;    /* index of xs_device() */
    size_t length; /* bytes of private data */
    /* Maximum numbers of outstanding RDMA READs: that the peer wants to post, and that it serves. */
    uint8_t reads_wanted, reads_served;
    uint8_t private_data[256];
};

/* A socket. The lock of its home guards it, or `guard` while it has no home. */
struct sock {
    /* References: one of the table, one of the home, and one of each call that uses the socket. Each decrement pairs
     * with the last one, whose thread frees the socket. */
    _Atomic int refs;
    int number;        /* the descriptor that stands for the socket (table.c) */
    uint64_t identity; /* identity of that descriptor (fds.h); another one: the program has closed the number */
    int family, type;
    _Atomic int status_flags; /* O_NONBLOCK or 0. Pairs with nothing (nonblocking.c) */
    enum sock_state state;
    pthread_mutex_t guard; /* guards a socket without a home */
    /* The queue that drives the socket (sock.h), with a reference. Written once. The store pairs with the load by a
     * thread that finds it set and then takes the queue's lock. */
    _Atomic(struct queue *) home;
    LIST_ENTRY(sock) at_home; /* entry in the home's list `socks` */
    /* The queue that the application gave the socket to; it can't be deleted before the socket is closed. It is usually
     * the home; or a queue that the home is attached to, if the request was answered for another queue's accept. NULL:
     * the socket was connected or accepted by a blocking call, or was bound before it was connected. Guarded by the
     * home's lock. */
    struct queue *owner;
    struct conn *conn; /* NULL: there is no queue pair */
    /* An enum sent (ending.h). Written with the lock, except that a thread that dequeues the event of a failed send
     * clears SENT_UNREPORTED without it. Pairs with nothing: a thread that learned of the event from another thread is
     * ordered behind that thread. */
    _Atomic uint8_t sent;

    /* CM ids by device: a bound or listening socket has one on each device that has its address, a connection has that
     * of `device`. */
    struct rdma_cm_id *id[DEVICES_MAX];
    int device; /* the index of the device that carries the connection, or that a connect is trying; -1: none */
    bool bound; /* exs_bind or exs_listen has bound it */
    union sock_address peer;
    socklen_t peer_length;

    LIST_HEAD(, polled) polls; /* elements of exs_poll (poll.c), including some whose poll has ended */
    bool is_followed;          /* a poll or a close waits for changes of the connection */

    struct op *opening;        /* the connect, until it is established; or NULL */
    int connect_error;         /* SO_ERROR: why the last connect in the background failed, or 0 */
    struct op *closing;        /* the close, until it is done; or NULL */
    bool lingers;              /* the event of the close reports whether all sends have arrived */
    bool closes_in_background; /* the library's progress thread drives the close (progress.c) */
    /* The time at which a close stops waiting for the peer, ns; 0: it has no limit while sends are pending. */
    uint64_t close_due;
    int open_error;           /* why the last device that was tried could not connect, an errno */
    struct lookup *lookup;    /* connect by name: the addresses (host.c), until it is established; or NULL */
    uint64_t lookup_deadline; /* connect by name: deadline of the whole connect, ns */

    /* For a listener: */

    /* Its port; 0: the socket does not listen. Pairs with nothing: nothing else is read with it. */
    _Atomic in_port_t listens_at;
    /* Maximum number of requests and arrived connections while no accept is pending. */
    int backlog;
    TAILQ_HEAD(requests, request) requests; /* requests that are not answered */
    int requests_held;                      /* number of `requests` */
    struct op_list accepts;                 /* pending accepts */
    struct op *next_accept; /* the accept for which the next request is answered; NULL: the first */
    TAILQ_HEAD(incoming_socks, sock) half_open, arrived; /* oldest first */
    /* Number of sockets in half_open; number of those whose home is a private queue. */
    int half_open_count, half_open_private;
    int arrived_count; /* number of `arrived` */
    /* How long a half-open connection may be silent while requests wait, ns; 0: the default. */
    uint64_t patience;
    /* Set while the listener's timer is handled: all CM events that have arrived were handled before (incoming.c). */
    bool listened;

    /* For a half-open or arrived socket: */

    bool alone; /* its request was answered for a blocking accept, and its home is a private queue */
    /* The listener in whose list it is, and since when, ns. */
    struct sock *listener;
    TAILQ_ENTRY(sock) incoming;
    uint64_t since;

    TAILQ_ENTRY(sock) by_time; /* entry in the home's list `time.socks` */
    /* The time at which the socket's timer expires, ns: the earliest deadline of an operation or of the socket's state,
     * or `probe_due`. 0: none. */
    uint64_t deadline;
    uint64_t probe_due; /* when the peer is probed (probe.c), ns; 0: not */
    /* SO_RCVTIMEO, SO_SNDTIMEO: the timeout of an operation from its start, ns; 0: none. */
    uint64_t receive_limit, send_limit;
    struct options options;
    /* sends_bounded: sends have a timeout or a limit of bytes; receives_bounded: receives have a timeout. Both are also
     * set with EXS_CHECK. */
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
/* Sets the deadline of an operation that starts now: `limit` ns from now. */
void xs_limit(struct sock *sock, struct op *op, uint64_t limit);
/* Sets the time (ns) of the next probe of the peer. */
void xs_sock_probe_at(struct sock *sock, uint64_t when);

#endif
