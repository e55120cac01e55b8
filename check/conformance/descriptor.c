/* SPDX-License-Identifier: BSD-2-Clause */
/* descriptor.c - tests of exs_qfd, exs_qpoll, exs_qprepare, and of functions that cannot fail: exs_strevent,
 * exs_version_string, exs_errmsg. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bodies.h"

static const char *const init_alone[] = {"exs_init", NULL};

/* ---- exs_qfd -------------------------------------------------------------------------------------------- */

static const char *const qfd_needs[] = {"exs_init", "exs_qcreate", "exs_qdequeue", NULL};

/* Calls the function of the group with this queue. */
static long call(const struct trial *trial, exs_qhandle_t queue)
{
    static exs_event_t event;
    const char *function = trial->group->function;

    if (strcmp(function, "exs_qpoll") == 0)
        return exs_qpoll(queue, &event, 1, 0);
    return strcmp(function, "exs_qprepare") == 0 ? exs_qprepare(queue) : exs_qfd(queue);
}

static void uninitialized(struct trial *trial)
{
    outcome(trial, call(trial, INVALID_QHANDLE));
}

static void forked(struct trial *trial)
{
    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    in_child(trial);
    outcome(trial, call(trial, queue));
}

static void queue_invalid(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, call(trial, INVALID_QHANDLE));
    outcome(trial, call(trial, (exs_qhandle_t)(void *)trial));
}

static void queue_null(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, call(trial, NULL));
}

static void queue_deleted(struct trial *trial)
{
    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    require(trial, exs_qdelete(queue) == 0, "exs_qdelete failed");
    outcome(trial, call(trial, queue));
}

static void same_each_time(struct trial *trial)
{
    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial), other = ok_qcreate(trial);
    int fd = exs_qfd(queue);

    outcome(trial, fd);
    require(trial, exs_qfd(queue) == fd, "it is another descriptor the second time");
    require(trial, exs_qfd(other) != fd, "another queue has the same");
    no_event(trial, queue);
}

/* The descriptor is readable while the queue has an event, in each poll(2), and not after the event was removed. */
static void tells(struct trial *trial)
{
    exs_event_t event;

    ok_connected(trial);
    struct pollfd watched = {.fd = exs_qfd(trial->queue), .events = POLLIN};

    outcome(trial, watched.fd);
    require(trial, exs_recv(trial->fd, trial->buffer, 1, 0, trial->queue, trial, NULL) == 0, "exs_recv failed");
    no_event(trial, trial->queue);
    peer_do(trial, PEER_SEND, 1);
    for (int i = 0; i < 3; i++)
        require(trial, poll(&watched, 1, PATIENCE * 1000) == 1, "it is not readable though a byte has come");
    while (exs_qdequeue(trial->queue, &event, 1, &(struct timeval){0}) == 0)
        require(trial, poll(&watched, 1, PATIENCE * 1000) == 1, "it is not readable, and no event has come");
    require(trial, event.exs_evt_type == EXS_EVT_RECV, "it was another event");
    no_event(trial, trial->queue);
}

static const struct row qfd_rows[] = {
    {1, EPERM, "exs_qfd(INVALID_QHANDLE) [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, ECHILD, "exs_qfd(qh) [in a forked child]", BOTH, OURS, forked, NULL},
    {3, EINVAL, "exs_qfd(INVALID_QHANDLE)", BOTH, OURS, queue_invalid, NULL},
    {4, EINVAL, "exs_qfd(NULL)", BOTH, OURS, queue_null, NULL},
    {5, EINVAL, "exs_qfd(DELETED_QHANDLE)", BOTH, OURS, queue_deleted, NULL},
    {6, 0, "exs_qfd(qh)", BOTH, OURS, same_each_time, "The same for all of the queue's life, and its own."},
    {7, 0, "exs_qfd(qh) [an event comes]", NONBLOCKING, OURS, tells, "Readable until the event is taken."},
};
const struct group group_qfd = {"exs_qfd", NULL, qfd_needs, ROWS(qfd_rows)};

/* ---- exs_qpoll ------------------------------------------------------------------------------------------ */

static void budget(struct trial *trial, int microseconds)
{
    exs_event_t event;

    ok_init(trial);
    outcome(trial, exs_qpoll(ok_qcreate(trial), &event, 1, microseconds));
}

static void budget_negative(struct trial *trial)
{
    budget(trial, -2);
}

static void budget_too_long(struct trial *trial)
{
    budget(trial, EXS_WAIT_US_MAX + 1);
}

static void poll_nowhere(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_qpoll(ok_qcreate(trial), NULL, 1, 0));
}

static void poll_for_none(struct trial *trial)
{
    exs_event_t event;

    ok_init(trial);
    outcome(trial, exs_qpoll(ok_qcreate(trial), &event, 0, 0));
}

static void poll_empty(struct trial *trial)
{
    exs_event_t event;

    ok_init(trial);
    int count = exs_qpoll(ok_qcreate(trial), &event, 1, 100);

    outcome(trial, count);
    require(trial, count == 0, "an empty queue gave an event");
}

