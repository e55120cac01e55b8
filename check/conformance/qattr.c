/* SPDX-License-Identifier: BSD-2-Clause */
/* qattr.c - tests of exs_qstatus and exs_qmodify. The thesis's script has tests of these names, but its text does not
 * describe them. */
#include "bodies.h"

static const char *const queue_needs[] = {"exs_init", "exs_qcreate", NULL};

/* ---- exs_qstatus ----------------------------------------------------------------------------------------- */

static void qstatus_uninitialized(struct trial *trial)
{
    outcome(trial, exs_qstatus(NULL, NULL));
}

static void qstatus(struct trial *trial)
{
    exs_qstatus_t status = {.exs_events = -1};

    ok_init(trial);
    outcome(trial, exs_qstatus(exs_qcreate(7), &status));
    require(trial, status.exs_attr.exs_depth == 7, "its depth is another");
    require(trial, status.exs_events == 0 && status.exs_pending == 0 && status.exs_sockets == 0,
            "a new queue is not empty");
}

/* A receive is pending, and a close has completed. */
static void qstatus_busy(struct trial *trial)
{
    exs_qstatus_t status;
    unsigned char byte;

    ok_connected(trial);
    require(trial, exs_recv(trial->fd, &byte, 1, 0, trial->queue, trial, NULL) == 0, "exs_recv failed");
    require(trial, exs_close(ok_socket(trial), 0, trial->queue, NULL) == 0, "exs_close failed");
    trial->connected = false;
    outcome(trial, exs_qstatus(trial->queue, &status));
    require(trial, status.exs_pending == 1, "the receive is not in progress");
    require(trial, status.exs_events == 1, "the closed socket's event does not wait");
    require(trial, status.exs_sockets == 1, "the connection does not live on the queue");
}

/* The queue owns two sockets, which connect on it, and has an accept of a listener that it does not own. */
static void qstatus_several(struct trial *trial)
{
    static exs_acceptaddr_t elements[2];
    struct address address;
    exs_qstatus_t status;

    ok_init(trial);
    exs_qhandle_t queue = exs_qcreate(0), other = exs_qcreate(0);
    int listener = ok_socket(trial);

    ok_bind(trial, listener, "0");
    ok_listen(trial, listener);
    local_address(trial, listener, &address);
    require(trial, exs_accept(listener, &elements[0], 1, 0, other) == 0, "exs_accept failed");
    require(trial, exs_accept(listener, &elements[1], 1, 0, queue) == 0, "the second exs_accept failed");
    for (int i = 0; i < 2; i++)
        require(trial,
                exs_connect(ok_socket(trial), (struct sockaddr *)&address.storage, address.length, 0, NULL,
                            queue, NULL) == 0,
                "exs_connect failed");
    outcome(trial, exs_qstatus(queue, &status));
    require(trial, status.exs_sockets == 2, "not two sockets live on the queue");
    require(trial, status.exs_pending == 3, "not three operations are in progress");
}

static void qstatus_invalid(struct trial *trial)
{
    exs_qstatus_t status;

    ok_init(trial);
    outcome(trial, exs_qstatus(INVALID_QHANDLE, &status));
}

static void qstatus_no_queue(struct trial *trial)
{
    exs_qstatus_t status;

    ok_init(trial);
    outcome(trial, exs_qstatus(NULL, &status));
}

static void qstatus_nowhere(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_qstatus(ok_qcreate(trial), NULL));
}

static void qstatus_deleted(struct trial *trial)
{
    exs_qstatus_t status;

    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    require(trial, exs_qdelete(queue) == 0, "exs_qdelete failed");
    outcome(trial, exs_qstatus(queue, &status));
}

static void qstatus_forked(struct trial *trial)
{
    exs_qstatus_t status;

    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    in_child(trial);
    outcome(trial, exs_qstatus(queue, &status));
}

