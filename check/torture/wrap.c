/* SPDX-License-Identifier: BSD-2-Clause */
/* wrap.c - the replaced functions, except those for memory (wrap_memory.c): each fails if fail_now() says so,
 * and otherwise calls the original function. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "wrap.h"

#define EXPORTED __attribute__((visibility("default")))

/* The next definition of this function, which is searched at the first call. */
#define NEXT(name)                                                                                             \
    ({                                                                                                         \
        static __typeof__(&name) next;                                                                         \
        if (next == NULL)                                                                                      \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                                         \
        next;                                                                                                  \
    })

#define WRAP(type, name, parameters, arguments, failure)                                                       \
    EXPORTED type name parameters                                                                              \
    {                                                                                                          \
        int error = fail_now(CALL_##name, __builtin_return_address(0));                                        \
                                                                                                               \
        if (error == 0)                                                                                        \
            return NEXT(name) arguments;                                                                       \
        errno = error;                                                                                         \
        return failure;                                                                                        \
    }

/* For functions of threads, which return the error. */
#define WRAP_RESULT(name, parameters, arguments)                                                               \
    EXPORTED int name parameters                                                                               \
    {                                                                                                          \
        int error = fail_now(CALL_##name, __builtin_return_address(0));                                        \
                                                                                                               \
        return error != 0 ? error : NEXT(name) arguments;                                                      \
    }

WRAP(int, madvise, (void *addr, size_t length, int advice), (addr, length, advice), -1)
WRAP(int, mprotect, (void *addr, size_t length, int access), (addr, length, access), -1)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
WRAP(int, ftruncate, (int fd, off_t length), (fd, length), -1)
WRAP(ssize_t, process_vm_readv,
     (pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,
      unsigned long remotes, unsigned long flags),
     (pid, local, locals, remote, remotes, flags), -1)
WRAP(int, socket, (int family, int type, int protocol), (family, type, protocol), -1)
WRAP(int, socketpair, (int family, int type, int protocol, int fds[2]), (family, type, protocol, fds), -1)
WRAP(int, bind, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length), -1)
WRAP(int, listen, (int fd, int backlog), (fd, backlog), -1)
WRAP(int, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags),
     (fd, address, length, flags), -1)
WRAP(int, connect, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length), -1)
WRAP(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t length),
     (fd, level, option, value, length), -1)
WRAP(int, getsockopt, (int fd, int level, int option, void *value, socklen_t *length),
     (fd, level, option, value, length), -1)
WRAP(int, getsockname, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length), -1)
WRAP(int, getpeername, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length), -1)
WRAP(int, shutdown, (int fd, int how), (fd, how), -1)
WRAP(ssize_t, send, (int fd, const void *bytes, size_t length, int flags), (fd, bytes, length, flags), -1)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), -1)
WRAP(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags), (fd, messages, count, flags),
     -1)
WRAP(ssize_t, sendto,
     (int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t to_length),
     (fd, bytes, length, flags, to, to_length), -1)
WRAP(ssize_t, recv, (int fd, void *bytes, size_t length, int flags), (fd, bytes, length, flags), -1)
WRAP(ssize_t, recvfrom,
     (int fd, void *bytes, size_t length, int flags, struct sockaddr *from, socklen_t *from_length),
     (fd, bytes, length, flags, from, from_length), -1)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1)
WRAP(int, recvmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit),
     (fd, messages, count, flags, limit), -1)
WRAP(int, epoll_create1, (int flags), (flags), -1)
WRAP(int, epoll_wait, (int epoll, struct epoll_event *events, int most, int limit),
     (epoll, events, most, limit), -1)
WRAP(int, poll, (struct pollfd * fds, nfds_t count, int limit), (fds, count, limit), -1)
WRAP(int, ppoll, (struct pollfd * fds, nfds_t count, const struct timespec *limit, const sigset_t *mask),
     (fds, count, limit, mask), -1)
