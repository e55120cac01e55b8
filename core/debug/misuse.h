/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * misuse.h - EXS_CHECK: checks for mistakes of the application that no return value or event reports. The checks are on
 * from exs_init to exs_fini if the environment sets EXS_CHECK. Each mistake is reported by a line on standard error and
 * has no other effect; with EXS_CHECK=abort it also aborts the process.
 *
 * When the checks are off, they cost one load of xs_watched (trace.h) for each operation that completes. The checks at
 * the start of a call or an operation cost nothing then, because they are on slow paths that other conditions select,
 * too (xs_enter(); sends with a limit, receives with a timeout).
 */
#ifndef XS_MISUSE_H
#define XS_MISUSE_H

#include <stdbool.h>

struct ask;
struct handle_table;
struct op;
struct queue;

extern bool xs_misuse_on; /* written by exs_init and exs_fini, while no other thread is in the library */

/* Switches the checks on if EXS_CHECK is set. Called by exs_init, also in a forked child. */
void xs_misuse_begin(void);
/* Switches the checks off. Called by exs_fini. */
void xs_misuse_end(void);

/* ---- Handles that are invalid (misuse.c) ------------------------------------------------------- */

/* Called when the application passes a handle that is not valid in this table. Reports a mistake if the function named
 * `ended_by` has freed the handle, or if the handle is from the process that forked. `kind`: what the message calls the
 * handle. */
void xs_misuse_handle(struct handle_table *table, const char *kind, const void *handle, const char *ended_by);

/* ---- Buffers in use (held.c) --------------------------------------------------------- */

/* Called when an operation is about to start, with the socket's lock: records the operation's buffers. Until the
 * operation completes, the application must not change a buffer that is sent, or use a buffer that is filled. */
void xs_held_begin(const struct op *op, const struct ask *ask);
/* Like xs_held_begin(), for an accept: its buffers are accept.element, which must have been set, and the buffer for the
 * peer's address that the element names. */
void xs_held_begin_element(const struct op *op);
/* Called when the operation completes: checks its buffers, and forgets them. */
void xs_held_end(const struct op *op);
void xs_held_reset(void); /* forgets all buffers, in a forked child */

/* ---- Events that are not dequeued (misuse.c) ---------------------------------------------------- */

#define UNTAKEN_S 5 /* s: an event that has waited for this time is reported as not dequeued */

/* Called when an operation completes: checks its buffers, and records the time. */
void xs_misuse_completed(struct op *op);

/* Returns the name of the public function whose operations have events of this type. */
const char *xs_misuse_name(int type);

#endif
