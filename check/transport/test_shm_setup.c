/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_shm_setup.c - how the two ends of a connection set up shared memory (shm_setup.h), and when they use another
 * link instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "check/support/abstract.h"
#include "check/support/endpoints.h"
#include "check/support/processes.h"
#include "core/base/fds.h"
#include "core/base/settings.h"
#include "soft/link/shm_setup.h"
#include "soft/link/shm_pass.h"
#include "soft/link/shm_sealed.h"
#include "soft/service/home.h"

static struct soft_home *here, *there;
static union soft_addr address;
static struct shm_setup *setup;
static uint8_t token[SHM_TOKEN];
static struct shm_refusal why;

static void begin(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* holds a port for this test */
    ck_assert_int_eq(setenv("EXS_LINK", "shm", 1), 0);
    settings_read(NULL);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&any, &length), 0);
    address = (union soft_addr){.in = any};
    here = home_open();
    there = home_open();
    setup = shm_setup_open(&address);
    ck_assert(here && there && setup);
}

static void end_of_it(void)
{
    shm_setup_close(setup);
    home_close(here);
    home_close(there);
}

static struct shm_peer *accept_it(void)
{
    int guest = shm_setup_find(setup, token);
    struct shm_peer *peer;
    ck_assert_int_ne(guest, -1);
    peer = shm_accept(&there->shm, guest, &why);
    close(guest);
    return peer;
}

/* Each end reads what the other wrote. */
START_TEST(two_come_to_share_memory)
{
    struct shm_peer *one = shm_offer(&here->shm, &address, token, &why), *other;
    struct shm_burst burst;
    size_t limit;
    uint8_t wrong[SHM_TOKEN] = {0}, *at;
    ck_assert_ptr_nonnull(one);
    ck_assert_int_eq(shm_setup_find(setup, wrong), -1);
    ck_assert_int_eq(ftruncate(one->memory, 4096), -1); /* the memory is sealed */
    ck_assert_int_eq(errno, EPERM);
    other = accept_it();
    ck_assert_ptr_nonnull(other);
    ck_assert_int_eq(shm_accepted(one), 0);
    ck_assert(one->wakefd != NULL && other->wakefd != NULL);
    ck_assert(one->memory == -1 && one->setup == -1 && other->memory == -1);
    ck_assert_int_eq(shm_setup_find(setup, token), -1);
    ck_assert_ptr_nonnull(at = shm_ring_room(&one->out, 5, &limit));
    memcpy(at, "hello", 5);
    shm_ring_put(&one->out, 5, 5, 0);
    ck_assert(shm_ring_next(&other->in, &burst) && burst.length == 5 && memcmp(burst.bytes, "hello", 5) == 0);
    ck_assert(!shm_ring_next(&one->in, &burst));
    shm_peer_free(one);
    shm_peer_free(other);
}
END_TEST

START_TEST(nobody_is_there)
{
    union soft_addr elsewhere = address;
    elsewhere.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    ck_assert_ptr_null(shm_offer(&here->shm, &elsewhere, token, &why));
    ck_assert_int_eq(setenv("EXS_LINK", "udp", 1), 0);
    settings_read(NULL);
    ck_assert_ptr_null(shm_offer(&here->shm, &address, token, &why));
}
END_TEST

/* A client that sent its memory and disconnected before its request leaves nothing behind at the listener. */
START_TEST(a_guest_who_left_is_not_kept)
{
    for (int i = 0; i < 3; i++) {
        struct shm_peer *gone = shm_offer(&here->shm, &address, token, &why);
        ck_assert_ptr_nonnull(gone);
        shm_peer_free(gone);
    }
    struct shm_peer *waiting = shm_offer(&here->shm, &address, token, &why);
    uint8_t wrong[SHM_TOKEN] = {0};
    ck_assert_ptr_nonnull(waiting);
    ck_assert_int_eq(shm_setup_find(setup, wrong), -1);
    ck_assert_uint_eq(setup->count, 1);
    int guest = shm_setup_find(setup, token);
    ck_assert_int_ne(guest, -1);
    close(guest);
    shm_peer_free(waiting);
}
END_TEST

