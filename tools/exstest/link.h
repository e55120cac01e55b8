/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h - a connection of a test, at either end, from its first message to its close (wire.h).
 *
 * Everything happens in events of the queue that it lives on. Between the handshake and the farewell the
 * exercise of the test has it: transaction.c, performance.c.
 */
#ifndef EXSTEST_LINK_H
#define EXSTEST_LINK_H

#include <netdb.h>
#include "area.h"
#include "budget.h"
#include "wire.h"

struct figures;
struct link;

/* What is done on a connection. */
struct exercise {
    /* Memory, and the tokens of what the other end works on. -1: link_fail was called, or why is set. */
    int (*prepare)(struct link *link, struct tokens *mine, const char **why);
    /* The other end is prepared too, and these are its tokens. */
    int (*start)(struct link *link, const struct tokens *theirs);
    void (*event)(struct link *link, const exs_event_t *event);
    /* Every operation has had its event. */
    void (*end)(struct link *link);
};

extern const struct exercise transaction, performance;

enum news {
    LINK_READY,  /* client: the server is prepared; link_start when the others are too */
    LINK_DONE,   /* both ends have said goodbye; it is being closed */
    LINK_FAILED, /* link->failure says why; it is being closed */
    LINK_GONE    /* closed: may be freed */
};

enum stage {
    CONNECTING, /* client */
    GREETING,   /* HELLO sent or to come */
    ASKING,     /* REQUEST sent or to come */
    READY,
    AT_WORK,
    LEAVING, /* BYE sent */
    CLOSING
};

struct link { /* owned by whoever opened it; used by the thread that has its queue's events */
    int socket;
    exs_qhandle_t queue;
    bool server; /* this end is the server's */
    enum stage stage;
    unsigned version;             /* that this end says it has */
    const struct addrinfo *where; /* client: addresses still to be tried */
    void (*tell)(struct link *link, enum news news);
    void *owner;

    struct request request;
    struct answer answer;
    const struct exercise *exercise;
    void *work; /* the exercise's */
    struct area area;
    struct budget *budget; /* server: what area is counted in; NULL: nothing has a limit */
    uint64_t mismatches, mismatches_there;
    struct figures *figures; /* of a performance test's client */
    bool may_rest;           /* the exercise has no events for as long as it takes */
    uint64_t moves;          /* events so far: whoever looks again sees whether anything goes on */
    char failure[240];
    bool failed, quiet; /* quiet: the other end was told why already */

    int said; /* own messages without their event */
    bool heard_bye;
    unsigned char in[MESSAGE_MAX], out[MESSAGE_MAX], hello[HELLO_LENGTH], bye[BYE_LENGTH];
};

/* A connection to the server, on this queue; -1 and link->failure. */
int link_connect(struct link *link, const struct addrinfo *where, exs_qhandle_t queue);
/* The server's end of one that was accepted; may fail at once. */
void link_accepted(struct link *link, int socket, exs_qhandle_t queue);
/* The client's exercise may begin. */
void link_start(struct link *link);

/* Every event whose ahandle is the link. */
void link_event(struct link *link, const exs_event_t *event);

/* Memory for the exercise. -1: why, errno. */
int link_make_area(struct link *link, const struct ops *ops, int copies, const char **why);
/* The exercise has done its part. */
void link_finished(struct link *link);
/* A call failed, errno says why. */
void link_call_failed(struct link *link, const char *what);
/* It can't go on. */
void link_fail(struct link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
