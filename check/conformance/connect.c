/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.c - tests of exs_connect (5.2.2). */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "bodies.h"

/* Connects this socket to trial.server with these flags; the other arguments depend on the mode. */
static int given(struct trial *trial, int fd, int flags)
{
    return exs_connect(fd, (struct sockaddr *)&trial->server.storage, trial->server.length, flags, NULL,
                       trial->queue, trial);
}

static int connected(struct trial *trial)
{
    return done(trial, given(trial, trial->fd, trial->flags), EXS_EVT_CONNECT);
}

/* Checks that the socket can connect after a call that failed immediately. */
static void still_connects(struct trial *trial)
{
    peer_tell(trial, PEER_ACCEPT, 0);
    require(trial, connected(trial) == 0, "after the error the socket does not connect");
    peer_hear(trial);
}

static void uninitialized(struct trial *trial)
{
    resolve(trial, "1", &trial->server);
    outcome(trial, given(trial, 0, trial->flags));
}

static void uninitialized_bad(struct trial *trial)
{
    outcome(trial, exs_connect(BAD_FD, NULL, 0, -1, NULL, INVALID_QHANDLE, NULL));
}

static void flags_all(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, given(trial, trial->fd, -1));
    still_connects(trial);
}

static void flags_bad(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, given(trial, trial->fd, trial->flags | BAD_FLAG));
    outcome(trial, given(trial, trial->fd, trial->flags | MSG_OOB));
    still_connects(trial);
}

static void flags_unsignaled(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, given(trial, trial->fd, trial->flags | EXS_UNSIGNALED));
}

static void bad_fd(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, given(trial, BAD_FD, trial->flags));
    outcome(trial, given(trial, UNUSED_FD, trial->flags));
}

static void foreign(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, given(trial, foreign_fd(trial), trial->flags));
}

static void already(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, given(trial, trial->fd, trial->flags));
}

static void listener(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial, trial->fd, trial->flags));
}

static void ok(struct trial *trial)
{
    ok_server(trial);
    peer_tell(trial, PEER_ACCEPT, 0);
    outcome(trial, connected(trial));
    peer_hear(trial);
}

static void ok_seqpacket(struct trial *trial)
{
    trial->type = SOCK_SEQPACKET;
    ok(trial);
}

static void ok_bound(struct trial *trial)
{
    ok_server(trial);
    ok_bind(trial, trial->fd, "0");
    peer_tell(trial, PEER_ACCEPT, 0);
    outcome(trial, connected(trial));
    peer_hear(trial);
}

static void queue_invalid(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, exs_connect(trial->fd, (struct sockaddr *)&trial->server.storage, trial->server.length,
                               trial->flags, NULL, INVALID_QHANDLE, trial));
    still_connects(trial);
}

static void queue_null(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, exs_connect(trial->fd, (struct sockaddr *)&trial->server.storage, trial->server.length, 0,
                               NULL, NULL, trial));
    still_connects(trial);
}

static void address_null(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, exs_connect(trial->fd, NULL, trial->server.length, trial->flags, NULL, trial->queue, trial));
    still_connects(trial);
}

static void address_short(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, exs_connect(trial->fd, (struct sockaddr *)&trial->server.storage, trial->server.length - 1,
                               trial->flags, NULL, trial->queue, trial));
    outcome(trial, exs_connect(trial->fd, (struct sockaddr *)&trial->server.storage, 8, trial->flags, NULL,
                               trial->queue, trial));
    still_connects(trial);
}

static void address_family(struct trial *trial)
{
    ok_server(trial);
    sa_family_t family = trial->server.storage.ss_family;

    trial->server.storage.ss_family = AF_UNIX;
    outcome(trial, given(trial, trial->fd, trial->flags));
    socklen_t length = trial->server.length;

    trial->server.storage.ss_family = family == AF_INET ? AF_INET6 : AF_INET;
    trial->server.length = sizeof(struct sockaddr_in6);
    outcome(trial, given(trial, trial->fd, trial->flags));
    trial->server.length = length;
    trial->server.storage.ss_family = family;
    still_connects(trial);
}

static void within(struct trial *trial, const struct timeval *timeout)
{
    outcome(trial, done(trial,
                        exs_connect(trial->fd, (struct sockaddr *)&trial->server.storage, trial->server.length,
                                    trial->flags, timeout, trial->queue, trial),
                        EXS_EVT_CONNECT));
}

static void timeout_negative(struct trial *trial)
{
    static const struct timeval impossible = {.tv_sec = -1};

    ok_server(trial);
    within(trial, &impossible);
    still_connects(trial);
}

static void timeout_usec(struct trial *trial)
{
    static const struct timeval impossible[] = {{.tv_usec = 1000000}, {.tv_usec = -1}};

    ok_server(trial);
    within(trial, &impossible[0]);
    within(trial, &impossible[1]);
    still_connects(trial);
}

/* Sets trial.server to the port of a TCP socket, which listens and never answers, or does not listen. */
static void occupy(struct trial *trial, bool listening)
{
    resolve(trial, "0", &trial->server);
    int fd = socket(trial->server.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&trial->server.storage, trial->server.length) < 0 ||
        (listening && listen(fd, 1) < 0) ||
        getsockname(fd, (struct sockaddr *)&trial->server.storage, &trial->server.length) < 0)
        broken(trial, "a TCP socket");
}

