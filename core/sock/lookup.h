/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lookup.h - finds the addresses of a host and a service, for a socket that connects by name (host.c).
 *
 * Numeric hosts and services are converted immediately. Names are looked up by getaddrinfo(), which may block for any
 * time. Therefore threads of the library call it, THREADS_MAX (8) at most, which exit when no lookup is waiting. No
 * call of the application waits for such a thread. When the thread has the answer it notifies the socket, unless the
 * socket has dropped the lookup.
 */
#ifndef XS_LOOKUP_H
#define XS_LOOKUP_H

#include <netdb.h>

struct sock;

/* Owned by the socket. The lock of lookup.c guards it until it has its answer, and then the socket's lock. */
struct lookup;

/* Makes a lookup of a host and a service, each a name or a number. If both are numbers, the lookup has its answer at
 * once. Returns NULL and errno on failure: EINVAL, ENAMETOOLONG, EAFNOSUPPORT (a numeric address of the other family),
 * ENOMEM, or an errno of xs_lookup_answer(). */
struct lookup *xs_lookup_new(const struct sock *sock, const char *host, const char *service);
/* Starts the lookup: a thread of the library calls xs_host_found(sock) when it has its answer. Returns 0, or -1 and
 * errno if no thread can be started. */
int xs_lookup_start(struct lookup *lookup, struct sock *sock);
/* Drops the lookup, whether it has its answer or not. */
void xs_lookup_drop(struct lookup *lookup);

enum answer { NOT_YET, FOUND, FAILED };
/* Returns the state of the answer. FAILED: *error is an errno. */
enum answer xs_lookup_answer(struct lookup *lookup, int *error);
/* Returns the next address of an answer, or NULL if there is none. Sets *left to the number of addresses that remain,
 * including this one. */
const struct addrinfo *xs_lookup_next(struct lookup *lookup, unsigned *left);

/* Waits until no thread is notifying a socket. Called by exs_fini, when all sockets are closed. */
void xs_lookups_settle(void);
void xs_lookups_reset(void); /* forgets all lookups, in a forked child */

#endif
