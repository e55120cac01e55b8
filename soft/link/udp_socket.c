/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_socket.c - opens the software device's UDP sockets: their options, and why they are set. */
#include <errno.h>
#include <string.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include "core/base/fds.h"
#include "udp.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#define BUFFER_WANTED (16 << 20) /* bytes; the kernel doubles it for its own bookkeeping */

static int get_option(int fd, int level, int option)
{
    int value = 0;
    socklen_t length = sizeof value;

    return getsockopt(fd, level, option, &value, &length) == -1 ? -1 : value;
}

/* Sets a buffer size, limited to net.core.rmem_max or wmem_max for processes without privilege. */
static void enlarge_buffer(int fd, int forced, int plain)
{
    if (fds_set_option(fd, SOL_SOCKET, forced, BUFFER_WANTED) == -1)
        (void)fds_set_option(fd, SOL_SOCKET, plain, BUFFER_WANTED);
}

/* With fragmentation disabled, an unconnected socket sends identification 0, or a segment's index; the ICRC must know
 * it. The socket also returns the destination address of each packet, because it may be bound to the wildcard address,
 * and the traffic class, which the receiver of a UD message gets. */
static int configure_v4(int fd)
{
    if (fds_set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) == -1)
        return -1;
    if (fds_set_option(fd, IPPROTO_IP, IP_RECVTOS, 1) == -1)
        return -1;
    return fds_set_option(fd, IPPROTO_IP, IP_PKTINFO, 1);
}

static int configure_v6(int fd)
{
    if (fds_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) == -1)
        return -1;
    if (fds_set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE) == -1)
        return -1;
    if (fds_set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) == -1)
        return -1;
    return fds_set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
}

/* Binds the socket, and returns its address and port. */
static int bind_to(int fd, const union soft_addr *wanted, union soft_addr *got)
{
    socklen_t length = wanted->sa.sa_family == AF_INET ? sizeof wanted->in : sizeof wanted->in6;

    memset(got, 0, sizeof *got);
    return bind(fd, &wanted->sa, length) == -1 || getsockname(fd, &got->sa, &length) == -1 ? -1 : 0;
}

/* Receive only from groups that this socket has joined, not from those of other sockets on this host. */
static int only_own_groups(int fd, sa_family_t family)
{
    if (family == AF_INET)
        return fds_set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    return fds_set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
}

/* Sets the options of a socket. `shared`: one of several at this address and port, among which the kernel distributes
 * packets. These do not use UDP_GRO, because the kernel could coalesce packets of two queue pairs, and accept IPv6
 * packets without a UDP checksum, because adapters send none. */
static int configure_socket(int fd, sa_family_t family, bool shared)
{
    if ((family == AF_INET ? configure_v4(fd) : configure_v6(fd)) == -1)
        return -1;
    enlarge_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF);
    enlarge_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF);
    if (!shared) {
        (void)fds_set_option(fd, IPPROTO_UDP, UDP_GRO, 1); /* an older kernel returns single packets */
        return 0;
    }
    if (family == AF_INET6 && fds_set_option(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1) == -1)
        return -1;
    return fds_set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1) == -1 || only_own_groups(fd, family) == -1 ? -1 : 0;
}

static void record_socket(struct udp_socket *udp, int fd, bool shared)
{
    udp->fd = fd;
    udp->foreign = shared;
    udp->segments = !shared && fds_set_option(fd, IPPROTO_UDP, UDP_SEGMENT, 0) == 0;
    udp->buffer = (size_t)get_option(fd, SOL_SOCKET, SO_RCVBUF);
    udp->burst = 0;
    udp->drops = udp_socket_drops(udp);
}

static int open_one(struct udp_socket *udp, const union soft_addr *local, bool shared)
{
    int fd =
        fds_own_private(socket(local->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
    int error;

    if (fd == -1)
        return errno;
    if (configure_socket(fd, local->sa.sa_family, shared) == -1 || bind_to(fd, local, &udp->local) == -1) {
        error = errno;
        fds_close(fd);
        return error;
    }
    record_socket(udp, fd, shared);
    return 0;
}

int udp_socket_open(struct udp_socket *udp, const union soft_addr *local)
{
    return open_one(udp, local, false);
}

int udp_socket_open_shared(struct udp_socket *udp, const union soft_addr *local)
{
    return open_one(udp, local, true);
}

/* ---- Multicast groups ---- */

static int join_on(int fd, const union soft_addr *group, unsigned interface)
{
    struct ip_mreqn v4 = {.imr_ifindex = (int)interface};
    struct ipv6_mreq v6 = {.ipv6mr_interface = interface};

    if (group->sa.sa_family == AF_INET) {
        v4.imr_multiaddr = group->in.sin_addr;
        return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &v4, sizeof v4);
    }
    v6.ipv6mr_multiaddr = group->in6.sin6_addr;
    return setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &v6, sizeof v6);
}

/* Joins the group on all interfaces. Some may not have the address family, or be too many for one socket. 0 if at
 * least one was joined, or an errno. */
static int join_everywhere(int fd, const union soft_addr *group)
{
    struct if_nameindex *all = if_nameindex();
    int error = all == NULL ? errno : EADDRNOTAVAIL;

    for (struct if_nameindex *one = all; one != NULL && one->if_index != 0; one++)
        if (join_on(fd, group, one->if_index) == 0)
            error = 0;
    if (all != NULL)
        if_freenameindex(all);
    return error;
}

/* SO_REUSEADDR: each socket on this host at this address gets every packet. */
int udp_socket_open_group(struct udp_socket *udp, const union soft_addr *group)
{
    union soft_addr at = *group;
    int fd = fds_own_private(socket(at.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
    int error = fd == -1 ? errno : 0;

    if (fd == -1)
        return error;
    at.in.sin_port = htons(SOFT_UDP_PORT); /* at the same place in sockaddr_in6 */
    if (configure_socket(fd, at.sa.sa_family, true) == -1 ||
        fds_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) == -1 || bind_to(fd, &at, &udp->local) == -1)
        error = errno;
    if (error == 0)
        error = join_everywhere(fd, group);
    if (error != 0) {
        fds_close(fd);
        return error;
    }
    record_socket(udp, fd, true);
    return 0;
}

int udp_socket_take_shared(struct udp_socket *udp, int fd)
{
    socklen_t length = sizeof udp->local;

    memset(&udp->local, 0, sizeof udp->local);
    if (getsockname(fd, &udp->local.sa, &length) == -1)
        return errno;
    record_socket(udp, fd, true);
    return 0;
}

void udp_socket_close(struct udp_socket *udp)
{
    if (udp->fd != -1)
        fds_close(udp->fd);
    udp->fd = -1;
}

uint32_t udp_socket_drops(const struct udp_socket *udp)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof info;

    (void)getsockopt(udp->fd, SOL_SOCKET, SO_MEMINFO, info, &length);
    return info[SK_MEMINFO_DROPS];
}
