/* SPDX-License-Identifier: BSD-2-Clause */
/* Connects TCP programs over an RDMA network. One proxy runs on each host: the client's accepts TCP connections and
 * forwards them over EXS; the server's accepts EXS connections and forwards them over TCP.
 *
 * Build: cc tcp-proxy.c $(pkg-config --cflags --libs exs). Run, on the client's host: tcp-proxy tcp PORT HOST
 * PORT2; on the server's: tcp-proxy exs [ADDRESS:]PORT2 localhost PORT3. */
#define _DEFAULT_SOURCE /* POSIX's names, with -std=c11, too */
#include <arpa/inet.h>
#include <errno.h>
#include <exs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { SIZE = 256 * 1024 };

/* A TCP and an EXS connection, and a buffer for each direction. A direction has one operation at a time: the proxy
 * reads no more from one connection until all was written to the other. */
struct pair {
    int fd, sock;
    int connected;         /* sock is connected; until then fd is not read */
    int sending, fd_ended; /* fd to sock: a send is pending; fd has reached its end of stream */
    int sock_ended;        /* sock to fd: all data up to the end of stream were written */
    size_t have, gone;     /* bytes in from_sock; bytes of it that were written */
    int closing;
    char from_fd[SIZE], from_sock[SIZE];
};

static int epoll;
static exs_qhandle_t queue;
static const char *target_host, *target_port;

