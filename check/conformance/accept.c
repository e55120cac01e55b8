/* SPDX-License-Identifier: BSD-2-Clause */
/* accept.c - tests of exs_accept (5.2.1). */
#include "bodies.h"

static int given(int fd, int count, int flags, exs_qhandle_t queue)
{
    static exs_acceptaddr_t element[2];

    return exs_accept(fd, element, count, flags, queue);
}

static void uninitialized(struct trial *trial)
{
    outcome(trial, given(0, 1, trial->flags, NULL));
}

static void uninitialized_bad(struct trial *trial)
{
    outcome(trial, exs_accept(BAD_FD, NULL, 0, BAD_FLAG, INVALID_QHANDLE));
}

static void flag(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial->fd, 1, trial->flags | BAD_FLAG, trial->queue));
    outcome(trial, given(trial->fd, 1, trial->flags | MSG_OOB, trial->queue));
    outcome(trial, given(trial->fd, 1, trial->flags | EXS_UNSIGNALED, trial->queue));
    outcome(trial, given(trial->fd, 1, -1, trial->queue));
}

static void count_negative(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial->fd, -1, 0, trial->queue));
}

static void count_zero(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial->fd, 0, trial->flags, ok_qcreate(trial)));
}

static void count_two(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial->fd, 2, EXS_BLOCK, NULL));
}

static void queue_invalid(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial->fd, 1, trial->flags, INVALID_QHANDLE));
}

static void queue_null(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial->fd, 1, 0, NULL));
}

static void not_listening(struct trial *trial)
{
    ok_fresh(trial);
    outcome(trial, given(trial->fd, 1, trial->flags, trial->queue));
    ok_bind(trial, trial->fd, trial->options->port);
    outcome(trial, given(trial->fd, 1, trial->flags, trial->queue));
}

static void connection(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, given(trial->fd, 1, trial->flags, trial->queue));
}

static void bad_fd(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(BAD_FD, 1, trial->flags, trial->queue));
    outcome(trial, given(UNUSED_FD, 1, trial->flags, trial->queue));
}

static void foreign(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(foreign_fd(trial), 1, trial->flags, trial->queue));
}

static void vector_null(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, exs_accept(trial->fd, NULL, 1, trial->flags, trial->queue));
}

/* The element contains the new socket and the peer's address. */
static void ok(struct trial *trial)
{
    struct address from = {0};
    exs_acceptaddr_t element = {.exs_addr = (struct sockaddr *)&from.storage,
                                .exs_addrlen = sizeof(from.storage),
                                .exs_socket = -1,
                                .exs_ahandle = trial};

    ok_listening(trial);
    peer_tell(trial, PEER_CONNECT, 0);
    int result = exs_accept(trial->fd, &element, 1, trial->flags, trial->queue);

    outcome(trial, done(trial, result, EXS_EVT_ACCEPT));
    peer_hear(trial);
    require(trial, element.exs_socket >= 0 && element.exs_socket != trial->fd, "there is no new socket");
    require(trial,
            from.storage.ss_family == trial->server.storage.ss_family &&
                element.exs_addrlen == trial->server.length,
            "the peer's address is not there");
    trial->fd = element.exs_socket;
    trial->listening = false;
    peer_tell(trial, PEER_SEND, 1);
    ok_receive(trial, trial->buffer, 1);
    peer_hear(trial);
}

static void ok_without_address(struct trial *trial)
{
    ok_listening(trial);
    peer_tell(trial, PEER_CONNECT, 0);
    outcome(trial, ok_accept(trial));
    peer_hear(trial);
}

/* Two elements, two connections, two events. */
static void ok_two(struct trial *trial)
{
    exs_acceptaddr_t element[2] = {{.exs_ahandle = &element[0]}, {.exs_ahandle = &element[1]}};

    ok_listening(trial);
    outcome(trial, exs_accept(trial->fd, element, 2, 0, trial->queue));
    for (int i = 0; i < 2; i++) {
        peer_tell(trial, PEER_CONNECT, 0);
        exs_event_t event = ok_event(trial, trial->queue, EXS_EVT_ACCEPT, &element[i]);

        require(trial, event.exs_evt_errno == 0, "the event has an error");
        require(trial, event.exs_evt_union.exs_evt_accept.exs_evt_newsocket == element[i].exs_socket,
                "the event has another new socket than the element");
        peer_hear(trial);
    }
    no_event(trial, trial->queue);
}

static void multishot_block(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial->fd, 1, EXS_BLOCK | EXS_MULTISHOT, NULL));
}

static void multishot_two(struct trial *trial)
{
    ok_listening(trial);
    outcome(trial, given(trial->fd, 2, EXS_MULTISHOT, trial->queue));
}

static void multishot_address(struct trial *trial)
{
    struct address from;
    exs_acceptaddr_t element = {.exs_addr = (struct sockaddr *)&from.storage,
                                .exs_addrlen = sizeof(from.storage)};

    ok_listening(trial);
    outcome(trial, exs_accept(trial->fd, &element, 1, EXS_MULTISHOT, trial->queue));
}

