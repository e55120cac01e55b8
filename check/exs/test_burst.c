/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_burst.c - many concurrent connects to one listener with a small backlog, from one process and from many. All are
 * established, and within a host all use shared memory. Also: the backlog limits the connections that are established
 * while no accept is pending.
 */
#include <sys/resource.h>
#include <sys/wait.h>
#include "check/support/processes.h"
#include "check/support/support.h"
#include "soft/cm/cm.h"

enum {
    CONNECTS = 1000,
    DESCRIPTORS = 9000, /* each pair of ends needs nine while it is set up */
    BACKLOG = 4,
};

static struct inbox box;
static struct address address;
static int listener;
static exs_acceptaddr_t every;

static void limit_descriptors(rlim_t count)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < count ? limit.rlim_max : count;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void begin(void)
{
    limit_descriptors(DESCRIPTORS);
    init_library();
    inbox_open(&box, CONNECTS);
    listener = open_listener(AF_INET, SOCK_STREAM, BACKLOG, &address);
}

static void accept_all(void)
{
    must(exs_accept(listener, &every, 1, EXS_MULTISHOT, box.queue));
}

/* Takes this number of accept events and closes the accepted sockets. */
static void take_accepted(int count)
{
    for (int i = 0; i < count; i++) {
        exs_event_t event = take_good(&box, EXS_EVT_ACCEPT, listener);

        must(exs_close(event.exs_evt_union.exs_evt_accept.exs_evt_newsocket, 0, box.queue, NULL));
    }
}

static int start_connect(struct inbox *inbox)
{
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(sock);
    must(exs_connect(sock, SA(&address), address.length, 0, NULL, inbox->queue, NULL));
    return sock;
}

static void expect_links(unsigned ends)
{
    struct soft_cm_counters counters;

    if (on_rdma())
        return; /* a NIC has no choice of links */
    soft_query_cm_counters(&counters);
    const char *link = getenv("EXS_LINK");
    bool on_tcp = link != NULL && strcmp(link, "tcp") == 0;

    ck_assert_uint_eq(on_shm() ? counters.by_shm : on_tcp ? counters.by_tcp : counters.by_udp, ends);
    ck_assert_uint_eq(counters.by_shm + counters.by_tcp + counters.by_udp, ends);
}

START_TEST(from_one_process)
{
    static int client[CONNECTS];

    begin();
    accept_all();
    for (int i = 0; i < CONNECTS; i++)
        client[i] = start_connect(&box);
    for (int i = 0; i < CONNECTS; i++)
        take_good(&box, EXS_EVT_CONNECT, client[i]);
    expect_links(2 * CONNECTS);
    take_accepted(CONNECTS);
}
END_TEST

/* The kernel lets an unprivileged user have no more descriptors in flight in unix sockets than RLIMIT_NOFILE of a
 * process. */
static const struct crowd {
    int processes;
    rlim_t descriptors; /* per process */
    uid_t user;
} crowds[] = {{100, DESCRIPTORS, 0}, {10, 1024, 65533}};

/* Starts its share of the connects, and exits when it gets a byte on `stop`. */
static void run_client(const struct crowd *crowd, int start, int stop)
{
    const int count = CONNECTS / crowd->processes;
    struct inbox own;

    limit_descriptors(crowd->descriptors);
    await_byte(start);
    must(exs_init(EXS_VERSION));
    inbox_open(&own, count);
    for (int i = 0; i < count; i++)
        start_connect(&own);
    for (int i = 0; i < count; i++)
        take_good(&own, EXS_EVT_CONNECT, -1);
    expect_links((unsigned)count);
    await_byte(stop);
    _exit(0);
}

static void tell_all(const struct crowd *crowd, int fd)
{
    for (int i = 0; i < crowd->processes; i++)
        must(write(fd, "x", 1));
}

