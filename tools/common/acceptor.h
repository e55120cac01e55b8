/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * acceptor.h - the accepts of a server's listener. Several accepts are pending at any time, so that several connections
 * can arrive in one iteration of the loop, but never more than the server has room for; further connections wait in the
 * backlog. If the process is short of memory, the server continues with its current accepts and connections, reports
 * that, and tries again after a second.
 */
#ifndef TOOLS_ACCEPTOR_H
#define TOOLS_ACCEPTOR_H

#include <ev.h>
#include <exs.h>
#include <stdbool.h>
#include <sys/socket.h>

enum { ACCEPTOR_PLACES = 16 };

/* Owned by the server; used by its loop's thread only. Before acceptor_begin() the server sets the fields above the
 * line, and the others to zero. */
struct acceptor {
    struct ev_loop *loop;
    exs_qhandle_t queue;
    int listener;
    int (*room)(void); /* returns the number of further connections that the server accepts */
    void (*came)(int socket, const struct sockaddr_storage *address); /* called for an accepted connection */
    void (*say)(const char *why); /* called when an accept failed; one line */
    /* ---- */
    bool ended;
    ev_timer again;
    struct acceptor_place {
        exs_acceptaddr_t element; /* of exs_accept(); its ahandle is this struct */
        struct sockaddr_storage peer;
        bool posted;
    } places[ACCEPTOR_PLACES];
};

/* Starts accepts on the listening socket, as far as there is room. Returns 0, or -1 and errno if the first one could
 * not be started. */
int acceptor_begin(struct acceptor *acceptor);
/* To be called when there may be room for more connections. */
void acceptor_more(struct acceptor *acceptor);
/* Handles the event of an accept. */
void acceptor_event(struct acceptor *acceptor, const exs_event_t *event);
/* Stops: no further accept is started, and failures are not reported. May be called before or after the listener is
 * closed. */
void acceptor_end(struct acceptor *acceptor);

#endif
