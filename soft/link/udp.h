/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp.h - the software device's link that sends packets in UDP datagrams, as RoCEv2 does, but usually at other ports.
 *
 * Each context has one such link, with a UDP socket for each local address that its connections use, bound to that
 * address and to a port that the kernel picks. The connection managers of the two peers exchange these ports. A context
 * with a LID can be reached at all of the host's addresses, so its sockets are bound to the wildcard address.
 *
 * A burst is a batch of packets to one peer that the kernel segments (UDP_SEGMENT) or has coalesced (UDP_GRO). `stride`
 * is the length of each packet except the last, which may be shorter. A "way" is a cache entry: data that is the same
 * for all packets of one path and direction.
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
#include "soft/service/service.h"
#include "soft/engine/wire.h"

#define UDP_BUFFER 65536                /* bytes of a buffer that can hold any batch */
#define UDP_SOCKETS 10                  /* maximum sockets of a link */
#define UDP_ADDRESSES (UDP_SOCKETS - 2) /* addresses with a socket each; all others share one per family */
#define UDP_GROUPS 16                   /* maximum multicast groups, each with a socket */
#define UDP_AT_ONCE 2 /* datagrams that one call asks for: if it gets fewer, the socket is empty */

/* One socket of a link. Guarded by the context's lock. */
struct udp_socket {
    int fd;
    union soft_addr local; /* the address that it is bound to */
    bool segments;         /* the kernel segments batches (UDP_SEGMENT) */
    bool foreign;          /* at UDP port 4791: only receives, from devices of any vendor */
    size_t buffer;         /* size of its receive buffer, bytes */
    size_t burst;          /* bytes received since it was last empty */
    uint32_t drops;        /* datagrams that the kernel has dropped because the buffer was full */
    bool failed;           /* recvmsg() fails permanently, which has been logged */
};

/* The cache. A link with one peer has one entry for each direction; a link with more peers has UDP_WAYS. */
#define UDP_WAYS 16 /* entries, indexed by the peer's port */

/* For packets that are received. */
struct udp_way_in {
    struct soft_path path; /* its address family is 0 in an unused entry */
    struct icrc_flow flow;
    struct icrc_count count; /* of a sender that is not EXS */
};

/* For packets that are sent. */
struct udp_way_out {
    struct soft_path path;     /* the path that the engine passes; its address family is 0 in an unused entry */
    struct udp_socket *socket; /* the link's socket that sends */
    struct icrc_flow flow;
    /* Control messages: the source address, the traffic class unless it is 0, and last the segment size. */
    _Alignas(struct cmsghdr) uint8_t ancillary[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
                                               CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t))];
    size_t source_length, ancillary_length; /* bytes of them without the segment size; bytes of all */
};

/* Returns the index of the entry for a path. */
static inline unsigned udp_way_place(const struct soft_path *path)
{
    return ntohs(path->remote.in.sin_port) % UDP_WAYS; /* at the same place in sockaddr_in6 */
}

/* Returns whether an entry is for this path. Compares bytes; if only padding differs, the entry is made again. */
static inline bool udp_same_way(const struct soft_path *known, const struct soft_path *path)
{
    return memcmp(&known->local, &path->local, sizeof known->local) == 0 &&
           memcmp(&known->remote, &path->remote, sizeof known->remote) == 0;
}

/* A context's link. Part of its struct soft_home; guarded by the context's lock. */
struct udp {
    struct soft_link link; /* first */
    struct ibv_context *context;
    struct service_member *service;
    struct udp_socket sockets[UDP_SOCKETS]; /* the first socket_count are open */
    int socket_count;
    bool known;                /* peers may know the sockets' ports, so the sockets stay open */
    struct udp_socket *groups; /* NULL or UDP_GROUPS; the first group_count are open */
    int group_count;
    struct icrc_shift shift;
    struct icrc_ids *ids;   /* NULL: the link uses neither RoCE's port nor a group */
    struct roce_port *roce; /* the link's share of RoCE's port, or NULL */
    struct soft_path route; /* the result of the last route lookup for a path without a local address */
    /* The cache: `in` and `out`, or, if they are not NULL, the UDP_WAYS entries of `ways_in` and `ways_out`. */
    struct udp_way_in in, *ways_in;
    struct udp_way_out out, *ways_out;
    struct udp_pace *pace; /* pacing of packets to peers that acknowledge nothing (UC, UD); or NULL */
    uint8_t *buffer;       /* UDP_AT_ONCE * UDP_BUFFER bytes, allocated with the first queue pair or socket */
    struct udp_arrivals *arrivals; /* headers for recvmmsg() (udp_receive.c) */
};