static const struct row qstatus_rows[] = {
    {1, EPERM, "exs_qstatus(NULL, NULL) [no exs_init]", BOTH, OURS, qstatus_uninitialized, NULL},
    {2, 0, "exs_qstatus(qh, status)", BOTH, OURS, qstatus, NULL},
    {3, 0, "exs_qstatus(qh, status) [a receive in progress, and an event]", NONBLOCKING, OURS, qstatus_busy,
     NULL},
    {4, EINVAL, "exs_qstatus(INVALID_QHANDLE, status)", BOTH, OURS, qstatus_invalid, NULL},
    {5, EINVAL, "exs_qstatus(NULL, status)", BOTH, OURS, qstatus_no_queue, NULL},
    {6, EFAULT, "exs_qstatus(qh, NULL)", BOTH, OURS, qstatus_nowhere, NULL},
    {7, EINVAL, "exs_qstatus(qh, status) [deleted]", BOTH, OURS, qstatus_deleted, NULL},
    {8, ECHILD, "exs_qstatus(qh, status) [in a forked child]", BOTH, OURS, qstatus_forked, NULL},
    {9, 0, "exs_qstatus(qh, status) [two sockets, and an accept of a third]", NONBLOCKING, OURS,
     qstatus_several, NULL},
};
const struct group group_qstatus = {"exs_qstatus", NULL, queue_needs, ROWS(qstatus_rows)};

/* ---- exs_qmodify ----------------------------------------------------------------------------------------- */

static const int all = EXS_QATTR_DEPTH | EXS_QATTR_WAIT;

static bool has(exs_qhandle_t queue, const exs_qattr_t *values)
{
    exs_qstatus_t status;

    return exs_qstatus(queue, &status) == 0 && memcmp(&status.exs_attr, values, sizeof(*values)) == 0;
}

/* A refused call changes no attribute. */
static void refused(struct trial *trial, int attributes, const exs_qattr_t *values)
{
    const exs_qattr_t before = {.exs_depth = 5, .exs_wait = EXS_WAIT_ADAPTIVE, .exs_wait_us = 9};

    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    require(trial, exs_qmodify(queue, all, &before) == 0, "the first exs_qmodify failed");
    outcome(trial, exs_qmodify(queue, attributes, values));
    require(trial, has(queue, &before), "the queue was changed");
}

static void changed(struct trial *trial, int attributes, exs_qattr_t values, exs_qattr_t after)
{
    const exs_qattr_t before = {.exs_depth = 5, .exs_wait = EXS_WAIT_ADAPTIVE, .exs_wait_us = 9};

    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    require(trial, exs_qmodify(queue, all, &before) == 0, "the first exs_qmodify failed");
    outcome(trial, exs_qmodify(queue, attributes, &values));
    require(trial, has(queue, &after), "the queue has other values");
}

static void qmodify_uninitialized(struct trial *trial)
{
    outcome(trial, exs_qmodify(NULL, 0, NULL));
}

static void qmodify_depth(struct trial *trial)
{
    changed(trial, EXS_QATTR_DEPTH, (exs_qattr_t){.exs_depth = 100, .exs_wait = -1},
            (exs_qattr_t){100, EXS_WAIT_ADAPTIVE, 9});
}

static void qmodify_less(struct trial *trial)
{
    changed(trial, EXS_QATTR_DEPTH, (exs_qattr_t){.exs_depth = 0}, (exs_qattr_t){0, EXS_WAIT_ADAPTIVE, 9});
}

static void qmodify_notify(struct trial *trial)
{
    changed(trial, EXS_QATTR_WAIT, (exs_qattr_t){-1, EXS_WAIT_NOTIFY, -1},
            (exs_qattr_t){5, EXS_WAIT_NOTIFY, 0});
}

static void qmodify_busy_poll(struct trial *trial)
{
    changed(trial, EXS_QATTR_WAIT, (exs_qattr_t){-1, EXS_WAIT_BUSY_POLL, -1},
            (exs_qattr_t){5, EXS_WAIT_BUSY_POLL, 0});
}

static void qmodify_adaptive(struct trial *trial)
{
    exs_qattr_t values = {EXS_QDEPTH_MAX / 1024, EXS_WAIT_ADAPTIVE, EXS_WAIT_US_MAX};

    changed(trial, all, values, values);
}

static void qmodify_invalid(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_qmodify(INVALID_QHANDLE, EXS_QATTR_DEPTH, &(exs_qattr_t){0}));
}

static void qmodify_no_queue(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_qmodify(NULL, EXS_QATTR_DEPTH, &(exs_qattr_t){0}));
}

static void qmodify_nothing(struct trial *trial)
{
    refused(trial, 0, &(exs_qattr_t){.exs_wait = EXS_WAIT_NOTIFY});
}

static void qmodify_unknown(struct trial *trial)
{
    refused(trial, all | 4, &(exs_qattr_t){.exs_wait = EXS_WAIT_NOTIFY});
}

static void qmodify_no_values(struct trial *trial)
{
    refused(trial, all, NULL);
}

