/* SPDX-License-Identifier: BSD-2-Clause */
/* An echo server with several threads, each with a loop and a queue. A connection belongs to the queue of the accept
 * that returned it, and the thread of this queue serves it. The threads share only the listener.
 *
 * Build: cc threads.c $(pkg-config --cflags --libs exs) -pthread. Run: threads [PORT [THREADS]]. */
#include <errno.h>
#include <exs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 16384, THREADS_MAX = 64 };

struct worker {
    int number, listener;
    exs_qhandle_t queue;
    pthread_t thread;
    exs_acceptaddr_t next_one; /* used by the library until its event */
};

/* Starts one accept, not several, so that the next connection goes to a thread that is not busy. */
static int accept_next(struct worker *worker)
{
    return exs_accept(worker->listener, &worker->next_one, 1, 0, worker->queue);
}

static void handle(struct worker *worker, const exs_event_t *e)
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
        if (accept_next(worker) == -1 || result < 0)
            return;
        printf("thread %d serves a connection\n", worker->number);
        fflush(stdout);
        buffer = malloc(SIZE);
    }
    if (result >= 0 && type != EXS_EVT_RECV)
        rc = (int)exs_recv(sock, buffer, SIZE, 0, worker->queue, buffer, NULL);
    else if (result > 0)
        rc = (int)exs_send(sock, buffer, (size_t)result, 0, worker->queue, buffer, NULL);
    if (rc == -1) /* an error, or the client's end of stream */
        exs_close(sock, 0, worker->queue, buffer);
}

/* The simplest event loop: exs_qdequeue() without a timeout on one queue. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    exs_event_t events[64];
    int count;

    while ((count = exs_qdequeue(worker->queue, events, 64, NULL)) != -1) {
        for (int i = 0; i < count; i++)
            handle(worker, &events[i]);
    }
    perror("exs_qdequeue");
    return NULL;
}

static int start(struct worker *worker, int number, int listener)
{
    worker->number = number;
    worker->listener = listener;
    worker->queue = exs_qcreate(256);
    if (worker->queue == EXS_QHANDLE_INVALID || accept_next(worker) == -1)
        return -1;
    errno = pthread_create(&worker->thread, NULL, work, worker);
    return errno == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MAX];
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(here);
    unsigned long port = argc > 1 ? strtoul(argv[1], NULL, 10) : 7471;
    long count = argc > 2 ? strtol(argv[2], NULL, 10) : 4;

    if (port > UINT16_MAX || count < 1 || count > THREADS_MAX) {
        fprintf(stderr, "usage: threads [PORT [THREADS]], 1 to %d of them\n", THREADS_MAX);
        return 2;
    }
    here.sin_port = htons((uint16_t)port);
    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        return 1;
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0);
    if (exs_bind(sock, (struct sockaddr *)&here, length) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
        exs_getsockname(sock, (struct sockaddr *)&here, &length) == -1) {
        perror("threads");
        return 1;
    }
    for (int i = 0; i < count; i++) {
        if (start(&workers[i], i + 1, sock) == -1) {
            perror("threads");
            return 1;
        }
    }
    printf("waiting on port %u\n", ntohs(here.sin_port));
    fflush(stdout);
    return pthread_join(workers[0].thread, NULL);
}
