/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_options.c - SO_KEEPALIVE and its times, which detect an unreachable peer on an idle connection;
 * SO_REUSEADDR and IPV6_V6ONLY.
 */
#include "check/support/asleep.h"
#include "check/support/processes.h"
#include "check/support/support.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>

static int get(int socket, int level, int option)
{
    int value = -1;
    socklen_t length = sizeof value;

    must(exs_getsockopt(socket, level, option, &value, &length));
    ck_assert_uint_eq(length, sizeof value);
    return value;
}

static int set(int socket, int level, int option, int value)
{
    return exs_setsockopt(socket, level, option, &value, sizeof value);
}

/* ---- Values of options ------------------------------------------------------------------- */

static const struct number {
    int level, option, first, least, most; /* most 1: a boolean option */
} numbers[] = {
    {SOL_SOCKET, SO_KEEPALIVE, 0, 0, 1},
    {SOL_SOCKET, SO_REUSEADDR, 0, 0, 1},
    {IPPROTO_IPV6, IPV6_V6ONLY, 0, 0, 1},
    {IPPROTO_TCP, TCP_KEEPIDLE, 8, 1, 32767},
    {IPPROTO_TCP, TCP_KEEPINTVL, 8, 1, 32767},
    {IPPROTO_TCP, TCP_KEEPCNT, 4, 1, 127},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, 0, 0, 32767000},
};

START_TEST(held)
{
    const struct number *number = &numbers[_i];
    int socket = exs_socket(PF_INET6, SOCK_STREAM, 0);

    must(socket);
    for (int i = 0; i < COUNT(numbers); i++)
        ck_assert_int_eq(get(socket, numbers[i].level, numbers[i].option), numbers[i].first);
    must(set(socket, number->level, number->option, number->most));
    for (int i = 0; i < COUNT(numbers); i++)
        ck_assert_int_eq(get(socket, numbers[i].level, numbers[i].option),
                         i == _i ? number->most : numbers[i].first);
    if (number->most == 1) {
        must(set(socket, number->level, number->option, -2));
        ck_assert_int_eq(get(socket, number->level, number->option), 1);
    } else {
        must_fail(set(socket, number->level, number->option, number->least - 1), EINVAL);
        must_fail(set(socket, number->level, number->option, -1), EINVAL);
        must_fail(set(socket, number->level, number->option, number->most + 1), EINVAL);
        ck_assert_int_eq(get(socket, number->level, number->option), number->most);
    }
    must(set(socket, number->level, number->option, number->least));
    ck_assert_int_eq(get(socket, number->level, number->option), number->least);
    must(exs_blocking_close(socket));
}
END_TEST

START_TEST(listeners)
{
    struct pair pair;
    int client, server;

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(set(pair.listener, SOL_SOCKET, SO_KEEPALIVE, 1));
    must(set(pair.listener, IPPROTO_TCP, TCP_KEEPIDLE, 100));
    connect_ends(pair.listener, SOCK_STREAM, &pair.address, pair.client_box, pair.server_box, &client, &server);
    ck_assert_int_eq(get(server, SOL_SOCKET, SO_KEEPALIVE), 1);
    ck_assert_int_eq(get(server, IPPROTO_TCP, TCP_KEEPIDLE), 100);
    ck_assert_int_eq(get(client, SOL_SOCKET, SO_KEEPALIVE), 0);
    close_socket(pair.client_box, client);
    close_socket(pair.server_box, server);
    pair_close(&pair);
}
END_TEST

/* ---- SO_KEEPALIVE ------------------------------------------------------------------------ */

static void accept_only(int fd, void *arg)
{
    struct address address;
    char byte;

    (void)arg;
    init_library();
    int listener = open_listener(AF_INET, SOCK_STREAM, 1, &address);
    tell(fd, &address, sizeof address);
    int socket = exs_blocking_accept(listener, NULL, NULL);
    must(socket);
    tell(fd, "", 1);
    while (exs_read(socket, &byte, 1) == 1)
        must(exs_write(socket, &byte, 1));
}

