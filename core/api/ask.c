/* SPDX-License-Identifier: BSD-2-Clause */
/* ask.c - xs_start(): passes a request to the function for its type. */
#include "core/base/entry.h"
#include "core/debug/misuse.h"
#include "core/debug/trace.h"
#include "core/queue/ask.h"
#include "core/sock/sock.h"
#include "core.h"
#include "transfer.h"

inline int xs_enter_ask(const struct ask *ask)
{
    if (library_state() == LIBRARY_READY) {
        bool by_name = ask_by_name(ask);

        xs_last_call = (struct last_call){.name = by_name ? "exs_connect_host" : NULL,
                                          .sockno = ask->sockno,
                                          .type = (short)(by_name ? 0 : ask->type)};
        return 0;
    }
    if (xs_enter_socket(ask_by_name(ask) ? "exs_connect_host" : xs_misuse_name(ask->type), ask->sockno) < 0)
        return -1;
    if (xs_tracing)
        xs_trace_ask(ask);
    return 0;
}

static inline __attribute__((always_inline)) int start_asked(const struct ask *ask, int type)
{
    switch (type) {
    case EXS_EVT_CONNECT:
        return xs_start_connect(ask);
    case EXS_EVT_ACCEPT:
        return xs_start_accept(ask);
    case EXS_EVT_SEND:
        return xs_start_send(ask);
    case EXS_EVT_RECV:
        return xs_start_recv(ask);
    case EXS_EVT_SENDMSG:
        return xs_start_sendmsg(ask);
    case EXS_EVT_RECVMSG:
        return xs_start_recvmsg(ask);
    case EXS_EVT_SENDFILE:
        return xs_start_sendfile(ask);
    case EXS_EVT_RECVFILE:
        return xs_start_recvfile(ask);
    case EXS_EVT_SHUTDOWN:
        return xs_start_shutdown(ask);
    case EXS_EVT_CLOSE:
        return xs_start_close(ask);
    default:
        return xs_start_onesided(ask);
    }
}

static __attribute__((noinline)) int start_traced(const struct ask *ask)
{
    int rc = start_asked(ask, ask->type);

    if (rc < 0)
        xs_trace_refused(ask);
    return rc;
}

inline __attribute__((always_inline)) int xs_start(const struct ask *ask, int type)
{
    XS_PROBE_BEGIN(ask);
    return xs_tracing ? start_traced(ask) : start_asked(ask, type);
}
