/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_holds.c - how many bytes and descriptors a peer can make this process hold: the figures of SECURITY.md.
 *
 * Bytes are the memory in use by the process (VmRSS). They are only checked if nothing else adds to it, as sanitizers
 * do.
 */
#include <sys/resource.h>
#include "check/support/silent.h"

enum {
    MANY = 50,
    IDLE = 500, /* connections on which nothing was sent */
    STRANGERS = 400,
    DESCRIPTORS = 2048,
    HALF_OPEN = 256,      /* maximum per listener */
    CONNECTION_KIB = 384, /* includes the queues of a kernel's device */
    CONNECTION_FDS = 2,
    SHM_KIB = 256, /* per connection in shared memory: unread packets in its ring */
    /* Per idle connection in shared memory: its control words, and the beginning of each ring. */
    SHM_IDLE_KIB = 12,
    IDLE_KIB = 16,
    IDLE_RDMA_KIB = 448, /* includes pinned buffers */
    ANSWERED_KIB = 24,   /* per unresponsive client that was answered */
    ANSWERED_FDS = 2,
    WARM = 4,        /* connections after which the queue has all that it allocates once */
    WAITING_KIB = 8, /* per connection before it is accepted */
    WAITING_FDS = 1,
    WAITING_SHM_FDS = 2, /* includes the descriptors that the peer passed */
    BLOCKING_KIB = 60,
    BLOCKING_FDS = 4,
    BLOCKING_RDMA_KIB = 1024, /* includes pinned buffers and a kernel's completion queue */
    BLOCKING_RDMA_FDS = 8,
};

static struct inbox box;
static struct address address;
static int listener;

static void expect_held(const char *what, long bytes_before, int fds_before, int count, int kib, int fds)
{
    long held = resident_kib() - bytes_before;
    int descriptors = count_fds() - fds_before;

    fprintf(stderr, "%s: %ld KiB and %.2f descriptors each, of %d\n", what, held / count,
            (double)descriptors / count, count);
    ck_assert_int_le(descriptors, count * fds + MORE_SOCKETS);
    if (sees_bytes())
        ck_assert_int_le(held, (long)count * kib);
}

static void wait_for(int count, struct inbox *inbox, int type)
{
    while (count-- > 0) {
        exs_event_t event = inbox_take(inbox, type, -1);

        ck_assert_int_eq(event.exs_evt_errno, 0);
    }
}

/* ---- The peers, in a child process --------------------------------------------------------------------- */

/* Makes `count` connections and sends on each one more than the server receives. With an argument it makes them one
 * after the other, and sends nothing. */
static void peers(int fd, void *silent)
{
    static char bytes[MIB];
    struct inbox own;
    int sock[IDLE], count;

    init_library();
    inbox_open(&own, 1024);
    hear(fd, &address, sizeof(address));
    hear(fd, &count, sizeof(count));
    for (int i = 0; i < count; i++) {
        sock[i] = exs_socket(address.storage.ss_family, SOCK_STREAM, 0);
        must(exs_connect(sock[i], SA(&address), address.length, 0, NULL, own.queue, NULL));
        if (silent != NULL)
            wait_for(1, &own, EXS_EVT_CONNECT);
    }
    wait_for(silent == NULL ? count : 0, &own, EXS_EVT_CONNECT);
    for (int i = 0; i < count && silent == NULL; i++)
        must(exs_send(sock[i], bytes, sizeof(bytes), 0, own.queue, NULL, NULL));
    for (;;)
        inbox_pump(&own, 10);
}

/* Passes a byte in each direction on a connection of a process that uses only blocking calls. */
static void exchange(int sock, bool first)
{
    char byte = 'x';

    if (first)
        ck_assert_int_eq(exs_write(sock, &byte, 1), 1);
    ck_assert_int_eq(exs_read(sock, &byte, 1), 1);
    if (!first)
        ck_assert_int_eq(exs_write(sock, &byte, 1), 1);
}

