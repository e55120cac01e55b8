/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd_ways.c - how the crowd's server waits for its queue and for the reports of its children.
 *
 * It polls the queue only when it has been woken for it, so that a lost wake-up makes the test fail.
 */
#include "crowd.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define BATCH 4 /* events per dequeue: few, so that some remain */
#define THE_QUEUE MOST_CHILDREN
#define TICK_MS 10 /* exs_qdequeue can't wait for a child's report at the same time */

static enum way way_of(const struct crowd *crowd)
{
    return crowd->server ? crowd->cell->way : DEQUEUE;
}

static int left_ms(double until)
{
    double left = (until - seconds_now()) * 1e3;

    return left < 0 ? 0 : (int)left + 1;
}

static int take_batch(struct crowd *crowd, const struct timeval *timeout)
{
    exs_event_t events[BATCH];
    int count = exs_qdequeue(crowd->queue, events, BATCH, timeout);

    expect(crowd, count >= 0 && count <= BATCH, "exs_qdequeue: %d, %s", count, strerror(errno));
    for (int i = 0; i < count; i++)
        crowd_event(crowd, &events[i]);
    return count;
}

/* ---- epoll --------------------------------------------------------------------------- */

static void epoll_open(struct crowd *crowd)
{
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = THE_QUEUE};

    if (crowd->cell->way == EDGE)
        wanted.events |= EPOLLET;
    must(crowd->epoll = epoll_create1(EPOLL_CLOEXEC));
    must(epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, exs_qfd(crowd->queue), &wanted));
}

static bool epoll_turn(struct crowd *crowd, double until)
{
    struct epoll_event ready[1 + MOST_CHILDREN];
    int count = epoll_wait(crowd->epoll, ready, COUNT(ready), left_ms(until));

    must(count);
    for (int i = 0; i < count; i++)
        if (ready[i].data.u32 != THE_QUEUE)
            crowd_hear(crowd, (int)ready[i].data.u32);
        else
            while (take_batch(crowd, &(struct timeval){0}) == BATCH && crowd->cell->way == EDGE)
                ;
    return count > 0;
}

/* ---- libev --------------------------------------------------------------------------- */

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct crowd *crowd = w->data;

    (void)loop;
    expect(crowd, count >= 1 && count <= EXS_EV_BATCH, "a callback with %d events", count);
    for (int i = 0; i < count; i++)
        crowd_event(crowd, &events[i]);
}

static void ear_cb(EV_P_ ev_io *w, int revents)
{
    struct crowd *crowd = w->data;

    (void)loop;
    (void)revents;
    crowd_hear(crowd, (int)(w - crowd->ears));
}

static void limit_cb(EV_P_ ev_timer *w, int revents)
{
    struct crowd *crowd = w->data;

    (void)loop;
    (void)revents;
    crowd->late = true;
}

static void ev_open(struct crowd *crowd)
{
    static const unsigned backends[] = {
        [EV_EPOLL] = EVBACKEND_EPOLL, [EV_POLL] = EVBACKEND_POLL, [EV_SELECT] = EVBACKEND_SELECT};
    unsigned backend = backends[crowd->cell->way];

    crowd->loop = ev_loop_new(backend | EVFLAG_NOENV);
    expect(crowd, crowd->loop && ev_backend(crowd->loop) == backend, "libev has no back-end %u", backend);
    crowd->watcher.data = crowd;
    exs_ev_init(&crowd->watcher, events_cb, crowd->queue);
    exs_ev_start(crowd->loop, &crowd->watcher);
    ev_init(&crowd->limit, limit_cb);
    crowd->limit.data = crowd;
}

static bool ev_turn(struct crowd *crowd, double until)
{
    crowd->late = false;
    ev_now_update(crowd->loop);
    ev_timer_set(&crowd->limit, left_ms(until) / 1e3, 0);
    ev_timer_start(crowd->loop, &crowd->limit);
    ev_run(crowd->loop, EVRUN_ONCE);
    ev_timer_stop(crowd->loop, &crowd->limit);
    return !crowd->late;
}

