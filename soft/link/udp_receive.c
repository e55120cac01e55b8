/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_receive.c - receives batches: splits what the kernel has coalesced (UDP_GRO) into packets, checks their ICRC, and
 * passes them to the engine. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include "core/base/clock.h"
#include "core/base/log.h"
#include "roce_port.h"
#include "udp.h"

#define CALLS_MAX 8                        /* system calls while the context stays locked ... */
#define BYTES_MAX ((size_t)4 * UDP_BUFFER) /* ... and bytes received */
#define OVERHEAD 768 /* bytes that the kernel charges a socket for a datagram, beyond its length */
#define PACKET_MIN (12 + ICRC_SIZE) /* a BTH alone */

/* One datagram as received: a packet, or a whole batch. */
struct arrival {
    struct soft_path path;
    size_t length;
    size_t stride; /* of the packets in it; equal to length if it is one */
};

static void read_ancillary(struct arrival *arrival, struct msghdr *header)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg != NULL; cmsg = CMSG_NXTHDR(header, cmsg)) {
        const void *data = CMSG_DATA(cmsg);

        if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO) {
            int stride;

            memcpy(&stride, data, sizeof stride);
            if (stride > 0)
                arrival->stride = (size_t)stride;
        } else if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;

            memcpy(&info, data, sizeof info);
            arrival->path.local.in.sin_addr = info.ipi_addr;
        } else if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;

            memcpy(&info, data, sizeof info);
            arrival->path.local.in6.sin6_addr = info.ipi6_addr;
        } else if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_TOS) {
            arrival->path.traffic_class = *(const uint8_t *)data;
        } else if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_TCLASS) {
            int class;

            memcpy(&class, data, sizeof class);
            arrival->path.traffic_class = (uint8_t) class;
        }
    }
}

/* The buffers of recvmmsg(); the pointers in it never change. */
struct udp_arrivals {
    struct arrival arrival[UDP_AT_ONCE];
    struct mmsghdr header[UDP_AT_ONCE];
    struct iovec vector[UDP_AT_ONCE];
    _Alignas(struct cmsghdr)
        uint8_t control[UDP_AT_ONCE][CMSG_SPACE(sizeof(struct in6_pktinfo)) + 3 * CMSG_SPACE(sizeof(int))];
};

/* Restores the lengths of the buffers, which the kernel has overwritten. */
static void make_room(struct udp_arrivals *all, int i)
{
    struct msghdr *header = &all->header[i].msg_hdr;

    header->msg_namelen = sizeof all->arrival[i].path.remote;
    header->msg_controllen = sizeof all->control[i];
}

struct udp_arrivals *udp_arrivals_new(uint8_t *buffer)
{
    struct udp_arrivals *all = calloc(1, sizeof *all);

    for (int i = 0; all != NULL && i < UDP_AT_ONCE; i++) {
        all->vector[i] = (struct iovec){buffer + (size_t)i * UDP_BUFFER, UDP_BUFFER};
        all->header[i].msg_hdr = (struct msghdr){
            .msg_name = &all->arrival[i].path.remote,
            .msg_iov = &all->vector[i],
            .msg_iovlen = 1,
            .msg_control = all->control[i],
        };
        make_room(all, i);
    }
    return all;
}

/* A sandbox forbids recvmmsg(), or the kernel has none. Relaxed: every thread finds the same, so it pairs with
 * nothing. */
static _Atomic bool one_by_one;

static int receive_one_by_one(int fd, struct udp_arrivals *all)
{
    int got = 0;

    while (got < UDP_AT_ONCE) {
        ssize_t length = recvmsg(fd, &all->header[got].msg_hdr, MSG_DONTWAIT);

        if (length == -1)
            return got > 0 ? got : -1;
        all->header[got++].msg_len = (unsigned)length;
    }
    return got;
}

static int receive_many(int fd, struct udp_arrivals *all)
{
    int got;

    if (atomic_load_explicit(&one_by_one, memory_order_relaxed))
        return receive_one_by_one(fd, all);
    got = recvmmsg(fd, all->header, UDP_AT_ONCE, MSG_DONTWAIT, NULL);
    if (got != -1 || (errno != ENOSYS && errno != EPERM))
        return got;
    atomic_store_explicit(&one_by_one, true, memory_order_relaxed);
    return receive_one_by_one(fd, all);
}

/* Whether the error is permanent. Other errors are temporary, or ICMP errors of packets that this socket has sent. */
static bool is_for_good(int error)
{
    return error == ENOSYS || error == EPERM || error == EBADF || error == ENOTSOCK;
}

/* The socket can't receive any more: fails the link's connections immediately, rather than by their timeouts. */
static __attribute__((cold)) void fail_link(struct udp *udp, struct udp_socket *socket, int error)
{
    if (!socket->failed)
        xs_log("packets can't be received any more, so connections end: recvmsg: %s", strerror(error));
    socket->failed = true;
    soft_link_failed(udp->context, NULL);
}

/* Receives datagrams. Returns their number; if it is less than UDP_AT_ONCE the socket is empty. */
static int receive_datagrams(struct udp *udp, struct udp_socket *socket, struct udp_arrivals *all)
{
    int got = receive_many(socket->fd, all);

    if (got == -1 && errno != EAGAIN)
        got = receive_many(socket->fd, all);
    if (got == -1 && is_for_good(errno))
        fail_link(udp, socket, errno);
    return got == -1 ? 0 : got;
}