/* Whether the address is that of an adapter, whose ports are independent of TCP's. */
static bool is_a_real_devices(struct trial *trial)
{
    char devices[64];
    int fd = ok_socket(trial);

    ok_bind(trial, fd, "0");
    ok_listen(trial, fd);
    if (exs_getdevice(fd, devices, sizeof(devices)) == -1 || exs_close(fd, 0, NULL, NULL) == -1)
        broken(trial, "exs_getdevice, exs_close");
    return strstr(devices, "rdma") != NULL;
}

/* Changes an address to an unused one on the same network. */
static void misdial(struct address *address)
{
    if (address->storage.ss_family == AF_INET)
        ((struct sockaddr_in *)&address->storage)->sin_addr.s_addr ^= htonl(0xF0);
    else
        ((struct sockaddr_in6 *)&address->storage)->sin6_addr.s6_addr[15] ^= 0xF0;
}

void server_silent(struct trial *trial)
{
    occupy(trial, true);
    if (is_a_real_devices(trial))
        misdial(&trial->server);
}

void server_absent(struct trial *trial)
{
    occupy(trial, false);
}

static void times_out(struct trial *trial)
{
    static const struct timeval soon = {.tv_usec = 50000};

    ok_fresh(trial);
    server_silent(trial);
    within(trial, &soon);
}

static void is_refused(struct trial *trial)
{
    ok_fresh(trial);
    server_absent(trial);
    outcome(trial, connected(trial));
}

static void forked(struct trial *trial)
{
    ok_server(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, given(trial, trial->fd, trial->flags));
}

#define CALL(fd, flags) "exs_connect(" fd ", ai_addr, ai_addrlen, " flags ", to, qh, ah)"

static const struct row rows[] = {
    {1, EPERM, CALL("fd", "flags") " [no exs_init]", BOTH, THESIS, uninitialized, NULL},
    {2, EINVAL, CALL("fd", "-1"), BOTH, THESIS, flags_all, NULL},
    {3, EINVAL, CALL("fd", "BAD_FLAG"), BOTH, THESIS, flags_bad, NULL},
    {4, EBADF, CALL("BAD_FD", "flags"), BOTH, THESIS, bad_fd, NULL},
    {5, EINVAL, CALL("CONNECTED_FD", "flags"), BOTH, THESIS, already, NULL},
    {6, 0, CALL("fd", "flags"), BOTH, THESIS, ok, NULL},
    {7, EINVAL, CALL("LISTENING_FD", "flags"), BOTH, OURS, listener,
     "The second half of test 5: \"already connected or listened to\"."},
    {8, EINVAL, "exs_connect(fd, ai_addr, ai_addrlen, flags, to, INVALID_QHANDLE, ah)", BOTH, OURS,
     queue_invalid, NULL},
    {9, EINVAL, "exs_connect(fd, ai_addr, ai_addrlen, 0, to, NULL, ah)", BOTH, OURS, queue_null, NULL},
    {10, EINVAL, "exs_connect(fd, NULL, ai_addrlen, flags, to, qh, ah)", BOTH, OURS, address_null, NULL},
    {11, EINVAL, "exs_connect(fd, ai_addr, ai_addrlen - 1, flags, to, qh, ah)", BOTH, OURS, address_short,
     NULL},
    {12, EAFNOSUPPORT, "exs_connect(fd, AF_UNIX_ADDR, ai_addrlen, flags, to, qh, ah)", BOTH, OURS,
     address_family, NULL},
    {13, EINVAL, "exs_connect(fd, ai_addr, ai_addrlen, flags, {-1, 0}, qh, ah)", BOTH, OURS, timeout_negative,
     NULL},
    {14, EINVAL, "exs_connect(fd, ai_addr, ai_addrlen, flags, {0, 1000000}, qh, ah)", BOTH, OURS, timeout_usec,
     NULL},
    {15, ETIMEDOUT, "exs_connect(fd, SILENT_ADDR, ai_addrlen, flags, {0, 50000}, qh, ah)", BOTH, OURS,
     times_out, NULL},
    {16, ECONNREFUSED, "exs_connect(fd, ADDR_OF_NO_LISTENER, ai_addrlen, flags, to, qh, ah)", BOTH, OURS,
     is_refused, NULL},
    {17, 0, CALL("SEQPACKET_FD", "flags"), BOTH, OURS, ok_seqpacket, NULL},
    {18, 0, CALL("BOUND_FD", "flags"), BOTH, OURS, ok_bound, NULL},
    {19, EINVAL, CALL("fd", "EXS_UNSIGNALED"), BOTH, OURS, flags_unsignaled, NULL},
    {20, EBADF, CALL("FD_OF_A_FILE", "flags"), BOTH, OURS, foreign, NULL},
    {21, EPERM, "exs_connect(BAD_FD, NULL, 0, -1, NULL, INVALID_QHANDLE, NULL) [no exs_init]", BOTH, OURS,
     uninitialized_bad, NULL},
    {22, ECHILD, CALL("fd", "flags") " [in a forked child]", BOTH, OURS, forked, NULL},
};
static const char *const needs[] = {"exs_init",    "exs_socket",   "exs_bind", "exs_listen",
                                    "exs_qcreate", "exs_qdequeue", NULL};
const struct group group_connect = {"exs_connect", "5.2.2", needs, ROWS(rows)};
