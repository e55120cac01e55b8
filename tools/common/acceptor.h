/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * acceptor.h - the accepts of a server's listener: several are always under way, so that as many connections
 * may arrive in one turn of the loop, but never more than the server has room for. The others wait in the
 * backlog. A process that is short of memory goes on with the accepts and connections that there are, says so,
 * and tries again in a second.
 */
#ifndef TOOLS_ACCEPTOR_H
#define TOOLS_ACCEPTOR_H

#include <ev.h>
#include <exs.h>
#include <stdbool.h>
#include <sys/socket.h>

enum { ACCEPTOR_PLACES = 16 };

/* The server's, used by its loop's thread only. What is above the line is filled in before acceptor_begin, the
 * rest begins as zeros. */
struct acceptor {
    struct ev_loop *loop;
    exs_qhandle_t queue;
    int listener;
    int (*room)(void);                                                /* for so many connections more */
    void (*came)(int socket, const struct sockaddr_storage *address); /* a connection, and from whom */
    void (*say)(const char *why);                                     /* of one that did not come: a line */
    /* ---- */
    bool ended;
    ev_timer again;
    struct acceptor_place {
        exs_acceptaddr_t element; /* of an exs_accept; its ahandle is the place */
        struct sockaddr_storage peer;
        bool posted;
    } places[ACCEPTOR_PLACES];
};

/* The listener listens: start as many accepts as there is room for. -1 and errno of the first that does not
 * start: there is nothing yet that the server could go on with. */
int acceptor_begin(struct acceptor *acceptor);
/* There may be room for more. */
void acceptor_more(struct acceptor *acceptor);
/* An accept's event. */
void acceptor_event(struct acceptor *acceptor, const exs_event_t *event);
/* No more are started, and nothing is said of those that end now. Before the listener is closed, or after. */
void acceptor_end(struct acceptor *acceptor);

#endif
