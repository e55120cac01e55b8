/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_on_its_way.c - a thread that busy-polls before it sleeps keeps polling while packets arrive, although
 * nothing completes: a message of many packets may be arriving, and each packet would wake a sleeping thread.
 *
 * The packets come from a raw peer, as RDMA WRITEs without immediate data, which complete nothing at the
 * receiver. This program replaces sched_yield() and ppoll(): each sched_yield() of the polling thread sends one
 * more packet, and the last one is a message. A thread that sleeps before that fails the test.
 */
#include "check/support/scene.h"

#include <dlfcn.h>
#include <exs_ev.h>
#include <poll.h>
#include <sched.h>
#include "core/queue/nic.h"
#include "core/queue/queue.h"
#include "core/base/settings.h"
#include "soft/service/home.h"
#include "inside.h"
#include "own_clock.h"

#define SPIN_US 50 /* microseconds; much less than all packets take */

enum { PACKETS = 1000 };

static _Thread_local int left; /* packets that this thread's next calls of sched_yield() send */
static bool are_junk;          /* the packets are for no queue pair */
static int meanwhile;          /* when this number of packets is left, sched_yield() also calls does() */
static void (*does)(void);

static void put_junk(void)
{
    struct ibv_context *context = scene.raw.id->verbs;
    struct shm_peer *peer = TAILQ_FIRST(&home_of(context)->shm.looked_at);
    size_t limit;
    uint8_t *at;

    ck_assert_ptr_nonnull(peer);
    soft_lock(context);
    ck_assert_ptr_nonnull(at = peer->link.room(&peer->link, 64, &limit));
    memset(at, 0, 64);
    peer->link.send(&peer->link, NULL, at, 64, 64);
    soft_unlock(context);
}

static void write_bytes(uint32_t bytes)
{
    raw_look(&scene.raw);
    raw_reach(&scene.raw, IBV_WR_RDMA_WRITE, scene.raw.there.recv_ring_addr, scene.raw.there.recv_ring_rkey,
              bytes);
}

__attribute__((visibility("default"))) int sched_yield(void)
{
    int (*own)(void);
    int now = left;

    *(void **)&own = dlsym(RTLD_NEXT, "sched_yield");
    left = 0; /* calls of sched_yield() within this one send nothing */
    if (now > 1 && now == meanwhile)
        does();
    if (now > 1 && are_junk)
        put_junk();
    else if (now > 1)
        write_bytes(1);
    else if (now == 1)
        raw_indirect(&scene.raw, 1);
    left = now > 0 ? now - 1 : 0;
    return own();
}

__attribute__((visibility("default"))) int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit,
                                                 const sigset_t *mask)
{
    int (*own)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);

    *(void **)&own = dlsym(RTLD_NEXT, "ppoll");
    ck_assert_msg(left == 0 || left < meanwhile || are_junk, "asleep, and %d packets were to come", left);
    if (!are_junk || limit == NULL)
        return own(fds, count, limit, mask);
    own_leap = limit->tv_sec * 1000000000LL + limit->tv_nsec;
    return own(fds, count, &(struct timespec){0}, mask);
}

/* Uses the test's clock from now on, and resets what the library has learned from polling by the system's
 * clock. */
static void look_anew(void)
{
    const exs_qattr_t looks = {.exs_wait = EXS_WAIT_ADAPTIVE, .exs_wait_us = SPIN_US};

    own_clock = true;
    must(exs_qmodify(scene.box.queue, EXS_QATTR_WAIT, &looks));
}

static void begin(void)
{
    must(setenv("EXS_LINK", "shm", 1));
    settings_read(NULL);
    scene_open(raw_hello(SOCK_STREAM));
    service_suspend(service_of(scene.server)); /* it would read the system's clock */
    service_suspend(&home_of(scene.raw.id->verbs)->service);
    look_anew();
}

static void end(void)
{
    own_clock = false;
    service_resume(&home_of(scene.raw.id->verbs)->service);
    service_resume(service_of(scene.server));
    ck_assert_int_eq(left, 0);
    ck_assert_int_eq(raw_status(&scene.raw), IBV_WC_SUCCESS);
    scene_close();
}

START_TEST(a_call_looks_on)
{
    char byte;

    begin();
    left = PACKETS;
    ck_assert_int_eq(exs_blocking_recv(scene.server, &byte, 1, 0, NULL), 1);
    end();
}
END_TEST

static void received(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)w;
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(events->exs_evt_type, EXS_EVT_RECV);
    ck_assert_int_eq(events->exs_evt_errno, 0);
    ev_break(EV_A_ EVBREAK_ALL);
}

/* A libev loop that a packet has woken busy-polls, too. */
START_TEST(a_loop_looks_on)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    exs_ev watcher;
    char byte;

    begin();
    must(exs_recv(scene.server, &byte, 1, 0, scene.box.queue, NULL, NULL));
    exs_ev_init(&watcher, received, scene.box.queue);
    exs_ev_start(loop, &watcher);
    write_bytes(1);
    left = PACKETS;
    ev_run(loop, 0);
    exs_ev_stop(loop, &watcher);
    ev_loop_destroy(loop);
    end();
}
END_TEST

/* ---- Other queues and other packets ------------------------------------------------------------------------ */

static struct queue *host;
static int guests;

static void have_guests(void)
{
    atomic_store(&host->attachment_count, guests);
}

/* A queue that is attached while another thread polls the host queue is polled soon, and not only after the
 * last packet. The test attaches the queue beforehand and sets the host's count of attached queues to 0 until
 * then. */
START_TEST(a_guest_is_heard)
{
    struct pair guest;
    exs_event_t event;
    char answer = 0;

    begin();
    own_clock = false;
    pair_open_blocking(&guest, PF_INET, SOCK_STREAM);
    must(exs_recv(guest.client, &answer, 1, 0, scene.box.queue, NULL, NULL));
    ck_assert_int_eq(exs_blocking_send(guest.server, "g", 1, 0, NULL), 1);
    look_anew();
    host = conn_of(scene.server)->nic->queue;
    guests = atomic_exchange(&host->attachment_count, 0);
    ck_assert_int_gt(guests, 0);
    left = 100 * PACKETS;
    meanwhile = 99 * PACKETS;
    does = have_guests;
    ck_assert_int_eq(exs_qdequeue(scene.box.queue, &event, 1, NULL), 1);
    ck_assert_int_eq(event.exs_evt_socket, guest.client);
    ck_assert_int_eq(answer, 'g');
    ck_assert_int_lt(left, meanwhile);
    ck_assert_int_gt(left, 1);
    left = meanwhile = 0;
    own_clock = false;
    pair_close_blocking(&guest);
    end();
}
END_TEST

/* Packets that belong to no queue pair do not keep a thread polling. */
START_TEST(strangers_are_not_heard)
{
    const struct timeval limit = {.tv_sec = 1};
    char byte;

    begin();
    must(exs_setsockopt(scene.server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    are_junk = true;
    left = PACKETS;
    must_fail(exs_blocking_recv(scene.server, &byte, 1, 0, NULL), ETIMEDOUT);
    ck_assert_int_gt(left, PACKETS / 2);
    left = 0;
    are_junk = false;
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("on its way");
    TCase *looks = add_bare_case(suite, "looks", 20);

    if (on_rdma())
        return 0; /* a hardware device does not report single packets */
    tcase_add_test(looks, a_call_looks_on);
    tcase_add_test(looks, a_loop_looks_on);
    tcase_add_test(looks, a_guest_is_heard);
    tcase_add_test(looks, strangers_are_not_heard);
    return run_suite(suite);
}
