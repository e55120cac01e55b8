/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock.h - a socket: its number, its state, and the queue that drives it, its home.
 *
 * A new socket has no home. bind and listen give it a private queue, which has the CM event channel of its listening
 * id; connect gives it the queue that the call names, or a private one if it blocks; a connection that is accepted
 * gets the queue of an accept. The home never changes after that. The home's lock guards the socket; before the socket
 * has a home, `guard` does.
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
void xs_sock_put(struct sock *sock);
void xs_sock_ref(struct sock *sock);
/* Returns false if the program has closed the socket's number by close(2): it may be another file's now. */
bool xs_sock_has_number(const struct sock *sock);
/* Removes the socket from the table, so that its number is invalid. Returns false if another thread has done so. */
bool xs_sock_remove(struct sock *sock);
/* Makes a socket, with a reference for the caller. It can be found by its number only after xs_sock_publish(), so the
 * caller initializes it first. Returns NULL and errno on failure. */
struct sock *xs_sock_new(int family, int type);
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

/* ---- Life (sock.c, connect.c, accept.c, close.c) ------------------------------------------ */

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
/* Returns true if the socket's connection is broken. Keeps errno. */
bool xs_sock_is_broken(int number);

/* Makes `queue` the home of a socket that has none. The socket's guard and the queue's lock must be held. The socket
 * takes a reference of the queue, and the queue one of the socket, which xs_sock_leave() drops. */
void xs_sock_settle(struct sock *sock, struct queue *queue);
void xs_sock_leave(struct sock *sock);
/* Set and clear the socket's owner, and count the socket as the owner's use of the home. The owner must be cleared
 * before the socket's last event, after which the application may delete the queue. */
void xs_sock_own(struct sock *sock, struct queue *owner);
void xs_sock_disown(struct sock *sock);

/* Makes sure that a locked socket has a home: if it has none, this queue or, if that is NULL, a private one. The
 * socket is locked by its home's lock on success. Returns 0, or -1 and errno. */
int xs_sock_home(struct sock *sock, struct queue *queue);
int xs_check_address(const struct sock *sock, const struct sockaddr *address, socklen_t length);
/* Copies an address to a user's buffer, which may be NULL. *length: in, the buffer's size; out, the address's, even
 * if that is larger. Sockets of AF_INET6 get IPv4 addresses as IPv4-mapped ones, whichever form the device has. */
void xs_copy_address(int family, const struct sockaddr *from, struct sockaddr *to, socklen_t *length);
/* Compares addresses without their ports. */
bool xs_same_host(const struct sockaddr *a, const struct sockaddr *b);
/* Makes the socket's id on a device, unless there is one. Returns 0, or -1 and errno. */
int xs_sock_id(struct sock *sock, int device);
void xs_sock_drop_id(struct sock *sock, int device);
void xs_sock_unbind(struct sock *sock); /* destroys all ids */
/* Returns true if functions on an id or a context fail with this errno when their device was removed. */
bool xs_device_is_gone(int error);

/* Which of a socket's operations are ended, and with which errno. */
struct stop {
    bool all; /* all of them, or those with this ahandle */
    exs_ahandle_t ahandle;
    const struct waiter *waiter; /* if not NULL: the operation of this waiter instead */
    uint64_t now;                /* if not 0: operations whose deadline (ns) has passed by now instead */
    int error;
};
/* Ends the operations that `stop` selects: at once, or as soon as neither the device nor the peer uses their memory.
 * Returns their number. Called with the lock. */
int xs_stop(struct sock *sock, const struct stop *stop);
/* The socket's deadline has passed: ends the operations whose deadline has passed, and sets the socket's next one. */
void xs_limits_look(struct sock *sock);

/* Matches requests and arrived connections with accepts, after one of them, or a half-open connection, was added or
 * removed. Called with the listener's lock. */
void xs_listener_match(struct sock *listener);
/* The device was removed: the listener continues on its other devices, if it has any. */
void xs_listener_lost(struct sock *listener, int device);
/* Returns true if the listener listens on at least one device. */
bool xs_listener_hears(const struct sock *listener);
void xs_connect_event(struct sock *sock, struct rdma_cm_event *event, int device);

/* Connecting to one address has failed with this errno: tries the host's next address, if there is one (host.c); else
 * completes the connect. */
void xs_attempt_failed(struct sock *sock, int error);
/* The connect's deadline has passed. */
void xs_connect_timeout(struct sock *sock);
/* Starts to connect to sock->peer, with this deadline (ns). Returns 0, or -1 and errno. */
int xs_connect_address(struct sock *sock, uint64_t deadline);
/* Returns the operation whose event reports a connection for this accept: the accept itself or, if it is multishot, a
 * new one. NULL and errno on failure. Called with the listener's lock, as is xs_accept_spent(). */
struct op *xs_accept_told(struct sock *listener, struct op *op);
/* Removes an accept from the pending ones. */
void xs_accept_spent(struct sock *listener, struct op *op);
/* Completes all pending accepts with this errno. */
void xs_accepts_end(struct sock *listener, int error);
/* The deadline of a close has passed. */
void xs_close_timeout(struct sock *sock);

/* ---- Connecting by name (host.c); called with the lock, but for xs_host_found --------------- */

/* Starts to connect to the addresses that the lookup finds, one after the other, until the deadline (ns). Returns 0, or
 * -1 and errno; then the caller still owns the lookup. */
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
/* Can a blocking accept return a connection at once? */
bool xs_incoming_has_arrived(const struct sock *listener);
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
