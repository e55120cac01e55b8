/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connect_bench.c - measures the time to establish a connection: TOTAL connections, N pending at a time. Both ends
 * close each connection as soon as it is established. Uses EXS or, with BENCH_BY_TCP, TCP with libev. The command line
 * is that of bench.h, with the work connect/N.
 */
#include <errno.h>
#include <exs_ev.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define BACKLOG 1024

static struct bench bench;
static int listener = -1;
static uint64_t begun, made, closed; /* numbers of connections; begun, in a server: accepts started */

static void count_connection(void)
{
    bench_done(&bench, ++made);
}

static void print_port(void)
{
    printf("%u\n", ntohs(bench.address.sin_port));
    fflush(stdout);
}

/* ---- EXS ---- */

static exs_qhandle_t queue;

static void begin_next(void)
{
    static exs_acceptaddr_t accepted; /* shared by all accepts, because the benchmark does not read it */

    if (begun == bench.total)
        return;
    begun++;
    if (bench.serve) {
        if (exs_accept(listener, &accepted, 1, 0, queue) == -1)
            bench_fail("exs_accept");
        return;
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);

    if (exs_connect(sock, (struct sockaddr *)&bench.address, sizeof(bench.address), 0, NULL, queue, NULL) == -1)
        bench_fail("exs_connect");
}

static void end_connection(int sock)
{
    count_connection();
    if (exs_close(sock, 0, queue, NULL) == -1)
        bench_fail("exs_close");
    begin_next();
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)w;
    for (exs_event_t *e = events; e < events + count; e++) {
        if (e->exs_evt_type == EXS_EVT_CLOSE) {
            closed++; /* also with an error, if the peer closed first */
            continue;
        }
        if (e->exs_evt_errno != 0) {
            errno = e->exs_evt_errno;
            bench_fail(exs_strevent(e->exs_evt_type));
        }
        end_connection(e->exs_evt_type == EXS_EVT_ACCEPT ? e->exs_evt_union.exs_evt_accept.exs_evt_newsocket
                                                         : e->exs_evt_socket);
    }
    if (closed == bench.total)
        ev_break(EV_A_ EVBREAK_ALL);
}

static void listen_exs(void)
{
    socklen_t length = sizeof(bench.address);

    listener = exs_socket(PF_INET, SOCK_STREAM, 0);
    if (exs_bind(listener, (struct sockaddr *)&bench.address, length) == -1 ||
        exs_listen(listener, BACKLOG) == -1 ||
        exs_getsockname(listener, (struct sockaddr *)&bench.address, &length) == -1)
        bench_fail("listen");
    print_port();
}

static void run_exs(struct ev_loop *loop)
{
    exs_ev watcher;

    if (exs_init(EXS_VERSION) == -1 || (queue = exs_qcreate(0)) == EXS_QHANDLE_INVALID)
        bench_fail("exs_init");
    exs_ev_init(&watcher, events_cb, queue);
    exs_ev_start(EV_A_ & watcher);
    if (bench.serve)
        listen_exs();
    bench_start(&bench);
    for (size_t i = 0; i < bench.connections; i++)
        begin_next();
    ev_run(EV_A_ 0);
    bench_print(&bench);
    exs_ev_stop(EV_A_ & watcher);
}

/* ---- TCP ---- */

static void connected_cb(EV_P_ ev_io *w, int revents);

static void connect_next(EV_P_ ev_io *w)
{
    if (begun == bench.total)
        return;
    begun++;
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (sock == -1 ||
        (connect(sock, (struct sockaddr *)&bench.address, sizeof(bench.address)) == -1 && errno != EINPROGRESS))
        bench_fail("connect");
    ev_io_init(w, connected_cb, sock, EV_WRITE);
    ev_io_start(EV_A_ w);
}

static void connected_cb(EV_P_ ev_io *w, int revents)
{
    socklen_t length = sizeof(errno);

    (void)revents;
    if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &errno, &length) == -1 || errno != 0)
        bench_fail("connect");
    ev_io_stop(EV_A_ w);
    close(w->fd);
    count_connection();
    connect_next(EV_A_ w);
    if (made == bench.total)
        ev_break(EV_A_ EVBREAK_ALL);
}

static void accept_cb(EV_P_ ev_io *w, int revents)
{
    int sock;

    (void)revents;
    while (made < bench.total && (sock = accept(w->fd, NULL, NULL)) != -1) {
        close(sock);
        count_connection();
    }
    if (made == bench.total)
        ev_break(EV_A_ EVBREAK_ALL);
}

static void run_tcp(struct ev_loop *loop)
{
    ev_io *watchers = calloc(bench.connections, sizeof(*watchers));
    socklen_t length = sizeof(bench.address);

    if (watchers == NULL)
        bench_fail("watchers");
    if (bench.serve) {
        listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (bind(listener, (struct sockaddr *)&bench.address, length) == -1 ||
            listen(listener, BACKLOG) == -1 ||
            getsockname(listener, (struct sockaddr *)&bench.address, &length) == -1)
            bench_fail("listen");
        print_port();
        ev_io_init(watchers, accept_cb, listener, EV_READ);
        ev_io_start(EV_A_ watchers);
    }
    bench_start(&bench);
    for (size_t i = 0; i < bench.connections && !bench.serve; i++)
        connect_next(EV_A_ & watchers[i]);
    ev_run(EV_A_ 0);
    bench_print(&bench);
    free(watchers);
}

int main(int argc, char **argv)
{
    bench_parse(&bench, argc, argv);
    if (bench.mode != BENCH_CONNECT) {
        fprintf(stderr, "connect_bench: the work must be connect/N\n");
        return 2;
    }
    if (getenv("BENCH_BY_TCP") != NULL)
        run_tcp(EV_DEFAULT);
    else
        run_exs(EV_DEFAULT);
    return 0;
}
