/* SPDX-License-Identifier: BSD-2-Clause */
/* cancel.c - tests of exs_cancel: pending operations complete once; operations with another ahandle are not changed. */
#include <pthread.h>
#include <sched.h>
#include "bodies.h"

static const char *const cancel_needs[] = {"exs_init", "exs_socket", "exs_connect", "exs_recv", NULL};

#define MANY 3000000 /* bytes; more than the peer buffers without a receive */
static unsigned char many[MANY];

static void uninitialized(struct trial *trial)
{
    outcome(trial, exs_cancel(0, trial, 0));
}

static void uninitialized_bad(struct trial *trial)
{
    outcome(trial, exs_cancel(BAD_FD, trial, BAD_FLAG));
}

static void forked(struct trial *trial)
{
    ok_fresh(trial);
    in_child(trial);
    trial->queue = NULL;
    outcome(trial, exs_cancel(trial->fd, trial, 0));
}

static void bad_fd(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_cancel(BAD_FD, trial, EXS_CANCEL_ALL));
}

static void fd_of_a_file(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_cancel(foreign_fd(trial), trial, EXS_CANCEL_ALL));
}

static void closed(struct trial *trial)
{
    ok_fresh(trial);
    require(trial, exs_blocking_close(trial->fd) == 0, "exs_close failed");
    outcome(trial, exs_cancel(trial->fd, trial, EXS_CANCEL_ALL));
}

static void with_flags(struct trial *trial, int flags)
{
    ok_connected(trial);
    outcome(trial, exs_cancel(trial->fd, trial, flags));
}

static void bad_flag(struct trial *trial)
{
    with_flags(trial, BAD_FLAG);
}

static void block(struct trial *trial)
{
    with_flags(trial, EXS_BLOCK);
}

static void bad_flag_too(struct trial *trial)
{
    with_flags(trial, EXS_CANCEL_ALL | BAD_FLAG);
}

/* ---- Nothing to cancel ---------------------------------------------------------------------------------- */

/* Checks that exs_cancel() finds this number of operations. */
static void meets(struct trial *trial, exs_ahandle_t ahandle, int flags, int count)
{
    int result = exs_cancel(trial->fd, ahandle, flags);

    outcome(trial, result);
    require(trial, result == count, "it says another number of operations");
}

static void not_connected(struct trial *trial)
{
    ok_fresh(trial);
    meets(trial, trial, EXS_CANCEL_ALL, 0);
}

static void listening(struct trial *trial)
{
    ok_listening(trial);
    meets(trial, trial, EXS_CANCEL_ALL, 0);
}

static void nothing(struct trial *trial)
{
    ok_connected(trial);
    meets(trial, trial, EXS_CANCEL_ALL, 0);
}

/* ---- Pending operations and their events ---------------------------------------------------------------- */

static void start_recv(struct trial *trial, void *buffer, size_t length)
{
    require(trial, exs_recv(trial->fd, buffer, length, 0, trial->queue, buffer, NULL) == 0, "exs_recv failed");
}

static exs_event_t cancelled(struct trial *trial, int type, void *ahandle)
{
    exs_event_t event = ok_event(trial, trial->queue, type, ahandle);

    require(trial, event.exs_evt_errno == ECANCELED, "its event has another errno than ECANCELED");
    require(trial, event.exs_evt_socket == trial->fd, "its event is another socket's");
    return event;
}

static void other_ahandle(struct trial *trial)
{
    unsigned char byte;

    ok_connected(trial);
    start_recv(trial, &byte, 1);
    meets(trial, trial, 0, 0);
    no_event(trial, trial->queue);
    peer_do(trial, PEER_SEND, 1);
    require(trial, ok_event(trial, trial->queue, EXS_EVT_RECV, &byte).exs_evt_errno == 0,
            "the receive was cancelled");
}

