/* SPDX-License-Identifier: BSD-2-Clause */
/* exs_bench.c - the benchmark of EXS, on an event loop at both sides: libev, or that of BENCH_LOOP. */
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "bench_loops.h"

static struct bench bench;
static const struct bench_loop *loop;
/* Registered buffers of bench.size bytes: bench.window of them; or one for each connection, and one for sends. */
static char *buffers;
static exs_mhandle_t region;
static exs_qhandle_t queue;
static int listener = -1;
static int *socks;             /* of the connections */
static size_t open_count;      /* connections established */
static uint64_t posted, moved; /* bytes; round trips */
static uint64_t thrown;        /* messages ("balls") sent in round trips */
static unsigned balls;         /* signaled ones of these that have not completed */
static bool asks_each;
static exs_xferfile_t element;
static char answer;

static char *buffer(size_t index)
{
    return buffers + index * bench.size;
}

static void post_receive(int sock, char *where)
{
    if (exs_recv(sock, where, bench.size, bench.mode == BENCH_PING ? MSG_WAITALL : 0, queue, NULL, region) ==
        -1)
        bench_fail("exs_recv");
}

/* Sends a message. The answer implies that a message has arrived, except for the last one. With BENCH_UNSIGNALED only
 * the last send therefore requests an event. */
static void throw_ball(int sock)
{
    bool last = ++thrown == bench.total, asks = last || asks_each;

    balls += asks;
    if (exs_send(sock, buffer(bench.connections), bench.size, asks ? 0 : EXS_UNSIGNALED, asks ? queue : NULL,
                 NULL, region) == -1)
        bench_fail("exs_send");
}

/* Leaves the loop when all is done and the last send has completed. A side that exits earlier could not retransmit its
 * last message. */
static void leave_when_through(void)
{
    if (moved == bench.total && balls == 0)
        loop->leave();
}

static void post_send(char *what)
{
    size_t size = bench.size;

    if (bench.total - posted < size)
        size = (size_t)(bench.total - posted);
    if (exs_send(socks[0], what, size, 0, queue, NULL, region) == -1)
        bench_fail("exs_send");
    posted += size;
    bench_done(&bench, posted);
}

static void start_file(void)
{
    element.exs_xfv_type = EXS_FDVEC;
    element.exs_xfv.exs_fdv.exs_fildes = open(bench.path, O_RDONLY);
    element.exs_xfv.exs_fdv.exs_length = bench.total;
    if (exs_sendfile(socks[0], &element, 1, EXS_BIGFILE, queue, NULL) == -1)
        bench_fail("exs_sendfile");
    close(element.exs_xfv.exs_fdv.exs_fildes); /* the library has duplicated it */
}

/* Starts the work of this side. All connections are established. */
static void start(void)
{
    bench_start(&bench);
    if (bench.mode == BENCH_PING) {
        for (size_t i = 0; i < bench.connections; i++)
            post_receive(socks[i], buffer(i));
        if (!bench.serve)
            throw_ball(socks[0]);
    } else if (bench.serve) {
        for (size_t i = 0; i < bench.window; i++)
            post_receive(socks[0], buffer(i));
    } else {
        if (exs_recv(socks[0], &answer, 1, 0, queue, NULL, NULL) == -1)
            bench_fail("exs_recv");
        if (bench.mode == BENCH_FILE)
            start_file();
        for (size_t i = 0; i < bench.window && bench.mode == BENCH_STREAM && posted < bench.total; i++)
            post_send(buffer(i));
    }
}

/* Called after a round trip: starts the next one, on the next connection, before anything else, like a server that
 * answers at once. */
static void returned(int sock, char *where)
{
    moved++;
    if (bench.serve)
        throw_ball(sock);
    else if (moved < bench.total)
        throw_ball(socks[moved % bench.connections]);
    bench_done(&bench, moved);
    if (moved + bench.connections <= bench.total)
        post_receive(sock, where);
    leave_when_through();
}

static void received(int sock, const exs_evt_xfer_t *xfer)
{
    if (xfer->exs_evt_length == 0 && bench.serve && moved == bench.total)
        return; /* the client has received its answer and has closed */
    if (xfer->exs_evt_length == 0) {
        errno = ECONNRESET;
        bench_fail("the other side ended");
    }
    if (bench.mode == BENCH_PING) {
        returned(sock, xfer->exs_evt_buffer);
    } else if (bench.serve) {
        moved += xfer->exs_evt_length;
        bench_done(&bench, moved);
        if (moved < bench.total)
            post_receive(sock, xfer->exs_evt_buffer);
        else if (moved == bench.total && exs_send(sock, &answer, 1, 0, queue, NULL, NULL) == -1)
            bench_fail("exs_send");
    } else {
        loop->leave();
    }
}

static void sent(const exs_evt_xfer_t *xfer)
{
    if (bench.mode == BENCH_PING)
        balls--;
    else if (bench.mode == BENCH_STREAM && !bench.serve && posted < bench.total)
        post_send(xfer->exs_evt_buffer);
    if (bench.mode == BENCH_PING || bench.serve)
        leave_when_through();
}

static void connect_next(void)
{
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);

    if (exs_connect(sock, (struct sockaddr *)&bench.address, sizeof(bench.address), 0, NULL, queue, NULL) == -1)
        bench_fail("exs_connect");
}

