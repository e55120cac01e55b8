/* SPDX-License-Identifier: BSD-2-Clause */
/* A UDP socket as the embedded device needs it: what is asked of the kernel, and why. */
#include <errno.h>
#include <string.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include "core/fds.h"
#include "udp.h"

#define BUFFER_WANTED (16 << 20) /* bytes; the kernel doubles it for its own bookkeeping */

static int set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

static int get(int fd, int level, int option)
{
    int value = 0;
    socklen_t length = sizeof value;

    return getsockopt(fd, level, option, &value, &length) == -1 ? -1 : value;
}

/* As much as this user may have: without privilege that is net.core.rmem_max or wmem_max. */
static void enlarge(int fd, int forced, int plain)
{
    if (set(fd, SOL_SOCKET, forced, BUFFER_WANTED) == -1)
        (void)set(fd, SOL_SOCKET, plain, BUFFER_WANTED);
}

/* Without fragments, an unconnected socket sends identification 0, or a segment's index, which the ICRC must
 * know. The destination of each packet is asked for, since the socket may be bound to every address, and its
 * traffic class, which the receiver of a datagram is told. */
static int configure_v4(int fd)
{
    if (set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) == -1)
        return -1;
    if (set(fd, IPPROTO_IP, IP_RECVTOS, 1) == -1)
        return -1;
    return set(fd, IPPROTO_IP, IP_PKTINFO, 1);
}

static int configure_v6(int fd)
{
    if (set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) == -1)
        return -1;
    if (set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) == -1)
        return -1;
    if (set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) == -1)
        return -1;
    return set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
}

/* Where to, is known from then on. */
static int bind_to(int fd, const union soft_addr *wanted, union soft_addr *got)
{
    socklen_t length = wanted->sa.sa_family == AF_INET ? sizeof wanted->in : sizeof wanted->in6;

    memset(got, 0, sizeof *got);
    return bind(fd, &wanted->sa, length) == -1 || getsockname(fd, &got->sa, &length) == -1 ? -1 : 0;
}

int udp_socket_open(struct udp_socket *udp, const union soft_addr *local)
{
    sa_family_t family = local->sa.sa_family;
    int fd = fds_own(socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
    int error;

    if (fd == -1)
        return errno;
    if ((family == AF_INET ? configure_v4(fd) : configure_v6(fd)) == -1)
        goto fail;
    enlarge(fd, SO_RCVBUFFORCE, SO_RCVBUF);
    enlarge(fd, SO_SNDBUFFORCE, SO_SNDBUF);
    (void)set(fd, IPPROTO_UDP, UDP_GRO, 1); /* a kernel without it gives each packet by itself */
    if (bind_to(fd, local, &udp->local) == -1)
        goto fail;
    udp->fd = fd;
    udp->segments = set(fd, IPPROTO_UDP, UDP_SEGMENT, 0) == 0;
    udp->buffer = (size_t)get(fd, SOL_SOCKET, SO_RCVBUF);
    udp->burst = 0;
    udp->drops = udp_socket_drops(udp);
    return 0;
fail:
    error = errno;
    fds_close(fd);
    return error;
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