/* Gets the event of a receive whose byte is in flight. */
static void find_event(struct trial *trial, int microseconds)
{
    struct pollfd watched = {.events = POLLIN};
    exs_event_t event;
    int count = 0;

    ok_connected(trial);
    watched.fd = exs_qfd(trial->queue);
    require(trial, exs_recv(trial->fd, trial->buffer, 1, 0, trial->queue, trial, NULL) == 0, "exs_recv failed");
    peer_tell(trial, PEER_SEND, 1);
    for (int i = 0; i < PATIENCE && count == 0; i++) {
        count = exs_qpoll(trial->queue, &event, 1, microseconds);
        if (count == 0 && microseconds == EXS_LOOP_BUDGET)
            poll(&watched, 1, 1000);
    }
    outcome(trial, count);
    peer_hear(trial);
    require(trial, count == 1 && event.exs_evt_type == EXS_EVT_RECV && event.exs_evt_ahandle == trial,
            "the event did not come");
    no_event(trial, trial->queue);
}

static void poll_finds(struct trial *trial)
{
    find_event(trial, EXS_WAIT_US_MAX);
}

static void loop_finds(struct trial *trial)
{
    find_event(trial, EXS_LOOP_BUDGET);
}

static void loop_nowhere(struct trial *trial)
{
    ok_init(trial);
    outcome(trial, exs_qpoll(ok_qcreate(trial), NULL, 1, EXS_LOOP_BUDGET));
}

static void loop_for_none(struct trial *trial)
{
    exs_event_t event;

    ok_init(trial);
    outcome(trial, exs_qpoll(ok_qcreate(trial), &event, 0, EXS_LOOP_BUDGET));
}

static void loop_deleted(struct trial *trial)
{
    exs_event_t event;

    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    require(trial, exs_qdelete(queue) == 0, "exs_qdelete failed");
    outcome(trial, exs_qpoll(queue, &event, 1, EXS_LOOP_BUDGET));
}

static const struct row qpoll_rows[] = {
    {1, EPERM, "exs_qpoll(INVALID_QHANDLE, ev, 1, 0) [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, ECHILD, "exs_qpoll(qh, ev, 1, 0) [in a forked child]", BOTH, OURS, forked, NULL},
    {3, EINVAL, "exs_qpoll(INVALID_QHANDLE, ev, 1, 0)", BOTH, OURS, queue_invalid, NULL},
    {4, EINVAL, "exs_qpoll(NULL, ev, 1, 0)", BOTH, OURS, queue_null, NULL},
    {5, EINVAL, "exs_qpoll(DELETED_QHANDLE, ev, 1, 0)", BOTH, OURS, queue_deleted, NULL},
    {6, EINVAL, "exs_qpoll(qh, ev, 1, -2)", BOTH, OURS, budget_negative, NULL},
    {7, EINVAL, "exs_qpoll(qh, ev, 1, EXS_WAIT_US_MAX + 1)", BOTH, OURS, budget_too_long, NULL},
    {8, EINVAL, "exs_qpoll(qh, ev, 0, 0)", BOTH, OURS, poll_for_none, NULL},
    {9, EFAULT, "exs_qpoll(qh, NULL, 1, 0)", BOTH, OURS, poll_nowhere, NULL},
    {10, 0, "exs_qpoll(qh, ev, 1, 100) [no event]", BOTH, OURS, poll_empty, "Returns 0."},
    {11, 0, "exs_qpoll(qh, ev, 1, EXS_WAIT_US_MAX) [a byte comes]", NONBLOCKING, OURS, poll_finds, NULL},
    {12, EINVAL, "exs_qpoll(DELETED_QHANDLE, ev, 1, EXS_LOOP_BUDGET)", BOTH, OURS, loop_deleted, NULL},
    {13, EINVAL, "exs_qpoll(qh, ev, 0, EXS_LOOP_BUDGET)", BOTH, OURS, loop_for_none, NULL},
    {14, EFAULT, "exs_qpoll(qh, NULL, 1, EXS_LOOP_BUDGET)", BOTH, OURS, loop_nowhere, NULL},
    {15, 0, "exs_qpoll(qh, ev, 1, EXS_LOOP_BUDGET) [a byte comes]", NONBLOCKING, OURS, loop_finds, NULL},
};
const struct group group_qpoll = {"exs_qpoll", NULL, qfd_needs, ROWS(qpoll_rows)};

/* ---- exs_qprepare --------------------------------------------------------------------------------------- */

/* Calls the function with a receive pending, whose event then arrives. */
static void prepare(struct trial *trial)
{
    ok_connected(trial);
    require(trial, exs_recv(trial->fd, trial->buffer, 1, 0, trial->queue, trial, NULL) == 0, "exs_recv failed");
    outcome(trial, exs_qprepare(trial->queue));
    no_event(trial, trial->queue);
    peer_do(trial, PEER_SEND, 1);
    require(trial, exs_qprepare(trial->queue) == 0, "the second exs_qprepare failed");
    ok_event(trial, trial->queue, EXS_EVT_RECV, trial);
}

static const struct row qprepare_rows[] = {
    {1, EPERM, "exs_qprepare(INVALID_QHANDLE) [no exs_init]", BOTH, OURS, uninitialized, NULL},
    {2, ECHILD, "exs_qprepare(qh) [in a forked child]", BOTH, OURS, forked, NULL},
    {3, EINVAL, "exs_qprepare(INVALID_QHANDLE)", BOTH, OURS, queue_invalid, NULL},
    {4, EINVAL, "exs_qprepare(NULL)", BOTH, OURS, queue_null, NULL},
    {5, EINVAL, "exs_qprepare(DELETED_QHANDLE)", BOTH, OURS, queue_deleted, NULL},
    {6, 0, "exs_qprepare(qh)", NONBLOCKING, OURS, prepare, "An event comes as without it."},
};
const struct group group_qprepare = {"exs_qprepare", NULL, qfd_needs, ROWS(qprepare_rows)};

/* ---- exs_strevent --------------------------------------------------------------------------------------- */

#define NAMED(type)                                                                                            \
    {                                                                                                          \
        type, #type                                                                                            \
    }
static const struct {
    int type;
    const char *name;
} types[] = {
    NAMED(EXS_EVT_CONNECT),  NAMED(EXS_EVT_ACCEPT),   NAMED(EXS_EVT_SEND),    NAMED(EXS_EVT_RECV),
    NAMED(EXS_EVT_SENDFILE), NAMED(EXS_EVT_SHUTDOWN), NAMED(EXS_EVT_CLOSE),   NAMED(EXS_EVT_RREAD),
    NAMED(EXS_EVT_RWRITE),   NAMED(EXS_EVT_SENDMSG),  NAMED(EXS_EVT_RECVMSG), NAMED(EXS_EVT_RECVFILE),
    NAMED(EXS_EVT_POLL),
};

static void each_type(struct trial *trial)
{
    outcome(trial, 0);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        require(trial, strcmp(exs_strevent(types[i].type), types[i].name) == 0, "a type has another name");
}

static void no_type(struct trial *trial)
{
    static const int none[] = {0, -1, EXS_EVT_POLL + 1, 0x7fffffff, -0x7fffffff - 1};

    outcome(trial, 0);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        const char *name = exs_strevent(none[i]);

        require(trial, name != NULL && name[0] != '\0', "it is NULL, or empty");
        for (size_t type = 0; type < sizeof(types) / sizeof(types[0]); type++)
            require(trial, strcmp(name, types[type].name) != 0, "it is the name of a type");
    }
}

