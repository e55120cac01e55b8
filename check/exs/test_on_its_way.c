/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_on_its_way.c - whoever looks before sleeping goes on as long as packets come, though nothing completes: a
 * message of many packets is under way, and each of them would wake a sleeper.
 *
 * The packets are a raw peer's, bare WRITEs, which no completion tells of: one whenever the one who looks makes way by
 * sched_yield, and in the end a message. The library's calls to the kernel come by here; whoever sleeps gets no more.
 */
#include "check/support/scene.h"

#include <dlfcn.h>
#include <exs_ev.h>
#include <poll.h>
#include <sched.h>
#include "own_clock.h"

#define SPIN_US 50 /* much less than all the packets take */

enum { PACKETS = 1000 };

static _Thread_local int left; /* packets, that this thread's looks are to find */

static void write_bytes(uint32_t bytes)
{
    raw_look(&scene.raw);
    raw_reach(&scene.raw, IBV_WR_RDMA_WRITE, scene.raw.there.hidden_addr, scene.raw.there.hidden_rkey, bytes);
}

__attribute__((visibility("default"))) int sched_yield(void)
{
    int (*own)(void);
    int now = left;

    *(void **)&own = dlsym(RTLD_NEXT, "sched_yield");
    left = 0; /* for what is called here */
    if (now > 1)
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
    ck_assert_msg(left == 0, "asleep, and %d packets were to come", left);
    return own(fds, count, limit, mask);
}

static void begin(void)
{
    const exs_qattr_t looks = {.exs_wait = EXS_WAIT_ADAPTIVE, .exs_wait_us = SPIN_US};

    scene_open(raw_hello(SOCK_STREAM));
    own_clock = true;
    must(exs_qmodify(scene.box.queue, EXS_QATTR_WAIT, &looks));
}

static void end(void)
{
    own_clock = false;
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

/* And one that a packet has woken begins to. */
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

int main(void)
{
    Suite *suite = suite_create("on its way");
    TCase *looks = add_bare_case(suite, "looks", 20);

    if (on_rdma())
        return 0; /* which does not tell of packets */
    tcase_add_test(looks, a_call_looks_on);
    tcase_add_test(looks, a_loop_looks_on);
    return run_suite(suite);
}
