/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_pass.c - passes datagrams of connection management from one process of a host to another. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "core/base/fds.h"
#include "core/base/log.h"
#include "soft/link/shm_pass.h"
#include "soft/link/slow_close.h"
#include "ib_pass.h"

#define VERSION 1
#define BACKLOG 64 /* connections that wait at a inbox */
#define TRIES 8
#define SPEAKS_MS 50 /* how long a connected process may take to send its datagram */

/* A reserved descriptor, so that a process that has no descriptors left can still receive, and pass on datagrams of
 * other processes. Guarded by the port's lock. */
static int spare = -1;

/* The table of RoCE's port; NULL: its processes share none. Guarded by the port's lock. */
static struct roce_table *table;

struct passed {
    uint32_t version;
    union soft_addr local, remote; /* the path on which it arrived */
    uint8_t mad[IB_MAD_BYTES];
};

struct ib_pass_name ib_pass_to_share(unsigned share)
{
    struct ib_pass_name name;

    snprintf(name.text, sizeof name.text, "exs/roce/%u/cm/%u", (unsigned)geteuid(), share);
    return name;
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

    if (!soft_is_any(addr))
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

/* ---- Descriptors, of which none may be left ---- */

/* Closes the reserved descriptor if errno is EMFILE. Returns whether the caller should try again. Keeps errno. */
static bool give_up_spare(void)
{
    if (errno != EMFILE || spare == -1)
        return false;
    fds_close(spare);
    spare = -1;
    return true;
}

static int open_once(void)
{
    return fds_own_private(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

static int open_socket(void)
{
    int fd = open_once();

    return fd == -1 && give_up_spare() ? open_once() : fd;
}

static int take_once(int inbox)
{
    return fds_own_private(accept4(inbox, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

static int take_guest(int inbox)
{
    int guest = take_once(inbox);

    return guest == -1 && give_up_spare() ? take_once(inbox) : guest;
}

/* Reserves a descriptor, if there is none. Keeps errno. */
static void take_spare(void)
{
    int error = errno;

    if (spare == -1)
        spare = open_once();
    errno = error;
}

/* Closes a descriptor, and reserves one if there is none. Keeps errno. */
static void close_socket(int fd)
{
    int error = errno;

    fds_close(fd);
    errno = error;
    take_spare();
}

void ib_pass_end(void)
{
    if (spare != -1)
        fds_close(spare);
    spare = -1;
    table = NULL;
}

void ib_pass_forget(void)
{
    spare = -1;
    table = NULL;
}

/* ---- Inboxes ---- */

/* Connects to the process that has bound the name. -1 and errno. */
static int connect_process(const struct ib_pass_name *name)
{
    int fd = open_socket();
    struct sockaddr_un un;
    socklen_t length = shm_pass_address(&un, name->text);

    if (fd == -1 || connect(fd, (struct sockaddr *)&un, length) == 0)
        return fd;
    close_socket(fd);
    return -1;
}

/* Why a name is taken: EADDRINUSE, a process of this user has it; EPERM, another user, or its backlog is full, so that
 * the user is unknown. */
static int why_taken(const struct ib_pass_name *name)
{
    int fd = connect_process(name);
    bool foreign = fd == -1 ? errno == EAGAIN : !shm_pass_is_ours(fd);

    if (fd != -1 && foreign)
        slow_close(fd);
    else if (fd != -1)
        close_socket(fd);
    if (foreign)
        xs_log("another user has the name @%s, which programs of this one need: see ss -xlp", name->text);
    return foreign ? EPERM : EADDRINUSE;
}

void ib_pass_use(struct roce_table *shared)
{
    table = shared;
}

uint32_t ib_pass_place(const struct ib_pass_name *name)
{
    return roce_table_place(name->text);
}

void ib_pass_close(int inbox, uint32_t place)
{
    if (table != NULL)
        roce_table_close(table, place);
    slow_close_listener(inbox);
}

void ib_pass_remember(uint64_t guid, uint32_t id, unsigned share)
{
    if (table != NULL)
        roce_table_remember(table, guid, id, share);
}

int ib_pass_recall(uint64_t guid, uint32_t id)
{
    return table == NULL ? IB_ANY_SHARE : roce_table_recall(table, guid, id);
}

int ib_pass_open(const struct ib_pass_name *name)
{
    int fd = open_socket(), error;
    struct sockaddr_un un;
    socklen_t length = shm_pass_address(&un, name->text);

    if (fd == -1)
        return -1;
    take_spare();
    slow_close_guard(fd);
    if (bind(fd, (struct sockaddr *)&un, length) == 0 && listen(fd, BACKLOG) == 0) {
        if (table != NULL)
            roce_table_open(table, ib_pass_place(name));
        return fd;
    }
    error = errno == EADDRINUSE ? why_taken(name) : errno;
    close_socket(fd);
    errno = error;
    return -1;
}

/* ---- Messages ---- */

enum ib_passed ib_pass_on(const struct ib_pass_name *name, const struct soft_path *path,
                          const uint8_t mad[IB_MAD_BYTES])
{
    struct passed passed = {.version = VERSION, .local = path->local, .remote = path->remote};
    bool there = true, done = false;

    if (table != NULL && !roce_table_is_open(table, ib_pass_place(name)))
        return IB_NOBODY;
    memcpy(passed.mad, mad, IB_MAD_BYTES);
    for (int tries = 0; tries < TRIES && there && !done; tries++) {
        int fd = connect_process(name);

        if (fd == -1)
            return errno == ECONNREFUSED ? IB_NOBODY : IB_LOST;
        there = shm_pass_is_ours(fd);
        done = there && send(fd, &passed, sizeof passed, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof passed;
        if (there)
            close_socket(fd);
        else
            slow_close(fd);
    }
    return !there ? IB_NOBODY : done ? IB_PASSED : IB_LOST;
}

static bool is_address(const struct passed *passed)
{
    return passed->local.sa.sa_family == passed->remote.sa.sa_family &&
           (passed->local.sa.sa_family == AF_INET || passed->local.sa.sa_family == AF_INET6);
}

/* Receives the datagram from a process, which sends it right after it has connected. After SPEAKS_MS reception is shut
 * down, so that a later send fails, and the process tries again. */
static ssize_t receive_datagram(int guest, struct passed *passed)
{
    (void)poll(&(struct pollfd){.fd = guest, .events = POLLIN}, 1, SPEAKS_MS);

    ssize_t got = recv(guest, passed, sizeof *passed, MSG_DONTWAIT | MSG_TRUNC);

    if (got == -1 && errno == EAGAIN && shutdown(guest, SHUT_RD) == 0)
        got = recv(guest, passed, sizeof *passed, MSG_DONTWAIT | MSG_TRUNC);
    return got;
}

int ib_pass_receive(int inbox, struct soft_path *path, uint8_t mad[IB_MAD_BYTES])
{
    int guest = slow_close_guard_has_room() ? take_guest(inbox) : -1;
    struct passed passed = {.version = 0};
    bool good;

    if (guest == -1)
        return -1;
    if (!shm_pass_is_ours(guest)) {
        slow_close_guarded(guest);
        take_spare(); /* accept4() may have used it */
        return 0;
    }
    good = receive_datagram(guest, &passed) == (ssize_t)sizeof passed && passed.version == VERSION &&
           is_address(&passed);
    close_socket(guest);
    if (!good)
        return 0;
    *path = (struct soft_path){.local = passed.local, .remote = passed.remote};
    memcpy(mad, passed.mad, IB_MAD_BYTES);
    return 1;
}
