/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_strangers.c - other programs that connect to the TCP port of a listener on the software device and do
 * not speak EXS's protocol. The listener keeps serving its clients, reports no event of the others to the
 * application, and keeps no descriptor for them.
 */
#include "check/support/support.h"

#include <poll.h>
#include "core/base/settings.h"

#define SOON_S (1.25 * LATE_S) /* s; 5 s on a machine that runs the suite at normal speed */

/* ---- A server that always has one accept pending -------------------------------------- */

static struct server {
    struct inbox box;
    struct address address, from;
    exs_acceptaddr_t wanted;
    int listener, fds;
    bool lenient; /* connections that start like those of a client may be accepted */
} server;

static void server_accept(void)
{
    server.from.length = sizeof server.from.storage;
    server.wanted = (exs_acceptaddr_t){.exs_addr = SA(&server.from), .exs_addrlen = server.from.length};
    must(exs_accept(server.listener, &server.wanted, 1, 0, server.box.queue));
}

/* Returns the socket of the next event, or -1 for a connection that ended before it was accepted. */
static int server_next(int *port)
{
    exs_event_t event = inbox_take(&server.box, EXS_EVT_ACCEPT, server.listener);
    int new = event.exs_evt_union.exs_evt_accept.exs_evt_newsocket;

    ck_assert_msg(event.exs_evt_errno == 0 || (server.lenient && event.exs_evt_errno == ECONNABORTED),
                  "an accept failed: %s", strerror(event.exs_evt_errno));
    ck_assert_int_eq(new >= 0, event.exs_evt_errno == 0);
    *port = new >= 0 ? port_of(&server.from) : 0;
    server_accept();
    return new;
}

/* Returns the socket of the client on this port. Closes other connections. */
static int server_accepted(int port)
{
    int from, new = server_next(&from);

    for (; from != port; new = server_next(&from)) {
        ck_assert_msg(server.lenient, "a stranger was accepted");
        if (new >= 0)
            close_socket(&server.box, new);
    }
    return new;
}

static void server_serves(void)
{
    struct inbox *box = &server.box;
    struct address mine = loopback(AF_INET, 0);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);
    double start = seconds_now();

    must(exs_bind(client, SA(&mine), mine.length));
    must(exs_getsockname(client, SA(&mine), &mine.length));
    must(exs_connect(client, SA(&server.address), server.address.length, 0, NULL, box->queue, NULL));
    int new = server_accepted(port_of(&mine));
    take_good(box, EXS_EVT_CONNECT, client);
    pass_bytes(box, client, box, new, 20000, 1);
    pass_bytes(box, new, box, client, 20000, 2);
    close_socket(box, client);
    close_socket(box, new);
    ck_assert_msg(seconds_now() - start < SOON_S, "a good client was served after %.1f s",
                  seconds_now() - start);
}

/* A queue creates its timer at the first connect. */
static void use_timer(void)
{
    int keep, client = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct address nobody = refusing_address(&keep);

    must(exs_connect(client, SA(&nobody), nobody.length, 0, NULL, server.box.queue, NULL));
    take_failed(&server.box, EXS_EVT_CONNECT, client, ECONNREFUSED);
    close_socket(&server.box, client);
    close(keep);
}

/* The device keeps one descriptor for all TCP connections, which it opens for the first one. */
static void use_tcp(void)
{
    const char *link = getenv("EXS_LINK");
    char *was = link != NULL ? strdup(link) : NULL;

    must(setenv("EXS_LINK", "tcp", 1));
    settings_read(NULL);
    server_serves();
    must(was != NULL ? setenv("EXS_LINK", was, 1) : unsetenv("EXS_LINK"));
    settings_read(NULL);
    free(was);
}

static void server_open(void)
{
    init_library();
    inbox_open(&server.box, 16);
    server.listener = open_listener(AF_INET, SOCK_STREAM, 512, &server.address);
    server_accept();
    use_tcp();
    /* last: after a connection over UDP the device keeps a socket, until a connection ends that does not use
     * UDP */
    server_serves();
    use_timer();
    server.fds = count_fds();
}

/* The library closes everything that it opened for other programs, soon after they are gone. */
static void server_close(void)
{
    double end = seconds_now() + SOON_S;
    int port;

    do {
        inbox_pump(&server.box, 10);
        while (server.lenient && server.box.count) { /* connections of other programs that were accepted */
            int new = server_next(&port);
            if (new >= 0)
                close_socket(&server.box, new);
        }
    } while (count_fds() > server.fds && seconds_now() < end);
    ck_assert_int_le(count_fds(), server.fds);
    inbox_quiet(&server.box, QUIET_MS);
    server_serves();
    must(exs_close(server.listener, 0, server.box.queue, NULL));
    take_failed(&server.box, EXS_EVT_ACCEPT, server.listener, ECANCELED);
    take_good(&server.box, EXS_EVT_CLOSE, server.listener);
    inbox_close(&server.box);
}

