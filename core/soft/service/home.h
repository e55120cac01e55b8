/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * home.h - the life of device contexts: each has a home, which is its wire to the world, its links, and its
 * place in the service thread's care.
 *
 * An event channel of the connection manager has a home of its own, or all have one in common. A context stays
 * while it has objects, whoever has closed it.
 */
#ifndef SOFT_HOME_H
#define SOFT_HOME_H

#include <stdbool.h>
#include <sys/queue.h>
#include <infiniband/verbs.h>
#include "core/soft/engine/wire.h"
#include "core/soft/link/shm.h"
#include "core/soft/link/tcp.h"
#include "core/soft/link/udp.h"
#include "service.h"

/* The opener's; after home_close its own, until the last object is gone. All but `wire` and `context` is
 * guarded by the context's lock. */
struct soft_home {
    struct soft_wire wire; /* first: the engine knows the home by it */
    struct ibv_context *context;
    struct udp udp;
    struct shm shm;
    struct tcp tcp;
    unsigned unseen;  /* looks without one at the UDP sockets, */
    unsigned unheard; /* and of those who poll, at the bell */
    struct service_member service;
    bool joined;                   /* the service thread knows of it */
    LIST_ENTRY(soft_home) orphans; /* guarded by home.c's own locks, */
    LIST_ENTRY(soft_home) all;     /* as this is */
};

/* Every home's: now_ns. */
extern struct soft_clock home_clock;

/* A new context. NULL and errno. */
struct soft_home *home_open(void);
/* With names, too, by which programs can tell each other where its queue pairs are. */
struct soft_home *home_open_named(void);
/* The one with names that all of the process have in common; it stays. NULL and errno. */
struct soft_home *home_shared(void);
/* Its protection domain for all who bring none. NULL and errno. */
struct ibv_pd *home_shared_pd(void);
/* The same, of extended connections. */
struct ibv_xrcd *home_shared_xrcd(void);
static inline struct soft_home *home_of(struct ibv_context *context)
{
    return (struct soft_home *)soft_wire_of(context);
}
/* Its event channel is gone. The context stays while it has objects: home_reap closes it after the last. */
void home_close(struct soft_home *home);
/* An object was destroyed: close what waited for it. */
void home_reap(void);
static inline int home_reaped(int result)
{
    if (result == 0)
        home_reap();
    return result;
}
/* Nobody uses the device any more: the shared one is closed, unless the user still has objects of it. */
void home_unshare(void);
/* In the child of a fork: forget all of them. */
void home_forget(void);
/* Has this process opened contexts, or does it have only copies of those of the process that forked it? */
bool home_is_own(void);
/* The process is about to end: acknowledge what it has been given, and tell what it has lost. */
void home_settle(void);

#endif
