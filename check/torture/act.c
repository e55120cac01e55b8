/* SPDX-License-Identifier: BSD-2-Clause */
/* act.c - operations by blocking calls, and by events. See act.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "act.h"
#include "fail.h"

void fault(const struct actor *actor, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "torture: BAD %s: ", actor->name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _Exit(FAULT);
}

bool failed(const struct actor *actor, const char *call)
{
    int error = errno;

    if (!actor->may_fail)
        fault(actor, "%s failed with %s, and nothing was made to fail", call, strerrorname_np(error));
    fprintf(stderr, "torture: failed %s %s %s\n", actor->name, call, strerrorname_np(error));
    errno = error;
    return false;
}

/* ---- Events ----------------------------------------------------------------------------------------- */

static void take_event(struct actor *actor, const exs_event_t *event)
{
    struct op *op = event->exs_evt_ahandle;

    /* the event of an accept has no ahandle; one accept is pending at a time */
    if (event->exs_evt_type == EXS_EVT_ACCEPT)
        for (op = actor->ops; op < actor->ops + OPS && !(op->owed && strcmp(op->call, "exs_accept") == 0);)
            op++;
    if (op < actor->ops || op >= actor->ops + OPS || !op->owed)
        fault(actor, "%s that nobody is owed", exs_strevent(event->exs_evt_type));
    op->owed = false;
    op->error = event->exs_evt_errno;
    if (event->exs_evt_type == EXS_EVT_ACCEPT)
        op->socket = event->exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    else if (event->exs_evt_type == EXS_EVT_SEND || event->exs_evt_type == EXS_EVT_RECV ||
             event->exs_evt_type == EXS_EVT_RREAD || event->exs_evt_type == EXS_EVT_RWRITE)
        op->length = (ssize_t)event->exs_evt_union.exs_evt_xfer.exs_evt_length;
    else if (event->exs_evt_type == EXS_EVT_RECVFILE)
        op->length = (ssize_t)event->exs_evt_union.exs_evt_xferfile.exs_evt_length;
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)loop;
    for (int i = 0; i < count; i++)
        take_event(w->data, &events[i]);
}

bool actor_open(struct actor *actor)
{
    if (!actor->events)
        return true;
    actor->queue = exs_qcreate(4);
    if (actor->queue == EXS_QHANDLE_INVALID)
        return failed(actor, "exs_qcreate");
    actor->loop = ev_loop_new(EVFLAG_AUTO);
    exs_ev_init(&actor->watcher, events_cb, actor->queue);
    actor->watcher.data = actor;
    exs_ev_start(actor->loop, &actor->watcher);
    return true;
}

void actor_close(struct actor *actor)
{
    if (!actor->events || actor->loop == NULL)
        return;
    ev_run(actor->loop, EVRUN_NOWAIT);
    exs_ev_stop(actor->loop, &actor->watcher);
    if (exs_qdelete(actor->queue) == -1)
        fault(actor, "exs_qdelete: %s", strerrorname_np(errno));
    ev_loop_destroy(actor->loop);
    actor->loop = NULL;
}

/* ---- Operations ------------------------------------------------------------------------------------- */

static struct op *begin(struct actor *actor, const char *call)
{
    struct op *op = actor->ops;

    while (op->call != NULL)
        op++;
    *op = (struct op){.call = call, .owed = true, .socket = -1};
    return op;
}

/* The call has returned this result. A blocking operation has completed with that. */
static struct op *began(struct actor *actor, struct op *op, ssize_t result)
{
    if (result == -1) {
        op->owed = false;
        op->error = errno;
    } else if (!actor->events) {
        op->owed = false;
        op->length = result;
    }
    return op;
}

bool await(struct actor *actor, struct op *op)
{
    if (op == NULL)
        return false;
    const char *call = op->call;

    while (op->owed)
        ev_run(actor->loop, EVRUN_ONCE);
    op->call = NULL;
    errno = op->error;
    return op->error == 0 || failed(actor, call);
}