/* Cancels the first, the middle or the last of three receives: the others get the peer's data. */
static void one_of_three(struct trial *trial)
{
    unsigned char sent[2], received[3] = {0};

    ok_connected(trial);
    pattern(sent, 2);
    for (int which = 0; which < 3; which++) {
        for (int i = 0; i < 3; i++)
            start_recv(trial, &received[i], 1);
        meets(trial, &received[which], 0, 1);
        require(trial,
                cancelled(trial, EXS_EVT_RECV, &received[which]).exs_evt_union.exs_evt_xfer.exs_evt_length == 0,
                "bytes had moved that nobody has sent");
        peer_do(trial, PEER_SEND, 2);
        for (int i = 0, next = 0; i < 3; i++) {
            if (i == which)
                continue;
            ok_event(trial, trial->queue, EXS_EVT_RECV, &received[i]);
            require(trial, received[i] == sent[next++], "another byte was received than the peer sent");
        }
        no_event(trial, trial->queue);
    }
}

static void all_of_three(struct trial *trial)
{
    unsigned char byte;

    ok_connected(trial);
    for (int i = 0; i < 3; i++)
        start_recv(trial, &byte, 1);
    meets(trial, NULL, EXS_CANCEL_ALL, 3);
    for (int i = 0; i < 3; i++)
        cancelled(trial, EXS_EVT_RECV, &byte);
    no_event(trial, trial->queue);
    peer_do(trial, PEER_SEND, 1);
    ok_receive(trial, &byte, 1);
}

/* A receive whose buffer was advertised to the peer, which must first revoke it. */
static void direct(struct trial *trial)
{
    ok_connected(trial);
    peer_tell(trial, PEER_DRAIN, 0); /* so that it handles the message */
    start_recv(trial, many, MANY);
    no_event(trial, trial->queue);
    meets(trial, many, 0, 1);
    cancelled(trial, EXS_EVT_RECV, many);
    ok_shutdown(trial, SHUT_WR);
    peer_hear(trial);
    peer_do(trial, PEER_SEND, 1);
    ok_receive(trial, many, 1);
}

static void half(struct trial *trial)
{
    unsigned char sent[100], received[200];

    ok_connected(trial);
    pattern(sent, 100);
    require(trial,
            exs_recv(trial->fd, received, sizeof(received), MSG_WAITALL, trial->queue, received, NULL) == 0,
            "exs_recv failed");
    peer_do(trial, PEER_SEND, 100);
    while (exs_qdequeue(trial->queue, &(exs_event_t){0}, 1, &(struct timeval){.tv_usec = 1000}) == 0 &&
           memcmp(received, sent, 100) != 0)
        ;
    meets(trial, received, 0, 1);
    require(trial, cancelled(trial, EXS_EVT_RECV, received).exs_evt_union.exs_evt_xfer.exs_evt_length == 100,
            "its event does not tell of the bytes that had come");
}

/* The first send was started: its event has the number of bytes that the peer receives. */
static void sends(struct trial *trial)
{
    size_t bytes;

    ok_connected(trial);
    for (int i = 0; i < 2; i++)
        require(trial, exs_send(trial->fd, many, MANY, 0, trial->queue, many + i, NULL) == 0,
                "exs_send failed");
    require(trial, exs_shutdown(trial->fd, SHUT_WR, 0, trial->queue, trial) == 0, "exs_shutdown failed");
    meets(trial, trial, EXS_CANCEL_ALL, 3);
    cancelled(trial, EXS_EVT_SEND, many + 1);
    cancelled(trial, EXS_EVT_SHUTDOWN, trial);
    bytes = cancelled(trial, EXS_EVT_SEND, many).exs_evt_union.exs_evt_xfer.exs_evt_length;
    require(trial, bytes > 0 && bytes < MANY, "all of it had moved, or nothing");
    struct peer_answer answer = peer_do(trial, PEER_RECEIVE, bytes);

    require(trial, answer.count == bytes, "the peer received another number of bytes");
    require(trial, answer.sum == sum_of(many, bytes, SUM_START), "the peer received other bytes");
    peer_tell(trial, PEER_RECEIVE, 1);
    ok_send(trial, many, 1); /* the shutdown was canceled, too */
    peer_hear(trial);
}

