/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fds.c - the library's descriptors, in bitmaps that a forked child reads without a lock, since it must not wait for
 * one. See fds.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "fds.h"

/* the kernel's default maximum (fs.nr_open); descriptors above it are not recorded */
#define FDS_MAX (1 << 20)
#define FDS_BITS 64
#define SHARES 8 /* see fds_share() */
#define PRIVATE_MAX 512
#define FORK_WAIT_S 1

/* A bit is set and cleared only by the owner of the descriptor. Pairs with nothing, except that a forked child
 * reads it. */
typedef _Atomic uint64_t fds_bits[FDS_MAX / FDS_BITS];

static fds_bits owned, epolls; /* all descriptors; those of them that are epoll sets */

/* Held to remove a descriptor from an epoll set that may belong to another thread, and to clear an epoll set's
 * bit before it is closed: otherwise its number might stand for another file already. Last in the lock order; a
 * forked child initializes it again. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

/* Data about each descriptor. */
static struct {
    /* What had this number when fds_own() recorded it. Pairs with nothing: the reader got the number from the
     * thread that stored this. */
    _Atomic uint64_t identity;
    /* The number of epoll sets that contain it, and the last one of them, + 1; 0: unknown. Atomic only because
     * a forked child may read at any time: they pair with nothing. */
    _Atomic int count, epoll;
} known[FDS_MAX];

/* Use small pages for this table, most of which stays unused. With transparent huge pages the first write to it
 * would clear 2 MiB per process; therefore this runs before any write. If madvise() fails, the process uses
 * that memory. */
__attribute__((constructor)) static void use_small_pages(void)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = ((uintptr_t)known + page - 1) / page * page;

    (void)madvise((void *)start, ((uintptr_t)known + sizeof known) / page * page - start, MADV_NOHUGEPAGE);
}

/* ---- Forks ---- */

/* Held from the creation of a descriptor until it is recorded, and while the process forks. Taken before
 * `asking`; otherwise the last lock. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool fork_holds; /* true in the thread that forks, in both processes */

static void close_all(bool with_accepted);

void fds_hold_fork(void)
{
    pthread_mutex_lock(&making);
}

void fds_let_fork(void)
{
    pthread_mutex_unlock(&making);
}

/* A fork waits until the new descriptors of other threads are recorded. They make only system calls that don't
 * block. If one takes longer nevertheless, or the thread that forks holds the lock, the fork continues after
 * FORK_WAIT_S. */
void fds_before_fork(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FORK_WAIT_S;
    fork_holds = pthread_mutex_timedlock(&making, &until) == 0;
}

void fds_after_fork(void)
{
    if (fork_holds)
        pthread_mutex_unlock(&making);
    fork_holds = false;
}

/* If the fork did not wait for another thread's new descriptor, that may be a connection which is not recorded. */
void fds_after_fork_in_child(void)
{
    bool all_recorded = fork_holds;

    if (fork_holds)
        pthread_mutex_unlock(&making);
    else
        making = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* its holder exists only in the parent */
    fork_holds = false;
    close_all(!all_recorded);
}

#define UNTOLD 1 /* an identity: fstat() failed, for example because no memory was available */

static bool is_remembered(int fd)
{
    return fd >= 0 && fd < FDS_MAX;
}

static void set_bit(fds_bits bits, int fd, bool value)
{
    uint64_t bit;

    if (!is_remembered(fd)) /* also true for -1 */
        return;
    bit = UINT64_C(1) << (fd % FDS_BITS);
    if (value)
        atomic_fetch_or(&bits[fd / FDS_BITS], bit);
    else
        atomic_fetch_and(&bits[fd / FDS_BITS], ~bit);
}

static int above_standard(int fd)
{
    int higher, saved;

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    saved = errno;
    close(fd);
    errno = saved;
    return higher;
}

