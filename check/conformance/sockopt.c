/* SPDX-License-Identifier: BSD-2-Clause */
/* sockopt.c - tests of exs_getsockopt. */
#include <limits.h>
#include <stdlib.h>
#include "bodies.h"

static const char *const socket_needs[] = {"exs_init", "exs_socket", NULL};

/* Makes the call of the row, and checks the value of the option. */
static void is(struct trial *trial, int option, int wanted)
{
    int value = ~wanted;
    socklen_t length = sizeof(value);

    outcome(trial, exs_getsockopt(trial->fd, SOL_SOCKET, option, &value, &length));
    require(trial, length == sizeof(value), "the value has another length than an int");
    require(trial, value == wanted, "the option has another value");
}

/* Checks that a call that fails does not change its arguments. */
static void refused(struct trial *trial, int fd, int level, int option, socklen_t length)
{
    int value = 42;
    socklen_t before = length;

    outcome(trial, exs_getsockopt(fd, level, option, &value, &length));
    require(trial, value == 42 && length == before, "a call that failed has changed its arguments");
}

static void getsockopt_uninitialized(struct trial *trial)
{
    outcome(trial, exs_getsockopt(BAD_FD, -1, -1, NULL, NULL));
}

static void type_stream(struct trial *trial)
{
    ok_fresh(trial);
    is(trial, SO_TYPE, SOCK_STREAM);
}

static void type_seqpacket(struct trial *trial)
{
    trial->type = SOCK_SEQPACKET;
    ok_connected(trial);
    is(trial, SO_TYPE, SOCK_SEQPACKET);
}

static void domain(struct trial *trial)
{
    ok_fresh(trial);
    trial->fd = exs_socket(PF_INET6, SOCK_STREAM, 0);
    is(trial, SO_DOMAIN, PF_INET6);
}

static void domain_v4(struct trial *trial)
{
    ok_fresh(trial);
    trial->fd = exs_socket(PF_INET, SOCK_STREAM, 0);
    is(trial, SO_DOMAIN, PF_INET);
}

static void protocol(struct trial *trial)
{
    ok_fresh(trial);
    is(trial, SO_PROTOCOL, 0);
}

static void accepts(struct trial *trial)
{
    ok_listening(trial);
    is(trial, SO_ACCEPTCONN, 1);
}

static void accepts_not(struct trial *trial)
{
    ok_connected(trial);
    is(trial, SO_ACCEPTCONN, 0);
}

static void error_none(struct trial *trial)
{
    ok_connected(trial);
    is(trial, SO_ERROR, 0);
}

static void error_fresh(struct trial *trial)
{
    ok_fresh(trial);
    is(trial, SO_ERROR, 0);
}

static void error_reset(struct trial *trial)
{
    ok_connected(trial);
    ok_reset(trial);
    is(trial, SO_ERROR, ECONNRESET);
    is(trial, SO_ERROR, ECONNRESET); /* the error stays, because the connection is lost */
}

/* The peer's end of stream is not an error. */
static void error_closed(struct trial *trial)
{
    unsigned char byte;

    ok_connected(trial);
    trial->connected = false;
    peer_tell(trial, PEER_CLOSE, 0);
    ssize_t got =
        moved(trial, exs_recv(trial->fd, &byte, 1, trial->flags, trial->queue, trial, NULL), EXS_EVT_RECV);

    require(trial, got == 0, "the peer closed, and a receive does not end in order");
    peer_hear(trial);
    for (int i = 0; i < 100 && got >= 0; i++) /* until the library has detected that the connection is lost */
        got = moved(trial, exs_send(trial->fd, "x", 1, trial->flags, trial->queue, trial, NULL), EXS_EVT_SEND);
    require(trial, got < 0, "the peer has closed, and takes what is sent");
    is(trial, SO_ERROR, 0);
}

