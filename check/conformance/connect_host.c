/* SPDX-License-Identifier: BSD-2-Clause */
/* connect_host.c - tests of exs_connect_host and exs_blocking_connect_host, with numeric addresses and with names that
 * are resolved without a name server. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include "bodies.h"

struct name {
    char host[NI_MAXHOST + 1], service[NI_MAXSERV + 1];
};

/* Returns host and service of trial.server as numbers. */
static struct name name_of(struct trial *trial)
{
    struct name name;

    if (getnameinfo((struct sockaddr *)&trial->server.storage, trial->server.length, name.host, NI_MAXHOST,
                    name.service, NI_MAXSERV, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        broken(trial, "getnameinfo");
    return name;
}

static int given(struct trial *trial, int fd, const char *host, const char *service, int flags)
{
    return exs_connect_host(fd, host, service, flags, NULL, trial->queue, trial);
}

static void still_connects(struct trial *trial)
{
    struct name name = name_of(trial);

    peer_tell(trial, PEER_ACCEPT, 0);
    require(trial,
            done(trial, given(trial, trial->fd, name.host, name.service, trial->flags), EXS_EVT_CONNECT) == 0,
            "after the error the socket does not connect");
    peer_hear(trial);
}

static void uninitialized(struct trial *trial)
{
    outcome(trial, given(trial, 0, "127.0.0.1", "1", trial->flags));
}

static void forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, given(trial, trial->fd, "127.0.0.1", "1", trial->flags));
}

static void bad_fd(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, given(trial, BAD_FD, "127.0.0.1", "1", trial->flags));
}

static void foreign(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, given(trial, foreign_fd(trial), "127.0.0.1", "1", trial->flags));
}

static void flags_bad(struct trial *trial)
{
    ok_server(trial);
    struct name name = name_of(trial);

    outcome(trial, given(trial, trial->fd, name.host, name.service, trial->flags | BAD_FLAG));
    still_connects(trial);
}

static void already(struct trial *trial)
{
    ok_connected(trial);
    struct name name = name_of(trial);

    outcome(trial, given(trial, trial->fd, name.host, name.service, trial->flags));
}

static void listener(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial, trial->fd, "127.0.0.1", "1", trial->flags));
}

static void bound(struct trial *trial)
{
    ok_fresh(trial);
    ok_bind(trial, trial->fd, "0");
    outcome(trial, given(trial, trial->fd, "127.0.0.1", "1", trial->flags));
}

/* Calls the function with an invalid host or service, and checks that the socket can then connect. */
static void unmeant(struct trial *trial, const char *host, const char *service)
{
    outcome(trial, given(trial, trial->fd, host, service, trial->flags));
    still_connects(trial);
}

static void host_null(struct trial *trial)
{
    ok_server(trial);
    unmeant(trial, NULL, name_of(trial).service);
}

static void service_null(struct trial *trial)
{
    ok_server(trial);
    unmeant(trial, name_of(trial).host, NULL);
}

static void service_large(struct trial *trial)
{
    ok_server(trial);
    unmeant(trial, name_of(trial).host, "65536");
}

static void host_long(struct trial *trial)
{
    ok_server(trial);
    struct name name = name_of(trial);

    memset(name.host, 'x', NI_MAXHOST);
    name.host[NI_MAXHOST] = 0;
    unmeant(trial, name.host, name.service);
}

static void family(struct trial *trial)
{
    ok_fresh(trial);
    int fd = exs_socket(PF_INET, SOCK_STREAM, 0);

    outcome(trial, given(trial, fd, "::1", "1", trial->flags));
}

/* A service that is not in the system's files. */
static void service_unknown(struct trial *trial)
{
    ok_server(trial);
    struct name name = name_of(trial);

    outcome(trial,
            done(trial, given(trial, trial->fd, name.host, "no-such-thing", trial->flags), EXS_EVT_CONNECT));
    still_connects(trial);
}

