/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_port.c - see cm_port.h. Replaces the functions of RoCE's port, and system calls on its sockets. */
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>
#include "check/fuzz/cm_port.h"
#include "soft/cm/ib_end.h"
#include "soft/link/roce_port.h"
#include "soft/service/service.h"

struct port port = {.coming.fd = -1};
void (*task)(void);

struct roce_port *__wrap_roce_port_join(void);
void __wrap_roce_port_leave(struct roce_port *roce);
void __wrap_service_task(int fd, void (*run)(void));
void __wrap_service_task_due(uint64_t at);
bool __real_cm_choice_is_ib(const struct cm_id *id);
bool __wrap_cm_choice_is_ib(const struct cm_id *id);
int __real_socket(int family, int type, int protocol);
int __real_listen(int fd, int backlog);
int __real_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
int __real_bind(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);

/* The descriptors of queue pair 1 are always readable. */
struct roce_port *__wrap_roce_port_join(void)
{
    static struct roce_port roce = {.share = SHARE};
    const struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    for (int share = 0; share < ROCE_SOCKETS; share++)
        roce.fds[share][ROCE_IPV4] = roce.fds[share][ROCE_IPV6] = -1;
    expect(__real_bind(fd, (const struct sockaddr *)&here, sizeof here) == 0, "a socket: %s", strerror(errno));
    roce.listener = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    roce.fds[SHARE][ROCE_IPV4] = fd;
    for (int family = 0; family < ROCE_FAMILIES; family++)
        roce.fds[ROCE_QP1][family] = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    return &roce;
}

void __wrap_roce_port_leave(struct roce_port *roce)
{
    (void)roce;
}

void __wrap_service_task(int fd, void (*run)(void))
{
    (void)fd;
    task = run;
}

void __wrap_service_task_due(uint64_t at)
{
    (void)at;
}

/* What was learned about a host is remembered, and loopback is used by each input. */
bool __wrap_cm_choice_is_ib(const struct cm_id *id)
{
    return id->public.route.addr.dst_sin.sin_addr.s_addr != htonl(INADDR_LOOPBACK) &&
           __real_cm_choice_is_ib(id);
}

static bool is_inbox(const void *address)
{
    const struct sockaddr_un *un = address;

    return un && un->sun_family == AF_UNIX && memcmp(un->sun_path + 1, "exs/roce/", 9) == 0;
}

/* The kernel chooses the name of each inbox, because several harnesses may run at once. */
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    return __real_bind(fd, address, is_inbox(address) ? sizeof address->sa_family : length);
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    int result = __real_getsockopt(fd, level, option, value, length);

    if (result == 0 && option == SO_PEERCRED && port.foreign)
        ((struct ucred *)value)->uid++;
    return result;
}

/* All inboxes that the library looks for belong to the other process, or do not exist. */
static const struct sockaddr *lead(const struct sockaddr *address, socklen_t *length)
{
    static struct sockaddr_un there;

    if (!is_inbox(address))
        return address;
    there = (struct sockaddr_un){.sun_family = AF_UNIX};
    *length = sizeof there;
    if (port.passes)
        expect(__real_getsockname(port.neighbour, (struct sockaddr *)&there, length) == 0, "a name");
    return (const struct sockaddr *)&there;
}

void neighbour_hears(void)
{
    int guest;

    while ((guest = accept4(port.neighbour, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) != -1)
        close(guest);
}

/* ---- Packets that the library sends ---- */

bool is_near(const union soft_addr *addr)
{
    return addr->sa.sa_family == AF_INET ? ntohl(addr->in.sin_addr.s_addr) >> 24 == 127
                                         : IN6_IS_ADDR_LOOPBACK(&addr->in6.sin6_addr);
}

static void hear(const struct msghdr *message)
{
    struct heard *heard = &port.heard[port.count++ % HEARD];
    const uint8_t *packet = message->msg_iov->iov_base, *mad = qp1_read(packet, QP1_PACKET);
    bool ipv4 = ((const struct sockaddr *)message->msg_name)->sa_family == AF_INET;

    memset(heard, 0, sizeof *heard);
    expect(message->msg_iov->iov_len == PACKET && mad && ib_decode(&heard->message, mad), "what was sent");
    memcpy(&heard->path.remote, message->msg_name, message->msg_namelen);
    heard->path.local.sa.sa_family = heard->path.remote.sa.sa_family;
    heard->path.local.in.sin_port = htons(SOFT_UDP_PORT); /* at the same offset in sockaddr_in6 */
    if (ipv4)
        heard->path.local.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        heard->path.local.in6.sin6_addr = in6addr_loopback;
    expect((port.anywhere || is_near(&heard->path.remote)) &&
               heard->path.remote.in.sin_port == htons(SOFT_UDP_PORT),
           "sent to a stranger");
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (fd <= 0 || (fd != ib_port.qp1.out[0] && fd != ib_port.qp1.out[1]))
        return __real_sendmsg(fd, message, flags);
    errno = port.no_route;
    if (port.no_route != 0)
        return -1;
    hear(message);
    return PACKET;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    struct coming *coming = &port.coming;
    size_t room = message->msg_iov->iov_len, length = coming->length < room ? coming->length : room;

    if (coming->fd != fd)
        return __real_recvmsg(fd, message, flags);
    coming->fd = -1;
    memcpy(message->msg_iov->iov_base, coming->bytes, length);
    if (message->msg_name)
        memcpy(message->msg_name, &coming->from, sizeof coming->from);
    if (message->msg_controllen > coming->control_length)
        message->msg_controllen = coming->control_length;
    memcpy(message->msg_control, coming->control, message->msg_controllen);
    message->msg_flags = coming->flags;
    return (ssize_t)length;
}

void port_open(void)
{
    const struct sockaddr_un un = {.sun_family = AF_UNIX};

    port.neighbour = __real_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    expect(__real_bind(port.neighbour, (const struct sockaddr *)&un, sizeof un.sun_family) == 0 &&
               __real_listen(port.neighbour, PLACES) == 0,
           "a inbox: %s", strerror(errno));
    system_leads = lead;
}
