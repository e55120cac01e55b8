/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * entry.h - the first check of every public function: may the library be used? exs_init and exs_fini set the state, and
 * so does a fork, in the child.
 */
#ifndef XS_ENTRY_H
#define XS_ENTRY_H

#include <stdatomic.h>

/* LIBRARY_RAW: before exs_init, and after the last exs_fini. LIBRARY_CHECKED: ready, and EXS_CHECK or EXS_DEBUG=2 is
 * set. LIBRARY_FORKED: in a forked child, before exs_init. */
enum library_state { LIBRARY_RAW, LIBRARY_READY, LIBRARY_CHECKED, LIBRARY_FORKED };

/* An enum library_state. exs_init stores it last (release), which pairs with each call's load (acquire). */
extern _Atomic int xs_library_state;

static inline enum library_state library_state(void)
{
    return (enum library_state)atomic_load_explicit(&xs_library_state, memory_order_acquire);
}

/* Every public function calls one of these first, with its own name in `call`; a function of a socket also passes the
 * socket's number. They return 0, or -1 and errno: EPERM before exs_init(), ECHILD in a forked child. */
int xs_enter(const char *call);
int xs_enter_socket(const char *call, int sockno);

/* Returns a number that is different in a forked child. A thread that makes an object for later use records this number
 * with the object. If the number has changed since, the object is the parent's, and must be made again. */
unsigned xs_generation(void);
/* Sets LIBRARY_FORKED and a new generation. Called in a forked child, which has only one thread. */
void xs_entry_forked(void);

/* Called by xs_enter() and xs_enter_socket() in state LIBRARY_CHECKED: reports a call on a socket that was closed
 * before. `sockno` is -1 if the call is not on a socket. Defined in core/debug/misuse.c. */
void xs_misuse_call(const char *call, int sockno);

#endif
