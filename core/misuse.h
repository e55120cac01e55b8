/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * misuse.h - what a program does that it must not, and that nobody else would tell it of: EXS_CHECK in the
 * environment, from exs_init to exs_fini. Each is told in a line on standard error, and nothing is done
 * otherwise for it, unless EXS_CHECK=abort asks for the end of the process.
 *
 * Where it is off, which it is unless somebody asks, it costs a look at xs_misuse_on when an operation
 * completes, and nothing else: what looks when one starts, and at which call it is, is what turns aside for
 * other reasons as well (xs_enter; bounded sends, receives with a limit).
 */
#ifndef XS_MISUSE_H
#define XS_MISUSE_H

#include <stdbool.h>

struct ask;
struct handle_table;
struct op;
struct queue;

extern bool xs_misuse_on; /* written by exs_init alone, when nobody else is in the library */

/* By exs_init, also of a forked child, and by exs_fini. */
void xs_misuse_begin(void);
void xs_misuse_end(void);

/* ---- Handles that are gone (misuse.c) ------------------------------------------------------- */

/* This thread is in this public call, on this socket, or -1. */
void xs_misuse_call(const char *call, int sockno);
/* It was given this handle, a `kind`, which is none of the table: tell if that call has ended it before, or it
 * is another process's. */
void xs_misuse_handle(struct handle_table *table, const char *kind, const void *handle, const char *ended_by);

/* ---- Buffers that are held (held.c) --------------------------------------------------------- */

/* What was asked for is about to start: its buffer is the operation's until that completes. Called with the
 * socket's lock, as is the next. */
void xs_held_begin(const struct op *op, const struct ask *ask);
/* The same of an accept, whose element has been set. */
void xs_held_begin_element(const struct op *op);
void xs_held_end(const struct op *op);
void xs_held_reset(void); /* forget all, in a forked child */

/* ---- Events that nobody takes (misuse.c) ---------------------------------------------------- */

#define UNTAKEN_S 5 /* s: how long an event may wait before it is told */

/* The operation completes. */
void xs_misuse_completed(struct op *op);

/* The call that asks for such an event. */
const char *xs_misuse_name(int type);

#endif