static int fail(const char *what)
{
    fprintf(stderr, "tcp-proxy: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Sets the events for which epoll watches fd. */
static void watch(struct pair *pair)
{
    struct epoll_event e = {.data.ptr = pair};

    if (pair->connected && !pair->sending && !pair->fd_ended)
        e.events |= EPOLLIN;
    if (pair->gone < pair->have)
        e.events |= EPOLLOUT;
    /* epoll always reports errors and hang-ups. Therefore fd is removed while the proxy waits for neither event. */
    epoll_ctl(epoll, EPOLL_CTL_DEL, pair->fd, NULL);
    if (e.events != 0)
        epoll_ctl(epoll, EPOLL_CTL_ADD, pair->fd, &e);
}

/* Closes both connections. The pair is freed at the close event, which is the last event of the socket. */
static void end(struct pair *pair)
{
    if (pair->closing)
        return;
    pair->closing = 1;
    close(pair->fd);
    exs_close(pair->sock, 0, queue, pair);
}

/* Resets both connections after a failure of one. An orderly close would make the received part look complete. */
static void break_off(struct pair *pair)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    if (pair->closing)
        return;
    setsockopt(pair->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    exs_setsockopt(pair->sock, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    end(pair);
}

static void end_if_both(struct pair *pair)
{
    if (pair->fd_ended && !pair->sending && pair->sock_ended)
        end(pair);
    else
        watch(pair);
}

/* ---- From TCP to EXS ----------------------------------------------------------------------------- */

static void read_fd(struct pair *pair)
{
    ssize_t length = recv(pair->fd, pair->from_fd, SIZE, MSG_DONTWAIT);
    int rc;

    if (length == -1 && errno == EAGAIN)
        return;
    pair->fd_ended = length == 0;
    pair->sending = 1;
    if (length > 0)
        rc = (int)exs_send(pair->sock, pair->from_fd, (size_t)length, 0, queue, pair, NULL);
    else
        rc = length == 0 ? exs_shutdown(pair->sock, SHUT_WR, 0, queue, pair) : -1;
    if (rc == -1)
        break_off(pair);
    else
        watch(pair);
}

static void sent(struct pair *pair)
{
    pair->sending = 0;
    end_if_both(pair);
}

/* ---- From EXS to TCP ----------------------------------------------------------------------------- */

static void write_fd(struct pair *pair)
{
    ssize_t length =
        send(pair->fd, pair->from_sock + pair->gone, pair->have - pair->gone, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (length > 0)
        pair->gone += (size_t)length;
    else if (errno != EAGAIN) {
        break_off(pair);
        return;
    }
    if (pair->gone == pair->have) {
        pair->gone = pair->have = 0;
        if (exs_recv(pair->sock, pair->from_sock, SIZE, 0, queue, pair, NULL) == -1) {
            break_off(pair);
            return;
        }
    }
    watch(pair);
}

static void received(struct pair *pair, size_t length)
{
    if (length == 0) {
        pair->sock_ended = 1;
        shutdown(pair->fd, SHUT_WR);
        end_if_both(pair);
        return;
    }
    pair->have = length;
    write_fd(pair);
}

/* ---- Connections --------------------------------------------------------------------------------- */

static struct pair *make_pair(int fd, int sock)
{
    struct pair *pair = calloc(1, sizeof(*pair));

    if (pair == NULL)
        fail("memory");
    pair->fd = fd;
    pair->sock = sock;
    return pair;
}

/* Called when both connections are established. */
static void begin(struct pair *pair)
{
    pair->connected = 1;
    if (exs_recv(pair->sock, pair->from_sock, SIZE, 0, queue, pair, NULL) == -1)
        break_off(pair);
    else
        watch(pair);
}

static void from_tcp(int listener)
{
    int fd = accept(listener, NULL, NULL), sock;

    if (fd == -1)
        return;
    sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    if (sock == -1) {
        close(fd);
        return;
    }
    struct pair *pair = make_pair(fd, sock);
    if (exs_connect_host(pair->sock, target_host, target_port, 0, NULL, queue, pair) == -1)
        break_off(pair);
}

/* Connects to the server, with blocking calls, because the server is near. */
static int connect_tcp(void)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found, *each;
    int fd = -1;

    if (getaddrinfo(target_host, target_port, &hints, &found) != 0)
        return -1;
    for (each = found; each != NULL && fd == -1; each = each->ai_next) {
        fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd != -1 && connect(fd, each->ai_addr, each->ai_addrlen) == -1) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static void from_exs(int sock)
{
    int fd = connect_tcp();

    if (fd == -1)
        exs_close(sock, 0, NULL, NULL);
    else
        begin(make_pair(fd, sock));
}

/* ---- The loop ------------------------------------------------------------------------------------ */

static void handle(const exs_event_t *e)
{
    struct pair *pair = e->exs_evt_ahandle;

    if (e->exs_evt_type == EXS_EVT_CLOSE)
        free(pair);
    else if (e->exs_evt_type == EXS_EVT_ACCEPT) {
        if (e->exs_evt_errno == 0)
            from_exs((int)exs_event_result(e));
    } else if (pair->closing)
        return;
    else if (e->exs_evt_errno != 0)
        break_off(pair);
    else if (e->exs_evt_type == EXS_EVT_CONNECT)
        begin(pair);
    else if (e->exs_evt_type == EXS_EVT_RECV)
        received(pair, (size_t)exs_event_result(e));
    else /* a send or the shutdown has completed */
        sent(pair);
}

static void exs_ready(void)
{
    const struct timeval now = {0};
    exs_event_t events[64];
    int count = exs_qdequeue(queue, events, 64, &now);

    for (int i = 0; i < count; i++)
        handle(&events[i]);
}

static void fd_ready(struct pair *pair, unsigned events)
{
    if (events & EPOLLOUT)
        write_fd(pair);
    else if (events & EPOLLIN)
        read_fd(pair);
    else /* EPOLLERR or EPOLLHUP alone */
        break_off(pair);
}

/* by_exs: the listener is an EXS socket, otherwise a TCP socket. */
static void run(int listener, int by_exs)
{
    struct epoll_event exs = {.events = EPOLLIN, .data.ptr = &exs}, tcp = {.events = EPOLLIN, .data.ptr = &tcp},
                       ready[1];

    epoll_ctl(epoll, EPOLL_CTL_ADD, exs_qfd(queue), &exs);
    if (!by_exs)
        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &tcp);
    /* One event at a time: handling it may free the pair of another event. */
    while (epoll_wait(epoll, ready, 1, -1) != -1 || errno == EINTR) {
        if (ready[0].data.ptr == &exs)
            exs_ready();
        else if (ready[0].data.ptr == &tcp)
            from_tcp(listener);
        else
            fd_ready(ready[0].data.ptr, ready[0].events);
    }
    fail("epoll_wait");
}

/* Parses [ADDRESS:]PORT. The default address is 127.0.0.1. */
static struct sockaddr_in listen_address(char *text)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char *colon = strchr(text, ':');

    if (colon != NULL) {
        *colon = '\0';
        if (inet_pton(AF_INET, text, &here.sin_addr) != 1)
            fail("the address to listen at");
        text = colon + 1;
    }
    here.sin_port = htons((uint16_t)strtoul(text, NULL, 10));
    return here;
}

int main(int argc, char **argv)
{
    static exs_acceptaddr_t every_one;
    int by_exs = argc == 5 && strcmp(argv[1], "exs") == 0, on = 1;

    if (argc != 5 || (!by_exs && strcmp(argv[1], "tcp") != 0)) {
        fprintf(stderr, "usage: tcp-proxy tcp|exs [ADDRESS:]PORT HOST PORT\n");
        return 2;
    }
    struct sockaddr_in here = listen_address(argv[2]);
    socklen_t length = sizeof(here);
    target_host = argv[3];
    target_port = argv[4];
    if (exs_init(EXS_VERSION) == -1)
        fail("exs_init");
    epoll = epoll_create1(EPOLL_CLOEXEC);
    queue = exs_qcreate(256);
    int sock = by_exs ? exs_socket(PF_INET, SOCK_STREAM, 0) : socket(PF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr *address = (struct sockaddr *)&here;
    if (by_exs ? exs_bind(sock, address, length) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
                     exs_getsockname(sock, address, &length) == -1 ||
                     exs_accept(sock, &every_one, 1, EXS_MULTISHOT, queue) == -1
               : setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1 ||
                     bind(sock, address, length) == -1 || listen(sock, 64) == -1 ||
                     getsockname(sock, address, &length) == -1)
        fail("listening");
    printf("waiting on port %u\n", ntohs(here.sin_port));
    fflush(stdout);
    run(sock, by_exs);
}
