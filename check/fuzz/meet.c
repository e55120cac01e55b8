/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meet.c - fuzzes how two processes set up shared memory: the peer brings it to our listener, or accepts what we bring
 * to the peer's; later it writes to the notification bitmap. The peer sends a valid greeting in which any byte may be
 * changed. The descriptors with it are the right ones, or memory that can be truncated, pipes, sockets, or eventfds
 * that block. System calls may fail at any time.
 *
 * For every input: no descriptor leaks, nothing blocks, and accepted memory stays accessible to its last byte, although
 * the peer tries to truncate it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "check/fuzz/calls.h"
#include "check/fuzz/input.h"
#include "check/fuzz/sharing.h"
#include "check/support/endpoints.h"
#include "core/base/fds.h"
#include "core/base/settings.h"
#include "soft/engine/engine.h"
#include "soft/link/shm_setup.h"

#define MESSAGE 64 /* bytes; a greeting is shorter */
#define SLOT_AT 16 /* offset in a greeting */
#define TOKEN_AT 20
#define NO_SLOT UINT32_MAX

enum { ROUNDS = 60, STRANGERS = 4, CROWD = 64, PEERS = 4, FILES = 4, PORT = 4791 };

static struct meet_world {
    struct input input;
    struct sharing device;
    unsigned others; /* the number of other peers that the device believes to have */
    struct shm_setup *setup;
    int listener;          /* of the peer */
    int guests[STRANGERS]; /* the peer's sockets that are connected to our listener; -1: none */
    int cut;               /* the last memory that the peer has sent, or -1 */
    struct shm_peer *peers[PEERS];
    unsigned count;
    bool foreign; /* the peer's process belongs to another user */
} * world;

static uint8_t right[MESSAGE]; /* a valid greeting, as the library sends it */
static size_t right_length;

MAY_FAIL(void *, calloc, NULL, (size_t count, size_t size), (count, size))
MAY_FAIL(void *, mmap, MAP_FAILED, (void *at, size_t length, int protection, int flags, int fd, off_t offset),
         (at, length, protection, flags, fd, offset))
MAY_FAIL(int, memfd_create, -1, (const char *name, unsigned flags), (name, flags))
MAY_FAIL(int, ftruncate, -1, (int fd, off_t length), (fd, length))
MAY_FAIL(int, socket, -1, (int family, int type, int protocol), (family, type, protocol))
MAY_FAIL(int, bind, -1, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length))
MAY_FAIL(ssize_t, getrandom, -1, (void *bytes, size_t length, unsigned flags), (bytes, length, flags))
MAY_FAIL(ssize_t, sendmsg, -1, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
MAY_FAIL(ssize_t, recvmsg, -1, (int fd, struct msghdr *message, int flags), (fd, message, flags))
MAY_FAIL(int, fstat, -1, (int fd, struct stat *info), (fd, info))

MAY_FAIL(int, eventfd, -1, (unsigned start, int flags), (start, flags))
int __wrap_service_attach(struct service_member *member, int fd);
int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length);

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    int result = calls_fails() ? -1 : __real_getsockopt(fd, level, option, value, length);

    if (result == 0 && option == SO_PEERCRED && world->foreign)
        ((struct ucred *)value)->uid++;
    return result;
}

/* The service has no thread. */
int __wrap_service_attach(struct service_member *member, int fd)
{
    (void)member;
    (void)fd;
    return calls_fails() ? errno : 0;
}

/* The wire calls it when it creates its first eventfd. */
static int open_wire(struct soft_wire *wire, struct ibv_context *context)
{
    (void)wire;
    (void)context;
    return calls_fails() ? errno : 0;
}

/* ---- What the peer sends ---- */

/* An address on this host that no other process uses: the peer's, or that of our listener. */
static union soft_addr address(bool stranger)
{
    union soft_addr own = {.in6 = {.sin6_family = AF_INET, .sin6_port = htons((in_port_t)(PORT + stranger))}};

    own.in.sin_addr.s_addr = htonl(0x7f000000u | ((uint32_t)getpid() & 0xffffff));
    return own;
}

