/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_fork_exit.c - children of a process with a connection that call exit(3) without using EXS. No child may affect
 * the connection: its copies of the device's descriptors are closed, and the numbers may already be those of the
 * child's own files.
 *
 * Two threads use the connection at the same time, so that almost always a packet or an acknowledgement is waiting to
 * be sent when a child is forked. The device sends these when a process exits.
 */
#include "check/support/processes.h"
#include "check/support/support.h"
#include "check/support/twonets.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* NUMBERS: nearly all descriptors of the process, because the device uses high ones. */
enum { CHILDREN = 150, NUMBERS = 256 };

/* By fork(2), by fork(2) and the end of the thread that called it, and by a fork that runs no fork handlers. */
enum way { FORK, FORK_AND_THREAD_EXIT, BARE_FORK, WAYS };

static const struct {
    const char *link, *roce;
} links[] = {{"shm", "off"}, {"tcp", "off"},   {"udp", "off"},
             {"auto", "on"}, {"auto", "auto"}, {"auto", "only"}};

/* A TCP connection, which also accepts what is sent by sendmsg(2): the children's end, and the other end, where nothing
 * may arrive. */
struct foreign {
    int own, other;
};

static struct foreign foreign_open(void)
{
    struct address address = loopback(AF_INET, 0);
    int listener = tcp_listener(&address);
    struct foreign foreign = {.own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

    must(foreign.own);
    must(connect(foreign.own, SA(&address), address.length));
    foreign.other = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    must(foreign.other);
    must(close(listener));
    return foreign;
}

static void expect_nothing(const struct foreign *foreign)
{
    char bytes[4096];
    ssize_t got = recv(foreign->other, bytes, sizeof bytes, 0);

    ck_assert_msg(got == -1 && errno == EAGAIN, "%zd bytes went to a child's own socket", got);
}

/* Every number that was open in the parent, or could have been, becomes the child's own socket. A program that does not
 * use fork handlers closes inherited descriptors, as daemons do. */
static void take_numbers(int own)
{
    for (int number = STDERR_FILENO + 1; number < NUMBERS; number++)
        if (number != own && dup2(own, number) == -1)
            _exit(1);
}

static int is_child;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_child; /* in a child, memory of the parent's threads is no leak */
}

static pid_t fork_child(enum way way, int own)
{
    pid_t pid = way == BARE_FORK ? _Fork() : fork();

    must(pid);
    if (pid == 0) {
        is_child = 1;
        alarm(10);
        take_numbers(own);
        if (way == FORK_AND_THREAD_EXIT)
            pthread_exit(NULL);
        exit(0);
    }
    return pid;
}

/* ---- The connection ---- */

static struct pair pair;
static atomic_bool over;

/* Takes no lock that a child might need. */
static void *write_bytes(void *chance)
{
    char bytes[3000] = {0};

    while (!over)
        if (exs_write(pair.client, bytes, chance_size(chance, 1, sizeof bytes)) < 1)
            _exit(1);
    return NULL;
}

static void *read_bytes(void *unused)
{
    char bytes[3000];

    while (exs_read(pair.server, bytes, sizeof bytes) > 0)
        continue;
    return unused;
}

static void expect_children(enum way way, const struct foreign *foreign)
{
    for (int i = 0; i < CHILDREN; i++) {
        process_join(fork_child(way, foreign->own));
        expect_nothing(foreign);
    }
}

START_TEST(ends_quietly)
{
    const struct rlimit limit = {NUMBERS + 8, NUMBERS + 8};
    struct chance chance = chance_new();
    struct foreign foreign;
    pthread_t writer, reader;

    must(setenv("EXS_LINK", links[_i / WAYS].link, 1));
    must(setenv("EXS_ROCE", links[_i / WAYS].roce, 1));
    if (_i % WAYS == FORK_AND_THREAD_EXIT && getenv("EXS_SANITIZE") != NULL && *getenv("EXS_SANITIZE") != '\0')
        return; /* with the address sanitizer's runtime, such a child sometimes kills the test by SIGKILL */
    if (strcmp(links[_i / WAYS].roce, "off") != 0 && !twonets_alone())
        return; /* another program may use RoCE's port */
    must(setrlimit(RLIMIT_NOFILE, &limit));
    init_library();
    foreign = foreign_open();
    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    writer = thread_start(write_bytes, &chance);
    reader = thread_start(read_bytes, NULL);
    expect_children(_i % WAYS, &foreign);
    over = true;
    thread_join(writer);
    must(exs_shutdown(pair.client, SHUT_WR, EXS_BLOCK, NULL, NULL)); /* the connection still works */
    thread_join(reader);
    pair_close_blocking(&pair);
    must(exs_fini());
    must(close(foreign.own));
    must(close(foreign.other));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fork_exit");
    TCase *tcase = add_bare_case(suite, "exit", 30);

    tcase_add_loop_test(tcase, ends_quietly, 0, COUNT(links) * WAYS);
    return run_suite(suite);
}
