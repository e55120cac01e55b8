/* SPDX-License-Identifier: BSD-2-Clause */
/* fds_accepted.c - finds, in a forked child, connections that another thread was accepting while the process forked. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "fds.h"

union name {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
};

/* Reads a stream or packet socket's own address, and whether it listens. False: it is not such a socket. */
static bool read_name(int fd, union name *name, bool *listens)
{
    socklen_t length = sizeof *name, size = sizeof(int);
    int value;

    memset(name, 0, sizeof *name);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == -1 ||
        getsockname(fd, &name->sa, &length) == -1)
        return false;
    *listens = value != 0;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size) == 0 && value != SOCK_DGRAM;
}

static bool is_of(const union name *name, const union name *listener)
{
    static const struct in6_addr any; /* of both families, as far as their addresses are long */

    if (name->sa.sa_family != listener->sa.sa_family)
        return false;
    if (name->sa.sa_family == AF_INET)
        return name->in.sin_port == listener->in.sin_port &&
               (memcmp(&listener->in.sin_addr, &any, sizeof listener->in.sin_addr) == 0 ||
                memcmp(&listener->in.sin_addr, &name->in.sin_addr, sizeof name->in.sin_addr) == 0);
    if (name->sa.sa_family == AF_INET6)
        return name->in6.sin6_port == listener->in6.sin6_port &&
               (memcmp(&listener->in6.sin6_addr, &any, sizeof any) == 0 ||
                memcmp(&listener->in6.sin6_addr, &name->in6.sin6_addr, sizeof any) == 0);
    return name->sa.sa_family == AF_UNIX &&
           memcmp(name->un.sun_path, listener->un.sun_path, sizeof name->un.sun_path) == 0;
}

void fds_close_accepted(int listener, int most)
{
    union name of, name;
    bool listens;

    if (!read_name(listener, &of, &listens) || !listens)
        return;
    for (int fd = STDERR_FILENO + 1; fd < most; fd++)
        if (read_name(fd, &name, &listens) && !listens && is_of(&name, &of))
            close(fd);
}