/* A label of a name has at most 63 bytes; a longer one is refused without asking a name server. */
#define PART "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define UNKNOWN_HOST PART PART

static void host_unknown(struct trial *trial)
{
    ok_server(trial);
    struct name name = name_of(trial);

    outcome(trial,
            done(trial, given(trial, trial->fd, UNKNOWN_HOST, name.service, trial->flags), EXS_EVT_CONNECT));
    still_connects(trial);
}

static void queue_invalid(struct trial *trial)
{
    ok_server(trial);
    struct name name = name_of(trial);

    outcome(trial,
            exs_connect_host(trial->fd, name.host, name.service, trial->flags, NULL, INVALID_QHANDLE, trial));
    still_connects(trial);
}

static void timeout_negative(struct trial *trial)
{
    static const struct timeval impossible = {.tv_sec = -1};

    ok_server(trial);
    struct name name = name_of(trial);

    outcome(trial, exs_connect_host(trial->fd, name.host, name.service, trial->flags, &impossible, trial->queue,
                                    trial));
    still_connects(trial);
}

static void within(struct trial *trial, const struct timeval *timeout)
{
    struct name name = name_of(trial);

    outcome(trial, done(trial,
                        exs_connect_host(trial->fd, name.host, name.service, trial->flags, timeout,
                                         trial->queue, trial),
                        EXS_EVT_CONNECT));
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
    within(trial, NULL);
}

static void ok(struct trial *trial)
{
    ok_server(trial);
    struct name name = name_of(trial);

    peer_tell(trial, PEER_ACCEPT, 0);
    outcome(trial,
            done(trial, given(trial, trial->fd, name.host, name.service, trial->flags), EXS_EVT_CONNECT));
    peer_hear(trial);
    peer_tell(trial, PEER_RECEIVE, 1);
    ok_send(trial, "x", 1);
    peer_hear(trial);
}

#define CALL(fd, host, service, flags) "exs_connect_host(" fd ", " host ", " service ", " flags ", to, qh, ah)"

static const struct row rows[] = {
    {1, EPERM, CALL("fd", "host", "service", "flags") " [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, ECHILD, CALL("fd", "host", "service", "flags") " [in a forked child]", BOTH, OURS, forked, NULL},
    {3, EBADF, CALL("BAD_FD", "host", "service", "flags"), BOTH, OURS, bad_fd, NULL},
    {4, EBADF, CALL("FD_OF_A_FILE", "host", "service", "flags"), BOTH, OURS, foreign, NULL},
    {5, EINVAL, CALL("fd", "host", "service", "BAD_FLAG"), BOTH, OURS, flags_bad, NULL},
    {6, EINVAL, CALL("CONNECTED_FD", "host", "service", "flags"), BOTH, OURS, already, NULL},
    {7, EINVAL, CALL("LISTENING_FD", "host", "service", "flags"), BOTH, OURS, listener, NULL},
    {8, EINVAL, CALL("BOUND_FD", "host", "service", "flags"), BOTH, OURS, bound, NULL},
    {9, EINVAL, CALL("fd", "NULL", "service", "flags"), BOTH, OURS, host_null, NULL},
    {10, EINVAL, CALL("fd", "host", "NULL", "flags"), BOTH, OURS, service_null, NULL},
    {11, EINVAL, CALL("fd", "host", "\"65536\"", "flags"), BOTH, OURS, service_large, NULL},
    {12, ENAMETOOLONG, CALL("fd", "LONG_HOST", "service", "flags"), BOTH, OURS, host_long, NULL},
    {13, EAFNOSUPPORT, CALL("IPV4_FD", "IPV6_HOST", "service", "flags"), BOTH, OURS, family, NULL},
    {14, EINVAL, CALL("fd", "host", "UNKNOWN_SERVICE", "flags"), BOTH, OURS, service_unknown, NULL},
    {15, EINVAL, "exs_connect_host(fd, host, service, flags, to, INVALID_QHANDLE, ah)", BOTH, OURS,
     queue_invalid, NULL},
    {16, EINVAL, "exs_connect_host(fd, host, service, flags, {-1, 0}, qh, ah)", BOTH, OURS, timeout_negative,
     NULL},
    {17, 0, CALL("fd", "host", "service", "flags"), BOTH, OURS, ok, NULL},
    {18, ETIMEDOUT, "exs_connect_host(fd, SILENT_HOST, service, flags, {0, 50000}, qh, ah)", BOTH, OURS,
     times_out, NULL},
    {19, ECONNREFUSED, CALL("fd", "host", "SERVICE_OF_NO_LISTENER", "flags"), BOTH, OURS, is_refused, NULL},
    {20, ENXIO, CALL("fd", "UNKNOWN_HOST", "service", "flags"), BOTH, OURS, host_unknown,
     "Whatever else a look-up may come to: test_host."},
};
static const char *const needs[] = {"exs_init", "exs_socket", "exs_connect", NULL};
const struct group group_connect_host = {"exs_connect_host", NULL, needs, ROWS(rows)};

/* ---- exs_blocking_connect_host --------------------------------------------------------------- */

static void blocking_uninitialized(struct trial *trial)
{
    outcome(trial, exs_blocking_connect_host(0, "127.0.0.1", "1"));
}

static void blocking_bad_fd(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, exs_blocking_connect_host(BAD_FD, "127.0.0.1", "1"));
}