START_TEST(from_many_processes)
{
    const struct crowd *crowd = &crowds[_i];
    pid_t child[CONNECTS];
    int start[2], stop[2];

    limit_descriptors(DESCRIPTORS);
    if (geteuid() == 0)
        must(setuid(crowd->user));
    begin();
    must(pipe(start));
    must(pipe(stop));
    for (int i = 0; i < crowd->processes; i++) {
        must(child[i] = fork());
        if (child[i] == 0)
            run_client(crowd, start[0], stop[0]);
    }
    accept_all();
    tell_all(crowd, start[1]);
    take_accepted(CONNECTS);
    expect_links(CONNECTS);
    tell_all(crowd, stop[1]);
    for (int i = 0; i < crowd->processes; i++)
        process_join(child[i]);
}
END_TEST

enum { FEW = 100, FEW_DESCRIPTORS = 64 };

/* Starts more connects than the listener's process has descriptors for. After all have completed, and the listener's
 * process has closed the sockets that it accepted, one more connect must succeed. */
static void run_refused_client(int start)
{
    struct inbox own;

    limit_descriptors(DESCRIPTORS);
    await_byte(start);
    must(exs_init(EXS_VERSION));
    inbox_open(&own, FEW);
    for (int i = 0; i < FEW; i++)
        start_connect(&own);
    for (int i = 0; i < FEW; i++) {
        int error = inbox_take(&own, EXS_EVT_CONNECT, -1).exs_evt_errno;

        ck_assert_msg(error == 0 || error == ECONNREFUSED || error == ECONNRESET, "%s", strerror(error));
    }
    int last = exs_socket(PF_INET, SOCK_STREAM, 0);
    double end = seconds_now() + 10;

    while (exs_blocking_connect(last, SA(&address), address.length) == -1)
        ck_assert(errno == ECONNREFUSED && seconds_now() < end);
    _exit(0);
}

/* A process with too few descriptors for a burst refuses connections or lets them wait, and accepts new ones after it
 * has closed others. */
START_TEST(with_few_descriptors)
{
    exs_event_t event;
    int start[2], status = 0;
    pid_t child;

    if (on_rdma())
        return; /* requests on a NIC need fewer descriptors */
    begin();
    must(pipe(start));
    must(child = fork());
    if (child == 0)
        run_refused_client(start[0]);
    limit_descriptors(FEW_DESCRIPTORS);
    accept_all();
    must(write(start[1], "x", 1));
    for (double end = seconds_now() + 40; waitpid(child, &status, WNOHANG) == 0;) {
        ck_assert(seconds_now() < end);
        if (exs_qdequeue(box.queue, &event, 1, &(struct timeval){0, 10000}) != 1 ||
            event.exs_evt_type != EXS_EVT_ACCEPT)
            continue;
        ck_assert_int_eq(event.exs_evt_errno, 0);
        must(exs_close(event.exs_evt_union.exs_evt_accept.exs_evt_newsocket, 0, NULL, NULL));
    }
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

/* While no accept is pending, the listener holds at most `backlog` connections. The count includes one whose request
 * was answered for an accept that another connection then used. */
START_TEST(backlog_without_an_accept)
{
    static int client[3 * BACKLOG];
    exs_acceptaddr_t one = {0};

    if (on_rdma())
        return; /* on a NIC, the kernel determines when requests arrive */
    begin();
    must(exs_accept(listener, &one, 1, 0, box.queue));
    start_connect(&box);
    start_connect(&box);
    take_good(&box, EXS_EVT_CONNECT, -1);
    take_good(&box, EXS_EVT_CONNECT, -1);
    take_accepted(1);
    for (int i = 0; i < COUNT(client); i++)
        client[i] = start_connect(&box);
    for (int refused = 0; refused < COUNT(client) - (BACKLOG - 1); refused++)
        take_failed(&box, EXS_EVT_CONNECT, -1, ECONNREFUSED);
    accept_all();
    for (int established = 0; established < BACKLOG - 1; established++)
        take_good(&box, EXS_EVT_CONNECT, -1);
    take_accepted(BACKLOG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("burst");
    TCase *tcase = add_bare_case(suite, "burst", 60);

    tcase_add_test(tcase, from_one_process);
    tcase_add_loop_test(tcase, from_many_processes, 0, COUNT(crowds));
    tcase_add_test(tcase, with_few_descriptors);
    tcase_add_test(tcase, backlog_without_an_accept);
    return run_suite(suite);
}