static socklen_t name(struct sockaddr_un *un, bool stranger)
{
    union soft_addr own = address(stranger);
    char text[INET_ADDRSTRLEN];
    int length;

    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    inet_ntop(AF_INET, &own.in.sin_addr, text, sizeof text);
    length = snprintf(un->sun_path + 1, sizeof un->sun_path - 1, "exs/%u/%s-%d", (unsigned)geteuid(), text,
                      ntohs(own.in.sin_port));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int memory(size_t length, int seals)
{
    int fd = __real_memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    expect(fd != -1 && __real_ftruncate(fd, (off_t)length) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0,
           "memory: %s", strerror(errno));
    return fd;
}

/* An eventfd whose counter is at its maximum: a write would block, if `flags` allow that. */
static int full_wakefd(int flags)
{
    const uint64_t most = UINT64_MAX - 1;
    int fd = __real_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    expect(fd != -1 && write(fd, &most, sizeof most) == sizeof most, "a wakefd: %s", strerror(errno));
    expect(fcntl(fd, F_SETFL, flags) == 0, "fcntl: %s", strerror(errno));
    return fd;
}

/* The first kinds are the right descriptors, in their order; then come wrong ones. */
static int make_file(unsigned kind)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    int pair[2], fd;

    switch (kind) {
    case 0:
        return memory(sizeof(struct shm_area), seals);
    case 1:
        return __real_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    case 2:
        return memory(sizeof(struct shm_bitmap), seals);
    case 3:
        return full_wakefd(0);
    case 4:
        return full_wakefd(O_NONBLOCK);
    case 5:
        return memory(sizeof(struct shm_area), 0);
    case 6:
        return memory(sizeof(struct shm_area), F_SEAL_GROW);
    case 7:
        return memory(4096 * input_below(&world->input, 256), seals);
    case 8:
        expect(pipe2(pair, O_CLOEXEC | O_NONBLOCK) == 0, "pipe: %s", strerror(errno));
        close(pair[0]);
        return pair[1];
    case 9:
        return __real_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    case 10:
        fd = epoll_create1(EPOLL_CLOEXEC);
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
        return fd;
    default:
        return open("/dev/null", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    }
}

/* Sends bytes with descriptors. How many, and whether one is of a wrong kind, is the input's choice; the right kinds
 * start at `first`. */
static void say(int fd, const void *bytes, size_t length, unsigned first)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(FILES * sizeof(int))] = {0};
    struct input *input = &world->input;
    uint8_t how = input_u8(input);
    size_t count = how & 3 ? (how & 3u) + (how & 4 ? 1 : 0) : 0;
    struct iovec vector = {(void *)(uintptr_t)bytes, length};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    int files[FILES];

    for (unsigned i = 0; i < count; i++)
        files[i] = make_file(how & 8 << i ? input_below(input, 12) : (first + i) % 3);
    if (count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        *CMSG_FIRSTHDR(&message) = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), files, count * sizeof(int));
    }
    (void)!__real_sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    for (unsigned i = 0; i < count; i++) {
        if (i == 0 && first == 0) {
            close(world->cut);
            world->cut = dup(files[i]);
        }
        close(files[i]);
    }
}

/* The peer connects to our listener and sends a greeting; all bytes of its token are equal. */
static void come_once(uint8_t how)
{
    struct input *input = &world->input;
    int *guest = &world->guests[how >> 3 & 3], fd;
    uint8_t greeting[MESSAGE], lies;
    struct sockaddr_un un;
    socklen_t length = name(&un, false);

    fd = __real_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connect(fd, (struct sockaddr *)&un, length) == -1) { /* the listener's backlog is full */
        close(fd);
        return;
    }
    memcpy(greeting, right, sizeof greeting);
    memset(greeting + TOKEN_AT, how >> 5 & 1, SHM_TOKEN);
    lies = input_u8(input);
    if (lies & 1)
        greeting[input_below(input, (uint32_t)right_length)] = input_u8(input);
    if (lies & 2) {
        uint32_t slot = input_u16(input);

        memcpy(greeting + SLOT_AT, &slot, sizeof slot);
    }
    if (lies & 12)
        say(fd, greeting, lies & 16 ? (size_t)(lies >> 5 << 3) : right_length, 0);
    if (lies & 32)
        shutdown(fd, SHUT_RDWR);
    close(*guest);
    *guest = fd;
}

