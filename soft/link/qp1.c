/* SPDX-License-Identifier: BSD-2-Clause */
/* qp1.c - sends and receives the packets of queue pair 1. */
#include <errno.h>
#include <string.h>
#include <time.h> /* for linux/errqueue.h */
#include <linux/errqueue.h>
#include <sys/random.h>
#include <sys/socket.h>
#include "core/base/bytes.h"
#include "core/base/fds.h"
#include "icrc.h"
#include "qp1.h"
#include "roce_port.h"

#define SEND_ONLY 0x64    /* of unreliable datagrams */
#define MIGRATED 0x40     /* set in the packets of every vendor */
#define VERSION_MASK 0x3f /* pad count and version, which must be 0 */
#define QPN 1
#define QKEY 0x80010000u
#define PSN_MASK 0xffffff
_Static_assert(QP1_SHARES == ROCE_SHARES, "its shares");
#define ROOM 4096 /* bytes: more than any valid packet */

/* Sets a sending socket's options. With fragmentation disabled it sends identification 0, which the ICRC covers. It
 * receives only errors. */
static int configure_sender(int fd, sa_family_t family)
{
    (void)fds_set_option(fd, SOL_SOCKET, SO_RCVBUF, 0);
    if (family == AF_INET)
        return fds_set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) == -1 ||
                       fds_set_option(fd, IPPROTO_IP, IP_RECVERR, 1) == -1
                   ? -1
                   : 0;
    return fds_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) == -1 ||
                   fds_set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE) == -1 ||
                   fds_set_option(fd, IPPROTO_IPV6, IPV6_RECVERR, 1) == -1
               ? -1
               : 0;
}

/* Opens the sending socket of a family. 0 or an errno. */
static int open_out(struct qp1 *qp1, int family)
{
    union soft_addr any = {.in6.sin6_family = family == ROCE_IPV4 ? AF_INET : AF_INET6};
    socklen_t length = family == ROCE_IPV4 ? sizeof any.in : sizeof any.in6;
    int fd = fds_own_private(socket(any.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));

    qp1->out[family] = fd;
    if (fd == -1 || configure_sender(fd, any.sa.sa_family) == -1 || bind(fd, &any.sa, length) == -1 ||
        getsockname(fd, &any.sa, &length) == -1)
        return errno;
    qp1->out_port[family] = any.in.sin_port; /* at the same place in sockaddr_in6 */
    return 0;
}

int qp1_open(struct qp1 *qp1, const struct roce_port *roce)
{
    int error = 0;

    memset(qp1, 0, sizeof *qp1);
    qp1->share = roce->share;
    qp1->table = roce->table;
    (void)!getrandom(&qp1->psn, sizeof qp1->psn, GRND_NONBLOCK);
    for (int family = 0; family < ROCE_FAMILIES; family++) {
        qp1->fds[family] = roce->fds[ROCE_QP1][family];
        qp1->out[family] = -1;
    }
    for (int family = 0; family < ROCE_FAMILIES && error == 0; family++)
        if (qp1->fds[family] != -1)
            error = open_out(qp1, family);
    if (error != 0)
        qp1_close(qp1);
    return error;
}

void qp1_close(struct qp1 *qp1)
{
    for (int family = 0; family < ROCE_FAMILIES; family++)
        if (qp1->out[family] != -1)
            fds_close(qp1->out[family]);
}

void qp1_write(uint8_t packet[QP1_PACKET], uint32_t psn, const uint8_t mad[QP1_MAD])
{
    memset(packet, 0, QP1_HEADERS);
    packet[0] = SEND_ONLY;
    packet[1] = MIGRATED;
    put16(packet + 2, SOFT_PKEY);
    put32(packet + 4, QPN);
    put32(packet + 8, psn & PSN_MASK);
    put32(packet + 12, QKEY);
    put32(packet + 16, QPN);
    memcpy(packet + QP1_HEADERS, mad, QP1_MAD);
}

const uint8_t *qp1_read(const uint8_t *packet, size_t length)
{
    if (length != QP1_PACKET || packet[0] != SEND_ONLY || (packet[1] & VERSION_MASK) != 0)
        return NULL;
    if ((get16(packet + 2) & SOFT_PKEY_MASK) != (SOFT_PKEY & SOFT_PKEY_MASK) ||
        (get32(packet + 4) & 0xffffff) != QPN || get32(packet + 12) != QKEY ||
        (get32(packet + 16) & 0xffffff) != QPN)
        return NULL;
    return packet + QP1_HEADERS;
}

/* ---- Sending ---- */

static void add_source(struct msghdr *message, const struct soft_path *path)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);

    if (path->local.sa.sa_family == AF_INET) {
        const struct in_pktinfo info = {.ipi_spec_dst = path->local.in.sin_addr};

        header->cmsg_level = IPPROTO_IP;
        header->cmsg_type = IP_PKTINFO;
        header->cmsg_len = CMSG_LEN(sizeof info);
        memcpy(CMSG_DATA(header), &info, sizeof info);
    } else {
        const struct in6_pktinfo info = {.ipi6_addr = path->local.in6.sin6_addr,
                                         .ipi6_ifindex = path->local.in6.sin6_scope_id};

        header->cmsg_level = IPPROTO_IPV6;
        header->cmsg_type = IPV6_PKTINFO;
        header->cmsg_len = CMSG_LEN(sizeof info);
        memcpy(CMSG_DATA(header), &info, sizeof info);
    }
    message->msg_controllen = CMSG_SPACE(header->cmsg_len - CMSG_LEN(0));
}

