/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_meet.c - sockets, descriptors and credentials of shm_meet.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "core/fds.h"
#include "core/settings.h"
#include "shm_meet.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define MAGIC 0x45585368u /* and of this layout */
#define BACKLOG 128

/* From whoever connects; the memory and the bell come with it. From whoever listens only a byte, with the bell.
 */
struct greeting {
    uint32_t magic, mtu, ring_bytes, area_bytes;
    uint8_t token[SHM_TOKEN];
};

/* Why there is no link. */
static void tell(const char *what)
{
    if (settings()->debug)
        fprintf(stderr, "exs: packets go by UDP, not through shared memory: %s: %s\n", what, strerror(errno));
}

/* ---- The socket ---- */

static bool is_any(const union soft_addr *addr)
{
    return addr->sa.sa_family == AF_INET ? addr->in.sin_addr.s_addr == htonl(INADDR_ANY)
                                         : IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
}

/* The name of an address and port; `any`: of all addresses. Returns the length. */
static socklen_t name(struct sockaddr_un *un, const union soft_addr *addr, bool any)
{
    char text[INET6_ADDRSTRLEN] = "*";
    const void *bytes = addr->sa.sa_family == AF_INET ? (const void *)&addr->in.sin_addr : &addr->in6.sin6_addr;
    int length;

    if (!any)
        inet_ntop(addr->sa.sa_family, bytes, text, sizeof text);
    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    length = snprintf(un->sun_path + 1, sizeof un->sun_path - 1, "exs/%s/%d", text,
                      ntohs(addr->in.sin_port)); /* at the same place in sockaddr_in6 */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int open_socket(void)
{
    return fds_own(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* Whoever is at the other end, now or when it began to listen, is of our user. */
static bool is_one_of_us(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == -1)
        return false;
    errno = EPERM;
    return peer.uid == geteuid();
}

/* ---- Descriptors that come and go ---- */

static bool send_fds(int fd, const void *bytes, size_t length, const int *fds, size_t count)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec vector = {(void *)(uintptr_t)bytes, length};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

/* Those that came, up to two; more than that the kernel drops. */
static size_t take_fds(struct msghdr *message, int fds[2])
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    size_t count;

    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return 0;
    count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    for (size_t i = 0; i < count; i++)
        fds[i] = fds_own(fds[i]);
    return count;
}

static void close_fds(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] != -1)
            fds_close(fds[i]);
}

/* Just this many bytes and descriptors. False and errno: other than that. */
static bool receive_fds(int fd, void *bytes, size_t length, int *fds, size_t count)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(2 * sizeof(int))];
    struct iovec vector = {bytes, length};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int came[2] = {-1, -1};
    size_t number = got == -1 ? 0 : take_fds(&message, came);

    if (got == (ssize_t)length && number == count && (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0 &&
        came[0] != -1 && (count < 2 || came[1] != -1)) {
        memcpy(fds, came, count * sizeof(int));
        return true;
    }
    close_fds(came, number);
    if (got != -1)
        errno = message.msg_flags & MSG_CTRUNC ? EMFILE : EPROTO;
    return false;
}

/* ---- Memory ---- */

/* A limit on files holds for this one, too, and to pass it is a signal. */
static bool is_too_long(size_t length)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < length;
}

/* A fork has no use for it. NULL and errno. */
static struct shm_area *map(int memory)
{
    void *area = mmap(NULL, sizeof(struct shm_area), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);

    if (area == MAP_FAILED)
        return NULL;
    (void)madvise(area, sizeof(struct shm_area), MADV_DONTFORK);
    return area;
}

