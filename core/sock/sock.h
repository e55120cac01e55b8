/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock.h - a socket: its number, its state, and the queue that drives it, its home.
 *
 * A new socket has no home. bind and listen give it a private queue, which has the CM event channel of its listening
 * id. connect gives it the queue that the call names, or a private one if the call blocks. The socket of an accepted
 * connection gets the queue of an accept. The home never changes after that. The home's lock guards the socket; while
 * the socket has no home, its own mutex `guard` does.
 */
#ifndef XS_SOCK_H
#define XS_SOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <netinet/in.h>
#include <sys/queue.h>
#include "core/queue/op.h"
#include "core/queue/queue.h"
#include "core/queue/socket.h"

struct hello;

/* ---- The table of numbers (table.c) ----------------------------------------------------- */

/* Returns the socket of this number with a reference, or NULL and EBADF. */
struct sock *xs_sock_get(int number);
/* Returns true if exs_close() was called for the number and the descriptor is not closed yet. */
bool xs_sock_has_left(int number);
/* Drop and take a reference. */
void xs_sock_put(struct sock *sock);
void xs_sock_ref(struct sock *sock);
/* Returns false if the program has closed the socket's number by close(2): it may be another file's now. */
bool xs_sock_has_number(const struct sock *sock);
/* Removes the socket from the table, so that its number is invalid. Returns false if another thread has done so. */
bool xs_sock_remove(struct sock *sock);
/* Makes a socket, with a reference for the caller. No other thread can find it by its number before xs_sock_publish(),
 * so the caller initializes it first. Returns NULL and errno on failure. */
struct sock *xs_sock_new(int family, int type);
/* Sets the options of a new socket that exs_init_config changes (sockopt.c). */
void xs_sock_set_defaults(struct sock *sock);
/* Sets or clears O_NONBLOCK, as `flags` says (nonblocking.c). */
void xs_sock_set_status(struct sock *sock, int flags);
void xs_sock_publish(struct sock *sock);
/* Returns the number of a listener of this process at this port, or -1. Takes no lock. */
int xs_sock_listening(in_port_t port);
uint32_t xs_sock_count(void); /* sockets that were published and not removed */
void xs_sock_reset(void);     /* forgets all sockets, in a forked child */

/* ---- Called by xs_start(), by the type of the request ------------------------------------------ */

int xs_start_connect(const struct ask *ask);
int xs_start_accept(const struct ask *ask);
int xs_start_shutdown(const struct ask *ask);
int xs_start_close(const struct ask *ask);

/* ---- From creation to close (sock.c, connect.c, accept.c, close.c) -------------------------- */

/* Take and release the lock that guards the socket now: its home's, or its `guard`. */
void xs_sock_lock(struct sock *sock);
void xs_sock_unlock(struct sock *sock);
/* Returns the socket of this number, with a reference and locked; or NULL and EBADF. xs_sock_put_locked() undoes
 * both. */
struct sock *xs_sock_get_locked(int number);
/* Returns the socket of this number, locked, if it has a home whose lock is free; else NULL. Never waits. Takes no
 * reference: the socket exists as long as the caller holds the lock and the socket is not closing. The caller releases
 * the lock with xs_sock_unlock(). */
struct sock *xs_sock_lock_at_once(int number);
/* Like xs_sock_get_locked(), for the beginning of the public function named `call`: first calls xs_enter_socket(), and
 * fails with its errno. */
struct sock *xs_sock_enter(const char *call, int number);
void xs_sock_put_locked(struct sock *sock);
/* Returns true if the socket's connection is broken. Keeps errno. */
bool xs_sock_is_broken(int number);

/* Makes `queue` the home of a socket that has none. The caller must hold the socket's guard and the queue's lock. The
 * socket takes a reference to the queue, and the queue one to the socket. */
void xs_sock_settle(struct sock *sock, struct queue *queue);
/* Drops the queue's reference to a socket that is closed. */
void xs_sock_leave(struct sock *sock);
/* Set and clear the socket's owner (struct sock). If the owner is not the home, the socket also counts as a use of the
 * attachment of the home to the owner. The owner must be cleared before the socket's last event, because the
 * application may delete the queue after that event. */
void xs_sock_own(struct sock *sock, struct queue *owner);
void xs_sock_disown(struct sock *sock);

/* Gives a locked socket a home unless it has one: this queue or, if `queue` is NULL, a new private one. On success the
 * caller holds the home's lock instead of the socket's `guard`. Returns 0, or -1 and errno. */
int xs_sock_home(struct sock *sock, struct queue *queue);
/* Checks that an address has the socket's family and a valid length, and that it is not IPv4-mapped if the socket is
 * for IPv6 only. Returns 0, or -1 and errno. */
int xs_check_address(const struct sock *sock, const struct sockaddr *address, socklen_t length);
/* Copies an address to a buffer of the application, which may be NULL. *length is the buffer's size, and is set to the
 * size of the address, even if that is larger. `family` is the socket's: for AF_INET6 an IPv4 address is converted to
 * an IPv4-mapped one. */
void xs_copy_address(int family, const struct sockaddr *from, struct sockaddr *to, socklen_t *length);
/* Compares addresses without their ports. */
bool xs_same_host(const struct sockaddr *a, const struct sockaddr *b);
/* Makes the socket's id on a device (an index of xs_device()), unless the socket has one there. Returns 0, or -1 and
 * errno. */
int xs_sock_id(struct sock *sock, int device);
/* Destroys the socket's id on a device, if there is one. */
void xs_sock_drop_id(struct sock *sock, int device);
/* Destroys all ids of the socket, which is then not bound. */
void xs_sock_unbind(struct sock *sock);
/* Returns true if this errno of a call on an id or a context means that the device was removed. */
bool xs_device_is_gone(int error);