static void describe_arrival(struct udp_socket *socket, struct arrival *arrival, struct mmsghdr *header)
{
    memset(&arrival->path.local, 0, sizeof arrival->path.local);
    arrival->path.link = NULL;
    arrival->path.traffic_class = 0;
    arrival->path.local.sa.sa_family = arrival->path.remote.sa.sa_family;
    arrival->path.local.in.sin_port = socket->local.in.sin_port;
    arrival->length = arrival->stride = header->msg_len;
    read_ancillary(arrival, &header->msg_hdr);
    socket->burst += arrival->length + OVERHEAD;
}

/* Checks a packet's ICRC. The sender's kernel numbers the packets of a batch from 0, and gives a single packet 0. If
 * this host's kernel has split a batch in other places, the identification is another small number. */
static bool check_icrc(struct udp *udp, struct icrc_flow *flow, unsigned id, const uint8_t *packet,
                       size_t length)
{
    uint32_t difference = icrc_compute(flow, id, packet, length) ^ icrc_load(packet + length);

    if (difference == 0)
        return true;
    return flow->ip == 20 && icrc_other_id(&udp->shift, length, difference);
}

/* Like check_icrc(), for a packet from another vendor's device, whose identification may have any value. Not inlined into
 * the path of packets from EXS. */
static __attribute__((noinline)) bool check_foreign(struct udp *udp, struct udp_way_in *way,
                                                    const uint8_t *packet, size_t length)
{
    uint32_t difference = icrc_compute(&way->flow, 0, packet, length) ^ icrc_load(packet + length);
    uint16_t id;

    if (difference == 0)
        return true;
    return way->flow.ip == 20 && icrc_id_solve(udp->ids, length, difference, &id) &&
           icrc_count_fits(&way->count, id, now_ns());
}

static struct udp_way_in *find_way(struct udp *udp, const struct soft_path *path)
{
    struct udp_way_in *way = udp->ways_in == NULL ? &udp->in : &udp->ways_in[udp_way_place(path)];

    if (!udp_same_way(&way->path, path)) {
        if (udp->ways_in == NULL && way->path.remote.sa.sa_family != AF_UNSPEC)
            udp->ways_in = calloc(UDP_WAYS, sizeof *udp->ways_in);
        if (udp->ways_in != NULL)
            way = &udp->ways_in[udp_way_place(path)];
        way->path = *path;
        icrc_flow_init(&way->flow, path, false);
        way->count = (struct icrc_count){.known = false};
    }
    return way;
}

/* Whether the packet's ICRC is right; `length` is without it. */
static bool is_whole(struct udp *udp, bool foreign, struct udp_way_in *way, unsigned id, const uint8_t *packet,
                     size_t length)
{
    return foreign ? check_foreign(udp, way, packet, length) : check_icrc(udp, &way->flow, id, packet, length);
}

/* Passes the packets of a datagram to the engine. Returns their number. */
static int deliver_datagram(struct udp *udp, bool foreign, const struct arrival *arrival, const uint8_t *burst)
{
    struct udp_way_in *way = find_way(udp, &arrival->path);
    struct ibv_context *context = udp->context;
    size_t at = 0;
    unsigned id = 0;
    int packets = 0;

    do {
        const uint8_t *packet = burst + at;
        size_t left = arrival->length - at;
        size_t length = left < arrival->stride ? left : arrival->stride;

        if (length >= PACKET_MIN && is_whole(udp, foreign, way, id, packet, length - ICRC_SIZE))
            soft_input(context, &arrival->path, packet, length - ICRC_SIZE);
        else
            soft_count_malformed(context);
        packets++;
        at += arrival->stride;
        id++;
    } while (at < arrival->length);
    return packets;
}

/* Called when the socket is empty: reports packets that the kernel has dropped. Asks the kernel only if enough bytes
 * were received since the socket was last empty that it may have been full. */
static void look_for_drops(struct udp_socket *udp, struct ibv_context *context)
{
    bool may_have_overflown = udp->burst > udp->buffer / 4;
    uint32_t drops;

    udp->burst = 0;
    if (!may_have_overflown)
        return;
    drops = udp_socket_drops(udp);
    if (drops != udp->drops) {
        udp->drops = drops;
        soft_overflow(context, udp->local.in.sin_port); /* at the same place in sockaddr_in6 */
    }
}

static int receive_socket(struct udp *udp, struct udp_socket *socket, struct ibv_context *context)
{
    struct udp_arrivals *all = udp->arrivals;
    int packets = 0, got = UDP_AT_ONCE;
    size_t bytes = 0;

    for (int calls = 0; calls < CALLS_MAX && bytes < BYTES_MAX && got == UDP_AT_ONCE; calls++) {
        got = receive_datagrams(udp, socket, all);
        for (int i = 0; i < got; i++) {
            describe_arrival(socket, &all->arrival[i], &all->header[i]);
            packets += deliver_datagram(udp, socket->foreign, &all->arrival[i], all->vector[i].iov_base);
            bytes += all->arrival[i].length;
            make_room(all, i);
        }
    }
    if (got < UDP_AT_ONCE)
        look_for_drops(socket, context);
    return packets;
}

int udp_receive(struct udp *udp)
{
    int packets = 0;

    for (int i = 0; i < udp->socket_count; i++)
        packets += receive_socket(udp, &udp->sockets[i], udp->context);
    for (int i = 0; i < udp->group_count; i++)
        packets += receive_socket(udp, &udp->groups[i], udp->context);
    if (packets > 0)
        service_traffic(udp->service);
    else if (udp->roce != NULL)
        roce_port_answer(udp->roce);
    return packets;
}
