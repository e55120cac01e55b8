/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * incast.c - many clients, each a process, stream to one server at the same time, after all are connected. Prints the
 * server's GB/s.
 *
 *   incast exs|tcp CLIENTS MIB
 *
 * Exits with status 1 and a message if a connection is lost or no data arrive for SILENCE milliseconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <exs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20)
#define SILENCE 20000 /* ms */
#define EVENTS 32

static unsigned clients, connected;
static uint64_t pieces; /* to send by each client */
static struct sockaddr_in address;
static int tell[2], go[2]; /* pipes to the clients: the server's address; a byte that starts the streaming */
static double started;

_Noreturn static void fail(const char *what)
{
    perror(what);
    _exit(1);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char *new_buffer(void)
{
    char *buffer = malloc(PIECE);

    if (buffer == NULL)
        fail("malloc");
    return memset(buffer, 7, PIECE);
}

/* ---- Synchronization: streaming starts after all clients are connected ---- */

static void tell_clients(int by, const void *what, size_t length)
{
    for (unsigned i = 0; i < clients; i++)
        if (write(by, what, length) != (ssize_t)length)
            fail("write");
}

static void count_client(void)
{
    if (++connected < clients)
        return;
    started = now();
    tell_clients(go[1], "", 1);
}

static void await_others(void)
{
    char byte;

    if (read(go[0], &byte, 1) != 1)
        fail("read");
}

/* ---- EXS ---- */

static exs_mhandle_t registered(char *buffer)
{
    exs_mhandle_t region = exs_mregister(buffer, PIECE, 0);

    if (region == EXS_MHANDLE_INVALID)
        fail("exs_mregister");
    return region;
}

static void exs_client(void)
{
    char *buffer = new_buffer();
    exs_mhandle_t region;
    int s;

    if (exs_init(EXS_VERSION) == -1 || (s = exs_socket(PF_INET, SOCK_STREAM, 0)) == -1)
        fail("exs_socket");
    if (exs_blocking_connect(s, (struct sockaddr *)&address, sizeof address) == -1)
        fail("exs_blocking_connect");
    region = registered(buffer);
    await_others();
    for (uint64_t i = 0; i < pieces; i++)
        if (exs_blocking_send(s, buffer, PIECE, 0, region) != (ssize_t)PIECE)
            fail("exs_blocking_send");
    if (exs_blocking_close(s) == -1)
        fail("exs_blocking_close");
}

static exs_qhandle_t queue;

static void exs_start(void)
{
    exs_acceptaddr_t *elements = calloc(clients, sizeof *elements);
    socklen_t length = sizeof address;
    int s;

    if (exs_init(EXS_VERSION) == -1 || (s = exs_socket(PF_INET, SOCK_STREAM, 0)) == -1 ||
        exs_bind(s, (struct sockaddr *)&address, length) == -1 || exs_listen(s, (int)clients) == -1 ||
        exs_getsockname(s, (struct sockaddr *)&address, &length) == -1)
        fail("exs_listen");
    queue = exs_qcreate(2 * EVENTS);
    if (elements == NULL || queue == EXS_QHANDLE_INVALID ||
        exs_accept(s, elements, (int)clients, 0, queue) == -1)
        fail("exs_accept");
}

static void exs_next(int s, char *buffer, exs_mhandle_t region)
{
    if (exs_recv(s, buffer, PIECE, 0, queue, region, region) == -1)
        fail("exs_recv");
}

/* Handles an event. Returns the bytes received. */
static size_t exs_take(const exs_event_t *event, unsigned *open)
{
    const exs_evt_xfer_t *xfer = &event->exs_evt_union.exs_evt_xfer;

    errno = event->exs_evt_errno;
    if (errno != 0)
        fail(exs_strevent(event->exs_evt_type));
    if (event->exs_evt_type == EXS_EVT_ACCEPT) {
        char *buffer = new_buffer();

        exs_next(event->exs_evt_union.exs_evt_accept.exs_evt_newsocket, buffer, registered(buffer));
        count_client();
        return 0;
    }
    if (event->exs_evt_type != EXS_EVT_RECV)
        return 0;
    if (xfer->exs_evt_length > 0) {
        exs_next(event->exs_evt_socket, xfer->exs_evt_buffer, event->exs_evt_ahandle);
        return xfer->exs_evt_length;
    }
    --*open;
    if (exs_close(event->exs_evt_socket, 0, queue, NULL) == -1)
        fail("exs_close");
    return 0;
}

static uint64_t exs_serve(void)
{
    struct pollfd ready = {.fd = exs_qfd(queue), .events = POLLIN};
    struct timeval none = {0, 0};
    exs_event_t events[EVENTS];
    uint64_t got = 0;
    unsigned open = clients;

    while (open > 0) {
        if (poll(&ready, 1, SILENCE) != 1) {
            errno = ETIMEDOUT;
            fail("waiting for clients");
        }
        for (int i = 0, count = exs_qdequeue(queue, events, EVENTS, &none); i < count; i++)
            got += exs_take(&events[i], &open);
    }
    return got;
}

/* ---- TCP ---- */

static void tcp_client(void)
{
    char *buffer = new_buffer();
    int s = socket(PF_INET, SOCK_STREAM, 0);

    if (s == -1 || connect(s, (struct sockaddr *)&address, sizeof address) == -1)
        fail("connect");
    await_others();
    for (uint64_t left = pieces * PIECE; left > 0;) {
        ssize_t sent = send(s, buffer, left < PIECE ? left : PIECE, 0);

        if (sent <= 0)
            fail("send");
        left -= (uint64_t)sent;
    }
    close(s);
}

static int tcp_listener;

static void tcp_start(void)
{
    socklen_t length = sizeof address;

    tcp_listener = socket(PF_INET, SOCK_STREAM, 0);
    if (tcp_listener == -1 || bind(tcp_listener, (struct sockaddr *)&address, length) == -1 ||
        listen(tcp_listener, (int)clients) == -1 ||
        getsockname(tcp_listener, (struct sockaddr *)&address, &length) == -1)
        fail("listen");
}

static void tcp_watch(int epoll, int s)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = s};

    if (s == -1 || epoll_ctl(epoll, EPOLL_CTL_ADD, s, &event) == -1)
        fail("epoll_ctl");
}

