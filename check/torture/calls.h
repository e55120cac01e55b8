/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls.h - the calls that are made to fail, and with which errors.
 *
 * CALL(name, L(lasting...), P(passing...))
 *
 * Lasting errors (a shortage, a refusal, a broken connection) are tried once and for good. Passing ones are
 * transient: the next call succeeds (after a signal, or when nothing was available yet). They are tried once
 * only, and neither end may notice them. Functions that libexs imports and that are not listed here are in
 * `spared`, with the reason.
 */
#ifndef TORTURE_CALLS_H
#define TORTURE_CALLS_H

#define TORTURE_CALLS(CALL)                                                                                    \
    /* memory */                                                                                               \
    CALL(malloc, L(ENOMEM), P(0))                                                                              \
    CALL(calloc, L(ENOMEM), P(0))                                                                              \
    CALL(realloc, L(ENOMEM), P(0))                                                                             \
    CALL(aligned_alloc, L(ENOMEM), P(0))                                                                       \
    CALL(posix_memalign, L(ENOMEM), P(0))                                                                      \
    CALL(strdup, L(ENOMEM), P(0))                                                                              \
    CALL(mmap, L(ENOMEM, EAGAIN), P(0))                                                                        \
    CALL(mprotect, L(ENOMEM), P(0))                                                                            \
    CALL(madvise, L(ENOMEM), P(0))                                                                             \
    CALL(memfd_create, L(EMFILE, ENOMEM), P(0))                                                                \
    CALL(ftruncate, L(ENOSPC, EINTR), P(0))                                                                    \
    CALL(process_vm_readv, L(ENOMEM, EPERM, ENOSYS), P(0))                                                     \
    /* sockets */                                                                                              \
    CALL(socket, L(EMFILE, ENFILE, ENOBUFS, ENOMEM, EACCES), P(0))                                             \
    CALL(socketpair, L(EMFILE, ENFILE, ENOMEM), P(0))                                                          \
    CALL(bind, L(EADDRINUSE, EADDRNOTAVAIL, EACCES, ENOMEM), P(0))                                             \
    CALL(listen, L(EADDRINUSE), P(0))                                                                          \
    CALL(accept4, L(EMFILE, ENFILE, ENOMEM, ENOBUFS), P(EINTR, ECONNABORTED, EAGAIN))                          \
    CALL(connect, L(ECONNREFUSED, ENETUNREACH, EADDRNOTAVAIL, ENOBUFS, ETIMEDOUT), P(0))                       \
    CALL(setsockopt, L(ENOMEM, ENOBUFS), P(0))                                                                 \
    CALL(getsockopt, L(ENOBUFS, ENOMEM), P(0))                                                                 \
    CALL(getsockname, L(ENOBUFS), P(0))                                                                        \
    CALL(getpeername, L(ENOBUFS, ENOTCONN), P(0))                                                              \
    CALL(shutdown, L(ENOTCONN), P(0))                                                                          \
    CALL(send, L(ECONNRESET, EPIPE, ENOBUFS), P(EINTR, EAGAIN))                                                \
    CALL(sendmsg, L(ENOBUFS, ENOMEM, EPERM, ENETUNREACH), P(EINTR, EAGAIN))                                    \
    CALL(sendmmsg, L(ENOBUFS, ENOMEM, EPERM), P(EINTR, EAGAIN))                                                \
    CALL(sendto, L(ENOBUFS, EPERM), P(EINTR, EAGAIN))                                                          \
    CALL(sendfile, L(EIO, ENOMEM, EINVAL), P(EINTR, EAGAIN))                                                   \
    CALL(recv, L(ECONNRESET, ENOMEM), P(EINTR, EAGAIN))                                                        \
    CALL(recvfrom, L(ENOMEM), P(EINTR, EAGAIN))                                                                \
    CALL(recvmsg, L(0), P(EINTR, EAGAIN, ECONNREFUSED, ENOMEM))                                                \
    CALL(recvmmsg, L(0), P(EINTR, EAGAIN, ECONNREFUSED, ENOMEM))                                               \
    /* waiting */                                                                                              \
    CALL(epoll_create1, L(EMFILE, ENFILE, ENOMEM), P(0))                                                       \
    CALL(epoll_ctl, L(ENOMEM, ENOSPC), P(0))                                                                   \
    CALL(epoll_wait, L(0), P(EINTR))                                                                           \
    CALL(poll, L(ENOMEM), P(EINTR))                                                                            \
    CALL(ppoll, L(ENOMEM), P(EINTR))                                                                           \
    CALL(eventfd, L(EMFILE, ENFILE, ENOMEM), P(0))                                                             \
    CALL(timerfd_create, L(EMFILE, ENFILE, ENOMEM), P(0))                                                      \
    CALL(pipe2, L(EMFILE, ENFILE), P(0))                                                                       \
    CALL(read, L(0), P(EINTR, EAGAIN))                                                                         \
    CALL(write, L(0), P(EINTR))                                                                                \
    CALL(eventfd_read, L(0), P(EAGAIN))                                                                        \
    CALL(getrandom, L(0), P(EINTR))                                                                            \
    /* files and interfaces */                                                                                 \
    CALL(open, L(EMFILE, ENFILE, ENOMEM, EACCES), P(EINTR))                                                    \
    CALL(fopen, L(EMFILE, ENFILE, ENOMEM), P(0))                                                               \
    CALL(fstat, L(EIO, ENOMEM), P(0))                                                                          \
    CALL(stat, L(EACCES, ENOMEM), P(0))                                                                        \
    CALL(lstat, L(EACCES, ENOMEM), P(0))                                                                       \
    CALL(mkdir, L(EACCES, ENOSPC, EROFS), P(0))                                                                \
    CALL(rename, L(EACCES, ENOSPC, EROFS), P(0))                                                               \
    CALL(unlink, L(EACCES, EROFS), P(0))                                                                       \
    CALL(fdopendir, L(EMFILE, ENOMEM), P(0))                                                                   \
    CALL(fstatfs, L(EIO, ENOMEM), P(0))                                                                        \
    CALL(fcntl, L(EMFILE), P(0)) /* F_DUPFD_CLOEXEC */                                                         \
    CALL(pread, L(EIO, ENOMEM), P(EINTR))                                                                      \
    CALL(preadv, L(EIO, ENOMEM), P(EINTR))                                                                     \
    CALL(pwrite, L(ENOSPC, EIO), P(EINTR))                                                                     \
    CALL(fallocate, L(ENOSPC, EOPNOTSUPP), P(EINTR))                                                           \
    CALL(getifaddrs, L(ENOMEM, EMFILE, ENOBUFS), P(0))                                                         \
    CALL(if_nameindex, L(ENOBUFS, EMFILE), P(0))                                                               \
    CALL(if_nametoindex, L(ENODEV, EMFILE), P(0))                                                              \
    CALL(if_indextoname, L(ENXIO, EMFILE), P(0))                                                               \
    CALL(ioctl, L(ENODEV, EPERM), P(0))                                                                        \
    CALL(gethostname, L(EPERM), P(0))                                                                          \
    /* threads: these return the error */                                                                      \
    CALL(pthread_create, L(EAGAIN), P(0))                                                                      \
    CALL(__register_atfork, L(ENOMEM), P(0))                                                                   \
    CALL(pthread_getattr_np, L(ENOMEM, EMFILE), P(0))                                                          \
    CALL(pthread_key_create, L(EAGAIN), P(0))                                                                  \
    CALL(pthread_setspecific, L(ENOMEM), P(0))

#endif
