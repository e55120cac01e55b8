/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_peer.c - peers that are killed, and forks. Operations on a connection whose peer was killed complete
 * with ECONNRESET within five seconds. A forked child must call exs_init() first.
 */
#include "check/support/processes.h"
#include "check/support/support.h"

#include <poll.h>
#include <signal.h>

/* ThreadSanitizer fails when a thread is created after a fork of a process with threads. */
#if defined(__SANITIZE_THREAD__)
#define FORKS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FORKS 0
#endif
#endif
#ifndef FORKS
#define FORKS 1
#endif

#define BOUND 5.0 /* seconds within which a dead peer is noticed */
#define PENDING 3
#define LAST_BYTES 10 /* rounds */

/* ---- The peer: another process that listens and accepts one connection ---------------- */

enum after {          /* what the peer does with the connection */
             SLEEP,   /* nothing */
             EXIT,    /* exit without closing when a byte tells it to */
             LAST,    /* receive one byte, and exit without closing */
             RECEIVE, /* receive all it can */
             SEND,    /* send all it can */
             FORK     /* fork a child that sleeps for ever, and sleep */
};

static void sleep_for_ever(void)
{
    for (;;)
        pause();
}

static void receive_for_ever(int socket)
{
    char *buffer = new_buffer(MIB);

    for (;;)
        must(exs_blocking_recv(socket, buffer, MIB, 0, NULL));
}

static void send_for_ever(int socket)
{
    char *buffer = new_buffer(MIB);

    for (;;)
        must(exs_blocking_send(socket, buffer, MIB, 0, NULL));
}

static void fork_and_sleep(int fd)
{
    pid_t pid = fork();

    must(pid);
    if (pid)
        tell(fd, &pid, sizeof pid);
    sleep_for_ever();
}

static void peer(int fd, void *arg)
{
    struct address address;
    char told;

    init_library();
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    tell(fd, &address, sizeof address);
    int socket = exs_blocking_accept(listener, NULL, NULL);
    must(socket);
    tell(fd, "x", 1);
    switch (*(enum after *)arg) {
    case SLEEP:
        sleep_for_ever();
        break;
    case EXIT:
        hear(fd, &told, 1);
        exit(0);
    case LAST:
        must(exs_read(socket, &told, 1));
        exit(0);
    case RECEIVE:
        receive_for_ever(socket);
        break;
    case SEND:
        send_for_ever(socket);
        break;
    case FORK:
        fork_and_sleep(fd);
    }
}

struct link { /* this process's end of a connection to the peer */
    struct child child;
    struct inbox box;
    int socket;
};

static void link_open(struct link *l, enum after after)
{
    struct address address;
    char ready;

    child_start(&l->child, peer, &after);
    init_library();
    inbox_open(&l->box, 16);
    hear(l->child.fd, &address, sizeof address);
    must(l->socket = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_connect(l->socket, SA(&address), address.length, 0, NULL, l->box.queue, NULL));
    take_good(&l->box, EXS_EVT_CONNECT, l->socket);
    hear(l->child.fd, &ready, 1);
}

static void link_close(struct link *l)
{
    inbox_quiet(&l->box, 0);
    close_socket(&l->box, l->socket);
    inbox_close(&l->box);
}

static void within_bound(double start)
{
    double took = seconds_now() - start;

    ck_assert_msg(took < BOUND, "a dead peer was noticed after %.1f s", took);
}

/* After a reset each new transfer fails immediately, and no event follows. */
static void connection_is_gone(struct link *l)
{
    char byte = 0;
    exs_xferfile_t memory = {.exs_xfv_type = EXS_IOVEC};

    memory.exs_xfv.exs_iov = (exs_iovec_t){.exs_base = &byte, .exs_length = 1};
    must_fail(exs_send(l->socket, &byte, 1, 0, l->box.queue, NULL, NULL), ECONNRESET);
    must_fail(exs_send(l->socket, &byte, 1, EXS_UNSIGNALED, NULL, NULL, NULL), ECONNRESET);
    must_fail(exs_blocking_send(l->socket, &byte, 1, 0, NULL), ECONNRESET);
    must_fail(exs_write(l->socket, &byte, 1), ECONNRESET);
    must_fail(exs_sendfile(l->socket, &memory, 1, 0, l->box.queue, NULL), ECONNRESET);
    must_fail(exs_recv(l->socket, &byte, 1, 0, l->box.queue, NULL, NULL), ECONNRESET);
    must_fail(exs_read(l->socket, &byte, 1), ECONNRESET);
    inbox_quiet(&l->box, QUIET_MS);
}