/* ---- Other programs ------------------------------------------------------------------ */

static int stranger(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd);
    must(connect(fd, SA(&server.address), server.address.length));
    return fd;
}

/* Sends as many bytes as the other side takes; it may close the connection in the middle. */
static void say(int fd, const void *bytes, size_t length)
{
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    size_t said = 0;

    while (said < length) {
        ssize_t n = send(fd, (const char *)bytes + said, length - said, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return;
        said += n > 0 ? (size_t)n : 0;
        inbox_pump(&server.box, 0);
        if (n < 0 && poll(&wait, 1, 100) == 0)
            return;
    }
}

static void say_text(int fd, const char *text)
{
    say(fd, text, strlen(text));
}

static void say_noise(int fd, size_t length, uint64_t seed)
{
    char *noise = new_buffer(length);

    pattern_fill(noise, length, seed, 0);
    say(fd, noise, length);
    free(noise);
}

static void hang_up_hard(int fd)
{
    struct linger now = {1, 0};

    must(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now));
    close(fd);
}

enum { SILENT, HTTP, NOISE, ONE_BYTE, ZEROS, ONES, HALF_CLOSED, KINDS };

static int strange(int kind, uint64_t seed)
{
    static const char zeros[4096];
    int fd = stranger();

    if (kind == HTTP)
        say_text(fd, "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a stranger\r\n\r\n");
    else if (kind == NOISE)
        say_noise(fd, MIB, seed);
    else if (kind == ONE_BYTE)
        say(fd, "E", 1);
    else if (kind == ZEROS)
        say(fd, zeros, sizeof zeros);
    else if (kind == ONES)
        for (int i = 0; i < 64; i++)
            say(fd, &(uint64_t){UINT64_MAX}, 8);
    else if (kind == HALF_CLOSED)
        shutdown(fd, SHUT_WR);
    return fd;
}

START_TEST(stranger_stays_and_leaves)
{
    int fds[5];

    for (int hard = 0; hard < 2; hard++) {
        for (int i = 0; i < COUNT(fds); i++)
            fds[i] = strange(_i, (uint64_t)i);
        server_serves();
        inbox_quiet(&server.box, QUIET_MS);
        for (int i = 0; i < COUNT(fds); i++)
            hard ? hang_up_hard(fds[i]) : (void)close(fds[i]);
        server_serves();
    }
}
END_TEST

START_TEST(stranger_leaves_at_once)
{
    for (int i = 0; i < 50; i++) {
        int fd = strange(i % KINDS == NOISE ? HTTP : i % KINDS, 0);
        i % 2 ? hang_up_hard(fd) : (void)close(fd);
    }
    server_serves();
}
END_TEST

START_TEST(hundreds_at_once)
{
    int fds[300];

    for (int i = 0; i < COUNT(fds); i++)
        fds[i] = strange(i % 60 == 0 ? NOISE : i % KINDS == NOISE ? SILENT : i % KINDS, (uint64_t)i);
    for (int i = 0; i < 3; i++)
        server_serves();
    for (int i = 0; i < COUNT(fds); i++)
        close(fds[i]);
    server_serves();
}
END_TEST

/* ---- Programs that start like a client ------------------------------------------------ */

static struct {
    char bytes[4000];
    size_t length;
} hello; /* a client's first message */

/* Accepts an EXS client's connection on a TCP listener. The client progresses only when its queue is polled. */
static int accept_client(int listener)
{
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    double end = seconds_now() + WAIT_MS / 1e3;

    while (poll(&wait, 1, 0) == 0 && seconds_now() < end)
        inbox_pump(&server.box, 10);
    ck_assert_msg(poll(&wait, 1, 0) == 1, "the client does not connect");
    int fd = accept(listener, NULL, NULL);
    must(fd);
    return fd;
}

/* Records what an EXS client sends to a TCP listener. */
static void record_hello(void)
{
    struct address address;
    int listener = tcp_listener(&address), client = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(exs_connect(client, SA(&address), address.length, 0, NULL, server.box.queue, NULL));
    int fd = accept_client(listener);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    double end = seconds_now() + WAIT_MS / 1e3;
    while (hello.length == 0 && seconds_now() < end) {
        inbox_pump(&server.box, 10);
        if (poll(&wait, 1, 0) == 1)
            hello.length = (size_t)recv(fd, hello.bytes, sizeof hello.bytes, 0);
    }
    ck_assert_msg(hello.length > 0 && hello.length < sizeof hello.bytes, "a client says %zu bytes",
                  hello.length);
    close(fd);
    close(listener);
    exs_event_t event = inbox_take(&server.box, EXS_EVT_CONNECT, client);
    ck_assert_int_ne(event.exs_evt_errno, 0);
    close_socket(&server.box, client);
}

