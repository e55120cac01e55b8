/* SPDX-License-Identifier: BSD-2-Clause */
/* hosts.c - makes a network namespace and its TAP interface, by ioctl(2). */
#include "check/network/hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define INTERFACE "eth0"
#define QUEUE_FRAMES                                                                                           \
    1000 /* txqueuelen, as of an Ethernet adapter: frames that the kernel keeps while the switch is busy */

static bool report_failure(const char *what)
{
    fprintf(stderr, "switch: %s: %s\n", what, strerror(errno));
    return false;
}

static int open_namespace(void)
{
    return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* A new TAP interface in the calling thread's namespace, or -1. */
static int open_tap(void)
{
    struct ifreq request = {.ifr_name = INTERFACE, .ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

    if (fd != -1 && ioctl(fd, TUNSETIFF, &request) == -1) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool set_address4(int sock, int number)
{
    struct ifreq request = {.ifr_name = INTERFACE};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(0x0a4d0000U + (unsigned)number)};

    memcpy(&request.ifr_addr, &address, sizeof(address));
    if (ioctl(sock, SIOCSIFADDR, &request) == -1)
        return false;
    address.sin_addr.s_addr = htonl(0xffffff00U);
    memcpy(&request.ifr_netmask, &address, sizeof(address));
    return ioctl(sock, SIOCSIFNETMASK, &request) == 0;
}

/* Duplicate address detection would delay the addresses by a second. Before the interface is up. */
static bool disable_address_detection(void)
{
    int fd = open("/proc/sys/net/ipv6/conf/" INTERFACE "/accept_dad", O_WRONLY | O_CLOEXEC);
    bool is_done = fd != -1 && write(fd, "0", 1) == 1;

    if (fd != -1)
        close(fd);
    return is_done;
}

static bool set_address6(int number)
{
    struct in6_ifreq request = {.ifr6_prefixlen = 64, .ifr6_ifindex = (int)if_nametoindex(INTERFACE)};
    int sock = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_done;

    if (sock == -1)
        return false;
    inet_pton(AF_INET6, "fd77::", &request.ifr6_addr);
    request.ifr6_addr.s6_addr[15] = (unsigned char)number;
    is_done = ioctl(sock, SIOCSIFADDR, &request) == 0;
    close(sock);
    return is_done;
}

static bool set_up(int sock, const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    return ioctl(sock, SIOCSIFFLAGS, &request) == 0;
}

/* In the host's namespace. */
static bool configure(int number, int mtu)
{
    struct ifreq size = {.ifr_name = INTERFACE, .ifr_mtu = mtu},
                 queue = {.ifr_name = INTERFACE, .ifr_qlen = QUEUE_FRAMES};
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_done;

    if (sock == -1)
        return false;
    is_done = set_up(sock, "lo") && ioctl(sock, SIOCSIFMTU, &size) == 0 &&
              ioctl(sock, SIOCSIFTXQLEN, &queue) == 0 && set_address4(sock, number) &&
              disable_address_detection() && set_up(sock, INTERFACE) && set_address6(number);
    close(sock);
    return is_done;
}

bool host_make(struct host *host, int number, int mtu)
{
    int own = open_namespace();
    bool is_done = false;

    if (own == -1)
        return report_failure("/proc/self/ns/net");
    if (unshare(CLONE_NEWNET) == -1) {
        close(own);
        return report_failure("a network namespace needs root: run this as root, or under unshare -rn");
    }
    host->namespace = open_namespace();
    host->tap = open_tap();
    if (host->namespace == -1 || host->tap == -1)
        report_failure("/dev/net/tun");
    else if (!configure(number, mtu))
        report_failure(INTERFACE " of a host");
    else
        is_done = true;
    if (setns(own, CLONE_NEWNET) == -1)
        is_done = report_failure("setns");
    close(own);
    return is_done;
}