static void qmodify_negative(struct trial *trial)
{
    refused(trial, all, &(exs_qattr_t){.exs_depth = -1, .exs_wait = EXS_WAIT_NOTIFY});
}

static void qmodify_exceeded(struct trial *trial)
{
    refused(trial, all, &(exs_qattr_t){.exs_depth = EXS_QDEPTH_MAX + 1, .exs_wait = EXS_WAIT_NOTIFY});
}

static void qmodify_no_wait(struct trial *trial)
{
    refused(trial, all, &(exs_qattr_t){.exs_depth = 1, .exs_wait = EXS_WAIT_BUSY_POLL + 1, .exs_wait_us = 1});
}

static void qmodify_no_time(struct trial *trial)
{
    refused(trial, all, &(exs_qattr_t){.exs_depth = 1, .exs_wait = EXS_WAIT_ADAPTIVE});
}

static void qmodify_long_time(struct trial *trial)
{
    refused(trial, all,
            &(exs_qattr_t){.exs_depth = 1, .exs_wait = EXS_WAIT_ADAPTIVE, .exs_wait_us = EXS_WAIT_US_MAX + 1});
}

static void qmodify_forked(struct trial *trial)
{
    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    in_child(trial);
    outcome(trial, exs_qmodify(queue, EXS_QATTR_DEPTH, &(exs_qattr_t){.exs_depth = 1}));
}

static const struct row qmodify_rows[] = {
    {1, EPERM, "exs_qmodify(NULL, 0, NULL) [no exs_init]", BOTH, OURS, qmodify_uninitialized, NULL},
    {2, 0, "exs_qmodify(qh, EXS_QATTR_DEPTH, {100, -1})", BOTH, OURS, qmodify_depth,
     "What is not to be changed is not looked at."},
    {3, 0, "exs_qmodify(qh, EXS_QATTR_DEPTH, {0})", BOTH, OURS, qmodify_less, NULL},
    {4, 0, "exs_qmodify(qh, EXS_QATTR_WAIT, {-1, EXS_WAIT_NOTIFY, -1})", BOTH, OURS, qmodify_notify, NULL},
    {5, 0, "exs_qmodify(qh, EXS_QATTR_WAIT, {-1, EXS_WAIT_BUSY_POLL, -1})", BOTH, OURS, qmodify_busy_poll,
     NULL},
    {6, 0, "exs_qmodify(qh, both, {depth, EXS_WAIT_ADAPTIVE, EXS_WAIT_US_MAX})", BOTH, OURS, qmodify_adaptive,
     NULL},
    {7, EINVAL, "exs_qmodify(INVALID_QHANDLE, EXS_QATTR_DEPTH, values)", BOTH, OURS, qmodify_invalid, NULL},
    {8, EINVAL, "exs_qmodify(NULL, EXS_QATTR_DEPTH, values)", BOTH, OURS, qmodify_no_queue, NULL},
    {9, EINVAL, "exs_qmodify(qh, 0, values)", BOTH, OURS, qmodify_nothing, NULL},
    {10, EINVAL, "exs_qmodify(qh, both | 4, values)", BOTH, OURS, qmodify_unknown, NULL},
    {11, EFAULT, "exs_qmodify(qh, both, NULL)", BOTH, OURS, qmodify_no_values, NULL},
    {12, EINVAL, "exs_qmodify(qh, both, {-1, EXS_WAIT_NOTIFY})", BOTH, OURS, qmodify_negative, NULL},
    {13, EINVAL, "exs_qmodify(qh, both, {EXS_QDEPTH_MAX + 1, EXS_WAIT_NOTIFY})", BOTH, OURS, qmodify_exceeded,
     NULL},
    {14, EINVAL, "exs_qmodify(qh, both, {1, EXS_WAIT_BUSY_POLL + 1, 1})", BOTH, OURS, qmodify_no_wait, NULL},
    {15, EINVAL, "exs_qmodify(qh, both, {1, EXS_WAIT_ADAPTIVE, 0})", BOTH, OURS, qmodify_no_time, NULL},
    {16, EINVAL, "exs_qmodify(qh, both, {1, EXS_WAIT_ADAPTIVE, EXS_WAIT_US_MAX + 1})", BOTH, OURS,
     qmodify_long_time, NULL},
    {17, ECHILD, "exs_qmodify(qh, EXS_QATTR_DEPTH, values) [in a forked child]", BOTH, OURS, qmodify_forked,
     NULL},
};
const struct group group_qmodify = {"exs_qmodify", NULL, queue_needs, ROWS(qmodify_rows)};
