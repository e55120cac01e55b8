/* SPDX-License-Identifier: BSD-2-Clause */
/* A client of chat-server: sends lines of standard input to the other clients, and prints their messages. One poll(2)
 * waits for both: the descriptor of the queue becomes readable when a receive or a send has completed.
 *
 * Build: cc chat-client.c $(pkg-config --cflags --libs exs). Run: chat-client [HOST [PORT]]. */
#include <errno.h>
#include <exs.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { LONGEST = 1024 };

static char heard[LONGEST], said[LONGEST];
static int is_sending; /* the library uses `said` until the event of the send */

static int listen_to(int sock, exs_qhandle_t queue)
{
    return (int)exs_recv(sock, heard, LONGEST, 0, queue, heard, NULL);
}

/* Handles one event. Returns 1 to continue, 0 at the end of the stream, or -1 and errno. */
static int handle(int sock, const exs_event_t *e, exs_qhandle_t queue)
{
    errno = e->exs_evt_errno;
    if (errno != 0)
        return -1;
    if (e->exs_evt_type == EXS_EVT_SEND) {
        is_sending = 0;
        return 1;
    }
    if (exs_event_flags(e) & EXS_EOF)
        return 0;
    fwrite(heard, 1, (size_t)exs_event_result(e), stdout);
    fflush(stdout);
    return listen_to(sock, queue) == -1 ? -1 : 1;
}

static int from_queue(int sock, exs_qhandle_t queue)
{
    const struct timeval now = {0};
    exs_event_t e;
    int rc = 1;

    while (rc == 1 && exs_qdequeue(queue, &e, 1, &now) == 1)
        rc = handle(sock, &e, queue);
    return rc;
}

static int from_here(int sock, exs_qhandle_t queue)
{
    ssize_t length = read(STDIN_FILENO, said, LONGEST);

    if (length <= 0)
        return (int)length;
    is_sending = 1;
    return exs_send(sock, said, (size_t)length, 0, queue, said, NULL) == -1 ? -1 : 1;
}

/* Waits for events and input. While a line is being sent, standard input is not read. */
static int chat(int sock, exs_qhandle_t queue)
{
    struct pollfd fds[] = {{.fd = exs_qfd(queue), .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    int rc = listen_to(sock, queue) == -1 ? -1 : 1;

    while (rc == 1 && poll(fds, is_sending ? 1 : 2, -1) != -1) {
        if (fds[0].revents)
            rc = from_queue(sock, queue);
        if (rc == 1 && !is_sending && fds[1].revents)
            rc = from_here(sock, queue);
        fds[1].revents = 0;
    }
    return rc;
}

int main(int argc, char **argv)
{
    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        return 1;
    }
    int sock = exs_socket(PF_INET, SOCK_SEQPACKET, 0);
    exs_qhandle_t queue = exs_qcreate(8);
    if (exs_blocking_connect_host(sock, argc > 1 ? argv[1] : "127.0.0.1", argc > 2 ? argv[2] : "7472") == -1 ||
        chat(sock, queue) == -1 || exs_blocking_close(sock) == -1) {
        perror("chat-client");
        return 1;
    }
    return 0;
}