static const struct row strevent_rows[] = {
    {1, 0, "exs_strevent(EXS_EVT_CONNECT to EXS_EVT_POLL) [no exs_init]", BOTH, OURS, each_type, NULL},
    {2, 0, "exs_strevent(NO_TYPE) [no exs_init]", BOTH, OURS, no_type, "Some words, and never NULL."},
};
const struct group group_strevent = {"exs_strevent", NULL, init_alone, ROWS(strevent_rows)};

/* ---- exs_version_string --------------------------------------------------------------------------------- */

static void version(struct trial *trial)
{
    const char *text = exs_version_string();
    char *end = (char *)text;
    unsigned long major = text != NULL ? strtoul(text, &end, 10) : 0;

    outcome(trial, 0);
    for (int part = 1; part < 3 && end != NULL && *end == '.'; part++)
        strtoul(end + 1, &end, 10);
    require(trial, text != NULL && *end == '\0' && strchr(text, '.') != strrchr(text, '.'), "it is no version");
    require(trial, major == EXS_VERSION_MAJOR, "it is another version than the header's");
    require(trial, exs_version_string() == text, "it is another string the second time");
}

static const struct row version_rows[] = {
    {1, 0, "exs_version_string() [no exs_init]", BOTH, OURS, version, "Three numbers with points between."},
};
const struct group group_version_string = {"exs_version_string", NULL, init_alone, ROWS(version_rows)};

/* ---- exs_errmsg ----------------------------------------------------------------------------------------- */

static void nothing_failed(struct trial *trial)
{
    outcome(trial, 0);
    require(trial, exs_errmsg() != NULL && exs_errmsg()[0] != '\0', "it is NULL, or empty");
}

static void call_failed(struct trial *trial)
{
    outcome(trial, 0);
    require(trial, exs_socket(-1, SOCK_STREAM, 0) == -1, "exs_socket takes a family that does not exist");
    require(trial, strncmp(exs_errmsg(), "exs_socket: ", 12) == 0, "it does not name the call");
    require(trial, errno == EPERM, "errno has changed");
}

static const struct row errmsg_rows[] = {
    {1, 0, "exs_errmsg() [no exs_init]", BOTH, OURS, nothing_failed, "Some words, and never NULL."},
    {2, 0, "exs_errmsg() [after a call that failed]", BOTH, OURS, call_failed,
     "It begins with the name of the call. Each row of this table that expects an error looks at it, too."},
};
const struct group group_errmsg = {"exs_errmsg", NULL, init_alone, ROWS(errmsg_rows)};
