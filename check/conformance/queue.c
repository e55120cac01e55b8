/* SPDX-License-Identifier: BSD-2-Clause */
/* queue.c - tests of exs_qcreate (5.2.6) and exs_qdelete (5.2.7). */
#include "bodies.h"

static const char *const init_needs[] = {"exs_init", NULL};
static const char *const queue_needs[] = {"exs_init", "exs_qcreate", NULL};

/* ---- exs_qcreate ----------------------------------------------------------------------------------------- */

static void made(struct trial *trial, int depth)
{
    exs_qhandle_t queue = exs_qcreate(depth);

    outcome(trial, queue == EXS_QHANDLE_INVALID ? -1 : 0);
    if (queue != EXS_QHANDLE_INVALID)
        no_event(trial, queue);
}

static void qcreate_uninitialized(struct trial *trial)
{
    made(trial, 10);
}

static void qcreate_uninitialized_bad(struct trial *trial)
{
    made(trial, -1);
}

static void qcreate(struct trial *trial)
{
    ok_init(trial);
    made(trial, 10);
}

static void qcreate_again(struct trial *trial)
{
    ok_init(trial);
    use_up_descriptors(trial);
    made(trial, 10);
}

static void qcreate_exceeded(struct trial *trial)
{
    ok_init(trial);
    made(trial, EXS_QDEPTH_MAX + 1);
}

static void qcreate_negative(struct trial *trial)
{
    ok_init(trial);
    made(trial, -1);
}

static void qcreate_zero(struct trial *trial)
{
    ok_init(trial);
    made(trial, 0);
}

static void qcreate_forked(struct trial *trial)
{
    ok_init(trial);
    in_child(trial);
    made(trial, 10);
}

static const struct row qcreate_rows[] = {
    {1, EPERM, "exs_qcreate(10) [no exs_init]", BOTH, THESIS, qcreate_uninitialized, NULL},
    {3, 0, "exs_qcreate(10)", BOTH, THESIS, qcreate, NULL},
    {4, EAGAIN, "exs_qcreate(10) [no descriptor left]", BOTH, UNIMPLEMENTED, qcreate_again, NULL},
    {5, EINVAL, "exs_qcreate(EXS_QDEPTH_MAX + 1)", BOTH, UNIMPLEMENTED, qcreate_exceeded, NULL},
    {6, EINVAL, "exs_qcreate(-1)", BOTH, OURS, qcreate_negative, NULL},
    {7, 0, "exs_qcreate(0)", BOTH, OURS, qcreate_zero, "The thesis calls it so in figure 2-3."},
    {8, EPERM, "exs_qcreate(-1) [no exs_init]", BOTH, OURS, qcreate_uninitialized_bad, NULL},
    {9, ECHILD, "exs_qcreate(10) [in a forked child]", BOTH, OURS, qcreate_forked, NULL},
};
const struct group group_qcreate = {"exs_qcreate", "5.2.6", init_needs, ROWS(qcreate_rows)};

/* ---- exs_qdelete ----------------------------------------------------------------------------------------- */

static void qdelete_uninitialized(struct trial *trial)
{
    outcome(trial, exs_qdelete(NULL));
}

static void qdelete_invalid(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_qdelete(INVALID_QHANDLE));
    outcome(trial, exs_qdelete((exs_qhandle_t)(void *)trial));
}

static void qdelete_null(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_qdelete(NULL));
}

static void qdelete(struct trial *trial)
{
    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    outcome(trial, exs_qdelete(queue));
    require(trial, exs_qfd(queue) == -1 && errno == EINVAL, "the queue is still there");
}

static void qdelete_twice(struct trial *trial)
{
    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    require(trial, exs_qdelete(queue) == 0, "the first exs_qdelete failed");
    outcome(trial, exs_qdelete(queue));
}

/* A receive is pending: the queue is not deleted, and gets the event when data arrive. */
static void qdelete_busy(struct trial *trial)
{
    unsigned char byte;

    ok_connected(trial);
    require(trial, exs_recv(trial->fd, &byte, 1, 0, trial->queue, trial, NULL) == 0, "exs_recv failed");
    trial->connected = false;
    outcome(trial, exs_qdelete(trial->queue));
    peer_tell(trial, PEER_SEND, 1);
    ok_event(trial, trial->queue, EXS_EVT_RECV, trial);
    peer_hear(trial);
}

/* The receive is pending on a queue that does not own the socket. */
static void qdelete_busy_elsewhere(struct trial *trial)
{
    unsigned char byte;

    ok_connected(trial);
    exs_qhandle_t other = ok_qcreate(trial);

    require(trial, exs_recv(trial->fd, &byte, 1, 0, other, trial, NULL) == 0, "exs_recv failed");
    trial->connected = false;
    outcome(trial, exs_qdelete(other));
}

static void qdelete_home(struct trial *trial)
{
    ok_connected(trial);
    outcome(trial, exs_qdelete(trial->queue));
}

static void qdelete_forked(struct trial *trial)
{
    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    in_child(trial);
    outcome(trial, exs_qdelete(queue));
}

static const struct row qdelete_rows[] = {
    {1, EPERM, "exs_qdelete(qh) [no exs_init]", BOTH, THESIS, qdelete_uninitialized, NULL},
    {3, EINVAL, "exs_qdelete(INVALID_QHANDLE)", BOTH, THESIS, qdelete_invalid, NULL},
    {4, 0, "exs_qdelete(qh)", BOTH, THESIS, qdelete, NULL},
    {5, EBUSY, "exs_qdelete(qh) [a receive in progress]", NONBLOCKING, UNIMPLEMENTED, qdelete_busy, NULL},
    {6, EBUSY, "exs_qdelete(qh) [a receive in progress, of a socket of another queue]", NONBLOCKING, OURS,
     qdelete_busy_elsewhere, NULL},
    {7, EBUSY, "exs_qdelete(qh) [a connection lives on it]", NONBLOCKING, OURS, qdelete_home, NULL},
    {8, EINVAL, "exs_qdelete(NULL)", BOTH, OURS, qdelete_null, NULL},
    {9, EINVAL, "exs_qdelete(qh) [already deleted]", BOTH, OURS, qdelete_twice, NULL},
    {10, ECHILD, "exs_qdelete(qh) [in a forked child]", BOTH, OURS, qdelete_forked, NULL},
};
const struct group group_qdelete = {"exs_qdelete", "5.2.7", queue_needs, ROWS(qdelete_rows)};
