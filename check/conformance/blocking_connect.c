/* SPDX-License-Identifier: BSD-2-Clause */
/* blocking_connect.c - tests of exs_blocking_accept (5.3.2) and exs_blocking_connect (5.3.4). */
#include <fcntl.h>
#include "bodies.h"

/* ---- exs_blocking_accept --------------------------------------------------------------------- */

static void accept_uninitialized(struct trial *trial)
{
    outcome(trial, exs_blocking_accept(0, NULL, NULL));
}

static void accept_forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    outcome(trial, exs_blocking_accept(trial->fd, NULL, NULL));
}

static void accept_not_listening(struct trial *trial)
{
    ok_fresh(trial);
    ok_bind(trial, trial->fd, trial->options->port);
    outcome(trial, exs_blocking_accept(trial->fd, NULL, NULL));
}

static void accept_ok(struct trial *trial)
{
    struct address from = {.length = sizeof(from.storage)};

    ok_listening(trial);
    peer_tell(trial, PEER_CONNECT, 0);
    int fd = exs_blocking_accept(trial->fd, (struct sockaddr *)&from.storage, &from.length);

    outcome(trial, fd);
    peer_hear(trial);
    require(trial, fd != trial->fd, "the new socket is the old one");
    require(trial,
            from.storage.ss_family == trial->server.storage.ss_family && from.length == trial->server.length,
            "the peer's address is not there");
    trial->fd = fd;
    peer_tell(trial, PEER_SEND, 1);
    ok_receive(trial, trial->buffer, 1);
    peer_hear(trial);
}

static void accept_no_address(struct trial *trial)
{
    ok_listening(trial);
    peer_tell(trial, PEER_CONNECT, 0);
    outcome(trial, exs_blocking_accept(trial->fd, NULL, NULL));
    peer_hear(trial);
}

static void accept_bad_fd(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_blocking_accept(BAD_FD, NULL, NULL));
    outcome(trial, exs_blocking_accept(UNUSED_FD, NULL, NULL));
    outcome(trial, exs_blocking_accept(foreign_fd(trial), NULL, NULL));
}

/* Tests without a corresponding parameter of exs_blocking_accept() use exs_accept() with EXS_BLOCK. */
static void accept_flag(struct trial *trial)
{
    exs_acceptaddr_t element = {0};

    ok_listening(trial);
    outcome(trial, exs_accept(trial->fd, &element, 1, EXS_BLOCK | BAD_FLAG, NULL));
}

static void accept_count(struct trial *trial)
{
    exs_acceptaddr_t element = {0};

    ok_listening(trial);
    outcome(trial, exs_accept(trial->fd, &element, -1, EXS_BLOCK, NULL));
}

static void accept_queue(struct trial *trial)
{
    exs_acceptaddr_t element = {0};

    ok_listening(trial);
    outcome(trial, exs_accept(trial->fd, &element, 1, EXS_BLOCK, INVALID_QHANDLE));
}

#define NO_PARAMETER "exs_blocking_accept has no such parameter: asked of the call that it stands for."

static void nonblocking_accept(struct trial *trial)
{
    ok_listening(trial);
    require(trial, exs_fcntl(trial->fd, F_SETFL, O_NONBLOCK) == 0, "it can't be set");
    trial->listening = false; /* the check that it still accepts would block */
    outcome(trial, exs_blocking_accept(trial->fd, NULL, NULL));
}

