/* SPDX-License-Identifier: BSD-2-Clause */
/* twonets.c - see twonets.h. Uses a veth pair and rtnetlink. */
#include "twonets.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include "check/support/runner.h"

static int nets[2] = {-1, -1};

static int this_net(void)
{
    return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

void twonets_enter(bool far)
{
    if (setns(nets[far], CLONE_NEWNET) == -1) {
        perror("setns"); /* it succeeded before */
        abort();
    }
}

/* ---- The link between the hosts ---- */

struct request {
    struct nlmsghdr header;
    struct ifinfomsg link;
    char room[256];
};

static struct rtattr *put(struct request *request, unsigned type, const void *data, size_t length)
{
    struct rtattr *attr = (struct rtattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));

    attr->rta_type = (unsigned short)type;
    attr->rta_len = (unsigned short)RTA_LENGTH(length);
    if (length > 0)
        memcpy(RTA_DATA(attr), data, length);
    request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + (unsigned)RTA_SPACE(length);
    return attr;
}

static void close_nest(struct request *request, struct rtattr *nest)
{
    nest->rta_len = (unsigned short)((char *)request + request->header.nlmsg_len - (char *)nest);
}

static int ask(struct request *request)
{
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[256];
    } answer;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), error = EPROTO;

    if (fd == -1)
        return errno;
    if (send(fd, request, request->header.nlmsg_len, 0) == -1 || recv(fd, &answer, sizeof answer, 0) == -1)
        error = errno;
    else if (answer.header.nlmsg_type == NLMSG_ERROR)
        error = -answer.error.error;
    close(fd);
    return error;
}

/* Creates `near0` here and `far0` in the other namespace. */
static int plug_in(void)
{
    struct ifinfomsg peer = {.ifi_family = AF_UNSPEC};
    struct request request = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof request.link),
                                         .nlmsg_type = RTM_NEWLINK,
                                         .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK}};
    struct rtattr *info, *data, *other;

    put(&request, IFLA_IFNAME, "near0", sizeof "near0");
    info = put(&request, IFLA_LINKINFO, NULL, 0);
    put(&request, IFLA_INFO_KIND, "veth", sizeof "veth");
    data = put(&request, IFLA_INFO_DATA, NULL, 0);
    other = put(&request, VETH_INFO_PEER, &peer, sizeof peer);
    put(&request, IFLA_IFNAME, "far0", sizeof "far0");
    put(&request, IFLA_NET_NS_FD, &nets[1], sizeof nets[1]);
    close_nest(&request, other);
    close_nest(&request, data);
    close_nest(&request, info);
    return ask(&request);
}

static bool bring_up(const char *name, const char *address)
{
    struct ifreq request = {.ifr_flags = IFF_UP};
    struct sockaddr_in addr = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool well = true;

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (address != NULL) {
        inet_pton(AF_INET, address, &addr.sin_addr);
        memcpy(&request.ifr_addr, &addr, sizeof addr);
        well = ioctl(fd, SIOCSIFADDR, &request) == 0;
        inet_pton(AF_INET, "255.255.255.0", &addr.sin_addr);
        memcpy(&request.ifr_netmask, &addr, sizeof addr);
        well = well && ioctl(fd, SIOCSIFNETMASK, &request) == 0;
    }
    request.ifr_flags = IFF_UP;
    well = well && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    close(fd);
    return well;
}

static bool leave(void)
{
    return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
}

bool twonets_alone(void)
{
    return leave() && bring_up("lo", NULL);
}

bool twonets_make(void)
{
    if (!leave())
        return false;
    nets[0] = this_net();
    if (unshare(CLONE_NEWNET) == -1)
        return false;
    nets[1] = this_net();
    if (nets[0] == -1 || nets[1] == -1 || setns(nets[0], CLONE_NEWNET) == -1)
        return false;
    errno = plug_in();
    if (errno != 0 || !bring_up("lo", NULL) || !bring_up("near0", TWONETS_NEAR))
        return false;
    twonets_enter(true);
    if (!bring_up("lo", NULL) || !bring_up("far0", TWONETS_FAR))
        return false;
    twonets_enter(false);
    return true;
}

/* ---- IPv6 only ---- */

/* Without duplicate address detection, so that the address can be used at once. */
static int add_ipv6(const char *name, const char *address)
{
    struct in6_addr addr;
    struct request request = {.header = {.nlmsg_type = RTM_NEWADDR,
                                         .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK}};
    struct ifaddrmsg *what = NLMSG_DATA(&request.header);

    request.header.nlmsg_len = NLMSG_LENGTH(sizeof *what);
    *what = (struct ifaddrmsg){.ifa_family = AF_INET6,
                               .ifa_prefixlen = 64,
                               .ifa_flags = IFA_F_NODAD,
                               .ifa_index = if_nametoindex(name)};
    inet_pton(AF_INET6, address, &addr);
    put(&request, IFA_LOCAL, &addr, sizeof addr);
    return ask(&request);
}

static bool move_to(const char *name, const char *address)
{
    struct ifreq off = {.ifr_addr.sa_family = AF_INET}; /* no address */
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(off.ifr_name, sizeof off.ifr_name, "%s", name);
    errno = ioctl(fd, SIOCSIFADDR, &off) == 0 ? add_ipv6(name, address) : errno;
    close(fd);
    return errno == 0;
}

bool twonets_by_ipv6_alone(void)
{
    bool well = move_to("near0", TWONETS_NEAR6);

    twonets_enter(true);
    well = well && move_to("far0", TWONETS_FAR6);
    twonets_enter(false);
    return well;
}

/* ---- The program ---- */

int twonets_main(bool (*make)(void), Suite *(*suite)(void))
{
    if (make())
        return run_suite(suite());
    fprintf(stderr, "no network namespaces of its own can be had here: %s\n", strerror(errno));
    return getenv("EXS_NO_SKIP") ? 1 : 77;
}