/* The number of bytes that arrive without a receive. */
static void receive_buffer(struct trial *trial)
{
    int size = 0;
    socklen_t length = sizeof(size);

    ok_connected(trial);
    outcome(trial, exs_getsockopt(trial->fd, SOL_SOCKET, SO_RCVBUF, &size, &length));
    require(trial, size > 0, "there is no room");
    struct peer_answer answer = peer_do(trial, PEER_SEND, (size_t)size);

    require(trial, answer.result >= 0, "the peer could not send so much");
    unsigned char *bytes = malloc((size_t)size), *wanted = malloc((size_t)size);

    require(trial, bytes != NULL && wanted != NULL, "no memory");
    ok_receive(trial, bytes, (size_t)size);
    pattern(wanted, (size_t)size);
    require(trial, memcmp(bytes, wanted, (size_t)size) == 0, "other bytes came than were sent");
    free(bytes);
    free(wanted);
}

static void receive_buffer_none(struct trial *trial)
{
    trial->type = SOCK_SEQPACKET;
    ok_fresh(trial);
    is(trial, SO_RCVBUF, 0);
}

static void send_buffer(struct trial *trial)
{
    ok_connected(trial);
    is(trial, SO_SNDBUF, INT_MAX);
}

static void cut_off(struct trial *trial)
{
    int type = SOCK_STREAM;
    unsigned char value[sizeof(type)] = {0xa5, 0xa5, 0xa5, 0xa5};
    socklen_t length = 1;

    ok_fresh(trial);
    outcome(trial, exs_getsockopt(trial->fd, SOL_SOCKET, SO_TYPE, value, &length));
    require(trial, length == 1 && memcmp(value, &type, 1) == 0 && value[1] == 0xa5,
            "it is not its first byte alone");
}

static void of_nothing(struct trial *trial)
{
    socklen_t length = 0;

    ok_fresh(trial);
    outcome(trial, exs_getsockopt(trial->fd, SOL_SOCKET, SO_TYPE, NULL, &length));
    require(trial, length == 0, "it has a length");
}

static void longer(struct trial *trial)
{
    int value[2] = {0, 42};
    socklen_t length = sizeof(value);

    ok_fresh(trial);
    outcome(trial, exs_getsockopt(trial->fd, SOL_SOCKET, SO_TYPE, value, &length));
    require(trial, length == sizeof(value[0]) && value[0] == SOCK_STREAM && value[1] == 42,
            "it is not the value, and that alone");
}

static void length_negative(struct trial *trial)
{
    ok_fresh(trial);
    refused(trial, trial->fd, SOL_SOCKET, SO_TYPE, (socklen_t)-1);
}

static void length_nowhere(struct trial *trial)
{
    int value;

    ok_fresh(trial);
    outcome(trial, exs_getsockopt(trial->fd, SOL_SOCKET, SO_TYPE, &value, NULL));
}

static void value_nowhere(struct trial *trial)
{
    socklen_t length = sizeof(int);

    ok_fresh(trial);
    outcome(trial, exs_getsockopt(trial->fd, SOL_SOCKET, SO_TYPE, NULL, &length));
    require(trial, length == sizeof(int), "a call that failed has changed the length");
}

static void option_unknown(struct trial *trial)
{
    ok_connected(trial);
    refused(trial, trial->fd, SOL_SOCKET, SO_BROADCAST, sizeof(int));
}

static void level_unknown(struct trial *trial)
{
    ok_connected(trial);
    refused(trial, trial->fd, IPPROTO_TCP, SO_TYPE, sizeof(int));
}

static void bad_fd(struct trial *trial)
{
    ok_fresh(trial);
    refused(trial, BAD_FD, SOL_SOCKET, SO_TYPE, sizeof(int));
}

static void foreign(struct trial *trial)
{
    ok_fresh(trial);
    refused(trial, foreign_fd(trial), SOL_SOCKET, SO_TYPE, sizeof(int));
}

static void closed(struct trial *trial)
{
    ok_fresh(trial);
    require(trial, exs_blocking_close(trial->fd) == 0, "exs_blocking_close failed");
    refused(trial, trial->fd, SOL_SOCKET, SO_TYPE, sizeof(int));
}

static void forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    refused(trial, trial->fd, SOL_SOCKET, SO_TYPE, sizeof(int));
}