/* Many clients at the same time; their requests are read in any order. */
START_TEST(many_guests)
{
    enum { MANY = 500 };
    static uint8_t tokens[MANY][SHM_TOKEN];
    struct shm_peer *peers[MANY];
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < MANY; i++)
        ck_assert_ptr_nonnull(peers[i] = shm_offer(&here->shm, &address, tokens[i], &why));
    for (int i = MANY - 1; i >= 0; i--) {
        int guest = shm_setup_find(setup, tokens[i]);
        ck_assert_int_ne(guest, -1);
        close(guest);
        shm_peer_free(peers[i]);
    }
    ck_assert_uint_eq(setup->count, 0);
}
END_TEST

/* A client whose first message has not arrived yet is kept, and found once it has. */
START_TEST(a_guest_who_says_nothing_yet)
{
    struct shm_peer *peer = shm_offer(&here->shm, &address, token, &why);
    int early = shm_listener_visit(&address), guest = shm_setup_find(setup, token);
    uint8_t wrong[SHM_TOKEN] = {0}, greeting[64];
    ck_assert_int_ne(early, -1);
    ck_assert_int_eq(shm_setup_find(setup, wrong), -1);
    ck_assert_uint_eq(setup->count, 1);
    ssize_t length = recv(guest, greeting, sizeof greeting, 0);
    ck_assert_int_gt(length, 0);
    ck_assert_int_eq(send(early, greeting, (size_t)length, 0), length);
    ck_assert_int_ne(shm_setup_find(setup, token), -1);
    shm_peer_free(peer);
}
END_TEST

/* Without free descriptors, or with a limit on the size of files, no offer is made, and nothing is left of the
 * attempt. */
START_TEST(whoever_lacks_something_goes_without)
{
    struct rlimit before, tight;
    struct shm_peer *peer = shm_offer(&here->shm, &address, token, &why); /* the context's eventfd stays open */
    int next = dup(0);
    shm_peer_free(peer);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    next = dup(0);
    close(next);
    for (rlim_t more = 0; more < 2; more++) {
        tight = (struct rlimit){(rlim_t)next + more, before.rlim_max};
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
        ck_assert_ptr_null(shm_offer(&here->shm, &address, token, &why));
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        int again = dup(0);
        ck_assert_int_eq(again, next);
        close(again);
    }
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = (struct rlimit){4096, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &tight), 0);
    ck_assert_ptr_null(shm_offer(&here->shm, &address, token, &why));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
}
END_TEST

/* Accepts a client's message in which the memory is replaced by this file. */
static void bring(int file)
{
    struct shm_peer *peer = shm_offer(&here->shm, &address, token, &why);
    ck_assert_ptr_nonnull(peer);
    int guest = shm_setup_find(setup, token), pair[2];
    uint8_t greeting[64], control[64];
    struct iovec vector = {greeting, sizeof greeting};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(guest, &message, 0);
    ck_assert_int_gt(length, SHM_TOKEN);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    vector.iov_len = (size_t)length;
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &file, sizeof file);
    ck_assert_int_eq(sendmsg(pair[0], &message, 0), length);
    ck_assert_ptr_null(shm_accept(&there->shm, pair[1], &why));
    close(pair[0]);
    close(pair[1]);
    close(guest);
    close(file);
    shm_peer_free(peer);
}

/* A file that could be truncated, is too short, or is no memory is refused. */
START_TEST(memory_is_looked_at)
{
    int unsealed = memfd_create("unsealed", MFD_ALLOW_SEALING),
        small = memfd_create("small", MFD_ALLOW_SEALING);
    ck_assert_int_eq(ftruncate(unsealed, sizeof(struct shm_area)), 0);
    ck_assert_int_eq(ftruncate(small, 4096), 0);
    ck_assert_int_eq(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    bring(unsealed);
    bring(small);
    bring(open("/dev/null", O_RDWR));
}
END_TEST

/* Huge pages, which other processes can take away, are refused. Where the system does not support them, the test
 * ends. */
START_TEST(huge_pages_are_no_memory)
{
    size_t length = 2 << 20;
    int huge = memfd_create("huge", MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (huge == -1 || ftruncate(huge, (off_t)length) != 0)
        return;
    ck_assert_int_eq(fcntl(huge, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    ck_assert_ptr_null(shm_sealed_map(huge, length));
    ck_assert_int_eq(errno, EPROTO);
    close(huge);
}
END_TEST

/* More descriptors than the message may have: the kernel drops the further ones, and none is kept. */
START_TEST(one_file_too_many)
{
    enum { MOST = SHM_PASS_FDS + 3 };
    int files[MOST], pair[2], fds[SHM_PASS_FDS];
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof files)];
    uint8_t byte = 1;
    struct iovec vector = {&byte, 1};
    for (int i = 0; i < MOST; i++)
        files[i] = 0;
    for (size_t count = SHM_PASS_FDS + 1; count <= MOST; count++) {
        struct msghdr message = {.msg_iov = &vector,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = CMSG_SPACE(count * sizeof(int))};
        int next = dup(0), again;
        close(next);
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        *CMSG_FIRSTHDR(&message) = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), files, count * sizeof(int));
        ck_assert_int_eq(sendmsg(pair[0], &message, 0), 1);
        ck_assert(!shm_pass_receive(pair[1], &byte, 1, fds, 0, SHM_PASS_FDS));
        ck_assert_int_eq(errno, EMFILE);
        close(pair[0]);
        close(pair[1]);
        again = dup(0);
        close(again);
        ck_assert_int_eq(again, next); /* none of them stays open */
    }
}
END_TEST