static void a_file(struct trial *trial)
{
    exs_xferfile_t file = {.exs_xfv_type = EXS_FDVEC};
    off_t bytes;

    ok_connected(trial);
    file.exs_xfv.exs_fdv = (exs_fdvec_t){.exs_fildes = file_of(trial, MANY), .exs_flags = EXS_SHUT_WR};
    require(trial, exs_sendfile(trial->fd, &file, 1, 0, trial->queue, trial) == 0, "exs_sendfile failed");
    meets(trial, trial, 0, 1);
    bytes = cancelled(trial, EXS_EVT_SENDFILE, trial).exs_evt_union.exs_evt_xferfile.exs_evt_length;
    require(trial, bytes > 0 && bytes < MANY, "all of it had moved, or nothing");
    require(trial, peer_do(trial, PEER_RECEIVE, (size_t)bytes).count == (size_t)bytes,
            "the peer received another number of bytes");
    peer_tell(trial, PEER_RECEIVE, 1);
    ok_send(trial, many, 1);
    peer_hear(trial);
}

static void accepts(struct trial *trial)
{
    static exs_acceptaddr_t elements[3];

    ok_listening(trial);
    for (int i = 0; i < 3; i++)
        elements[i].exs_ahandle = &elements[i];
    require(trial, exs_accept(trial->fd, elements, 3, 0, trial->queue) == 0, "exs_accept failed");
    meets(trial, &elements[1], 0, 1);
    exs_event_t event = cancelled(trial, EXS_EVT_ACCEPT, &elements[1]);

    require(trial, event.exs_evt_union.exs_evt_accept.exs_evt_newsocket == -1 && elements[1].exs_socket == -1,
            "it has a new socket");
    require(trial, exs_cancel(trial->fd, NULL, EXS_CANCEL_ALL) == 2, "there are not two others");
    cancelled(trial, EXS_EVT_ACCEPT, &elements[0]);
    cancelled(trial, EXS_EVT_ACCEPT, &elements[2]);
    no_event(trial, trial->queue);
}

/* The peer does not accept, so the connection may be established or not: the connect completes once. */
static void connecting(struct trial *trial)
{
    ok_server(trial);
    require(trial,
            exs_connect(trial->fd, (struct sockaddr *)&trial->server.storage, trial->server.length, 0, NULL,
                        trial->queue, trial) == 0,
            "exs_connect failed");
    meets(trial, &trial->server, 0, 0); /* another ahandle */
    meets(trial, trial, 0, 1);
    cancelled(trial, EXS_EVT_CONNECT, trial);
    no_event(trial, trial->queue);
    peer_tell(trial, PEER_ACCEPT, 0);
    require(trial,
            exs_connect(trial->fd, (struct sockaddr *)&trial->server.storage, trial->server.length, EXS_BLOCK,
                        NULL, NULL, NULL) == 0,
            "the socket can't connect any more");
}

/* ---- Blocking calls ------------------------------------------------------------------------------------- */

static void *receive_and_wait(void *argument)
{
    struct trial *trial = argument;
    unsigned char byte;

    return exs_recv(trial->fd, &byte, 1, EXS_BLOCK, NULL, trial, NULL) == -1 && errno == ECANCELED ? trial
                                                                                                   : NULL;
}

static void waiting(struct trial *trial)
{
    pthread_t thread;
    void *result;
    int count;

    ok_connected(trial);
    require(trial, pthread_create(&thread, NULL, receive_and_wait, trial) == 0, "pthread_create failed");
    while ((count = exs_cancel(trial->fd, trial, 0)) == 0)
        sched_yield();
    outcome(trial, count);
    require(trial, count == 1, "it says another number of operations");
    pthread_join(thread, &result);
    require(trial, result == trial, "the call did not fail with ECANCELED");
    peer_do(trial, PEER_SEND, 1);
    ok_receive(trial, trial->buffer, 1);
}

