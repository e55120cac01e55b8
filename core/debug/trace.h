/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace.h - tracing of operations, from call to event, in two ways: with EXS_DEBUG=2 as lines on standard error; and by
 * static probes for bpftrace, perf and systemtap (samples/operations.bt), if sys/sdt.h was available when the library
 * was built.
 *
 * A probe is a nop instruction. A note in the ELF file says where its arguments are, so nothing is computed for it.
 * When the lines are off, they cost only the load of xs_watched that EXS_CHECK needs as well.
 */
#ifndef XS_TRACE_H
#define XS_TRACE_H

#include <stdbool.h>
#ifdef __has_include
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#include "core/queue/socket.h"
#endif
#endif

struct ask;
struct op;

extern bool xs_watched; /* EXS_CHECK or EXS_DEBUG=2 is set; written by exs_init and exs_fini */
extern bool xs_tracing; /* EXS_DEBUG=2 is set */

/* Log that an operation starts; that it was not started, because of errno; that it has completed. */
void xs_trace_ask(const struct ask *ask);
void xs_trace_refused(const struct ask *ask);
void xs_trace_done(const struct op *op);

/* The probes are exs:begin and exs:done. Arguments: the operation's type (EXS_EVT_), its socket, its ahandle, and the
 * requested number of bytes (begin) or the errno (done). */
#ifdef STAP_PROBE4
#define XS_PROBE_BEGIN(ask) STAP_PROBE4(exs, begin, (ask)->type, (ask)->sockno, (ask)->ahandle, (ask)->length)
#define XS_PROBE_DONE(event)                                                                                   \
    STAP_PROBE4(exs, done, (event)->exs_evt_type, (event)->exs_evt_socket, (event)->exs_evt_ahandle,           \
                (event)->exs_evt_errno)
#else
#define XS_PROBE_BEGIN(ask) (void)0
#define XS_PROBE_DONE(event) (void)0
#endif

#endif