/* -1 and errno. */
static int make_memory(void)
{
    int memory;

    errno = EFBIG;
    if (is_too_long(sizeof(struct shm_area)))
        return -1;
    memory = fds_own(memfd_create("exs", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (memory == -1)
        return -1;
    if (ftruncate(memory, sizeof(struct shm_area)) == 0 && fcntl(memory, F_ADD_SEALS, SEALS | F_SEAL_SEAL) == 0)
        return memory;
    close_fds(&memory, 1);
    return -1;
}

/* Nobody may be able to cut it short under our mapping. */
static bool is_sound(int memory)
{
    struct stat info;
    int seals = fcntl(memory, F_GET_SEALS);

    errno = EPROTO;
    return seals != -1 && (seals & SEALS) == SEALS && fstat(memory, &info) == 0 &&
           info.st_size == sizeof(struct shm_area);
}

static struct shm_peer *make_peer(int memory, bool maker)
{
    struct shm_area *area = map(memory);
    struct shm_peer *peer = area == NULL ? NULL : shm_peer_new(area, maker);

    if (area != NULL && peer == NULL)
        munmap(area, sizeof *area);
    return peer;
}

/* Is there room for one more, and a bell? */
static bool may_have_another(struct shm *shm)
{
    int error;

    soft_lock(shm->context);
    error = shm->count < SHM_PEERS ? shm_prepare(shm) : EUSERS;
    soft_unlock(shm->context);
    errno = error;
    return error == 0;
}

/* ---- The side that listens ---- */

struct shm_meeting *shm_meeting_open(const union soft_addr *local)
{
    struct shm_meeting *meeting;
    struct sockaddr_un un;
    socklen_t length = name(&un, local, is_any(local));

    if (!settings()->shm || (meeting = calloc(1, sizeof *meeting)) == NULL)
        return NULL;
    meeting->fd = open_socket();
    if (meeting->fd != -1 && bind(meeting->fd, (struct sockaddr *)&un, length) == 0 &&
        listen(meeting->fd, BACKLOG) == 0)
        return meeting;
    tell("a listener's meeting place");
    close_fds(&meeting->fd, 1);
    free(meeting);
    return NULL;
}

void shm_meeting_close(struct shm_meeting *meeting)
{
    close_fds(&meeting->fd, 1);
    close_fds(meeting->guests, meeting->count);
    free(meeting);
}

static void remove_guest(struct shm_meeting *meeting, unsigned at)
{
    meeting->count--;
    memmove(meeting->guests + at, meeting->guests + at + 1, (meeting->count - at) * sizeof(int));
}

/* All that wait at the door, but not for ever. */
static void let_in(struct shm_meeting *meeting)
{
    for (int i = 0; i < BACKLOG; i++) {
        int guest = fds_own(accept4(meeting->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));

        if (guest == -1)
            return;
        if (!is_one_of_us(guest)) {
            close_fds(&guest, 1);
            continue;
        }
        if (meeting->count == SHM_GUESTS) {
            close_fds(meeting->guests, 1);
            remove_guest(meeting, 0);
        }
        meeting->guests[meeting->count++] = guest;
    }
}

int shm_meeting_find(struct shm_meeting *meeting, const uint8_t token[SHM_TOKEN])
{
    let_in(meeting);
    for (unsigned i = 0; i < meeting->count; i++) {
        struct greeting greeting;
        int guest = meeting->guests[i];
        ssize_t got = recv(guest, &greeting, sizeof greeting, MSG_PEEK | MSG_DONTWAIT);

        if (got != sizeof greeting) { /* gone again, or no guest of ours */
            close_fds(&guest, 1);
            remove_guest(meeting, i--);
        } else if (memcmp(greeting.token, token, SHM_TOKEN) == 0) {
            remove_guest(meeting, i);
            return guest;
        }
    }
    return -1;
}

static bool is_our_greeting(const struct greeting *greeting)
{
    errno = EPROTO;
    return greeting->magic == MAGIC && greeting->mtu == SHM_MTU && greeting->ring_bytes == SHM_RING_BYTES &&
           greeting->area_bytes == sizeof(struct shm_area);
}

struct shm_peer *shm_accept(struct shm *shm, int guest)
{
    enum { MEMORY, BELL };
    struct shm_peer *peer = NULL;
    struct greeting greeting;
    int fds[2];

    if (!may_have_another(shm) || !receive_fds(guest, &greeting, sizeof greeting, fds, 2)) {
        tell("taking what the peer has sent");
        return NULL;
    }
    if (is_our_greeting(&greeting) && is_sound(fds[MEMORY]))
        peer = make_peer(fds[MEMORY], false);
    if (peer != NULL && send_fds(guest, "", 1, &shm->bell, 1)) {
        peer->bell = fds[BELL];
        close_fds(&fds[MEMORY], 1);
        return peer;
    }
    tell("the peer's memory");
    close_fds(fds, 2);
    if (peer != NULL)
        shm_peer_free(peer);
    return NULL;
}

/* ---- The side that connects ---- */

/* To whoever listens there, or at all addresses. -1 and errno. */
static int visit(const union soft_addr *remote)
{
    int fd = open_socket();

    for (int any = 0; any < 2 && fd != -1; any++) {
        struct sockaddr_un un;
        socklen_t length = name(&un, remote, any);

        if (connect(fd, (struct sockaddr *)&un, length) == 0)
            return fd;
    }
    close_fds(&fd, 1);
    return -1;
}

static bool greet(const struct shm *shm, const struct shm_peer *peer, const uint8_t token[SHM_TOKEN])
{
    const int fds[] = {peer->memory, shm->bell};
    struct greeting greeting = {
        .magic = MAGIC, .mtu = SHM_MTU, .ring_bytes = SHM_RING_BYTES, .area_bytes = sizeof(struct shm_area)};

    memcpy(greeting.token, token, SHM_TOKEN);
    return send_fds(peer->meeting, &greeting, sizeof greeting, fds, 2);
}

struct shm_peer *shm_offer(struct shm *shm, const union soft_addr *remote, uint8_t token[SHM_TOKEN])
{
    struct shm_peer *peer = NULL;
    int meeting = settings()->shm ? visit(remote) : -1, memory = -1;

    if (meeting == -1)
        return NULL; /* another host, most often */
    if (is_one_of_us(meeting) && may_have_another(shm) &&
        getrandom(token, SHM_TOKEN, GRND_NONBLOCK) == SHM_TOKEN && (memory = make_memory()) != -1)
        peer = make_peer(memory, true);
    if (peer != NULL) {
        peer->meeting = meeting;
        peer->memory = memory;
        if (greet(shm, peer, token))
            return peer;
    }
    tell("offering memory");
    if (peer != NULL) {
        shm_peer_free(peer);
        return NULL;
    }
    close_fds(&memory, 1);
    close_fds(&meeting, 1);
    return NULL;
}

/* The memory is mapped, so its descriptor makes way for the bell: there is room for it. */
int shm_accepted(struct shm_peer *peer)
{
    uint8_t byte;
    int error;

    close_fds(&peer->memory, 1);
    peer->memory = -1;
    error = receive_fds(peer->meeting, &byte, sizeof byte, &peer->bell, 1) ? 0 : errno;
    close_fds(&peer->meeting, 1);
    peer->meeting = -1;
    return error;
}
