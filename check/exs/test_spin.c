/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_spin.c - busy polling before a thread sleeps: when the library polls, when it does not, and that no
 * event is lost.
 *
 * The test replaces functions that the library calls and counts their calls in each thread: ppoll(), by which a
 * thread sleeps, and sched_yield(), which it calls between polls. Where only one thread waits the test also
 * replaces the clock, because the library would learn from the real one how busy the machine is.
 */
#include "check/support/support.h"

#include <dlfcn.h>
#include <exs_ev.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>

#define AT_ONCE "0"
#define SHORT "50"     /* us */
#define LONG "1000000" /* us; everything arrives before that */

static _Thread_local int sleeps, yields;
/* the test's clock, which advances only when it is read, or when a thread sleeps or yields */
static atomic_bool has_clock;
static atomic_llong clock_ns;
#define LOOK_NS 1000
static bool yield_lasts; /* sched_yield() takes LOST_NS */
#define LOST_NS 2000000

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now)
{
    int (*own)(clockid_t, struct timespec *);

    if (has_clock && id == CLOCK_MONOTONIC) {
        long long ns = atomic_fetch_add(&clock_ns, LOOK_NS) + LOOK_NS;

        *now = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
        return 0;
    }
    *(void **)&own = dlsym(RTLD_NEXT, "clock_gettime");
    return own(id, now);
}

__attribute__((visibility("default"))) int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit,
                                                 const sigset_t *mask)
{
    int (*own)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);

    *(void **)&own = dlsym(RTLD_NEXT, "ppoll");
    sleeps++;
    if (!has_clock || limit == NULL)
        return own(fds, count, limit, mask);
    clock_ns += limit->tv_sec * 1000000000LL + limit->tv_nsec;
    return own(fds, count, &(struct timespec){0}, mask);
}

__attribute__((visibility("default"))) int sched_yield(void)
{
    int (*own)(void);

    *(void **)&own = dlsym(RTLD_NEXT, "sched_yield");
    yields++;
    if (yield_lasts)
        clock_ns += LOST_NS;
    return own();
}

/* Starts the test's clock at the system's time, which the test runner has already read. */
static void set_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    clock_ns = now.tv_sec * 1000000000LL + now.tv_nsec;
    has_clock = true;
}

static void init_with(const char *spin)
{
    ck_assert_int_eq(setenv("EXS_SPIN", spin, 1), 0);
    init_library();
}

/* Waits for an event, and gets none. Returns whether the thread polled before it slept. */
static bool waits_in_vain(exs_qhandle_t queue)
{
    struct timeval limit = {.tv_usec = 5000};
    exs_event_t event;

    sleeps = yields = 0;
    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, &limit), 0);
    return yields > 0;
}

/* ---- When a thread polls -------------------------------------------------------------- */

START_TEST(at_once)
{
    set_clock();
    init_with(AT_ONCE);
    exs_qhandle_t queue = exs_qcreate(0);

    for (int i = 0; i < 4; i++) {
        ck_assert(!waits_in_vain(queue));
        ck_assert_int_ge(sleeps, 1);
    }
    must(exs_qdelete(queue));
}
END_TEST

START_TEST(by_itself)
{
    set_clock();
    ck_assert_int_eq(unsetenv("EXS_SPIN"), 0);
    init_library();
    exs_qhandle_t queue = exs_qcreate(0);

    ck_assert(waits_in_vain(queue));
    must(exs_qdelete(queue));
}
END_TEST

START_TEST(is_empty)
{
    set_clock();
    init_with(SHORT);
    exs_qhandle_t queue = exs_qcreate(0);

    for (int i = 0; i < 32; i++) { /* exponential backoff: 1, 3, 7 and 15 waits skip polling */
        bool looks = waits_in_vain(queue);

        ck_assert_int_eq(looks, i == 0 || i == 2 || i == 6 || i == 14 || i == 30);
        ck_assert_int_ge(sleeps, 1);
    }
    must(exs_qdelete(queue));
}
END_TEST

START_TEST(no_wait)
{
    set_clock();
    init_with(LONG);
    exs_qhandle_t queue = exs_qcreate(0);
    exs_event_t event;

    sleeps = yields = 0;
    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, &(struct timeval){0}), 0);
    ck_assert_int_eq(sleeps + yields, 0);
    must(exs_qdelete(queue));
}
END_TEST