static const struct row accept_rows[] = {
    {1, EPERM, "exs_blocking_accept(fd, addr_store, addrlen) [no exs_init]", BLOCKING, THESIS,
     accept_uninitialized, NULL},
    {2, EINVAL, "exs_blocking_accept(fd, addr_store, addrlen) [no exs_listen]", BLOCKING, THESIS,
     accept_not_listening, NULL},
    {3, 0, "exs_blocking_accept(fd, addr_store, addrlen)", BLOCKING, THESIS, accept_ok, NULL},
    {4, EINVAL, "exs_accept(fd, &acceptaddr, 1, EXS_BLOCK | BAD_FLAG, NULL)", BLOCKING, UNIMPLEMENTED,
     accept_flag, NO_PARAMETER},
    {5, EINVAL, "exs_accept(fd, &acceptaddr, -1, EXS_BLOCK, NULL)", BLOCKING, UNIMPLEMENTED, accept_count,
     NO_PARAMETER},
    {6, EINVAL, "exs_accept(fd, &acceptaddr, 1, EXS_BLOCK, INVALID_QHANDLE)", BLOCKING, UNIMPLEMENTED,
     accept_queue, NO_PARAMETER},
    {7, EBADF, "exs_blocking_accept(BAD_FD, addr_store, addrlen)", BLOCKING, UNIMPLEMENTED, accept_bad_fd,
     NULL},
    {8, 0, "exs_blocking_accept(fd, NULL, NULL)", BLOCKING, OURS, accept_no_address, NULL},
    {9, EAGAIN, "exs_blocking_accept(FD_WITH_O_NONBLOCK, NULL, NULL) [no connection]", BLOCKING, OURS,
     nonblocking_accept, NULL},
    {10, ECHILD, "exs_blocking_accept(fd, NULL, NULL) [in a forked child]", BLOCKING, OURS, accept_forked,
     NULL},
};
static const char *const accept_needs[] = {"exs_init", "exs_socket", "exs_bind", "exs_listen", NULL};
const struct group group_blocking_accept = {"exs_blocking_accept", "5.3.2", accept_needs, ROWS(accept_rows)};

/* ---- exs_blocking_connect -------------------------------------------------------------------- */

static int given(struct trial *trial, int fd)
{
    return exs_blocking_connect(fd, (struct sockaddr *)&trial->server.storage, trial->server.length);
}

static void connect_uninitialized(struct trial *trial)
{
    resolve(trial, "1", &trial->server);
    outcome(trial, given(trial, 0));
}

static void connect_forked(struct trial *trial)
{
    ok_server(trial);
    in_child(trial);
    outcome(trial, given(trial, trial->fd));
}

static void connect_already(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, given(trial, trial->fd));
}

static void connect_listener(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial, trial->fd));
}

static void connect_bad_fd(struct trial *trial)
{
    ok_server(trial);
    outcome(trial, given(trial, BAD_FD));
    outcome(trial, given(trial, UNUSED_FD));
    outcome(trial, given(trial, foreign_fd(trial)));
}

static void connect_ok(struct trial *trial)
{
    ok_server(trial);
    peer_tell(trial, PEER_ACCEPT, 0);
    outcome(trial, given(trial, trial->fd));
    peer_hear(trial);
    peer_tell(trial, PEER_RECEIVE, 1);
    ok_send(trial, "x", 1);
    peer_hear(trial);
}

static void nonblocking_connect(struct trial *trial)
{
    ok_connected(trial);
    int other = exs_socket(trial->server.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

    outcome(trial,
            exs_blocking_connect(other, (struct sockaddr *)&trial->server.storage, trial->server.length));
    exs_close(other, 0, NULL, NULL);
}

static const struct row connect_rows[] = {
    {1, EPERM, "exs_blocking_connect(fd, ai_addr, ai_addrlen) [no exs_init]", BLOCKING, THESIS,
     connect_uninitialized, NULL},
    {2, EINVAL, "exs_blocking_connect(CONNECTED_FD, ai_addr, ai_addrlen)", BLOCKING, THESIS, connect_already,
     NULL},
    {3, 0, "exs_blocking_connect(fd, ai_addr, ai_addrlen)", BLOCKING, THESIS, connect_ok,
     "The thesis calls it with CONNECTED_FD as in test 2, and means one that is not connected yet."},
    {4, EINVAL, "exs_blocking_connect(LISTENING_FD, ai_addr, ai_addrlen)", BLOCKING, OURS, connect_listener,
     "The second half of test 2: \"already connected or listened to\"."},
    {5, EBADF, "exs_blocking_connect(BAD_FD, ai_addr, ai_addrlen)", BLOCKING, OURS, connect_bad_fd, NULL},
    {6, EINPROGRESS, "exs_blocking_connect(FD_WITH_O_NONBLOCK, ai_addr, ai_addrlen)", BLOCKING, OURS,
     nonblocking_connect, NULL},
    {7, ECHILD, "exs_blocking_connect(fd, ai_addr, ai_addrlen) [in a forked child]", BLOCKING, OURS,
     connect_forked, NULL},
};
static const char *const connect_needs[] = {"exs_init", "exs_socket", NULL};
const struct group group_blocking_connect = {"exs_blocking_connect", "5.3.4", connect_needs,
                                             ROWS(connect_rows)};
