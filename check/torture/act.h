/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * act.h - one interface to EXS's operations, by blocking calls or by operations whose events a libev watcher
 * gets.
 *
 * Each operation is started and then awaited. A failure is printed ("torture: failed client exs_send ENOMEM");
 * actor.may_fail tells whether failures are allowed at that time. A violation - an unexpected event, a second
 * event, a wrong byte - ends the process.
 */
#ifndef TORTURE_ACT_H
#define TORTURE_ACT_H

#include <exs_ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { FAULT = 3 }; /* exit status after a violation */
#define OPS 8       /* most pending operations */

struct op { /* owned by the actor */
    const char *call;
    bool owed; /* its event has not arrived */
    int error; /* errno of the call or of the event; 0: success */
    ssize_t length;
    int socket; /* the accepted socket */
};

struct actor {        /* owned by one thread */
    bool events;      /* otherwise blocking calls */
    bool may_fail;    /* something was made to fail, here or at the peer */
    const char *name; /* for messages */
    exs_qhandle_t queue;
    struct ev_loop *loop;
    exs_ev watcher;
    struct op ops[OPS];
    exs_acceptaddr_t accepted;
    exs_pollfd_t polled[2];
};

_Noreturn void fault(const struct actor *actor, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A call failed with errno. Returns false if it may fail; otherwise ends the process. */
bool failed(const struct actor *actor, const char *call);

bool actor_open(struct actor *actor); /* creates its queue, if it uses events */
void actor_close(struct actor *actor);

/* Each starts an operation and returns it, to be passed to await(). */
struct op *act_connect(struct actor *actor, int socket, const struct sockaddr *to, socklen_t length,
                       const struct timeval *limit);
struct op *act_accept(struct actor *actor, int listener);
struct op *act_send(struct actor *actor, int socket, const void *bytes, size_t length, exs_mhandle_t memory);
struct op *act_recv(struct actor *actor, int socket, void *bytes, size_t length, int flags,
                    exs_mhandle_t memory);
struct op *act_sendfile(struct actor *actor, int socket, exs_xferfile_t *vector, int count);
struct op *act_recvfile(struct actor *actor, int socket, exs_xferfile_t *vector, int count);
struct op *act_rwrite(struct actor *actor, int socket, const void *bytes, size_t length,
                      const exs_token_t *token, exs_mhandle_t memory);
struct op *act_rread(struct actor *actor, int socket, void *bytes, size_t length, const exs_token_t *token,
                     exs_mhandle_t memory);
/* Polls until `socket` can be received from or `other` can be read from; *limit is the timeout. socket may be
 * -1. */
struct op *act_poll(struct actor *actor, int socket, int other, const struct timeval *limit);
struct op *act_shutdown(struct actor *actor, int socket);
struct op *act_close(struct actor *actor, int socket);

bool await(struct actor *actor, struct op *op); /* returns whether it succeeded; NULL: it was not started */
/* Closes the socket. If a shortage makes that fail, repeats it after the shortage. */
void close_surely(struct actor *actor, int socket);

#endif
