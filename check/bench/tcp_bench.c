/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp_bench.c - the benchmark of TCP, for comparison with exs_bench; on a libev loop at both sides. */
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "bench.h"

static struct bench bench;
static char *buffer;
static int file = -1;
static uint64_t moved; /* bytes; round trips */
static size_t partial; /* bytes received in the current round trip */
static ev_io *readers; /* of the connections */

/* Exits with a message: recv() has failed, or the stream ended too early. */
static _Noreturn void fail_to_receive(ssize_t got)
{
    if (got == -1)
        bench_fail("recv");
    fprintf(stderr,
            "tcp_bench: the other side ended early, after %" PRIu64 " of %" PRIu64 " bytes or round trips\n",
            moved, bench.total);
    exit(1);
}

static void receive_cb(EV_P_ ev_io *w, int revents)
{
    ssize_t got = recv(w->fd, buffer, bench.size, 0);

    (void)revents;
    if (got == -1 && errno == EAGAIN)
        return;
    if (got <= 0)
        fail_to_receive(got);
    moved += (uint64_t)got;
    bench_done(&bench, moved);
    if (moved == bench.total) {
        if (send(w->fd, "", 1, 0) != 1)
            bench_fail("send");
        ev_break(EV_A_ EVBREAK_ALL);
    }
}

static void send_cb(EV_P_ ev_io *w, int revents)
{
    size_t left = (size_t)(bench.total - moved), at = moved % bench.size;
    size_t want = bench.size - at < left ? bench.size - at : left;
    off_t offset = (off_t)moved;
    ssize_t sent;

    (void)revents;
    if (bench.mode == BENCH_FILE)
        sent = sendfile(w->fd, file, &offset, left);
    else
        sent = send(w->fd, buffer + at, want, MSG_NOSIGNAL);
    if (sent == -1 && errno != EAGAIN)
        bench_fail("send");
    if (sent > 0)
        moved += (uint64_t)sent;
    bench_done(&bench, moved);
    if (moved == bench.total)
        ev_io_stop(EV_A_ w);
}

static void answer_cb(EV_P_ ev_io *w, int revents)
{
    char answer;
    ssize_t got = recv(w->fd, &answer, 1, 0);

    (void)revents;
    if (got != 1)
        fail_to_receive(got);
    ev_break(EV_A_ EVBREAK_ALL);
}

static void throw_ball(int fd)
{
    if (send(fd, buffer, bench.size, MSG_NOSIGNAL) != (ssize_t)bench.size)
        bench_fail("send");
}

static void ping_cb(EV_P_ ev_io *w, int revents)
{
    ssize_t got = recv(w->fd, buffer, bench.size - partial, 0);

    (void)revents;
    if (got == 0 && bench.serve && moved == bench.total) {
        ev_break(EV_A_ EVBREAK_ALL); /* the client has received all */
        return;
    }
    if (got <= 0)
        fail_to_receive(got);
    partial += (size_t)got;
    if (partial < bench.size)
        return;
    partial = 0;
    moved++;
    if (bench.serve)
        throw_ball(w->fd);
    else if (moved < bench.total)
        throw_ball(readers[moved % bench.connections].fd);
    else
        ev_break(EV_A_ EVBREAK_ALL);
    bench_done(&bench, moved);
}

static void make_ready(int sock)
{
    int one = 1;

    if (sock == -1 || setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == -1 ||
        (bench.mode != BENCH_CALLS && fcntl(sock, F_SETFL, O_NONBLOCK) == -1))
        bench_fail("socket");
}

/* Sets the congestion control. Accepted sockets inherit it from the listener. */
static void set_congestion_control(int sock)
{
    const char *name = getenv("BENCH_TCP_CONGESTION");

    if (name != NULL && setsockopt(sock, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == -1)
        bench_fail("BENCH_TCP_CONGESTION");
}

/* Establishes all connections, and stores them in their readers. */
static void open_sockets(void)
{
    int listener = bench.serve ? socket(AF_INET, SOCK_STREAM, 0) : -1;
    socklen_t length = sizeof(bench.address);

    if (bench.serve) {
        set_congestion_control(listener);
        if (bind(listener, (struct sockaddr *)&bench.address, length) == -1 || listen(listener, 128) == -1 ||
            getsockname(listener, (struct sockaddr *)&bench.address, &length) == -1)
            bench_fail("listen");
        printf("%u\n", ntohs(bench.address.sin_port));
        fflush(stdout);
    }
    for (size_t i = 0; i < bench.connections; i++) {
        int sock = bench.serve ? accept(listener, NULL, NULL) : socket(AF_INET, SOCK_STREAM, 0);

        if (!bench.serve)
            set_congestion_control(sock);
        if (!bench.serve && connect(sock, (struct sockaddr *)&bench.address, length) == -1)
            bench_fail("connect");
        make_ready(sock);
        readers[i].fd = sock;
    }
    if (bench.serve)
        close(listener);
}

static void run_calls(int sock)
{
    bench_start(&bench);
    for (uint64_t i = 0; i < bench.total; i++) {
        if (!bench.serve)
            throw_ball(sock);

        ssize_t got = recv(sock, buffer, bench.size, MSG_WAITALL);

        if (got != (ssize_t)bench.size)
            fail_to_receive(got);
        if (bench.serve)
            throw_ball(sock);
        bench_done(&bench, i + 1);
    }
    bench_print(&bench);
}

static void run_loop(struct ev_loop *loop)
{
    ev_io writer;

    for (size_t i = 0; i < bench.connections; i++) {
        ev_io_init(&readers[i],
                   bench.mode == BENCH_PING ? ping_cb
                   : bench.serve            ? receive_cb
                                            : answer_cb,
                   readers[i].fd, EV_READ);
        ev_io_start(EV_A_ & readers[i]);
    }
    ev_io_init(&writer, send_cb, readers[0].fd, EV_WRITE);
    bench_start(&bench);
    if (!bench.serve && bench.mode == BENCH_PING)
        throw_ball(readers[0].fd);
    else if (!bench.serve)
        ev_io_start(EV_A_ & writer);
    ev_run(EV_A_ 0);
    bench_print(&bench);
}

int main(int argc, char **argv)
{
    bench_parse(&bench, argc, argv);
    buffer = calloc(1, bench.size);
    readers = calloc(bench.connections, sizeof(*readers));
    if (buffer == NULL || readers == NULL)
        bench_fail("buffer");
    if (bench.path != NULL && (file = open(bench.path, O_RDONLY)) == -1)
        bench_fail(bench.path);
    open_sockets();
    if (bench.mode == BENCH_CALLS)
        run_calls(readers[0].fd);
    else
        run_loop(EV_DEFAULT);
    for (size_t i = 0; i < bench.connections; i++)
        close(readers[i].fd);
    free(readers);
    free(buffer);
    return 0;
}