START_TEST(settings)
{
    static const char *const wrong[] = {"-1",
                                        "+1",
                                        " 5",
                                        "5 ",
                                        "50us",
                                        "1e3",
                                        "0x10",
                                        "on",
                                        "1000001",
                                        "18446744073709551666",
                                        "0000000000000000000000000000000000000000000000000000000000000050"};
    static const char *const right[] = {"", "0", "50", "1000000"};

    for (int i = 0; i < COUNT(wrong); i++) {
        ck_assert_int_eq(setenv("EXS_SPIN", wrong[i], 1), 0);
        must_fail(exs_init(EXS_VERSION), EINVAL);
    }
    init_with(right[_i]);
}
END_TEST

static void set_mode(exs_qhandle_t queue, int mode, int us)
{
    must(exs_qmodify(queue, EXS_QATTR_WAIT, &(exs_qattr_t){.exs_wait = mode, .exs_wait_us = us}));
}

/* sched_yield() takes long because another thread uses the CPU: polling is disabled for many times as long. */
START_TEST(contended)
{
    set_clock();
    init_with(SHORT);
    exs_qhandle_t queue = exs_qcreate(0);

    for (int i = 0; i < 2; i++) { /* a change of the mode resets what was learned */
        yield_lasts = true;
        ck_assert(waits_in_vain(queue));
        yield_lasts = false;
        for (long long end = clock_ns + 60LL * LOST_NS; clock_ns < end;)
            ck_assert(!waits_in_vain(queue));
        set_mode(queue, EXS_WAIT_ADAPTIVE, 50);
    }
    ck_assert(waits_in_vain(queue));
    must(exs_qdelete(queue));
}
END_TEST

/* Polling is then disabled for a queue that is created in that time, too. */
START_TEST(crowded_for_others)
{
    set_clock();
    init_with(SHORT);
    exs_qhandle_t first = exs_qcreate(0);

    yield_lasts = true;
    ck_assert(waits_in_vain(first));
    yield_lasts = false;
    long long end = clock_ns + 60LL * LOST_NS;
    exs_qhandle_t other = exs_qcreate(0);

    while (clock_ns < end)
        ck_assert(!waits_in_vain(other));
    clock_ns += 10LL * LOST_NS;
    ck_assert(waits_in_vain(other));
    must(exs_qdelete(other));
    must(exs_qdelete(first));
}
END_TEST

/* ---- Modes that the application sets --------------------------------------------------- */

static void has_mode(exs_qhandle_t queue, int mode, int us)
{
    exs_qstatus_t status;

    must(exs_qstatus(queue, &status));
    ck_assert_int_eq(status.exs_attr.exs_wait, mode);
    ck_assert_int_eq(status.exs_attr.exs_wait_us, us);
}

START_TEST(modes_begin)
{
    init_with(_i == 0 ? AT_ONCE : SHORT);
    exs_qhandle_t queue = exs_qcreate(0);

    if (_i == 0)
        has_mode(queue, EXS_WAIT_NOTIFY, 0);
    else
        has_mode(queue, EXS_WAIT_ADAPTIVE, 50);
    must(exs_qdelete(queue));
}
END_TEST

START_TEST(notify)
{
    set_clock();
    init_with(LONG);
    exs_qhandle_t queue = exs_qcreate(0);

    set_mode(queue, EXS_WAIT_NOTIFY, 0);
    for (int i = 0; i < 4; i++) {
        ck_assert(!waits_in_vain(queue));
        ck_assert_int_ge(sleeps, 1);
    }
    must(exs_qdelete(queue));
}
END_TEST

/* A change of the mode resets what was learned. */
START_TEST(adaptive)
{
    set_clock();
    init_with(AT_ONCE);
    exs_qhandle_t queue = exs_qcreate(0);

    for (int i = 0; i < 4; i++) {
        set_mode(queue, EXS_WAIT_ADAPTIVE, 50);
        ck_assert(waits_in_vain(queue));
    }
    must(exs_qdelete(queue));
}
END_TEST

/* Busy polling never stops, however many polls were empty. */
START_TEST(busy_poll)
{
    set_clock();
    init_with(AT_ONCE);
    exs_qhandle_t queue = exs_qcreate(0);

    set_mode(queue, EXS_WAIT_BUSY_POLL, 0);
    for (int i = 0; i < 8; i++) {
        ck_assert(waits_in_vain(queue));
        ck_assert_int_eq(sleeps, 0);
    }
    must(exs_qdelete(queue));
}
END_TEST

