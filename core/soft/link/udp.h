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
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "icrc.h"
#include "icrc_id.h"
#include "core/soft/service/service.h"
#include "core/soft/engine/wire.h"

#define UDP_BUFFER 65536 /* holds the largest train there is */
#define UDP_SOCKETS 10
#define UDP_ADDRESSES (UDP_SOCKETS - 2) /* that have a socket of their own; all others one for each family */
#define UDP_GROUPS 16                   /* multicast groups, a socket for each */
#define UDP_AT_ONCE 2 /* datagrams: of two that were asked for, one that came says that there are no more */

/* One socket of a link; guarded by the context's lock. */
struct udp_socket {
    int fd;
    union soft_addr local; /* what it is bound to */
    bool segments;         /* the kernel cuts trains for us (UDP_SEGMENT) */
    bool foreign;          /* RoCE's own port: only for what comes, and that may be any maker's */
    size_t buffer;         /* bytes that may wait in it */
    size_t burst;          /* bytes taken since it was last seen empty */
    uint32_t drops;        /* datagrams that the kernel has dropped for want of room */
    bool failed;           /* nothing can be received by it any more, and EXS_DEBUG has been told */
};

/* What all packets of one path have in common, kept from one train to the next. Most links have one peer, and
 * one such way in and one out; a link that has met another has more of them. */
#define UDP_WAYS 16 /* then, each in a place that depends on the peer's port */

struct udp_way_in {
    struct soft_path path; /* of no family: none */
    struct icrc_flow flow;
    struct icrc_count count; /* of a foreign sender's packets */
};

struct udp_way_out {
    struct soft_path path;     /* as the engine has it; of no family: none */
    struct udp_socket *socket; /* of the link's, which the train leaves by */
    struct icrc_flow flow;
    /* control messages: where it comes from, its traffic class unless that is 0, and behind that how to cut it
     */
    _Alignas(struct cmsghdr) uint8_t ancillary[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
                                               CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t))];
    size_t source_length, ancillary_length; /* bytes, of all but the last and of all */
};

static inline unsigned udp_way_place(const struct soft_path *path)
{
    return ntohs(path->remote.in.sin_port) % UDP_WAYS; /* at the same place in sockaddr_in6 */
}

/* Byte by byte: where only padding differs, a way is made anew. */
static inline bool udp_same_way(const struct soft_path *known, const struct soft_path *path)
{
    return memcmp(&known->local, &path->local, sizeof known->local) == 0 &&
           memcmp(&known->remote, &path->remote, sizeof known->remote) == 0;
}

/* Part of its context's home; guarded by the context's lock. */
struct udp {
    struct soft_link link; /* first */
    struct ibv_context *context;
    struct service_member *service;
    struct udp_socket sockets[UDP_SOCKETS]; /* the first socket_count are open */
    int socket_count;
    bool known;     /* others may know where these are: they stay */
    struct udp_socket *groups; /* UDP_GROUPS of them once there is one; the first group_count are open */
    int group_count;
    struct icrc_shift shift;
    struct icrc_ids *ids;           /* of foreign packets; NULL: neither on RoCE's port nor in a group */
    struct roce_port *roce;         /* the share that this link has of it, or NULL */
    struct soft_path route;         /* the last one looked up for a path without a local address */
    struct udp_way_in in, *ways_in; /* UDP_WAYS of them, in use once they are there */
    struct udp_way_out out, *ways_out;
    struct udp_pace *pace;         /* of peers that acknowledge nothing, once there is one */
    uint8_t *buffer;               /* UDP_AT_ONCE * UDP_BUFFER bytes, from the first queue pair on, */
    struct udp_arrivals *arrivals; /* and what comes with them (udp_receive.c) */
};

/* All zero before, and all but these two afterwards. */
void udp_init(struct udp *udp, struct ibv_context *context, struct service_member *service);
/* What it needs with its first queue pair or socket. 0 or an errno. (locked) */
int udp_prepare(struct udp *udp);
/* Sockets at all addresses, at the port of a LID that nobody else has; and, where EXS_ROCE asks for it, at
 * RoCE's own port, `roce` then says so. 0 or an errno. (locked) */
int udp_take_lid(struct udp *udp, uint16_t *lid, bool *roce);
/* The context is gone. */
void udp_end(struct udp *udp);

/* As struct soft_link and struct soft_wire have them. (locked) */
void udp_send(struct soft_link *link, const struct soft_path *path, uint8_t *train, size_t length,
              size_t stride);
int udp_receive(struct udp *udp);
uint64_t udp_pace(struct soft_link *link, const struct soft_path *path, size_t bytes);

/* As struct soft_wire has them, by sockets at RoCE's port. (locked) */
int udp_group_join(struct udp *udp, const union soft_addr *group);
void udp_group_leave(struct udp *udp, const union soft_addr *group);

/* The port at which packets for a new connection of this context come to this address of ours, opening the
 * socket if that isn't done yet; network byte order, 0 and errno on failure. Not with the context locked. */
in_port_t udp_port(struct udp *udp, const union soft_addr *local);
/* No queue pair uses the sockets: close them, until a connection asks for one again. (locked) */
void udp_sockets_spare(struct udp *udp);

/* ---- Between the link's own files ------------------------------------------------------------ */

/* Room for datagrams of UDP_BUFFER bytes in this buffer; free() it. NULL: no memory. */
struct udp_arrivals *udp_arrivals_new(uint8_t *buffer);
/* The socket of this address of ours, opened if need be; NULL and errno. (locked) */
struct udp_socket *udp_socket_of(struct udp *udp, const union soft_addr *local);
/* One more, open and the link's from now on. 0, or an errno and it is closed. (locked) */
int udp_sockets_add(struct udp *udp, struct udp_socket *socket);
void udp_sockets_close(struct udp *udp);
/* A nonblocking socket as the device needs it, bound to this address and port (0: one of the kernel's choice).
 * 0 or an errno. */
int udp_socket_open(struct udp_socket *socket, const union soft_addr *local);
/* The same of one that shares address and port with others, before or after it. */
int udp_socket_open_shared(struct udp_socket *socket, const union soft_addr *local);
/* One at a group's address, for what comes there by any of the host's networks. 0 or an errno. */
int udp_socket_open_group(struct udp_socket *socket, const union soft_addr *group);
/* One that somebody has opened so. 0 or an errno; the descriptor is closed with the socket. */
int udp_socket_take_shared(struct udp_socket *socket, int fd);
void udp_socket_close(struct udp_socket *socket);
uint32_t udp_socket_drops(const struct udp_socket *socket);

/* The link is gone. */
void udp_pace_end(struct udp *udp);

/* udp_lost.c: what came to a link and was dropped, since its process was too slow. */
struct udp_lost {
    uint64_t trains,
        messages;  /* no room in a socket's buffer; no receive posted, where nothing is sent again */
    size_t buffer; /* bytes */
};
struct udp_lost udp_lost_of(struct udp *udp);   /* (locked) */
void udp_lost_add(const struct udp_lost *lost); /* of what ends: a link, a group's socket, the process */
void udp_lost_tell(void);

#endif
