/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * act.h - one way to say what an EXS program does, for both ways of doing it: by blocking calls, or by
 * operations whose events come to a libev watcher.
 *
 * Every operation is started, and then awaited. What fails is said ("torture: failed client exs_send ENOMEM");
 * whether it may fail now, the actor knows. What must never be - an event that nobody waits for, a second one,
 * a wrong byte - ends the process.
 */
#ifndef TORTURE_ACT_H
#define TORTURE_ACT_H

#include <exs_ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { FAULT = 3 }; /* exit status: something that must never be */
#define OPS 8       /* at once */

struct op { /* owned by the actor */
    const char *call;
    bool owed; /* its event has not come */
    int error; /* of the call or of the event; 0: it went well */
    ssize_t length;
    int socket; /* accepted */
};

struct actor {        /* of one thread */
    bool events;      /* else blocking calls */
    bool may_fail;    /* that is, something was made to fail, here or at the peer */
    const char *name; /* for messages */
    exs_qhandle_t queue;
    struct ev_loop *loop;
    exs_ev watcher;
    struct op ops[OPS];
    exs_acceptaddr_t accepted;
    exs_pollfd_t polled[2];
};

_Noreturn void fault(const struct actor *actor, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A call failed, with errno: false, or a fault. */
bool failed(const struct actor *actor, const char *call);

bool actor_open(struct actor *actor); /* its queue, where it has one */
void actor_close(struct actor *actor);

/* Start; op is what to await. */
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
/* Until something can be received, or one can be read from, for so long at most. Without a socket: -1. */
struct op *act_poll(struct actor *actor, int socket, int other, const struct timeval *limit);
struct op *act_shutdown(struct actor *actor, int socket);
struct op *act_close(struct actor *actor, int socket);

bool await(struct actor *actor, struct op *op); /* it went well; NULL: it was not begun */
/* Closes whatever happens: where a shortage forbids it, it has to end first. */
void close_surely(struct actor *actor, int socket);

#endif