/* The first number for the library's private descriptors: half of the process's limit, so that the lower half
 * is left to the application. Read once; if the application lowers its limit later, private descriptors get low
 * numbers, too. */
static int first_private(void)
{
    static _Atomic int first; /* every thread computes the same value: pairs with nothing */
    int known = atomic_load_explicit(&first, memory_order_relaxed);
    struct rlimit limit;

    if (known != 0)
        return known;
    known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 2 < PRIVATE_MAX
                ? (int)(limit.rlim_cur / 2)
                : PRIVATE_MAX;
    if (known <= STDERR_FILENO)
        known = STDERR_FILENO + 1;
    atomic_store_explicit(&first, known, memory_order_relaxed);
    return known;
}

/* If no high number is free, the descriptor keeps its number. */
static int move_apart(int fd)
{
    int saved = errno;
    int apart = fd < 0 || fd >= first_private() ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, first_private());

    if (apart != -1)
        close(fd);
    errno = saved;
    return apart != -1 ? apart : above_standard(fd);
}

uint64_t fds_identity(int fd)
{
    int saved = errno;
    struct stat status;
    uint64_t identity = UNTOLD;

    if (fstat(fd, &status) == 0)
        identity = (uint64_t)status.st_dev << 40 ^ (uint64_t)status.st_ino ^ UINT64_C(1) << 63;
    else if (errno == EBADF)
        identity = 0;
    errno = saved;
    return identity;
}

bool fds_is(int fd, uint64_t identity)
{
    uint64_t now = fds_identity(fd);

    return now == identity || (now == UNTOLD && identity != 0) || (identity == UNTOLD && now != 0);
}

int fds_own_held(int fd)
{
    fd = above_standard(fd);
    fds_note(fd);
    fds_let_fork();
    return fd;
}

int fds_own_private_held(int fd)
{
    fd = move_apart(fd);
    fds_note(fd);
    fds_let_fork();
    return fd;
}

int fds_own_passed(int fd)
{
    fd = move_apart(fd);
    fds_note(fd);
    return fd;
}

void fds_note(int fd)
{
    if (is_remembered(fd))
        atomic_store(&known[fd].identity, fds_identity(fd));
    set_bit(owned, fd, true);
}

bool fds_is_own(int fd)
{
    return !is_remembered(fd) || fds_is(fd, atomic_load(&known[fd].identity));
}

/* ---- Epolls ---- */

int fds_epoll(void)
{
    int fd = fds_own(epoll_create1(EPOLL_CLOEXEC));

    set_bit(epolls, fd, true);
    return fd;
}

int fds_epoll_private(void)
{
    int fd = fds_own_private(epoll_create1(EPOLL_CLOEXEC));

    set_bit(epolls, fd, true);
    return fd;
}

int fds_watch(int epoll, int fd, struct epoll_event *event)
{
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, event) == -1)
        return -1;
    if (is_remembered(fd)) {
        known[fd].count++;
        known[fd].epoll = epoll + 1;
    }
    return 0;
}

int fds_watch_foreign(int epoll, int fd, struct epoll_event *event)
{
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, event);
}

int fds_rewatch(int epoll, int fd, struct epoll_event *event)
{
    return epoll_ctl(epoll, EPOLL_CTL_MOD, fd, event);
}

int fds_unwatch(int epoll, int fd)
{
    if (epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL) == -1)
        return -1;
    if (is_remembered(fd)) {
        known[fd].count--;
        if (known[fd].epoll == epoll + 1)
            known[fd].epoll = 0;
    }
    return 0;
}

static bool is_epoll(int fd)
{
    return is_remembered(fd) && (atomic_load(&epolls[fd / FDS_BITS]) >> (fd % FDS_BITS) & 1) != 0;
}

