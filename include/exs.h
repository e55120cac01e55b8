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

#define EXS_VERSION1 1           /* [ES-API] */
#define EXS_VERSION EXS_VERSION1 /* [ES-API] what to give to exs_init */

typedef struct exs_queue *exs_qhandle_t;  /* [ES-API] an event queue; opaque */
typedef struct exs_memory *exs_mhandle_t; /* [ES-API] registered memory; opaque */
typedef void *exs_ahandle_t;              /* [ES-API] any pointer of the user's, given back in the event */

#define EXS_QHANDLE_INVALID ((exs_qhandle_t)-1)      /* [ES-API] what exs_qcreate returns on failure */
#define EXS_MHANDLE_INVALID ((exs_mhandle_t)-1)      /* [ES-API] what exs_mregister returns on failure */
#define EXS_MHANDLE_UNREGISTERED ((exs_mhandle_t)-2) /* [ES-API] "register or copy for me", like NULL */

/* ---- Call flags ---------------------------------------------------------------------- */

#define EXS_BLOCK 0x00200000      /* [UNH] return when done */
#define EXS_UNSIGNALED 0x00400000 /* [UNH] of what sends, and exs_rwrite: no event on success */
#define EXS_BIGFILE                                                                                            \
    0x00800000 /* [ours] exs_sendfile, exs_recvfile: an element may be longer than 2^30 bytes                  \
                */
/* [ours] In an event, not in a call: the receive was ended by the orderly end. */
#define EXS_EOF 0x01000000
/* [ours] exs_accept: every connection, each with an event, until cancelled */
#define EXS_MULTISHOT 0x04000000
#define EXS_CANCEL_ALL 0x02000000   /* [ours] exs_cancel: whatever the ahandle */
#define EXS_SO_SENDLIMIT 0x45580001 /* [ours] exs_setsockopt: beyond SO_SNDBUF a send fails with EAGAIN */
#define EXS_INTR 0x10000000         /* [ours] with EXS_BLOCK: a signal handler ends the call, EINTR */
#define EXS_LINGER 0x08000000       /* [ours] exs_close: what was sent arrives first; see SO_LINGER */
/* exs_recv also takes MSG_WAITALL: complete only when the whole buffer is filled. exs_send and exs_sendfile
 * also take MSG_NOSIGNAL, which changes nothing: no call of this library raises SIGPIPE. exs_send, exs_recv and
 * those of messages take MSG_DONTWAIT: what can be done at once, or EAGAIN. exs_recv and exs_recvmsg of a
 * STREAM take MSG_PEEK: copy what is here, and leave it to be received. */

/* exs_mregister */
#define EXS_MRF_SHARED 0x1       /* [ES-API] accepted; every region may be used by every queue */
#define EXS_MRF_RECV_DISABLE 0x2 /* [UNH] never receive into this region */
#define EXS_MRF_SEND_DISABLE 0x4 /* [ours] never send from this region */

/* exs_mexport: what the peer may do */
#define EXS_REMOTE_READ 0x1  /* [ours] exs_rread */
#define EXS_REMOTE_WRITE 0x2 /* [ours] exs_rwrite */

/* ---- Limits -------------------------------------------------------------------------- */

#define EXS_EVTVEC_MAX 1024            /* [ES-API] most events of one exs_qdequeue */
#define EXS_XFV_MAX 64                 /* [ours] most elements of one exs_sendfile or exs_recvfile */
#define EXS_IOV_MAX 1024               /* [ours] most elements of one exs_sendmsg or exs_recvmsg */
#define EXS_MSG_MAX ((size_t)1 << 40)  /* [ours] longest exs_send or exs_recv, bytes */
#define EXS_FILE_MAX ((size_t)1 << 30) /* [UNH] longest file element without EXS_BIGFILE, bytes */
#define EXS_POLLFD_MAX 65536           /* [ours] most elements of one exs_poll */
#define EXS_QDEPTH_MAX (1 << 20)       /* [ours] largest depth for exs_qcreate, events */
#define EXS_WAIT_US_MAX 1000000        /* [ours] longest exs_wait_us, microseconds */
#define EXS_TOKEN_SIZE 40              /* [ours] bytes of an exported region's token */