static uint64_t tcp_serve(void)
{
    int epoll = epoll_create1(0), count;
    struct epoll_event events[EVENTS];
    char *buffer = new_buffer();
    uint64_t got = 0;
    unsigned open = clients;

    tcp_watch(epoll, tcp_listener);
    while (open > 0) {
        if ((count = epoll_wait(epoll, events, EVENTS, SILENCE)) <= 0)
            fail("waiting for clients");
        for (int i = 0; i < count; i++) {
            ssize_t bytes;

            if (events[i].data.fd == tcp_listener) {
                tcp_watch(epoll, accept(tcp_listener, NULL, NULL));
                count_client();
                continue;
            }
            if ((bytes = recv(events[i].data.fd, buffer, PIECE, 0)) == -1)
                fail("recv");
            got += (uint64_t)bytes;
            if (bytes == 0) {
                close(events[i].data.fd);
                open--;
            }
        }
    }
    return got;
}

/* ---- Both ---- */

static const struct kind {
    const char *name;
    void (*start)(void);
    uint64_t (*serve)(void);
    void (*client)(void);
} kinds[] = {{"exs", exs_start, exs_serve, exs_client}, {"tcp", tcp_start, tcp_serve, tcp_client}};

/* Forks the clients before the server opens its device, which a child must not inherit. They wait for the address. */
static void fork_clients(const struct kind *kind)
{
    for (unsigned i = 0; i < clients; i++) {
        pid_t pid = fork();

        if (pid == -1)
            fail("fork");
        if (pid == 0) {
            close(tell[1]);
            close(go[1]);
            if (read(tell[0], &address, sizeof address) != (ssize_t)sizeof address)
                _exit(1);
            kind->client();
            _exit(0);
        }
    }
}

static bool all_well(void)
{
    bool well = true;
    int status;

    while (wait(&status) > 0)
        well = well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return well;
}

int main(int argc, char **argv)
{
    const struct kind *kind = argc == 4 && strcmp(argv[1], "tcp") == 0 ? &kinds[1] : &kinds[0];
    uint64_t got;

    if (argc != 4 || strcmp(argv[1], kind->name) != 0 ||
        (clients = (unsigned)strtoul(argv[2], NULL, 10)) == 0 || (pieces = strtoull(argv[3], NULL, 10)) == 0) {
        fprintf(stderr, "usage: incast exs|tcp CLIENTS MIB\n");
        return 2;
    }
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (pipe(tell) == -1 || pipe(go) == -1)
        fail("pipe");
    fork_clients(kind);
    close(tell[0]);
    kind->start();
    tell_clients(tell[1], &address, sizeof address);
    got = kind->serve();
    if (!all_well() || got != clients * pieces * PIECE) {
        fprintf(stderr, "incast %s: %llu of %llu bytes came\n", kind->name, (unsigned long long)got,
                (unsigned long long)(clients * pieces * PIECE));
        return 1;
    }
    printf("%.4f\n", (double)got / 1e9 / (now() - started));
    return 0;
}