static void connect_blocking(const struct address *to, int count)
{
    for (int i = 0; i < count; i++) {
        int sock = exs_socket(to->storage.ss_family, SOCK_STREAM, 0);

        must(exs_blocking_connect(sock, SA(to), to->length));
        exchange(sock, true);
    }
}

static void accept_blocking(int from, int count)
{
    for (int i = 0; i < count; i++) {
        int sock = exs_blocking_accept(from, NULL, NULL);

        must(sock);
        exchange(sock, false);
    }
}

static void blocking_clients(int fd, void *unused)
{
    int count;

    (void)unused;
    init_library();
    while (read(fd, &address, sizeof(address)) == sizeof(address)) {
        hear(fd, &count, sizeof(count));
        connect_blocking(&address, count);
    }
}

static void blocking_server(int fd, void *unused)
{
    int count;

    (void)unused;
    init_library();
    listener = open_listener(AF_INET, SOCK_STREAM, MANY, &address);
    tell(fd, &address, sizeof(address));
    while (read(fd, &count, sizeof(count)) == sizeof(count))
        accept_blocking(listener, count);
}

static void begin(int backlog)
{
    init_library();
    inbox_open(&box, 1024);
    listener = open_listener(AF_INET, SOCK_STREAM, backlog, &address);
}

static void let_connect(struct child *child, int count)
{
    tell(child->fd, &address, sizeof(address));
    tell(child->fd, &count, sizeof(count));
}

static void accept_all(int count)
{
    exs_acceptaddr_t wanted[IDLE];

    memset(wanted, 0, sizeof(wanted));
    ck_assert_int_le(count, IDLE);
    must(exs_accept(listener, wanted, count, 0, box.queue));
    wait_for(count, &box, EXS_EVT_ACCEPT);
}

static void settle_down(void)
{
    double end = seconds_now() + 10;
    long before;

    do { /* until no more memory is used */
        before = resident_kib();
        inbox_pump(&box, 100);
        inbox_pump(&box, 100);
    } while (resident_kib() != before && seconds_now() < end);
}

/* ---- Figures ------------------------------------------------------------------------------------------- */

/* A connection on a queue, and all that its peer can send while no receive is pending. */
START_TEST(connection)
{
    struct child warm, child;

    child_start(&warm, peers, NULL);
    child_start(&child, peers, NULL);
    begin(2 * MANY);
    let_connect(&warm, 4);
    accept_all(4);
    settle_down();
    long bytes = resident_kib();
    int fds = count_fds();

    let_connect(&child, MANY);
    accept_all(MANY);
    settle_down();
    expect_held("connection", bytes, fds, MANY, CONNECTION_KIB + (on_shm() ? SHM_KIB : 0), CONNECTION_FDS);
    child_kill(&warm);
    child_kill(&child);
}
END_TEST

/* Established connections without traffic: unused buffers take no memory. */
START_TEST(idle)
{
    struct child warm, child;
    static bool silent = true;
    struct rlimit limit;

    must(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &limit));
    child_start(&warm, peers, &silent);
    child_start(&child, peers, &silent);
    begin(IDLE);
    let_connect(&warm, 4);
    accept_all(4);
    settle_down();
    long bytes = resident_kib();
    int fds = count_fds();

    let_connect(&child, IDLE);
    accept_all(IDLE);
    settle_down();
    expect_held("idle", bytes, fds, IDLE,
                (on_rdma() ? IDLE_RDMA_KIB : IDLE_KIB) + (on_shm() ? SHM_IDLE_KIB : 0), CONNECTION_FDS);
    child_kill(&warm);
    child_kill(&child);
}
END_TEST

/* A connection that waits for an accept has no buffers yet. */
START_TEST(waiting)
{
    struct child warm, child;

    child_start(&warm, peers, NULL);
    child_start(&child, peers, NULL);
    begin(2 * MANY);
    let_connect(&warm, 4);
    accept_all(4);
    settle_down();
    long bytes = resident_kib();
    int fds = count_fds();

    let_connect(&child, MANY);
    settle_down();
    expect_held("waiting", bytes, fds, MANY, WAITING_KIB, on_shm() ? WAITING_SHM_FDS : WAITING_FDS);
    child_kill(&warm);
    child_kill(&child);
}
END_TEST

