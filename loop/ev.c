/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ev.c - the functions of exs_ev.h for programs that were built with release 2.1, where the library had them. Now they are
 * inline functions of the header.
 *
 * Such a program is linked to libev. The library is not: its references to libev are weak, so that a program without libev
 * does not load it, and one with libevent, whose functions have the same names as some of libev's, never calls those.
 */
#define exs_ev_set set_watcher
#define exs_ev_start start_watcher
#define exs_ev_stop stop_watcher
#include <exs_ev.h>
#undef exs_ev_set
#undef exs_ev_start
#undef exs_ev_stop

#pragma weak ev_io_start
#pragma weak ev_io_stop
#pragma weak ev_pending_count

#pragma GCC visibility push(default)
void exs_ev_set(exs_ev *w, exs_qhandle_t queue);
void exs_ev_start(EV_P_ exs_ev *w);
void exs_ev_stop(EV_P_ exs_ev *w);
#pragma GCC visibility pop

void exs_ev_set(exs_ev *w, exs_qhandle_t queue)
{
    set_watcher(w, queue);
}

void exs_ev_start(EV_P_ exs_ev *w)
{
    start_watcher(EV_A_ w);
}

void exs_ev_stop(EV_P_ exs_ev *w)
{
    stop_watcher(EV_A_ w);
}