/* Sends a keepalive probe after each second without traffic; the connection ends after `times` unanswered
 * probes. */
static void keep_alive(int socket, int times)
{
    must(set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1));
    must(set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1));
    must(set(socket, IPPROTO_TCP, TCP_KEEPCNT, times));
    must(set(socket, SOL_SOCKET, SO_KEEPALIVE, 1));
}

struct link { /* a connection to a peer that can be stopped */
    struct child child;
    struct inbox box;
    int socket;
};

/* Opens a connection. Sets its keepalive options before it connects, or afterwards (is_late). */
static void open_link(struct link *link, bool is_late, int times)
{
    struct address address;
    char ready;

    child_start(&link->child, accept_only, NULL);
    init_library();
    inbox_open(&link->box, 4);
    hear(link->child.fd, &address, sizeof address);
    link->socket = exs_socket(PF_INET, SOCK_STREAM, 0);
    for (int round = 0; round < 2; round++) {
        if (round == is_late)
            keep_alive(link->socket, times);
        if (round == 0) {
            must(exs_connect(link->socket, SA(&address), address.length, 0, NULL, link->box.queue, NULL));
            take_good(&link->box, EXS_EVT_CONNECT, link->socket);
            hear(link->child.fd, &ready, 1);
        }
    }
}

static void stop(struct link *link)
{
    process_stop(link->child.pid);
}

static void echo(struct link *link)
{
    char in = 0;

    must(exs_recv(link->socket, &in, 1, 0, link->box.queue, NULL, NULL));
    must(exs_send(link->socket, "x", 1, EXS_UNSIGNALED, NULL, NULL, NULL));
    take_good(&link->box, EXS_EVT_RECV, link->socket);
    ck_assert_int_eq(in, 'x');
}

static void close_link(struct link *link)
{
    must(exs_close(link->socket, 0, link->box.queue, NULL));
    inbox_take(&link->box, EXS_EVT_CLOSE, link->socket);
    inbox_close(&link->box);
    child_kill(&link->child);
}

/* A stopped process acknowledges nothing. The sockets are idle, and the connection ends in time all the same. */
START_TEST(peer_is_gone)
{
    struct link link;
    char byte;

    if (on_rdma())
        return; /* the peer's kernel answers */
    open_link(&link, _i == 1, 2);
    echo(&link);
    must(exs_recv(link.socket, &byte, 1, 0, link.box.queue, NULL, NULL));
    double start = seconds_now();
    stop(&link);
    take_failed(&link.box, EXS_EVT_RECV, link.socket, ETIMEDOUT);
    double took = seconds_now() - start;
    ck_assert_msg(took > 1.5 && took < 4.2 + LATE_S, "it took %g s", took);
    ck_assert_int_eq(get(link.socket, SOL_SOCKET, SO_ERROR), ETIMEDOUT);
    close_link(&link);
}
END_TEST

/* EXS ends the connection, after the configured number of probes and before the device would report an error. */
START_TEST(peer_is_given_up)
{
    struct link link;
    FILE *said = tmpfile();
    char byte, line[512] = "", wanted[200];
    int times = _i + 1;

    if (on_rdma())
        return; /* the peer's kernel answers */
    ck_assert_ptr_nonnull(said);
    must(setenv("EXS_DEBUG", "1", 1));
    open_link(&link, false, times);
    must(exs_recv(link.socket, &byte, 1, 0, link.box.queue, NULL, NULL));
    must(dup2(fileno(said), STDERR_FILENO));
    stop(&link);
    take_failed(&link.box, EXS_EVT_RECV, link.socket, ETIMEDOUT);
    rewind(said);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, said));
    snprintf(
        wanted, sizeof wanted,
        "exs: connection %d: no acknowledgement in %d polls, and the device reports no error; closing it\n",
        link.socket, times);
    ck_assert_str_eq(line, wanted);
    ck_assert_ptr_null(fgets(line, sizeof line, said));
    close_link(&link);
}
END_TEST

