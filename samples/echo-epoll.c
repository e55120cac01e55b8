/* SPDX-License-Identifier: BSD-2-Clause */
/* An echo server for TCP and EXS clients on one epoll instance. All EXS connections together need a single descriptor,
 * exs_qfd().
 *
 * Build: cc echo-epoll.c $(pkg-config --cflags --libs exs). Run: echo-epoll [EXS-PORT [TCP-PORT]]. */
#include <errno.h>
#include <exs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { SIZE = 16384 };

/* ---- EXS: completions. The program starts an operation; an event reports its completion ----------- */

static exs_acceptaddr_t every_one; /* used by the library while it accepts connections */

static void exs_handle(const exs_event_t *e, exs_qhandle_t queue)
{
    ssize_t result = exs_event_result(e); /* the new socket, bytes, or -errno */
    int sock = e->exs_evt_socket, type = e->exs_evt_type, rc = -1;
    char *buffer = e->exs_evt_ahandle; /* of this connection */

    if (type == EXS_EVT_CLOSE) {
        free(buffer);
        return;
    }
    if (type == EXS_EVT_ACCEPT) {
        sock = (int)result;
        if (result < 0)
            return;
        buffer = malloc(SIZE);
    }
    if (result >= 0 && type != EXS_EVT_RECV)
        rc = (int)exs_recv(sock, buffer, SIZE, 0, queue, buffer, NULL);
    else if (result > 0)
        rc = (int)exs_send(sock, buffer, (size_t)result, 0, queue, buffer, NULL);
    if (rc == -1) /* an error, or the client's end of stream */
        exs_close(sock, 0, queue, buffer);
}

static void exs_ready(exs_qhandle_t queue)
{
    exs_event_t events[64];
    int count; /* often 0: the library had work that led to no event */

    while ((count = exs_qpoll(queue, events, 64, EXS_LOOP_BUDGET)) > 0)
        for (int i = 0; i < count; i++)
            exs_handle(&events[i], queue);
    exs_qprepare(queue); /* must precede epoll_wait() */
}

/* ---- TCP: readiness. The kernel reports a ready descriptor; the program then tries an operation ---- */

struct tcp {
    int fd;
    ssize_t have, gone; /* bytes in the buffer, and how many of them were sent back */
    char buffer[SIZE];
};

static void tcp_accept(int epoll, int listener)
{
    struct tcp *tcp = calloc(1, sizeof(*tcp));
    struct epoll_event watch = {.events = EPOLLIN, .data.ptr = tcp};

    if (tcp == NULL || (tcp->fd = accept(listener, NULL, NULL)) == -1)
        free(tcp);
    else
        epoll_ctl(epoll, EPOLL_CTL_ADD, tcp->fd, &watch);
}

static void tcp_ready(int epoll, struct tcp *tcp)
{
    struct epoll_event watch = {.events = EPOLLIN, .data.ptr = tcp};

    if (tcp->gone == tcp->have) {
        tcp->gone = 0;
        tcp->have = recv(tcp->fd, tcp->buffer, SIZE, MSG_DONTWAIT);
    }
    ssize_t sent = tcp->have <= 0 ? tcp->have
                                  : send(tcp->fd, tcp->buffer + tcp->gone, (size_t)(tcp->have - tcp->gone),
                                         MSG_DONTWAIT | MSG_NOSIGNAL);
    if (tcp->have == 0 || (sent == -1 && errno != EAGAIN)) {
        close(tcp->fd);
        free(tcp);
        return;
    }
    if (tcp->have < 0) /* EAGAIN: no data had arrived */
        tcp->have = 0;
    else if (sent > 0)
        tcp->gone += sent;
    if (tcp->gone < tcp->have)
        watch.events = EPOLLOUT; /* the client reads too slowly: receive no more until it has */
    epoll_ctl(epoll, EPOLL_CTL_MOD, tcp->fd, &watch);
}

/* ---- Both ----------------------------------------------------------------------------------------- */

static struct sockaddr_in local(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int serve(exs_qhandle_t queue, int listener)
{
    struct epoll_event exs = {.events = EPOLLIN, .data.ptr = &exs};
    struct epoll_event tcp = {.events = EPOLLIN, .data.ptr = &tcp}, ready[64];
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    if (epoll == -1 || epoll_ctl(epoll, EPOLL_CTL_ADD, exs_qfd(queue), &exs) == -1 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &tcp) == -1)
        return -1;
    for (;;) {
        int count = epoll_wait(epoll, ready, 64, -1);

        for (int i = 0; i < count; i++) {
            if (ready[i].data.ptr == &exs)
                exs_ready(queue);
            else if (ready[i].data.ptr == &tcp)
                tcp_accept(epoll, listener);
            else
                tcp_ready(epoll, ready[i].data.ptr);
        }
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in exs = local(argc > 1 ? argv[1] : "7471"), tcp = local(argc > 2 ? argv[2] : "7470");
    socklen_t length = sizeof(exs);

    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        return 1;
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0), listener = socket(PF_INET, SOCK_STREAM, 0);
    exs_qhandle_t queue = exs_qcreate(64);
    if (exs_bind(sock, (struct sockaddr *)&exs, length) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
        exs_getsockname(sock, (struct sockaddr *)&exs, &length) == -1 ||
        bind(listener, (struct sockaddr *)&tcp, length) == -1 || listen(listener, 16) == -1 ||
        getsockname(listener, (struct sockaddr *)&tcp, &length) == -1 ||
        exs_accept(sock, &every_one, 1, EXS_MULTISHOT, queue) == -1) {
        perror("echo-epoll");
        return 1;
    }
    printf("waiting on port %u, for TCP on port %u\n", ntohs(exs.sin_port), ntohs(tcp.sin_port));
    fflush(stdout);
    serve(queue, listener);
    perror("echo-epoll");
    return 1;
}
