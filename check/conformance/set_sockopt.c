/* SPDX-License-Identifier: BSD-2-Clause */
/* set_sockopt.c - tests of exs_setsockopt: timeouts of receives, sends and accepts, and other options. */
#include <netinet/tcp.h>
#include "bodies.h"

static const char *const needs[] = {"exs_init", "exs_socket", "exs_getsockopt", "exs_recv", NULL};
static const struct timeval shortly = {.tv_usec = 20000};

#define MANY 3000000 /* bytes; more than the peer buffers without a receive */
static unsigned char many[MANY];

static bool is(const struct trial *trial, int option, struct timeval wanted)
{
    struct timeval held = {.tv_sec = -1};
    socklen_t length = sizeof(held);

    return exs_getsockopt(trial->fd, SOL_SOCKET, option, &held, &length) == 0 && length == sizeof(held) &&
           held.tv_sec == wanted.tv_sec && held.tv_usec == wanted.tv_usec;
}

/* Checks that a call that fails does not change the option. */
static void refused(struct trial *trial, int level, int option, const void *value, socklen_t length)
{
    const struct timeval before = {.tv_sec = 7};

    ok_connected(trial);
    require(trial, exs_setsockopt(trial->fd, SOL_SOCKET, SO_RCVTIMEO, &before, sizeof(before)) == 0,
            "the first exs_setsockopt failed");
    outcome(trial, exs_setsockopt(trial->fd, level, option, value, length));
    require(trial, is(trial, SO_RCVTIMEO, before), "the limit was changed");
}

static void uninitialized(struct trial *trial)
{
    outcome(trial, exs_setsockopt(BAD_FD, -1, -1, NULL, 0));
}

static void forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, exs_setsockopt(trial->fd, SOL_SOCKET, SO_RCVTIMEO, &shortly, sizeof(shortly)));
}

static void bad_fd(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, exs_setsockopt(BAD_FD, SOL_SOCKET, SO_RCVTIMEO, &shortly, sizeof(shortly)));
}

static void foreign(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, exs_setsockopt(foreign_fd(trial), SOL_SOCKET, SO_RCVTIMEO, &shortly, sizeof(shortly)));
}

static void read_only(struct trial *trial)
{
    int type = SOCK_STREAM;

    refused(trial, SOL_SOCKET, SO_TYPE, &type, sizeof(type));
}

static void level_unknown(struct trial *trial)
{
    refused(trial, IPPROTO_TCP, SO_RCVTIMEO, &shortly, sizeof(shortly));
}

static void too_short(struct trial *trial)
{
    refused(trial, SOL_SOCKET, SO_RCVTIMEO, &shortly, sizeof(shortly) - 1);
}

static void nowhere(struct trial *trial)
{
    refused(trial, SOL_SOCKET, SO_RCVTIMEO, NULL, sizeof(shortly));
}

static void negative(struct trial *trial)
{
    refused(trial, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = -1}, sizeof(shortly));
}

static void a_second_in_microseconds(struct trial *trial)
{
    refused(trial, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_usec = 1000000}, sizeof(shortly));
}

static void kept(struct trial *trial)
{
    const struct timeval receive = {.tv_sec = 3, .tv_usec = 999999}, send = {.tv_sec = 5, .tv_usec = 1};

    ok_fresh(trial);
    require(trial, is(trial, SO_RCVTIMEO, (struct timeval){0}) && is(trial, SO_SNDTIMEO, (struct timeval){0}),
            "a new socket has limits");
    outcome(trial, exs_setsockopt(trial->fd, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof(receive)));
    outcome(trial, exs_setsockopt(trial->fd, SOL_SOCKET, SO_SNDTIMEO, &send, sizeof(send)));
    require(trial, is(trial, SO_RCVTIMEO, receive) && is(trial, SO_SNDTIMEO, send), "others are held");
}

static void set(struct trial *trial, int option)
{
    outcome(trial, exs_setsockopt(trial->fd, SOL_SOCKET, option, &shortly, sizeof(shortly)));
}

