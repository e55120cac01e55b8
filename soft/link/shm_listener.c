/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_listener.c - the directories, names and unix sockets of shm_listener.h. */
#include "shm_listener.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/base/fds.h"
#include "core/base/log.h"
#include "shm_pass.h"
#include "slow_close.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define BACKLOG 4096                         /* the kernel reduces it to net.core.somaxconn */
#define SWEEP_MAX 1024                       /* maximum files that one sweep checks */
#define DIRECTORY_MAX 32                     /* bytes, with the 0 */
#define ADDRESS_BYTES (INET6_ADDRSTRLEN + 6) /* with "-" and a port */
#define NAME_BYTES (ADDRESS_BYTES + 18)
#define NAMES 3

struct directory {
    char text[DIRECTORY_MAX];
};

struct name {
    char text[NAME_BYTES];
};

static int open_socket(int type)
{
    return fds_own_private(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* ---- Directories ---- */

/* Only root and the user itself can create files at the first two. */
static const struct {
    const char *before, *behind;
} directories[] = {{"/run/user/", "/exs"}, {"/run/exs-", ""}, {"/tmp/exs-", ""}, {"/dev/shm/exs-", ""}};

#define DIRECTORIES (sizeof directories / sizeof *directories)

static void report_foreign(const char *what, uid_t owner)
{
    static atomic_flag reported = ATOMIC_FLAG_INIT; /* orders nothing else: pairs with nothing */

    if (!atomic_flag_test_and_set_explicit(&reported, memory_order_relaxed))
        xs_warn(
            "user %u has taken %s, where programs of user %u meet to share memory: they use other names, or "
            "TCP where there is none",
            (unsigned)owner, what, (unsigned)geteuid());
}

/* Whether the directory belongs to this user and no other user can write it. Reports it if another user owns it. No
 * other user can rename or remove this user's directory in a sticky directory, so the result still holds when a socket
 * is created there. */
static bool is_private(const char *path)
{
    struct stat status;

    if (lstat(path, &status) == -1)
        return false;
    if (status.st_uid != geteuid())
        report_foreign(path, status.st_uid);
    return status.st_uid == geteuid() && S_ISDIR(status.st_mode) && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

static struct directory directory_at(size_t index)
{
    struct directory directory;

    snprintf(directory.text, sizeof directory.text, "%s%u%s", directories[index].before, (unsigned)geteuid(),
             directories[index].behind);
    return directory;
}

/* ---- Names ---- */

/* The name of an address and port; `all`: the name of all addresses of this family, with addr's port. */
static struct name name_of(const union soft_addr *addr, bool all, sa_family_t family)
{
    char host[INET6_ADDRSTRLEN] = "";
    struct name name;

    if (!all)
        inet_ntop(family,
                  family == AF_INET ? (const void *)&addr->in.sin_addr : (const void *)&addr->in6.sin6_addr,
                  host, sizeof host);
    snprintf(name.text, sizeof name.text, "%s-%u", all ? family == AF_INET ? "any4" : "any6" : host,
             ntohs(addr->in.sin_port)); /* at the same place in sockaddr_in6 */
    return name;
}

/* The names that a listener for connections to this address can have, in the order in which TCP would choose a
 * listener. */
static size_t names_for(const union soft_addr *remote, struct name names[NAMES])
{
    size_t count = 0;

    names[count++] = name_of(remote, false, remote->sa.sa_family);
    if (remote->sa.sa_family == AF_INET)
        names[count++] = name_of(remote, true, AF_INET);
    names[count++] = name_of(remote, true, AF_INET6);
    return count;
}

/* A number that identifies the socket's network namespace. */
static uint64_t network_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
    struct stat status;

    if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) == 0)
        return cookie;
    return stat("/proc/thread-self/ns/net", &status) == 0 ? status.st_ino : 0; /* before Linux 5.14 */
}

/* False: it is too long. */
static bool file_address(struct sockaddr_un *un, const struct directory *directory, uint64_t network,
                         const struct name *name)
{
    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    return snprintf(un->sun_path, sizeof un->sun_path, "%s/%" PRIx64 "-%s", directory->text, network,
                    name->text) < (int)sizeof un->sun_path;
}

