/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock.h - a socket: its number, its state, and the queue that drives it, its home.
 *
 * A new socket has no home. bind and listen give it a private queue, which has the CM event channel of its listening
 * id; connect gives it the queue that the call names, or a private one if it blocks; a connection that is accepted
 * gets the queue of an accept. The home never changes after that. Its lock guards the socket; before the socket has a
 * home, `guard` does.
 */
#ifndef XS_SOCK_H
#define XS_SOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <netinet/in.h>
#include <sys/queue.h>
#include "core/conn/ending.h"
#include "core/queue/op.h"
#include "core/queue/queue.h"

struct hello;

/* Keepalive (probe.c), unless options change it: */
#define PROBE_S 8 /* s, between two probes of an idle peer */
#define PROBES 4  /* unanswered probes after the first until the peer counts as gone */
struct lookup;

/* What exs_setsockopt changes (sockopt.c). An accepted connection starts with its listener's. */
struct options {
    bool lingers;            /* SO_LINGER: a close waits for pending sends, */
    uint64_t linger;         /* for this long, ns; 0: a close aborts the connection */
    uint32_t receive_buffer; /* SO_RCVBUF: bytes, a power of 2; 0: HIDDEN_SIZE */
    int send_buffer;         /* SO_SNDBUF: bytes; 0: unlimited */
    bool refuses;            /* EXS_SO_SENDLIMIT: a nonblocking send beyond SO_SNDBUF fails */
    bool reuses;             /* SO_REUSEADDR */
    bool ipv6_only;          /* IPV6_V6ONLY */
    bool keeps_alive;        /* SO_KEEPALIVE: the peer is probed on any device, at the times below (probe.c) */
    uint32_t keep_idle;      /* TCP_KEEPIDLE, TCP_KEEPINTVL: s; 0: PROBE_S */
    uint32_t keep_interval;
    uint32_t keep_count;   /* TCP_KEEPCNT; 0: PROBES */
    uint32_t user_timeout; /* TCP_USER_TIMEOUT: ms; 0: what the device has */
};

enum sock_state {
    SOCK_FRESH,
    SOCK_BOUND,
    SOCK_LISTENING,
    /* a peer's request was answered; not established, and not returned by an accept (incoming.c) */
    SOCK_HALF_OPEN,
    SOCK_ARRIVED, /* established, and not returned by an accept */
    SOCK_CONNECTING,
    SOCK_CONNECTED, /* also if it has broken since then, see conn->state */
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
    int number;        /* the descriptor of the process that stands for the socket, */
    uint64_t identity; /* as long as that has this identity (fds.h) */
    int family, type;
    int fd_flags, status_flags; /* exs_fcntl */
    enum sock_state state;
    pthread_mutex_t guard; /* guards a socket without a home */
    /* A reference; written once. The store pairs with the load by a thread that finds it set and then takes its lock.
     */
    _Atomic(struct queue *) home;
    LIST_ENTRY(sock) at_home;
    /* The queue that the application gave the socket to, which can't be deleted before the socket is closed. Usually
     * the home; or a queue that the home is attached to, if the request was answered for another queue's accept.
     * NULL: none, since the socket was connected or accepted by a blocking call, or was bound first. Guarded by the
     * home's lock, as is `driver`. */
    struct queue *owner;
    exs_qhandle_t driver; /* without an owner: the last queue that an operation of the socket named */
    struct conn *conn;    /* NULL: there is no queue pair */
    /* enum sent (ending.h): whether all that was sent is complete. Written with the lock, but a thread that dequeues
     * the event clears SENT_UNTOLD without. Pairs with nothing: a thread that learned of the event from another one
     * is ordered by that. */
    _Atomic uint8_t sent;

    /* CM ids: a listener or bound socket has one for each device, a connection that of `device` */
    struct rdma_cm_id *id[DEVICES_MAX];
    int device; /* the index of the device that carries, or is tried for, the connection; -1: none */
    bool bound; /* by exs_bind or exs_listen: a device without an id does not have its address */
    union sock_address peer;
    socklen_t peer_length;

    LIST_HEAD(, polled) polls; /* of exs_poll (poll.c), including some that have completed */
    bool is_followed;          /* a poll or a close waits for changes of the connection */