static void times_out(struct trial *trial, ssize_t result, int type)
{
    require(trial, moved(trial, result, type) == -1, "it did not end with an error");
    require(trial, errno == ETIMEDOUT, "it ended with another errno than ETIMEDOUT");
}

/* A receive with a timeout fails; the next one, without a timeout, receives data. */
static void receive(struct trial *trial)
{
    const struct timeval none = {0};

    ok_connected(trial);
    set(trial, SO_RCVTIMEO);
    times_out(trial, exs_recv(trial->fd, many, MANY, trial->flags, trial->queue, trial, NULL), EXS_EVT_RECV);
    require(trial, exs_setsockopt(trial->fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)) == 0,
            "the limit can't be taken away");
    peer_do(trial, PEER_SEND, 10);
    ok_receive(trial, many, 10);
}

static void send_too_much(struct trial *trial)
{
    ok_connected(trial);
    set(trial, SO_SNDTIMEO);
    ssize_t result = exs_send(trial->fd, many, MANY, trial->flags, trial->queue, trial, NULL);

    if (trial->flags & EXS_BLOCK) {
        require(trial, result > 0 && result < MANY, "it did not return the bytes that had moved");
    } else {
        exs_event_t event = ok_event(trial, trial->queue, EXS_EVT_SEND, trial);

        require(trial, event.exs_evt_errno == ETIMEDOUT, "it ended with another errno than ETIMEDOUT");
        result = (ssize_t)event.exs_evt_union.exs_evt_xfer.exs_evt_length;
    }
    struct peer_answer answer = peer_do(trial, PEER_RECEIVE, (size_t)result);

    require(trial, answer.count == (size_t)result, "the peer received another number of bytes");
}

static void accept_nobody(struct trial *trial)
{
    static exs_acceptaddr_t element;

    ok_listening(trial);
    element.exs_ahandle = trial;
    set(trial, SO_RCVTIMEO);
    times_out(trial, exs_accept(trial->fd, &element, 1, trial->flags, trial->queue), EXS_EVT_ACCEPT);
    require(trial, element.exs_socket == -1 || trial->flags & EXS_BLOCK, "there is a new socket");
}

static void linger_negative(struct trial *trial)
{
    refused(trial, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1, .l_linger = -1},
            sizeof(struct linger));
}

static void linger_short(struct trial *trial)
{
    refused(trial, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger) - 1);
}

static void linger_kept(struct trial *trial)
{
    struct linger wanted = {.l_onoff = 2, .l_linger = 60}, held = {.l_onoff = -1, .l_linger = -1};
    socklen_t length = sizeof(held);

    ok_connected(trial);
    require(trial, exs_getsockopt(trial->fd, SOL_SOCKET, SO_LINGER, &held, &length) == 0, "it can't be read");
    require(trial, length == sizeof(held) && held.l_onoff == 0 && held.l_linger == 0, "a new socket lingers");
    outcome(trial, exs_setsockopt(trial->fd, SOL_SOCKET, SO_LINGER, &wanted, sizeof(wanted)));
    require(trial, exs_getsockopt(trial->fd, SOL_SOCKET, SO_LINGER, &held, &length) == 0, "it can't be read");
    require(trial, held.l_onoff == 1 && held.l_linger == 60, "another is held");
}

static void longer(struct trial *trial)
{
    const struct timeval wanted[2] = {{.tv_sec = 1}, {.tv_sec = -1}};

    ok_fresh(trial);
    outcome(trial, exs_setsockopt(trial->fd, SOL_SOCKET, SO_RCVTIMEO, wanted, sizeof(wanted)));
    require(trial, is(trial, SO_RCVTIMEO, wanted[0]), "another is held");
}

static int number_of(const struct trial *trial, int option)
{
    int value = -1;
    socklen_t length = sizeof(value);

    return exs_getsockopt(trial->fd, SOL_SOCKET, option, &value, &length) == 0 ? value : -1;
}

static void receive_buffer(struct trial *trial)
{
    int wanted = 300000;

    ok_fresh(trial);
    outcome(trial, exs_setsockopt(trial->fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted)));
    require(trial, number_of(trial, SO_RCVBUF) == 512 << 10, "it is not the next power of 2");
}

