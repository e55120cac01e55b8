/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock.h - a socket: its number, its state, the queue that it lives on.
 *
 * A socket begins without a home. bind gives it a private queue (where the CM event channel of its listening id
 * is), connect and accept the queue that they name, or a private one if they block. From then on, for ever, the
 * home's lock guards it; before that, a lock of its own.
 */
#ifndef XS_SOCK_H
#define XS_SOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <netinet/in.h>
#include <sys/queue.h>
#include "ending.h"
#include "op.h"
#include "queue.h"

struct hello;

#define PROBE_S 8 /* s, between two looks at an idle peer, where nobody says */
#define PROBES 4  /* looks without a sign of life, after the first, until the peer is gone */
struct lookup;

/* What exs_setsockopt changes (sockopt.c). A connection that is accepted begins with its listener's. */
struct options {
    bool lingers;            /* SO_LINGER: a close waits for what was sent, */
    uint64_t linger;         /* ns; 0: it cuts it off */
    uint32_t receive_buffer; /* SO_RCVBUF: bytes, a power of 2; 0: HIDDEN_SIZE */
    int send_buffer;         /* SO_SNDBUF: bytes; 0: any number */
    bool refuses;            /* EXS_SO_SENDLIMIT: a send that does not wait fails beyond that */
    bool reuses;             /* SO_REUSEADDR */
    bool ipv6_only;          /* IPV6_V6ONLY */
    bool keeps_alive;   /* SO_KEEPALIVE: the peer is asked, on any device, at the times of these (probe.c): */
    uint32_t keep_idle; /* TCP_KEEPIDLE, TCP_KEEPINTVL: s; 0: PROBE_S */
    uint32_t keep_interval;
    uint32_t keep_count; /* TCP_KEEPCNT; 0: PROBES */
};

enum sock_state {
    SOCK_FRESH,
    SOCK_BOUND,
    SOCK_LISTENING,
    SOCK_HALF_OPEN, /* a peer asked for it, and nobody knows of it yet (incoming.c); */
    SOCK_ARRIVED,   /* the same, established */
    SOCK_CONNECTING,
    SOCK_CONNECTED, /* also: broken, see conn->state */
    SOCK_CLOSING
};

union sock_address {
    struct sockaddr_in6 in6; /* the longest first: {0} is then nothing all over */
    struct sockaddr_in in;
    struct sockaddr sa;
};

/* A connection request that no accept has asked for yet. */
struct request {
    TAILQ_ENTRY(request) link;
    struct rdma_cm_id *id;
    int device;
    size_t length;
    uint8_t reads_wanted, reads_served; /* RDMA READs: what the peer wants under way, what it serves */
    uint8_t private_data[256];
};

struct sock {
    _Atomic int refs;  /* table, home, calls. One less pairs with the last one less, which frees it */
    int number;        /* a descriptor of the process that stands for the socket, */
    uint64_t identity; /* as long as this is its (fds.h) */
    int family, type;
    int fd_flags, status_flags; /* exs_fcntl */
    enum sock_state state;
    pthread_mutex_t guard; /* guards a homeless socket */
    _Atomic(struct queue *)
        home; /* a reference; set once: the store pairs with whoever finds it set, and then takes its lock */
    LIST_ENTRY(sock) at_home;
    /* The queue that the application gave it to, which can't be deleted before it is closed: as a rule its home; or
     * one that drives its home for it, which had answered for another queue's accept. NULL: none, it is a blocking
     * call's, or was bound first. Guarded by the home's lock, as is the next. */
    struct queue *owner;
    exs_qhandle_t driver; /* of one without an owner: the last queue that an operation of it named */
    struct conn *conn; /* once there is a queue pair */
    /* enum sent (ending.h): whether what was sent is whole. Changed with the lock, but for SENT_UNTOLD, which whoever
     * dequeues the event takes away without. Pairs with nothing: a thread that knows of the event from another one
     * has it from there. */
    _Atomic uint8_t sent;

    /* CM ids: a listener's or bound socket's on each device; a connection's is the one of `device` */
    struct rdma_cm_id *id[DEVICES_MAX];
    int device; /* that carries, or is being tried for, the connection; -1 = none */
    bool bound; /* by exs_bind or exs_listen: only the ids that there are have its address */
    union sock_address peer;
    socklen_t peer_length;

