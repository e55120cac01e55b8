/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * home.h - opening, sharing and closing device contexts. Each context has a struct soft_home, which holds its struct
 * soft_wire (the engine's callbacks), its links, and its entry in the service thread's list.
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

/* Owned by its opener; after home_close() it frees itself with the last object. All fields except `wire` and `context`
 * are guarded by the context's lock. */
struct soft_home {
    struct soft_wire wire; /* First member: the engine passes the wire, and the callbacks cast it. */
    struct ibv_context *context;
    struct udp udp;
    struct shm shm;
    struct tcp tcp;
    unsigned unseen;  /* counts receive() calls that need not read the UDP sockets: every UNSEEN-th does */
    unsigned unheard; /* counts calls that need not read the shm link's eventfd: every UNHEARD-th does */
    struct service_member service;
    bool joined;                   /* service_join() succeeded */
    LIST_ENTRY(soft_home) orphans; /* `orphans` and `all` are guarded by home.c's locks. */
    LIST_ENTRY(soft_home) all;
};

/* The clock of all contexts: now_ns(). */
extern struct soft_clock home_clock;

/* Opens a context. NULL and errno. */
struct soft_home *home_open(void);
/* The same with names (wire.h), which programs can exchange to connect queue pairs. */
struct soft_home *home_open_named(void);
/* The context with names that all users in the process share; it stays open. NULL and errno. */
struct soft_home *home_shared(void);
/* The shared context's protection domain for users that bring none. NULL and errno. */
struct ibv_pd *home_shared_pd(void);
/* The same for XRC domains. */
struct ibv_xrcd *home_shared_xrcd(void);
static inline struct soft_home *home_of(struct ibv_context *context)
{
    return (struct soft_home *)soft_wire_of(context);
}
/* The owner is done with the context. It stays open while it has objects; home_reap() closes it after the last. */
void home_close(struct soft_home *home);
/* Called after an object was destroyed: closes contexts that waited for that. */
void home_reap(void);
static inline int home_reaped(int result)
{
    if (result == 0)
        home_reap();
    return result;
}
/* The device is unused: closes the shared context, unless the application still has objects in it. */
void home_unshare(void);
/* In a forked child: forgets all contexts. */
void home_forget(void);
/* True if this process has opened contexts; false if it has only copies of those of the process that forked it. */
bool home_is_own(void);
/* Called when the process exits: sends delayed acknowledgements, and reports lost packets. */
void home_settle(void);

#endif
