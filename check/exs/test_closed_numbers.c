/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_closed_numbers.c - a program closes all descriptors from 3 on, as daemons do, while it has connections. Files
 * and sockets that it opens afterwards reuse the numbers. The library must neither write to these nor read from them.
 *
 * The test does so in a forked child, because Check uses descriptors, too.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "check/support/processes.h"
#include "check/support/support.h"

enum { CLOSED = 200, FILES = 40, SOCKETS = 40, REPORT = 900 /* a number that stays open */ };

static const char text[] = "0123456789abcdef";

static int files[FILES];

static void open_files(void)
{
    for (int i = 0; i < FILES; i++) {
        files[i] = open("/tmp", O_TMPFILE | O_RDWR, 0600);
        if (files[i] == -1 || write(files[i], text, sizeof text) != sizeof text)
            _exit(2);
    }
}

static bool is_harmed(int file)
{
    char there[64];
    struct stat status;

    return fstat(file, &status) == -1 || status.st_size != sizeof text ||
           lseek(file, 0, SEEK_CUR) != sizeof text || pread(file, there, sizeof there, 0) != sizeof text ||
           memcmp(there, text, sizeof text) != 0 || fcntl(file, F_GETFL) & O_NONBLOCK;
}

static bool are_harmed(void)
{
    for (int i = 0; i < FILES; i++)
        if (is_harmed(files[i]))
            return true;
    return false;
}

/* Duplicates the child's end of a socket pair, which the test reads, under many numbers. */
static void open_sockets(int report)
{
    for (int i = 0; i < SOCKETS; i++)
        if (dup(report) == -1)
            _exit(2);
}

/* The results of these calls do not matter: they must return, and not access the new files and sockets. */
static void use(int sock, exs_qhandle_t queue)
{
    static char bytes[20000];
    struct timeval limit = {.tv_sec = 1};
    exs_event_t event;

    (void)exs_setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    (void)exs_setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)exs_blocking_send(sock, "x", 1, MSG_DONTWAIT, NULL);
    (void)exs_blocking_send(sock, bytes, sizeof bytes, 0, NULL);
    (void)exs_read(sock, bytes, sizeof bytes);
    (void)exs_qdequeue(queue, &event, 1, &(struct timeval){.tv_usec = 100000});
    (void)exs_close(sock, 0, NULL, NULL);
    (void)exs_qdequeue(queue, &event, 1, &(struct timeval){.tv_usec = 100000});
}

static void close_numbers(int report)
{
    struct pair pair;
    char received[64];

    must(dup2(report, REPORT));
    must(close(report));
    init_library();
    exs_qhandle_t queue = exs_qcreate(4);

    pair_open_blocking(&pair, AF_INET, SOCK_STREAM);
    must(exs_recv(pair.client, received, sizeof received, 0, queue, NULL, NULL));
    for (int number = STDERR_FILENO + 1; number < CLOSED; number++)
        close(number);
    open_files();
    open_sockets(REPORT);
    use(pair.client, queue);
    use(pair.server, queue);
    (void)poll(NULL, 0, 20); /* time for the service thread to act */
    _exit(are_harmed());
}

START_TEST(stay_whole)
{
    static const char *const links[] = {"shm", "tcp", "udp"};
    int ends[2];
    char byte;

    must(setenv("EXS_LINK", links[_i], 1));
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    pid_t pid = fork();

    must(pid);
    if (pid == 0) {
        alarm(20);
        close_numbers(ends[1]);
    }
    must(close(ends[1]));
    ck_assert_int_eq(read(ends[0], &byte, 1), 0); /* until the child has ended */
    process_join(pid);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("closed_numbers");
    TCase *tcase = add_bare_case(suite, "numbers", 25);

    tcase_add_loop_test(tcase, stay_whole, 0, 3);
    return run_suite(suite);
}