    LIST_HEAD(, polled) polls; /* of exs_poll (poll.c), and some that are over */
    bool is_followed;          /* somebody wants to know what becomes of its connection: a poll, or a close */

    struct op *opening; /* connect, until established */
    struct op *closing; /* close, until done */
    bool lingers;       /* close: its event says whether what was sent has arrived */
    uint64_t
        close_due;  /* close: ns, when it gives up waiting for the peer; 0: while something is sent, never */
    int open_error; /* why the last device could not connect */
    struct lookup *lookup;    /* connects by name: the addresses of that (host.c), until established; or NULL */
    uint64_t lookup_deadline; /* ns: of all of them */

    _Atomic in_port_t listens_at; /* listener: its port; 0: it is none. Alone by itself: pairs with nothing */
    int backlog;                  /* listener: most requests and arrived connections while no accept waits */
    TAILQ_HEAD(requests, request) requests;
    int requests_held;
    struct op_list accepts; /* listener: waiting for connections */
    struct op *next_accept; /* that a request will be answered for; NULL: the first */
    TAILQ_HEAD(incoming_socks, sock) half_open, arrived; /* oldest first */
    int half_open_count, half_open_alone;                /* of these, and those on private queues */
    int arrived_count;
    uint64_t
        patience;  /* listener: ns, how long a half-open one may say nothing while requests wait; 0: not set */
    bool listened; /* in this turn: whoever is silent now has said nothing */

    bool alone;            /* answered for a blocking accept, at a private home */
    struct sock *listener; /* on their way in: in whose list, */
    TAILQ_ENTRY(sock) incoming;
    uint64_t since; /* and since when, ns */