/* An end that agreed has reserved descriptors for eventfd and bitmap, so a shortage does not matter. */
START_TEST(there_is_room_for_the_wakefd)
{
    struct shm_peer *one = shm_offer(&here->shm, &address, token, &why), *other;
    struct rlimit before, tight;
    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_nonnull(other = accept_it());
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(0);
    close(next);
    tight = (struct rlimit){(rlim_t)next, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
    ck_assert_int_eq(shm_accepted(one), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    shm_peer_free(one);
    shm_peer_free(other);
}
END_TEST

/* A slot without a bitmap, a bitmap without a slot, a slot out of range, and invalid bitmaps are refused. */
START_TEST(a_bitmap_is_looked_at)
{
    int unsealed = memfd_create("unsealed", MFD_ALLOW_SEALING), wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct shm_slots *slots = shm_slots_new();
    ck_assert_int_eq(ftruncate(unsealed, sizeof(struct shm_bitmap)), 0);
    const struct {
        uint32_t slot;
        int bitmap;
    } cases[] = {{5, -1}, {UINT32_MAX, slots->memory}, {SHM_SLOTS, slots->memory}, {5, unsealed}, {5, wakefd},
                 {5, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shm_peer *peer = shm_offer(&here->shm, &address, token, &why);
        ck_assert_ptr_nonnull(peer);
        int guest = shm_setup_find(setup, token), fds[2] = {wakefd, cases[i].bitmap}, next = dup(0), again;
        close(next);
        ck_assert(
            shm_pass_send(guest, &cases[i].slot, sizeof cases[i].slot, fds, cases[i].bitmap == -1 ? 1 : 2));
        close(guest);
        ck_assert_int_eq(shm_accepted(peer), EPROTO);
        shm_peer_free(peer);
        again = dup(0);
        close(again);
        ck_assert_int_lt(again, next); /* none of the descriptors stays open */
    }
    shm_slots_leave(slots);
    close(unsealed);
    close(wakefd);
}
END_TEST

/* An end that agreed must send an eventfd; no descriptor, or one whose write would block or raise a signal, is
 * refused. */
START_TEST(a_wakefd_is_looked_at)
{
    int full[2], blocks = eventfd(0, EFD_CLOEXEC), file = memfd_create("wakefd", MFD_CLOEXEC);
    ck_assert_int_eq(pipe2(full, O_NONBLOCK | O_CLOEXEC), 0);
    int wakefds[] = {-1, full[1], blocks, file};
    for (size_t i = 0; i < sizeof wakefds / sizeof *wakefds; i++) {
        struct shm_peer *peer = shm_offer(&here->shm, &address, token, &why);
        ck_assert_ptr_nonnull(peer);
        int guest = shm_setup_find(setup, token);
        ck_assert_int_ne(guest, -1);
        if (wakefds[i] != -1)
            ck_assert(shm_pass_send(guest, &(uint32_t){UINT32_MAX}, sizeof(uint32_t), &wakefds[i], 1));
        close(guest);
        ck_assert_int_eq(shm_accepted(peer), EPROTO);
        shm_peer_free(peer);
    }
    close(full[0]);
    close(full[1]);
    close(blocks);
    close(file);
}
END_TEST

static int next_fd(void)
{
    int next = dup(0);
    close(next);
    return next;
}

/* However many connections two contexts have, each keeps one descriptor of the other's eventfd, until the last
 * connection is freed, in any order. */
START_TEST(a_wakefd_is_kept_once)
{
    enum { PAIRS = 4 };
    struct shm_peer *ones[PAIRS], *others[PAIRS];
    int before[2] = {0};
    for (int i = 0; i < PAIRS; i++) {
        ck_assert_ptr_nonnull(ones[i] = shm_offer(&here->shm, &address, token, &why));
        ck_assert_ptr_nonnull(others[i] = accept_it());
        ck_assert_int_eq(shm_accepted(ones[i]), 0);
        before[i == 0] = next_fd();
        ck_assert(i == 0 || (ones[i]->wakefd == ones[0]->wakefd && others[i]->wakefd == others[0]->wakefd));
    }
    int kept[2] = {ones[0]->wakefd->fd, others[0]->wakefd->fd};
    ck_assert_int_ne(kept[0], kept[1]);
    ck_assert_int_eq(before[0], before[1]);
    service_suspend(&here->service); /* otherwise the service threads would read the eventfds */
    service_suspend(&there->service);
    for (int i = 0; i < PAIRS; i++) {
        ck_assert(fds_flag(ones[i]->wakefd->fd, true) && fds_flag(others[i]->wakefd->fd, true));
        ck_assert_int_eq(read(here->shm.wakefd, &(uint64_t){0}, sizeof(uint64_t)), sizeof(uint64_t));
        ck_assert_int_eq(read(there->shm.wakefd, &(uint64_t){0}, sizeof(uint64_t)), sizeof(uint64_t));
        shm_peer_free(ones[i]);
        shm_peer_free(others[i]);
    }
    ck_assert(fcntl(kept[0], F_GETFD) == -1 && fcntl(kept[1], F_GETFD) == -1);
}
END_TEST

static struct shm_wakefd *another_wakefd(void)
{
    return shm_wakefd_take(fds_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
}

/* The eventfd is found again when it is sent again, also after others were received. */
static bool is_found(const struct shm_wakefd *wakefd)
{
    const struct shm_wakefd *others[] = {another_wakefd(), another_wakefd()};
    return fds_flag(wakefd->fd, true) && others[0] != others[1] &&
           shm_wakefd_take(fds_own(dup(wakefd->fd))) == wakefd;
}

/* In a forked child the library's descriptors are closed, and their numbers may be those of other files: a new eventfd
 * does not use an old entry, and freeing an old entry closes no new file. */
START_TEST(a_child_has_wakefds_of_its_own)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), same = dup(fd), again = dup(fd);
    struct shm_wakefd *before = shm_wakefd_take(fds_own(fd));
    ck_assert_ptr_nonnull(before);
    ck_assert_ptr_eq(shm_wakefd_take(fds_own(same)), before);
    ck_assert_int_eq(fcntl(same, F_GETFD), -1);
    pid_t child = fork();
    if (child == 0) {
        shm_wakefd_forget();
        struct shm_wakefd *after = shm_wakefd_take(fds_own(again));
        shm_wakefd_give_back(before);
        shm_wakefd_give_back(before);
        _exit(after != NULL && after != before && after->fd == again && is_found(after) ? 0 : 1);
    }
    process_join(child);
    shm_wakefd_give_back(before);
    ck_assert(fds_flag(fd, true));
    shm_wakefd_give_back(before);
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
    ck_assert(is_found(shm_wakefd_take(fds_own(again))));
}
END_TEST

/* Connects to the listener's abstract socket. */
static int stand_at_the_listener(void)
{
    char name[40];
    snprintf(name, sizeof name, "exs/0/127.0.0.1-%d", ntohs(address.in.sin_port));
    return abstract_visit(name);
}

/* A client of another user is refused, whatever it sends. Only root can test this. */
START_TEST(another_user_is_no_guest)
{
    if (geteuid() != 0)
        return;
    memset(token, 7, sizeof token);
    pid_t child = fork();
    if (child == 0) {
        uint8_t greeting[32];
        memset(greeting, 7, sizeof greeting);
        _exit(setuid(65534) == 0 &&
                      send(stand_at_the_listener(), greeting, sizeof greeting, 0) == sizeof greeting
                  ? 0
                  : 1);
    }
    process_join(child);
    ck_assert_int_eq(shm_setup_find(setup, token), -1);
}
END_TEST

/* Returns a connection that its peer does not read: closing it takes SECONDS, because of SO_LINGER. */
#define SECONDS 60

static int one_that_lingers(int listener)
{
    static const char much[65536];
    struct sockaddr_in to;
    socklen_t length = sizeof to;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    getsockname(listener, (struct sockaddr *)&to, &length);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, SECONDS}, sizeof(struct linger)) != 0)
        return -1;
    while (send(fd, much, sizeof much, MSG_DONTWAIT) > 0)
        ;
    return fd;
}

