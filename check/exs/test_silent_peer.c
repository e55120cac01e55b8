/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_silent_peer.c - short fire-and-forget sends (EXS_UNSIGNALED, without a queue) to a peer in another
 * process that is killed, stopped, or idle for a long time. A lingering close does not report delivery of sends
 * that were not delivered; the connection lasts as long as the peer does.
 */
#include "check/support/processes.h"
#include "check/support/support.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>

#define PERIODS_MS 3500 /* several keepalive intervals, which are a second each */

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};

static struct link { /* a connection to a peer */
    struct child child;
    struct inbox box;
    int socket;
} peer;

static void hush(const void *bytes, size_t length)
{
    must(exs_send(peer.socket, bytes, length, EXS_UNSIGNALED, NULL, NULL, NULL));
}

static void set(int level, int option, int value)
{
    must(exs_setsockopt(peer.socket, level, option, &value, sizeof value));
}

/* The peer answers each '?' with a byte. It starts on request, and reports when it has accepted and when it has
 * closed. */
static void echo(int fd, void *arg)
{
    struct address address;
    char byte;

    init_library();
    int listener = open_listener(AF_INET, *(int *)arg, 1, &address);
    tell(fd, &address, sizeof address);
    int socket = exs_blocking_accept(listener, NULL, NULL);
    must(socket);
    tell(fd, "", 1);
    hear(fd, &byte, 1);
    while (exs_read(socket, &byte, 1) == 1)
        if (byte == '?')
            exs_write(socket, &byte, 1);
    exs_blocking_close(socket);
    tell(fd, "", 1);
    hear(fd, &byte, 1);
}

static void open_link(int type, bool keeps_alive)
{
    struct address address;
    char ready;

    child_start(&peer.child, echo, &type);
    init_library();
    inbox_open(&peer.box, 4);
    hear(peer.child.fd, &address, sizeof address);
    must(peer.socket = exs_socket(PF_INET, type, 0));
    if (keeps_alive) {
        set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
        set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
        set(IPPROTO_TCP, TCP_KEEPCNT, 2);
        set(SOL_SOCKET, SO_KEEPALIVE, 1);
    }
    must(exs_connect(peer.socket, SA(&address), address.length, 0, NULL, peer.box.queue, NULL));
    take_good(&peer.box, EXS_EVT_CONNECT, peer.socket);
    hear(peer.child.fd, &ready, 1);
}

static void let_it_echo(void)
{
    tell(peer.child.fd, "", 1);
}

static void ask_and_hear(void)
{
    char byte = 0;

    must(exs_recv(peer.socket, &byte, 1, 0, peer.box.queue, NULL, NULL));
    hush("?", 1);
    take_good(&peer.box, EXS_EVT_RECV, peer.socket);
    ck_assert_int_eq(byte, '?');
}

static void end(void)
{
    inbox_quiet(&peer.box, 0);
    double start = seconds_now();
    close_socket(&peer.box, peer.socket);
    ck_assert_msg(seconds_now() - start < 6 + LATE_S, "the close took %g s", seconds_now() - start);
    inbox_close(&peer.box);
}

/* ---- Killed and stopped --------------------------------------------------------------------------- */

static int lingers(int flags)
{
    exs_event_t event;

    must(exs_close(peer.socket, flags, peer.box.queue, NULL));
    double start = seconds_now();
    event = inbox_take(&peer.box, EXS_EVT_CLOSE, peer.socket);
    ck_assert_msg(seconds_now() - start < 20 * LATE_S, "the close took %g s", seconds_now() - start);
    return event.exs_evt_errno;
}

/* The peer is stopped, then bytes are sent, then it is killed: what it had not received is not delivered, and
 * the close fails. The same holds for signaled sends. */
START_TEST(killed_before_it_took_them)
{
    int count = _i & 2 ? 50 : 1, flags = EXS_LINGER;
    bool is_killed_first = _i & 4, is_signaled = _i & 8;
    char byte[64] = "x";

    open_link(types[_i & 1], false);
    let_it_echo();
    ask_and_hear();
    process_stop(peer.child.pid);
    for (int i = 0; i < count; i++)
        must(exs_send(peer.socket, byte, sizeof byte, is_signaled ? 0 : EXS_UNSIGNALED,
                      is_signaled ? peer.box.queue : NULL, NULL, NULL));
    if (is_killed_first)
        process_kill(peer.child.pid);
    else
        must(exs_close(peer.socket, flags, peer.box.queue, NULL));
    if (is_killed_first)
        must(exs_close(peer.socket, flags, peer.box.queue, NULL));
    else
        process_kill(peer.child.pid);
    int sends = 0, failed = 0;
    for (; is_signaled && sends < count; sends++)
        failed += inbox_take(&peer.box, EXS_EVT_SEND, peer.socket).exs_evt_errno != 0;
    exs_event_t event = inbox_take(&peer.box, EXS_EVT_CLOSE, peer.socket);
    ck_assert_msg(event.exs_evt_errno == ECONNRESET || event.exs_evt_errno == ETIMEDOUT,
                  "the close says %s, %d of %d sends failed", strerrorname_np(event.exs_evt_errno), failed,
                  sends);
    inbox_close(&peer.box);
}
END_TEST