/* The abstract name, with the @ with which programs show it. */
static struct name abstract_name(const struct name *name)
{
    struct name abstract;

    snprintf(abstract.text, sizeof abstract.text, "@exs/%u/%.*s", (unsigned)geteuid(), ADDRESS_BYTES,
             name->text);
    return abstract;
}

/* ---- Files of dead processes ---- */

static bool is_dead(int probe, const struct sockaddr_un *un)
{
    return connect(probe, (const struct sockaddr *)un, sizeof *un) == -1 && errno == ECONNREFUSED;
}

/* Removes the file of a dead process. Another process may create a socket with this name at any time, so the file is
 * checked again after it was renamed to a name that no other process uses. */
static void remove_dead(int probe, const struct sockaddr_un *un, const struct sockaddr_un *aside)
{
    if (!is_dead(probe, un) || rename(un->sun_path, aside->sun_path) == -1)
        return;
    if (is_dead(probe, aside))
        (void)unlink(aside->sun_path);
    else
        (void)rename(aside->sun_path, un->sun_path);
}

/* Removes dead files from a directory. The probe is a socket of another type: its connect() fails on every file, with
 * ECONNREFUSED only on dead ones, and does not disturb a listener. */
static void remove_dead_files(const char *directory, const struct sockaddr_un *aside)
{
    int fd = fds_own(open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)),
        probe = open_socket(SOCK_DGRAM);
    DIR *listing = fd == -1 ? NULL : fdopendir(fd);
    struct dirent *entry;

    for (int i = 0; i < SWEEP_MAX && listing != NULL && probe != -1 && (entry = readdir(listing)) != NULL;
         i++) {
        struct sockaddr_un un = {.sun_family = AF_UNIX};

        if (entry->d_type == DT_SOCK && snprintf(un.sun_path, sizeof un.sun_path, "%s/%s", directory,
                                                 entry->d_name) < (int)sizeof un.sun_path)
            remove_dead(probe, &un, aside);
    }
    if (listing != NULL) {
        fds_disown(fd);
        closedir(listing);
    } else if (fd != -1) {
        fds_close(fd);
    }
    if (probe != -1)
        fds_close(probe);
}

/* ---- The side that listens ---- */

static bool bind_and_listen(int fd, const struct sockaddr_un *un, socklen_t length)
{
    return bind(fd, (const struct sockaddr *)un, length) == 0 && listen(fd, BACKLOG) == 0;
}

/* Binds the socket to a random name and renames that when the socket listens, which replaces a dead file. */
static bool open_file_in(struct shm_listener *listener, const struct directory *directory,
                         const struct name *name)
{
    static atomic_flag swept = ATOMIC_FLAG_INIT; /* orders nothing else: pairs with nothing */
    struct sockaddr_un first = {.sun_family = AF_UNIX};
    uint64_t chance = 0;

    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != sizeof chance ||
        !file_address(&listener->at, directory, network_of(listener->fd), name))
        return false;
    snprintf(first.sun_path, sizeof first.sun_path, "%s/.%016" PRIx64, directory->text, chance);
    if (!bind_and_listen(listener->fd, &first, sizeof first) ||
        rename(first.sun_path, listener->at.sun_path) == -1) {
        (void)unlink(first.sun_path);
        return false;
    }
    if (!atomic_flag_test_and_set_explicit(&swept, memory_order_relaxed))
        remove_dead_files(directory->text, &first);
    return true;
}

static bool open_file(struct shm_listener *listener, const struct name *name)
{
    for (size_t i = 0; i < DIRECTORIES; i++) {
        struct directory directory = directory_at(i);

        (void)mkdir(directory.text, S_IRWXU);
        if (!is_private(directory.text))
            continue;
        listener->fd = open_socket(SOCK_SEQPACKET);
        if (listener->fd == -1)
            return false;
        if (open_file_in(listener, &directory, name))
            return true;
        fds_close(listener->fd);
        listener->fd = -1;
    }
    return false;
}

