/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_number.c - takes numbers of the port space of datagrams, and computes the TCP ports of their slots:
 * cm_number.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "core/base/fds.h"
#include "soft/link/shm_pass.h"
#include "cm_id.h"
#include "cm_number.h"

#define PRIVILEGED 1024 /* numbers below it may need a privilege, as ports do */
#define FIRST 32768     /* the range for port 0 (any), */
#define ANY_COUNT 28232 /* as large as Linux's default for TCP */
/* TCP ports that are neither in Linux's ephemeral range nor those of LIDs (wire.h). */
#define SLOT_FIRST 61000
#define SLOT_COUNT 4513 /* a prime, so that a number's slots differ */
#define SLOT_STEP 1259

in_port_t cm_number_slot(in_port_t number, unsigned slot)
{
    return htons((uint16_t)(SLOT_FIRST + (ntohs(number) + slot * SLOT_STEP) % SLOT_COUNT));
}

/* ---- Slots ---- */

/* A line of /proc/net/tcp or tcp6: "sl: local:port remote:port state tx:rx timer:when retransmits uid ...". False: not
 * a listener at this port. */
static bool read_owner(char *line, in_port_t slot, uid_t *owner)
{
    enum { LOCAL = 1, STATE = 3, UID = 7 };
    char *fields[UID + 1] = {NULL}, *port;
    int count = 0;

    for (char *word; count <= UID && (word = strsep(&line, " \n")) != NULL;)
        if (*word != '\0')
            fields[count++] = word;
    if (count <= UID || strcmp(fields[STATE], "0A") != 0 || (port = strchr(fields[LOCAL], ':')) == NULL ||
        strtoul(port + 1, NULL, 16) != ntohs(slot))
        return false;
    *owner = (uid_t)strtoul(fields[UID], NULL, 10);
    return true;
}