void qp1_send(struct qp1 *qp1, const struct soft_path *path, const uint8_t mad[QP1_MAD])
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct in6_pktinfo))] = {0};
    uint8_t packet[QP1_PACKET + ICRC_SIZE];
    struct iovec vector = {packet, sizeof packet};
    struct soft_path way = *path;
    struct msghdr message = {.msg_name = &way.remote,
                             .msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    bool ipv4 = way.remote.sa.sa_family == AF_INET;
    int family = ipv4 ? ROCE_IPV4 : ROCE_IPV6, fd = qp1->out[family];
    struct icrc_flow flow;

    if (fd == -1 || way.local.sa.sa_family != way.remote.sa.sa_family)
        return;
    way.local.in.sin_port = qp1->out_port[family]; /* at the same place in both kinds of address */
    way.remote.in.sin_port = htons(SOFT_UDP_PORT);
    message.msg_namelen = ipv4 ? sizeof way.remote.in : sizeof way.remote.in6;
    add_source(&message, &way);
    qp1_write(packet, qp1->psn++, mad);
    icrc_flow_init(&flow, &way, true);
    icrc_store(packet + QP1_PACKET, icrc_compute(&flow, 0, packet, QP1_PACKET));
    /* An error may be an ICMP error of an earlier packet: try again. */
    if (sendmsg(fd, &message, MSG_DONTWAIT) == -1)
        (void)sendmsg(fd, &message, MSG_DONTWAIT);
}

/* ---- Receiving ---- */

/* Sets the local address to the destination of a received packet. */
static void find_local(struct soft_path *path, struct msghdr *message)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg != NULL; cmsg = CMSG_NXTHDR(message, cmsg)) {
        if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;

            memcpy(&info, CMSG_DATA(cmsg), sizeof info);
            path->local.in.sin_addr = info.ipi_addr;
        } else if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;

            memcpy(&info, CMSG_DATA(cmsg), sizeof info);
            path->local.in6.sin6_addr = info.ipi6_addr;
            if (IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
                path->local.in6.sin6_scope_id = info.ipi6_ifindex;
        }
    }
}

/* Whether the packet's ICRC is right, for any IPv4 identification. */
static bool is_whole(struct qp1 *qp1, const struct soft_path *path, const uint8_t *packet)
{
    struct icrc_flow flow;
    uint32_t difference;
    uint16_t id;

    icrc_flow_init(&flow, path, false);
    difference = icrc_compute(&flow, 0, packet, QP1_PACKET) ^ icrc_load(packet + QP1_PACKET);
    return difference == 0 ||
           (path->local.sa.sa_family == AF_INET && icrc_id_solve(&qp1->ids, QP1_PACKET, difference, &id));
}

int qp1_receive(struct qp1 *qp1, int family, struct soft_path *path, uint8_t mad[QP1_MAD])
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(int))];
    uint8_t packet[ROOM];
    struct iovec vector = {packet, sizeof packet};
    struct msghdr message = {.msg_name = &path->remote,
                             .msg_namelen = sizeof path->remote,
                             .msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    const uint8_t *found;
    ssize_t got;

    memset(path, 0, sizeof *path);
    got = recvmsg(qp1->fds[family], &message, MSG_DONTWAIT);
    if (got == -1)
        return -1;
    path->local.sa.sa_family = path->remote.sa.sa_family;
    path->local.in.sin_port = htons(SOFT_UDP_PORT); /* at the same place in sockaddr_in6 */
    find_local(path, &message);
    if (got != QP1_PACKET + ICRC_SIZE || !is_whole(qp1, path, packet))
        return 0;
    found = qp1_read(packet, QP1_PACKET);
    if (found == NULL)
        return 0;
    memcpy(mad, found, QP1_MAD);
    return 1;
}

/* Reads the error queue. The ICMP error must quote the whole packet. */
int qp1_refused(struct qp1 *qp1, int family, struct soft_path *path, uint8_t mad[QP1_MAD])
{
    _Alignas(struct cmsghdr) uint8_t control[512];
    uint8_t packet[ROOM];
    struct iovec vector = {packet, sizeof packet};
    struct msghdr message = {.msg_name = &path->remote,
                             .msg_namelen = sizeof path->remote,
                             .msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    const struct cmsghdr *header;
    struct sock_extended_err error = {.ee_errno = 0};
    const uint8_t *found;
    ssize_t got;

    memset(path, 0, sizeof *path);
    got = recvmsg(qp1->out[family], &message, MSG_ERRQUEUE | MSG_DONTWAIT);
    if (got == -1)
        return -1;
    header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_len >= CMSG_LEN(sizeof error) &&
        ((header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR) ||
         (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_RECVERR)))
        memcpy(&error, CMSG_DATA(header), sizeof error);
    if (error.ee_errno != ECONNREFUSED || got < QP1_PACKET)
        return 0;
    found = qp1_read(packet, QP1_PACKET);
    if (found == NULL)
        return 0;
    memcpy(mad, found, QP1_MAD);
    return 1;
}
