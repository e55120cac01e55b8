/* SPDX-License-Identifier: BSD-2-Clause */
/* Trains out: each packet gets its ICRC, and all of them go to the kernel in one call. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include "core/fds.h"
#include "udp.h"

#define ROOM_MS 1 /* how long a full socket is waited for: the context is locked meanwhile */

/* The control messages that go with a train: where it comes from, and how to cut it. */
struct ancillary {
    _Alignas(
        struct cmsghdr) uint8_t space[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
    size_t length;
};

static socklen_t address_size(const struct soft_path *path)
{
    return path->remote.sa.sa_family == AF_INET ? sizeof path->remote.in : sizeof path->remote.in6;
}

static void add(struct ancillary *ancillary, int level, int type, const void *data, size_t size)
{
    struct cmsghdr *header = (struct cmsghdr *)(void *)(ancillary->space + ancillary->length);

    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(header), data, size);
    ancillary->length += CMSG_SPACE(size);
}

/* The socket may be bound to every address; the packet has to come from the one that the peer knows. */
static void add_source(struct ancillary *ancillary, const struct soft_path *path)
{
    if (path->local.sa.sa_family == AF_INET) {
        struct in_pktinfo info = {.ipi_spec_dst = path->local.in.sin_addr};

        add(ancillary, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    } else {
        struct in6_pktinfo info = {
            .ipi6_addr = path->local.in6.sin6_addr,
            .ipi6_ifindex = path->local.in6.sin6_scope_id,
        };

        add(ancillary, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    }
}

/* The kernel numbers the segments of a train from 0; a datagram by itself is number 0. */
static void seal(const struct soft_path *path, uint8_t *train, size_t length, size_t stride, bool numbered)
{
    struct icrc_flow flow;
    unsigned id = 0;

    icrc_flow_init(&flow, path, true);
    for (size_t at = 0; at < length; at += stride, id++) {
        size_t size = (at + stride < length ? stride : length - at) - ICRC_SIZE;

        icrc_store(train + at + size, icrc_compute(&flow, numbered ? id : 0, train + at, size));
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
        fd = fds_own(socket(path->remote.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
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

static bool has_source(const struct soft_path *path)
{
    if (path->local.sa.sa_family == AF_INET)
        return path->local.in.sin_addr.s_addr != htonl(INADDR_ANY);
    return !IN6_IS_ADDR_UNSPECIFIED(&path->local.in6.sin6_addr);
}

static struct msghdr message(const struct soft_path *path, struct ancillary *ancillary, struct iovec *vector)
{
    return (struct msghdr){
        .msg_name = (void *)(uintptr_t)&path->remote,
        .msg_namelen = address_size(path),
        .msg_iov = vector,
        .msg_iovlen = 1,
        .msg_control = ancillary->space,
        .msg_controllen = ancillary->length,
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
static int send_whole(const struct udp_socket *udp, const struct soft_path *path, struct ancillary *ancillary,
                      uint8_t *train, size_t length)
{
    struct iovec vector = {.iov_base = train, .iov_len = length};
    struct msghdr header = message(path, ancillary, &vector);

    if (sendmsg(udp->fd, &header, MSG_DONTWAIT) >= 0)
        return 0;
    if (!again(udp->fd, errno) || sendmsg(udp->fd, &header, MSG_DONTWAIT) >= 0)
        return errno;
    return errno;
}

/* Where the kernel can't cut: every packet a datagram, as many as possible in a call. */
static void send_apart(const struct udp_socket *udp, const struct soft_path *path, struct ancillary *ancillary,
                       uint8_t *train, size_t length, size_t stride)
{
    struct mmsghdr headers[SOFT_TRAIN_PACKETS];
    struct iovec vectors[SOFT_TRAIN_PACKETS];
    unsigned count = 0, sent = 0;

    for (size_t at = 0; at < length && count < SOFT_TRAIN_PACKETS; at += stride, count++) {
        vectors[count].iov_base = train + at;
        vectors[count].iov_len = at + stride < length ? stride : length - at;
        headers[count].msg_hdr = message(path, ancillary, &vectors[count]);
    }
    for (int tries = 0; sent < count && tries < 2; tries++) {
        int done = sendmmsg(udp->fd, headers + sent, count - sent, MSG_DONTWAIT);

        if (done > 0)
            sent += (unsigned)done;
        if (sent < count && !again(udp->fd, done == -1 ? errno : EAGAIN))
            return;
    }
}

/* False when the kernel can't cut on this route (EIO: no checksum offload), or never could. That it found a
 * packet too long says nothing of the next one. */
static bool send_cut(struct udp_socket *socket, const struct soft_path *path, const struct ancillary *source,
                     uint8_t *train, size_t length, size_t stride)
{
    struct ancillary ancillary = *source;
    uint16_t segment = (uint16_t)stride;
    int error;

    if (!socket->segments)
        return false;
    seal(path, train, length, stride, true);
    add(&ancillary, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment);
    error = send_whole(socket, path, &ancillary, train, length);
    if (error == EINVAL || error == EIO || error == EOPNOTSUPP)
        socket->segments = false;
    return socket->segments && error != EMSGSIZE;
}

void udp_send(struct soft_link *link, const struct soft_path *path, uint8_t *train, size_t length,
              size_t stride)
{
    struct udp *udp = (struct udp *)link;
    struct ancillary ancillary = {.length = 0};
    struct soft_path from = *path;
    struct udp_socket *socket;

    if (!has_source(&from) && !find_source(udp, &from))
        return;
    socket = udp_socket_of(udp, &from.local);
    if (socket == NULL)
        return;
    from.local.in.sin_port = socket->local.in.sin_port; /* at the same place in sockaddr_in6 */
    service_traffic(udp->service);
    add_source(&ancillary, &from);
    if (length > stride && send_cut(socket, &from, &ancillary, train, length, stride))
        return;
    seal(&from, train, length, stride, false);
    if (length > stride)
        send_apart(socket, &from, &ancillary, train, length, stride);
    else
        (void)send_whole(socket, &from, &ancillary, train, length);
}