    TAILQ_ENTRY(sock) by_time;
    uint64_t deadline;                  /* ns, 0 = none: connect or close gives up, or one of these: */
    uint64_t probe_due;                 /* when the peer is to be thought of (probe.c), */
    uint64_t receive_limit, send_limit; /* ns, 0 = none: how long an operation may take, from its start */
    struct options options;
    /* There is a limit of time or of bytes for sends; of time for receives. And where the program is checked.
     */
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

/* The socket of this number with one more reference, or NULL and EBADF. */
struct sock *xs_sock_get(int number);
/* There was one of this number, and now there is none. */
bool xs_sock_was(int number);
/* Was the number a socket's that exs_close was called for, and is not given back yet? */
bool xs_sock_has_left(int number);
void xs_sock_put(struct sock *sock);
void xs_sock_ref(struct sock *sock);
/* False: somebody has closed its number by close(2), which is free or another file's by now. */
bool xs_sock_has_number(const struct sock *sock);
/* Take it out of the table: nobody finds it any more. False when somebody else did. */
bool xs_sock_remove(struct sock *sock);
/* A new one, with a reference for the caller. Nobody finds it by its number before it is published: whoever
 * makes it finishes it first. NULL and errno. */
struct sock *xs_sock_new(int family, int type);
void xs_sock_publish(struct sock *sock);
/* A listener of this process at this port: its number, or -1. Takes no lock. */
int xs_sock_listening(in_port_t port);
uint32_t xs_sock_count(void); /* those that were published, and not removed */
void xs_sock_reset(void);     /* forget all, in a forked child */

/* ---- What xs_start calls, by the type of what is asked ------------------------------------ */

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
/* What every transfer checks of its arguments: 0, or -1 and EINVAL. */
int xs_check_transfer(const struct ask *ask);
int xs_start_close(const struct ask *ask);

/* ---- Life (sock.c, connect.c, accept.c, close.c) ------------------------------------------ */

/* Connected, or about to be: a close takes time. */
bool xs_sock_has_peer(const struct sock *sock);

/* Lock and unlock whatever guards the socket now. */
void xs_sock_lock(struct sock *sock);
void xs_sock_unlock(struct sock *sock);
/* Found and locked, or NULL and EBADF; unlocked and given back. */
struct sock *xs_sock_get_locked(int number);
/* The same of one that has a home, whose lock nobody else has; else NULL. It is not counted: as long as it is locked and
 * not closing it does not go, so what neither closes it nor gives the lock up meanwhile just unlocks it. */
struct sock *xs_sock_lock_at_once(int number);
/* How a call on a socket begins, by its name: the same, or NULL and errno as xs_enter has it. */
struct sock *xs_sock_enter(const char *call, int number);
void xs_sock_put_locked(struct sock *sock);

/* Make `queue` the home of a homeless socket, whose guard and queue's lock are held. Takes a reference of the
 * queue and one of the socket, which leaving gives back. */
void xs_sock_settle(struct sock *sock, struct queue *queue);
void xs_sock_leave(struct sock *sock);
/* The queue owns it from now on, and has it driven; or no more, before its last event. */
void xs_sock_own(struct sock *sock, struct queue *owner);
void xs_sock_disown(struct sock *sock);
/* The queue that the operations of one without an owner named; the caller is a user of it until xs_queue_put. NULL:
 * there is none. Called with the lock. */
struct queue *xs_sock_driver(const struct sock *sock);

/* Make sure that a locked socket has a home: this queue, or a private one when it is NULL. It stays locked, by
 * its home from then on. -1 and errno. */
int xs_sock_home(struct sock *sock, struct queue *queue);
int xs_check_address(const struct sock *sock, const struct sockaddr *address, socklen_t length);
/* Into a user's buffer: in *length its size, out the address's, even where that is more. `to` may be NULL. An
 * address of a socket of this family: IPv6 users get IPv4 addresses mapped, whichever form the device has. */
void xs_copy_address(int family, const struct sockaddr *from, struct sockaddr *to, socklen_t *length);
/* The same address, whatever the ports. */
bool xs_same_host(const struct sockaddr *a, const struct sockaddr *b);
/* For messages: an address and its port. */
#define ADDRESS_TEXT (INET6_ADDRSTRLEN + sizeof(" port 65535"))
const char *xs_address_text(const struct sockaddr *address, char text[ADDRESS_TEXT]);
/* The socket's id on a device, made at first use; -1 and errno. */
int xs_sock_id(struct sock *sock, int device);
void xs_sock_drop_id(struct sock *sock, int device);
void xs_sock_unbind(struct sock *sock); /* no id is left */
/* Is this what calls on an id, and on a context, say whose device is gone? */
bool xs_device_is_gone(int error);

/* Which of a socket's operations are to wait no longer, and what they complete with. */
struct stop {
    bool all; /* or those with this */
    exs_ahandle_t ahandle;
    const struct waiter *waiter; /* or NULL; instead: the one that this waits for */
    uint64_t now;                /* ns, or 0; instead: those whose deadline has come */
    int error;
};
/* Complete them: at once, or as soon as neither the device nor the peer uses their memory any more. How many.
 * Called with the lock. */
int xs_stop(struct sock *sock, const struct stop *stop);

/* ---- Bounds (bound.c); called with the lock -------------------------------------------------- */

/* What bounds sends, or receives, has changed: set sends_bounded, receives_bounded. */
void xs_sends_bound_changed(struct sock *sock);
void xs_receives_bound_changed(struct sock *sock);
/* One is about to start, where they are bounded: count it, and give it its time. -1 and EAGAIN. */
int xs_send_bound(struct sock *sock, struct op *op, const struct ask *ask);
/* The same of a receive, which always may start. */
void xs_receive_bound(struct sock *sock, struct op *op, const struct ask *ask);

/* ---- Limits (limit.c); called with the lock ------------------------------------------------- */

/* Wake up then, ns, or before. Too early does no harm, so the timer is rarely set. */
void xs_sock_wake_by(struct sock *sock, uint64_t deadline);
/* The operation, which starts now, has so much time, ns. */
void xs_limit(struct sock *sock, struct op *op, uint64_t limit);
/* Think of the peer then, ns. */
void xs_sock_probe_at(struct sock *sock, uint64_t when);
/* The socket's deadline passed: end those that have no time left, and wake up for the others. */
void xs_limits_look(struct sock *sock);

/* A CM event for a socket at home in this queue; acknowledged by the caller. */
void xs_sock_cm_event(struct sock *sock, struct rdma_cm_event *event, int device);
/* Connection request on a listener; takes over the event's id. */
void xs_listener_request(struct sock *listener, struct rdma_cm_event *event, int device);
/* There is a request, an accept or a half-open connection more or less. Called with the listener's lock. */
void xs_listener_match(struct sock *listener);
/* The device is gone: the listener goes on on the others, if there are any. */
void xs_listener_lost(struct sock *listener, int device);
/* Is there a device left that it listens on? */
bool xs_listener_hears(const struct sock *listener);
void xs_connect_event(struct sock *sock, struct rdma_cm_event *event, int device);

/* The deadline passed. */
void xs_sock_timeout(struct sock *sock);
/* Connecting failed: tell, and be a fresh socket again. */
void xs_open_failed(struct sock *sock, int error);
/* The same, unless there is another address to try. */
void xs_attempt_failed(struct sock *sock, int error);
/* The time for it is over. */
void xs_connect_timeout(struct sock *sock);
/* Begin to connect to sock->peer, until the deadline, ns. -1 and errno. */
int xs_connect_address(struct sock *sock, uint64_t deadline);
/* The operation that a connection of this accept ends: itself, or one of its own of a multishot, which is not
 * spent. NULL and errno. Called with the listener's lock, as is the next. */
struct op *xs_accept_told(struct sock *listener, struct op *op);
/* One accept less. */
void xs_accept_spent(struct sock *listener, struct op *op);
/* A queue in line has looked at the listener at this home, and `found` that something had come. Called with the
 * home's lock. */
void xs_line_looked(struct queue *home, struct guest *guest, bool found);
/* No accept of the listener's will meet a connection any more: all get this errno. */
void xs_accepts_end(struct sock *listener, int error);
/* Something happened that a closing socket waits for. */
void xs_close_step(struct sock *sock);
/* The deadline of a closing one passed. */
void xs_close_timeout(struct sock *sock);

/* ---- Connecting by name (host.c); called with the lock, but for xs_host_found --------------- */

/* Try the addresses that the lookup has or will have, until the deadline, ns. -1 and errno: the lookup is still
 * the caller's. */
int xs_host_begin(struct sock *sock, struct lookup *lookup, uint64_t deadline);
/* The attempt with one address failed with this errno: begin with the next. False and errno: there is none, or
 * no time. */
bool xs_host_next(struct sock *sock, int error);
/* The time of an attempt, or of all, has passed; or the answer has come. */
void xs_host_timeout(struct sock *sock);
void xs_host_end(struct sock *sock);
/* By another thread, without locks: there may be an answer. */
void xs_host_found(struct sock *sock);

/* ---- On their way in (incoming.c); called with the listener's lock ------------------------- */

/* Can a request be answered for this accept: at once, by an older half-open connection's making room, or only
 * when the listener is looked at again, which is seen to. */
enum incoming_room { ROOM, ROOM_OF_THE_OLDEST, NO_ROOM };
enum incoming_room xs_incoming_room(struct sock *listener, const struct op *op);

/* Answer a request, for a socket that will live where this accept wants it. False and errno: it is still there,
 * for want of a descriptor or of memory. */
bool xs_incoming_request(struct sock *listener, struct request *request, const struct hello *peer,
                         const struct op *op);
/* Spend accepts on those that have arrived. */
void xs_incoming_match(struct sock *listener);
/* A CM event of one of them. */
void xs_incoming_event(struct sock *sock, const struct rdma_cm_event *event);
/* The listener's deadline passed. */
void xs_incoming_timeout(struct sock *listener);
void xs_incoming_end_all(struct sock *listener);

/* ---- Calls and their queues (sock.c) ------------------------------------------------------- */

/* What every call that names a queue checks: the queue where the event goes, kept until xs_queue_put; NULL
 * where none is named, for a waiter or `optional`. False and EINVAL. */
bool xs_check_queue(exs_qhandle_t qhandle, struct waiter *waiter, bool optional, struct queue **queue);
/* The operation for an event of this socket: on the named queue, or on its home for a waiter; hosts the home
 * there, but for an accept (accept.c). */
struct op *xs_sock_op(struct sock *sock, struct queue *queue, int type, exs_ahandle_t ahandle,
                      struct waiter *waiter);

#endif