/* ---- Peers that are killed ----------------------------------------------------------- */

static void post_receives(struct link *l, char *in)
{
    for (int i = 0; i < PENDING; i++)
        must(exs_recv(l->socket, in + i, 1, 0, l->box.queue, in + i, NULL));
}

static void receives_are_reset(struct link *l, const char *in)
{
    for (int i = 0; i < PENDING; i++)
        ck_assert_ptr_eq(take_failed(&l->box, EXS_EVT_RECV, l->socket, ECONNRESET).exs_evt_ahandle, in + i);
}

START_TEST(killed_while_idle)
{
    struct link l;
    char in[PENDING];

    link_open(&l, SLEEP);
    post_receives(&l, in);
    inbox_quiet(&l.box, QUIET_MS);
    double start = seconds_now();
    child_kill(&l.child);
    receives_are_reset(&l, in);
    within_bound(start);
    connection_is_gone(&l);
    link_close(&l);
}
END_TEST

START_TEST(exits_without_closing)
{
    struct link l;
    char in[PENDING];

    link_open(&l, EXIT);
    post_receives(&l, in);
    double start = seconds_now();
    tell(l.child.fd, "x", 1);
    receives_are_reset(&l, in);
    within_bound(start);
    child_join(&l.child);
    connection_is_gone(&l);
    link_close(&l);
}
END_TEST

/* The peer has received the last byte and exits at once. The sender's write succeeds all the same. */
START_TEST(ends_with_the_last_byte)
{
    struct link l;

    link_open(&l, LAST);
    ck_assert_int_eq(exs_write(l.socket, "x", 1), 1);
    child_join(&l.child);
    link_close(&l);
}
END_TEST

/* Nothing is pending when the peer dies. The next operation fails. */
START_TEST(killed_while_nothing_is_pending)
{
    struct link l;
    char in[PENDING];

    link_open(&l, SLEEP);
    child_kill(&l.child);
    inbox_quiet(&l.box, QUIET_MS);
    double start = seconds_now();
    if (exs_recv(l.socket, in, 1, 0, l.box.queue, in, NULL) == 0)
        take_failed(&l.box, EXS_EVT_RECV, l.socket, ECONNRESET);
    else
        ck_assert_int_eq(errno, ECONNRESET);
    within_bound(start);
    connection_is_gone(&l);
    link_close(&l);
}
END_TEST

/* The peer is killed while this process sends at full speed. Earlier sends may have succeeded; the rest are
 * reset. */
START_TEST(killed_while_it_receives)
{
    struct link l;
    char *out = new_buffer(64 * MIB), in[PENDING];
    bool reset = false;

    link_open(&l, RECEIVE);
    post_receives(&l, in);
    for (int i = 0; i < 8; i++)
        must(exs_send(l.socket, out, 64 * MIB, 0, l.box.queue, &in[i % PENDING], NULL));
    take_good(&l.box, EXS_EVT_SEND, l.socket);
    double start = seconds_now();
    child_kill(&l.child);
    for (int i = 1; i < 8; i++) {
        exs_event_t event = inbox_take(&l.box, EXS_EVT_SEND, l.socket);
        ck_assert_ptr_eq(event.exs_evt_ahandle, &in[i % PENDING]);
        if (event.exs_evt_errno || reset)
            ck_assert_int_eq(event.exs_evt_errno, ECONNRESET);
        reset = event.exs_evt_errno != 0;
    }
    ck_assert(reset);
    receives_are_reset(&l, in);
    within_bound(start);
    connection_is_gone(&l);
    link_close(&l);
    free(out);
}
END_TEST

/* This process receives some megabytes and kills the peer. Data that was already sent may still arrive; then
 * the connection is reset. */
