/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * acceptor.h - the accepts of a server's listener: several are always under way, so that as many connections
 * may arrive in one turn of the loop, but never more than the server has room for. The others wait in the
 * backlog.
 */
#ifndef TOOLS_ACCEPTOR_H
#define TOOLS_ACCEPTOR_H

#include <exs.h>
#include <stdbool.h>
#include <sys/socket.h>

enum { ACCEPTOR_PLACES = 16 };

/* The server's, used by its loop's thread only; begins as zeros. */
struct acceptor {
    struct acceptor_place {
        exs_acceptaddr_t element; /* of an exs_accept; its ahandle is the place */
        struct sockaddr_storage peer;
        bool posted;
    } places[ACCEPTOR_PLACES];
};

/* Start as many accepts as there is room for connections. -1 and errno of the first that does not start. */
int acceptor_post(struct acceptor *acceptor, int listener, exs_qhandle_t queue, int room);
/* An accept's event: its place is free again. Who came, until the next acceptor_post. */
const struct sockaddr_storage *acceptor_take(const exs_event_t *event);
/* May the next be posted at once? Where this process is short of something it would fail as fast. */
bool acceptor_may_go_on(const exs_event_t *event);

#endif
