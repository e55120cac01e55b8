/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exs.h - Extended Sockets over RDMA.
 *
 * Three families of names, each marked below:
 *   [ES-API]  the Open Group's Extended Sockets API, Issue 1.0
 *   [UNH]     additions of UNH EXS, the library of the University of New Hampshire
 *   [ours]    additions of this library
 * The numeric value of every constant is ours: no source gives the originals.
 *
 * The contract of every call that moves data or changes a connection:
 *   - Without EXS_BLOCK it returns 0 when the operation was started, and exactly one
 *     event follows on the queue that the call named; or it returns -1, sets errno,
 *     and no event follows, ever.
 *   - With EXS_BLOCK it returns when the operation is done: the bytes moved for
 *     exs_send, exs_recv, exs_read, exs_write, exs_sendmsg, exs_recvmsg, exs_recvfile, exs_rread and
 *     exs_rwrite, how many are ready for exs_poll, 0 for the others; -1 and errno on failure.
 *   - The buffer of a transfer belongs to the library until then.
 * Any call may be made from any thread.
 */
#ifndef EXS_H
#define EXS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- Versions and handles ------------------------------------------------------------ */

/* [ours] The version of this header; exs_version_string() has that of the library that the program runs with. */
#define EXS_VERSION_MAJOR 3
#define EXS_VERSION_MINOR 0
#define EXS_VERSION_PATCH 0
/* [ours] The same as one number that grows with each version: 0x030000 is 3.0.0. */
#define EXS_VERSION_HEX ((EXS_VERSION_MAJOR << 16) | (EXS_VERSION_MINOR << 8) | EXS_VERSION_PATCH)

/* [ES-API] The version of the interface. */
#define EXS_VERSION1 1
/* [ES-API] What a program passes to exs_init. */
#define EXS_VERSION EXS_VERSION1

/* [ES-API] An event queue; opaque. */
typedef struct exs_queue *exs_qhandle_t;
/* [ES-API] A region of registered memory; opaque. */
typedef struct exs_memory *exs_mhandle_t;
/* [ES-API] Any pointer of the program's, which the event returns. */
typedef void *exs_ahandle_t;

/* [ES-API] What exs_qcreate returns on failure. */
#define EXS_QHANDLE_INVALID ((exs_qhandle_t)-1)
/* [ES-API] What exs_mregister returns on failure. */
#define EXS_MHANDLE_INVALID ((exs_mhandle_t)-1)
/* [ES-API] In a transfer, like NULL: the library registers the buffer, or copies it. */
#define EXS_MHANDLE_UNREGISTERED ((exs_mhandle_t)-2)

/* ---- Flags of calls, in numeric order --------------------------------------------------- */

/* [UNH] The call returns when the operation is done, and posts no event. */
#define EXS_BLOCK 0x00200000
/* [UNH] Calls that send, and exs_rwrite: an operation that succeeds has no event. */
#define EXS_UNSIGNALED 0x00400000
/* [ours] exs_sendfile and exs_recvfile: an element may be longer than EXS_FILE_MAX. */
#define EXS_BIGFILE 0x00800000
/* [ours] exs_cancel: it cancels operations with any ahandle. */
#define EXS_CANCEL_ALL 0x02000000
/* [ours] exs_accept: it accepts every connection, each with an event, until it is cancelled. */
#define EXS_MULTISHOT 0x04000000
/* [ours] exs_close: what was sent is delivered before the socket is closed. See SO_LINGER. */
#define EXS_LINGER 0x08000000
/* [ours] With EXS_BLOCK: the call fails with EINTR when a signal handler has run. exs_poll, exs_shutdown and exs_close
 * do not take it. */
#define EXS_INTR 0x10000000
/* Flags of sockets that calls take as well. exs_recv, exs_recvmsg: MSG_WAITALL completes only when the whole buffer is
 * filled. exs_send, exs_sendmsg, exs_sendfile: MSG_NOSIGNAL changes nothing, because no call of this library raises
 * SIGPIPE. exs_send, exs_recv, exs_sendmsg, exs_recvmsg: with MSG_DONTWAIT they do what can be done at once, or fail
 * with EAGAIN. exs_recv, exs_recvmsg of a SOCK_STREAM: with MSG_PEEK they copy what has arrived, and leave it to be
 * received. */

/* ---- Flags of exs_mregister --------------------------------------------------------------- */

/* [ES-API] The flag changes nothing: every region can be used with every queue. */
#define EXS_MRF_SHARED 0x1
/* [UNH] Receives into this region fail. */
#define EXS_MRF_RECV_DISABLE 0x2
/* [ours] Sends from this region fail. */
#define EXS_MRF_SEND_DISABLE 0x4

/* ---- Flags of exs_mexport: what the peer may do ---------------------------------------------- */

/* [ours] The peer may call exs_rread. */
#define EXS_REMOTE_READ 0x1
/* [ours] The peer may call exs_rwrite. */
#define EXS_REMOTE_WRITE 0x2