/* Programs that connect to the software device's TCP port and send nothing: their number is limited. */
START_TEST(half_open)
{
    exs_acceptaddr_t wanted = {0};
    int fd[STRANGERS];

    if (on_rdma())
        return; /* the kernel's connection manager has no such port */
    begin(MANY);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    settle_down();
    long bytes = resident_kib();
    int fds = count_fds();

    for (int i = 0; i < STRANGERS; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        must(fd[i]);
        must(connect(fd[i], SA(&address), address.length));
        inbox_pump(&box, 0);
    }
    settle_down();
    expect_held("half-open", bytes, fds + STRANGERS, HALF_OPEN, WAITING_KIB, WAITING_FDS);
    for (int i = 0; i < STRANGERS; i++)
        close(fd[i]);
}
END_TEST

/* Clients that send a connection request, and do not confirm the reply. */
START_TEST(answered)
{
    exs_acceptaddr_t wanted = {0};
    int fd[STRANGERS], fds = 0;
    long bytes = 0;
    bool there;

    if (on_rdma())
        return; /* the kernel replies to them */
    begin(STRANGERS);
    must(exs_accept(listener, &wanted, 1, 0, box.queue));
    for (int i = 0; i < STRANGERS; i++) {
        if (i == WARM) {
            bytes = resident_kib();
            fds = count_fds() - WARM;
        }
        fd[i] = silent_ask(&address);
        while (!silent_is_answered(fd[i], &there))
            inbox_pump(&box, 1);
    }
    settle_down();
    expect_held("answered", bytes, fds + STRANGERS, HALF_OPEN - WARM, ANSWERED_KIB, ANSWERED_FDS);
    for (int i = 0; i < STRANGERS; i++)
        close(fd[i]);
}
END_TEST

static void expect_blocking(const char *what, long bytes, int fds)
{
    expect_held(what, bytes, fds, MANY,
                on_rdma() ? BLOCKING_RDMA_KIB : BLOCKING_KIB + (on_shm() ? SHM_IDLE_KIB : 0),
                on_rdma() ? BLOCKING_RDMA_FDS : BLOCKING_FDS);
}

/* Connections by blocking calls: each has a private home queue. */
START_TEST(blocking_accepts)
{
    struct child child;

    child_start(&child, blocking_clients, NULL);
    init_library();
    listener = open_listener(AF_INET, SOCK_STREAM, MANY, &address);
    let_connect(&child, WARM);
    accept_blocking(listener, WARM);
    long bytes = resident_kib();
    int fds = count_fds();

    let_connect(&child, MANY);
    accept_blocking(listener, MANY);
    expect_blocking("accepted by a blocking call", bytes, fds);
    child_kill(&child);
}
END_TEST

START_TEST(blocking_connects)
{
    struct child child;
    int count = WARM;

    child_start(&child, blocking_server, NULL);
    init_library();
    hear(child.fd, &address, sizeof(address));
    tell(child.fd, &count, sizeof(count));
    connect_blocking(&address, count);
    long bytes = resident_kib();
    int fds = count_fds();

    count = MANY;
    tell(child.fd, &count, sizeof(count));
    connect_blocking(&address, count);
    expect_blocking("connected by a blocking call", bytes, fds);
    child_kill(&child);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("holds");
    TCase *tcase = add_bare_case(suite, "figures", 60);
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit); /* enough for a listener to keep HALF_OPEN connections */
    limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
    setrlimit(RLIMIT_NOFILE, &limit);

    tcase_add_test(tcase, connection);
    tcase_add_test(tcase, idle);
    tcase_add_test(tcase, waiting);
    tcase_add_test(tcase, half_open);
    tcase_add_test(tcase, answered);
    tcase_add_test(tcase, blocking_accepts);
    tcase_add_test(tcase, blocking_connects);
    return run_suite(suite);
}
