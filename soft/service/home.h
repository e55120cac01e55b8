/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * home.h - opening, sharing and closing device contexts. Each context is a part of a struct soft_home ("home"), which
 * also has the context's struct soft_wire (the engine's callbacks), its links, and its entry in the service thread's
 * list. (The home queue of a socket in core/ is something else.)
 *
 * Each event channel of the connection manager has its own context, or uses the shared one (home_shared). A closed
 * context continues to exist as long as it has objects.
 */
#ifndef SOFT_HOME_H
#define SOFT_HOME_H

#include <stdbool.h>
#include <sys/queue.h>
#include <infiniband/verbs.h>
#include "soft/engine/wire.h"
#include "soft/link/shm.h"
#include "soft/link/tcp.h"
#include "soft/link/udp.h"
#include "service.h"

/* Owned by its opener until home_close(); after that it is freed together with the context's last object. The context's
 * lock guards all fields except `wire` and `context`. */
struct soft_home {
    struct soft_wire wire; /* first: the engine passes the wire to the callbacks, which cast it */
    struct ibv_context *context;
    struct udp udp;
    struct shm shm;
    struct tcp tcp;
    unsigned unseen; /* calls of receive() that need not read the UDP sockets; every UNSEEN-th reads them */
    /* Calls of receive() that need not read the shm link's eventfd; every UNHEARD-th reads it. */
    unsigned unheard;
    struct service_member service;
    bool joined;                   /* service_join() succeeded */
    LIST_ENTRY(soft_home) orphans; /* `orphans` and `all` are guarded by locks in home.c */
    LIST_ENTRY(soft_home) all;
};

/* The clock of all contexts: now_ns(). */
extern struct soft_clock home_clock;

/* Opens a context. NULL and errno on failure. */
struct soft_home *home_open(void);
/* Opens a context with names (wire.h), which programs can exchange to connect queue pairs. NULL and errno on
 * failure. */
struct soft_home *home_open_named(void);
/* Returns the context with names that all users in the process share; the first call opens it. NULL and errno on
 * failure. */
struct soft_home *home_shared(void);
/* Returns a protection domain of the shared context, for users that bring none. NULL and errno on failure. */
struct ibv_pd *home_shared_pd(void);
/* Returns an XRC domain of the shared context, for users that bring none. NULL and errno on failure. */
struct ibv_xrcd *home_shared_xrcd(void);
static inline struct soft_home *home_of(struct ibv_context *context)
{
    return (struct soft_home *)soft_wire_of(context);
}
/* Called when the owner no longer uses the context. The context stays open while it has objects; home_reap() closes it
 * when the last one is destroyed. */
void home_close(struct soft_home *home);
/* Called after an object was destroyed: closes the contexts whose owner no longer uses them and that have no object. */
void home_reap(void);
/* Calls home_reap() if a call that destroys an object has returned 0. Returns `result`. */
static inline int home_reaped(int result)
{
    if (result == 0)
        home_reap();
    return result;
}
/* Called when the device is no longer used: closes the shared context, unless the application still has objects in
 * it. */
void home_unshare(void);
/* Called in a forked child: forgets all contexts. */
void home_forget(void);
/* True if this process has opened contexts; false if it has only copies of those of the process that forked it. */
bool home_is_own(void);
/* Called when the process exits: sends delayed acknowledgements, and reports lost packets. */
void home_settle(void);

#endif