static void say_and_leave(const void *bytes, size_t length)
{
    int fd = stranger();

    say(fd, bytes, length);
    close(fd);
}

START_TEST(half_a_hello)
{
    record_hello();
    for (size_t length = 0; length < hello.length; length += 1 + hello.length / 100)
        say_and_leave(hello.bytes, length);
    say_and_leave(hello.bytes + 1, hello.length - 1);
    say_and_leave(hello.bytes + hello.length / 2, hello.length - hello.length / 2);
    server_serves();
}
END_TEST

START_TEST(wrong_hello)
{
    char bytes[2 * sizeof hello.bytes];

    server.lenient = true;
    record_hello();
    for (size_t i = 0; i < hello.length; i += 1 + hello.length / 100) {
        memcpy(bytes, hello.bytes, hello.length);
        bytes[i] ^= (char)0xFF;
        say_and_leave(bytes, hello.length);
    }
    memcpy(bytes, hello.bytes, hello.length);
    memcpy(bytes + hello.length, hello.bytes, hello.length);
    say_and_leave(bytes, 2 * hello.length);
    pattern_fill(bytes + hello.length, hello.length, 5, 0);
    say_and_leave(bytes, 2 * hello.length);
    server_serves();
}
END_TEST

/* ---- Servers that do not speak the protocol ------------------------------------------- */

START_TEST(strange_server)
{
    struct address address;
    int listener = tcp_listener(&address), client = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(exs_connect(client, SA(&address), address.length, 0, NULL, server.box.queue, NULL));
    int fd = accept_client(listener);
    if (_i == 1)
        say_text(fd, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    else if (_i == 2)
        say_noise(fd, MIB, 4);
    else if (_i == 3)
        say_text(fd, "SSH-2.0-OpenSSH\r\n");
    double start = seconds_now();
    _i == 0 ? hang_up_hard(fd) : (void)close(fd);
    exs_event_t event = inbox_take(&server.box, EXS_EVT_CONNECT, client);
    ck_assert_int_ne(event.exs_evt_errno, 0);
    ck_assert(seconds_now() - start < SOON_S);
    close_socket(&server.box, client);
    close(listener);
}
END_TEST

/* The server sends what no EXS sends, or returns the client's own message, and keeps the connection open. The
 * client does not wait for more. */
START_TEST(strange_server_stays)
{
    static const char *const words[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH\r\n", "H", NULL};
    struct address address;
    int listener = tcp_listener(&address), client = exs_socket(PF_INET, SOCK_STREAM, 0);
    char bytes[4000];

    must(exs_connect(client, SA(&address), address.length, 0, NULL, server.box.queue, NULL));
    int fd = accept_client(listener);
    double start = seconds_now();

    if (words[_i] != NULL) {
        say_text(fd, words[_i]);
    } else {
        struct pollfd wait = {.fd = fd, .events = POLLIN};

        while (poll(&wait, 1, 0) == 0 && seconds_now() < start + SOON_S)
            inbox_pump(&server.box, 10);
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);

        ck_assert_int_gt(got, 0);
        say(fd, bytes, (size_t)got);
    }
    exs_event_t event = inbox_take(&server.box, EXS_EVT_CONNECT, client);

    ck_assert_int_eq(event.exs_evt_errno, EPROTO);
    ck_assert(seconds_now() - start < SOON_S);
    close_socket(&server.box, client);
    close(fd);
    close(listener);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("strangers");
    TCase *strangers = add_bare_case(suite, "strangers", 30), *alike = add_bare_case(suite, "look-alikes", 30),
          *servers = add_bare_case(suite, "servers", 30);

    tcase_add_checked_fixture(strangers, server_open, server_close);
    tcase_add_loop_test(strangers, stranger_stays_and_leaves, 0, KINDS);
    tcase_add_test(strangers, stranger_leaves_at_once);
    tcase_add_test(strangers, hundreds_at_once);
    tcase_add_checked_fixture(alike, server_open, server_close);
    tcase_add_test(alike, half_a_hello);
    tcase_add_test(alike, wrong_hello);
    tcase_add_checked_fixture(servers, server_open, server_close);
    tcase_add_loop_test(servers, strange_server, 0, 4);
    tcase_add_loop_test(servers, strange_server_stays, 0, 4);
    return run_suite(suite);
}