/* EXS_MULTISHOT: one element, two connections, two events, and a last event when the accept ends. */
static void ok_multishot(struct trial *trial)
{
    exs_acceptaddr_t element = {.exs_ahandle = &element};

    ok_listening(trial);
    outcome(trial, exs_accept(trial->fd, &element, 1, EXS_MULTISHOT, trial->queue));
    for (int i = 0; i < 2; i++) {
        peer_tell(trial, PEER_CONNECT, 0);
        exs_event_t event = ok_event(trial, trial->queue, EXS_EVT_ACCEPT, &element);

        require(trial, event.exs_evt_errno == 0, "the event has an error");
        require(trial, event.exs_evt_union.exs_evt_accept.exs_evt_newsocket >= 0, "there is no new socket");
        require(trial, event.exs_evt_union.exs_evt_accept.exs_evt_addr == NULL, "there is an address");
        peer_hear(trial);
    }
    no_event(trial, trial->queue);
    require(trial, exs_cancel(trial->fd, &element, 0) == 1, "it was not pending");
    exs_event_t last = ok_event(trial, trial->queue, EXS_EVT_ACCEPT, &element);

    require(trial, last.exs_evt_errno == ECANCELED, "the last event is not ECANCELED");
}

static void forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, given(trial->fd, 1, trial->flags, NULL));
}

static const struct row rows[] = {
    {1, EPERM, "exs_accept(p->fd, &acceptaddr, 1, flags, NULL) [no exs_init]", BOTH, THESIS, uninitialized,
     NULL},
    {2, EINVAL, "exs_accept(p->fd, &acceptaddr, 1, BAD_FLAG, qh)", BOTH, THESIS, flag,
     "The thesis names no queue; with one, the flag alone is wrong."},
    {3, EINVAL, "exs_accept(p->fd, &acceptaddr, NEGATIVE_ADDRVEC_CNT, 0, qh)", NONBLOCKING, THESIS,
     count_negative, NULL},
    {4, EINVAL, "exs_accept(p->fd, &acceptaddr, ZERO_ADDRVEC_CNT, EXS_BLOCK, qh)", BLOCKING, THESIS, count_zero,
     NULL},
    {5, EINVAL, "exs_accept(p->fd, &acceptaddr, 1, flags, INVALID_QHANDLE)", BOTH, THESIS, queue_invalid, NULL},
    {6, EINVAL, "exs_accept(p->fd, &acceptaddr, 1, flags, qh) [no exs_listen]", BOTH, THESIS, not_listening,
     NULL},
    {7, EBADF, "exs_accept(BAD_FD, &acceptaddr, 1, flags, qh)", BOTH, THESIS, bad_fd,
     "The thesis's second [6]; its text has EINVAL, its heading EBADF: the heading stands."},
    {8, 0, "exs_accept(p->fd, &acceptaddr, 1, flags, qh)", BOTH, THESIS, ok,
     "It returns 0; the new socket is in acceptaddr."},
    {9, EINVAL, "exs_accept(p->fd, &acceptaddr, 2, EXS_BLOCK, NULL)", BLOCKING, OURS, count_two, NULL},
    {10, EINVAL, "exs_accept(p->fd, &acceptaddr, 0, 0, qh)", NONBLOCKING, OURS, count_zero, NULL},
    {11, EINVAL, "exs_accept(p->fd, &acceptaddr, 1, 0, NULL)", BOTH, OURS, queue_null, NULL},
    {12, EINVAL, "exs_accept(p->fd, NULL, 1, flags, qh)", BOTH, OURS, vector_null, NULL},
    {13, EINVAL, "exs_accept(CONNECTED_FD, &acceptaddr, 1, flags, qh)", BOTH, OURS, connection, NULL},
    {14, 0, "exs_accept(p->fd, acceptaddr, 2, 0, qh) [two events]", NONBLOCKING, OURS, ok_two, NULL},
    {15, 0, "exs_accept(p->fd, &acceptaddr, 1, flags, qh) [exs_addr is NULL]", BOTH, OURS, ok_without_address,
     NULL},
    {16, EBADF, "exs_accept(FD_OF_A_FILE, &acceptaddr, 1, flags, qh)", BOTH, OURS, foreign, NULL},
    {17, EPERM, "exs_accept(BAD_FD, NULL, 0, BAD_FLAG, INVALID_QHANDLE) [no exs_init]", BOTH, OURS,
     uninitialized_bad, NULL},
    {18, ECHILD, "exs_accept(p->fd, &acceptaddr, 1, flags, qh) [in a forked child]", BOTH, OURS, forked, NULL},
    {19, EINVAL, "exs_accept(p->fd, &acceptaddr, 1, EXS_BLOCK | EXS_MULTISHOT, NULL)", BLOCKING, OURS,
     multishot_block, NULL},
    {20, EINVAL, "exs_accept(p->fd, &acceptaddr, 2, EXS_MULTISHOT, qh)", NONBLOCKING, OURS, multishot_two,
     NULL},
    {21, EINVAL, "exs_accept(p->fd, &acceptaddr, 1, EXS_MULTISHOT, qh) [exs_addr is not NULL]", NONBLOCKING,
     OURS, multishot_address, NULL},
    {22, 0, "exs_accept(p->fd, &acceptaddr, 1, EXS_MULTISHOT, qh) [two connections, then exs_cancel]",
     NONBLOCKING, OURS, ok_multishot, NULL},
};
static const char *const needs[] = {"exs_init",    "exs_socket",  "exs_bind",     "exs_listen",
                                    "exs_connect", "exs_qcreate", "exs_qdequeue", NULL};
const struct group group_accept = {"exs_accept", "5.2.1", needs, ROWS(rows)};