static void accept_next(void)
{
    static exs_acceptaddr_t accepted;

    if (exs_accept(listener, &accepted, 1, 0, queue) == -1)
        bench_fail("exs_accept");
}

static void opened(int sock)
{
    socks[open_count++] = sock;
    if (open_count == bench.connections)
        start();
    else if (bench.serve)
        accept_next();
    else
        connect_next();
}

static void handle_events(exs_event_t *events, int count)
{
    for (exs_event_t *e = events; e < events + count; e++) {
        if (e->exs_evt_errno != 0) {
            errno = e->exs_evt_errno;
            bench_fail(exs_strevent(e->exs_evt_type));
        }
        if (e->exs_evt_type == EXS_EVT_ACCEPT)
            opened(e->exs_evt_union.exs_evt_accept.exs_evt_newsocket);
        else if (e->exs_evt_type == EXS_EVT_CONNECT)
            opened(e->exs_evt_socket);
        else if (e->exs_evt_type == EXS_EVT_RECV)
            received(e->exs_evt_socket, &e->exs_evt_union.exs_evt_xfer);
        else if (e->exs_evt_type == EXS_EVT_SEND)
            sent(&e->exs_evt_union.exs_evt_xfer);
    }
}

/* Creates `listener`, and prints its port. */
static void start_listening(void)
{
    socklen_t length = sizeof(bench.address);

    listener = exs_socket(PF_INET, SOCK_STREAM, 0);
    if (exs_bind(listener, (struct sockaddr *)&bench.address, length) == -1 ||
        exs_listen(listener, 128) == -1 ||
        exs_getsockname(listener, (struct sockaddr *)&bench.address, &length) == -1)
        bench_fail("listen");
    printf("%u\n", ntohs(bench.address.sin_port));
    fflush(stdout);
}

/* ---- Blocking calls ------------------------------------------------------------------------------------ */

static int connect_blocking(void)
{
    if (!bench.serve) {
        int sock = exs_socket(PF_INET, SOCK_STREAM, 0);

        if (exs_blocking_connect(sock, (struct sockaddr *)&bench.address, sizeof(bench.address)) == -1)
            bench_fail("exs_blocking_connect");
        return sock;
    }
    start_listening();
    int accepted = exs_blocking_accept(listener, NULL, NULL);

    if (accepted == -1)
        bench_fail("exs_blocking_accept");
    return accepted;
}

static void receive_blocking(int sock)
{
    if (exs_blocking_recv(sock, buffers, bench.size, MSG_WAITALL, region) != (ssize_t)bench.size)
        bench_fail("exs_blocking_recv");
}

static void run_calls(void)
{
    int sock = connect_blocking();

    socks[open_count++] = sock;
    bench_start(&bench);
    for (uint64_t i = 0; i < bench.total; i++) {
        if (bench.serve)
            receive_blocking(sock);
        if (exs_blocking_send(sock, buffers, bench.size, 0, region) != (ssize_t)bench.size)
            bench_fail("exs_blocking_send");
        if (!bench.serve)
            receive_blocking(sock);
        bench_done(&bench, i + 1);
    }
    bench_print(&bench);
}

/* -------------------------------------------------------------------------------------------------------- */

static const struct bench_loop *find_loop(void)
{
    const char *name = getenv("BENCH_LOOP");

    for (int i = 0; bench_loops[i] != NULL; i++)
        if (name == NULL || strcmp(name, bench_loops[i]->name) == 0)
            return bench_loops[i];
    fprintf(stderr, "exs_bench: BENCH_LOOP is %s: there is no such loop, or its library is not here\n", name);
    exit(2);
}

static void run_loop(void)
{
    if (loop->open(queue, handle_events) < 0)
        bench_fail(loop->name);
    if (bench.serve) {
        start_listening();
        accept_next();
    } else {
        connect_next();
    }
    loop->run();
    bench_print(&bench);
    loop->close();
}

static void allocate(void)
{
    size_t count = bench.connections + 1 > bench.window ? bench.connections + 1 : bench.window,
           length = count * bench.size;

    socks = calloc(bench.connections, sizeof(*socks));
    queue = exs_qcreate((int)(4 * count));
    buffers = aligned_alloc(4096, (length + 4095) / 4096 * 4096);
    if (socks == NULL || queue == EXS_QHANDLE_INVALID || buffers == NULL)
        bench_fail("queue and buffers");
    memset(buffers, 0, length);
    region = exs_mregister(buffers, length, 0);
    if (region == EXS_MHANDLE_INVALID)
        bench_fail("exs_mregister");
}

int main(int argc, char **argv)
{
    int result = 0;

    if (argc == 2 && strcmp(argv[1], "loops") == 0) { /* prints the names of the loops */
        for (int i = 0; bench_loops[i] != NULL; i++)
            printf("%s ", bench_loops[i]->name);
        return 0;
    }
    bench_parse(&bench, argc, argv);
    loop = find_loop();
    asks_each = getenv("BENCH_UNSIGNALED") == NULL;
    if (exs_init(EXS_VERSION) == -1)
        bench_fail("exs_init");
    allocate();
    if (bench.mode == BENCH_CALLS)
        run_calls();
    else
        run_loop();
    for (size_t i = 0; i < open_count; i++)
        result |= exs_blocking_close(socks[i]);
    return result == 0 ? 0 : 1;
}