/* Initializes a link that is all zero. Opens no socket. */
void udp_init(struct udp *udp, struct ibv_context *context, struct service_member *service);
/* Called for the first queue pair or socket: allocates the buffers. 0 or an errno. (locked) */
int udp_prepare(struct udp *udp);
/* Finds a LID that no other context has, and opens sockets for all addresses at the LID's port. If EXS_ROCE asks for
 * it, also joins RoCE's port, and sets *roce to true. 0 or an errno. (locked) */
int udp_take_lid(struct udp *udp, uint16_t *lid, bool *roce);
/* Frees the link's resources, when the context is closed. */
void udp_end(struct udp *udp);

/* Callbacks of struct soft_link and struct soft_wire. (locked) */
void udp_send(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
              size_t stride);
int udp_receive(struct udp *udp);
uint64_t udp_pace(struct soft_link *link, const struct soft_path *path, size_t bytes);

/* Callbacks of struct soft_wire: open and close a socket at the group's address and RoCE's port. (locked) */
int udp_group_join(struct udp *udp, const union soft_addr *group);
void udp_group_leave(struct udp *udp, const union soft_addr *group);

/* Returns the UDP port at which this local address receives packets for a new connection, in network byte order; opens
 * the socket if there is none. Returns 0 and errno on failure. (not locked) */
in_port_t udp_port(struct udp *udp, const union soft_addr *local);
/* Called when no queue pair uses the sockets: closes them, until a connection needs one again. (locked) */
void udp_sockets_spare(struct udp *udp);

/* ---- Between the link's own files ------------------------------------------------------------ */

/* Makes headers to receive UDP_AT_ONCE datagrams into this buffer; the caller frees them with free(). NULL: no
 * memory. */
struct udp_arrivals *udp_arrivals_new(uint8_t *buffer);
/* Returns the socket of this local address, and opens it if there is none. NULL and errno on failure. (locked) */
struct udp_socket *udp_socket_of(struct udp *udp, const union soft_addr *local);
/* Adds an open socket, which the link then owns. 0, or an errno and the socket is closed. (locked) */
int udp_sockets_add(struct udp *udp, struct udp_socket *socket);
void udp_sockets_close(struct udp *udp);
/* Opens a nonblocking socket bound to this address and port (0: the kernel picks one). 0 or an errno. */
int udp_socket_open(struct udp_socket *socket, const union soft_addr *local);
/* Like udp_socket_open(), with SO_REUSEPORT. */
int udp_socket_open_shared(struct udp_socket *socket, const union soft_addr *local);
/* Opens a socket at a group's address and joins the group on all interfaces. 0 or an errno. */
int udp_socket_open_group(struct udp_socket *socket, const union soft_addr *group);
/* Takes over a descriptor that udp_socket_open_shared() has opened, in any process. 0 or an errno. */
int udp_socket_take_shared(struct udp_socket *socket, int fd);
void udp_socket_close(struct udp_socket *socket);
/* Returns how many datagrams the kernel has dropped because the socket's buffer was full. */
uint32_t udp_socket_drops(const struct udp_socket *socket);

/* Frees the link's `pace`. */
void udp_pace_end(struct udp *udp);

/* udp_lost.c: counts what a link has lost because its process was too slow. */
struct udp_lost {
    /* Bursts that the kernel dropped because a socket's buffer was full; messages of UC and UD for which no receive was
     * posted. */
    uint64_t bursts, messages;
    size_t buffer; /* bytes of that socket's buffer */
};
/* Returns the losses of a link. (locked) */
struct udp_lost udp_lost_of(struct udp *udp);
/* Adds the losses of a link or group's socket that is closed to those of the process. */
void udp_lost_add(const struct udp_lost *lost);
/* Logs the losses of the process, with EXS_DEBUG. Called when the process exits. */
void udp_lost_tell(void);

#endif
