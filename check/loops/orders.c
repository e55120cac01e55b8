/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * orders.c - every order of ending a watcher and its queue that the manual allows; the same for each adapter.
 * The first steps of an order happen in a callback while events are left in the queue, the others outside of
 * callbacks.
 */
#include "adapters.h"

enum { STEPS_MAX = 5, EVENTS = 70, FEW_MS = 1 }; /* more events than one batch has */

/* The steps of each order. */
static const char *const orders[] = {
    "stop free delete",
    "stop delete free",
    "delete stop free",
    "free delete",
    "delete free",
    "stop start stop free delete",
    "stop start free delete",
    "stop start stop delete free",
};

struct course { /* the state of one order */
    const struct loop_kind *kind;
    struct watch *w;
    const char *next;    /* the remaining steps */
    int inside;          /* number of steps in the callback */
    bool stopped, freed; /* set by the steps, as is `deleted` */
    bool deleted;
    int callbacks;
};

/* Returns false if no step is left. */
static bool take_step(struct course *course)
{
    size_t length = strcspn(course->next, " ");
    const char *step = course->next;

    if (length == 0)
        return false;
    course->next += length + (step[length] == ' ');
    if (strncmp(step, "stop", length) == 0) {
        course->kind->stop(course->w);
        course->stopped = true;
    } else if (strncmp(step, "start", length) == 0) {
        course->stopped = false;
        course->kind->start(course->w);
    } else if (strncmp(step, "free", length) == 0) {
        course->freed = true;
        course->kind->drop(course->w);
    } else {
        course->deleted = true;
        must(exs_qdelete(course->w->queue));
    }
    return true;
}

static void step_cb(struct watch *w, exs_event_t *events, int count)
{
    struct course *course = w->data;

    ck_assert_msg(!course->stopped && !course->freed && !course->deleted, "a callback after the end");
    ck_assert_int_ge(count, 1);
    ck_assert_int_eq(events[0].exs_evt_type, EXS_EVT_RECV);
    if (course->callbacks++ == 0)
        for (int i = 0; i < course->inside; i++)
            ck_assert(take_step(course));
}

/* Returns whether the adapter allows this order, with this number of steps in the callback. */
static bool is_allowed(const struct loop_kind *kind, const char *order, int inside)
{
    bool deleted = false, started = false;

    for (int i = 0; *order != '\0'; i++, order += strcspn(order, " "), order += *order == ' ') {
        started = started || (strncmp(order, "start", 5) == 0 && i < inside);
        if (deleted && !kind->stops_behind_delete)
            return false;
        deleted = deleted || strncmp(order, "delete", 6) == 0;
    }
    return !started || kind->restarts_in_callback;
}

static int count_steps(const char *order)
{
    int count = 1;

    for (; *order != '\0'; order++)
        count += *order == ' ';
    return count;
}

static void run_course(struct pair *pair, int kind, const char *order, int inside, const exs_qattr_t *mode)
{
    void *loop = kinds_here[kind]->open();
    struct watch w;
    struct course course = {.kind = kinds_here[kind], .w = &w, .next = order, .inside = inside};
    struct timer timer;
    struct inbox box;

    inbox_open(&box, EVENTS);
    must(exs_qmodify(box.queue, EXS_QATTR_WAIT, mode));
    owe_events(pair, box.queue, EVENTS);
    timer_open(&timer, kind, loop);
    watch_open(&w, kind, loop, box.queue, step_cb, &course);
    while (course.callbacks == 0)
        course.kind->turn(loop);
    do
        turns_for(&timer, kind, loop, FEW_MS);
    while (take_step(&course));
    ck_assert(course.freed && course.deleted);
    must_fail(exs_qdelete(box.queue), EINVAL);
    course.kind->close(loop);
    must(close(timer.beside.fd));
    free(box.kept);
}

START_TEST(ends_in_every_order)
{
    static const exs_qattr_t modes[] = {{.exs_wait = EXS_WAIT_NOTIFY},
                                        {.exs_wait = EXS_WAIT_ADAPTIVE, .exs_wait_us = 5000}};
    int kind = _i / COUNT(orders);
    const char *order = orders[_i % COUNT(orders)];
    int runs = 0;
    struct pair pair;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    for (int inside = 0; inside <= count_steps(order); inside++) {
        if (!is_allowed(kinds_here[kind], order, inside))
            continue;
        for (int i = 0; i < COUNT(modes); i++, runs++)
            run_course(&pair, kind, order, inside, &modes[i]);
    }
    ck_assert(runs > 0 || !kinds_here[kind]->stops_behind_delete);
    pair_close(&pair);
}
END_TEST

void add_order_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, ends_in_every_order, 0, kinds_count * COUNT(orders));
}
