/* SPDX-License-Identifier: BSD-2-Clause */
/* calls.h - the functions of sockets that blocking calls and exs_poll (loop/) use. */
#ifndef XS_CALLS_H
#define XS_CALLS_H

#include <exs.h>
#include <stdbool.h>
#include <stdint.h>

struct ask;
struct polling;
struct waiter;

/* A signal handler ran while the waiter waited for an operation on this socket. The operation ends with EINTR as soon
 * as possible, unless it completes before. Either way it is delivered to the waiter. */
void xs_interrupt(int sockno, const struct waiter *waiter);

/* Returns true if a call with EXS_BLOCK on this socket must not wait. */
bool xs_is_nonblocking(int sockno);
/* Adapts a request with EXS_BLOCK on a socket for which xs_is_nonblocking() is true.
 * NONBLOCKING_AT_ONCE: the caller starts the request and waits for it; it does not wait for the peer.
 * NONBLOCKING_IN_BACKGROUND: the caller starts the request without a waiter and returns.
 * NONBLOCKING_NEVER: the operation always waits for the peer, so the call fails; errno is set. */
enum nonblocking { NONBLOCKING_AT_ONCE, NONBLOCKING_IN_BACKGROUND, NONBLOCKING_NEVER };
enum nonblocking xs_prepare_nonblocking(struct ask *ask);

/* Returns true if the program has closed the socket's number by close(2). The socket itself is still open then. */
bool xs_number_is_lost(int sockno);

/* ---- exs_poll (poll.c) ------------------------------------------------------------------------ */

/* Checks the arguments of exs_poll(). *limit: the timeout in ns, or NEVER_NS. Returns 0, or -1 and EINVAL. */
int xs_poll_check(const exs_pollfd_t *fds, int count, int flags, const struct timeval *timeout,
                  uint64_t *limit);
/* Runs the home queues of the sockets once. Returns a poll, with a reference for the caller, and sets *ready to the
 * number of elements that are ready now. Returns NULL and errno on failure. The poll remembers which numbers are
 * sockets now; if another file has such a number later, the element is treated as a closed socket. */
struct polling *xs_poll_now(exs_pollfd_t *fds, int count, int *ready);
/* Drops the caller's reference. */
void xs_poll_put(struct polling *polling);
/* Starts the poll's wait; its event goes to a queue that only the caller uses. Returns 0, or -1 and errno. */
int xs_poll_wait(struct polling *polling, uint64_t limit, exs_qhandle_t qhandle);
/* Starts a poll whose event is added to the queue within `limit` (ns, NEVER_NS for no timeout). Returns 0, or -1 and
 * errno. */
int xs_poll_start(exs_pollfd_t *fds, int count, uint64_t limit, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

#endif
