/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * four_loops.c - a correct program with four event loops and eight clients in one process, for the thread sanitizer and
 * for valgrind (the scripts thread_sanitizer and memcheck). The loops echo. Each operation's event goes to the next
 * loop, so each thread owns a buffer in turn, and a connection is closed by another thread than the one that accepted
 * it. The clients receive into registered memory that is not initialized.
 *
 *   usage: four_loops [ROUNDS]
 */
#include <exs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOPS = 4, CLIENTS = 8, SIZE = 20000 };

struct loop {
    exs_qhandle_t queue;
    pthread_t thread;
    int listener;
    exs_acceptaddr_t next;
};

struct buffer {
    size_t length;
    char bytes[SIZE];
};

static long rounds = 40;
static atomic_bool stop;
static struct loop loops[LOOPS];
static struct sockaddr_in address = {.sin_family = AF_INET};

static void require(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static void accept_next(struct loop *loop)
{
    require(exs_accept(loop->listener, &loop->next, 1, 0, loop->queue) != -1, "exs_accept");
}

static void handle(struct loop *loop, const exs_event_t *event)
{
    struct loop *next = &loops[(loop - loops + 1) % LOOPS];
    struct buffer *buffer = event->exs_evt_ahandle;
    int sock = event->exs_evt_socket, rc = 0;

    switch (event->exs_evt_type) {
    case EXS_EVT_ACCEPT:
        sock = event->exs_evt_union.exs_evt_accept.exs_evt_newsocket;
        if (event->exs_evt_errno != 0)
            return;
        accept_next(loop);
        buffer = calloc(1, sizeof *buffer);
        rc = (int)exs_recv(sock, buffer->bytes, SIZE, 0, loop->queue, buffer, NULL);
        break;
    case EXS_EVT_RECV:
        buffer->length = event->exs_evt_union.exs_evt_xfer.exs_evt_length;
        if (event->exs_evt_errno != 0 || buffer->length == 0) {
            rc = exs_close(sock, 0, next->queue, buffer);
            break;
        }
        rc = (int)exs_send(sock, buffer->bytes, buffer->length, 0, next->queue, buffer, NULL);
        break;
    case EXS_EVT_SEND:
        memset(buffer->bytes, 0, buffer->length);
        buffer->length = 0;
        rc = (int)exs_recv(sock, buffer->bytes, SIZE, 0, next->queue, buffer, NULL);
        break;
    default:
        free(buffer);
    }
    require(rc != -1, "an operation");
}

static void *serve(void *argument)
{
    struct loop *loop = argument;
    exs_event_t events[16];
    struct timeval limit = {0, 50000};
    int count;

    while (!atomic_load(&stop) && (count = exs_qdequeue(loop->queue, events, 16, &limit)) != -1) {
        for (int i = 0; i < count; i++)
            handle(loop, &events[i]);
    }
    return NULL;
}

static void *talk(void *unused)
{
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    struct buffer *out = calloc(1, sizeof *out), *in = malloc(sizeof *in);
    exs_mhandle_t region = exs_mregister(in, sizeof *in, 0);

    (void)unused;
    require(region != EXS_MHANDLE_INVALID, "exs_mregister");
    require(exs_blocking_connect(sock, (struct sockaddr *)&address, sizeof address) != -1, "exs_connect");
    for (int i = 0; i < rounds; i++) {
        size_t length = (size_t)(1 + i * 997 % SIZE);

        memset(out->bytes, i & 0x7f, length);
        require(exs_blocking_send(sock, out->bytes, length, 0, NULL) == (ssize_t)length, "exs_send");
        for (size_t got = 0; got < length;) {
            ssize_t part = exs_blocking_recv(sock, in->bytes + got, length - got, 0, region);

            require(part > 0, "exs_recv");
            got += (size_t)part;
        }
        require(memcmp(in->bytes, out->bytes, length) == 0, "what was sent");
    }
    exs_blocking_close(sock);
    exs_mderegister(region, 0);
    free(in);
    free(out);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t clients[CLIENTS];
    socklen_t length = sizeof address;

    if (argc > 1)
        rounds = strtol(argv[1], NULL, 10);
    require(exs_init(EXS_VERSION) != -1, "exs_init");
    int listener = exs_socket(PF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(exs_bind(listener, (struct sockaddr *)&address, length) != -1, "exs_bind");
    require(exs_listen(listener, 64) != -1, "exs_listen");
    require(exs_getsockname(listener, (struct sockaddr *)&address, &length) != -1, "exs_getsockname");
    for (int i = 0; i < LOOPS; i++) {
        loops[i].listener = listener;
        loops[i].queue = exs_qcreate(64);
        require(loops[i].queue != EXS_QHANDLE_INVALID, "exs_qcreate");
    }
    for (int i = 0; i < LOOPS; i++) {
        accept_next(&loops[i]);
        require(pthread_create(&loops[i].thread, NULL, serve, &loops[i]) == 0, "pthread_create");
    }
    for (int i = 0; i < CLIENTS; i++)
        require(pthread_create(&clients[i], NULL, talk, NULL) == 0, "pthread_create");
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    atomic_store(&stop, true);
    for (int i = 0; i < LOOPS; i++)
        pthread_join(loops[i].thread, NULL);
    puts("done");
    return 0;
}