/* ---- Flags of events ------------------------------------------------------------------------ */

/* [ours] The orderly end of the stream has ended the receive. An event may also have MSG_TRUNC. */
#define EXS_EOF 0x01000000

/* ---- Options of exs_setsockopt ---------------------------------------------------------------- */

/* [ours] At SOL_SOCKET, int: a send beyond SO_SNDBUF fails with EAGAIN. */
#define EXS_SO_SENDLIMIT 0x45580001

/* ---- Limits -------------------------------------------------------------------------- */

/* [ES-API] The largest number of events of one exs_qdequeue. */
#define EXS_EVTVEC_MAX 1024
/* [ours] The largest number of elements of one exs_sendfile or exs_recvfile. */
#define EXS_XFV_MAX 64
/* [ours] The largest number of elements of one exs_sendmsg or exs_recvmsg. */
#define EXS_IOV_MAX 1024
/* [ours] The longest exs_send or exs_recv, in bytes. */
#define EXS_MSG_MAX ((size_t)1 << 40)
/* [UNH] The longest file element without EXS_BIGFILE, in bytes. */
#define EXS_FILE_MAX ((size_t)1 << 30)
/* [ours] The largest number of elements of one exs_poll. */
#define EXS_POLLFD_MAX 65536
/* [ours] The largest depth for exs_qcreate, in events. */
#define EXS_QDEPTH_MAX (1 << 20)
/* [ours] The largest exs_wait_us, in microseconds. */
#define EXS_WAIT_US_MAX 1000000
/* [ours] The size of an exported region's token, in bytes. */
#define EXS_TOKEN_SIZE 40

/* ---- File vectors -------------------------------------------------------------------- */

/* Types of an element */
/* [ES-API] The element is memory. */
#define EXS_IOVEC 1
/* [ES-API] The element is a range of an open file. */
#define EXS_FDVEC 2
/* [UNH] The element is a range of a file that has this path. */
#define EXS_PATHVEC 3

/* [ES-API] In exs_flags of an element: writing is shut down after it. */
#define EXS_SHUT_WR 1

typedef struct exs_iovec { /* [ES-API] type, fields ours */
    void *exs_base;
    size_t exs_length; /* bytes */
    exs_mhandle_t exs_mhandle;
    int exs_flags; /* 0; in exs_sendfile also EXS_SHUT_WR */
} exs_iovec_t;

typedef struct exs_fdvec { /* [ES-API] */
    int exs_fildes;        /* an open regular file; the application may close it when the call has returned */
    off_t exs_offset;      /* bytes from the start of the file */
    /* Bytes. 0 in exs_sendfile: up to the end of the file; in exs_recvfile: up to the end of the stream. */
    size_t exs_length;
    int exs_flags; /* 0; in exs_sendfile also EXS_SHUT_WR */
} exs_fdvec_t;

typedef struct exs_pathvec { /* [UNH] */
    off_t exs_offset;        /* bytes from the start of the file */
    size_t exs_length;       /* as in exs_fdvec */
    int exs_flags;           /* 0; in exs_sendfile also EXS_SHUT_WR */
    const char *exs_path;    /* path to the file */
} exs_pathvec_t;

union exs_xfvec { /* [ES-API]; exs_pathv [UNH] */
    exs_iovec_t exs_iov;
    exs_fdvec_t exs_fdv;
    exs_pathvec_t exs_pathv;
};

typedef struct exs_xferfile { /* [ES-API] */
    int exs_xfv_type;         /* EXS_IOVEC, EXS_FDVEC or EXS_PATHVEC */
    union exs_xfvec exs_xfv;
} exs_xferfile_t;

/* ---- Message vectors ------------------------------------------------------------------ */

typedef struct exs_msghdr { /* [ES-API] type, fields ours */
    /* Pieces of memory, in their order. The caller may reuse the array when the call has returned. */
    exs_iovec_t *exs_iov;
    int exs_iovlen;    /* number of pieces, 1 to EXS_IOV_MAX */
    int exs_msg_flags; /* out, in an exs_recvmsg with EXS_BLOCK: MSG_TRUNC and EXS_EOF, as in an event */
} exs_msghdr_t;

/* ---- Polling --------------------------------------------------------------------------- */

/* [ES-API] A receive, or an accept, would not wait. */
#define EXS_POLLIN 0x01
/* [ES-API] A send would not wait. */
#define EXS_POLLOUT 0x04
/* [ours] The connection is broken. This and the following need not be in exs_events to be reported. */
#define EXS_POLLERR 0x08
/* [ours] There is no connection, or both directions have ended. */
#define EXS_POLLHUP 0x10
/* [ours] The number is not that of an open socket or file. */
#define EXS_POLLNVAL 0x20

typedef struct exs_pollfd { /* [ES-API] type, fields ours: those of poll(2)'s struct pollfd */
    int exs_fd;             /* an EXS socket or any other descriptor; if negative, the element is ignored */
    short exs_events;       /* EXS_POLLIN, EXS_POLLOUT; for other descriptors any events of poll(2) */
    short exs_revents; /* out: those of exs_events, and of the events that are always reported, that are true */
} exs_pollfd_t;

