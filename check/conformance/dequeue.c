/* SPDX-License-Identifier: BSD-2-Clause */
/* dequeue.c - tests of exs_qdequeue (5.2.8). */
#include "bodies.h"

static const struct timeval at_once;

static void qdequeue_uninitialized(struct trial *trial)
{
    exs_event_t event;

    outcome(trial, exs_qdequeue(NULL, &event, 1, &at_once));
}

static void qdequeue_uninitialized_bad(struct trial *trial)
{
    static const struct timeval impossible = {.tv_usec = -1};

    outcome(trial, exs_qdequeue(INVALID_QHANDLE, NULL, 0, &impossible));
}

static void qdequeue_invalid(struct trial *trial)
{
    exs_event_t event;

    ok_init(trial);
    outcome(trial, exs_qdequeue(INVALID_QHANDLE, &event, 1, &at_once));
    outcome(trial, exs_qdequeue((exs_qhandle_t)(void *)&event, &event, 1, &at_once));
    exs_qhandle_t queue = ok_qcreate(trial);

    require(trial, exs_qdelete(queue) == 0, "exs_qdelete failed");
    outcome(trial, exs_qdequeue(queue, &event, 1, &at_once));
}

static void qdequeue_null(struct trial *trial)
{
    exs_event_t event;

    ok_init(trial);
    outcome(trial, exs_qdequeue(NULL, &event, 1, &at_once));
}

/* Returns a queue with an event, so that a test notices if a call that must fail removes the event. */
static exs_qhandle_t with_event(struct trial *trial)
{
    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    require(trial, exs_close(ok_socket(trial), 0, queue, trial) == 0, "exs_close failed");
    return queue;
}

static void refused(struct trial *trial, exs_event_t *events, int count, const struct timeval *timeout)
{
    exs_qhandle_t queue = with_event(trial);

    outcome(trial, exs_qdequeue(queue, events, count, timeout));
    ok_event(trial, queue, EXS_EVT_CLOSE, trial);
}

static void qdequeue_none(struct trial *trial)
{
    exs_event_t event;

    refused(trial, &event, 0, &at_once);
}

static void qdequeue_negative(struct trial *trial)
{
    exs_event_t event;

    refused(trial, &event, -1, &at_once);
}

static void qdequeue_too_many(struct trial *trial)
{
    static exs_event_t events[EXS_EVTVEC_MAX + 1];

    refused(trial, events, EXS_EVTVEC_MAX + 1, &at_once);
}

static void qdequeue_nowhere(struct trial *trial)
{
    refused(trial, NULL, 1, &at_once);
}

static void qdequeue_past_end(struct trial *trial)
{
    /* The range wraps around the end of the address space. */
    refused(trial, (exs_event_t *)(UINTPTR_MAX - sizeof(exs_event_t) + 1), 2, &at_once);
}

static void qdequeue_timeout_negative(struct trial *trial)
{
    static const struct timeval impossible = {.tv_sec = -1};
    exs_event_t event;

    refused(trial, &event, 1, &impossible);
}

static void qdequeue_timeout_usec(struct trial *trial)
{
    static const struct timeval impossible = {.tv_usec = 1000000};
    exs_event_t event;

    refused(trial, &event, 1, &impossible);
}

static void qdequeue_timeout_usec_negative(struct trial *trial)
{
    static const struct timeval impossible = {.tv_usec = -1};
    exs_event_t event;

    refused(trial, &event, 1, &impossible);
}

/* Three events: the calls return two, one, and none. */
static void qdequeue(struct trial *trial)
{
    static const struct timeval patience = {.tv_sec = PATIENCE};
    exs_event_t events[4];
    void *seen[3];

    ok_init(trial);
    exs_qhandle_t queue = ok_qcreate(trial);

    for (int i = 0; i < 3; i++)
        require(trial, exs_close(ok_socket(trial), 0, queue, &seen[i]) == 0, "exs_close failed");
    int first = exs_qdequeue(queue, events, 2, &patience);

    outcome(trial, first);
    require(trial, first == 2, "two of three events were asked for, and another number came");
    require(trial, exs_qdequeue(queue, events + 2, 2, &patience) == 1,
            "one event was left, and another number came");
    for (int i = 0; i < 3; i++)
        require(trial, events[i].exs_evt_type == EXS_EVT_CLOSE && events[i].exs_evt_ahandle == &seen[i],
                "the events are not those that were owed, in order");
    no_event(trial, queue);
}

