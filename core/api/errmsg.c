/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * errmsg.c - exs_errmsg(): why the thread's last call has failed. A call that knows more than errno says has recorded a
 * text when it failed (log.h). For every other error the text is made here, when the program asks, so failing costs no
 * more than setting errno.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <exs.h>
#include <sys/stat.h>
#include "core/base/log.h"
#include "core/debug/misuse.h"
#include "core/sock/sock.h"

/* What an error means in this library, and what to do. */
static const struct hint {
    int error;
    const char *text;
} hints[] = {
    {EACCES, "the memory, the file or the port does not permit this access"},
    {EADDRINUSE, "another socket has this address and port"},
    {EADDRNOTAVAIL, "this host does not have this address"},
    {EAFNOSUPPORT,
     "the family must be AF_INET or AF_INET6, the same for socket and address, and the type SOCK_STREAM or "
     "SOCK_SEQPACKET"},
    {EAGAIN, "the operation would have to wait, or a resource is used up for the moment: try again later"},
    {EALREADY, "an earlier connect is still in progress"},
    {EBADF, "this is not the number of an open EXS socket"},
    {EBUSY, "it is still in use: wait for the pending operations, and close what belongs to it, first"},
    {ECANCELED, "exs_close or exs_cancel ended the operation, or an earlier send has failed"},
    {ECHILD, "this process was forked: call exs_init again in the child"},
    {ECONNABORTED, "the connection ended before it was accepted"},
    {ECONNREFUSED, "no EXS program listens at this address and port"},
    {ECONNRESET, "the connection is broken: the peer has closed it, or does not exist any more"},
    {EDOM, "the length of time is not valid"},
    {EDQUOT, "the user's quota of the disk is exhausted"},
    {EFAULT, "there is no memory at this address"},
    {EFBIG, "a file element has more than EXS_FILE_MAX bytes without EXS_BIGFILE, or a limit of the process is "
            "exceeded"},
    {EHOSTUNREACH, "no host has this address, or no route leads there"},
    {EINTR, "a signal handler ran, and the call has EXS_INTR"},
    {EINPROGRESS, "the connect continues in the background: wait for EXS_POLLOUT, then read SO_ERROR"},
    {EINVAL, "an argument is not valid, or does not fit the state of the socket"},
    {EIO, "the file became shorter, or cannot be read or written"},
    {EISCONN, "the socket is connected, or connecting, already"},
    {EISDIR, "the path is a directory"},
    {ELOOP, "the queue would watch itself, or the path has too many symbolic links"},
    {EMFILE, "the process has no descriptor left: raise ulimit -n, or close sockets"},
    {EMSGSIZE, "the message is longer than the device can send"},
    {ENAMETOOLONG, "the path or the host name is too long, or the buffer is too short for the name"},
    {ENETUNREACH, "no route leads to this address"},
    {ENFILE, "the system has no descriptor left"},
    {ENOBUFS, "the kernel has no memory for a socket"},
    {ENODEV, "no RDMA device leads to this address, or it is not a regular file"},
    {ENOENT, "the path does not exist"},
    {ENOMEM, "there is no memory, or a limit of memory is exceeded: see ulimit -l"},
    {ENOPROTOOPT, "there is no such option, or it cannot be changed"},
    {ENOSPC, "the device is full, or a limit of watched descriptors is exceeded"},
    {ENOTCONN, "connect the socket first; of a listener, the connection is the new socket of exs_accept"},
    {ENOTDIR, "a part of the path is not a directory"},
    {ENOTSUP, "the library does not have this version of the interface"},
    {ENXIO, "there is no such host or service"},
    {EOPNOTSUPP, "this call does not have this flag, or the socket or its device cannot do this"},
    {EPERM, "call exs_init first"},
    {EPIPE, "the socket was shut down for writing, or the peer has closed the connection"},
    {EPROTO, "the listener is not an EXS socket"},
    {EPROTONOSUPPORT,
     "the protocol must be 0, or IPPROTO_TCP for a SOCK_STREAM; a peer must have a version that fits"},
    {EPROTOTYPE, "one end is a SOCK_STREAM, and the other one a SOCK_SEQPACKET"},
    {ERANGE, "the peer has not exported all of this memory"},
    {EROFS, "the file system is read-only"},
    {ESOCKTNOSUPPORT, "the type must be SOCK_STREAM or SOCK_SEQPACKET"},
    {ETIMEDOUT, "the time is over, or the peer does not answer"},
};

static const char *hint_of(int error)
{
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (hints[i].error == error)
            return hints[i].text;
    return NULL;
}

/* "exs_send on socket 7: " */
static int write_call(char *out, size_t size)
{
    const struct last_call *last = &xs_last_call;
    const char *name = last->type != 0 ? xs_misuse_name(last->type) : last->name;

    if (last->sockno < 0)
        return snprintf(out, size, "%s: ", name);
    return snprintf(out, size, "%s on socket %d: ", name, last->sockno);
}

/* Puts the name of the call before a text that the call has recorded, once. */
static void complete_text(char *text)
{
    char call[64];
    int length = write_call(call, sizeof(call));

    if (strncmp(text, call, (size_t)length) == 0)
        return;
    memmove(text + length, text, ERRMSG_MAX - (size_t)length - 1);
    memcpy(text, call, (size_t)length);
    text[ERRMSG_MAX - 1] = 0;
}

/* A hint that depends on the socket, or NULL. */
static const char *hint_of_socket(int error, int sockno)
{
    struct stat status;

    if (error == EBADF && fstat(sockno, &status) == 0)
        return S_ISSOCK(status.st_mode) ? "this is a socket of the kernel: EXS needs the number that "
                                          "exs_socket or exs_accept returned"
                                        : "this is a file, and not an EXS socket";
    if (error == ETIMEDOUT)
        return xs_sock_is_broken(sockno) ? "the peer is gone: its host has stopped answering"
                                         : "the time limit of the operation is over";
    return NULL;
}

static void make_text(char *text, int error)
{
    const char *hint = xs_last_call.sockno >= 0 ? hint_of_socket(error, xs_last_call.sockno) : NULL;

    if (hint == NULL)
        hint = hint_of(error);
    int length = write_call(text, ERRMSG_MAX);

    snprintf(text + length, ERRMSG_MAX - (size_t)length, "%s%s%s", strerrordesc_np(error),
             hint != NULL ? ": " : "", hint != NULL ? hint : "");
}

const char *exs_errmsg(void)
{
    char *text = errmsg_text();
    int error = errno;

    if (error == 0 || (xs_last_call.name == NULL && xs_last_call.type == 0))
        return "no call of this thread has failed";
    if (error == xs_last_call.error)
        complete_text(text);
    else
        make_text(text, error);
    errno = error;
    return text;
}