struct later {
    struct pair *pair;
    exs_qhandle_t queue; /* whose mode is changed; or NULL */
};

/* Waits until the other thread probably waits. */
static void *send_later(void *argument)
{
    const struct later *later = argument;

    poll(NULL, 0, QUIET_MS);
    if (later->queue != NULL)
        set_mode(later->queue, EXS_WAIT_NOTIFY, 0);
    poll(NULL, 0, QUIET_MS);
    ck_assert_int_eq(exs_blocking_send(later->pair->server, "x", 1, 0, NULL), 1);
    return NULL;
}

/* A receive on the socket's own queue, the same with a change of the mode that makes the thread sleep in the
 * middle, a receive on another queue, to which the owner is attached, and a blocking receive. */
START_TEST(busy_poll_hears)
{
    enum { OWN, CHANGED, GUEST, BLOCKING };
    struct pair pair;
    exs_event_t event;
    char byte = 0;

    init_with(AT_ONCE);
    exs_qhandle_t other = exs_qcreate(0);

    pair_open(&pair, PF_INET, SOCK_STREAM);
    exs_qhandle_t own = pair.client_box->queue, queue = _i == GUEST ? other : own;
    struct later later = {.pair = &pair, .queue = _i == CHANGED ? queue : NULL};

    set_mode(queue, EXS_WAIT_BUSY_POLL, 0);
    if (_i != BLOCKING)
        must(exs_recv(pair.client, &byte, 1, 0, queue, NULL, NULL));
    sleeps = yields = 0;
    pthread_t thread = thread_start(send_later, &later);

    if (_i == BLOCKING)
        ck_assert_int_eq(exs_blocking_recv(pair.client, &byte, 1, 0, NULL), 1);
    else
        ck_assert_int_eq(exs_qdequeue(queue, &event, 1, NULL), 1);
    ck_assert_int_eq(byte, 'x');
    if (_i != CHANGED)
        ck_assert_int_eq(sleeps, 0);
    thread_join(thread);
    pair_close(&pair);
    must(exs_qdelete(other));
}
END_TEST

/* ---- No event is lost ----------------------------------------------------------------- */

enum { ROUNDS = 200 };

#define LAST '\xff'

/* Sends each byte back. */
static void *echo(void *argument)
{
    const struct pair *pair = argument;

    for (char byte = 0; byte != LAST;) {
        ck_assert_int_eq(exs_blocking_recv(pair->server, &byte, 1, 0, NULL), 1);
        ck_assert_int_eq(exs_blocking_send(pair->server, &byte, 1, 0, NULL), 1);
    }
    return NULL;
}

START_TEST(round_trips)
{
    struct pair pair;
    char byte;

    init_with(LONG);
    pair_open_blocking(&pair, PF_INET, SOCK_STREAM);
    pthread_t thread = thread_start(echo, &pair);

    for (int i = 0; i < ROUNDS; i++) {
        char sent = i == ROUNDS - 1 ? LAST : (char)i;

        ck_assert_int_eq(exs_blocking_send(pair.client, &sent, 1, 0, NULL), 1);
        ck_assert_int_eq(exs_blocking_recv(pair.client, &byte, 1, 0, NULL), 1);
        ck_assert_int_eq(byte, sent);
    }
    thread_join(thread);
    pair_close_blocking(&pair);
}
END_TEST

static void *dequeue_all(void *queue)
{
    exs_event_t event;

    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(exs_qdequeue(queue, &event, 1, NULL), 1);
        ck_assert_int_eq(event.exs_evt_type, EXS_EVT_CLOSE);
    }
    return NULL;
}

/* Another thread completes events while this one polls, sleeps, or is in between. */
START_TEST(events_of_others)
{
    init_with(_i == 0 ? LONG : SHORT);
    exs_qhandle_t queue = exs_qcreate(0);
    pthread_t thread = thread_start(dequeue_all, queue);

    for (int i = 0; i < ROUNDS; i++)
        must(exs_close(exs_socket(PF_INET, SOCK_STREAM, 0), 0, queue, NULL));
    thread_join(thread);
    must(exs_qdelete(queue));
}
END_TEST