/* The library closes a descriptor that a refused client sent without waiting for it. */
START_TEST(a_stranger_who_lingers)
{
    if (geteuid() != 0)
        return;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    pid_t child = fork();
    if (child == 0) {
        int brought = one_that_lingers(listener);
        _exit(setuid(65534) == 0 && shm_pass_send(stand_at_the_listener(), "", 1, &brought, 1) ? 0 : 1);
    }
    process_join(child);
    time_t begun = time(NULL);
    ck_assert_int_eq(shm_setup_find(setup, token), -1);
    ck_assert_int_lt(time(NULL) - begun, SECONDS / 2);
    close(listener);
}
END_TEST

/* Another user fills the queue of the abstract socket: clients use the other socket, and that user's connections are
 * refused. */
START_TEST(a_door_full_of_strangers)
{
    if (geteuid() != 0)
        return;
    int full[2];
    ck_assert_int_eq(pipe(full), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setuid(65534) == 0)
            while (stand_at_the_listener() != -1)
                ; /* until the queue is full */
        _exit(write(full[1], "", 1) == 1 && pause() ? 0 : 1);
    }
    ck_assert_int_eq(read(full[0], &(char){0}, 1), 1);
    struct shm_peer *peer = shm_offer(&here->shm, &address, token, &why), *other;
    ck_assert_ptr_nonnull(peer);
    ck_assert_ptr_nonnull(other = accept_it());
    shm_peer_free(peer);
    shm_peer_free(other);
    ck_assert_uint_eq(setup->count, 0);
    process_kill(child);
    close(full[0]);
    close(full[1]);
}
END_TEST