#define GET(option) "exs_getsockopt(fd, SOL_SOCKET, " option ", &value, &length)"

static const struct row getsockopt_rows[] = {
    {1, EPERM, "exs_getsockopt(BAD_FD, -1, -1, NULL, NULL) [no exs_init]", BOTH, OURS, getsockopt_uninitialized,
     NULL},
    {2, 0, GET("SO_TYPE") " [SOCK_STREAM]", BOTH, OURS, type_stream, NULL},
    {3, 0, GET("SO_TYPE") " [SOCK_SEQPACKET, connected]", BOTH, OURS, type_seqpacket, NULL},
    {4, 0, GET("SO_DOMAIN") " [PF_INET6]", BOTH, OURS, domain, NULL},
    {5, 0, GET("SO_DOMAIN") " [PF_INET]", BOTH, OURS, domain_v4, NULL},
    {6, 0, GET("SO_PROTOCOL"), BOTH, OURS, protocol, "0: what carries the bytes is the device's."},
    {7, 0, GET("SO_ACCEPTCONN") " [it listens]", BOTH, OURS, accepts, NULL},
    {8, 0, GET("SO_ACCEPTCONN") " [connected]", BOTH, OURS, accepts_not, NULL},
    {9, 0, GET("SO_ERROR") " [connected]", BOTH, OURS, error_none, NULL},
    {10, 0, GET("SO_ERROR") " [not connected]", BOTH, OURS, error_fresh, NULL},
    {11, 0, GET("SO_ERROR") " [the peer was killed]", BOTH, OURS, error_reset, "ECONNRESET, and again."},
    {12, 0, GET("SO_ERROR") " [the peer has closed]", BOTH, OURS, error_closed, NULL},
    {13, 0, GET("SO_RCVBUF"), BOTH, OURS, receive_buffer, "So much comes while no receive is started."},
    {14, 0, GET("SO_RCVBUF") " [SOCK_SEQPACKET]", BOTH, OURS, receive_buffer_none, NULL},
    {15, 0, GET("SO_SNDBUF"), BOTH, OURS, send_buffer, "INT_MAX: at first there is no limit."},
    {16, 0, "exs_getsockopt(fd, SOL_SOCKET, SO_TYPE, value, {1})", BOTH, OURS, cut_off, NULL},
    {17, 0, "exs_getsockopt(fd, SOL_SOCKET, SO_TYPE, NULL, {0})", BOTH, OURS, of_nothing, NULL},
    {18, 0, "exs_getsockopt(fd, SOL_SOCKET, SO_TYPE, value, {8})", BOTH, OURS, longer, NULL},
    {19, EINVAL, "exs_getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, {-1})", BOTH, OURS, length_negative, NULL},
    {20, EFAULT, "exs_getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, NULL)", BOTH, OURS, length_nowhere, NULL},
    {21, EFAULT, "exs_getsockopt(fd, SOL_SOCKET, SO_TYPE, NULL, &length)", BOTH, OURS, value_nowhere, NULL},
    {22, ENOPROTOOPT, GET("SO_BROADCAST"), BOTH, OURS, option_unknown, NULL},
    {23, ENOPROTOOPT, "exs_getsockopt(fd, IPPROTO_TCP, SO_TYPE, &value, &length)", BOTH, OURS, level_unknown,
     NULL},
    {24, EBADF, "exs_getsockopt(BAD_FD, SOL_SOCKET, SO_TYPE, &value, &length)", BOTH, OURS, bad_fd, NULL},
    {25, EBADF, "exs_getsockopt(FD_OF_A_FILE, SOL_SOCKET, SO_TYPE, &value, &length)", BOTH, OURS, foreign,
     NULL},
    {26, EBADF, GET("SO_TYPE") " [closed]", BOTH, OURS, closed, NULL},
    {27, ECHILD, GET("SO_TYPE") " [in a forked child]", BOTH, OURS, forked, NULL},
};
const struct group group_getsockopt = {"exs_getsockopt", NULL, socket_needs, ROWS(getsockopt_rows)};