bool cm_number_find_owner(in_port_t slot, uid_t *owner)
{
    const char *const lists[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    char line[256];
    bool found = false;

    for (unsigned i = 0; i < sizeof lists / sizeof *lists && !found; i++) {
        FILE *list = fopen(lists[i], "re");

        while (list != NULL && !found && fgets(line, sizeof line, list) != NULL)
            found = read_owner(line, slot, owner);
        if (list != NULL)
            fclose(list);
    }
    return found;
}

/* ---- Names ---- */

struct name {
    char text[80];
};

static struct name name_of(in_port_t number, const char *place, unsigned interface)
{
    struct name name;

    snprintf(name.text, sizeof name.text, "exs/datagrams/%u/%s/%u", ntohs(number), place, interface);
    return name;
}

static struct name name_at(const union soft_addr *addr, bool both)
{
    char host[INET6_ADDRSTRLEN] = "";
    bool ipv4 = addr->sa.sa_family == AF_INET;

    if (soft_is_any(addr))
        return name_of(addr->in.sin_port, ipv4 ? "any4" : both ? "any" : "any6", 0);
    inet_ntop(addr->sa.sa_family, ipv4 ? (const void *)&addr->in.sin_addr : (const void *)&addr->in6.sin6_addr,
              host, sizeof host);
    return name_of(addr->in.sin_port, host, ipv4 ? 0 : addr->in6.sin6_scope_id);
}

/* -1 and errno. */
static int open_unix(void)
{
    return fds_own_private(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* Whether a process has bound the name: connect() does not fail with ECONNREFUSED. */
static bool is_held(int from, struct name name)
{
    struct sockaddr_un un;
    socklen_t length = shm_pass_address(&un, name.text);

    return connect(from, (struct sockaddr *)&un, length) == 0 || errno != ECONNREFUSED;
}

/* ---- Conflicts ---- */

/* Whether a process has the number at one of the host's addresses; for a caller that wants it at all of them. */
static bool is_held_at_own(int from, const union soft_addr *addr, bool both)
{
    struct ifaddrs *all, *one;
    union soft_addr own;
    bool held = false;

    if (getifaddrs(&all) == -1)
        return false;
    for (one = all; one != NULL && !held; one = one->ifa_next) {
        if (one->ifa_addr == NULL || cm_addr_size(one->ifa_addr) == 0 ||
            (!both && one->ifa_addr->sa_family != addr->sa.sa_family))
            continue;
        memset(&own, 0, sizeof own);
        memcpy(&own, one->ifa_addr, cm_addr_size(one->ifa_addr));
        own.in.sin_port = addr->in.sin_port; /* at the same place in sockaddr_in6 */
        held = is_held(from, name_at(&own, false));
    }
    freeifaddrs(all);
    return held;
}

/* Whether a process has the number under another name that conflicts with this one. */
static bool is_held_besides(int from, const union soft_addr *addr, bool both)
{
    bool ipv4 = addr->sa.sa_family == AF_INET, any = soft_is_any(addr);
    in_port_t number = addr->in.sin_port;

    both = both && any && !ipv4;
    return (!both && is_held(from, name_of(number, "any", 0))) ||
           ((both || (ipv4 && !any)) && is_held(from, name_of(number, "any4", 0))) ||
           ((both || (!ipv4 && !any)) && is_held(from, name_of(number, "any6", 0))) ||
           (any && is_held_at_own(from, addr, both));
}

bool cm_number_is_taken(const union soft_addr *addr, bool both)
{
    int from = open_unix();
    bool taken = false;

    if (from == -1)
        return false;
    taken = is_held(from, name_at(addr, both)) || is_held_besides(from, addr, both);
    fds_close(from);
    return taken;
}

/* ---- Taking one ---- */

/* Binds the name, then checks for conflicts. So of two processes that take conflicting names at the same time at least
 * one sees the other's. 0 or an errno. */
static int hold_name(int fd, const union soft_addr *addr, bool both)
{
    struct name name = name_at(addr, both);
    struct sockaddr_un un;
    socklen_t length = shm_pass_address(&un, name.text);
    int from = open_unix(), error = 0;

    if (from == -1)
        return errno;
    if (bind(fd, (struct sockaddr *)&un, length) == -1)
        error = errno;
    else if (is_held_besides(from, addr, both))
        error = EADDRINUSE;
    fds_close(from);
    return error;
}

static int hold_new(const union soft_addr *addr, bool both)
{
    int fd = open_unix(), error;

    if (fd == -1)
        return -1;
    error = hold_name(fd, addr, both);
    if (error == 0)
        return fd;
    fds_close(fd);
    errno = error;
    return -1;
}

int cm_number_take(union soft_addr *addr, bool both)
{
    uint16_t start = 0;
    int fd = -1;

    if (addr->in.sin_port != 0) /* at the same place in sockaddr_in6 */
        return hold_new(addr, both);
    (void)!getrandom(&start, sizeof start, GRND_NONBLOCK);
    errno = EADDRINUSE;
    for (unsigned tried = 0; tried < ANY_COUNT && fd == -1 && errno == EADDRINUSE; tried++) {
        addr->in.sin_port = htons((uint16_t)(FIRST + (start + tried) % ANY_COUNT));
        fd = hold_new(addr, both);
    }
    return fd;
}

/* Binds a test socket to the address. 0 or the kernel's errno. SO_REUSEADDR, so that it does not block other
 * sockets. */
static int try_bind(union soft_addr *addr, int type)
{
    int fd = fds_own_private(socket(addr->sa.sa_family, type | SOCK_CLOEXEC, 0)), error = 0;

    if (fd == -1)
        return errno;
    (void)fds_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(fd, &addr->sa, cm_addr_size(&addr->sa)) == -1)
        error = errno;
    else
        error = cm_socket_names(fd, addr, NULL);
    fds_close(fd);
    return error;
}

int cm_number_try(union soft_addr *addr)
{
    in_port_t number = addr->in.sin_port; /* at the same place in sockaddr_in6 */
    union soft_addr same = *addr;
    int error;

    addr->in.sin_port = 0;
    error = try_bind(addr, SOCK_DGRAM);
    addr->in.sin_port = number;
    if (error == 0 && number != 0 && ntohs(number) < PRIVILEGED && try_bind(&same, SOCK_DGRAM) == EACCES)
        error = EACCES;
    return error;
}