/* Selects operations of a socket that are to be ended, and the errno of their events. The first of these members that
 * is set decides: `now`, `waiter`, `all`; if none is set, the operations with `ahandle` are selected. */
struct stop {
    bool all; /* all operations */
    exs_ahandle_t ahandle;
    const struct waiter *waiter; /* the operation of this waiter; or NULL */
    uint64_t now;                /* the current time, ns: operations whose deadline has passed; or 0 */
    int error;
};
/* Ends the operations that `stop` selects: at once, or as soon as neither the device nor the peer uses their memory.
 * Returns their number. Called with the socket's lock. */
int xs_stop(struct sock *sock, const struct stop *stop);
/* Called when the socket's timer has expired: ends the operations whose deadline has passed, and sets the timer for the
 * others. */
void xs_limits_look(struct sock *sock);

/* Matches requests and arrived connections with accepts. Called with the listener's lock, after a request, an accept or
 * a connection before its accept was added or removed. */
void xs_listener_match(struct sock *listener);
/* Called when a device was removed. The listener continues on its other devices; if it has none, its accepts end with
 * ENODEV. */
void xs_listener_lost(struct sock *listener, int device);
/* Returns true if the listener listens on at least one device. */
bool xs_listener_hears(const struct sock *listener);
/* Handles a CM event of a socket that is connecting, on this device. */
void xs_connect_event(struct sock *sock, struct rdma_cm_event *event, int device);

/* Called when connecting to one address has failed with this errno: tries the host's next address, if there is one
 * (host.c); else completes the connect. */
void xs_attempt_failed(struct sock *sock, int error);
/* Called when the connect's deadline has passed. */
void xs_connect_timeout(struct sock *sock);
/* Starts to connect to sock->peer, with this deadline (ns). Returns 0, or -1 and errno. */
int xs_connect_address(struct sock *sock, uint64_t deadline);
/* Returns the operation whose event reports a connection to the application: the accept `op` itself or, if it is
 * multishot, a new operation. NULL and errno on failure. Called with the listener's lock, as is xs_accept_spent(). */
struct op *xs_accept_told(struct sock *listener, struct op *op);
/* Removes an accept from the pending ones. */
void xs_accept_spent(struct sock *listener, struct op *op);
/* Completes all pending accepts with this errno. */
void xs_accepts_end(struct sock *listener, int error);
/* Called when the deadline of a close, or of its next keepalive probe, has passed. */
void xs_close_timeout(struct sock *sock);

/* ---- Connecting by name (host.c); called with the socket's lock, except xs_host_found ----------- */

/* Starts to connect to the addresses that the lookup finds, one after the other, until the deadline (ns). Returns 0, or
 * -1 and errno. */
int xs_host_begin(struct sock *sock, struct lookup *lookup, uint64_t deadline);
/* Called when the attempt with one address has failed with this errno: tries the next address. Returns false and errno
 * if there is none, or no time is left. */
bool xs_host_next(struct sock *sock, int error);
/* Called when the socket's timer has expired: the deadline of an attempt or of the connect has passed, or the lookup
 * has an answer. */
void xs_host_timeout(struct sock *sock);
/* Drops the socket's lookup, if there is one. */
void xs_host_end(struct sock *sock);
/* Called by the lookup's thread, without locks: lets the socket's timer expire if the lookup has an answer. */
void xs_host_found(struct sock *sock);

/* ---- Connections before their accept (incoming.c); called with the listener's lock ------------- */

/* Returns whether a request can be answered for this accept. ROOM: yes. ROOM_OF_THE_OLDEST: yes, but the oldest
 * half-open connection must be dropped first. NO_ROOM: not now; the listener's timer is set, to try again. */
enum incoming_room { ROOM, ROOM_OF_THE_OLDEST, NO_ROOM };
enum incoming_room xs_incoming_room(struct sock *listener, const struct op *op);

/* Answers a request with a new half-open socket, whose home is the queue of this accept. Returns false and errno if no
 * descriptor or memory is available; the caller then still owns the request's id. */
bool xs_incoming_request(struct sock *listener, struct request *request, const struct hello *peer,
                         const struct op *op);
/* Returns true if a blocking accept can return a connection at once. */
bool xs_incoming_has_arrived(const struct sock *listener);
/* Matches arrived connections with accepts. */
void xs_incoming_match(struct sock *listener);
/* Handles a CM event of a half-open or arrived connection. */
void xs_incoming_event(struct sock *sock, const struct rdma_cm_event *event);
/* Called when the listener's timer has expired. */
void xs_incoming_timeout(struct sock *listener);
/* Ends all half-open and arrived connections, when the listener is closed. */
void xs_incoming_end_all(struct sock *listener);

/* ---- Calls and their queues (sock.c) ------------------------------------------------------- */

/* Sets *queue to the queue that a call names for its event; the queue can't be deleted until xs_queue_put(). *queue is
 * NULL if the call names none, and either has a waiter or need not name one (`optional`). Returns false and EINVAL on
 * failure. */
bool xs_check_queue(exs_qhandle_t qhandle, struct waiter *waiter, bool optional, struct queue **queue);
/* Makes an operation of this socket. Its event goes to `queue`, or to the waiter, which waits on the home. Attaches the
 * home to the queue, except for an accept (accept.c does that). If both `queue` and `waiter` are NULL, the operation
 * has no event. Returns NULL and errno on failure. */
struct op *xs_sock_op(struct sock *sock, struct queue *queue, int type, exs_ahandle_t ahandle,
                      struct waiter *waiter);

#endif
