/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.c - tests of exs_bind (5.3.1) and exs_listen (5.3.8). */
#include "bodies.h"

/* ---- exs_bind -------------------------------------------------------------------------------- */

/* Calls exs_bind() with the address of the command line; its length is reduced by `less` bytes. */
static int bound(struct trial *trial, int fd, const char *port, int family, socklen_t less)
{
    struct address address;

    resolve(trial, port, &address);
    if (family != 0)
        address.storage.ss_family = (sa_family_t)family;
    return exs_bind(fd, (struct sockaddr *)&address.storage, address.length - less);
}

static void bind_uninitialized(struct trial *trial)
{
    outcome(trial, bound(trial, 0, "0", 0, 0));
}

static void bind_uninitialized_bad(struct trial *trial)
{
    outcome(trial, exs_bind(BAD_FD, NULL, 0));
}

static void bind_bad_fd(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, bound(trial, BAD_FD, "0", 0, 0));
    outcome(trial, bound(trial, UNUSED_FD, "0", 0, 0));
}

static void bind_foreign_fd(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, bound(trial, foreign_fd(trial), "0", 0, 0));
}

static void bind_forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, bound(trial, trial->fd, "0", 0, 0));
}

static void bind_twice(struct trial *trial)
{
    ok_fresh(trial);
    ok_bind(trial, trial->fd, "0");
    outcome(trial, bound(trial, trial->fd, "0", 0, 0));
}

static void bind_connected(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, bound(trial, trial->fd, "0", 0, 0));
}

static void bind_listening(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, bound(trial, trial->fd, "0", 0, 0));
}

static void bind_ok(struct trial *trial)
{
    struct address address;

    ok_fresh(trial);
    outcome(trial, bound(trial, trial->fd, trial->options->port, 0, 0));
    local_address(trial, trial->fd, &address);
    require(trial, *port_of(&address) != 0, "the socket has no port");
}

static void bind_null(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, exs_bind(trial->fd, NULL, sizeof(struct sockaddr_in)));
}

static void bind_short(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, bound(trial, trial->fd, "0", 0, 1));
    outcome(trial, exs_bind(trial->fd, (const struct sockaddr *)trial->buffer, 8));
}

static void bind_family(struct trial *trial)
{
    struct address address;

    ok_fresh(trial);
    outcome(trial, bound(trial, trial->fd, "0", AF_UNIX, 0));
    resolve(trial, "0", &address);
    int other = address.storage.ss_family == AF_INET ? AF_INET6 : AF_INET;

    address.storage.ss_family = (sa_family_t)other;
    outcome(trial, exs_bind(trial->fd, (struct sockaddr *)&address.storage, sizeof(struct sockaddr_in6)));
}

static void bind_in_use(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, exs_bind(trial->fd, (struct sockaddr *)&trial->server.storage, trial->server.length));
    ok_bind(trial, trial->fd, "0"); /* the failed call has not bound it */
}

/* An address for documentation, which no host has (RFC 5737, RFC 3849). */
static void bind_elsewhere(struct trial *trial)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};

    ok_init(trial);
    outcome(trial, exs_bind(exs_socket(PF_INET, SOCK_STREAM, 0), (struct sockaddr *)&four, sizeof(four)));
}

