/* SPDX-License-Identifier: BSD-2-Clause */
/* EXS over an exs_ev watcher on a libev loop on either side. */
#include <exs_ev.h>
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum { WINDOW = 8 }; /* sends or receives outstanding */

static struct bench bench;
static char *buffers; /* WINDOW of bench.size bytes, registered */
static exs_mhandle_t region;
static exs_qhandle_t queue;
static int sock = -1;
static uint64_t posted, moved; /* bytes, or round trips */
static exs_xferfile_t element;
static char answer;

static void post_receive(char *buffer, size_t size)
{
    if (exs_recv(sock, buffer, size, bench.mode == BENCH_PING ? MSG_WAITALL : 0, queue, NULL, region) == -1)
        bench_fail("exs_recv");
}

static void post_send(char *buffer)
{
    size_t size = bench.size;

    if (bench.mode == BENCH_STREAM && bench.total - posted < size)
        size = (size_t)(bench.total - posted);
    if (exs_send(sock, buffer, size, 0, queue, NULL, region) == -1)
        bench_fail("exs_send");
    posted += size;
}

static void start_file(void)
{
    element.exs_xfv_type = EXS_FDVEC;
    element.exs_xfv.exs_fdv.exs_fildes = open(bench.path, O_RDONLY);
    element.exs_xfv.exs_fdv.exs_length = bench.total;
    if (exs_sendfile(sock, &element, 1, EXS_BIGFILE, queue, NULL) == -1)
        bench_fail("exs_sendfile");
    close(element.exs_xfv.exs_fdv.exs_fildes); /* the library has one of its own */
}

/* What a side does when it has a connection. */
static void start(void)
{
    bench_start(&bench);
    if (bench.mode == BENCH_PING) {
        post_receive(buffers, bench.size);
        if (!bench.serve)
            post_send(buffers + bench.size);
    } else if (bench.serve) {
        for (int i = 0; i < WINDOW; i++)
            post_receive(buffers + (size_t)i * bench.size, bench.size);
    } else {
        if (exs_recv(sock, &answer, 1, 0, queue, NULL, NULL) == -1)
            bench_fail("exs_recv");
        if (bench.mode == BENCH_FILE)
            start_file();
        for (int i = 0; i < WINDOW && bench.mode == BENCH_STREAM && posted < bench.total; i++)
            post_send(buffers + (size_t)i * bench.size);
    }
}

static void received(EV_P_ const exs_evt_xfer_t *xfer)
{
    if (xfer->exs_evt_length == 0 && bench.serve && moved == bench.total)
        return; /* the client has its answer, and has left */
    if (xfer->exs_evt_length == 0) {
        errno = ECONNRESET;
        bench_fail("the other side ended");
    }
    if (bench.mode == BENCH_PING) {
        moved++;
        if (moved < bench.total)
            post_receive(buffers, bench.size);
        if (bench.serve || moved < bench.total)
            post_send(buffers + bench.size);
        if (moved == bench.total && !bench.serve)
            ev_break(EV_A_ EVBREAK_ALL);
    } else if (bench.serve) {
        moved += xfer->exs_evt_length;
        if (moved < bench.total)
            post_receive(xfer->exs_evt_buffer, bench.size);
        else if (moved == bench.total && exs_send(sock, &answer, 1, 0, queue, NULL, NULL) == -1)
            bench_fail("exs_send");
    } else {
        ev_break(EV_A_ EVBREAK_ALL);
    }
}

static void sent(EV_P_ const exs_evt_xfer_t *xfer)
{
    if (bench.mode == BENCH_STREAM && !bench.serve && posted < bench.total)
        post_send(xfer->exs_evt_buffer);
    if (bench.serve && moved == bench.total)
        ev_break(EV_A_ EVBREAK_ALL);
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)w;
    for (exs_event_t *e = events; e < events + count; e++) {
        if (e->exs_evt_errno != 0) {
            errno = e->exs_evt_errno;
            bench_fail(exs_strevent(e->exs_evt_type));
        }
        if (e->exs_evt_type == EXS_EVT_ACCEPT) {
            sock = e->exs_evt_union.exs_evt_accept.exs_evt_newsocket;
            start();
        } else if (e->exs_evt_type == EXS_EVT_CONNECT) {
            start();
        } else if (e->exs_evt_type == EXS_EVT_RECV) {
            received(EV_A_ & e->exs_evt_union.exs_evt_xfer);
        } else if (e->exs_evt_type == EXS_EVT_SEND) {
            sent(EV_A_ & e->exs_evt_union.exs_evt_xfer);
        }
    }
}