/* ---- Blocking calls ------------------------------------------------------------------ */

static bool hear_those_who_speak(struct crowd *crowd, int fd, int wait_ms)
{
    struct pollfd fds[1 + MOST_CHILDREN] = {[MOST_CHILDREN] = {.fd = fd, .events = POLLIN}};
    int count;

    for (int i = 0; i < MOST_CHILDREN; i++)
        fds[i] = (struct pollfd){.fd = crowd->listened[i] ? crowd->children[i].fd : -1, .events = POLLIN};
    must(count = poll(fds, COUNT(fds), wait_ms));
    for (int i = 0; i < MOST_CHILDREN; i++)
        if (fds[i].revents)
            crowd_hear(crowd, i);
    return count > 0;
}

static bool dequeue_turn(struct crowd *crowd, double until)
{
    int ms = left_ms(until);

    if (crowd->awaited && hear_those_who_speak(crowd, -1, 0))
        return true;
    if (crowd->awaited && ms > TICK_MS)
        take_batch(crowd, &(struct timeval){0, TICK_MS * 1000});
    else if (take_batch(crowd, &(struct timeval){ms / 1000, ms % 1000 * 1000}) == 0)
        return false;
    return true;
}

static bool threads_turn(struct crowd *crowd, double until)
{
    eventfd_t count;

    pthread_mutex_unlock(&crowd->lock);
    bool any = hear_those_who_speak(crowd, crowd->changed, left_ms(until));
    pthread_mutex_lock(&crowd->lock);
    if (eventfd_read(crowd->changed, &count) == -1)
        expect(crowd, errno == EAGAIN, "eventfd_read: %s", strerror(errno));
    return any;
}

/* ---- All ----------------------------------------------------------------------------- */

void way_open(struct crowd *crowd)
{
    crowd->epoll = crowd->changed = -1;
    switch (way_of(crowd)) {
    case LEVEL:
    case EDGE:
        epoll_open(crowd);
        break;
    case EV_EPOLL:
    case EV_POLL:
    case EV_SELECT:
        ev_open(crowd);
        break;
    case THREADS:
        must(crowd->changed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        break;
    default:
        break;
    }
}

bool way_turn(struct crowd *crowd, double until)
{
    switch (way_of(crowd)) {
    case LEVEL:
    case EDGE:
        return epoll_turn(crowd, until);
    case EV_EPOLL:
    case EV_POLL:
    case EV_SELECT:
        return ev_turn(crowd, until);
    case THREADS:
        return threads_turn(crowd, until);
    default:
        return dequeue_turn(crowd, until);
    }
}

void way_listen(struct crowd *crowd, int child)
{
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = (uint32_t)child};

    crowd->awaited++;
    crowd->listened[child] = true;
    if (crowd->epoll >= 0)
        must(epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, crowd->children[child].fd, &wanted));
    if (crowd->loop) {
        ev_io_init(&crowd->ears[child], ear_cb, crowd->children[child].fd, EV_READ);
        crowd->ears[child].data = crowd;
        ev_io_start(crowd->loop, &crowd->ears[child]);
    }
}

void way_ignore(struct crowd *crowd, int child)
{
    crowd->awaited--;
    crowd->listened[child] = false;
    if (crowd->epoll >= 0)
        must(epoll_ctl(crowd->epoll, EPOLL_CTL_DEL, crowd->children[child].fd, NULL));
    if (crowd->loop)
        ev_io_stop(crowd->loop, &crowd->ears[child]);
}

void way_close(struct crowd *crowd)
{
    if (crowd->epoll >= 0)
        close(crowd->epoll);
    if (crowd->changed >= 0)
        close(crowd->changed);
    if (crowd->loop) {
        exs_ev_stop(crowd->loop, &crowd->watcher);
        ev_loop_destroy(crowd->loop);
    }
}
