/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp_pace.c - paces packets that are not acknowledged, so that a receiver on this host does not lose them.
 *
 * A lossless network stops an adapter whose peer is slow; UDP drops datagrams when the receiver's socket is full. The
 * sender therefore asks the kernel from time to time how many bytes are queued in that socket (sock_diag). If the
 * socket is at least half full the sender waits; the other half is for other senders, and for packets that were sent
 * since the answer. The kernel does not know the sockets of other hosts, and at RoCE's port it is unknown which socket
 * receives: packets to these are not paced. An adapter does not pace them either, but its network is often its own; here
 * they share it with TCP, which they displace. So the first peer on another host that gets many bytes is reported on
 * standard error.
 *
 * A stopped process receives nothing. After PATIENCE_NS the sender no longer waits for it, and its packets may be lost.
 */
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "core/base/log.h"
#include "udp.h"

#define PAUSE_NS UINT64_C(100000)       /* until the kernel is asked again */
#define PATIENCE_NS UINT64_C(500000000) /* how long the sender waits for a peer that receives nothing */
#define SHARE 8 /* the sender sends 1 / SHARE of the free space, and then asks the kernel again */
#define UNASKED (SIZE_MAX / 2) /* bytes to a peer that the kernel can't know */
#define MANY (4 << 20)         /* bytes to a peer on another host, which are reported */
#define GONE (1 << 20)         /* bytes to a peer without a socket at the moment; doubled each time */
#define GONE_TIMES 20 /* doublings: without sock_diag each question may make the kernel load a module */
#define PACES 64      /* peers with an entry; packets to others are not paced */
#define IDLE_NS UINT64_C(1000000000) /* an entry is kept this long after its last question */

struct pace {
    union soft_addr remote; /* family 0: the entry is free */
    size_t allowance;       /* bytes that may be sent before the kernel is asked */
    bool is_far;            /* on another host */
    unsigned gone;          /* how often in a row the kernel knew no socket */
    uint64_t held;          /* when the peer's socket was found at least half full, ns; 0: it is not */
    uint64_t asked;         /* when the kernel was last asked, or the entry was made, ns */
};

struct udp_pace {
    int fd;
    struct pace to[PACES];
};

/* How full a socket is. */
struct fill {
    size_t queued, room; /* bytes, as the kernel counts them */
};

/* Whether the address is local: only then can a socket be bound to it. */
static bool is_here(const union soft_addr *remote)
{
    union soft_addr any_port = *remote;
    int fd = fds_own(socket(remote->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
    bool here;

    if (fd == -1)
        return false;
    any_port.in.sin_port = 0; /* at the same place in sockaddr_in6 */
    here =
        bind(fd, &any_port.sa, remote->sa.sa_family == AF_INET ? sizeof any_port.in : sizeof any_port.in6) == 0;
    fds_close(fd);
    return here;
}

static bool can_be_asked(const struct udp_pace *all, const struct pace *pace)
{
    return all->fd != -1 && pace->remote.in.sin_port != htons(SOFT_UDP_PORT) && !pace->is_far;
}

static struct inet_diag_req_v2 make_query(const union soft_addr *remote)
{
    struct inet_diag_req_v2 asked = {
        .sdiag_family = (uint8_t)remote->sa.sa_family,
        .sdiag_protocol = IPPROTO_UDP,
        .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
        .idiag_states = UINT32_MAX,
        .id = {.idiag_dport = remote->in.sin_port, .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}},
    };

    if (remote->sa.sa_family == AF_INET)
        memcpy(asked.id.idiag_dst, &remote->in.sin_addr, sizeof remote->in.sin_addr);
    else
        memcpy(asked.id.idiag_dst, &remote->in6.sin6_addr, sizeof remote->in6.sin6_addr);
    return asked;
}

/* Finds the socket's memory in the answer's attributes. False: it isn't there. */
static bool read_fill(const uint8_t *attributes, size_t length, struct fill *fill)
{
    uint32_t memory[SK_MEMINFO_VARS];
    struct nlattr header;

    for (size_t at = 0; at + sizeof header <= length; at += NLA_ALIGN(header.nla_len)) {
        memcpy(&header, attributes + at, sizeof header);
        if (header.nla_len < sizeof header || header.nla_len > length - at)
            return false;
        if (header.nla_type != INET_DIAG_SKMEMINFO || header.nla_len < NLA_HDRLEN + sizeof memory)
            continue;
        memcpy(memory, attributes + at + NLA_HDRLEN, sizeof memory);
        *fill = (struct fill){memory[SK_MEMINFO_RMEM_ALLOC], memory[SK_MEMINFO_RCVBUF]};
        return true;
    }
    return false;
}

/* Asks the kernel, which answers before send() returns. False: there is no such socket, or the kernel does not report
 * it. */
static bool query_kernel(int fd, const union soft_addr *remote, struct fill *fill)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 asked;
    } request = {{.nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
                 make_query(remote)};
    const size_t fixed = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct inet_diag_msg));
    _Alignas(struct nlmsghdr) uint8_t answer[1024];
    struct nlmsghdr header;
    ssize_t got;

    if (send(fd, &request, sizeof request, MSG_DONTWAIT) != sizeof request)
        return false;
    got = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    if (got < (ssize_t)fixed)
        return false;
    memcpy(&header, answer, sizeof header);
    return header.nlmsg_type == SOCK_DIAG_BY_FAMILY && read_fill(answer + fixed, (size_t)got - fixed, fill);
}