/* ---- Events -------------------------------------------------------------------------- */

enum { /* exs_evt_type; names [ES-API] but SHUTDOWN and CLOSE [UNH], RREAD and RWRITE [ours] */
       EXS_EVT_CONNECT = 1,
       EXS_EVT_ACCEPT,
       EXS_EVT_SEND,
       EXS_EVT_RECV,
       EXS_EVT_SENDFILE,
       EXS_EVT_SHUTDOWN,
       EXS_EVT_CLOSE,
       EXS_EVT_RREAD,
       EXS_EVT_RWRITE,
       EXS_EVT_SENDMSG,
       EXS_EVT_RECVMSG,
       EXS_EVT_RECVFILE,
       EXS_EVT_POLL
};

typedef struct exs_evt_accept {    /* EXS_EVT_ACCEPT; fields ours */
    int exs_evt_newsocket;         /* the new socket; -1 if exs_evt_errno is not 0 */
    struct sockaddr *exs_evt_addr; /* exs_addr of the element: the peer's address; or NULL */
    socklen_t exs_evt_addrlen;     /* bytes of the peer's address, even if the memory at exs_addr was shorter */
} exs_evt_accept_t;

typedef struct exs_evt_xfer { /* EXS_EVT_SEND, EXS_EVT_RECV, EXS_EVT_RREAD, EXS_EVT_RWRITE; fields ours */
    void *exs_evt_buffer;     /* the buffer that was passed to the call */
    size_t exs_evt_length;    /* bytes transferred */
    int exs_evt_flags;        /* MSG_TRUNC: a SEQPACKET message was longer than the buffer; EXS_EOF */
} exs_evt_xfer_t;

typedef struct exs_evt_xfermsg {    /* EXS_EVT_SENDMSG, EXS_EVT_RECVMSG: [ES-API] type, fields ours */
    struct exs_msghdr *exs_evt_msg; /* the message that was passed to the call */
    size_t exs_evt_length;          /* bytes transferred */
    int exs_evt_flags;              /* MSG_TRUNC: a SEQPACKET message was longer than all pieces; EXS_EOF */
} exs_evt_xfermsg_t;

typedef struct exs_evt_xferfile {     /* EXS_EVT_SENDFILE, EXS_EVT_RECVFILE; fields ours */
    struct exs_xferfile *exs_evt_vec; /* the vector that was passed to the call */
    int exs_evt_vec_cnt;
    int exs_evt_flags;    /* in EXS_EVT_RECVFILE: MSG_TRUNC and EXS_EOF, as in EXS_EVT_RECVMSG */
    off_t exs_evt_length; /* bytes transferred, of all elements */
} exs_evt_xferfile_t;

typedef struct exs_evt_poll {           /* EXS_EVT_POLL: [ES-API] type, fields ours */
    struct exs_pollfd *exs_evt_pollfds; /* the array that was passed to the call */
    int exs_evt_pollfd_cnt;
    int exs_evt_ready; /* number of elements whose exs_revents is not 0; 0: the timeout has passed */
} exs_evt_poll_t;

typedef struct exs_event {         /* [ES-API]; exs_evt_type is known, the other names are ours */
    int exs_evt_type;              /* EXS_EVT_... */
    int exs_evt_errno;             /* 0, or the errno with which the operation failed */
    int exs_evt_socket;            /* the socket that the operation was started on */
    exs_ahandle_t exs_evt_ahandle; /* the ahandle that was passed to the call */
    union {
        exs_evt_accept_t exs_evt_accept;
        exs_evt_xfer_t exs_evt_xfer;
        exs_evt_xfermsg_t exs_evt_xfermsg;
        exs_evt_xferfile_t exs_evt_xferfile;
        exs_evt_poll_t exs_evt_poll;
    } exs_evt_union;
    uint64_t exs_evt_spare[2]; /* [ours] 0; reserved for fields of later versions */
} exs_event_t;

/* [ours] The result of the operation: the bytes that a transfer moved, the new socket of an accept, how many elements
 * of an exs_poll are ready; 0 for the other types. If the operation failed, -errno; exs_evt_union then still has the
 * bytes that a transfer moved before. */
static inline ssize_t exs_event_result(const exs_event_t *event)
{
    if (event->exs_evt_errno != 0)
        return -event->exs_evt_errno;
    switch (event->exs_evt_type) {
    case EXS_EVT_ACCEPT:
        return event->exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    case EXS_EVT_SEND:
    case EXS_EVT_RECV:
    case EXS_EVT_RREAD:
    case EXS_EVT_RWRITE:
        return (ssize_t)event->exs_evt_union.exs_evt_xfer.exs_evt_length;
    case EXS_EVT_SENDMSG:
    case EXS_EVT_RECVMSG:
        return (ssize_t)event->exs_evt_union.exs_evt_xfermsg.exs_evt_length;
    case EXS_EVT_SENDFILE:
    case EXS_EVT_RECVFILE:
        return (ssize_t)event->exs_evt_union.exs_evt_xferfile.exs_evt_length;
    case EXS_EVT_POLL:
        return event->exs_evt_union.exs_evt_poll.exs_evt_ready;
    default:
        return 0;
    }
}

