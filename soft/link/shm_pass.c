/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_pass.c - messages with descriptors: shm_pass.h. */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "core/base/fds.h"
#include "shm_pass.h"

#define TRIES 8
#define OVERFLOW_UID 65534 /* the default, if /proc can't be read */

/* Whether this is the overflow user ID, which stands for all users without a number in a user namespace, so that two of
 * these are not the same user. Not in a namespace that maps every user to its own number. */
static bool is_overflow_uid(uid_t uid)
{
    static atomic_uint overflow_uid; /* the overflow ID; 0: not read yet. Pairs with nothing */
    char line[64], *next = line;

    if (atomic_load_explicit(&overflow_uid, memory_order_relaxed) == 0) {
        fds_read_text("/proc/sys/kernel/overflowuid", line, sizeof line);
        atomic_store_explicit(&overflow_uid, line[0] == '\0' ? OVERFLOW_UID : (unsigned)strtoul(line, NULL, 10),
                              memory_order_relaxed);
    }
    if (uid != atomic_load_explicit(&overflow_uid, memory_order_relaxed))
        return false;
    fds_read_text("/proc/self/uid_map", line, sizeof line);
    return line[0] == '\0' || strtoul(next, &next, 10) != 0 || strtoul(next, &next, 10) != 0 ||
           strtoul(next, &next, 10) != UINT32_MAX;
}

socklen_t shm_pass_address(struct sockaddr_un *un, const char *name)
{
    size_t length = strlen(name);

    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(un->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

/* Whether the real, effective and saved user IDs of this process are `uid`. A server that has only changed its
 * effective user ID must not share memory with the user for which it acts: that user could then get the server's
 * rights. */
static bool has_one_user(uid_t uid)
{
    uid_t real, effective, saved;

    return getresuid(&real, &effective, &saved) == 0 && real == uid && effective == uid && saved == uid;
}

bool shm_pass_is_ours(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    bool ours;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == -1)
        return false;
    ours = has_one_user(peer.uid) && !is_overflow_uid(peer.uid);
    errno = EPERM;
    return ours;
}

bool shm_pass_send(int fd, const void *bytes, size_t length, const int *fds, size_t count)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(SHM_PASS_FDS * sizeof(int))] = {0};
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

/* Takes the descriptors of a message. The kernel drops those for which msg_controllen has no space; that is CMSG_LEN,
 * not CMSG_SPACE, whose padding has space for one more descriptor if their number is odd. */
static size_t take_fds(struct msghdr *message, int fds[SHM_PASS_FDS])
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    size_t count;

    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return 0;
    count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    for (size_t i = 0; i < count; i++)
        fds[i] = fds_own_passed(fds[i]);
    return count;
}

void shm_pass_close(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] != -1)
            fds_close(fds[i]);
}

/* Receives a message; tries again if a signal interrupted it, or there was no memory for a descriptor at that
 * moment. */
static ssize_t receive_retrying(int fd, struct msghdr *message)
{
    ssize_t got = -1;

    for (int tries = 0; tries < TRIES && got == -1; tries++)
        got = recvmsg(fd, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    return got;
}

static bool came_well(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] == -1)
            return false;
    return true;
}

bool shm_pass_receive(int fd, void *bytes, size_t length, int *fds, size_t least, size_t most)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(SHM_PASS_FDS * sizeof(int))];
    struct iovec vector = {bytes, length};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen =
                                 CMSG_LEN(SHM_PASS_FDS * sizeof(int))}; /* not CMSG_SPACE: see take_fds() */
    int came[SHM_PASS_FDS] = {-1, -1, -1};

    fds_hold_fork();
    ssize_t got = receive_retrying(fd, &message);
    size_t number = got == -1 ? 0 : take_fds(&message, came);

    fds_let_fork();
    if (got == (ssize_t)length && number >= least && number <= most &&
        (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0 && came_well(came, number)) {
        memcpy(fds, came, most * sizeof(int));
        return true;
    }
    shm_pass_close(came, number);
    if (got != -1)
        errno = message.msg_flags & MSG_CTRUNC ? EMFILE : EPROTO;
    return false;
}
