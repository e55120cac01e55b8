/* SPDX-License-Identifier: BSD-2-Clause */
/* trace.c - EXS_DEBUG=2: a line when an operation is requested, and one when it completes. See trace.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "core/base/log.h"
#include "core/queue/ask.h"
#include "core/queue/op.h"
#include "core/queue/queue.h"
#include "misuse.h"
#include "trace.h"

#define TEXT_MAX 96

bool xs_watched, xs_tracing;

/* Text for the socket; a blocking call has no queue. */
static const char *describe_op(char out[TEXT_MAX], int sockno, exs_qhandle_t queue, exs_ahandle_t ahandle)
{
    if (queue != NULL)
        snprintf(out, TEXT_MAX, "socket %d, queue %p, ahandle %p", sockno, (void *)queue, ahandle);
    else
        snprintf(out, TEXT_MAX, "socket %d", sockno);
    return out;
}

static const char *name_of(const struct ask *ask)
{
    return ask_by_name(ask) ? "exs_connect_host" : xs_misuse_name(ask->type);
}

void xs_trace_ask(const struct ask *ask)
{
    char about[TEXT_MAX], bytes[TEXT_MAX] = "";

    if (ask->length > 0)
        snprintf(bytes, sizeof(bytes), " of %zu bytes", ask->length);
    xs_log_operation("%s: %s%s begins", describe_op(about, ask->sockno, ask->qhandle, ask->ahandle),
                     name_of(ask), bytes);
}

void xs_trace_refused(const struct ask *ask)
{
    char about[TEXT_MAX];
    int error = errno;

    xs_log_operation("%s: %s was not started: %s", describe_op(about, ask->sockno, ask->qhandle, ask->ahandle),
                     name_of(ask), strerror(error));
    errno = error;
}

/* The result in addition to the errno. */
static const char *result_of(char out[TEXT_MAX], const exs_event_t *event)
{
    *out = '\0';
    switch (event->exs_evt_type) {
    case EXS_EVT_SEND:
    case EXS_EVT_RECV:
    case EXS_EVT_RREAD:
    case EXS_EVT_RWRITE:
        snprintf(out, TEXT_MAX, ", %zu bytes", event->exs_evt_union.exs_evt_xfer.exs_evt_length);
        break;
    case EXS_EVT_SENDMSG:
    case EXS_EVT_RECVMSG:
        snprintf(out, TEXT_MAX, ", %zu bytes", event->exs_evt_union.exs_evt_xfermsg.exs_evt_length);
        break;
    case EXS_EVT_SENDFILE:
    case EXS_EVT_RECVFILE:
        snprintf(out, TEXT_MAX, ", %lld bytes",
                 (long long)event->exs_evt_union.exs_evt_xferfile.exs_evt_length);
        break;
    case EXS_EVT_ACCEPT:
        snprintf(out, TEXT_MAX, ", socket %d", event->exs_evt_union.exs_evt_accept.exs_evt_newsocket);
        break;
    }
    return out;
}

void xs_trace_done(const struct op *op)
{
    const exs_event_t *event = &op->event;
    char about[TEXT_MAX], result[TEXT_MAX];
    exs_qhandle_t queue = op->waiter == NULL && !op->silent ? op->pool->handle : NULL;

    xs_log_operation(
        "%s: %s is done%s%s%s", describe_op(about, event->exs_evt_socket, queue, event->exs_evt_ahandle),
        xs_misuse_name(event->exs_evt_type), result_of(result, event), event->exs_evt_errno != 0 ? ": " : "",
        event->exs_evt_errno != 0 ? strerror(event->exs_evt_errno) : "");
}