/* [ours] The flags of a transfer's event, MSG_TRUNC and EXS_EOF; 0 for the other types. */
static inline int exs_event_flags(const exs_event_t *event)
{
    switch (event->exs_evt_type) {
    case EXS_EVT_SEND:
    case EXS_EVT_RECV:
    case EXS_EVT_RREAD:
    case EXS_EVT_RWRITE:
        return event->exs_evt_union.exs_evt_xfer.exs_evt_flags;
    case EXS_EVT_SENDMSG:
    case EXS_EVT_RECVMSG:
        return event->exs_evt_union.exs_evt_xfermsg.exs_evt_flags;
    case EXS_EVT_SENDFILE:
    case EXS_EVT_RECVFILE:
        return event->exs_evt_union.exs_evt_xferfile.exs_evt_flags;
    default:
        return 0;
    }
}

typedef struct exs_acceptaddr { /* [ES-API] type, fields ours: one for each connection to accept */
    struct sockaddr *exs_addr;  /* memory for the peer's address, or NULL */
    socklen_t exs_addrlen;      /* in: bytes of that memory; out: bytes of the address */
    int exs_socket;             /* out: the new socket */
    exs_ahandle_t exs_ahandle;  /* exs_evt_ahandle of this connection's event */
    /* [ours] Neither read nor changed; a later version that uses it will require a flag. */
    uint64_t exs_spare[2];
} exs_acceptaddr_t;

/* ---- The library --------------------------------------------------------------------- */

/* [ES-API] The first call of a process. Until it or exs_init_config has succeeded every call but exs_errmsg,
 * exs_strevent and exs_version_string fails with EPERM, and in a forked child with ECHILD. A call after one that has
 * succeeded returns 0 and counts: the program, and each library in it that uses EXS, call exs_init and exs_fini
 * without regard to the others. ENOTSUP: the version is not known. ENODEV, EINVAL: the environment is not valid. */
int exs_init(int version);

/* [ours] The same as the variable's 0. A field that is 0 leaves the default. */
#define EXS_CONFIG_OFF (-1)
/* [ours] In exs_check: the first misuse aborts the program. */
#define EXS_CHECK_ABORT 2

/* [ours] The level of a line of the log: the smallest exs_debug with which it is written. */
enum {
    EXS_LOG_ALWAYS, /* what EXS_CHECK reports, and what the administrator has to know */
    EXS_LOG_DEBUG,  /* what failed, and why */
    EXS_LOG_TRACE   /* each operation: its start and its end */
};

/* [ours] What exs_init_config sets. A field that is 0 or NULL leaves the default. Each field but the log and the
 * limits has the values of an environment variable, which exs(7) describes and which takes precedence where it is
 * set, except in a program that has more rights than the user who started it. */
typedef struct exs_config {
    size_t exs_size;                /* bytes of this struct; EXS_CONFIG_INIT sets it */
    const char *exs_device;         /* EXS_DEVICE. The caller may free the strings when the call has returned */
    const char *exs_link;           /* EXS_LINK */
    const char *exs_tcp_congestion; /* EXS_TCP_CONGESTION */
    const char *exs_roce;           /* EXS_ROCE */
    /* This function gets each line of the log, without "exs: " and the newline, in place of standard error. Any thread
     * may call it, also one of the library, but one at a time, until the last exs_fini has returned. It must not call this
     * library. */
    void (*exs_log)(void *context, int level, const char *text);
    void *exs_log_context;
    int exs_spin_us;   /* EXS_SPIN, microseconds, 1 to EXS_WAIT_US_MAX, or EXS_CONFIG_OFF */
    int exs_map;       /* EXS_MAP: 1 or EXS_CONFIG_OFF */
    int exs_immediate; /* EXS_IMMEDIATE: 1 or EXS_CONFIG_OFF */
    int exs_debug;     /* EXS_DEBUG: 1 or 2 */
    int exs_check;     /* EXS_CHECK: 1 or EXS_CHECK_ABORT */
    int exs_rcvbuf;    /* SO_RCVBUF of new STREAM sockets, bytes; see exs_setsockopt */
    int exs_sndbuf;    /* SO_SNDBUF of new sockets, bytes */
    int exs_half_open; /* maximum number of half-open connections of one listener */
    /* Maximum bytes of all receive buffers of the process that have grown. */
    uint64_t exs_ring_bytes;
} exs_config_t;

#define EXS_CONFIG_INIT                                                                                        \
    {                                                                                                          \
        sizeof(exs_config_t), NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0                    \
    }