/* ---- File vectors -------------------------------------------------------------------- */

/* Types of an element */
#define EXS_IOVEC 1   /* [ES-API] memory */
#define EXS_FDVEC 2   /* [ES-API] a range of an open file */
#define EXS_PATHVEC 3 /* [UNH] a range of a file named by path */

#define EXS_SHUT_WR 1 /* [ES-API] exs_flags of an element: shut down writing after it */

typedef struct exs_iovec { /* [ES-API] type, fields ours */
    void *exs_base;
    size_t exs_length; /* bytes */
    exs_mhandle_t exs_mhandle;
    int exs_flags; /* 0, or of exs_sendfile EXS_SHUT_WR */
} exs_iovec_t;

typedef struct exs_fdvec { /* [ES-API] */
    int exs_fildes;        /* an open regular file; may be closed once the call has returned */
    off_t exs_offset;      /* bytes from the start of the file */
    size_t exs_length;     /* bytes; 0 = to the end of the file; to be filled: as long as something comes */
    int exs_flags;         /* 0, or of exs_sendfile EXS_SHUT_WR */
} exs_fdvec_t;

typedef struct exs_pathvec { /* [UNH] */
    off_t exs_offset;        /* bytes from the start of the file */
    size_t exs_length;       /* as in exs_fdvec */
    int exs_flags;           /* 0, or of exs_sendfile EXS_SHUT_WR */
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
    exs_iovec_t *exs_iov;   /* pieces of memory, in their order; the array is the caller's again on return */
    int exs_iovlen;         /* how many, 1 to EXS_IOV_MAX */
    int exs_msg_flags;      /* out, of an exs_recvmsg that blocks: MSG_TRUNC and EXS_EOF, as in an event */
} exs_msghdr_t;

/* ---- Polling --------------------------------------------------------------------------- */

#define EXS_POLLIN 0x01   /* [ES-API] a receive, or an accept, would not wait */
#define EXS_POLLOUT 0x04  /* [ES-API] a send would not wait */
#define EXS_POLLERR 0x08  /* [ours] the connection is broken; told unasked, as are those that follow */
#define EXS_POLLHUP 0x10  /* [ours] there is no connection, or both its ends have ended */
#define EXS_POLLNVAL 0x20 /* [ours] nothing that is open */

typedef struct exs_pollfd { /* [ES-API] type, fields ours: those of poll(2)'s struct pollfd */
    int exs_fd;             /* an EXS socket or any other descriptor; negative: none */
    short exs_events;       /* EXS_POLLIN, EXS_POLLOUT; of other descriptors whatever poll(2) has */
    short exs_revents;      /* out: of these, and of those told unasked, what holds */
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
    int exs_evt_newsocket;         /* the connection; -1 when exs_evt_errno is set */
    struct sockaddr *exs_evt_addr; /* the exs_addr of the element: the peer's address, or NULL */
    socklen_t exs_evt_addrlen;     /* bytes of the peer's address, even where exs_addr was shorter */
} exs_evt_accept_t;

typedef struct exs_evt_xfer { /* EXS_EVT_SEND, EXS_EVT_RECV, EXS_EVT_RREAD, EXS_EVT_RWRITE; fields ours */
    void *exs_evt_buffer;     /* the buffer given to the call */
    size_t exs_evt_length;    /* bytes moved */
    int exs_evt_flags;        /* MSG_TRUNC: a SEQPACKET message was longer than the buffer; EXS_EOF */
} exs_evt_xfer_t;

typedef struct exs_evt_xfermsg {    /* EXS_EVT_SENDMSG, EXS_EVT_RECVMSG: [ES-API] type, fields ours */
    struct exs_msghdr *exs_evt_msg; /* the message given to the call */
    size_t exs_evt_length;          /* bytes moved */
    int exs_evt_flags;              /* MSG_TRUNC: a SEQPACKET message was longer than all pieces; EXS_EOF */
} exs_evt_xfermsg_t;

