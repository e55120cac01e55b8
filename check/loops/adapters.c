/* SPDX-License-Identifier: BSD-2-Clause */
/* adapters.c - see adapters.h. */
#include "adapters.h"

#include <sys/timerfd.h>

const struct loop_kind *kinds_here[5];
int kinds_count;

static const struct {
    const char *name, *package;
    const struct loop_kind *kind;
} wanted[] = {
    {"libev", "libev-dev", &loop_of_ev},
#ifdef WITH_UV
    {"libuv", "libuv1-dev", &loop_of_uv},
#else
    {"libuv", "libuv1-dev", NULL},
#endif
#ifdef WITH_GLIB
    {"GLib", "libglib2.0-dev", &loop_of_glib},
#else
    {"GLib", "libglib2.0-dev", NULL},
#endif
#ifdef WITH_LIBEVENT
    {"libevent", "libevent-dev", &loop_of_libevent},
#else
    {"libevent", "libevent-dev", NULL},
#endif
#ifdef WITH_URING
    {"io_uring", "liburing-dev", &loop_of_uring},
#else
    {"io_uring", "liburing-dev", NULL},
#endif
};

int find_kinds(void)
{
    int missing = 0;

    for (int i = 0; i < COUNT(wanted); i++) {
        const struct loop_kind *kind = wanted[i].kind;

        if (kind && (!kind->allowed || kind->allowed())) {
            kinds_here[kinds_count++] = kind;
            continue;
        }
        missing++;
        if (kind)
            printf("skipped: %s: this kernel does not allow it\n", wanted[i].name);
        else
            printf("skipped: %s: install %s, and configure again\n", wanted[i].name, wanted[i].package);
    }
    fflush(stdout);
    return missing;
}

void watch_open(struct watch *w, int kind, void *loop, exs_qhandle_t queue,
                void (*cb)(struct watch *, exs_event_t *, int), void *data)
{
    *w = (struct watch){.queue = queue, .cb = cb, .data = data, .kind = kinds_here[kind]};
    w->kind->make(loop, w);
    w->kind->start(w);
}

static void timer_cb(struct beside *b)
{
    struct timer *timer = b->data;
    uint64_t times;

    timer->over = read(b->fd, &times, sizeof(times)) == sizeof(times);
}

void timer_open(struct timer *timer, int kind, void *loop)
{
    timer->beside = (struct beside){timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), timer_cb, timer};
    must(timer->beside.fd);
    kinds_here[kind]->beside(loop, &timer->beside);
}

int turns_for(struct timer *timer, int kind, void *loop, int ms)
{
    struct itimerspec when = {.it_value = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}};
    int turns = 0;

    timer->over = false;
    must(timerfd_settime(timer->beside.fd, 0, &when, NULL));
    for (; !timer->over; turns++)
        kinds_here[kind]->turn(loop);
    return turns;
}
