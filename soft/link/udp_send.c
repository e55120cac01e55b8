/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_send.c - sends batches: computes the ICRC of each packet, and passes all of them to the kernel in one call. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include "core/base/fds.h"
#include "udp.h"

#define ROOM_MS 1 /* how long a full socket is waited for; the context stays locked */

static socklen_t address_size(const struct soft_path *path)
{
    return path->remote.sa.sa_family == AF_INET ? sizeof path->remote.in : sizeof path->remote.in6;
}

static void add_ancillary(struct udp_way_out *way, int level, int type, const void *data, size_t size)
{
    struct cmsghdr *header = (struct cmsghdr *)(void *)(way->ancillary + way->ancillary_length);

    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(header), data, size);
    way->ancillary_length += CMSG_SPACE(size);
}

/* The interface that sends. For a group it is the group's scope ID, which the kernel itself uses only for groups of
 * link or interface scope; for others it would choose any interface. */
static unsigned interface_of(const struct soft_path *path)
{
    return IN6_IS_ADDR_MULTICAST(&path->remote.in6.sin6_addr) ? path->remote.in6.sin6_scope_id
                                                              : path->local.in6.sin6_scope_id;
}

/* Adds the source address: the socket may be bound to the wildcard address, and the packet must have the address that
 * the peer knows. */