    struct op *opening; /* the connect, until it is established */
    struct op *closing; /* the close, until it is done */
    bool lingers;       /* the event of the close reports whether all that was sent has arrived */
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
    int half_open_count, half_open_alone;                /* of half_open; those of them on private queues */
    int arrived_count;
    /* ns, how long a half-open connection may be silent while requests wait; 0: the default */
    uint64_t patience;
    /* All events that have arrived were processed, so a half-open connection that seems silent is. */
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

/* ---- The table of numbers (table.c) ----------------------------------------------------- */

/* Returns the socket of this number with a reference, or NULL and EBADF. */
struct sock *xs_sock_get(int number);
/* Returns true if the number was a socket's and is not any more. */
bool xs_sock_was(int number);
/* Returns true if exs_close() was called for the number and the descriptor is not closed yet. */
bool xs_sock_has_left(int number);
void xs_sock_put(struct sock *sock);
void xs_sock_ref(struct sock *sock);
/* Returns false if the program has closed the socket's number by close(2): it may be another file's now. */
bool xs_sock_has_number(const struct sock *sock);
/* Removes the socket from the table, so that its number is invalid. Returns false if another thread has done so. */
bool xs_sock_remove(struct sock *sock);
/* Makes a socket, with a reference for the caller. It can be found by its number only after xs_sock_publish(), so the
 * caller initializes it first. Returns NULL and errno on failure. */
struct sock *xs_sock_new(int family, int type);
void xs_sock_publish(struct sock *sock);
/* Returns the number of a listener of this process at this port, or -1. Takes no lock. */
int xs_sock_listening(in_port_t port);
uint32_t xs_sock_count(void); /* sockets that were published and not removed */
void xs_sock_reset(void);     /* forgets all sockets, in a forked child */

/* ---- Called by xs_start(), by the type of the request ------------------------------------------ */

int xs_start_connect(const struct ask *ask);
int xs_start_accept(const struct ask *ask);
int xs_start_send(const struct ask *ask);
int xs_start_recv(const struct ask *ask);
int xs_start_sendmsg(const struct ask *ask);
int xs_start_recvmsg(const struct ask *ask);
int xs_start_recvfile(const struct ask *ask);
int xs_start_sendfile(const struct ask *ask);
int xs_start_onesided(const struct ask *ask);
int xs_start_shutdown(const struct ask *ask);
/* Checks the arguments that all transfers have. Returns 0, or -1 and EINVAL. */
int xs_check_transfer(const struct ask *ask);
int xs_start_close(const struct ask *ask);

/* ---- Life (sock.c, connect.c, accept.c, close.c) ------------------------------------------ */

/* Returns true if the socket is connected or connecting, so that a close takes time. */
bool xs_sock_has_peer(const struct sock *sock);

/* Take and release the lock that guards the socket now: its home's, or its `guard`. */
void xs_sock_lock(struct sock *sock);
void xs_sock_unlock(struct sock *sock);
/* Returns the socket of this number, with a reference and locked; or NULL and EBADF. xs_sock_put_locked() undoes
 * both. */
struct sock *xs_sock_get_locked(int number);
/* Returns the socket of this number, locked, if it has a home whose lock is free; else NULL. Takes no reference: the
 * socket exists as long as the caller holds the lock and the socket is not closing. The caller releases it with
 * xs_sock_unlock(). */
struct sock *xs_sock_lock_at_once(int number);
/* Like xs_sock_get_locked(), at the beginning of the public function `call`: errno may also be one of xs_enter(). */
struct sock *xs_sock_enter(const char *call, int number);
void xs_sock_put_locked(struct sock *sock);

/* Makes `queue` the home of a socket that has none. The socket's guard and the queue's lock must be held. The socket
 * takes a reference of the queue, and the queue one of the socket, which xs_sock_leave() drops. */
void xs_sock_settle(struct sock *sock, struct queue *queue);
void xs_sock_leave(struct sock *sock);
/* Set and clear the socket's owner, and count the owner's use of the home. Clearing is done before the last event. */
void xs_sock_own(struct sock *sock, struct queue *owner);
void xs_sock_disown(struct sock *sock);
/* Returns the queue that operations of a socket without an owner named last, which can't be deleted until
 * xs_queue_put(); or NULL. Called with the lock. */
struct queue *xs_sock_driver(const struct sock *sock);

/* Makes sure that a locked socket has a home: if it has none, this queue or, if that is NULL, a private one. The
 * socket is locked by its home's lock on success. Returns 0, or -1 and errno. */
int xs_sock_home(struct sock *sock, struct queue *queue);
int xs_check_address(const struct sock *sock, const struct sockaddr *address, socklen_t length);
/* Copies an address to a user's buffer, which may be NULL. *length: in, the buffer's size; out, the address's, even
 * if that is larger. Sockets of AF_INET6 get IPv4 addresses as IPv4-mapped ones, whichever form the device has. */
void xs_copy_address(int family, const struct sockaddr *from, struct sockaddr *to, socklen_t *length);
/* Compares addresses without their ports. */
bool xs_same_host(const struct sockaddr *a, const struct sockaddr *b);
/* Formats an address and its port for log messages. */
#define ADDRESS_TEXT (INET6_ADDRSTRLEN + sizeof(" port 65535"))
const char *xs_address_text(const struct sockaddr *address, char text[ADDRESS_TEXT]);
/* Makes the socket's id on a device, unless there is one. Returns 0, or -1 and errno. */
int xs_sock_id(struct sock *sock, int device);
void xs_sock_drop_id(struct sock *sock, int device);
void xs_sock_unbind(struct sock *sock); /* destroys all ids */
/* Returns true if this errno is what functions on an id or a context fail with when their device was removed. */
bool xs_device_is_gone(int error);

/* Which of a socket's operations are ended, and with which errno. */
struct stop {
    bool all; /* all of them, or those with this ahandle */
    exs_ahandle_t ahandle;
    const struct waiter *waiter; /* if not NULL: the operation of this waiter instead */
    uint64_t now;                /* if not 0: operations whose deadline (ns) has passed by now instead */
    int error;
};
/* Ends operations: at once, or as soon as neither the device nor the peer uses their memory. Returns their number.
 * Called with the lock. */
int xs_stop(struct sock *sock, const struct stop *stop);

/* ---- Limits of bytes (bound.c); called with the lock ------------------------------------------ */

/* Update sends_bounded and receives_bounded after a change of what they depend on. */
void xs_sends_bound_changed(struct sock *sock);
void xs_receives_bound_changed(struct sock *sock);
/* Counts a send that is about to start, if sends_bounded, and sets its deadline. Returns 0, or -1 and EAGAIN if it
 * would exceed the limit. */
int xs_send_bound(struct sock *sock, struct op *op, const struct ask *ask);
/* The same for a receive, if receives_bounded. A receive may always start. */
void xs_receive_bound(struct sock *sock, struct op *op, const struct ask *ask);

/* ---- Timeouts (limit.c); called with the lock -------------------------------------------------- */

/* Sets the socket's deadline (ns), unless an earlier one is set. A spurious timeout is harmless, so deadlines are not
 * moved back when an operation completes. */
void xs_sock_wake_by(struct sock *sock, uint64_t deadline);
/* Sets the deadline of an operation that starts now: `limit` (ns) from now. */
void xs_limit(struct sock *sock, struct op *op, uint64_t limit);
/* Sets the time (ns) of the next probe of the peer. */
void xs_sock_probe_at(struct sock *sock, uint64_t when);
/* The socket's deadline has passed: ends the operations whose deadline has, and sets the next one. */
void xs_limits_look(struct sock *sock);

/* Handles a CM event for a socket whose home was polled; the caller acknowledges the event. */
void xs_sock_cm_event(struct sock *sock, struct rdma_cm_event *event, int device);
/* Handles a connection request on a listener. Takes ownership of the event's id. */
void xs_listener_request(struct sock *listener, struct rdma_cm_event *event, int device);
/* Matches requests and arrived connections with accepts, after one of them, or a half-open connection, was added or
 * removed. Called with the listener's lock. */
void xs_listener_match(struct sock *listener);
/* The device was removed: the listener continues on its other devices, if it has any. */
void xs_listener_lost(struct sock *listener, int device);
/* Returns true if the listener listens on at least one device. */
bool xs_listener_hears(const struct sock *listener);
void xs_connect_event(struct sock *sock, struct rdma_cm_event *event, int device);

/* The socket's deadline has passed. */
void xs_sock_timeout(struct sock *sock);
/* Completes a connect with an errno; the socket may be connected again. */
void xs_open_failed(struct sock *sock, int error);
/* The same, unless the host has another address to try. */
void xs_attempt_failed(struct sock *sock, int error);
/* The connect's deadline has passed. */
void xs_connect_timeout(struct sock *sock);
/* Starts to connect to sock->peer, with this deadline (ns). Returns 0, or -1 and errno. */
int xs_connect_address(struct sock *sock, uint64_t deadline);
/* Returns the operation that reports a connection for this accept: the accept itself or, if it is multishot, a new
 * one. NULL and errno on failure. Called with the listener's lock, as is xs_accept_spent(). */
struct op *xs_accept_told(struct sock *listener, struct op *op);
/* Removes an accept from the pending ones. */
void xs_accept_spent(struct sock *listener, struct op *op);
/* A queue on the standby list has polled the listener whose home this is; `found`: something had arrived. The queue
 * may take the place of one that watches it. Called with the home's lock. */
void xs_line_looked(struct queue *home, struct guest *guest, bool found);
/* Completes all pending accepts with this errno. */
void xs_accepts_end(struct sock *listener, int error);
/* Continues a close after a change that it may wait for. */
void xs_close_step(struct sock *sock);
/* The deadline of a close has passed. */
void xs_close_timeout(struct sock *sock);

/* ---- Connecting by name (host.c); called with the lock, but for xs_host_found --------------- */

/* Starts to try the addresses that the lookup has or will have, until the deadline (ns). Returns 0, or -1 and errno;
 * then the caller still owns the lookup. */
int xs_host_begin(struct sock *sock, struct lookup *lookup, uint64_t deadline);
/* The attempt with one address failed with this errno: starts with the next. Returns false and errno if there is
 * none, or no time is left. */
bool xs_host_next(struct sock *sock, int error);
/* The deadline of an attempt or of the connect has passed, or the lookup has an answer. */
void xs_host_timeout(struct sock *sock);
void xs_host_end(struct sock *sock);
/* The lookup may have an answer. Called by the lookup's thread, without locks. */
void xs_host_found(struct sock *sock);

/* ---- Connections before their accept (incoming.c); called with the listener's lock ------------- */

/* Can a request be answered for this accept? ROOM: yes. ROOM_OF_THE_OLDEST: yes, if the oldest half-open connection
 * is dropped. NO_ROOM: not now; the listener's deadline has been set to try again. */
enum incoming_room { ROOM, ROOM_OF_THE_OLDEST, NO_ROOM };
enum incoming_room xs_incoming_room(struct sock *listener, const struct op *op);

/* Answers a request; the new socket's home is the queue of this accept. Returns false and errno if a descriptor or
 * memory is not available; then the caller still owns the request's id. */
bool xs_incoming_request(struct sock *listener, struct request *request, const struct hello *peer,
                         const struct op *op);
/* Matches arrived connections with accepts. */
void xs_incoming_match(struct sock *listener);
/* Handles a CM event of a half-open or arrived connection. */
void xs_incoming_event(struct sock *sock, const struct rdma_cm_event *event);
/* The listener's deadline has passed. */
void xs_incoming_timeout(struct sock *listener);
void xs_incoming_end_all(struct sock *listener);

/* ---- Calls and their queues (sock.c) ------------------------------------------------------- */

/* Finds the queue that a call names for its event, which can't be deleted until xs_queue_put(). *queue is NULL if the
 * call names none and has a waiter, or the queue is `optional`. Returns false and EINVAL on failure. */
bool xs_check_queue(exs_qhandle_t qhandle, struct waiter *waiter, bool optional, struct queue **queue);
/* Makes the operation for an event of this socket, on the named queue or, for a waiter, on the home. Attaches the
 * home to the queue, except for an accept (accept.c). Returns NULL and errno on failure. */
struct op *xs_sock_op(struct sock *sock, struct queue *queue, int type, exs_ahandle_t ahandle,
                      struct waiter *waiter);

#endif
