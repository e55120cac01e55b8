/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp.h - the link of the embedded device that puts its packets into UDP datagrams: RoCEv2, but for the port.
 *
 * Each context has a link of its own with a UDP socket for each address family that it has connections in,
 * bound to every address and to a port that the kernel picks. The peers' connection managers tell each other
 * which.
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

/* One socket of a link; guarded by the context's lock. */
struct udp_socket {
    int fd;         /* -1: not open */
    in_port_t port; /* network byte order */
    bool segments;  /* the kernel cuts trains for us (UDP_SEGMENT) */
    size_t buffer;  /* bytes that may wait in it */
    size_t burst;   /* bytes taken since it was last seen empty */
    uint32_t drops; /* datagrams that the kernel has dropped for want of room */
};

/* A context and its link. The event channel's; after udp_close its own, until the last object is gone. All but
 * `wire` and `context` is guarded by the context's lock. */
struct udp {
    struct soft_wire wire; /* first: the engine knows the link by it */
    struct ibv_context *context;
    struct udp_socket v4, v6;
    struct icrc_shift shift;
    struct soft_path route; /* the last one looked up for a path without a local address */
    struct service_member service;
    bool joined;             /* the service thread knows of it */
    uint8_t *buffer;         /* UDP_BUFFER bytes, from the first queue pair on */
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
/* The process is about to end: acknowledge what it has been given. */
void udp_settle(void);

/* The port that packets for this context come to, opening the family's socket if that isn't done yet; network
 * byte order, 0 and errno on failure. Not with the context locked. */
in_port_t udp_port(struct udp *udp, sa_family_t family);

/* ---- Between the link's own files ------------------------------------------------------------ */

/* The socket of a family, opened if need be; NULL and errno. (locked) */
struct udp_socket *udp_socket_of(struct udp *udp, sa_family_t family);
/* A nonblocking socket as the device needs it, on this port (network byte order; 0: one of the kernel's
 * choice). 0 or an errno. */
int udp_socket_open(struct udp_socket *socket, sa_family_t family, in_port_t port);
void udp_socket_close(struct udp_socket *socket);
uint32_t udp_socket_drops(const struct udp_socket *socket);
/* The calls of struct soft_wire. */
void udp_send(struct soft_wire *wire, const struct soft_path *path, uint8_t *train, size_t length,
              size_t stride);
int udp_receive(struct soft_wire *wire, struct ibv_context *context);

#endif
