/* SPDX-License-Identifier: BSD-2-Clause */
/* The server: each of its threads accepts at the one listener, on a queue of its own, and sends back what
 * comes. */
#include "scale.h"

#include <poll.h>

#define BUFFER 4096
#define ACCEPTS 8

struct connection {
    int socket;
    char *buffer;
};

static int listener;
static exs_acceptaddr_t elements[LOOPS_MAX][ACCEPTS];

static void accept_next(exs_qhandle_t queue, exs_acceptaddr_t *element)
{
    *element = (exs_acceptaddr_t){.exs_ahandle = element};
    if (exs_accept(listener, element, 1, 0, queue) != 0)
        give_up("exs_accept");
}

static void finish(struct connection *connection)
{
    exs_close(connection->socket, 0, NULL, NULL);
    free(connection->buffer);
    free(connection);
}

static void receive(exs_qhandle_t queue, struct connection *connection)
{
    if (exs_recv(connection->socket, connection->buffer, BUFFER, 0, queue, connection, NULL) != 0)
        finish(connection);
}

static void welcome(exs_qhandle_t queue, const exs_event_t *event)
{
    struct connection *connection = calloc(1, sizeof *connection);

    if (event->exs_evt_errno == 0 && connection && (connection->buffer = malloc(BUFFER)) != NULL) {
        connection->socket = event->exs_evt_union.exs_evt_accept.exs_evt_newsocket;
        receive(queue, connection);
    }
    accept_next(queue, event->exs_evt_ahandle);
}

static void serve(exs_qhandle_t queue, const exs_event_t *event)
{
    struct connection *connection = event->exs_evt_ahandle;
    size_t length = event->exs_evt_union.exs_evt_xfer.exs_evt_length;

    if (event->exs_evt_type == EXS_EVT_ACCEPT) {
        welcome(queue, event);
    } else if (event->exs_evt_errno != 0 || length == 0) {
        finish(connection);
    } else if (event->exs_evt_type == EXS_EVT_SEND) {
        receive(queue, connection);
    } else if (exs_send(connection->socket, connection->buffer, length, 0, queue, connection, NULL) != 0) {
        finish(connection);
    }
}

static void *loop(void *first)
{
    exs_qhandle_t queue = exs_qcreate(1024);
    exs_event_t events[256];

    for (int i = 0; i < ACCEPTS; i++)
        accept_next(queue, (exs_acceptaddr_t *)first + i);
    for (;;) {
        int got = exs_qdequeue(queue, events, COUNT(events), NULL);
        if (got < 0)
            give_up("exs_qdequeue");
        for (int i = 0; i < got; i++)
            serve(queue, &events[i]);
    }
    return NULL;
}

static _Noreturn void run(int loops, struct sockaddr_in here, int fd)
{
    struct order what;
    socklen_t length = sizeof here;
    pthread_t thread;

    if (exs_init(EXS_VERSION) != 0 || (listener = exs_socket(PF_INET, SOCK_STREAM, 0)) < 0 ||
        exs_bind(listener, (struct sockaddr *)&here, sizeof here) != 0 || exs_listen(listener, 1024) != 0 ||
        exs_getsockname(listener, (struct sockaddr *)&here, &length) != 0)
        give_up("the server");
    for (int i = 0; i < loops; i++)
        if (pthread_create(&thread, NULL, loop, elements[i]) != 0)
            give_up("pthread_create");
    if (write(fd, &here, sizeof here) != sizeof here)
        give_up("the server");
    while (read(fd, &what, sizeof what) == sizeof what && what.wish != END) {
        struct measure now = measure_now();
        if (write(fd, &now, sizeof now) != sizeof now)
            break;
    }
    _exit(0);
}

struct process server_start(int loops, uint32_t address)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    struct process process;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 || (process.pid = fork()) < 0)
        give_up("fork");
    if (process.pid == 0) {
        close(ends[0]);
        run(loops, here, ends[1]);
    }
    close(ends[1]);
    process.fd = ends[0];
    if (read(process.fd, &process.address, sizeof process.address) != sizeof process.address)
        give_up("the server");
    return process;
}
