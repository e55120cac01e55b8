/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ask.h - a request (struct ask), which has the arguments of a public call that starts an operation on a socket; and
 * the waiter of a blocking call.
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

/* `how` of a close that breaks the connection, and so does not wait for the peer. */
#define CLOSE_ABORTS 1

/* A request: the arguments of a call on a socket. Owned by the caller, during the call. It is cleared for each
 * message, so it is kept small: arguments that only some types of operation have share a union. */
struct ask {
    short type;       /* type of the operation's event (EXS_EVT_) */
    bool nonblocking; /* the call has EXS_BLOCK, and the socket O_NONBLOCK (nonblocking.c) */
    int sockno;
    int flags;
    int count; /* entries of `files` or `accepts` */
    exs_qhandle_t qhandle;
    exs_ahandle_t ahandle;
    struct waiter *waiter; /* the waiter of a call that blocks, else NULL */

    /* For transfers: the application's memory, its length in bytes, and its region. */
    void *buffer;
    size_t length;
    exs_mhandle_t mhandle;
    /* The type decides which member is used. */
    union {
        exs_msghdr_t *message;        /* exs_sendmsg, which does not change it, and exs_recvmsg */
        const exs_xferfile_t *files;  /* exs_sendfile, exs_recvfile */
        const exs_token_t *token;     /* one-sided operations */
        exs_acceptaddr_t *accepts;    /* exs_accept */
        const struct destination *to; /* exs_connect */
        int how;                      /* exs_shutdown: the direction; exs_close: 0 or CLOSE_ABORTS */
    };
    uint64_t offset; /* one-sided operations: offset in the exported memory, bytes */
};
/* Returns true for a connect to a host and a service by name. */
static inline bool ask_by_name(const struct ask *ask)
{
    return ask->type == EXS_EVT_CONNECT && ask->to->by_name;
}
#endif
