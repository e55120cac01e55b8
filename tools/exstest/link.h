/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h - an endpoint of a test's connection ("link"), at the client or the server, from its first message to its
 * close. wire.h describes the messages.
 *
 * All work is done by the handlers of its queue's events. Between the handshake and the BYE messages the test's
 * exercise handles the events: transaction.c or performance.c.
 */
#ifndef EXSTEST_LINK_H
#define EXSTEST_LINK_H

#include <netdb.h>
#include "area.h"
#include "budget.h"
#include "wire.h"

struct figures;
struct link;

/* The callbacks of a test. */
struct exercise {
    /* Allocates memory, and exports the memory that the other end accesses. Returns -1 if link_fail() was called or
     * *why was set. */
    int (*prepare)(struct link *link, struct tokens *mine, const char **why);
    /* Starts the operations. The other end is prepared, and `theirs` are its tokens. */
    int (*start)(struct link *link, const struct tokens *theirs);
    void (*event)(struct link *link, const exs_event_t *event);
    /* Frees link->work. All operations have completed. */
    void (*end)(struct link *link);
};

extern const struct exercise transaction, performance;

enum news {
    LINK_READY,  /* client: the server is prepared; link_start() may follow. Server: the request has arrived */
    LINK_DONE,   /* both ends have sent BYE; the link is closing */
    LINK_FAILED, /* link->failure is the reason; the link is closing */
    LINK_GONE    /* closed: the owner may free the link */
};

enum stage {
    CONNECTING, /* client only */
    GREETING,   /* HELLO is being sent or awaited */
    ASKING,     /* REQUEST is being sent or awaited */
    READY,
    AT_WORK,
    LEAVING, /* BYE was sent */
    CLOSING
};

struct link { /* owned by its `owner`; used by the thread that processes its queue's events */
    int socket;
    exs_qhandle_t queue;
    bool server; /* this is the server's end */
    enum stage stage;
    unsigned version;             /* protocol version of this end */
    const struct addrinfo *where; /* client: list of addresses to try, begins with the current one */
    void (*tell)(struct link *link, enum news news);
    void *owner;

    struct request request;
    struct answer answer;
    const struct exercise *exercise;
    void *work; /* data of the exercise */
    struct area area;
    struct budget *budget; /* server: limits `area`; NULL: no limit */
    uint64_t mismatches, mismatches_there;
    struct figures *figures; /* client: results of a performance test */
    bool may_rest;           /* the exercise may have no events for a long time */
    uint64_t moves;          /* number of events; the owner detects an idle link by it */
    char failure[240];
    bool failed, quiet; /* quiet: the other end gets the reason in a message, see message_delivered() */

    int said; /* messages that this end has sent, without completion so far */
    bool heard_bye;
    unsigned char in[MESSAGE_MAX], out[MESSAGE_MAX], hello[HELLO_LENGTH], bye[BYE_LENGTH];
};

/* Connects to the server, on this queue. Returns -1 and sets link->failure if that fails. */
int link_connect(struct link *link, const struct addrinfo *where, exs_qhandle_t queue);
/* Starts the server's end of an accepted connection. May fail immediately (LINK_FAILED). */
void link_accepted(struct link *link, int socket, exs_qhandle_t queue);
/* Starts the client's exercise. */
void link_start(struct link *link);

/* Handles an event whose ahandle is the link. */
void link_event(struct link *link, const exs_event_t *event);

/* Allocates memory for the exercise. Returns 0, or -1 and sets errno and *why. */
int link_make_area(struct link *link, const struct ops *ops, int copies, const char **why);
/* Called when the exercise has ended at this end: sends BYE. */
void link_finished(struct link *link);
/* Fails the link because a call has failed with errno. */
void link_call_failed(struct link *link, const char *what);
/* Fails the link with this reason, and closes it. */
void link_fail(struct link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
