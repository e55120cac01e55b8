/* SPDX-License-Identifier: BSD-2-Clause */
/* entry.c - the state of the library, which each call checks. See entry.h. */
#include <errno.h>
#include "entry.h"
#include "log.h"

_Atomic int xs_library_state;
static _Atomic unsigned generation; /* incremented in a child's only thread: pairs with nothing */

int xs_enter(const char *call)
{
    return xs_enter_socket(call, -1);
}

int xs_enter_socket(const char *call, int sockno)
{
    xs_last_call = (struct last_call){.name = call, .sockno = sockno};
    switch (library_state()) {
    case LIBRARY_READY:
        return 0;
    case LIBRARY_CHECKED:
        xs_misuse_call(call, sockno);
        return 0;
    case LIBRARY_FORKED:
        return xs_fails(ECHILD);
    default:
        return xs_fails(EPERM);
    }
}

unsigned xs_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

void xs_entry_forked(void)
{
    atomic_fetch_add(&generation, 1);
    atomic_store(&xs_library_state, LIBRARY_FORKED);
}
