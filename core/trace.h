/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace.h - each operation from its call to its end: as lines on standard error, by EXS_DEBUG=2, and as static
 * probes for bpftrace, perf and systemtap (samples/operations.bt), where sys/sdt.h is there to build with.
 *
 * A probe is an instruction that does nothing; a note in the file says where its arguments are, so that nothing
 * is computed for it. The lines cost the look at xs_watched that EXS_CHECK needs anyway.
 */
#ifndef XS_TRACE_H
#define XS_TRACE_H

#include <stdbool.h>
#ifdef __has_include
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#endif
#endif

struct ask;
struct op;

extern bool xs_watched; /* EXS_CHECK, or EXS_DEBUG=2, wants to know; written by exs_init and exs_fini alone */
extern bool xs_tracing; /* EXS_DEBUG=2 does */

void xs_trace_ask(const struct ask *ask);
void xs_trace_refused(const struct ask *ask); /* with errno: it was not started */
void xs_trace_done(const struct op *op);

/* What time it is, for a line: "22:04:05.123456 ". */
#define TRACE_TIME_MAX 24
const char *xs_trace_time(char out[TRACE_TIME_MAX]);

/* The probes: exs:begin and exs:done, with the operation's type (EXS_EVT_), its socket, its ahandle, and the
 * bytes that are asked for, or the errno. */
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
