/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_idle.c - the cost of an idle connection: polls of its home queue when that is attached to another queue,
 * descriptors and memory. Also the memory of the library without a connection.
 */
#include "check/support/support.h"

#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include "core/conn/conn.h"
#include "core/api/core.h"
#include "core/queue/queue.h"
#include "core/sock/sock.h"

enum {
    GUESTS = 100,
    FDS = 2000,     /* enough for all connections */
    SAMPLE = 40,    /* connections */
    ALONE_FDS = 3,  /* descriptors of a connection by blocking calls */
    NIC_FDS = 10,   /* descriptors of a connection on the kernel's RDMA */
    QUEUED_FDS = 2, /* descriptors of a connection on a queue */
    /* Additional descriptors in shared memory, if the connection has its own context: the peer's wakefd. */
    SHM_FDS = 1,
    ALONE_KIB = 34, /* memory of a connection by blocking calls */
    QUEUED_KIB = 12,
    SHM_KIB = 3,
    TCP_KIB = 5, /* additional memory by TCP: the first page of the buffer of each direction */
};

static struct address address;
static int listener;

static void begin(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < FDS) {
        limit.rlim_cur = limit.rlim_max < FDS ? limit.rlim_max : FDS;
        must(setrlimit(RLIMIT_NOFILE, &limit));
    }
    init_library();
    listener = open_listener(AF_INET, SOCK_STREAM, 64, &address);
}

struct ends {
    int client[GUESTS], server[GUESTS];
};

static void *accept_one(void *arg)
{
    must(*(int *)arg = exs_blocking_accept(listener, NULL, NULL));
    return NULL;
}

static void connect_alone(struct ends *ends, int from, int count)
{
    for (int i = from; i < from + count; i++) {
        pthread_t thread = thread_start(accept_one, &ends->server[i]);

        must(ends->client[i] = exs_socket(PF_INET, SOCK_STREAM, 0));
        must(exs_blocking_connect(ends->client[i], SA(&address), address.length));
        thread_join(thread);
    }
}

static void close_alone(struct ends *ends, int count)
{
    for (int i = 0; i < count; i++) {
        must(exs_blocking_close(ends->client[i]));
        must(exs_blocking_close(ends->server[i]));
    }
}

/* Returns how many of the clients' home queues the host's last pass drove. `done` clients have no receive pending any
 * more, so their home queues may be detached. Returns 0 on a NIC, where idle connections send keepalive probes. */
static int driven(struct queue *host, const struct ends *ends, int done)
{
    int count = 0, attached = 0;

    if (on_rdma())
        return 0;
    for (int i = 0; i < GUESTS; i++) {
        struct sock *sock = xs_sock_get(ends->client[i]);
        struct queue *home = atomic_load(&sock->home);

        xs_sock_put(sock);
        mutex_lock(&home->lock);
        const struct attachment *guest = xs_queue_attachment(host, home);

        attached += guest != NULL;
        count += guest != NULL && guest->round == host->attached.rounds;
        mutex_unlock(&home->lock);
    }
    ck_assert_int_ge(attached, GUESTS - done);
    return count;
}

/* Idle connections are not polled. */
START_TEST(turns)
{
    static struct ends ends;
    char in[GUESTS];
    exs_event_t event;
    struct inbox box;

    begin();
    inbox_open(&box, GUESTS);
    connect_alone(&ends, 0, GUESTS);
    for (int i = 0; i < GUESTS; i++)
        must(exs_recv(ends.client[i], &in[i], 1, 0, box.queue, NULL, NULL));
    inbox_quiet(&box, QUIET_MS);
    struct queue *host = xs_queue_get(box.queue);
    unsigned before = host->attached.rounds;

    ck_assert_int_eq(exs_qdequeue(box.queue, &event, 1, &(struct timeval){0, 0}), 0);
    ck_assert_uint_eq(host->attached.rounds, before + 1);
    ck_assert_int_eq(driven(host, &ends, 0), 0);
    for (int i = 0, done = 0; i < GUESTS; i += GUESTS / 4) {
        must(exs_write(ends.server[i], "x", 1));
        ck_assert_int_eq(exs_qdequeue(box.queue, &event, 1, NULL), 1);
        ck_assert_int_eq(event.exs_evt_socket, ends.client[i]);
        ck_assert_int_le(driven(host, &ends, ++done), 1);
    }
    xs_queue_put(host);
    must(exs_shutdown(ends.server[1], SHUT_WR, EXS_BLOCK, NULL, NULL));
    take_good(&box, EXS_EVT_RECV, ends.client[1]);
    for (int i = 0; i < GUESTS; i++)
        must(exs_blocking_close(ends.server[i]));
    for (int i = 0; i < GUESTS; i++)
        must(exs_close(ends.client[i], 0, box.queue, NULL));
    for (int i = 0; i < GUESTS; i++)
        while (inbox_take(&box, EXS_EVT_CLOSE, ends.client[i]).exs_evt_type != EXS_EVT_CLOSE)
            ;
    ck_assert_int_eq(atomic_load(&host->attachment_count), 0); /* only the inbox's own queue is left */
    free(box.kept);
    must(exs_blocking_close(listener));
}
END_TEST

/* The value of this line of smaps_rollup for the process, KiB. */
static long smaps_kib(const char *line_begins)
{
    char line[128];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");

    while (file != NULL && kib < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, line_begins, strlen(line_begins)) == 0)
            kib = strtol(line + strlen(line_begins), NULL, 10);
    if (file != NULL)
        fclose(file);
    return kib;
}