static const struct row cancel_rows[] = {
    {1, EPERM, "exs_cancel(fd, ah, 0) [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, EPERM, "exs_cancel(BAD_FD, ah, BAD_FLAG) [no exs_init]", BOTH, OURS, uninitialized_bad, NULL},
    {3, ECHILD, "exs_cancel(fd, ah, 0) [in a forked child]", BOTH, OURS, forked, NULL},
    {4, EBADF, "exs_cancel(BAD_FD, ah, EXS_CANCEL_ALL)", BOTH, OURS, bad_fd, NULL},
    {5, EBADF, "exs_cancel(FD_OF_A_FILE, ah, EXS_CANCEL_ALL)", BOTH, OURS, fd_of_a_file, NULL},
    {6, EBADF, "exs_cancel(CLOSED_FD, ah, EXS_CANCEL_ALL)", BOTH, OURS, closed, NULL},
    {7, EINVAL, "exs_cancel(fd, ah, BAD_FLAG)", BOTH, OURS, bad_flag, NULL},
    {8, EINVAL, "exs_cancel(fd, ah, EXS_BLOCK)", BOTH, OURS, block, NULL},
    {9, EINVAL, "exs_cancel(fd, ah, EXS_CANCEL_ALL | BAD_FLAG)", BOTH, OURS, bad_flag_too, NULL},
    {10, 0, "exs_cancel(NOT_CONNECTED_FD, ah, EXS_CANCEL_ALL)", BOTH, OURS, not_connected, "It returns 0."},
    {11, 0, "exs_cancel(LISTENING_FD, ah, EXS_CANCEL_ALL)", BOTH, OURS, listening, "It returns 0."},
    {12, 0, "exs_cancel(fd, ah, EXS_CANCEL_ALL) [nothing pending]", BOTH, OURS, nothing, "It returns 0."},
    {13, 0, "exs_cancel(fd, ah, 0) [a receive with another ahandle]", NONBLOCKING, OURS, other_ahandle,
     "It returns 0, and the receive goes on."},
    {14, 0, "exs_cancel(fd, ah, 0) [one of three receives]", NONBLOCKING, OURS, one_of_three,
     "It returns 1. One event, ECANCELED; the others receive what comes."},
    {15, 0, "exs_cancel(fd, NULL, EXS_CANCEL_ALL) [three receives]", NONBLOCKING, OURS, all_of_three,
     "It returns 3."},
    {16, 0, "exs_cancel(fd, ah, 0) [a receive that the peer was told of]", NONBLOCKING, OURS, direct, NULL},
    {17, 0, "exs_cancel(fd, ah, 0) [a receive that had bytes]", NONBLOCKING, OURS, half,
     "The event tells how many."},
    {18, 0, "exs_cancel(fd, ah, EXS_CANCEL_ALL) [two sends and a shutdown]", NONBLOCKING, OURS, sends,
     "The first tells how much of it the peer receives; writing goes on."},
    {19, 0, "exs_cancel(fd, ah, 0) [a file, and EXS_SHUT_WR]", NONBLOCKING, OURS, a_file,
     "The event tells how many bytes the peer receives; writing goes on."},
    {20, 0, "exs_cancel(LISTENING_FD, ah, 0) [one of three accepts]", NONBLOCKING, OURS, accepts, NULL},
    {21, 0, "exs_cancel(fd, ah, 0) [a connect]", NONBLOCKING, OURS, connecting, "The socket may connect anew."},
    {22, 0, "exs_cancel(fd, ah, 0) [a receive that another thread waits for]", BLOCKING, OURS, waiting,
     "That call fails with ECANCELED."},
};
const struct group group_cancel = {"exs_cancel", NULL, cancel_needs, ROWS(cancel_rows)};
