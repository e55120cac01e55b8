/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_handles.c - one thread deletes queues and regions while others use their handles: each use succeeds or fails
 * with EINVAL, or the deletion fails with EBUSY. The address and thread sanitizers check that nothing is used after its
 * deletion.
 */
#include "check/support/asleep.h"
#include "check/support/support.h"

#include <stdatomic.h>
#include "core/base/handle.h"

/* ---- The table ------------------------------------------------------------------------------- */

static struct handle_table table = HANDLE_TABLE_INIT;

static bool take(void *handle)
{
    void *object = xs_handle_begin_take(&table, handle);

    if (object == NULL)
        return false;
    bool taken = xs_handle_take(&table, handle);

    xs_handle_end_take(&table);
    return taken;
}

/* A handle with users can't be taken. A handle that was taken can't be used, and the next object in its slot has
 * another handle. */
START_TEST(users)
{
    int first, second;
    void *handle = xs_handle_make(&table, &first);

    ck_assert_ptr_eq(xs_handle_get(&table, handle), &first);
    ck_assert_ptr_eq(xs_handle_get(&table, handle), &first);
    ck_assert(!take(handle));
    xs_handle_put(&table, handle);
    ck_assert(!take(handle));
    xs_handle_put(&table, handle);
    ck_assert(take(handle));
    ck_assert_ptr_null(xs_handle_get(&table, handle));
    ck_assert_ptr_null(xs_handle_find(&table, handle));
    ck_assert(!take(handle));
    void *again = xs_handle_make(&table, &second);
    ck_assert_ptr_ne(again, handle);
    ck_assert_ptr_null(xs_handle_get(&table, handle));
    ck_assert_ptr_eq(xs_handle_get(&table, again), &second);
    xs_handle_reset(&table); /* also resets the counts of users */
    ck_assert_ptr_null(xs_handle_get(&table, again));
    void *third = xs_handle_make(&table, &first);
    ck_assert(take(third));
}
END_TEST

/* ---- Threads --------------------------------------------------------------------------------- */

#define USERS 3

struct race {
    _Atomic(void *) handle; /* the handle of the current object */
    _Atomic bool over;
    struct pair pair;
    void (*use)(struct race *race, void *handle);
};

static char memory[8192];

static void good_or_gone(const char *call, long result)
{
    ck_assert_msg(result >= 0 || errno == EINVAL, "%s: %s", call, strerror(errno));
}

static void use_queue(struct race *race, void *handle)
{
    exs_event_t events[4];
    struct timeval now = {0, 0};

    (void)race;
    good_or_gone("exs_qdequeue", exs_qdequeue(handle, events, 4, &now));
    good_or_gone("exs_qfd", exs_qfd(handle));
}

/* Only this thread dequeues the event of its operation, so that the queue can be deleted in the end. */
static void start_on_queue(struct race *race, void *handle)
{
    int socket = exs_socket(PF_INET, SOCK_STREAM, 0);
    exs_event_t event;

    (void)race;
    must(socket);
    if (exs_close(socket, 0, handle, NULL) == -1) {
        ck_assert_int_eq(errno, EINVAL);
        must(exs_blocking_close(socket));
        return;
    }
    good_or_gone("exs_qdequeue", exs_qdequeue(handle, &event, 1, &(struct timeval){0, 0}));
}

static void use_region(struct race *race, void *handle)
{
    exs_token_t token;
    int result = exs_mexport(race->pair.client, handle, memory, 100, EXS_REMOTE_READ, &token);

    good_or_gone("exs_mexport", result);
    if (result == 0)
        must(exs_munexport(race->pair.client, &token));
}

static void *use_until_over(void *argument)
{
    struct race *race = argument;

    while (!atomic_load(&race->over))
        race->use(race, atomic_load(&race->handle));
    return NULL;
}

static void run_race(struct race *race, void *(*make)(void), int (*delete)(void *handle))
{
    pthread_t threads[USERS];
    double end = seconds_now() + 0.5;
    int busy = 0;

    race->handle = make();
    for (int i = 0; i < USERS; i++)
        threads[i] = thread_start(use_until_over, race);
    while (seconds_now() < end) {
        void *old = atomic_load(&race->handle);

        while (delete (old) == -1) {
            ck_assert_int_eq(errno, EBUSY);
            busy++;
        }
        must_fail(delete (old), EINVAL);
        atomic_store(&race->handle, make());
    }
    atomic_store(&race->over, true);
    for (int i = 0; i < USERS; i++)
        thread_join(threads[i]);
    printf("# busy %d times\n", busy);
    must(delete (race->handle));
}

