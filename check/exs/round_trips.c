/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * round_trips.c - COUNT round trips of SIZE bytes between two sockets of this process. Each socket has its own queue
 * and watcher, on one libev loop. This measures the cost of one side without another process, whose iterations can't be
 * counted. The two queues also have IDLE idle connections.
 *
 *   round_trips SIZE COUNT [IDLE]
 */
#include <exs_ev.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <netinet/in.h>
#include <sys/resource.h>

static struct side {
    exs_ev watcher;
    exs_qhandle_t queue;
    exs_mhandle_t region;
    int sock;
    char *buffer; /* one message to receive, one to send */
} sides[2];
static size_t size;
static unsigned long left, idle; /* round trips and idle connections still to come */
static int listener;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void post_receive(struct side *side)
{
    if (exs_recv(side->sock, side->buffer, size, MSG_WAITALL, side->queue, NULL, side->region) == -1)
        fail("exs_recv");
}

static void post_send(struct side *side)
{
    if (exs_send(side->sock, side->buffer + size, size, 0, side->queue, NULL, side->region) == -1)
        fail("exs_send");
}

static void connect_sides(void)
{
    static exs_acceptaddr_t wanted;
    struct sockaddr_in address;
    socklen_t length = sizeof(address);
    int client = exs_socket(PF_INET, SOCK_STREAM, 0);

    sides[0].sock = sides[1].sock = -1;
    if (exs_accept(listener, &wanted, 1, 0, sides[0].queue) == -1 ||
        exs_getsockname(listener, (struct sockaddr *)&address, &length) == -1 ||
        exs_connect(client, (struct sockaddr *)&address, length, 0, NULL, sides[1].queue, NULL) == -1)
        fail("connect");
}

/* Opens the idle connections first, one after the other. */
static void connected(struct side *side, int sock)
{
    side->sock = sock;
    if (sides[0].sock < 0 || sides[1].sock < 0)
        return;
    if (idle > 0) {
        idle--;
        connect_sides();
        return;
    }
    post_receive(&sides[0]);
    post_receive(&sides[1]);
    post_send(&sides[1]);
}

static void received(EV_P_ struct side *side)
{
    if (side == &sides[1] && --left == 0) {
        ev_break(EV_A_ EVBREAK_ALL);
        return;
    }
    post_receive(side);
    post_send(side);
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct side *side = (struct side *)w; /* the watcher is the first member */

    for (exs_event_t *e = events; e < events + count; e++) {
        errno = e->exs_evt_errno;
        if (errno != 0)
            fail(exs_strevent(e->exs_evt_type));
        if (e->exs_evt_type == EXS_EVT_ACCEPT)
            connected(side, e->exs_evt_union.exs_evt_accept.exs_evt_newsocket);
        else if (e->exs_evt_type == EXS_EVT_CONNECT)
            connected(side, e->exs_evt_socket);
        else if (e->exs_evt_type == EXS_EVT_RECV)
            received(EV_A_ side);
    }
}

static void side_open(EV_P_ struct side *side)
{
    side->sock = -1;
    side->queue = exs_qcreate(8);
    side->buffer = calloc(2, size);
    if (side->queue == EXS_QHANDLE_INVALID || side->buffer == NULL)
        fail("queue and buffers");
    side->region = exs_mregister(side->buffer, 2 * size, 0);
    if (side->region == EXS_MHANDLE_INVALID)
        fail("exs_mregister");
    exs_ev_init(&side->watcher, events_cb, side->queue);
    exs_ev_start(EV_A_ & side->watcher);
}

static void listen_here(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    listener = exs_socket(PF_INET, SOCK_STREAM, 0);
    if (exs_bind(listener, (struct sockaddr *)&address, sizeof(address)) == -1 || exs_listen(listener, 1) == -1)
        fail("listen");
}

/* Each connection takes descriptors at both ends. */
static void allow_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == -1)
        fail("getrlimit");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) == -1)
        fail("setrlimit");
}

int main(int argc, char **argv)
{
    struct ev_loop *loop = EV_DEFAULT;

    if (argc < 3 || argc > 4 || (size = strtoul(argv[1], NULL, 10)) == 0 ||
        (left = strtoul(argv[2], NULL, 10)) == 0) {
        fprintf(stderr, "usage: round_trips SIZE COUNT [IDLE]\n");
        return 2;
    }
    idle = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    allow_descriptors();
    if (exs_init(EXS_VERSION) == -1)
        fail("exs_init");
    side_open(EV_A_ & sides[0]);
    side_open(EV_A_ & sides[1]);
    listen_here();
    connect_sides();
    ev_run(EV_A_ 0);
    return 0;
}