WRAP(int, eventfd, (unsigned value, int flags), (value, flags), -1)
WRAP(int, eventfd_read, (int fd, eventfd_t *value), (fd, value), -1)
WRAP(int, timerfd_create, (int clock, int flags), (clock, flags), -1)
WRAP(int, pipe2, (int fds[2], int flags), (fds, flags), -1)
WRAP(ssize_t, read, (int fd, void *bytes, size_t length), (fd, bytes, length), -1)
WRAP(ssize_t, write, (int fd, const void *bytes, size_t length), (fd, bytes, length), -1)
WRAP(ssize_t, getrandom, (void *bytes, size_t length, unsigned flags), (bytes, length, flags), -1)
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL)
WRAP(int, fstat, (int fd, struct stat *status), (fd, status), -1)
WRAP(int, stat, (const char *path, struct stat *status), (path, status), -1)
WRAP(int, lstat, (const char *path, struct stat *status), (path, status), -1)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), -1)
WRAP(int, unlink, (const char *path), (path), -1)
WRAP(DIR *, fdopendir, (int fd), (fd), NULL)
WRAP(int, fstatfs, (int fd, struct statfs *status), (fd, status), -1)
WRAP(ssize_t, pread, (int fd, void *bytes, size_t length, off_t offset), (fd, bytes, length, offset), -1)
WRAP(ssize_t, sendfile, (int to, int from, off_t *offset, size_t count), (to, from, offset, count), -1)
WRAP(ssize_t, preadv, (int fd, const struct iovec *list, int count, off_t offset), (fd, list, count, offset),
     -1)
WRAP(ssize_t, pwrite, (int fd, const void *bytes, size_t length, off_t offset), (fd, bytes, length, offset), -1)
WRAP(int, fallocate, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length), -1)
WRAP(int, getifaddrs, (struct ifaddrs * *all), (all), -1)
WRAP(struct if_nameindex *, if_nameindex, (void), (), NULL)
WRAP(unsigned, if_nametoindex, (const char *name), (name), 0)
WRAP(char *, if_indextoname, (unsigned index, char name[IF_NAMESIZE]), (index, name), NULL)
WRAP(int, gethostname, (char *name, size_t length), (name, length), -1)
WRAP_RESULT(pthread_create,
            (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument),
            (thread, attributes, run, argument))
WRAP_RESULT(pthread_getattr_np, (pthread_t thread, pthread_attr_t *attributes), (thread, attributes))
WRAP_RESULT(pthread_key_create, (pthread_key_t * key, void (*end)(void *)), (key, end))
WRAP_RESULT(pthread_setspecific, (pthread_key_t key, const void *value), (key, value))

/* pthread_atfork() calls this. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);
WRAP_RESULT(__register_atfork, (void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object),
            (prepare, parent, child, object))

/* core/base/fds.c reads and writes eventfds through this. Other uses, like a mutex's wait, do not fail. */
EXPORTED long syscall(long number, ...)
{
    void *caller = __builtin_return_address(0);
    int error = number == SYS_read    ? fail_now(CALL_read, caller)
                : number == SYS_write ? fail_now(CALL_write, caller)
                                      : 0;
    va_list list;
    long argument[6];

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        argument[i] = va_arg(list, long);
    va_end(list);
    if (error == 0)
        return NEXT(syscall)(number, argument[0], argument[1], argument[2], argument[3], argument[4],
                             argument[5]);
    errno = error;
    return -1;
}

/* Removing a descriptor from an epoll instance always succeeds. */
EXPORTED int epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    int error = what != EPOLL_CTL_DEL ? fail_now(CALL_epoll_ctl, __builtin_return_address(0)) : 0;

    if (error == 0)
        return NEXT(epoll_ctl)(epoll, what, fd, event);
    errno = error;
    return -1;
}

/* Commands that create no descriptor cannot fail either. */
EXPORTED int fcntl(int fd, int command, ...)
{
    va_list arguments;

    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);

    int error = command == F_DUPFD_CLOEXEC || command == F_DUPFD
                    ? fail_now(CALL_fcntl, __builtin_return_address(0))
                    : 0;

    if (error == 0)
        return NEXT(fcntl)(fd, command, argument);
    errno = error;
    return -1;
}

EXPORTED int ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;

    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);

    int error = fail_now(CALL_ioctl, __builtin_return_address(0));

    if (error == 0)
        return NEXT(ioctl)(fd, request, argument);
    errno = error;
    return -1;
}

EXPORTED int open(const char *path, int flags, ...)
{
    va_list arguments;

    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);

    int error = fail_now(CALL_open, __builtin_return_address(0));

    if (error == 0)
        return NEXT(open)(path, flags, mode);
    errno = error;
    return -1;
}
