/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp.h - the link of the embedded device that puts its packets into UDP datagrams: RoCEv2, but for the port.
 *
 * Each context has a link of its own with a UDP socket for each address of this host that it has connections
 * on, bound to that and to a port that the kernel picks. The peers' connection managers tell each other which.
 * A context with names is reached at all of the host's addresses, so its sockets are bound to every address.
 */
#ifndef SOFT_UDP_H
#define SOFT_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <netinet/in.h>
#include "icrc.h"
#include "core/soft/service/service.h"
#include "core/soft/engine/wire.h"

#define UDP_BUFFER 65536 /* holds the largest train there is */
#define UDP_ADDRESSES                                                                                          \
    (SERVICE_SOCKETS - 2) /* that have a socket of their own; all others one for each family */
#define UDP_AT_ONCE 2    /* datagrams: of two that were asked for, one that came says that there are no more */

/* One socket of a link; guarded by the context's lock. */
struct udp_socket {
    int fd;
    union soft_addr local; /* what it is bound to */
    bool segments;         /* the kernel cuts trains for us (UDP_SEGMENT) */
    size_t buffer;         /* bytes that may wait in it */
    size_t burst;          /* bytes taken since it was last seen empty */
    uint32_t drops;        /* datagrams that the kernel has dropped for want of room */
};

/* A context and its link. The event channel's; after udp_close its own, until the last object is gone. All but
 * `wire` and `context` is guarded by the context's lock. */
struct udp {
    struct soft_wire wire; /* first: the engine knows the link by it */
    struct ibv_context *context;
    struct udp_socket sockets[SERVICE_SOCKETS]; /* the first socket_count are open */
    int socket_count;
    struct icrc_shift shift;
    struct soft_path route; /* the last one looked up for a path without a local address */
    struct service_member service;
    bool joined;             /* the service thread knows of it */
    uint8_t *buffer;         /* UDP_AT_ONCE * UDP_BUFFER bytes, from the first queue pair on */
    LIST_ENTRY(udp) orphans; /* guarded by udp.c's own locks, */
    LIST_ENTRY(udp) all;     /* as this is */
};

/* A new context with its link. NULL and errno. */
struct udp *udp_open(void);
/* With names, too, by which programs can tell each other where its queue pairs are. */
struct udp *udp_open_named(void);
/* The one with names that all of the process have in common; it stays. NULL and errno. */
struct udp *udp_shared(void);
/* Its protection domain for all who bring none. NULL and errno. */
struct ibv_pd *udp_shared_pd(void);
/* Its event channel is gone. The context stays while it has objects: udp_reap closes it after the last. */
void udp_close(struct udp *udp);
/* An object was destroyed: close what waited for it. */
void udp_reap(void);
static inline int udp_reaped(int result)
{
    if (result == 0)
        udp_reap();
    return result;
}
/* In the child of a fork: forget all links. */
void udp_forget(void);
/* The process is about to end: acknowledge what it has been given, and tell what it has lost. */
void udp_settle(void);

/* The port at which packets for this context come to this address of ours, opening the socket if that isn't
 * done yet; network byte order, 0 and errno on failure. Not with the context locked. */
in_port_t udp_port(struct udp *udp, const union soft_addr *local);

/* ---- Between the link's own files ------------------------------------------------------------ */

/* What a link needs with its first queue pair or socket. 0 or an errno. (locked) */
int udp_prepare(struct udp *udp);
/* The socket of this address of ours, opened if need be; NULL and errno. (locked) */
struct udp_socket *udp_socket_of(struct udp *udp, const union soft_addr *local);
/* One more, open and the link's from now on. 0, or an errno and it is closed. (locked) */
int udp_sockets_add(struct udp *udp, struct udp_socket *socket);
void udp_sockets_close(struct udp *udp);
/* A nonblocking socket as the device needs it, bound to this address and port (0: one of the kernel's choice).
 * 0 or an errno. */
int udp_socket_open(struct udp_socket *socket, const union soft_addr *local);
void udp_socket_close(struct udp_socket *socket);
uint32_t udp_socket_drops(const struct udp_socket *socket);

/* udp_lost.c: what came to a link and was dropped, since its process was too slow. */
struct udp_lost {
    uint64_t trains,
        messages;  /* no room in a socket's buffer; no receive posted, where nothing is sent again */
    size_t buffer; /* bytes */
};
struct udp_lost udp_lost_of(struct udp *udp);   /* (locked) */
void udp_lost_add(const struct udp_lost *lost); /* once for each link, at its end or the process's */
void udp_lost_tell(void);

/* The calls of struct soft_wire. */
void udp_send(struct soft_wire *wire, const struct soft_path *path, uint8_t *train, size_t length,
              size_t stride);
int udp_receive(struct soft_wire *wire, struct ibv_context *context);

#endif