typedef struct exs_evt_xferfile {     /* EXS_EVT_SENDFILE, EXS_EVT_RECVFILE; fields ours */
    struct exs_xferfile *exs_evt_vec; /* the vector given to the call */
    int exs_evt_vec_cnt;
    int exs_evt_flags;    /* of EXS_EVT_RECVFILE: as of EXS_EVT_RECVMSG */
    off_t exs_evt_length; /* bytes moved, all elements */
} exs_evt_xferfile_t;

typedef struct exs_evt_poll {           /* EXS_EVT_POLL: [ES-API] type, fields ours */
    struct exs_pollfd *exs_evt_pollfds; /* the array given to the call */
    int exs_evt_pollfd_cnt;
    int exs_evt_ready; /* how many of them have exs_revents; 0: the time is over */
} exs_evt_poll_t;

typedef struct exs_event {         /* [ES-API]; exs_evt_type is known, the other names are ours */
    int exs_evt_type;              /* EXS_EVT_... */
    int exs_evt_errno;             /* 0, or why the operation failed */
    int exs_evt_socket;            /* the socket that the operation was started on */
    exs_ahandle_t exs_evt_ahandle; /* as given to the call */
    union {
        exs_evt_accept_t exs_evt_accept;
        exs_evt_xfer_t exs_evt_xfer;
        exs_evt_xfermsg_t exs_evt_xfermsg;
        exs_evt_xferfile_t exs_evt_xferfile;
        exs_evt_poll_t exs_evt_poll;
    } exs_evt_union;
    uint64_t exs_evt_spare[2]; /* [ours] 0: what is to be added has room here */
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
    struct sockaddr *exs_addr;  /* where to put the peer's address, or NULL */
    socklen_t exs_addrlen;      /* in: bytes there; out: bytes of the address */
    int exs_socket;             /* out: the new socket */
    exs_ahandle_t exs_ahandle;  /* given back in this connection's event */
    uint64_t exs_spare[2]; /* [ours] neither looked at nor changed: a later version will want a flag for that */
} exs_acceptaddr_t;

/* ---- The library --------------------------------------------------------------------- */

/* [ES-API] First call of a process. ENOTSUP: unknown version. A call after one that has succeeded returns 0 and counts:
 * the program, and each library in it that uses EXS, call exs_init and exs_fini without regard to the others.
 * Until it has succeeded every other call fails with EPERM; in a forked child with ECHILD. */
int exs_init(int version);

/* Values of numbers in exs_config_t */
#define EXS_CONFIG_OFF (-1) /* [ours] The variable's 0. A field that is 0 leaves the default. */
#define EXS_CHECK_ABORT 2   /* [ours] exs_check: the first misuse aborts the program. */

/* [ours] The level of a line of the log: the smallest exs_debug with which it is written. */
enum {
    EXS_LOG_ALWAYS, /* what EXS_CHECK reports, and what the administrator has to know */
    EXS_LOG_DEBUG,  /* what failed, and why */
    EXS_LOG_TRACE   /* each operation: its start and its end */
};

/* [ours] What exs_init_config sets. A field that is 0 or NULL leaves the default. Each field but the log and the limits
 * has the values of an environment variable, which exs(7) describes and which takes precedence where it is set, except
 * in a program that has more rights than the user who started it. */