static void receive_buffer_late(struct trial *trial)
{
    int wanted = 300000;

    refused(trial, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted));
}

static void receive_buffer_of_messages(struct trial *trial)
{
    int wanted = 300000;

    trial->type = SOCK_SEQPACKET;
    ok_fresh(trial);
    outcome(trial, exs_setsockopt(trial->fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted)));
}

static void no_buffer(struct trial *trial, int option, int wanted)
{
    int before;

    ok_fresh(trial);
    before = number_of(trial, option);
    outcome(trial, exs_setsockopt(trial->fd, SOL_SOCKET, option, &wanted, sizeof(wanted)));
    require(trial, number_of(trial, option) == before, "it was changed");
}

static void no_receive_buffer(struct trial *trial)
{
    no_buffer(trial, SO_RCVBUF, 0);
}

static void no_send_buffer(struct trial *trial)
{
    no_buffer(trial, SO_SNDBUF, -1);
}

/* One byte more than the limit on pending sends. */
static void send_buffer(struct trial *trial)
{
    int size = MANY, on = 1;

    ok_connected(trial);
    outcome(trial, exs_setsockopt(trial->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
    outcome(trial, exs_setsockopt(trial->fd, SOL_SOCKET, EXS_SO_SENDLIMIT, &on, sizeof(on)));
    require(trial, number_of(trial, SO_SNDBUF) == MANY && number_of(trial, EXS_SO_SENDLIMIT) == 1,
            "others are held");
    require(trial, exs_send(trial->fd, many, MANY, EXS_UNSIGNALED, NULL, NULL, NULL) == 0, "exs_send failed");
    require(trial, exs_send(trial->fd, many, 1, EXS_UNSIGNALED, NULL, NULL, NULL) == -1 && errno == EAGAIN,
            "another send was not refused with EAGAIN");
}

static void set_number(struct trial *trial, int fd, int level, int option, int wanted)
{
    int value = -1;
    socklen_t length = sizeof(value);

    outcome(trial, exs_setsockopt(fd, level, option, &wanted, sizeof(wanted)));
    if (exs_getsockopt(fd, level, option, &value, &length) == 0)
        require(trial, (value == wanted) == (trial->row->expected == 0), "it is not what it should be");
}

static void keeps_alive(struct trial *trial)
{
    ok_connected(trial);
    set_number(trial, trial->fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_number(trial, trial->fd, IPPROTO_TCP, TCP_KEEPIDLE, 3);
    set_number(trial, trial->fd, IPPROTO_TCP, TCP_KEEPINTVL, 4);
    set_number(trial, trial->fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
    peer_do(trial, PEER_SEND, 10);
    ok_receive(trial, many, 10);
}

static void keep_never(struct trial *trial)
{
    ok_connected(trial);
    set_number(trial, trial->fd, IPPROTO_TCP, TCP_KEEPIDLE, 0);
}

static void reuses(struct trial *trial)
{
    ok_fresh(trial);
    set_number(trial, trial->fd, SOL_SOCKET, SO_REUSEADDR, 1);
}

static void ipv6_only(struct trial *trial)
{
    ok_fresh(trial);
    set_number(trial, exs_socket(PF_INET6, SOCK_STREAM, 0), IPPROTO_IPV6, IPV6_V6ONLY, 1);
}

static void ipv6_only_of_ipv4(struct trial *trial)
{
    ok_fresh(trial);
    set_number(trial, exs_socket(PF_INET, SOCK_STREAM, 0), IPPROTO_IPV6, IPV6_V6ONLY, 1);
}

#define OF(level, option) "exs_setsockopt(fd, " level ", " option ", &number, sizeof(number))"
#define NUMBER(option) "exs_setsockopt(fd, SOL_SOCKET, " option ", &number, sizeof(number))"
#define LINGER "exs_setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, "
#define SET(option) "exs_setsockopt(fd, SOL_SOCKET, " option ", &time, sizeof(time))"

static const struct row setsockopt_rows[] = {
    {1, EPERM, "exs_setsockopt(BAD_FD, -1, -1, NULL, 0) [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, ECHILD, SET("SO_RCVTIMEO") " [in a forked child]", BOTH, OURS, forked, NULL},
    {3, EBADF, "exs_setsockopt(BAD_FD, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time))", BOTH, OURS, bad_fd,
     NULL},
    {4, EBADF, "exs_setsockopt(FD_OF_A_FILE, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time))", BOTH, OURS,
     foreign, NULL},
    {5, ENOPROTOOPT, SET("SO_TYPE"), BOTH, OURS, read_only, NULL},
    {6, ENOPROTOOPT, "exs_setsockopt(fd, IPPROTO_TCP, SO_RCVTIMEO, &time, sizeof(time))", BOTH, OURS,
     level_unknown, NULL},
    {7, EINVAL, "exs_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time) - 1)", BOTH, OURS, too_short,
     NULL},
    {8, EFAULT, "exs_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, NULL, sizeof(time))", BOTH, OURS, nowhere, NULL},
    {9, EDOM, SET("SO_RCVTIMEO") " [-1 s]", BOTH, OURS, negative, NULL},
    {10, EDOM, SET("SO_RCVTIMEO") " [1000000 us]", BOTH, OURS, a_second_in_microseconds, NULL},
    {11, 0, SET("SO_SNDTIMEO") " [and SO_RCVTIMEO]", BOTH, OURS, kept, NULL},
    {12, 0, SET("SO_RCVTIMEO") " [a receive]", BOTH, OURS, receive,
     "It ends with ETIMEDOUT; the next is as ever."},
    {13, 0, SET("SO_SNDTIMEO") " [more than the peer takes]", BOTH, OURS, send_too_much,
     "ETIMEDOUT, and the bytes that moved; a call that waits returns these."},
    {14, 0, SET("SO_RCVTIMEO") " [an accept]", BOTH, OURS, accept_nobody, "It ends with ETIMEDOUT."},
    {15, 0, LINGER "sizeof(linger))", BOTH, OURS, linger_kept, NULL},
    {16, EDOM, LINGER "sizeof(linger)) [-1 s]", BOTH, OURS, linger_negative, NULL},
    {17, EINVAL, LINGER "sizeof(linger) - 1)", BOTH, OURS, linger_short, NULL},
    {18, 0, "exs_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, times, 2 * sizeof(times[0]))", BOTH, OURS, longer,
     NULL},
    {19, 0, NUMBER("SO_RCVBUF"), BOTH, OURS, receive_buffer, "It is rounded up to a power of 2."},
    {20, EISCONN, NUMBER("SO_RCVBUF") " [connected]", BOTH, OURS, receive_buffer_late, NULL},
    {21, ENOPROTOOPT, NUMBER("SO_RCVBUF") " [SOCK_SEQPACKET]", BOTH, OURS, receive_buffer_of_messages, NULL},
    {22, EINVAL, NUMBER("SO_RCVBUF") " [0]", BOTH, OURS, no_receive_buffer, NULL},
    {23, EINVAL, NUMBER("SO_SNDBUF") " [-1]", BOTH, OURS, no_send_buffer, NULL},
    {24, 0, NUMBER("EXS_SO_SENDLIMIT") " [and SO_SNDBUF]", BOTH, OURS, send_buffer,
     "A send beyond fails with EAGAIN."},
    {25, 0, NUMBER("SO_KEEPALIVE") " [and its times]", BOTH, OURS, keeps_alive, NULL},
    {26, EINVAL, OF("IPPROTO_TCP", "TCP_KEEPIDLE") " [0]", BOTH, OURS, keep_never, NULL},
    {27, 0, NUMBER("SO_REUSEADDR"), BOTH, OURS, reuses, NULL},
    {28, 0, OF("IPPROTO_IPV6", "IPV6_V6ONLY") " [PF_INET6]", BOTH, OURS, ipv6_only, NULL},
    {29, ENOPROTOOPT, OF("IPPROTO_IPV6", "IPV6_V6ONLY") " [PF_INET]", BOTH, OURS, ipv6_only_of_ipv4, NULL},
};
const struct group group_setsockopt = {"exs_setsockopt", NULL, needs, ROWS(setsockopt_rows)};
