/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h - a connection of a test ("link"), at either end, from its first message to its close (wire.h).
 *
 * Everything happens in events of its queue. Between the handshake and the BYE messages the test's exercise handles the
 * events: transaction.c, performance.c.
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
    /* Allocates memory, and exports what the other end accesses. -1: link_fail() was called, or *why is set. */
    int (*prepare)(struct link *link, struct tokens *mine, const char **why);
    /* The other end is prepared, too, and these are its tokens. */
    int (*start)(struct link *link, const struct tokens *theirs);
    void (*event)(struct link *link, const exs_event_t *event);
    /* All operations have ended. */
    void (*end)(struct link *link);
};

extern const struct exercise transaction, performance;

enum news {
    LINK_READY,  /* the server is prepared: the client calls link_start() when all links are */
    LINK_DONE,   /* both ends have sent BYE; it is being closed */
    LINK_FAILED, /* link->failure is the reason; it is being closed */
    LINK_GONE    /* closed: may be freed */
};

enum stage {
    CONNECTING, /* client */
    GREETING,   /* HELLO is being sent or awaited */
    ASKING,     /* REQUEST is being sent or awaited */
    READY,
    AT_WORK,
    LEAVING, /* BYE sent */
    CLOSING
};

struct link { /* owned by its `owner`; used by the thread that processes its queue's events */
    int socket;
    exs_qhandle_t queue;
    bool server; /* this end is the server's */
    enum stage stage;
    unsigned version;             /* the version that this end sends */
    const struct addrinfo *where; /* client: addresses to be tried, from the current one on */
    void (*tell)(struct link *link, enum news news);
    void *owner;

    struct request request;
    struct answer answer;
    const struct exercise *exercise;
    void *work; /* data of the exercise */
    struct area area;
    struct budget *budget; /* server: limits `area`; NULL: no limit */
    uint64_t mismatches, mismatches_there;
    struct figures *figures; /* results of a performance test's client */
    bool may_rest;           /* the exercise may have no events for a long time */
    uint64_t moves;          /* number of events, by which the owner detects that the link is idle */
    char failure[240];
    bool failed, quiet; /* quiet: the other end knows the reason */

    int said; /* own messages whose event has not arrived */
    bool heard_bye;
    unsigned char in[MESSAGE_MAX], out[MESSAGE_MAX], hello[HELLO_LENGTH], bye[BYE_LENGTH];
};

/* Connects to the server, on this queue. -1 and link->failure. */
int link_connect(struct link *link, const struct addrinfo *where, exs_qhandle_t queue);
/* Starts the server's end of an accepted connection. May fail immediately (LINK_FAILED). */
void link_accepted(struct link *link, int socket, exs_qhandle_t queue);
/* Starts the client's exercise. */
void link_start(struct link *link);

/* Handles an event whose ahandle is the link. */
void link_event(struct link *link, const exs_event_t *event);

/* Allocates memory for the exercise. -1, errno and *why. */
int link_make_area(struct link *link, const struct ops *ops, int copies, const char **why);
/* The exercise has ended on this end: sends BYE. */
void link_finished(struct link *link);
/* A call has failed with errno: fails the link. */
void link_call_failed(struct link *link, const char *what);
/* Fails the link with this reason, and closes it. */
void link_fail(struct link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