typedef struct exs_config {
    size_t exs_size;                /* of this struct, bytes: EXS_CONFIG_INIT sets it */
    const char *exs_device;         /* EXS_DEVICE; the strings are the caller's again on return */
    const char *exs_link;           /* EXS_LINK */
    const char *exs_tcp_congestion; /* EXS_TCP_CONGESTION */
    const char *exs_roce;           /* EXS_ROCE */
    /* This function gets each line of the log, which else goes to standard error, without "exs: " and the line's end.
     * Any thread may call it, threads of the library, too, one at a time, until exs_fini has returned. It must not call
     * this library. */
    void (*exs_log)(void *context, int level, const char *text);
    void *exs_log_context;
    int exs_spin_us;   /* EXS_SPIN, microseconds, 1 to EXS_WAIT_US_MAX, or EXS_CONFIG_OFF */
    int exs_map;       /* EXS_MAP: 1 or EXS_CONFIG_OFF */
    int exs_immediate; /* EXS_IMMEDIATE: 1 or EXS_CONFIG_OFF */
    int exs_debug;     /* EXS_DEBUG: 1 or 2 */
    int exs_check;     /* EXS_CHECK: 1 or EXS_CHECK_ABORT */
    int exs_rcvbuf;    /* SO_RCVBUF of new STREAM sockets, bytes; see exs_setsockopt */
    int exs_sndbuf;    /* SO_SNDBUF of new sockets, bytes */
    int exs_half_open; /* the most connections of one listener that peers have begun and not established */
    uint64_t
        exs_ring_bytes; /* the most that receive buffers of the process that grow may have together, bytes */
} exs_config_t;

#define EXS_CONFIG_INIT                                                                                        \
    {                                                                                                          \
        sizeof(exs_config_t), NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0                    \
    }

/* [ours] Like exs_init, with a configuration, which may be NULL. The struct may be of an older or of a newer version: see
 * exs_size. Where the library is in use already, a field that is set and has another value there is EALREADY; else the
 * call counts. ENOTSUP, EINVAL, ENODEV. */
int exs_init_config(int version, const exs_config_t *config);
/* [ours] Once for each exs_init that succeeded. The last one ends the use of the library: from
 * then on every call fails with EPERM, until exs_init. EBUSY, and nothing changes: it would be the last one,
 * and there are sockets, queues or registered memory. */
int exs_fini(void);
/* [ours] The version of the library, "3.0.0" for one, never NULL. See EXS_VERSION_MAJOR. */
const char *exs_version_string(void);

/* [ours] Why the calling thread's last call failed, in one sentence: which argument, which value, which limit. It goes
 * by errno, so call it before anything that changes errno. Never NULL; it stays as it is until the thread's next call
 * of a function of this library. */
const char *exs_errmsg(void);

/* ---- Sockets ------------------------------------------------------------------------- */

/* [UNH] PF_INET or PF_INET6; SOCK_STREAM or SOCK_SEQPACKET, with SOCK_CLOEXEC, which holds anyway, and
 * SOCK_NONBLOCK (see exs_fcntl) [ours]; 0, or IPPROTO_TCP for a STREAM. Returns a file descriptor of the
 * process that only exs_ calls understand. */
int exs_socket(int family, int socktype, int protocol);
int exs_bind(int sockno, const struct sockaddr *address, socklen_t address_len); /* [UNH] */
/* [UNH] Hold requests until accepts ask for them, at most backlog (0 counts as 1); refuse the others. */
int exs_listen(int sockno, int backlog);

/* [ES-API] One event (EXS_EVT_ACCEPT) for each of addrvec_cnt elements, which must stay until then.
 * With EXS_BLOCK addrvec_cnt must be 1, and the new socket is in addrvec->exs_socket. With EXS_MULTISHOT [ours]
 * the one element, without an exs_addr, stands for every connection, each with an event, until exs_cancel or
 * exs_close: the one with an error is the last. */
int exs_accept(int sockno, exs_acceptaddr_t *addrvec, int addrvec_cnt, int flags, exs_qhandle_t qhandle);

