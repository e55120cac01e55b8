/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nonblocking.c - calls with EXS_BLOCK on a socket that has O_NONBLOCK. Such a call has the result of the same call on a
 * nonblocking socket of the kernel: transfers move what they can move at once, a connect and a shutdown continue in the
 * background, and an accept returns a connection that has arrived.
 */
#include <errno.h>
#include <fcntl.h>
#include "core/base/log.h"
#include "core/queue/ask.h"
#include "core/queue/wait.h"
#include "calls.h"
#include "sock.h"

/* Set for the first socket with O_NONBLOCK, so that other programs need no look-up in each blocking call. Pairs with
 * nothing: the program orders its calls on a socket. */
static atomic_bool any;

void xs_sock_set_status(struct sock *sock, int flags)
{
    atomic_store_explicit(&sock->status_flags, flags & O_NONBLOCK, memory_order_relaxed);
    if (flags & O_NONBLOCK)
        atomic_store_explicit(&any, true, memory_order_relaxed);
}

bool xs_is_nonblocking(int sockno)
{
    if (!atomic_load_explicit(&any, memory_order_relaxed))
        return false;
    struct sock *sock = xs_sock_get(sockno);

    if (sock == NULL)
        return false;
    bool is = (atomic_load_explicit(&sock->status_flags, memory_order_relaxed) & O_NONBLOCK) != 0;

    xs_sock_put(sock);
    return is;
}

/* Handle the connection requests that have arrived. */
static void run_listener(int sockno)
{
    struct sock *listener = xs_sock_get_locked(sockno);

    if (listener == NULL)
        return;
    struct queue *home = listener->state == SOCK_LISTENING ? atomic_load(&listener->home) : NULL;

    if (home != NULL)
        xs_queue_ref(home);
    xs_sock_put_locked(listener);
    if (home == NULL)
        return;
    xs_run(home);
    xs_queue_unref(home);
}

enum nonblocking xs_prepare_nonblocking(struct ask *ask)
{
    ask->nonblocking = true;
    switch (ask->type) {
    case EXS_EVT_SEND:
    case EXS_EVT_SENDMSG:
    case EXS_EVT_RECV:
    case EXS_EVT_RECVMSG:
        ask->flags |= MSG_DONTWAIT;
        return NONBLOCKING_AT_ONCE;
    case EXS_EVT_ACCEPT:
        run_listener(ask->sockno);
        return NONBLOCKING_AT_ONCE;
    case EXS_EVT_CONNECT:
    case EXS_EVT_SHUTDOWN:
        return NONBLOCKING_IN_BACKGROUND;
    default:
        xs_explain(EAGAIN,
                   "socket %d has O_NONBLOCK, and this call always waits for the peer: name a queue instead of "
                   "EXS_BLOCK",
                   ask->sockno);
        return NONBLOCKING_NEVER;
    }
}
