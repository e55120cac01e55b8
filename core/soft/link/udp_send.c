/* SPDX-License-Identifier: BSD-2-Clause */
/* Trains out: each packet gets its ICRC, and all of them go to the kernel in one call. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include "core/fds.h"
#include "udp.h"

#define ROOM_MS 1 /* how long a full socket is waited for: the context is locked meanwhile */

static socklen_t address_size(const struct soft_path *path)
{
    return path->remote.sa.sa_family == AF_INET ? sizeof path->remote.in : sizeof path->remote.in6;
}

static void add(struct udp_way_out *way, int level, int type, const void *data, size_t size)
{
    struct cmsghdr *header = (struct cmsghdr *)(void *)(way->ancillary + way->ancillary_length);

    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(header), data, size);
    way->ancillary_length += CMSG_SPACE(size);
}

/* By which network. A group's scope says so, which the kernel heeds only of groups of a link or an interface:
 * what is sent to any other would leave by whichever network comes first. */
static unsigned interface_of(const struct soft_path *path)
{
    return IN6_IS_ADDR_MULTICAST(&path->remote.in6.sin6_addr) ? path->remote.in6.sin6_scope_id
                                                              : path->local.in6.sin6_scope_id;
}

/* The socket may be bound to every address; the packet has to come from the one that the peer knows. */
static void add_source(struct udp_way_out *way, const struct soft_path *path)
{
    if (path->local.sa.sa_family == AF_INET) {
        struct in_pktinfo info = {.ipi_spec_dst = path->local.in.sin_addr};

        add(way, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    } else {
        struct in6_pktinfo info = {
            .ipi6_addr = path->local.in6.sin6_addr,
            .ipi6_ifindex = interface_of(path),
        };

        add(way, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    }
}

static void add_traffic_class(struct udp_way_out *way, const struct soft_path *path)
{
    int class = (int)path->traffic_class;

    if (class == 0)
        return;
    if (path->local.sa.sa_family == AF_INET)
        add(way, IPPROTO_IP, IP_TOS, &class, sizeof class);
    else
        add(way, IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof class);
}

/* The kernel numbers the segments of a train from 0; a datagram by itself is number 0. */
static void seal(struct udp_way_out *way, uint8_t *train, size_t length, size_t stride, bool numbered)
{
    unsigned id = 0;

    for (size_t at = 0; at < length; at += stride, id++) {
        size_t size = (at + stride < length ? stride : length - at) - ICRC_SIZE;

        icrc_store(train + at + size, icrc_compute(&way->flow, numbered ? id : 0, train + at, size));
    }
}

/* A path that was made from an address handle doesn't say which of our addresses leads there; the kernel does,
 * when a socket is connected. The answer is kept for the next packet. False when there is no way. */
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

static struct msghdr message(struct udp_way_out *way, bool cut, struct iovec *vector)
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

/* Is it worth a second try? A full socket gets a moment to drain; an ICMP error that an earlier packet brought
 * (ECONNREFUSED and its kin) was only being reported. */
static bool again(int fd, int error)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};

    if (error == EAGAIN)
        return poll(&room, 1, ROOM_MS) == 1;
    return error == EINTR || error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH;
}

/* One datagram, or one train for the kernel to cut. 0, or the errno with which it is lost. */
static int send_whole(const struct udp_socket *udp, struct udp_way_out *way, bool cut, uint8_t *train,
                      size_t length)
{
    struct iovec vector = {.iov_base = train, .iov_len = length};
    struct msghdr header = message(way, cut, &vector);

    if (sendmsg(udp->fd, &header, MSG_DONTWAIT) >= 0)
        return 0;
    if (!again(udp->fd, errno) || sendmsg(udp->fd, &header, MSG_DONTWAIT) >= 0)
        return errno;
    return errno;
}

/* The packets of a train, each a datagram, as many as possible in a call. */
static void send_each(const struct udp_socket *udp, struct udp_way_out *way, struct iovec *packets,
                      unsigned count)
{
    struct mmsghdr headers[SOFT_TRAIN_PACKETS];
    unsigned sent = 0;

    for (unsigned i = 0; i < count; i++)
        headers[i].msg_hdr = message(way, false, &packets[i]);
    for (int tries = 0; sent < count && tries < 2; tries++) {
        int done = sendmmsg(udp->fd, headers + sent, count - sent, MSG_DONTWAIT);

        if (done > 0)
            sent += (unsigned)done;
        if (sent < count && !again(udp->fd, done == -1 ? errno : EAGAIN))
            return;
    }
}

/* Where the kernel can't cut. */
static void send_apart(const struct udp_socket *udp, struct udp_way_out *way, uint8_t *train, size_t length,
                       size_t stride)
{
    struct iovec packets[SOFT_TRAIN_PACKETS];
    unsigned count = 0;

    for (size_t at = 0; at < length && count < SOFT_TRAIN_PACKETS; at += stride, count++)
        packets[count] = (struct iovec){train + at, at + stride < length ? stride : length - at};
    send_each(udp, way, packets, count);
}

/* False when the kernel can't cut on this route (EIO: no checksum offload), or never could. That it found a
 * packet too long says nothing of the next one. */
static bool send_cut(struct udp_socket *socket, struct udp_way_out *way, uint8_t *train, size_t length,
                     size_t stride)
{
    uint16_t segment = (uint16_t)stride;
    int error;

    if (!socket->segments)
        return false;
    seal(way, train, length, stride, true);
    memcpy(way->ancillary + way->source_length + CMSG_LEN(0), &segment, sizeof segment);
    error = send_whole(socket, way, true, train, length);
    if (error == EINVAL || error == EIO || error == EOPNOTSUPP)
        socket->segments = false;
    return socket->segments && error != EMSGSIZE;
}

/* False: there is no way, or no socket for it. */
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
    add(way, IPPROTO_UDP, UDP_SEGMENT, &no_segment, sizeof no_segment);
    return true;
}

/* Which of our addresses leads to a peer may change, so a path that doesn't say is looked up each time. */
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

void udp_send(struct soft_link *link, const struct soft_path *path, uint8_t *train, size_t length,
              size_t stride)
{
    struct udp *udp = (struct udp *)link;
    struct udp_way_out *way = find_way(udp, path);
    struct udp_socket *socket;

    if (way == NULL)
        return;
    socket = way->socket;
    service_traffic(udp->service);
    if (length > stride && send_cut(socket, way, train, length, stride))
        return;
    seal(way, train, length, stride, false);
    if (length > stride)
        send_apart(socket, way, train, length, stride);
    else
        (void)send_whole(socket, way, false, train, length);
}
