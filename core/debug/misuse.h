/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * misuse.h - EXS_CHECK: checks for mistakes of the program that nothing else would report. The checks are on from
 * exs_init to exs_fini if the environment sets EXS_CHECK. Each mistake is reported by a line on standard error and
 * has no other effect, unless EXS_CHECK=abort asks to abort the process.
 *
 * When the checks are off, they cost one load of xs_misuse_on for each operation that completes. The checks at the
 * start of a call or an operation are on paths that are taken for other reasons as well (xs_enter(); limited sends,
 * receives with a timeout).
 */
#ifndef XS_MISUSE_H
#define XS_MISUSE_H

#include <stdbool.h>

struct ask;
struct handle_table;
struct op;
struct queue;

extern bool xs_misuse_on; /* written by exs_init and exs_fini, while no other thread is in the library */

/* Called by exs_init, also in a forked child, and by exs_fini. */
void xs_misuse_begin(void);
void xs_misuse_end(void);

/* ---- Handles that are invalid (misuse.c) ------------------------------------------------------- */

/* The thread was given a handle, of this `kind`, that is not in the table. Reports it if the function `ended_by` has
 * freed it, or if it is from the process that forked. */
void xs_misuse_handle(struct handle_table *table, const char *kind, const void *handle, const char *ended_by);

/* ---- Buffers in use (held.c) --------------------------------------------------------- */

/* The operation is about to start: its buffer must not be changed or, if it is filled, used by another operation
 * until it completes. Called with the socket's lock, as is xs_held_begin_element(). */
void xs_held_begin(const struct op *op, const struct ask *ask);
/* The same for an accept, whose element must have been set. */
void xs_held_begin_element(const struct op *op);
void xs_held_end(const struct op *op);
void xs_held_reset(void); /* forgets all buffers, in a forked child */

/* ---- Events that are not dequeued (misuse.c) ---------------------------------------------------- */

#define UNTAKEN_S 5 /* s: how long an event may wait before it is reported */

/* The operation completes: checks its buffer, and records the time. */
void xs_misuse_completed(struct op *op);

/* Returns the name of the public function whose operations have events of this type. */
const char *xs_misuse_name(int type);

#endif