START_TEST(killed_while_it_sends)
{
    struct link l;
    char *in = new_buffer(MIB);
    exs_event_t event = {0};
    double start = 0;

    link_open(&l, SEND);
    for (int i = 0; event.exs_evt_errno == 0; i++) {
        if (i == 20) {
            start = seconds_now();
            child_kill(&l.child);
        }
        ck_assert_int_lt(i, 1000);
        if (exs_recv(l.socket, in, MIB, MSG_WAITALL, l.box.queue, NULL, NULL) == -1) {
            /* the previous receive got its bytes, and the connection broke after them */
            event.exs_evt_errno = errno;
            break;
        }
        event = inbox_take(&l.box, EXS_EVT_RECV, l.socket);
        ck_assert(event.exs_evt_errno != 0 || event.exs_evt_union.exs_evt_xfer.exs_evt_length == MIB);
    }
    ck_assert_int_eq(event.exs_evt_errno, ECONNRESET);
    within_bound(start);
    connection_is_gone(&l);
    link_close(&l);
    free(in);
}
END_TEST

/* Kills the child, probably when this process already sleeps in its call; before that does no harm. */
struct killer {
    struct child *child;
    double when;
};

static void *kill_soon(void *arg)
{
    struct killer *k = arg;

    poll(NULL, 0, 50);
    k->when = seconds_now();
    child_kill(k->child);
    return NULL;
}

START_TEST(killed_in_a_blocking_call)
{
    struct link l;
    struct killer killer = {.child = &l.child};
    char *buffer = new_buffer(256 * MIB);

    link_open(&l, SLEEP);
    pthread_t thread = thread_start(kill_soon, &killer);
    if (_i)
        must_fail(exs_blocking_send(l.socket, buffer, 256 * MIB, 0, NULL), ECONNRESET);
    else
        must_fail(exs_blocking_recv(l.socket, buffer, 100, 0, NULL), ECONNRESET);
    thread_join(thread);
    within_bound(killer.when);
    connection_is_gone(&l);
    link_close(&l);
    free(buffer);
}
END_TEST

/* ---- Killed before the connection is established ------------------------------------- */

static void listen_only(int fd, void *arg)
{
    struct address address;

    (void)arg;
    init_library();
    open_listener(AF_INET, SOCK_STREAM, 4, &address);
    tell(fd, &address, sizeof address);
    sleep_for_ever();
}

/* The listener is stopped, so it does not answer, and is then killed. */
START_TEST(listener_killed)
{
    struct child child;
    struct address address;
    struct inbox box;

    child_start(&child, listen_only, NULL);
    init_library();
    inbox_open(&box, 4);
    hear(child.fd, &address, sizeof address);
    process_stop(child.pid);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    inbox_quiet(&box, QUIET_MS);
    double start = seconds_now();
    child_kill(&child);
    exs_event_t event = inbox_take(&box, EXS_EVT_CONNECT, client);
    ck_assert_msg(event.exs_evt_errno == ECONNRESET || event.exs_evt_errno == ECONNREFUSED, "errno is %s",
                  strerrorname_np(event.exs_evt_errno));
    within_bound(start);
    close_socket(&box, client);
    inbox_close(&box);
}
END_TEST

static void connect_only(int fd, void *arg)
{
    struct address address;

    (void)arg;
    init_library();
    hear(fd, &address, sizeof address);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    exs_qhandle_t queue = exs_qcreate(1);
    must(exs_connect(client, SA(&address), address.length, 0, NULL, queue, NULL));
    exs_event_t none; /* dequeuing makes the connect progress */
    ck_assert_int_eq(exs_qdequeue(queue, &none, 1, &(struct timeval){0, 50000}), 0);
    tell(fd, "x", 1);
    sleep_for_ever();
}

/* A client dies before it is accepted. The next client is served. */
START_TEST(client_killed)
{
    struct child child;
    struct address address;
    struct inbox box;
    int client, server = -1;
    char ready;

    child_start(&child, connect_only, NULL);
    init_library();
    inbox_open(&box, 4);
    int listener = open_listener(AF_INET, SOCK_STREAM, 4, &address);
    tell(child.fd, &address, sizeof address);
    hear(child.fd, &ready, 1);
    child_kill(&child);
    must(client = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_connect(client, SA(&address), address.length, 0, NULL, box.queue, NULL));
    struct address mine = {.length = sizeof mine.storage}, peer_name;
    do { /* the dead client may be accepted first, as with any socket */
        exs_acceptaddr_t wanted = {.exs_addr = SA(&peer_name), .exs_addrlen = sizeof peer_name.storage};
        if (server >= 0)
            close_socket(&box, server);
        must(exs_accept(listener, &wanted, 1, 0, box.queue));
        take_good(&box, EXS_EVT_ACCEPT, listener);
        server = wanted.exs_socket;
        must(exs_getsockname(client, SA(&mine), &mine.length));
    } while (port_of(&peer_name) != port_of(&mine));
    take_good(&box, EXS_EVT_CONNECT, client);
    pass_bytes(&box, client, &box, server, 1000, 1);
    close_socket(&box, client);
    close_socket(&box, server);
    close_socket(&box, listener);
    inbox_close(&box);
}
END_TEST