/* A page that two processes share counts half in each. */
static long pages_kib(void)
{
    return smaps_kib("Pss:");
}

static void connect_queued(struct inbox *box, struct ends *ends, int from, int count)
{
    exs_acceptaddr_t wanted = {0};

    for (int i = from; i < from + count; i++) {
        must(exs_accept(listener, &wanted, 1, 0, box->queue));
        must(ends->client[i] = exs_socket(PF_INET, SOCK_STREAM, 0));
        must(exs_connect(ends->client[i], SA(&address), address.length, 0, NULL, box->queue, NULL));
        take_good(box, EXS_EVT_CONNECT, ends->client[i]);
        ends->server[i] =
            take_good(box, EXS_EVT_ACCEPT, listener).exs_evt_union.exs_evt_accept.exs_evt_newsocket;
    }
}

/* On the kernel's RDMA, which does not detect a dead host, the queue has a timer for the next keepalive probe. The
 * software device relies on TCP's keepalive. */
START_TEST(times)
{
    static struct ends ends;
    struct inbox box;

    begin();
    inbox_open(&box, 8);
    connect_queued(&box, &ends, 0, 1);
    inbox_quiet(&box, QUIET_MS);
    struct queue *queue = xs_queue_get(box.queue);

    ck_assert_int_eq(TAILQ_EMPTY(&queue->time.socks), !on_rdma());
    xs_queue_put(queue);
    close_socket(&box, ends.client[0]);
    close_socket(&box, ends.server[0]);
    must(exs_blocking_close(listener));
    inbox_close(&box);
}
END_TEST

static long more_kib(void)
{
    const char *link = getenv("EXS_LINK");

    if (link != NULL && strcmp(link, "tcp") == 0)
        return TCP_KIB;
    return on_shm() ? SHM_KIB : 0;
}

/* Descriptors of this process per end of a connection. */
START_TEST(descriptors)
{
    static struct ends ends, queued;
    struct inbox box;
    int before;

    begin();
    connect_alone(&ends, 0, 2);
    before = count_fds();
    close_alone(&ends, 2);
    int each = (before - count_fds()) / 4;

    fprintf(stderr, "a connection by blocking calls has %d descriptors\n", each);
    ck_assert_int_le(each, on_rdma() ? NIC_FDS : ALONE_FDS + (on_shm() ? SHM_FDS : 0));
    inbox_open(&box, 8);
    connect_queued(&box, &queued, 0, 2); /* the first connection opens what both queues open once */
    before = count_fds();
    close_socket(&box, queued.client[1]);
    close_socket(&box, queued.server[1]);
    each = (before - count_fds()) / 2;
    fprintf(stderr, "one on a queue %d\n", each);
    ck_assert_int_le(each, QUEUED_FDS);
    close_socket(&box, queued.client[0]);
    close_socket(&box, queued.server[0]);
    must(exs_blocking_close(listener));
    inbox_close(&box);
}
END_TEST

/* Does the process's memory show what the library allocates? Not with the malloc of sanitizers and valgrind, which
 * keeps more. */
static bool pages_count(void)
{
    size_t before = mallinfo2().uordblks;
    void *volatile some = malloc(1000);
    bool counts = mallinfo2().uordblks >= before + 1000;

    free(some);
    return counts && sysconf(_SC_PAGESIZE) == 4096 && !on_rdma();
}

/* Memory of this process per end of an idle connection, after the first ones have allocated what the process needs
 * once. */
START_TEST(memory)
{
    static struct ends alone, queued;
    struct inbox box;
    long before, each[2];

    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    begin();
    connect_alone(&alone, 0, SAMPLE);
    before = pages_kib();
    connect_alone(&alone, SAMPLE, SAMPLE);
    each[0] = (pages_kib() - before) / (2 * SAMPLE);
    inbox_open(&box, GUESTS);
    connect_queued(&box, &queued, 0, SAMPLE);
    before = pages_kib();
    connect_queued(&box, &queued, SAMPLE, SAMPLE);
    each[1] = (pages_kib() - before) / (2 * SAMPLE);
    fprintf(stderr, "a connection by blocking calls has %ld KiB, one on a queue %ld\n", each[0], each[1]);
    if (pages_count()) {
        ck_assert_int_le(each[0], ALONE_KIB + more_kib());
        ck_assert_int_le(each[1], QUEUED_KIB + more_kib());
    }
    for (int i = 0; i < 2 * SAMPLE; i++) {
        close_socket(&box, queued.client[i]);
        close_socket(&box, queued.server[i]);
    }
    close_alone(&alone, 2 * SAMPLE);
    must(exs_blocking_close(listener));
    inbox_close(&box);
}
END_TEST

/* exs_init uses no huge page, even if transparent huge pages are always enabled. */
START_TEST(no_large_page)
{
    long before = smaps_kib("AnonHugePages:");

    init_library();
    if (pages_count())
        ck_assert_int_eq(smaps_kib("AnonHugePages:"), before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("idle");
    TCase *tcase = add_bare_case(suite, "connections", 40);

    tcase_add_test(tcase, no_large_page);
    tcase_add_test(tcase, turns);
    tcase_add_test(tcase, times);
    tcase_add_test(tcase, descriptors);
    tcase_add_test(tcase, memory);
    return run_suite(suite);
}