static bool open_abstract(struct shm_listener *listener, const struct name *name)
{
    struct name abstract = abstract_name(name);
    struct sockaddr_un un;
    socklen_t length = shm_pass_address(&un, abstract.text + 1);

    listener->fd = open_socket(SOCK_SEQPACKET);
    if (listener->fd != -1 && bind_and_listen(listener->fd, &un, length))
        return true;
    if (listener->fd != -1)
        fds_close(listener->fd);
    listener->fd = -1;
    return false;
}

int shm_listeners_open(struct shm_listener listeners[SHM_LISTENERS], const union soft_addr *local)
{
    struct name name = name_of(local, soft_is_any(local), local->sa.sa_family);

    for (int i = 0; i < SHM_LISTENERS; i++)
        listeners[i] = (struct shm_listener){.fd = -1};
    return open_file(&listeners[SHM_LISTENER_FILE], &name) +
           open_abstract(&listeners[SHM_LISTENER_ABSTRACT], &name);
}

void shm_listeners_close(struct shm_listener listeners[SHM_LISTENERS])
{
    if (listeners[SHM_LISTENER_FILE].fd != -1)
        (void)unlink(listeners[SHM_LISTENER_FILE].at.sun_path);
    for (int i = 0; i < SHM_LISTENERS; i++) {
        if (listeners[i].fd != -1)
            slow_close_listener(listeners[i].fd);
        listeners[i].fd = -1;
    }
}

/* ---- The side that connects ---- */

struct visit {
    int fd; /* unconnected, or connected to a process of this user; -1: none */
    int error;
};

/* Tries one name. Returns whether the search is over, with a connection or an error. A connection to another user's
 * process is closed, and the next name is tried with a new socket. */
static bool visit_address(struct visit *visit, const struct sockaddr_un *un, socklen_t length, const char *what)
{
    struct ucred peer = {.uid = 0};
    socklen_t size = sizeof peer;

    if (connect(visit->fd, (const struct sockaddr *)un, length) == -1) {
        if (errno != EAGAIN)
            return false;
        visit->error = EAGAIN;
        return true;
    }
    if (shm_pass_is_ours(visit->fd)) {
        visit->error = 0;
        return true;
    }
    if (getsockopt(visit->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid != geteuid())
        report_foreign(what, peer.uid);
    slow_close(visit->fd);
    visit->fd = open_socket(SOCK_SEQPACKET);
    visit->error = visit->fd == -1 ? errno : EPERM;
    return visit->fd == -1;
}

static bool visit_files(struct visit *visit, const struct name names[], size_t count)
{
    uint64_t network = network_of(visit->fd);
    struct sockaddr_un un;

    for (size_t i = 0; i < DIRECTORIES; i++) {
        struct directory directory = directory_at(i);

        if (!is_private(directory.text))
            continue;
        for (size_t n = 0; n < count; n++)
            if (file_address(&un, &directory, network, &names[n]) &&
                visit_address(visit, &un, sizeof un, un.sun_path))
                return true;
    }
    return false;
}

static bool visit_abstract(struct visit *visit, const struct name names[], size_t count)
{
    for (size_t n = 0; n < count; n++) {
        struct name name = abstract_name(&names[n]);
        struct sockaddr_un un;
        socklen_t length = shm_pass_address(&un, name.text + 1);

        if (visit_address(visit, &un, length, name.text))
            return true;
    }
    return false;
}

int shm_listener_visit(const union soft_addr *remote)
{
    struct name names[NAMES];
    size_t count = names_for(remote, names);
    struct visit visit = {.fd = open_socket(SOCK_SEQPACKET), .error = ECONNREFUSED};

    if (visit.fd == -1)
        return -1;
    if (!visit_files(&visit, names, count))
        (void)visit_abstract(&visit, names, count);
    if (visit.error == 0)
        return visit.fd;
    if (visit.fd != -1)
        fds_close(visit.fd);
    errno = visit.error;
    return -1;
}
