/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_socket.c - the TCP sockets of connections: options, addresses, and the path MTU of their route. */
#include <errno.h>
#include <string.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "core/base/log.h"
#include "core/base/settings.h"
#include "cm_id.h"

/* A host that does not answer is detected at most 25 s after its last packet: keepalive sends the first probe after 10
 * s, then one every 5 s, and the connection ends at the first of them that finds 20 s (TCP_PATIENCE) without an answer.
 * It also ends if data were not acknowledged for 20 s. Applications can change that time. */
#define KEEP_IDLE_S 10
#define KEEP_INTERVAL_S 5
#define KEEP_COUNT 3

/* Accepted connections inherit the congestion control of the listening socket. */
int cm_socket_open(sa_family_t family, bool af_only)
{
    int error;
    int fd = fds_own_private(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));

    if (fd == -1)
        return -1;
    if (family == AF_INET6 && af_only)
        fds_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (*settings()->congestion == 0 || fds_set_congestion(fd, settings()->congestion) == 0)
        return fd;
    error = errno;
    xs_log("%s=%s is unavailable: %s", settings()->name[SET_CONGESTION], settings()->congestion,
           strerror(error));
    fds_close(fd);
    errno = error;
    return -1;
}

socklen_t cm_addr_size(const struct sockaddr *addr)
{
    switch (addr->sa_family) {
    case AF_INET:
        return sizeof(struct sockaddr_in);
    case AF_INET6:
        return sizeof(struct sockaddr_in6);
    default:
        return 0;
    }
}

/* A port that only dead connections use is free, as a restarted server expects. A port to which another socket is
 * bound is not, even if that socket does not listen yet; with SO_REUSEADDR the kernel would report that only at
 * listen(). So the option is set only after a plain bind() has failed, and then cleared again. */
int cm_socket_bind(int fd, const struct sockaddr *addr, bool reuse)
{
    int result;

    if (reuse)
        fds_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    result = bind(fd, addr, cm_addr_size(addr));
    if (result == 0 || errno != EADDRINUSE || reuse)
        return result;
    fds_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    result = bind(fd, addr, cm_addr_size(addr));
    if (result == 0)
        fds_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 0);
    return result;
}

void cm_socket_tune(int fd)
{
    fds_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    fds_set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    fds_set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S);
    fds_set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
    fds_set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(TCP_PATIENCE / (NS_PER_S / 1000)));
    fds_set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

uint64_t cm_socket_round_trip(int fd)
{
    struct tcp_info info = {.tcpi_rtt = 0};
    socklen_t length = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == -1)
        return 0;
    return UINT64_C(1000) * info.tcpi_rtt;
}

/* Replaces an IPv4-mapped address (::ffff:a.b.c.d) by the IPv4 address. */
static void unmap_ipv4(union soft_addr *addr)
{
    struct sockaddr_in plain = {.sin_family = AF_INET, .sin_port = addr->in.sin_port};

    if (addr->sa.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&addr->in6.sin6_addr))
        return;
    memcpy(&plain.sin_addr, addr->in6.sin6_addr.s6_addr + 12, sizeof plain.sin_addr);
    memset(addr, 0, sizeof *addr);
    addr->in = plain;
}

int cm_socket_names(int fd, union soft_addr *local, union soft_addr *remote)
{
    socklen_t length = sizeof *local;

    memset(local, 0, sizeof *local);
    if (getsockname(fd, &local->sa, &length) == -1)
        return errno;
    unmap_ipv4(local);
    if (remote == NULL)
        return 0;
    memset(remote, 0, sizeof *remote);
    length = sizeof *remote;
    if (getpeername(fd, &remote->sa, &length) == -1)
        return errno == ENOTCONN ? ECONNRESET : errno; /* the peer has reset it */
    unmap_ipv4(remote);
    return 0;
}

int cm_socket_route_mtu(const union soft_addr *local, const union soft_addr *remote, enum ibv_mtu *mtu)
{
    union soft_addr from = *local;
    int fd = fds_own(socket(remote->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP)), error = 0;

    if (fd == -1)
        return errno;
    from.in.sin_port = 0; /* at the same place in both kinds of address */
    if (bind(fd, &from.sa, cm_addr_size(&from.sa)) == -1 ||
        connect(fd, &remote->sa, cm_addr_size(&remote->sa)) == -1)
        error = errno;
    else
        *mtu = cm_socket_mtu(fd);
    fds_close(fd);
    return error;
}

enum ibv_mtu cm_socket_mtu(int fd)
{
    enum ibv_mtu mtu = IBV_MTU_4096;
    int route = 0;
    socklen_t length = sizeof route;

    if (getsockopt(fd, IPPROTO_IP, IP_MTU, &route, &length) == -1)
        (void)getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &route, &length);
    while (mtu > IBV_MTU_256 && (128 << mtu) + SOFT_ROCE_HEADERS > route)
        mtu--;
    return mtu;
}
