/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_pass.c - datagrams of connection management from one process of a host to another. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "core/fds.h"
#include "ib_pass.h"

#define VERSION 1

struct passed {
    uint32_t version;
    union soft_addr local, remote; /* the path that it came on */
    uint8_t mad[IB_MAD_BYTES];
};

struct ib_pass_name ib_pass_to_share(unsigned share)
{
    struct ib_pass_name name;

    snprintf(name.text, sizeof name.text, "exs/roce/%u/cm/%u", (unsigned)geteuid(), share);
    return name;
}

static bool is_any(const union soft_addr *addr)
{
    return addr->sa.sa_family == AF_INET ? addr->in.sin_addr.s_addr == htonl(INADDR_ANY)
                                         : IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
}

static void name_host(char host[INET6_ADDRSTRLEN], const union soft_addr *addr)
{
    inet_ntop(addr->sa.sa_family,
              addr->sa.sa_family == AF_INET ? (void *)&addr->in.sin_addr : (void *)&addr->in6.sin6_addr, host,
              INET6_ADDRSTRLEN);
}

struct ib_pass_name ib_pass_to_listener(enum ib_space space, const union soft_addr *addr, in_port_t port)
{
    char host[INET6_ADDRSTRLEN] = "any";
    struct ib_pass_name name;

    if (!is_any(addr))
        name_host(host, addr);
    snprintf(name.text, sizeof name.text, "exs/roce/%u/%s/%u/%s", (unsigned)geteuid(),
             space == IB_SPACE_UDP ? "udp" : "at", ntohs(port), host);
    return name;
}

static struct ib_pass_name name_asked(const char *what, uint64_t number, uint32_t id,
                                      const union soft_addr *addr)
{
    char host[INET6_ADDRSTRLEN] = "";
    struct ib_pass_name name;

    name_host(host, addr);
    snprintf(name.text, sizeof name.text, "exs/roce/%u/%s/%016" PRIx64 "/%08" PRIx32 "/%s", (unsigned)geteuid(),
             what, number, id, host);
    return name;
}

struct ib_pass_name ib_pass_to_request(const union soft_addr *addr, uint64_t guid, uint32_t id)
{
    return name_asked("request", guid, id, addr);
}

struct ib_pass_name ib_pass_to_question(const union soft_addr *addr, uint64_t transaction, uint32_t id)
{
    return name_asked("question", transaction, id, addr);
}

static socklen_t address_of(struct sockaddr_un *un, const struct ib_pass_name *name)
{
    size_t length = strlen(name->text);

    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(un->sun_path + 1, name->text, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int ib_pass_open(const struct ib_pass_name *name)
{
    int fd = fds_own(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), on = 1, error;
    struct sockaddr_un un;
    socklen_t length = address_of(&un, name);

    if (fd == -1)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
        bind(fd, (struct sockaddr *)&un, length) == 0)
        return fd;
    error = errno;
    fds_close(fd);
    errno = error;
    return -1;
}

bool ib_pass_on(int from, const struct ib_pass_name *name, const struct soft_path *path,
                const uint8_t mad[IB_MAD_BYTES])
{
    struct passed passed = {.version = VERSION, .local = path->local, .remote = path->remote};
    struct iovec vector = {&passed, sizeof passed};
    struct sockaddr_un un;
    struct msghdr message = {
        .msg_name = &un, .msg_namelen = address_of(&un, name), .msg_iov = &vector, .msg_iovlen = 1};

    memcpy(passed.mad, mad, IB_MAD_BYTES);
    if (sendmsg(from, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof passed)
        return true;
    return errno == EAGAIN || errno == ENOBUFS; /* it is theirs, and lost */
}

static bool is_ours(struct msghdr *message)
{
    const struct cmsghdr *header = CMSG_FIRSTHDR(message);
    struct ucred sender;

    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS)
        return false;
    memcpy(&sender, CMSG_DATA(header), sizeof sender);
    return sender.uid == geteuid();
}

static bool is_address(const struct passed *passed)
{
    return passed->local.sa.sa_family == passed->remote.sa.sa_family &&
           (passed->local.sa.sa_family == AF_INET || passed->local.sa.sa_family == AF_INET6);
}

int ib_pass_receive(int fd, struct soft_path *path, uint8_t mad[IB_MAD_BYTES])
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct ucred))];
    struct passed passed;
    struct iovec vector = {&passed, sizeof passed};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (got == -1)
        return -1;
    if (got != (ssize_t)sizeof passed || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
        !is_ours(&message) || passed.version != VERSION || !is_address(&passed))
        return 0;
    *path = (struct soft_path){.local = passed.local, .remote = passed.remote};
    memcpy(mad, passed.mad, IB_MAD_BYTES);
    return 1;
}