static void qdequeue_empty(struct trial *trial)
{
    static const struct timeval short_while = {.tv_usec = 1000};
    exs_event_t event;

    ok_init(trial);
    int count = exs_qdequeue(ok_qcreate(trial), &event, 1, &short_while);

    outcome(trial, count);
    require(trial, count == 0, "an empty queue gave an event");
}

static void qdequeue_most(struct trial *trial)
{
    static exs_event_t events[EXS_EVTVEC_MAX];
    exs_qhandle_t queue = with_event(trial);
    int count = exs_qdequeue(queue, events, EXS_EVTVEC_MAX, NULL);

    outcome(trial, count);
    require(trial, count == 1, "one event was owed, and another number came");
}

static void qdequeue_forked(struct trial *trial)
{
    exs_qhandle_t queue = with_event(trial);
    exs_event_t event;

    in_child(trial);
    outcome(trial, exs_qdequeue(queue, &event, 1, &at_once));
}

static const struct row rows[] = {
    {1, EPERM, "exs_qdequeue(qh, evtvec, evtvec_cnt, to) [no exs_init]", BOTH, THESIS, qdequeue_uninitialized,
     NULL},
    {2, EINVAL, "exs_qdequeue(INVALID_QH, evtvec, evtvec_cnt, to)", BOTH, THESIS, qdequeue_invalid,
     "The thesis's heading has EINVAL, its text EPERM: the heading stands."},
    {3, EINVAL, "exs_qdequeue(qh, evtvec, ZERO_EVTVEC_CNT, to)", BOTH, THESIS, qdequeue_none, NULL},
    {4, 0, "exs_qdequeue(qh, evtvec, 2, to) [three events owed]", BOTH, UNIMPLEMENTED, qdequeue, NULL},
    {5, EFAULT, "exs_qdequeue(qh, NULL, 1, to)", BOTH, UNIMPLEMENTED, qdequeue_nowhere, NULL},
    {6, EFAULT, "exs_qdequeue(qh, BEYOND_MEMORY, 2, to)", BOTH, UNIMPLEMENTED, qdequeue_past_end,
     "A range that is no range of the address space is refused; memory that is merely not mapped can't be told "
     "without a system call on every call, and faults as in any other function."},
    {7, EFAULT, "exs_qdequeue(qh, evtvec, 1, {-1, 0})", BOTH, UNIMPLEMENTED, qdequeue_timeout_negative, NULL},
    {8, EFAULT, "exs_qdequeue(qh, evtvec, 1, {0, 1000000})", BOTH, UNIMPLEMENTED, qdequeue_timeout_usec, NULL},
    {9, EFAULT, "exs_qdequeue(qh, evtvec, 1, {0, -1})", BOTH, UNIMPLEMENTED, qdequeue_timeout_usec_negative,
     NULL},
    {10, EINVAL, "exs_qdequeue(qh, evtvec, EXS_EVTVEC_MAX + 1, to)", BOTH, UNIMPLEMENTED, qdequeue_too_many,
     NULL},
    {11, EINVAL, "exs_qdequeue(qh, evtvec, -1, to)", BOTH, OURS, qdequeue_negative,
     "No threshold as in other libraries: the thesis refuses what is less than 1."},
    {12, EINVAL, "exs_qdequeue(NULL, evtvec, evtvec_cnt, to)", BOTH, OURS, qdequeue_null, NULL},
    {13, EPERM, "exs_qdequeue(INVALID_QH, NULL, 0, {0, -1}) [no exs_init]", BOTH, OURS,
     qdequeue_uninitialized_bad, NULL},
    {14, 0, "exs_qdequeue(qh, evtvec, 1, {0, 1000}) [no event, 0 after the time-out]", BOTH, OURS,
     qdequeue_empty, NULL},
    {15, 0, "exs_qdequeue(qh, evtvec, EXS_EVTVEC_MAX, NULL)", BOTH, OURS, qdequeue_most, NULL},
    {16, ECHILD, "exs_qdequeue(qh, evtvec, 1, to) [in a forked child]", BOTH, OURS, qdequeue_forked, NULL},
};
static const char *const needs[] = {"exs_init", "exs_qcreate", "exs_socket",
                                    NULL}; /* closing sockets gives events */
const struct group group_qdequeue = {"exs_qdequeue", "5.2.8", needs, ROWS(rows)};
