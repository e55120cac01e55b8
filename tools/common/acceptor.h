/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * acceptor.h - the accepts of a server's listener. Several are pending at any time, so that as many connections can
 * arrive in one iteration of the loop, but never more than the server has room for; further connections wait in the
 * backlog. If the process is short of memory it continues with the accepts and connections that it has, reports that,
 * and tries again after a second.
 */
#ifndef TOOLS_ACCEPTOR_H
#define TOOLS_ACCEPTOR_H

#include <ev.h>
#include <exs.h>
#include <stdbool.h>
#include <sys/socket.h>

enum { ACCEPTOR_PLACES = 16 };

/* Owned by the server; used only by its loop's thread. The server sets the fields above the line before
 * acceptor_begin(), and the others to zero. */
struct acceptor {
    struct ev_loop *loop;
    exs_qhandle_t queue;
    int listener;
    int (*room)(void); /* how many more connections there may be */
    void (*came)(int socket, const struct sockaddr_storage *address); /* a connection was accepted */
    void (*say)(const char *why);                                     /* an accept failed; one line */
    /* ---- */
    bool ended;
    ev_timer again;
    struct acceptor_place {
        exs_acceptaddr_t element; /* of exs_accept(); its ahandle is this struct */
        struct sockaddr_storage peer;
        bool posted;
    } places[ACCEPTOR_PLACES];
};

/* Starts as many accepts as there is room for, on a socket that listens. -1 and errno: the first one could not be
 * started. */
int acceptor_begin(struct acceptor *acceptor);
/* To be called when there may be room for more connections. */
void acceptor_more(struct acceptor *acceptor);
/* Handles the event of an accept. */
void acceptor_event(struct acceptor *acceptor, const exs_event_t *event);
/* Stops: no accept is started any more, and failures are not reported. Before or after the listener is closed. */
void acceptor_end(struct acceptor *acceptor);

#endif