struct reader { /* another thread, which is in a blocking call */
    int socket;
    _Atomic pid_t tid;
    _Atomic bool done;
    ssize_t result;
    int error;
};

static void *read_one(void *arg)
{
    struct reader *reader = arg;
    char byte;

    reader->tid = gettid();
    reader->result = exs_read(reader->socket, &byte, 1);
    reader->error = errno;
    reader->done = true;
    return NULL;
}

/* The keepalive options are set while another thread already sleeps in a call. The thread wakes in time. */
START_TEST(peer_of_a_sleeper_is_gone)
{
    struct reader reader = {0};
    struct address address;
    struct child child;
    char ready;

    if (on_rdma())
        return; /* the peer's kernel answers */
    child_start(&child, accept_only, NULL);
    init_library();
    hear(child.fd, &address, sizeof address);
    must(reader.socket = exs_socket(PF_INET, SOCK_STREAM, 0));
    must(exs_blocking_connect(reader.socket, SA(&address), address.length));
    hear(child.fd, &ready, 1);
    pthread_t thread = thread_start(read_one, &reader);
    await_sleep(&reader.tid);
    process_stop(child.pid);
    poll(NULL, 0, QUIET_MS); /* by now it very probably sleeps without a timeout */
    double start = seconds_now(), took = 0;
    keep_alive(reader.socket, 1);
    while (!reader.done && took < 3.2 + LATE_S) {
        poll(NULL, 0, 10);
        took = seconds_now() - start;
    }
    ck_assert_msg(reader.done, "it has slept on for %g s", took);
    thread_join(thread);
    ck_assert_int_eq(reader.result, -1);
    ck_assert_int_eq(reader.error, ETIMEDOUT);
    ck_assert_msg(took > 1.5, "it took %g s", took);
    must(exs_blocking_close(reader.socket));
    child_kill(&child);
}
END_TEST

/* An idle connection to a peer that answers stays open. */
START_TEST(peer_is_there)
{
    struct link link;

    open_link(&link, _i == 1, 3); /* three probes, because a busy machine may delay the peer */
    for (int i = 0; i < 2; i++) {
        inbox_quiet(&link.box, 4500);
        echo(&link);
    }
    close_link(&link);
}
END_TEST

/* Without SO_KEEPALIVE no probes are sent, so a stopped peer does no harm. */
START_TEST(off)
{
    struct link link;

    open_link(&link, false, 2);
    must(set(link.socket, SOL_SOCKET, SO_KEEPALIVE, 0));
    if (!on_rdma())
        stop(&link);
    inbox_quiet(&link.box, 7000);
    must(kill(link.child.pid, SIGCONT));
    echo(&link);
    close_link(&link);
}
END_TEST

/* ---- Addresses --------------------------------------------------------------------------- */

static int bind_to(struct address *address, bool reuses)
{
    int socket = exs_socket(address->storage.ss_family, SOCK_STREAM, 0);

    must(socket);
    if (reuses)
        must(set(socket, SOL_SOCKET, SO_REUSEADDR, 1));
    int result = exs_bind(socket, SA(address), address->length), error = errno;
    if (result == 0)
        must(exs_getsockname(socket, SA(address), &address->length));
    else
        must(exs_blocking_close(socket));
    errno = error;
    return result == 0 ? socket : -1;
}

/* Two sockets bind the same address with SO_REUSEADDR, and only one can listen. On the kernel's RDMA none can
 * listen before the other is closed. */
