/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lookup.h - the addresses of a host and a service, for a socket that connects by name (host.c).
 *
 * Numbers are understood at once. Names are looked up by the system's getaddrinfo, which may take as long as it
 * likes: in threads of their own, a few at most, which end when nothing is left to look up. Nobody waits for
 * one: it tells the socket, if that still wants to know.
 */
#ifndef XS_LOOKUP_H
#define XS_LOOKUP_H

#include <netdb.h>
#include <stdint.h>

struct sock;

/* The socket's, by whose lock it is guarded from the moment that it is answered; before, see lookup.c. */
struct lookup;

/* What is asked: host and service, each a name or a number. Answered at once, if both are numbers. NULL and
 * errno: EINVAL, ENAMETOOLONG, EAFNOSUPPORT (a number of the other family), ENOMEM. */
struct lookup *xs_lookup_new(const struct sock *sock, const char *host, const char *service);
/* Have it answered: then xs_host_found(sock) is called by another thread. -1 and errno: no thread can be had.
 */
int xs_lookup_start(struct lookup *lookup, struct sock *sock);
/* Whatever is or will be found: nobody wants it. */
void xs_lookup_drop(struct lookup *lookup);

enum answer { NOT_YET, FOUND, FAILED };
/* FAILED: *error is an errno. */
enum answer xs_lookup_answer(struct lookup *lookup, int *error);
/* Of one that is found: the next address, or NULL; and how many there are from it on. */
const struct addrinfo *xs_lookup_next(struct lookup *lookup, unsigned *left);

/* No thread is about to tell a socket any more: for exs_fini, when no socket is left. */
void xs_lookups_settle(void);
void xs_lookups_reset(void); /* forget all, in a forked child */

#endif