/* Called with `asking` held. */
static void unwatch_in_all(int fd)
{
    for (int word = 0; word < FDS_MAX / FDS_BITS; word++)
        for (uint64_t bits = atomic_load(&epolls[word]); bits != 0; bits &= bits - 1)
            (void)epoll_ctl(word * FDS_BITS + __builtin_ctzll(bits), EPOLL_CTL_DEL, fd, NULL);
}

/* Remove the descriptor from all epoll sets: first from the one that is recorded, which may be closed by now;
 * then its number stands for a descriptor that is no epoll set, or for one that does not contain it. If it is
 * still in others, try each epoll set. */
static void unwatch_everywhere(int fd)
{
    int saved = errno;

    if (is_remembered(fd) && known[fd].count == 0)
        return;
    pthread_mutex_lock(&asking);
    if (is_remembered(fd) && is_epoll(known[fd].epoll - 1))
        (void)fds_unwatch(known[fd].epoll - 1, fd);
    if (!is_remembered(fd) || known[fd].count > 0)
        unwatch_in_all(fd);
    pthread_mutex_unlock(&asking);
    if (is_remembered(fd))
        known[fd].count = known[fd].epoll = 0;
    errno = saved;
}

static void cross_off(int epoll)
{
    pthread_mutex_lock(&asking);
    set_bit(epolls, epoll, false);
    pthread_mutex_unlock(&asking);
}

/* ---- The end ---- */

void fds_disown(int fd)
{
    unwatch_everywhere(fd);
    set_bit(owned, fd, false);
    if (is_epoll(fd))
        cross_off(fd);
}

int fds_close(int fd)
{
    bool own = fds_is_own(fd);

    fds_disown(fd);
    if (own)
        return close(fd);
    errno = EBADF;
    return -1;
}

static void close_all(bool with_accepted)
{
    int saved = errno;

    asking = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* another thread of the parent may have held it */
    for (int word = 0; word < FDS_MAX / FDS_BITS; word++) {
        uint64_t bits = atomic_load(&owned[word]);

        if (bits != 0) {
            atomic_store(&owned[word], 0);
            atomic_store(&epolls[word], 0);
        }
        /* Don't remove them from their epoll sets: the parent shares these, and would lose them, too. */
        for (; bits != 0; bits &= bits - 1) {
            int fd = word * FDS_BITS + __builtin_ctzll(bits);

            known[fd].count = known[fd].epoll = 0;
            if (!fds_is_own(fd))
                continue;
            if (with_accepted)
                fds_close_accepted(fd, first_private());
            close(fd);
        }
    }
    errno = saved;
}

void fds_close_all(void)
{
    close_all(false);
}

void fds_read_text(const char *name, char *text, size_t size)
{
    int fd = fds_own(open(name, O_RDONLY | O_CLOEXEC));
    ssize_t length = fd == -1 ? 0 : read(fd, text, size - 1);

    if (fd != -1)
        fds_close(fd);
    text[length > 0 ? length : 0] = '\0';
}

unsigned fds_share(unsigned least, unsigned most)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == -1 || limit.rlim_cur / SHARES < least)
        return least;
    return limit.rlim_cur / SHARES < most ? (unsigned)(limit.rlim_cur / SHARES) : most;
}

unsigned fds_rank(int fd)
{
    return (unsigned)(fd >= first_private() ? fd - first_private() : fd);
}

int fds_set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value));
}

int fds_set_congestion(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

/* Uses syscall(), because read(2) and write(2) are cancellation points, which costs time, and the caller may
 * hold locks. */
static bool pass_count(long call, int fd, uint64_t *count)
{
    long done;

    do {
        done = syscall(call, fd, count, sizeof(*count));
    } while (done == -1 && errno == EINTR);
    return done == sizeof(*count);
}

bool fds_flag(int fd, bool up)
{
    uint64_t count = 1;

    return pass_count(up ? SYS_write : SYS_read, fd, &count);
}

uint64_t fds_flag_take(int fd)
{
    uint64_t count;

    return pass_count(SYS_read, fd, &count) ? count : 0;
}