START_TEST(reused)
{
    struct address address = loopback(_i == 0 ? AF_INET : AF_INET6, 0);
    int first = bind_to(&address, true), second;

    must(first);
    must(second = bind_to(&address, true));
    if (on_rdma()) {
        must_fail(exs_listen(first, 1), EADDRINUSE);
        must(exs_blocking_close(second));
    }
    must(exs_listen(first, 1));
    must_fail(bind_to(&address, true), EADDRINUSE);
    must(exs_blocking_close(first));
    if (!on_rdma())
        must(exs_blocking_close(second));
    must(first = bind_to(&address, false));
    must_fail(bind_to(&address, true), EADDRINUSE);
    must(exs_blocking_close(first));
}
END_TEST

/* A listener of all IPv6 addresses accepts IPv4 clients, unless IPV6_V6ONLY is set. */
START_TEST(ipv6_only)
{
    struct address any = {.length = sizeof(struct sockaddr_in6)}, mapped;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&any.storage;
    exs_acceptaddr_t accepted = {0};
    struct inbox box;
    bool only = _i == 1;
    int listener = exs_socket(PF_INET6, SOCK_STREAM, 0), four = exs_socket(PF_INET, SOCK_STREAM, 0);

    inbox_open(&box, 4);
    six->sin6_family = AF_INET6;
    must_fail(set(four, IPPROTO_IPV6, IPV6_V6ONLY, 1), ENOPROTOOPT);
    must_fail(exs_setsockopt(four, SOL_SOCKET, SO_REUSEADDR, &(int){1}, (socklen_t)-1), EINVAL);
    must_fail(exs_getsockopt(four, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, &(socklen_t){sizeof(int)}),
              ENOPROTOOPT);
    must(set(listener, IPPROTO_IPV6, IPV6_V6ONLY, only));
    mapped = any;
    ((struct sockaddr_in6 *)&mapped.storage)->sin6_addr =
        (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
    if (only) {
        must_fail(exs_bind(listener, SA(&mapped), mapped.length), EINVAL);
        must_fail(exs_connect(listener, SA(&mapped), mapped.length, 0, NULL, box.queue, NULL), EINVAL);
    }
    must(exs_bind(listener, SA(&any), any.length));
    must_fail(set(listener, IPPROTO_IPV6, IPV6_V6ONLY, !only), EINVAL);
    must(exs_listen(listener, 2));
    must(exs_getsockname(listener, SA(&any), &any.length));
    must(exs_accept(listener, &accepted, 1, 0, box.queue));
    struct address to = loopback(AF_INET, port_of(&any));
    must(exs_connect(four, SA(&to), to.length, 0, NULL, box.queue, NULL));
    if (only) {
        take_failed(&box, EXS_EVT_CONNECT, four, ECONNREFUSED);
        must(exs_close(listener, 0, box.queue, NULL));
        take_failed(&box, EXS_EVT_ACCEPT, listener, ECANCELED);
        take_good(&box, EXS_EVT_CLOSE, listener);
    } else {
        take_good(&box, EXS_EVT_CONNECT, four);
        take_good(&box, EXS_EVT_ACCEPT, listener);
        close_socket(&box, accepted.exs_socket);
        must(exs_blocking_close(listener));
    }
    close_socket(&box, four);
    inbox_close(&box);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *values = add_case(suite, "values", 20), *bare = add_bare_case(suite, "SO_KEEPALIVE", 40),
          *addresses = add_case(suite, "addresses", 20);

    tcase_add_loop_test(values, held, 0, COUNT(numbers));
    tcase_add_test(values, listeners);
    tcase_add_loop_test(bare, peer_is_gone, 0, 2);
    tcase_add_loop_test(bare, peer_is_given_up, 0, 2);
    tcase_add_test(bare, peer_of_a_sleeper_is_gone);
    tcase_add_loop_test(bare, peer_is_there, 0, 2);
    tcase_add_test(bare, off);
    tcase_add_loop_test(addresses, reused, 0, 2);
    tcase_add_loop_test(addresses, ipv6_only, 0, 2);
    return run_suite(suite);
}