static const struct row bind_rows[] = {
    {1, EPERM, "exs_bind(fd, ai_addr, ai_addrlen) [no exs_init]", BOTH, THESIS, bind_uninitialized, NULL},
    {2, EBADF, "exs_bind(BAD_FD, ai_addr, ai_addrlen)", BOTH, THESIS, bind_bad_fd, NULL},
    {3, EINVAL, "exs_bind(BOUND_FD, ai_addr, ai_addrlen)", BOTH, THESIS, bind_twice,
     "The thesis calls it with CONNECTED_FD and means a bound one: this is its text, test 5 its call."},
    {4, 0, "exs_bind(fd, ai_addr, ai_addrlen)", BOTH, THESIS, bind_ok, NULL},
    {5, EINVAL, "exs_bind(CONNECTED_FD, ai_addr, ai_addrlen)", BOTH, OURS, bind_connected, NULL},
    {6, EINVAL, "exs_bind(LISTENING_FD, ai_addr, ai_addrlen)", BOTH, OURS, bind_listening, NULL},
    {7, EINVAL, "exs_bind(fd, NULL, ai_addrlen)", BOTH, OURS, bind_null, NULL},
    {8, EINVAL, "exs_bind(fd, ai_addr, ai_addrlen - 1)", BOTH, OURS, bind_short, NULL},
    {9, EAFNOSUPPORT, "exs_bind(fd, AF_UNIX_ADDR, ai_addrlen)", BOTH, OURS, bind_family, NULL},
    {10, EADDRINUSE, "exs_bind(fd, ADDR_OF_A_LISTENER, ai_addrlen)", BOTH, OURS, bind_in_use, NULL},
    {11, EADDRNOTAVAIL, "exs_bind(fd, ADDR_OF_NO_MACHINE, ai_addrlen)", BOTH, OURS, bind_elsewhere, NULL},
    {12, EBADF, "exs_bind(FD_OF_A_FILE, ai_addr, ai_addrlen)", BOTH, OURS, bind_foreign_fd, NULL},
    {13, EPERM, "exs_bind(BAD_FD, NULL, 0) [no exs_init]", BOTH, OURS, bind_uninitialized_bad, NULL},
    {14, ECHILD, "exs_bind(fd, ai_addr, ai_addrlen) [in a forked child]", BOTH, OURS, bind_forked, NULL},
};
static const char *const bind_needs[] = {"exs_init", "exs_socket", NULL};
const struct group group_bind = {"exs_bind", "5.3.1", bind_needs, ROWS(bind_rows)};

/* ---- exs_listen ------------------------------------------------------------------------------ */

static void listen_uninitialized(struct trial *trial)
{
    outcome(trial, exs_listen(0, 10));
}

static void listen_uninitialized_bad(struct trial *trial)
{
    outcome(trial, exs_listen(BAD_FD, -1));
}

static void listen_negative(struct trial *trial)
{
    ok_fresh(trial);
    ok_bind(trial, trial->fd, trial->options->port);
    outcome(trial, exs_listen(trial->fd, -1));
    ok_listen(trial, trial->fd);
}

static void listen_connected(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_listen(trial->fd, 10));
}

static void listen_listening(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, exs_listen(trial->fd, 10));
}

static void listen_bad_fd(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_listen(BAD_FD, 10));
    outcome(trial, exs_listen(UNUSED_FD, 10));
}

static void listen_foreign_fd(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_listen(foreign_fd(trial), 10));
}

static void listen_forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, exs_listen(trial->fd, 10));
}

static void listen_backlog(struct trial *trial, int backlog)
{
    peer_start(trial);
    ok_fresh(trial);
    ok_bind(trial, trial->fd, trial->options->port);
    outcome(trial, exs_listen(trial->fd, backlog));
    local_address(trial, trial->fd, &trial->server);
    peer_tell(trial, PEER_CONNECT, 0);
    ok_accept(trial);
    peer_hear(trial);
}

static void listen_ok(struct trial *trial)
{
    listen_backlog(trial, 10);
}

static void listen_none(struct trial *trial)
{
    listen_backlog(trial, 0);
}

static const struct row listen_rows[] = {
    {1, EPERM, "exs_listen(fd, 10) [no exs_init]", BOTH, THESIS, listen_uninitialized, NULL},
    {2, EINVAL, "exs_listen(fd, -1)", BOTH, THESIS, listen_negative, NULL},
    {3, EINVAL, "exs_listen(CONNECTED_FD, 10)", BOTH, THESIS, listen_connected, NULL},
    {4, EBADF, "exs_listen(BAD_FD, 10)", BOTH, THESIS, listen_bad_fd,
     "The thesis calls it with CONNECTED_FD as in test 3, and means a bad one."},
    {5, 0, "exs_listen(fd, 10)", BOTH, THESIS, listen_ok, NULL},
    {6, EINVAL, "exs_listen(LISTENING_FD, 10)", BOTH, OURS, listen_listening, NULL},
    {7, 0, "exs_listen(fd, 0)", BOTH, OURS, listen_none, NULL},
    {8, EBADF, "exs_listen(FD_OF_A_FILE, 10)", BOTH, OURS, listen_foreign_fd, NULL},
    {9, EPERM, "exs_listen(BAD_FD, -1) [no exs_init]", BOTH, OURS, listen_uninitialized_bad, NULL},
    {10, ECHILD, "exs_listen(fd, 10) [in a forked child]", BOTH, OURS, listen_forked, NULL},
};
static const char *const listen_needs[] = {"exs_init", "exs_socket", "exs_bind", NULL};
const struct group group_listen = {"exs_listen", "5.3.8", listen_needs, ROWS(listen_rows)};