/* [ours] Like exs_init, with a configuration, which may be NULL. The struct may be of an older or of a newer
 * version: see exs_size. Where the library is in use already, a field that is set and has another value there is
 * EALREADY; else the call counts. ENOTSUP, EINVAL, ENODEV. */
int exs_init_config(int version, const exs_config_t *config);

/* [ours] It is called once for each exs_init that has succeeded. The last call ends the use of the library: from
 * then on every call fails with EPERM, until exs_init. EBUSY, and nothing changes: it would be the last call, and
 * there are sockets, queues or registered memory. */
int exs_fini(void);

/* [ours] Returns the version of the library, for example "3.0.0", and never NULL. See EXS_VERSION_MAJOR. */
const char *exs_version_string(void);

/* [ours] Returns one sentence that says why the calling thread's last call failed: which argument, which value,
 * which limit. It depends on errno, so it is called before anything that changes errno. Never NULL. The text is
 * valid until the thread's next call of this library. */
const char *exs_errmsg(void);

/* ---- Sockets ------------------------------------------------------------------------- */

/* [UNH] Makes a socket. family: PF_INET or PF_INET6. socktype: SOCK_STREAM or SOCK_SEQPACKET, and [ours]
 * SOCK_NONBLOCK (see exs_fcntl) or SOCK_CLOEXEC, which is set anyway. protocol: 0, or IPPROTO_TCP for a SOCK_STREAM.
 * Returns a file descriptor of the process that only this library's calls understand. */
int exs_socket(int family, int socktype, int protocol);

/* [UNH] Gives the socket a local address. */
int exs_bind(int sockno, const struct sockaddr *address, socklen_t address_len);

/* [UNH] From now on connection requests wait until accepts ask for them. While no accept is pending at most `backlog`
 * wait (0 counts as 1), and the library refuses others. */
int exs_listen(int sockno, int backlog);

/* [ES-API] Accepts addrvec_cnt connections, with an event (EXS_EVT_ACCEPT) for each element, which must be valid
 * until then. With EXS_BLOCK addrvec_cnt must be 1, and the new socket is in addrvec->exs_socket. With EXS_MULTISHOT
 * [ours] the one element, without an exs_addr, stands for every connection, each with an event, until exs_cancel or
 * exs_close. The event with an error is the last one. */
int exs_accept(int sockno, exs_acceptaddr_t *addrvec, int addrvec_cnt, int flags, exs_qhandle_t qhandle);