/* The peer connects, perhaps after many others. */
static void come(uint8_t how)
{
    bool crowd = how & 64 && how & 128;

    for (int i = 0; i < (crowd ? CROWD : 0); i++) {
        struct sockaddr_un un;
        socklen_t length = name(&un, false);
        int fd = __real_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        (void)!connect(fd, (struct sockaddr *)&un, length);
        close(fd);
    }
    come_once(how);
}

/* ---- Our side ---- */

/* The memory is shared now: after the peer's attempt to truncate it, it must still be accessible to its last byte. */
static void keep(struct shm_peer *peer)
{
    if (world->count == PEERS) {
        shm_peer_free(peer);
        return;
    }
    (void)!__real_ftruncate(world->cut, 0);
    (void)*(volatile uint8_t *)((uint8_t *)(peer->area + 1) - 1);
    world->peers[world->count++] = peer;
    shm_assign(&world->device.shm, peer);
    shm_join(peer);
}

static void let_in(uint8_t how)
{
    uint8_t token[SHM_TOKEN];
    struct shm_refusal why;
    struct shm_peer *peer;
    int guest;

    memset(token, how >> 5 & 1, sizeof token);
    guest = shm_setup_find(world->setup, token);
    if (guest == -1)
        return;
    peer = shm_accept(&world->device.shm, guest, &why);
    expect(peer || (why.what && why.error != 0), "there is no link, and no reason");
    fds_close(guest);
    if (peer)
        keep(peer);
}