/* A process with several user IDs, which can change between users, belongs to none of them; `_i`: which of its user IDs
 * is different. */
START_TEST(one_of_two_users)
{
    if (geteuid() != 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        int both[2];
        uid_t ids[3] = {65533, 65533, 65533};
        ids[_i] = 0;
        if (setresuid(ids[0], ids[1], ids[2]) != 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, both) != 0)
            _exit(1);
        _exit(shm_pass_is_ours(both[0]) ? 2 : errno != EPERM);
    }
    process_join(child);
    child = fork();
    if (child == 0) {
        int both[2];
        _exit(setresuid(65533, 65533, 65533) == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, both) == 0 &&
                      shm_pass_is_ours(both[0])
                  ? 0
                  : 1);
    }
    process_join(child);
}
END_TEST

/* In a user namespace without a mapping all users have the same ID, so no client is trusted. */
START_TEST(a_user_without_a_number)
{
    pid_t child = fork();
    if (child == 0) {
        int pair[2];
        if (unshare(CLONE_NEWUSER) != 0) /* some systems forbid it */
            _exit(getenv("EXS_NO_SKIP") == NULL ? 0 : 2);
        _exit(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0 && !shm_pass_is_ours(pair[0]) ? 0 : 1);
    }
    process_join(child);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shm meet");
    TCase *tcase = new_case(suite, "meet");
    tcase_add_checked_fixture(tcase, begin, end_of_it);
    tcase_add_test(tcase, two_come_to_share_memory);
    tcase_add_test(tcase, nobody_is_there);
    tcase_add_test(tcase, a_guest_who_left_is_not_kept);
    tcase_add_test(tcase, many_guests);
    tcase_add_test(tcase, a_guest_who_says_nothing_yet);
    tcase_add_test(tcase, whoever_lacks_something_goes_without);
    tcase_add_test(tcase, memory_is_looked_at);
    tcase_add_test(tcase, huge_pages_are_no_memory);
    tcase_add_test(tcase, one_file_too_many);
    tcase_add_test(tcase, there_is_room_for_the_wakefd);
    tcase_add_test(tcase, a_wakefd_is_looked_at);
    tcase_add_test(tcase, a_wakefd_is_kept_once);
    tcase_add_test(tcase, a_child_has_wakefds_of_its_own);
    tcase_add_test(tcase, a_bitmap_is_looked_at);
    tcase_add_test(tcase, another_user_is_no_guest);
    tcase_add_test(tcase, a_stranger_who_lingers);
    tcase_add_test(tcase, a_door_full_of_strangers);
    tcase_add_loop_test(tcase, one_of_two_users, 0, 3);
    tcase_add_test(tcase, a_user_without_a_number);
    return run_suite(suite);
}