/* [ES-API] Connects the socket within `timeout`; NULL: within 30 seconds. EXS_EVT_CONNECT. */
int exs_connect(int sockno, const struct sockaddr *address, socklen_t address_len, int flags,
                const struct timeval *timeout, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [ours] Connects the socket to a host and service, each a name or a number as for getaddrinfo(3). Their addresses
 * are tried in turn, each for an equal part of the time that is left. A thread of the library looks up names, so no
 * call and no loop waits for a name server. EXS_EVT_CONNECT. ENXIO: there is no such host. EAGAIN: the name server
 * does not answer. Otherwise the error is that of the last address. */
int exs_connect_host(int sockno, const char *host, const char *service, int flags,
                     const struct timeval *timeout, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [UNH] Ends a direction of the connection. how: SHUT_RD, SHUT_WR or SHUT_RDWR. What was sent before is delivered
 * first. EXS_EVT_SHUTDOWN. */
int exs_shutdown(int sockno, int how, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [UNH] Closes the socket. Pending operations complete with ECANCELED first. EXS_EVT_CLOSE; if the queue is NULL
 * there is no event. With EXS_LINGER [ours] or SO_LINGER, sends are completed before. If they were not,
 * EXS_EVT_CLOSE, or the call that waits, has the reason: ETIMEDOUT when the time is over, or what broke the
 * connection. The socket is closed then, too. */
int exs_close(int sockno, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [ES-API] name, the rest ours: Cancels the socket's pending operations that have this ahandle, or all with
 * EXS_CANCEL_ALL, and returns their number. Each ends once, soon: with ECANCELED and the bytes that had moved, or as
 * it would have ended anyway. The connection stays open. EBADF, EINVAL. */
int exs_cancel(int sockno, exs_ahandle_t ahandle, int flags);

/* [UNH] Like fcntl(2), with F_GETFL, F_SETFL (O_NONBLOCK), F_GETFD and F_SETFD (FD_CLOEXEC). EINVAL: any other
 * command. */
int exs_fcntl(int sockno, int cmd, ...);

/* [ours] Like getsockname(2). */
int exs_getsockname(int sockno, struct sockaddr *address, socklen_t *address_len);

/* [ours] Like getpeername(2). */
int exs_getpeername(int sockno, struct sockaddr *address, socklen_t *address_len);

/* [ours] Like getsockopt(2), at SOL_SOCKET. It reads the options of exs_setsockopt, and what a socket is, each an
 * int: SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN, and SO_ERROR, which is why the connection is broken and which
 * reading does not clear. ENOPROTOOPT, EINVAL, EFAULT. */
int exs_getsockopt(int sockno, int level, int option, void *value, socklen_t *value_len);

/* [ours] Like setsockopt(2), at SOL_SOCKET unless another level is given here.
 * SO_RCVBUF, int: the bytes that may arrive while no receive is started, rounded up. It is set before the socket
 * connects.
 * SO_SNDBUF, int: the bytes that may be pending in sends; INT_MAX: any number. A send beyond that fails with EAGAIN
 * if it has MSG_DONTWAIT, or if EXS_SO_SENDLIMIT, int, is 1 and the send does not block.
 * SO_RCVTIMEO and SO_SNDTIMEO, struct timeval, {0,0} for none: receives and accepts, and sends, that are started
 * from then on and take longer end with ETIMEDOUT and the bytes that had moved. The connection stays open.
 * SO_KEEPALIVE, int: an idle peer is probed every TCP_KEEPIDLE seconds, with TCP_KEEPINTVL and TCP_KEEPCNT, all int
 * at IPPROTO_TCP; if it does not answer, the connection ends with ETIMEDOUT.
 * TCP_USER_TIMEOUT, int at IPPROTO_TCP: the milliseconds for which a host may acknowledge nothing that was sent over
 * TCP; 0: 20 s.
 * SO_REUSEADDR, int: exs_bind takes an address that other sockets with this option have.
 * IPV6_V6ONLY, int at IPPROTO_IPV6: the socket takes no IPv4. It is set before the socket is bound.
 * SO_LINGER, struct linger: if it is on, exs_close waits l_linger seconds until what was sent has arrived; 0: it
 * discards that.
 * Accepted connections begin with the options of their listener, except the limits of time.
 * ENOPROTOOPT, EINVAL, EFAULT, EDOM, EISCONN. */
int exs_setsockopt(int sockno, int level, int option, const void *value, socklen_t value_len);

/* [ours] Stores the name of the RDMA device of this connection ("soft0", "mlx5_0", ...), or the kinds of device that
 * a listener uses ("soft", "rdma,soft"), in at most `size` bytes with the terminating zero. ENOTCONN, EFAULT,
 * EINVAL, ENAMETOOLONG. */
int exs_getdevice(int sockno, char *name, size_t size);

/* [ES-API] name, the rest ours: Waits until one of `count` sockets or other descriptors is ready, or until the
 * timeout is over (NULL: it has none). There is one event, EXS_EVT_POLL; with EXS_BLOCK the call returns the number
 * that are ready, or 0 when the time is over. `fds` belongs to the library until then. EINVAL, EBADF, EMFILE,
 * ENOMEM. */
int exs_poll(exs_pollfd_t *fds, int count, int flags, const struct timeval *timeout, exs_qhandle_t qhandle,
             exs_ahandle_t ahandle);

/* ---- Transfers ----------------------------------------------------------------------- */

/* [ES-API] Send and receive bytes, or a message. mhandle: the region that has the buffer, or NULL. EXS_EVT_SEND,
 * EXS_EVT_RECV. */
ssize_t exs_send(int sockno, const void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                 exs_ahandle_t ahandle, exs_mhandle_t mhandle);
ssize_t exs_recv(int sockno, void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                 exs_ahandle_t ahandle, exs_mhandle_t mhandle);

/* [ES-API] names, the rest ours: Send from, and receive into, several pieces of memory, in their order. On a
 * SOCK_SEQPACKET they are one message. EXS_EVT_SENDMSG, EXS_EVT_RECVMSG. */
ssize_t exs_sendmsg(int sockno, const exs_msghdr_t *message, int flags, exs_qhandle_t qhandle,
                    exs_ahandle_t ahandle);
ssize_t exs_recvmsg(int sockno, exs_msghdr_t *message, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [ES-API] Sends files, ranges of files and memory, in their order. EXS_EVT_SENDFILE. The vector is only read, and
 * is the caller's again on return; it is const since 3.0 [ours]. */
ssize_t exs_sendfile(int sockno, const exs_xferfile_t *sendvec, int sendvec_cnt, int flags,
                     exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [UNH] names, the rest ours: Receives into files, ranges of files and memory. It is done when all elements are
 * full, when the peer has shut down writing, or, on a SOCK_SEQPACKET, when one message has arrived.
 * EXS_EVT_RECVFILE. */
ssize_t exs_recvfile(int sockno, const exs_xferfile_t *recvvec, int recvvec_cnt, int flags,
                     exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* ---- Registered memory --------------------------------------------------------------- */

/* [ES-API] Registers memory for transfers. flags: EXS_MRF_. EINVAL: the size is 0, the address is NULL, or a flag is
 * not known. EACCES: the memory's protection does not permit it. ENOMEM: there is no memory. If pinned memory is
 * limited, the first transfer that uses the region fails. */
exs_mhandle_t exs_mregister(void *addr, size_t size, int flags);

/* [ES-API] Ends the registration. flags: 0. EINVAL: the handle is not that of a region. EBUSY: a transfer uses it. */
int exs_mderegister(exs_mhandle_t mhandle, int flags);

/* ---- One-sided operations [ours] ------------------------------------------------------- */

/* What the owner of memory gives to its peer, by a send or otherwise: the right to use the memory on one connection.
 * It consists of plain bytes, which are the same on every machine. */
typedef struct exs_token {
    unsigned char exs_bytes[EXS_TOKEN_SIZE];
} exs_token_t;

/* Lets the peer of this connection use `length` bytes at `addr`, which are in the region. access: EXS_REMOTE_. The
 * device permits the peer exactly these bytes and rights. The region can't be deregistered before exs_munexport or
 * the end of the socket. EACCES: the region's flags forbid it. */
int exs_mexport(int sockno, exs_mhandle_t mhandle, void *addr, size_t length, int access, exs_token_t *token);

/* Ends the peer's right: it can't use the memory any more when this call has returned. EINVAL: the socket has not
 * given out this token. */
int exs_munexport(int sockno, const exs_token_t *token);

/* Read from, and write into, what the peer has exported, from its byte `offset` on, without the peer's program.
 * EXS_EVT_RREAD, EXS_EVT_RWRITE. ERANGE: not all of it was exported. EACCES: it was not exported for this use. */
ssize_t exs_rread(int sockno, void *buffer, size_t length, const exs_token_t *token, uint64_t offset, int flags,
                  exs_qhandle_t qhandle, exs_ahandle_t ahandle, exs_mhandle_t mhandle);
ssize_t exs_rwrite(int sockno, const void *buffer, size_t length, const exs_token_t *token, uint64_t offset,
                   int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle, exs_mhandle_t mhandle);

/* ---- Event queues -------------------------------------------------------------------- */

/* [ES-API] Makes an event queue. depth: the number of operations for which the queue has memory in advance, 0 to
 * EXS_QDEPTH_MAX. Further operations allocate memory, and lose no event either. */
exs_qhandle_t exs_qcreate(int depth);

/* [ES-API] Deletes the queue. EBUSY: operations are in progress, or sockets live on this queue (exs_qstatus). */
int exs_qdelete(exs_qhandle_t qhandle);

/* [ES-API] Stores events in evtvec, and returns their number; 0: the timeout is over. With NULL as its timeout it
 * waits for an event, with {0,0} it does not wait. */
int exs_qdequeue(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt, const struct timeval *timeout);

/* [ours] Returns the descriptor that a loop watches for reading, level-triggered: it is readable while exs_qdequeue
 * has something to do. It belongs to the queue. */
int exs_qfd(exs_qhandle_t qhandle);

/* [ours] A value of budget_us, for event loops: the time that the queue's mode (EXS_SPIN, exs_qmodify) gives to an
 * iteration. A thread that has got events with it must call exs_qpoll or exs_qprepare again: until then the library may
 * hold back short sends of the thread, to send several of them as one message. */
#define EXS_LOOP_BUDGET (-1)

/* [ours] Like exs_qdequeue with {0,0}. If there is no event, it polls for up to budget_us microseconds, 0 to
 * EXS_WAIT_US_MAX, without sleeping. */
int exs_qpoll(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt, int budget_us);

/* [ours] Says that this thread has handled its events and is about to wait for exs_qfd. The device sends what it
 * held back to send it along with an answer. */
int exs_qprepare(exs_qhandle_t qhandle);

/* [ES-API] exs_qmodify changes exs_depth. */
#define EXS_QATTR_DEPTH 0x1
/* [UNH] exs_qmodify changes exs_wait and exs_wait_us. */
#define EXS_QATTR_WAIT 0x2

enum { /* [UNH] exs_wait: what exs_qdequeue, and a blocking call on a socket that lives on the queue, do until
          there is something */
       EXS_WAIT_NOTIFY = 1,
       EXS_WAIT_ADAPTIVE,
       EXS_WAIT_BUSY_POLL
};

typedef struct exs_qattr { /* [ours] */
    int exs_depth;         /* depth, as for exs_qcreate */
    int exs_wait;    /* NOTIFY: sleep; ADAPTIVE: busy-poll for a while, then sleep; BUSY_POLL: never sleep */
    int exs_wait_us; /* ADAPTIVE: the time to busy-poll, 1 to EXS_WAIT_US_MAX microseconds; else 0 */
} exs_qattr_t;

typedef struct exs_qstatus { /* [ours] */
    exs_qattr_t exs_attr;
    int exs_events;  /* number of events that were not dequeued */
    int exs_pending; /* number of operations in progress whose events will be added to this queue */
    int exs_sockets; /* number of sockets that live on the queue; exs_qdelete fails with EBUSY until they are closed */
    int exs_spare[8];
} exs_qstatus_t;

/* [ES-API] name, the rest ours: Stores the state of the queue. EINVAL, EFAULT. */
int exs_qstatus(exs_qhandle_t qhandle, exs_qstatus_t *status);

/* [ES-API] name, the rest ours: Changes the attributes, EXS_QATTR_, to these values, all of them or none.
 * EINVAL, EFAULT, ENOMEM. */
int exs_qmodify(exs_qhandle_t qhandle, int attributes, const exs_qattr_t *values);

/* ---- What there is, and what has been done [ours] ------------------------------------------ */

/* The number of elements of exs_addresses. */
#define EXS_DEVICE_ADDRESSES 16

typedef struct exs_device {
    char exs_name[64];     /* the name of the device, as exs_getdevice returns it */
    char exs_kind[16];     /* "rdma" or "soft", as in EXS_DEVICE */
    char exs_links[64];    /* how packets are carried: "shm,tcp,udp", "RoCE", "InfiniBand", "iWARP"; or "" */
    int exs_address_count; /* number of this host's addresses that lead to it; may exceed EXS_DEVICE_ADDRESSES */
    int exs_mtu; /* payload of a packet, bytes. This and the next four are 0 if no address leads to the device */
    int exs_max_connections; /* maximum number of queue pairs */
    int exs_max_requests; /* maximum number of outstanding work requests of a connection, in each direction */
    uint64_t exs_max_message; /* maximum bytes of one work request; a longer transfer takes several */
    uint64_t exs_max_region;  /* maximum bytes of one region of registered memory */
    int exs_spare[8];
    struct sockaddr_storage exs_addresses[EXS_DEVICE_ADDRESSES];
} exs_device_t;

/* Stores the devices that EXS_DEVICE lets the process use, in the order in which they are tried, but not more than
 * `most`. Returns how many there are, which may be more. EINVAL, EFAULT, EMFILE, ENOMEM. */
int exs_getdevices(exs_device_t *devices, int most);

/* A value of exs_retransmissions: a device does not count them. */
#define EXS_STATS_UNKNOWN UINT64_MAX

/* Counters since a connection or queue was made. Those of a queue are the sums of all connections that have lived on
 * it. */
typedef struct exs_stats {
    uint64_t exs_sends;    /* sends, one-sided operations and shutdowns of writing that were started */
    uint64_t exs_receives; /* receives that were started */
    uint64_t exs_sent;     /* bytes given to the device */
    /* Those of exs_sent that were written directly into the memory of the peer's receives. */
    uint64_t exs_sent_direct;
    uint64_t exs_received; /* bytes that have arrived, whether a receive has got them or not */
    /* Those of exs_received that were written directly into the memory of receives. */
    uint64_t exs_received_direct;
    uint64_t exs_bytes_read;      /* bytes that exs_rread has read */
    uint64_t exs_bytes_written;   /* bytes that exs_rwrite has written */
    uint64_t exs_retransmissions; /* packets that were sent again, or EXS_STATS_UNKNOWN */
    uint64_t exs_events;          /* only of a queue, as the next three: events that were dequeued */
    uint64_t exs_turns; /* calls that dequeue events, by the application or an adapter for an event loop */
    uint64_t exs_empty_turns; /* those of exs_turns that found no event */
    uint64_t exs_completions; /* completions of the devices: work requests and messages that have arrived */
    uint64_t exs_spare[8];
} exs_stats_t;

/* Stores the counters of a socket, if qhandle is NULL, or of a queue, if sockno is -1. EBADF, EINVAL, EFAULT. */
int exs_getstats(int sockno, exs_qhandle_t qhandle, exs_stats_t *stats);

/* [ours] Returns the name of an event's type, such as "EXS_EVT_CONNECT", and never NULL. */
const char *exs_strevent(int type);

/* ---- Blocking calls [UNH]: the same operations, with EXS_BLOCK --------------------------- */

/* Returns the new socket. */
int exs_blocking_accept(int sockno, struct sockaddr *address, socklen_t *address_len);
int exs_blocking_connect(int sockno, const struct sockaddr *address, socklen_t address_len);
/* [ours] */
int exs_blocking_connect_host(int sockno, const char *host, const char *service);
int exs_blocking_close(int sockno);
ssize_t exs_blocking_recv(int sockno, void *buffer, size_t max_bytes, int flags, exs_mhandle_t mhandle);
ssize_t exs_blocking_send(int sockno, const void *buffer, size_t max_bytes, int flags, exs_mhandle_t mhandle);
/* [ours] */
ssize_t exs_blocking_recvmsg(int sockno, exs_msghdr_t *message, int flags);
/* [ours] */
ssize_t exs_blocking_sendmsg(int sockno, const exs_msghdr_t *message, int flags);
/* Returns 0. */
int exs_blocking_sendfile(int sockno, const exs_xferfile_t *sendvec, int sendvec_cnt, int flags);
/* Returns the bytes that were received. */
ssize_t exs_blocking_recvfile(int sockno, const exs_xferfile_t *recvvec, int recvvec_cnt, int flags);
ssize_t exs_read(int sockno, void *buffer, size_t max_bytes);
ssize_t exs_write(int sockno, const void *buffer, size_t max_bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