/* The peer accepts our connection. It may receive our greeting, and may reply. */
static void answer(uint8_t how)
{
    uint8_t bytes[MESSAGE];
    struct iovec vector = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    int guest = accept4(world->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    uint32_t slot = how & 16 ? input_u16(&world->input) : NO_SLOT;

    if (guest == -1)
        return;
    if (how & 32)
        (void)!__real_recvmsg(guest, &message, MSG_DONTWAIT);
    if (!(how & 64))
        say(guest, &slot, how & 128 ? sizeof slot / 2 : sizeof slot, 1);
    close(guest);
}

static void visit(uint8_t how)
{
    union soft_addr there = address(true);
    uint8_t token[SHM_TOKEN];
    struct shm_refusal why;
    struct shm_peer *peer = shm_offer(&world->device.shm, &there, token, &why);

    expect(peer || why.what, "there is no link, and no reason");
    answer(how);
    if (peer && shm_accepted(peer) == 0)
        keep(peer);
    else if (peer)
        shm_peer_free(peer);
}

/* Peers may write anything to the bitmap, and to the eventfd. */
static void call(uint8_t how)
{
    struct shm_slots *slots = world->device.shm.slots;
    struct input *input = &world->input;

    if (slots && how & 16)
        shm_bitmap_notify(slots->bitmap, input_below(input, SHM_SLOTS));
    if (slots && how & 32)
        atomic_store(&slots->bitmap->calls[input_u8(input)], input_u64(input));
    if (slots && how & 64)
        atomic_store(&slots->bitmap->sums[how & 3], input_u64(input));
    if (how & 128 && world->device.shm.ready)
        (void)fds_flag(world->device.shm.wakefd, true);
}

/* The listener closes and opens again. */
static void open_anew(void)
{
    union soft_addr own = address(false);

    shm_setup_close(world->setup);
    world->setup = shm_setup_open(&own);
    calls_fail(0, 0);
    if (!world->setup)
        world->setup = shm_setup_open(&own);
    expect(world->setup, "no setup: %s", strerror(errno));
}

/* Sends something to a peer and notifies it, or drops the link. */
static void use(uint8_t how)
{
    struct soft_path path = {.local.sa.sa_family = AF_INET};
    unsigned which = how >> 4 & 3;
    struct soft_link *link;
    size_t limit;
    uint8_t *at;

    if (which >= world->count)
        return;
    link = &world->peers[which]->link;
    soft_lock(world->device.shm.context);
    if (how & 128) {
        world->peers[which] = world->peers[--world->count];
        link->leave(link);
    } else if ((at = link->room(link, 64, &limit)) != NULL) {
        memset(at, 0, 64);
        link->send(link, &path, at, 64, 64);
        shm_sent(&world->device.shm);
    }
    soft_unlock(world->device.shm.context);
}

static void look(void)
{
    soft_lock(world->device.shm.context);
    soft_progress(world->device.shm.context);
    soft_unlock(world->device.shm.context);
}

/* Changes the conditions: the peer's user, how many peers and slots are free, and whether a system call fails. */
static void change(uint8_t how)
{
    static const int errors[] = {ENOMEM, EINTR, EMFILE, EAGAIN};

    world->foreign = how & 16;
    world->device.shm.most = how & 32 ? world->device.shm.count : SHM_PEERS;
    if (world->device.shm.slots)
        for (unsigned word = 0; word < SHM_SLOTS / 64; word++)
            if (how & 64)
                atomic_fetch_or(&world->device.shm.slots->reserved[word], UINT64_MAX);
    if (how & 128) {
        uint8_t when = input_u8(&world->input);

        calls_fail(when & 31, errors[when >> 5 & 3]);
    }
}

/* ---- An input ---- */

static void stranger_listens(void)
{
    struct sockaddr_un un;
    socklen_t length = name(&un, true);

    world->listener = __real_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    expect(__real_bind(world->listener, (struct sockaddr *)&un, length) == 0 && listen(world->listener, 8) == 0,
           "a listener: %s", strerror(errno));
}

/* Gets the greeting that the library sends, by a connection to our own listener; the peer's greetings are made from
 * it. */
static void learn(void)
{
    union soft_addr own = address(false);
    struct iovec vector = {right, sizeof right};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    uint8_t token[SHM_TOKEN];
    struct shm_refusal why;
    struct shm_peer *peer = shm_offer(&world->device.shm, &own, token, &why);
    int guest = peer ? shm_setup_find(world->setup, token) : -1;
    ssize_t got = guest == -1 ? -1 : __real_recvmsg(guest, &message, MSG_DONTWAIT);

    expect(got == TOKEN_AT + SHM_TOKEN && memcmp(right + TOKEN_AT, token, SHM_TOKEN) == 0,
           "a greeting is another: %zd bytes", got);
    right_length = (size_t)got;
    fds_close(guest);
    shm_peer_free(peer);
}

static void world_open(void)
{
    union soft_addr own = address(false);

    sharing_open(&world->device, open_wire);
    world->setup = shm_setup_open(&own);
    expect(world->setup, "no setup: %s", strerror(errno));
    world->cut = -1;
    for (int i = 0; i < STRANGERS; i++)
        world->guests[i] = -1;
    stranger_listens();
    if (right_length == 0)
        learn();
    world->others = input_u8(&world->input) & 1 ? SHM_UNSLOTTED : 0;
    world->device.shm.count = world->others;
}

static void world_close(void)
{
    calls_fail(0, 0);
    look();
    soft_lock(world->device.shm.context);
    for (unsigned i = 0; i < world->count; i++)
        world->peers[i]->link.leave(&world->peers[i]->link);
    soft_unlock(world->device.shm.context);
    expect(TAILQ_EMPTY(&world->device.shm.looked_at) && world->device.shm.count == world->others,
           "a peer is left");
    shm_setup_close(world->setup);
    expect(!soft_close(world->device.shm.context), "something is still in use");
    shm_end(&world->device.shm);
    for (int i = 0; i < STRANGERS; i++)
        close(world->guests[i]);
    close(world->cut);
    close(world->listener);
}

static void act(uint8_t how)
{
    switch (how & 7) {
    case 0:
    case 1:
        come(how);
        break;
    case 2:
        let_in(how);
        break;
    case 3:
        visit(how);
        break;
    case 4:
        call(how);
        break;
    case 5:
        use(how);
        break;
    case 6:
        change(how);
        return; /* so that the call fails in the next step */
    default:
        if (how & 128)
            open_anew();
        else
            look();
    }
    calls_fail(0, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct meet_world one = {.input = {data, size}};
    unsigned before = calls_descriptors(), after;

    expect(settings()->shm, "EXS_LINK says that nobody shares memory");
    world = &one;
    world_open();
    for (int round = 0; round < ROUNDS && input_left(&one.input) > 0; round++)
        act(input_u8(&one.input));
    world_close();
    after = calls_descriptors_left(before);
    expect(after == before, "%u descriptors before, and %u after", before, after);
    return 0;
}