static void blocking_forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    outcome(trial, exs_blocking_connect_host(trial->fd, "127.0.0.1", "1"));
}

static void blocking_null(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, exs_blocking_connect_host(trial->fd, NULL, "1"));
    still_connects(trial);
}

static void blocking_unknown(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, exs_blocking_connect_host(trial->fd, UNKNOWN_HOST, name_of(trial).service));
    still_connects(trial);
}

static void blocking_refused(struct trial *trial)
{
    ok_fresh(trial);
    server_absent(trial);
    struct name name = name_of(trial);

    outcome(trial, exs_blocking_connect_host(trial->fd, name.host, name.service));
}

static void blocking_ok(struct trial *trial)
{
    ok_server(trial);
    struct name name = name_of(trial);

    peer_tell(trial, PEER_ACCEPT, 0);
    outcome(trial, exs_blocking_connect_host(trial->fd, name.host, name.service));
    peer_hear(trial);
    peer_tell(trial, PEER_RECEIVE, 1);
    ok_send(trial, "x", 1);
    peer_hear(trial);
}

static const struct row blocking_rows[] = {
    {1, EPERM, "exs_blocking_connect_host(fd, host, service) [no exs_init]", BLOCKING, OURS,
     blocking_uninitialized, NULL},
    {2, EBADF, "exs_blocking_connect_host(BAD_FD, host, service)", BLOCKING, OURS, blocking_bad_fd, NULL},
    {3, EINVAL, "exs_blocking_connect_host(fd, NULL, service)", BLOCKING, OURS, blocking_null, NULL},
    {4, 0, "exs_blocking_connect_host(fd, host, service)", BLOCKING, OURS, blocking_ok, NULL},
    {5, ECONNREFUSED, "exs_blocking_connect_host(fd, host, SERVICE_OF_NO_LISTENER)", BLOCKING, OURS,
     blocking_refused, NULL},
    {6, ENXIO, "exs_blocking_connect_host(fd, UNKNOWN_HOST, service)", BLOCKING, OURS, blocking_unknown, NULL},
    {7, ECHILD, "exs_blocking_connect_host(fd, host, service) [in a forked child]", BLOCKING, OURS,
     blocking_forked, NULL},
};
const struct group group_blocking_connect_host = {"exs_blocking_connect_host", NULL, needs,
                                                  ROWS(blocking_rows)};