static void add_source(struct udp_way_out *way, const struct soft_path *path)
{
    if (path->local.sa.sa_family == AF_INET) {
        struct in_pktinfo info = {.ipi_spec_dst = path->local.in.sin_addr};

        add_ancillary(way, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    } else {
        struct in6_pktinfo info = {
            .ipi6_addr = path->local.in6.sin6_addr,
            .ipi6_ifindex = interface_of(path),
        };

        add_ancillary(way, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    }
}

static void add_traffic_class(struct udp_way_out *way, const struct soft_path *path)
{
    int class = (int)path->traffic_class;

    if (class == 0)
        return;
    if (path->local.sa.sa_family == AF_INET)
        add_ancillary(way, IPPROTO_IP, IP_TOS, &class, sizeof class);
    else
        add_ancillary(way, IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof class);
}

/* Writes the ICRC of each packet. The kernel numbers the segments of a batch from 0 (`numbered`); a single datagram is
 * 0. */
static void write_icrcs(struct udp_way_out *way, uint8_t *burst, size_t length, size_t stride, bool numbered)
{
    unsigned id = 0;

    for (size_t at = 0; at < length; at += stride, id++) {
        size_t size = (at + stride < length ? stride : length - at) - ICRC_SIZE;

        icrc_store(burst + at + size, icrc_compute(&way->flow, numbered ? id : 0, burst + at, size));
    }
}

/* Finds the local address of a path that was made from an address handle and has none: the kernel chooses it when a
 * socket is connected. The result is cached for the next packet. False: there is no route. */
static bool find_source(struct udp *udp, struct soft_path *path)
{
    union soft_addr *local = &udp->route.local;
    socklen_t length = sizeof *local;
    int fd;

    if (memcmp(&udp->route.remote, &path->remote, sizeof path->remote) != 0) {
        fd = fds_own_private(socket(path->remote.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
        if (fd == -1)
            return false;
        udp->route.remote = path->remote;
        if (connect(fd, &path->remote.sa, address_size(path)) == -1 ||
            getsockname(fd, &local->sa, &length) == -1)
            udp->route.remote.sa.sa_family = AF_UNSPEC;
        fds_close(fd);
    }
    path->local = *local;
    return udp->route.remote.sa.sa_family != AF_UNSPEC;
}

static struct msghdr make_msghdr(struct udp_way_out *way, bool cut, struct iovec *vector)
{
    return (struct msghdr){
        .msg_name = &way->path.remote,
        .msg_namelen = address_size(&way->path),
        .msg_iov = vector,
        .msg_iovlen = 1,
        .msg_control = way->ancillary,
        .msg_controllen = cut ? way->ancillary_length : way->source_length,
    };
}

/* Whether to try again. A full socket gets ROOM_MS to drain; an ICMP error (such as ECONNREFUSED) was only reported,
 * and was caused by an earlier packet. */
static bool may_retry(int fd, int error)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};

    if (error == EAGAIN)
        return poll(&room, 1, ROOM_MS) == 1;
    return error == EINTR || error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH;
}

/* Sends one datagram, or one batch for the kernel to segment (`cut`). 0, or the errno with which it was lost. */
static int send_whole(const struct udp_socket *udp, struct udp_way_out *way, bool cut, uint8_t *burst,
                      size_t length)
{
    struct iovec vector = {.iov_base = burst, .iov_len = length};
    struct msghdr header = make_msghdr(way, cut, &vector);

    if (sendmsg(udp->fd, &header, MSG_DONTWAIT) >= 0)
        return 0;
    if (!may_retry(udp->fd, errno) || sendmsg(udp->fd, &header, MSG_DONTWAIT) >= 0)
        return errno;
    return errno;
}

/* Sends each packet of a batch as a datagram, as many as possible in one call. */
static void send_each(const struct udp_socket *udp, struct udp_way_out *way, struct iovec *packets,
                      unsigned count)
{
    struct mmsghdr headers[SOFT_BURST_PACKETS];
    unsigned sent = 0;

    for (unsigned i = 0; i < count; i++)
        headers[i].msg_hdr = make_msghdr(way, false, &packets[i]);
    for (int tries = 0; sent < count && tries < 2; tries++) {
        int done = sendmmsg(udp->fd, headers + sent, count - sent, MSG_DONTWAIT);

        if (done > 0)
            sent += (unsigned)done;
        if (sent < count && !may_retry(udp->fd, done == -1 ? errno : EAGAIN))
            return;
    }
}

/* Sends a batch that the kernel can't segment. */
static void send_apart(const struct udp_socket *udp, struct udp_way_out *way, uint8_t *burst, size_t length,
                       size_t stride)
{
    struct iovec packets[SOFT_BURST_PACKETS];
    unsigned count = 0;

    for (size_t at = 0; at < length && count < SOFT_BURST_PACKETS; at += stride, count++)
        packets[count] = (struct iovec){burst + at, at + stride < length ? stride : length - at};
    send_each(udp, way, packets, count);
}

/* Sends a batch that the kernel segments. False: it can't on this route (EIO: no checksum offload), or not at all; the
 * socket then does not try again, except after EMSGSIZE, which concerns only this batch. */
static bool send_cut(struct udp_socket *socket, struct udp_way_out *way, uint8_t *burst, size_t length,
                     size_t stride)
{
    uint16_t segment = (uint16_t)stride;
    int error;

    if (!socket->segments)
        return false;
    write_icrcs(way, burst, length, stride, true);
    memcpy(way->ancillary + way->source_length + CMSG_LEN(0), &segment, sizeof segment);
    error = send_whole(socket, way, true, burst, length);
    if (error == EINVAL || error == EIO || error == EOPNOTSUPP)
        socket->segments = false;
    return socket->segments && error != EMSGSIZE;
}

/* Makes the cache entry of a path. False: there is no route, or no socket. */
static bool way_open(struct udp *udp, struct udp_way_out *way, const struct soft_path *path)
{
    const uint16_t no_segment = 0;
    struct soft_path from = *path;
    struct udp_socket *socket;

    way->path.remote.sa.sa_family = AF_UNSPEC;
    if (soft_is_any(&from.local) && !find_source(udp, &from))
        return false;
    socket = udp_socket_of(udp, &from.local);
    if (socket == NULL)
        return false;
    from.local.in.sin_port = socket->local.in.sin_port; /* at the same place in sockaddr_in6 */
    way->path = *path;
    way->socket = socket;
    icrc_flow_init(&way->flow, &from, true);
    memset(way->ancillary, 0, sizeof way->ancillary);
    way->ancillary_length = 0;
    add_source(way, &from);
    add_traffic_class(way, &from);
    way->source_length = way->ancillary_length;
    add_ancillary(way, IPPROTO_UDP, UDP_SEGMENT, &no_segment, sizeof no_segment);
    return true;
}

/* Finds the cache entry of a path. A path without a local address is looked up each time, because the route may
 * change. */
static struct udp_way_out *find_way(struct udp *udp, const struct soft_path *path)
{
    struct udp_way_out *way = udp->ways_out == NULL ? &udp->out : &udp->ways_out[udp_way_place(path)];

    if (udp_same_way(&way->path, path) && way->path.traffic_class == path->traffic_class &&
        !soft_is_any(&path->local))
        return way;
    if (udp->ways_out == NULL && way->path.remote.sa.sa_family != AF_UNSPEC && !udp_same_way(&way->path, path))
        udp->ways_out = calloc(UDP_WAYS, sizeof *udp->ways_out);
    if (udp->ways_out != NULL)
        way = &udp->ways_out[udp_way_place(path)];
    return way_open(udp, way, path) ? way : NULL;
}

void udp_send(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
              size_t stride)
{
    struct udp *udp = (struct udp *)link;
    struct udp_way_out *way = find_way(udp, path);
    struct udp_socket *socket;

    if (way == NULL)
        return;
    socket = way->socket;
    service_traffic(udp->service);
    if (length > stride && send_cut(socket, way, burst, length, stride))
        return;
    write_icrcs(way, burst, length, stride, false);
    if (length > stride)
        send_apart(socket, way, burst, length, stride);
    else
        (void)send_whole(socket, way, false, burst, length);
}