static void open_socket(void)
{
    static exs_acceptaddr_t first;
    socklen_t length = sizeof(bench.address);
    int s = exs_socket(PF_INET, SOCK_STREAM, 0);

    if (!bench.serve) {
        sock = s;
        if (exs_connect(s, (struct sockaddr *)&bench.address, length, 0, NULL, queue, NULL) == -1)
            bench_fail("exs_connect");
        return;
    }
    if (exs_bind(s, (struct sockaddr *)&bench.address, length) == -1 || exs_listen(s, 1) == -1 ||
        exs_accept(s, &first, 1, 0, queue) == -1 ||
        exs_getsockname(s, (struct sockaddr *)&bench.address, &length) == -1)
        bench_fail("listen");
    printf("%u\n", ntohs(bench.address.sin_port));
    fflush(stdout);
}

/* ---- By calls that block ------------------------------------------------------------------------------- */

static int connect_blocking(void)
{
    socklen_t length = sizeof(bench.address);
    int s = exs_socket(PF_INET, SOCK_STREAM, 0);

    if (!bench.serve) {
        if (exs_blocking_connect(s, (struct sockaddr *)&bench.address, length) == -1)
            bench_fail("exs_blocking_connect");
        return s;
    }
    if (exs_bind(s, (struct sockaddr *)&bench.address, length) == -1 || exs_listen(s, 1) == -1 ||
        exs_getsockname(s, (struct sockaddr *)&bench.address, &length) == -1)
        bench_fail("listen");
    printf("%u\n", ntohs(bench.address.sin_port));
    fflush(stdout);
    int accepted = exs_blocking_accept(s, NULL, NULL);

    if (accepted == -1 || exs_blocking_close(s) == -1)
        bench_fail("exs_blocking_accept");
    return accepted;
}

static void receive_blocking(void)
{
    if (exs_blocking_recv(sock, buffers, bench.size, MSG_WAITALL, region) != (ssize_t)bench.size)
        bench_fail("exs_blocking_recv");
}

static int run_calls(void)
{
    sock = connect_blocking();
    bench_start(&bench);
    for (uint64_t i = 0; i < bench.total; i++) {
        if (bench.serve)
            receive_blocking();
        if (exs_blocking_send(sock, buffers, bench.size, 0, region) != (ssize_t)bench.size)
            bench_fail("exs_blocking_send");
        if (!bench.serve)
            receive_blocking();
    }
    if (!bench.serve)
        bench_print(&bench);
    return exs_blocking_close(sock) == 0 ? 0 : 1;
}

/* -------------------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    struct ev_loop *loop = EV_DEFAULT;
    exs_ev events;

    bench_parse(&bench, argc, argv);
    if (exs_init(EXS_VERSION) == -1)
        bench_fail("exs_init");
    queue = exs_qcreate(4 * WINDOW);
    buffers = aligned_alloc(4096, (WINDOW * bench.size + 4095) / 4096 * 4096);
    if (queue == EXS_QHANDLE_INVALID || buffers == NULL)
        bench_fail("queue and buffers");
    memset(buffers, 0, WINDOW * bench.size);
    region = exs_mregister(buffers, WINDOW * bench.size, 0);
    if (region == EXS_MHANDLE_INVALID)
        bench_fail("exs_mregister");
    if (bench.mode == BENCH_CALLS)
        return run_calls();
    exs_ev_init(&events, events_cb, queue);
    exs_ev_start(EV_A_ & events);
    open_socket();
    ev_run(EV_A_ 0);
    if (!bench.serve)
        bench_print(&bench);
    exs_ev_stop(EV_A_ & events);
    return exs_blocking_close(sock) == 0 ? 0 : 1;
}