static void *make_queue(void)
{
    exs_qhandle_t queue = exs_qcreate(4);

    ck_assert_ptr_ne(queue, EXS_QHANDLE_INVALID);
    return queue;
}

static void *make_region(void)
{
    exs_mhandle_t region = exs_mregister(memory, sizeof(memory), 0);

    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    return region;
}

static int delete_queue(void *queue)
{
    return exs_qdelete(queue);
}

static int delete_region(void *region)
{
    return exs_mderegister(region, 0);
}

START_TEST(queue_in_use)
{
    struct race race = {.use = _i == 0 ? use_queue : start_on_queue};

    run_race(&race, make_queue, delete_queue);
}
END_TEST

START_TEST(region_in_use)
{
    struct race race = {.use = use_region};

    pair_open(&race.pair, AF_INET, SOCK_STREAM);
    run_race(&race, make_region, delete_region);
    pair_close(&race.pair);
}
END_TEST

/* ---- A thread that sleeps -------------------------------------------------------------------- */

static _Atomic pid_t sleeper;

static void *wait_for_event(void *queue)
{
    exs_event_t event;

    atomic_store(&sleeper, gettid());
    ck_assert_int_eq(exs_qdequeue(queue, &event, 1, NULL), 1);
    ck_assert_int_eq(event.exs_evt_type, EXS_EVT_CLOSE);
    return NULL;
}

/* A queue can't be deleted while a thread sleeps in exs_qdequeue(). */
START_TEST(queue_waited_for)
{
    exs_qhandle_t queue = make_queue();
    pthread_t thread = thread_start(wait_for_event, queue);
    int socket = exs_socket(PF_INET, SOCK_STREAM, 0);

    await_sleep(&sleeper);
    must_fail(exs_qdelete(queue), EBUSY);
    must(exs_close(socket, 0, queue, NULL));
    thread_join(thread);
    must(exs_qdelete(queue));
}
END_TEST

#define DELETIONS 30

static pthread_barrier_t both;

static void *close_it(void *sockno)
{
    pthread_barrier_wait(&both);
    must(exs_close(*(int *)sockno, 0, NULL, NULL));
    return NULL;
}

static void *delete_it(void *box)
{
    struct inbox *inbox = box;
    double end = seconds_now() + WAIT_MS / 1e3;

    pthread_barrier_wait(&both);
    while (exs_qdelete(inbox->queue) < 0) {
        ck_assert_msg(errno == EBUSY && seconds_now() < end, "exs_qdelete: %s", strerror(errno));
        inbox_pump(inbox, 1);
    }
    return NULL;
}

/* One thread closes a socket, and another deletes the queue that drives it. Either the queue drives the close, and
 * can't be deleted before the close has ended, or the library's thread does. */
START_TEST(deleted_beside_a_close)
{
    struct address address, here = loopback(AF_INET, 0);
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);
    struct inbox far;

    ck_assert_int_eq(pthread_barrier_init(&both, NULL, 2), 0);
    inbox_open(&far, 8);
    for (int i = 0; i < DELETIONS; i++) {
        exs_acceptaddr_t wanted = {0};
        int client = exs_socket(PF_INET, SOCK_STREAM, 0);
        struct inbox near;

        inbox_open(&near, 4);
        near.beside = &far;
        far.beside = &near;
        must(exs_bind(client, SA(&here), here.length));
        must(exs_accept(listener, &wanted, 1, 0, far.queue));
        must(exs_connect(client, SA(&address), address.length, 0, NULL, near.queue, NULL));
        take_good(&near, EXS_EVT_CONNECT, client);
        take_good(&far, EXS_EVT_ACCEPT, listener);
        near.beside = far.beside = NULL;
        pthread_t closing = thread_start(close_it, &client), deleting = thread_start(delete_it, &near);
        close_socket(&far, wanted.exs_socket);
        thread_join(closing);
        thread_join(deleting);
        ck_assert_int_eq(near.count, 0);
        free(near.kept);
    }
    close_socket(&far, listener);
    inbox_close(&far);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handles");
    TCase *alone = add_bare_case(suite, "table", 5), *threads = add_case(suite, "threads", 20);

    tcase_add_test(alone, users);
    tcase_add_loop_test(threads, queue_in_use, 0, 2);
    tcase_add_test(threads, region_in_use);
    tcase_add_test(threads, queue_waited_for);
    tcase_add_test(threads, deleted_beside_a_close);
    return run_suite(suite);
}
