/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_fork.c - forked children that do not use EXS: however they end, the library closes none of the files that they
 * opened. (test_peer.c has children that use it.)
 */
#include "check/support/processes.h"
#include "check/support/support.h"

#include <exs_ev.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define FILES 60 /* more than the descriptors that the fork handler closed in the child */
#define TEXT "precious"

static char folder[] = "/tmp/exs-fork-XXXXXX";

static void path_of(char path[64], int file)
{
    snprintf(path, 64, "%s/%d", folder, file);
}

/* Each file's text stays in its stream's buffer until the process exits. */
static void write_files(void)
{
    char path[64];

    for (int i = 0; i < FILES; i++) {
        path_of(path, i);
        FILE *file = fopen(path, "w");

        if (file == NULL || fputs(TEXT, file) == EOF)
            _exit(1);
    }
}

static void expect_files(void)
{
    struct stat status;
    char path[64];
    int lost = 0;

    for (int i = 0; i < FILES; i++) {
        path_of(path, i);
        must(stat(path, &status));
        lost += status.st_size != strlen(TEXT);
        must(unlink(path));
    }
    must(rmdir(folder));
    ck_assert_msg(lost == 0, "the child lost what it wrote to %d files", lost);
}

/* In a child, the leak sanitizer would report memory that belongs to the parent's other threads, which the child does
 * not have. */
static int is_child;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_child;
}

/* How the thread that forked ends its child. */
enum { BY_EXIT, BY_THREAD_EXIT, BY_RETURN, WAYS };

static void *connect_and_fork(void *argument)
{
    int way = *(int *)argument;
    struct pair p;

    pair_open_blocking(&p, AF_INET, SOCK_STREAM); /* the thread then has the descriptors that it slept on */
    pid_t pid = fork();

    must(pid);
    if (pid == 0) {
        is_child = 1;
        write_files();
        if (way == BY_EXIT)
            exit(0);
        if (way == BY_THREAD_EXIT)
            pthread_exit(NULL);
        return NULL;
    }
    process_join(pid);
    pair_close_blocking(&p);
    return NULL;
}

START_TEST(childs_own_files)
{
    int way = _i % WAYS;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    if (_i / WAYS == 0 && way != BY_RETURN)
        connect_and_fork(&way);
    else
        thread_join(thread_start(connect_and_fork, &way));
    expect_files();
}
END_TEST

static atomic_bool over;

static void *use_queue(void *queue)
{
    exs_event_t event;

    while (!over && exs_qdequeue(queue, &event, 1, &(struct timeval){0}) == 0)
        continue; /* no call of Check, because a child may find its lock held */
    return NULL;
}

/* A child may stop its copy of a watcher, whichever thread of the parent held the queue's locks. */
START_TEST(childs_watcher)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    exs_ev watcher;
    exs_qhandle_t queue = exs_qcreate(0);
    pthread_t thread = thread_start(use_queue, queue);

    exs_ev_init(&watcher, NULL, queue);
    exs_ev_start(loop, &watcher);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();

        if (child == 0) {
            alarm(5);
            exs_ev_stop(loop, &watcher);
            _exit(0);
        }
        process_join(child);
    }
    over = true;
    thread_join(thread);
    exs_ev_stop(loop, &watcher);
    ev_loop_destroy(loop);
    must(exs_qdelete(queue));
}
END_TEST

static void count_events(EV_P_ exs_ev *watcher, exs_event_t *events, int count)
{
    (void)loop;
    (void)events;
    *(int *)watcher->data += count;
}

/* A child that runs its copy of the loop, which shares the epoll set with the parent, gets no event of the parent's
 * queue: its watcher is stopped. */
START_TEST(childs_loop)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    exs_ev watcher;
    struct inbox box;
    struct pair pair;
    int events = 0;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    inbox_open(&box, 4);
    watcher.data = &events;
    exs_ev_init(&watcher, count_events, box.queue);
    exs_ev_start(loop, &watcher);
    ev_run(loop, EVRUN_NOWAIT); /* registers the descriptor with the kernel */
    owe_events(&pair, box.queue, 1);
    pid_t child = fork();

    must(child);
    if (child == 0) {
        alarm(5);
        is_child = 1;
        for (int turns = 0; turns < 10; turns++)
            ev_run(loop, EVRUN_NOWAIT);
        _exit(events != 0 ? 1 : exs_ev_is_active(&watcher) ? 2 : 0);
    }
    process_join(child);
    for (int turns = 0; turns < 100 && events == 0; turns++)
        ev_run(loop, EVRUN_ONCE);
    ck_assert_int_eq(events, 1);
    exs_ev_stop(loop, &watcher);
    ev_loop_destroy(loop);
    inbox_close(&box);
    pair_close(&pair);
}
END_TEST

/* ---- A fork while a connection is accepted ---------------------------------------------- */

static sem_t accepted, forked;
static atomic_bool watches;
static ino_t connection; /* of the accepted connection */

/* Duration of accept4(), ms. A fork waits until it has returned, but no longer than a second. */
static const int accept_ms[] = {300, 2500};
static int accepts_for;

/* Replaces the C library's accept4(): after the kernel has returned the descriptor, it gives another thread time to
 * fork. If forks wait for the caller, that time runs out. */
__attribute__((visibility("default"))) int accept4(int sock, struct sockaddr *restrict addr,
                                                   socklen_t *restrict length, int flags)
{
    int fd = (int)syscall(SYS_accept4, sock, addr, length, flags), saved = errno;
    struct stat status;
    struct timespec until;

    if (fd != -1 && atomic_exchange(&watches, false)) {
        fstat(fd, &status);
        connection = status.st_ino;
        sem_post(&accepted);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += accepts_for % 1000 * 1000000L;
        until.tv_sec += accepts_for / 1000 + until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (sem_timedwait(&forked, &until) == -1 && errno == EINTR)
            continue;
    }
    errno = saved;
    return fd;
}

static bool has_connection(void)
{
    struct stat status;

    for (int fd = 0; fd < 1024; fd++)
        if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == connection)
            return true;
    return false;
}

static void *fork_when_accepted(void *unused)
{
    sem_wait(&accepted);
    pid_t pid = fork();

    if (pid == 0)
        _exit(has_connection());
    must(pid);
    sem_post(&forked);
    process_join(pid);
    return unused;
}

START_TEST(while_accepted)
{
    struct pair p;

    accepts_for = accept_ms[_i];
    sem_init(&accepted, 0, 0);
    sem_init(&forked, 0, 0);
    pthread_t thread = thread_start(fork_when_accepted, NULL);

    watches = true;
    pair_open(&p, AF_INET, SOCK_STREAM);
    thread_join(thread);
    pair_close(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fork");
    TCase *tcase = add_case(suite, "children", 15);

    tcase_add_loop_test(tcase, childs_own_files, 0, 2 * WAYS);
    tcase_add_test(tcase, childs_watcher);
    if (!on_rdma()) /* rdma-core accepts connections in the kernel */
        tcase_add_loop_test(tcase, while_accepted, 0, COUNT(accept_ms));
    tcase_add_test(tcase, childs_loop);
    return run_suite(suite);
}
