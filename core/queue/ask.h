/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ask.h - a request (struct ask): the arguments of a public call that starts an operation on a socket; and the waiter
 * of a blocking call.
 */
#ifndef XS_ASK_H
#define XS_ASK_H

#include <exs.h>
#include <stdbool.h>

struct queue;

/* A blocking call that waits for one operation. Owned by the caller, who must keep it until `deliver` was called. */
struct waiter {
    /* Called once, with locks held, by the thread that completes the operation: must only record the event and wake
     * the waiting thread. */
    void (*deliver)(struct waiter *waiter, const exs_event_t *event);
    struct queue *home; /* out: the queue that the caller must run while it waits, and a reference to it */
};

/* Where to connect to: an address, or a host and a service by name. */
struct destination {
    const struct sockaddr *address;
    socklen_t address_length;
    bool by_name;
    const char *host, *service;
    const struct timeval *timeout;
};

/* A close that breaks the connection, so that it does not wait for the peer */
#define CLOSE_ABORTS 1

/* A request: the arguments of a call on a socket. Owned by the caller, during the call. It is cleared for each
 * message, so it is kept small: arguments that only some types of operation have share a union. */
struct ask {
    short type;       /* EXS_EVT_: of the operation's event */
    bool nonblocking; /* the call has EXS_BLOCK, and the socket O_NONBLOCK (nonblocking.c) */
    int sockno;
    int flags;
    int count; /* of files, of accepts */
    exs_qhandle_t qhandle;
    exs_ahandle_t ahandle;
    struct waiter *waiter; /* of a call that blocks, else NULL */

    void *buffer; /* transfers */
    size_t length;
    exs_mhandle_t mhandle;
    union {                           /* depends on the type: */
        exs_msghdr_t *message;        /* sendmsg, which does not change it, and recvmsg */
        const exs_xferfile_t *files;  /* sendfile, recvfile */
        const exs_token_t *token;     /* one-sided */
        exs_acceptaddr_t *accepts;    /* accept */
        const struct destination *to; /* connect */
        int how;                      /* shutdown; close: 0 or CLOSE_ABORTS */
    };
    uint64_t offset; /* one-sided */
};
static inline bool ask_by_name(const struct ask *ask)
{
    return ask->type == EXS_EVT_CONNECT && ask->to->by_name;
}
#endif
