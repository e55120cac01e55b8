/* SPDX-License-Identifier: BSD-2-Clause */
/* incoming.c - see incoming.h. */
#include "incoming.h"

#include <sys/resource.h>

struct inbox box;
struct address address;
int listener;
exs_acceptaddr_t wanted[4];

void incoming_begin(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < 2048 ? limit.rlim_max : 2048;
    setrlimit(RLIMIT_NOFILE, &limit);
    init_library();
    inbox_open(&box, 16);
    listener = open_listener(AF_INET, SOCK_STREAM, 1024, &address);
    memset(wanted, 0, sizeof(wanted));
}

void incoming_end(void)
{
    close_socket(&box, listener);
    inbox_close(&box);
}

int accepted(struct inbox *inbox)
{
    exs_event_t event = take_good(inbox, EXS_EVT_ACCEPT, listener);

    return event.exs_evt_union.exs_evt_accept.exs_evt_newsocket;
}