/* A blocking call on a socket leaves the descriptor of its queue, which the application watches, not readable. */
START_TEST(watched_home)
{
    struct pair pair;

    init_with(LONG);
    pair_open(&pair, PF_INET, SOCK_STREAM);
    struct pollfd watch = {.fd = exs_qfd(pair.client_box->queue), .events = POLLIN};
    char byte = 7;

    inbox_quiet(pair.client_box, QUIET_MS);
    for (int i = 0; i < 10; i++) {
        must(exs_send(pair.server, &byte, 1, 0, pair.server_box->queue, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_SEND, pair.server);
        ck_assert_int_eq(exs_recv(pair.client, &byte, 1, EXS_BLOCK, NULL, NULL, NULL), 1);
    }
    inbox_quiet(pair.client_box, QUIET_MS);
    ck_assert_int_eq(poll(&watch, 1, 0), 0);
    pair_close(&pair);
}
END_TEST

/* ---- In a libev loop ------------------------------------------------------------------ */

struct game {
    struct pair pair;
    char asked, byte;
    int rounds, others; /* the test ends after ROUNDS answers and TURNS events of the other descriptor */
    ev_io other;
};

enum { TURNS = 100 };

static void ask(struct game *game)
{
    exs_qhandle_t queue = game->pair.client_box->queue;

    game->asked = game->rounds >= ROUNDS - 1 && game->others == TURNS ? LAST : '?';
    must(exs_recv(game->pair.client, &game->byte, 1, 0, queue, NULL, NULL));
    must(exs_send(game->pair.client, &game->asked, 1, EXS_UNSIGNALED, queue, NULL, NULL));
}

static void answer_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct game *game = w->data;

    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(events->exs_evt_type, EXS_EVT_RECV);
    ck_assert_int_eq(events->exs_evt_errno, 0);
    ck_assert_int_eq(game->byte, game->asked);
    game->rounds++;
    if (game->asked != LAST)
        ask(game);
    else
        ev_break(EV_A_ EVBREAK_ALL);
}

static void other_cb(EV_P_ ev_io *w, int revents)
{
    struct game *game = w->data;

    (void)revents;
    if (++game->others == TURNS)
        ev_io_stop(EV_A_ w);
}

/* The loop busy-polls between its events and does not starve other watchers: all answers arrive, and so do
 * TURNS events of a descriptor that is always readable. Afterwards the queue's descriptor is not readable. */
START_TEST(loop)
{
    struct game game = {.rounds = 0};
    int ends[2];
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    exs_ev watcher = {.data = &game};

    init_with(_i == 0 ? SHORT : "1000");
    pair_open(&game.pair, PF_INET, SOCK_STREAM);
    must(pipe(ends));
    ck_assert_int_eq(write(ends[1], "", 1), 1);
    ev_io_init(&game.other, other_cb, ends[0], EV_READ);
    game.other.data = &game;
    ev_io_start(loop, &game.other);
    exs_ev_init(&watcher, answer_cb, game.pair.client_box->queue);
    exs_ev_start(loop, &watcher);
    pthread_t thread = thread_start(echo, &game.pair);

    ask(&game);
    ev_run(loop, 0);
    ck_assert_int_ge(game.rounds, ROUNDS);
    ck_assert_int_eq(game.others, TURNS);
    thread_join(thread);
    exs_ev_stop(loop, &watcher);
    inbox_quiet(game.pair.client_box, QUIET_MS);
    struct pollfd watch = {.fd = exs_qfd(game.pair.client_box->queue), .events = POLLIN};

    ck_assert_int_eq(poll(&watch, 1, 0), 0);
    ev_loop_destroy(loop);
    must(close(ends[0]) | close(ends[1]));
    pair_close(&game.pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spin");
    TCase *whether = add_bare_case(suite, "whether", 20), *lost = add_bare_case(suite, "nothing is lost", 60),
          *said = add_bare_case(suite, "as the program says", 60);

    tcase_add_test(whether, at_once);
    tcase_add_test(whether, by_itself);
    tcase_add_test(whether, is_empty);
    tcase_add_test(whether, no_wait);
    tcase_add_test(whether, contended);
    tcase_add_test(whether, crowded_for_others);
    tcase_add_loop_test(whether, settings, 0, 4);
    tcase_add_loop_test(said, modes_begin, 0, 2);
    tcase_add_test(said, notify);
    tcase_add_test(said, adaptive);
    tcase_add_test(said, busy_poll);
    tcase_add_loop_test(said, busy_poll_hears, 0, 4);
    tcase_add_test(lost, round_trips);
    tcase_add_loop_test(lost, events_of_others, 0, 2);
    tcase_add_test(lost, watched_home);
    tcase_add_loop_test(lost, loop, 0, 2);
    return run_suite(suite);
}