static int how(const struct actor *actor)
{
    return actor->events ? 0 : EXS_BLOCK;
}

static exs_qhandle_t where(const struct actor *actor)
{
    return actor->events ? actor->queue : NULL;
}

struct op *act_connect(struct actor *actor, int socket, const struct sockaddr *to, socklen_t length,
                       const struct timeval *limit)
{
    struct op *op = begin(actor, "exs_connect");

    return began(actor, op, exs_connect(socket, to, length, how(actor), limit, where(actor), op));
}

struct op *act_accept(struct actor *actor, int listener)
{
    struct op *op = begin(actor, "exs_accept");
    exs_acceptaddr_t *accepted = &actor->accepted;

    *accepted = (exs_acceptaddr_t){.exs_socket = -1};
    began(actor, op, exs_accept(listener, accepted, 1, how(actor), where(actor)));
    op->socket = accepted->exs_socket;
    return op;
}

struct op *act_send(struct actor *actor, int socket, const void *bytes, size_t length, exs_mhandle_t memory)
{
    struct op *op = begin(actor, "exs_send");

    return began(actor, op, exs_send(socket, bytes, length, how(actor), where(actor), op, memory));
}

struct op *act_recv(struct actor *actor, int socket, void *bytes, size_t length, int flags,
                    exs_mhandle_t memory)
{
    struct op *op = begin(actor, "exs_recv");

    return began(actor, op, exs_recv(socket, bytes, length, how(actor) | flags, where(actor), op, memory));
}

struct op *act_sendfile(struct actor *actor, int socket, exs_xferfile_t *vector, int count)
{
    struct op *op = begin(actor, "exs_sendfile");

    return began(actor, op, exs_sendfile(socket, vector, count, how(actor), where(actor), op));
}

struct op *act_recvfile(struct actor *actor, int socket, exs_xferfile_t *vector, int count)
{
    struct op *op = begin(actor, "exs_recvfile");

    return began(actor, op, exs_recvfile(socket, vector, count, how(actor), where(actor), op));
}

struct op *act_rwrite(struct actor *actor, int socket, const void *bytes, size_t length,
                      const exs_token_t *token, exs_mhandle_t memory)
{
    struct op *op = begin(actor, "exs_rwrite");

    return began(actor, op, exs_rwrite(socket, bytes, length, token, 0, how(actor), where(actor), op, memory));
}

struct op *act_rread(struct actor *actor, int socket, void *bytes, size_t length, const exs_token_t *token,
                     exs_mhandle_t memory)
{
    struct op *op = begin(actor, "exs_rread");

    return began(actor, op, exs_rread(socket, bytes, length, token, 0, how(actor), where(actor), op, memory));
}

struct op *act_poll(struct actor *actor, int socket, int other, const struct timeval *limit)
{
    struct op *op = begin(actor, "exs_poll");

    actor->polled[0] = (exs_pollfd_t){.exs_fd = socket, .exs_events = EXS_POLLIN};
    actor->polled[1] = (exs_pollfd_t){.exs_fd = other, .exs_events = EXS_POLLIN};
    return began(actor, op, exs_poll(actor->polled, 2, how(actor), limit, where(actor), op));
}

struct op *act_shutdown(struct actor *actor, int socket)
{
    struct op *op = begin(actor, "exs_shutdown");

    return began(actor, op, exs_shutdown(socket, SHUT_WR, how(actor), where(actor), op));
}

struct op *act_close(struct actor *actor, int socket)
{
    struct op *op = begin(actor, "exs_close");

    return began(actor, op, exs_close(socket, how(actor), where(actor), op));
}

void close_surely(struct actor *actor, int socket)
{
    if (await(actor, act_close(actor, socket)))
        return;
    if (torture_disarm != NULL)
        torture_disarm();
    if (!await(actor, act_close(actor, socket)))
        fault(actor, "exs_close fails even when nothing else does: %s", strerrorname_np(errno));
}