/* ---- Forks --------------------------------------------------------------------------- */

/* A child of the peer, which inherited all open descriptors, does not keep the connection open. */
START_TEST(child_of_a_dead_peer)
{
    struct link l;
    char in[PENDING];
    pid_t orphan;

    link_open(&l, FORK);
    hear(l.child.fd, &orphan, sizeof orphan);
    post_receives(&l, in);
    inbox_quiet(&l.box, QUIET_MS);
    double start = seconds_now();
    child_kill(&l.child);
    receives_are_reset(&l, in);
    within_bound(start);
    must(kill(orphan, 0)); /* the child is still running */
    must(kill(orphan, SIGKILL));
    link_close(&l);
}
END_TEST

/* In a forked child each call fails until exs_init(), which starts without the parent's sockets. The parent is
 * not affected. */
START_TEST(forked_child)
{
    struct pair p, fresh;
    char memory[100];

    init_library();
    pair_open(&p, AF_INET, SOCK_STREAM);
    pass_bytes(p.client_box, p.client, p.server_box, p.server, 100000, 1);
    exs_mhandle_t region = exs_mregister(memory, sizeof memory, 0);
    pid_t pid = fork();
    must(pid);
    if (pid == 0) {
        must_fail(exs_blocking_send(p.client, memory, 1, 0, region), ECHILD);
        if (on_rdma()) { /* rdma-core cannot be used again after a fork, the software device can */
            must_fail(exs_init(EXS_VERSION), ENODEV);
            must(setenv("EXS_DEVICE", "soft", 1));
        }
        init_library();
        must(exs_init(EXS_VERSION));
        for (int i = 0; i < 2; i++) {
            pair_open(&fresh, AF_INET, i ? SOCK_STREAM : SOCK_SEQPACKET);
            pass_bytes(fresh.client_box, fresh.client, fresh.server_box, fresh.server, 100000, 2);
            pair_close(&fresh);
        }
        must_fail(exs_blocking_send(p.client, "x", 1, 0, NULL), EBADF); /* the parent's socket */
        _exit(0);
    }
    for (uint64_t i = 0; i < 20; i++)
        pass_bytes(p.client_box, p.client, p.server_box, p.server, 100000, i);
    process_join(pid);
    pass_bytes(p.server_box, p.server, p.client_box, p.client, 100000, 3);
    inbox_quiet(p.client_box, QUIET_MS);
    inbox_quiet(p.server_box, QUIET_MS);
    must(exs_mderegister(region, 0));
    pair_close(&p);
}
END_TEST

/* A child that exits, with its exit handlers, or executes another program, does not affect the parent. */
START_TEST(child_that_ends)
{
    struct pair p;

    init_library();
    pair_open(&p, AF_INET, SOCK_STREAM);
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        must(pid);
        if (pid == 0 && i == 0)
            exit(0);
        if (pid == 0)
            execl("/bin/true", "true", (char *)NULL);
        process_join(pid);
        pass_bytes(p.client_box, p.client, p.server_box, p.server, 100000, 1);
    }
    pair_close(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peer");
    TCase *killed = add_bare_case(suite, "killed", 15),
          *early = add_bare_case(suite, "before the connection", 15), *forks = add_bare_case(suite, "fork", 15);

    tcase_add_test(killed, killed_while_idle);
    tcase_add_test(killed, exits_without_closing);
    tcase_add_loop_test(killed, ends_with_the_last_byte, 0, LAST_BYTES);
    tcase_add_test(killed, killed_while_nothing_is_pending);
    tcase_add_test(killed, killed_while_it_receives);
    tcase_add_test(killed, killed_while_it_sends);
    tcase_add_loop_test(killed, killed_in_a_blocking_call, 0, 2);
    tcase_add_test(early, listener_killed);
    tcase_add_test(early, client_killed);
    tcase_add_test(forks, child_of_a_dead_peer);
    tcase_add_loop_test(forks, forked_child, 0, FORKS);
    tcase_add_test(forks, child_that_ends);
    return run_suite(suite);
}