/* Whether more may be sent; sets the allowance, at least 1 byte. */
static bool has_room(struct pace *pace, const struct fill *fill)
{
    size_t half = fill->room / 2;

    if (fill->queued >= half)
        return false;
    pace->allowance = (half - fill->queued) / SHARE + 1;
    pace->held = 0;
    return true;
}

/* Whether the sender has waited for the peer for PATIENCE_NS, and should no longer wait. */
static bool is_stuck(struct pace *pace, const struct fill *fill)
{
    uint64_t now = now_ns();

    if (pace->held == 0)
        pace->held = now;
    if (now - pace->held < PATIENCE_NS)
        return false;
    pace->allowance = fill->room;
    return true;
}

/* Makes the entry of a new peer. NULL: `place` is in use. */
static struct pace *add_entry(const struct udp_pace *all, struct pace *place, const struct soft_path *path)
{
    uint64_t now = now_ns();

    if (place->remote.sa.sa_family != AF_UNSPEC && now - place->asked < IDLE_NS)
        return NULL;
    *place = (struct pace){.remote = path->remote, .asked = now};
    place->is_far = !is_here(&path->remote);
    place->allowance = can_be_asked(all, place) ? 0 : UNASKED;
    return place;
}

/* Finds a path's entry, or makes one in place of the oldest that is idle. A peer that is being waited for keeps its
 * entry: otherwise the wait would start again, and might never end. NULL: all entries are in use. */
static struct pace *find_entry(struct udp_pace *all, const struct soft_path *path)
{
    unsigned first = ntohs(path->remote.in.sin_port); /* at the same place in sockaddr_in6 */
    struct pace *place = &all->to[first % PACES];

    for (unsigned i = 0; i < PACES; i++) {
        struct pace *pace = &all->to[(first + i) % PACES];

        if (memcmp(&pace->remote, &path->remote, sizeof pace->remote) == 0)
            return pace;
        if (pace->asked < place->asked) /* none: never */
            place = pace;
        if (pace->asked == 0)
            break;
    }
    return add_entry(all, place, path);
}

static struct udp_pace *begin_pace(struct udp *udp)
{
    if (udp->pace == NULL && (udp->pace = calloc(1, sizeof *udp->pace)) != NULL)
        udp->pace->fd = fds_own_private(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    return udp->pace;
}

static void report_unpaced(const union soft_addr *remote)
{
    static atomic_flag reported = ATOMIC_FLAG_INIT; /* once in a process */
    char text[INET6_ADDRSTRLEN] = "another host";

    if (atomic_flag_test_and_set_explicit(&reported, memory_order_relaxed))
        return;
    if (remote->sa.sa_family == AF_INET)
        inet_ntop(AF_INET, &remote->in.sin_addr, text, sizeof text);
    else
        inet_ntop(AF_INET6, &remote->in6.sin6_addr, text, sizeof text);
    xs_warn("datagrams and unreliable connections to %s are sent without congestion control, and can take all "
            "of the network's bandwidth: limit the rate in the program, or by tc(8)",
            text);
}

uint64_t udp_pace(struct soft_link *link, const struct soft_path *path, size_t bytes)
{
    struct udp *udp = (struct udp *)link;
    struct udp_pace *all = begin_pace(udp);
    struct pace *pace = all == NULL ? NULL : find_entry(all, path);
    struct fill fill;

    if (pace == NULL)
        return 0;
    pace->allowance -= bytes < pace->allowance ? bytes : pace->allowance;
    if (pace->is_far && UNASKED - pace->allowance > MANY)
        report_unpaced(&path->remote);
    if (pace->allowance > 0)
        return 0;
    pace->asked = now_ns();
    if (!query_kernel(all->fd, &path->remote, &fill)) {
        pace->allowance = (size_t)GONE << pace->gone;
        pace->gone += pace->gone < GONE_TIMES;
        return 0;
    }
    pace->gone = 0;
    return has_room(pace, &fill) || is_stuck(pace, &fill) ? 0 : PAUSE_NS;
}

void udp_pace_end(struct udp *udp)
{
    if (udp->pace != NULL && udp->pace->fd != -1)
        fds_close(udp->pace->fd);
    free(udp->pace);
    udp->pace = NULL;
}