/* Between the kill and the close this process notices that the peer is gone. */
START_TEST(known_to_be_killed)
{
    bool lingers_too = _i & 2;

    open_link(types[_i & 1], false);
    let_it_echo();
    ask_and_hear();
    process_stop(peer.child.pid);
    hush("x", 1);
    process_kill(peer.child.pid);
    inbox_quiet(&peer.box, 300);
    must_fail(exs_send(peer.socket, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL), ECONNRESET);
    int error = lingers(lingers_too ? EXS_LINGER : 0);
    ck_assert_int_eq(error, lingers_too ? ECONNRESET : 0);
    inbox_close(&peer.box);
}
END_TEST

/* The peer is stopped for ever. A lingering close ends after its time or, without a time, when the peer counts
 * as unreachable, which needs something in flight. A close without lingering ends soon. */
START_TEST(stopped)
{
    const struct linger second = {.l_onoff = 1, .l_linger = 1};
    int flags = _i == 1 ? EXS_LINGER : 0;

    open_link(types[_i == 0], false);
    let_it_echo();
    ask_and_hear();
    process_stop(peer.child.pid);
    for (int i = 0; i < 50; i++)
        hush("x", 1);
    if (_i == 2)
        must(exs_setsockopt(peer.socket, SOL_SOCKET, SO_LINGER, &second, sizeof second));
    int error = lingers(flags);
    if (!on_rdma())
        ck_assert_int_eq(error, _i == 0 ? 0 : ETIMEDOUT);
    inbox_close(&peer.box);
    child_kill(&peer.child);
}
END_TEST

/* A dead peer is noticed, whether a receive is pending or not. */
START_TEST(noticed)
{
    char byte;

    open_link(types[_i & 1], false);
    let_it_echo();
    ask_and_hear();
    for (int i = 0; i < 33; i++)
        hush("x", 1);
    if (_i & 2)
        must(exs_recv(peer.socket, &byte, 1, 0, peer.box.queue, NULL, NULL));
    inbox_quiet(&peer.box, QUIET_MS);
    process_kill(peer.child.pid);
    double start = seconds_now();
    if (_i & 2)
        take_failed(&peer.box, EXS_EVT_RECV, peer.socket, ECONNRESET);
    while (!(_i & 2) && exs_send(peer.socket, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL) == 0) {
        ck_assert_double_lt(seconds_now() - start, 5 * LATE_S);
        inbox_quiet(&peer.box, 1);
    }
    ck_assert_double_lt(seconds_now() - start, 5 * LATE_S);
    end();
}
END_TEST

/* ---- Idle --------------------------------------------------------------------------------------------- */

/* The connection is idle for several keepalive intervals, and survives. Then the peer is stopped, and this is
 * noticed. */
START_TEST(idle)
{
    char byte;

    open_link(types[_i & 1], true);
    let_it_echo();
    ask_and_hear();
    for (int i = 0; i < 300; i++)
        hush("x", 1);
    inbox_quiet(&peer.box, PERIODS_MS);
    ask_and_hear();
    hush("x", 1);
    must(exs_recv(peer.socket, &byte, 1, 0, peer.box.queue, NULL, NULL));
    inbox_quiet(&peer.box, QUIET_MS);
    process_stop(peer.child.pid);
    double start = seconds_now();
    exs_event_t event = inbox_take(&peer.box, EXS_EVT_RECV, peer.socket);
    ck_assert_msg(event.exs_evt_errno == ETIMEDOUT, "%s", strerrorname_np(event.exs_evt_errno));
    ck_assert_double_lt(seconds_now() - start, 4 + 2 * LATE_S);
    child_kill(&peer.child);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("silent peer");
    TCase *tcase = add_bare_case(suite, "peers", 30);

    tcase_add_loop_test(tcase, killed_before_it_took_them, 0, 16);
    tcase_add_loop_test(tcase, known_to_be_killed, 0, 4);
    tcase_add_loop_test(tcase, stopped, 0, 3);
    tcase_add_loop_test(tcase, noticed, 0, 4);
    tcase_add_loop_test(tcase, idle, 1, 2);
    return run_suite(suite);
}
