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
#include "shm_pass.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define MAGIC 0x45585368u /* and of this layout */
#define BACKLOG 128

/* From whoever connects; the memory and the bell come with it. From whoever listens only a byte, with the bell.
 */
struct greeting {
    uint32_t magic, mtu, ring_bytes, area_bytes;
    uint8_t token[SHM_TOKEN];
};

/* By errno. Returns NULL. */
static struct shm_peer *refuse(struct shm_refusal *why, const char *what)
{
    *why = (struct shm_refusal){what, errno};
    return NULL;
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
    shm_pass_close(&memory, 1);
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

/* Ringing must neither wait nor be a signal, as with a pipe; what isn't of a file system is an eventfd, or
 * can't be written to. */
static bool is_bell(int bell)
{
    struct stat info;
    int flags = fcntl(bell, F_GETFL);

    if (flags == -1 || fstat(bell, &info) == -1) {
        if (errno != ENOMEM && errno != EMFILE) /* a shortage is told as what it is */
            errno = EPROTO;
        return false;
    }
    errno = EPROTO;
    return (flags & O_NONBLOCK) != 0 && (info.st_mode & S_IFMT) == 0;
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
    error = shm_has_room(shm) ? shm_prepare(shm) : EUSERS;
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
    if (settings()->debug)
        fprintf(stderr, "exs: connections to this listener go by udp because nobody can bring memory: %s\n",
                strerror(errno));
    shm_pass_close(&meeting->fd, 1);
    free(meeting);
    return NULL;
}

void shm_meeting_close(struct shm_meeting *meeting)
{
    shm_pass_close(&meeting->fd, 1);
    shm_pass_close(meeting->guests, meeting->count);
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
        if (!shm_pass_is_ours(guest)) {
            shm_pass_close(&guest, 1);
            continue;
        }
        if (meeting->count == SHM_GUESTS) {
            shm_pass_close(meeting->guests, 1);
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
            shm_pass_close(&guest, 1);
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

struct shm_peer *shm_accept(struct shm *shm, int guest, struct shm_refusal *why)
{
    enum { MEMORY, BELL };
    struct shm_peer *peer = NULL;
    struct greeting greeting;
    int fds[2];

    if (!may_have_another(shm) || !shm_pass_receive(guest, &greeting, sizeof greeting, fds, 2))
        return refuse(why, "what the peer offers can't be taken");
    if (is_our_greeting(&greeting) && is_sound(fds[MEMORY]) && is_bell(fds[BELL]))
        peer = make_peer(fds[MEMORY], false);
    if (peer != NULL && shm_pass_send(guest, "", 1, &shm->bell, 1)) {
        peer->bell = fds[BELL];
        shm_pass_close(&fds[MEMORY], 1);
        return peer;
    }
    (void)refuse(why, "the peer's memory can't be used");
    shm_pass_close(fds, 2);
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
    shm_pass_close(&fd, 1);
    return -1;
}

static bool greet(const struct shm *shm, const struct shm_peer *peer, const uint8_t token[SHM_TOKEN])
{
    const int fds[] = {peer->memory, shm->bell};
    struct greeting greeting = {
        .magic = MAGIC, .mtu = SHM_MTU, .ring_bytes = SHM_RING_BYTES, .area_bytes = sizeof(struct shm_area)};

    memcpy(greeting.token, token, SHM_TOKEN);
    return shm_pass_send(peer->meeting, &greeting, sizeof greeting, fds, 2);
}

struct shm_peer *shm_offer(struct shm *shm, const union soft_addr *remote, uint8_t token[SHM_TOKEN],
                           struct shm_refusal *why)
{
    struct shm_peer *peer = NULL;
    int meeting = settings()->shm ? visit(remote) : -1, memory = -1;

    if (meeting == -1)
        return refuse(why, "nobody takes memory there, as on another host");
    if (shm_pass_is_ours(meeting) && may_have_another(shm) &&
        getrandom(token, SHM_TOKEN, GRND_NONBLOCK) == SHM_TOKEN && (memory = make_memory()) != -1)
        peer = make_peer(memory, true);
    if (peer != NULL) {
        peer->meeting = meeting;
        peer->memory = memory;
        if (greet(shm, peer, token))
            return peer;
    }
    (void)refuse(why, "no memory can be offered");
    if (peer != NULL) {
        shm_peer_free(peer);
        return NULL;
    }
    shm_pass_close(&memory, 1);
    shm_pass_close(&meeting, 1);
    return NULL;
}

/* The memory is mapped, so its descriptor makes way for the bell: there is room for it. */
int shm_accepted(struct shm_peer *peer)
{
    uint8_t byte;
    int error;

    shm_pass_close(&peer->memory, 1);
    peer->memory = -1;
    error =
        shm_pass_receive(peer->meeting, &byte, sizeof byte, &peer->bell, 1) && is_bell(peer->bell) ? 0 : errno;
    shm_pass_close(&peer->meeting, 1);
    peer->meeting = -1;
    return error;
}