/* [ES-API] timeout: how long at most, NULL = 30 seconds. EXS_EVT_CONNECT. */
int exs_connect(int sockno, const struct sockaddr *address, socklen_t address_len, int flags,
                const struct timeval *timeout, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [ours] The same by name: host and service are each a name or a number, as for getaddrinfo(3), whose addresses
 * are tried in turn, each for an equal part of the time that is left. Names are looked up by a thread of the
 * library's that ends with it, so that no call and no loop waits for a name server. EXS_EVT_CONNECT; ENXIO:
 * there is no such host; EAGAIN: the name server does not answer; else the last address's errno. */
int exs_connect_host(int sockno, const char *host, const char *service, int flags,
                     const struct timeval *timeout, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [UNH] SHUT_RD, SHUT_WR or SHUT_RDWR; what was sent before is delivered first. EXS_EVT_SHUTDOWN. */
int exs_shutdown(int sockno, int how, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [UNH] Pending operations complete with ECANCELED first. EXS_EVT_CLOSE; a NULL queue = no event wanted. With
 * EXS_LINGER [ours], or SO_LINGER, sends are completed before, and EXS_EVT_CLOSE, or the call that waits, says
 * if they were not: ETIMEDOUT when the time is over, or what broke the connection. The socket is closed. */
int exs_close(int sockno, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [ES-API] name, the rest ours: end what was started on the socket with this ahandle, with EXS_CANCEL_ALL all
 * of it, and is not done: how many operations that are. Each ends once, soon: with ECANCELED and the bytes that
 * had moved, or as it would have. The connection lives on. EBADF, EINVAL. */
int exs_cancel(int sockno, exs_ahandle_t ahandle, int flags);

/* [UNH] F_GETFL, F_SETFL (O_NONBLOCK), F_GETFD, F_SETFD (FD_CLOEXEC); others EINVAL. */
int exs_fcntl(int sockno, int cmd, ...);

int exs_getsockname(int sockno, struct sockaddr *address, socklen_t *address_len); /* [ours] */
int exs_getpeername(int sockno, struct sockaddr *address, socklen_t *address_len); /* [ours] */

/* [ours] As getsockopt(2), at SOL_SOCKET. What a socket is, each an int: SO_TYPE, SO_DOMAIN, SO_PROTOCOL,
 * SO_ACCEPTCONN, SO_ERROR (why the connection is broken, which reading does not clear); and those of
 * exs_setsockopt. ENOPROTOOPT, EINVAL, EFAULT. */
int exs_getsockopt(int sockno, int level, int option, void *value, socklen_t *value_len);
/* [ours] As setsockopt(2), at SOL_SOCKET unless said.
 * SO_RCVBUF, int: bytes that come while no receive is started; rounded up. Set it before the socket connects.
 * SO_SNDBUF, int: bytes that may be pending in sends; INT_MAX: any number. A send beyond fails with EAGAIN if it
 * has MSG_DONTWAIT, or EXS_SO_SENDLIMIT, int, is 1 and it does not block.
 * SO_RCVTIMEO and SO_SNDTIMEO, struct timeval, {0,0} for none: what is started from then on, receives and
 * accepts, and sends, ends with ETIMEDOUT and the bytes that had moved when it takes longer; the connection
 * lives on.
 * SO_KEEPALIVE, int: ask an idle peer whether it is there, every TCP_KEEPIDLE seconds, at IPPROTO_TCP as are
 * TCP_KEEPINTVL and TCP_KEEPCNT, looks for the answer; then ETIMEDOUT. TCP_USER_TIMEOUT, int, there: ms that a host may
 * acknowledge nothing of what goes over TCP; 0: 20 s. SO_REUSEADDR, int: exs_bind where others are
 * that want it, too. IPV6_V6ONLY, int, at IPPROTO_IPV6: no IPv4, before it is bound.
 * SO_LINGER, struct linger: on, exs_close waits l_linger seconds for what was sent; 0: it discards it.
 * Accepted connections begin with what their listener has, but for limits of time.
 * ENOPROTOOPT, EINVAL, EFAULT, EDOM, EISCONN. */
int exs_setsockopt(int sockno, int level, int option, const void *value, socklen_t value_len);

/* [ours] The name of the RDMA device that carries this connection ("soft0", "mlx5_0", ...) into name, at most
 * size bytes with the terminating zero; of a listener the kinds that it listens on ("soft", "rdma,soft").
 * ENOTCONN, EFAULT, EINVAL, ENAMETOOLONG. */
int exs_getdevice(int sockno, char *name, size_t size);

/* [ES-API] name, the rest ours: wait until one of `count` sockets or other descriptors is ready, timeout at
 * most (NULL: without end). One event, EXS_EVT_POLL; with EXS_BLOCK how many are ready, 0 when the time is
 * over. `fds` is the library's until then. EINVAL, EBADF, EMFILE, ENOMEM. */
int exs_poll(exs_pollfd_t *fds, int count, int flags, const struct timeval *timeout, exs_qhandle_t qhandle,
             exs_ahandle_t ahandle);

/* ---- Transfers ----------------------------------------------------------------------- */

/* [ES-API] mhandle: the region that holds the buffer, or NULL. EXS_EVT_SEND, EXS_EVT_RECV. */
ssize_t exs_send(int sockno, const void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                 exs_ahandle_t ahandle, exs_mhandle_t mhandle);
ssize_t exs_recv(int sockno, void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
                 exs_ahandle_t ahandle, exs_mhandle_t mhandle);

/* [ES-API] names, the rest ours: the same from, and into, several pieces of memory, in order; of a SEQPACKET
 * they are one message. EXS_EVT_SENDMSG, EXS_EVT_RECVMSG. */
ssize_t exs_sendmsg(int sockno, const exs_msghdr_t *message, int flags, exs_qhandle_t qhandle,
                    exs_ahandle_t ahandle);
ssize_t exs_recvmsg(int sockno, exs_msghdr_t *message, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [ES-API] Files, ranges of files and memory, in order. EXS_EVT_SENDFILE. The vector is only read, and the caller's
 * again on return; it is const since 3.0 [ours]. */
ssize_t exs_sendfile(int sockno, const exs_xferfile_t *sendvec, int sendvec_cnt, int flags,
                     exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* [UNH] names, the rest ours: the other way round. It is done when all elements are full, or the peer has shut
 * down writing, or, of a SEQPACKET, one message has come. EXS_EVT_RECVFILE. */
ssize_t exs_recvfile(int sockno, const exs_xferfile_t *recvvec, int recvvec_cnt, int flags,
                     exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* ---- Registered memory --------------------------------------------------------------- */

/* [ES-API] EINVAL: size 0, NULL, unknown flag. EACCES: memory protection. ENOMEM: no memory; a
 * limit on pinned memory is met by who uses it first. */
exs_mhandle_t exs_mregister(void *addr, size_t size, int flags);
/* [ES-API] flags: 0. EINVAL: not a region. EBUSY: a transfer is using it. */
int exs_mderegister(exs_mhandle_t mhandle, int flags);

/* ---- One-sided operations [ours] ------------------------------------------------------- */

/* What the owner of memory gives to its peer, by a send or otherwise: the right to use it on one connection.
 * Plain bytes, the same on every machine. */
typedef struct exs_token {
    unsigned char exs_bytes[EXS_TOKEN_SIZE];
} exs_token_t;

/* Let the peer of this connection use length bytes at addr, of a region; access: EXS_REMOTE_... The device
 * holds the peer to exactly these bytes and rights. Until exs_munexport or the end of the socket the region
 * can't be deregistered. EACCES: the region's flags forbid it. */
int exs_mexport(int sockno, exs_mhandle_t mhandle, void *addr, size_t length, int access, exs_token_t *token);
/* From its return on the peer can't use it. EINVAL: the socket has given out no such token. */
int exs_munexport(int sockno, const exs_token_t *token);

/* Read from, or write into, what the peer exported, from byte `offset` of it on, without the peer's program.
 * EXS_EVT_RREAD, EXS_EVT_RWRITE. ERANGE: not all of it was exported; EACCES: not for this use. */
ssize_t exs_rread(int sockno, void *buffer, size_t length, const exs_token_t *token, uint64_t offset, int flags,
                  exs_qhandle_t qhandle, exs_ahandle_t ahandle, exs_mhandle_t mhandle);
ssize_t exs_rwrite(int sockno, const void *buffer, size_t length, const exs_token_t *token, uint64_t offset,
                   int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle, exs_mhandle_t mhandle);

/* ---- Event queues -------------------------------------------------------------------- */

/* [ES-API] depth: operations that need no more memory, 0 to EXS_QDEPTH_MAX; beyond it none is lost either. */
exs_qhandle_t exs_qcreate(int depth);
/* [ES-API] EBUSY: operations are in progress, or a socket lives on this queue (exs_qstatus). */
int exs_qdelete(exs_qhandle_t qhandle);
/* [ES-API] Returns the number of events put into evtvec, 0 on time-out.
 * timeout: NULL waits, {0,0} never does. */
int exs_qdequeue(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt, const struct timeval *timeout);
/* [ours] The descriptor to watch for reading, level-triggered: readable while exs_qdequeue has
 * something to do. It belongs to the queue. */
int exs_qfd(exs_qhandle_t qhandle);
/* Value of budget_us: for event loops, what the queue's mode (EXS_SPIN, exs_qmodify) gives to an iteration. */
#define EXS_LOOP_BUDGET (-1)
/* [ours] Like exs_qdequeue with {0,0}; if there is no event, polls for up to budget_us microseconds, 0 to
 * EXS_WAIT_US_MAX, without sleeping. */
int exs_qpoll(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt, int budget_us);
/* [ours] This thread has handled its events, and is about to wait for exs_qfd: what the device holds back, to send
 * it along with an answer, goes now. */
int exs_qprepare(exs_qhandle_t qhandle);

/* What exs_qmodify is to change */
#define EXS_QATTR_DEPTH 0x1 /* [ES-API] exs_depth */
#define EXS_QATTR_WAIT 0x2  /* [UNH] exs_wait and exs_wait_us */

enum { /* [UNH] exs_wait: what exs_qdequeue, and a blocking call on a socket that lives on the queue, do until
          there is something */
       EXS_WAIT_NOTIFY = 1,
       EXS_WAIT_ADAPTIVE,
       EXS_WAIT_BUSY_POLL
};

typedef struct exs_qattr { /* [ours] */
    int exs_depth;         /* as for exs_qcreate */
    int exs_wait;    /* NOTIFY: sleep; ADAPTIVE: look for a while first; BUSY_POLL: look, and never sleep */
    int exs_wait_us; /* ADAPTIVE: how long, 1 to EXS_WAIT_US_MAX microseconds; else 0 */
} exs_qattr_t;

typedef struct exs_qstatus { /* [ours] */
    exs_qattr_t exs_attr;
    int exs_events;  /* that wait for exs_qdequeue */
    int exs_pending; /* operations in progress whose events will come here */
    int exs_sockets; /* that live on the queue: exs_qdelete is EBUSY until they are closed */
    int exs_spare[8];
} exs_qstatus_t;

/* [ES-API] name, the rest ours: how the queue is now. EINVAL, EFAULT. */
int exs_qstatus(exs_qhandle_t qhandle, exs_qstatus_t *status);
/* [ES-API] name, the rest ours: changes the attributes, EXS_QATTR_..., to these values, all of them or none.
 * EINVAL, EFAULT, ENOMEM. */
int exs_qmodify(exs_qhandle_t qhandle, int attributes, const exs_qattr_t *values);

/* ---- What there is, and what has been done [ours] ------------------------------------------ */

#define EXS_DEVICE_ADDRESSES 16 /* that exs_addresses has room for */

typedef struct exs_device {
    char exs_name[64];     /* as exs_getdevice has it */
    char exs_kind[16];     /* "rdma" or "soft", as EXS_DEVICE has them */
    char exs_links[64];    /* what carries its packets: "shm,udp", "RoCE", "InfiniBand", "iWARP"; or "" */
    int exs_address_count; /* addresses of this host that lead to it, maybe more than fit */
    int exs_mtu; /* payload of a packet, bytes. This and the next are 0 where no address leads to it */
    int exs_max_connections;  /* queue pairs */
    int exs_max_requests;     /* work requests under way, of one connection, each way */
    uint64_t exs_max_message; /* bytes of one work request: longer transfers are cut */
    uint64_t exs_max_region;  /* bytes of one region of registered memory */
    int exs_spare[8];
    struct sockaddr_storage exs_addresses[EXS_DEVICE_ADDRESSES];
} exs_device_t;

/* The devices that EXS_DEVICE lets the process use, in the order in which they are tried: how many there are,
 * which may be more than `most`, those that were filled in. EINVAL, EFAULT, EMFILE, ENOMEM. */
int exs_getdevices(exs_device_t *devices, int most);

#define EXS_STATS_UNKNOWN UINT64_MAX /* exs_retransmissions: there is a device that does not tell */

typedef struct exs_stats {        /* ever, of a connection; of a queue all that lived on it */
    uint64_t exs_sends;           /* operations started: sends, one-sided ones, the shutdown of writing; */
    uint64_t exs_receives;        /* receives */
    uint64_t exs_sent;            /* bytes given to the device; */
    uint64_t exs_sent_direct;     /* of these, straight into memory that the peer's program receives into; */
    uint64_t exs_received;        /* bytes that have come, whether a receive has taken them or not; */
    uint64_t exs_received_direct; /* of these, straight into memory of receives */
    uint64_t exs_bytes_read;      /* by exs_rread, */
    uint64_t exs_bytes_written;   /* by exs_rwrite */
    uint64_t exs_retransmissions; /* packets sent again, or EXS_STATS_UNKNOWN */
    uint64_t exs_events;          /* the rest are of a queue: events dequeued; */
    uint64_t exs_turns;           /* times that exs_qdequeue or a watcher looked at it; */
    uint64_t exs_empty_turns;     /* of these, those that found no event; */
    uint64_t exs_completions;     /* of the devices: work requests and messages */
    uint64_t exs_spare[8];
} exs_stats_t;

/* The counters of a socket, where qhandle is NULL; or of a queue, where sockno is -1. EBADF, EINVAL, EFAULT. */
int exs_getstats(int sockno, exs_qhandle_t qhandle, exs_stats_t *stats);

/* [ours] "EXS_EVT_CONNECT" and so on, never NULL. */
const char *exs_strevent(int type);

/* ---- Blocking calls [UNH]: the same operations, with EXS_BLOCK --------------------------- */

int exs_blocking_accept(int sockno, struct sockaddr *address, socklen_t *address_len); /* the new socket */
int exs_blocking_connect(int sockno, const struct sockaddr *address, socklen_t address_len);
int exs_blocking_connect_host(int sockno, const char *host, const char *service); /* [ours] */
int exs_blocking_close(int sockno);
ssize_t exs_blocking_recv(int sockno, void *buffer, size_t max_bytes, int flags, exs_mhandle_t mhandle);
ssize_t exs_blocking_send(int sockno, const void *buffer, size_t max_bytes, int flags, exs_mhandle_t mhandle);
ssize_t exs_blocking_recvmsg(int sockno, exs_msghdr_t *message, int flags);       /* [ours] */
ssize_t exs_blocking_sendmsg(int sockno, const exs_msghdr_t *message, int flags); /* [ours] */
int exs_blocking_sendfile(int sockno, const exs_xferfile_t *sendvec, int sendvec_cnt, int flags);
ssize_t exs_blocking_recvfile(int sockno, const exs_xferfile_t *recvvec, int recvvec_cnt,
                              int flags); /* the bytes */
ssize_t exs_read(int sockno, void *buffer, size_t max_bytes);
ssize_t exs_write(int sockno, const void *buffer, size_t max_bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
