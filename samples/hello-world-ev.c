/* SPDX-License-Identifier: BSD-2-Clause */
/* One message on a libev loop: does what hello-world.c does without blocking, so that the loop could also handle other
 * events.
 *
 * Build: cc hello-world-ev.c $(pkg-config --cflags --libs exs) -lev. Run: hello-world-ev here, hello-world-ev
 * HERE there. */
#define _DEFAULT_SOURCE /* POSIX's names, with -std=c11, too */
#include <errno.h>
#include <exs_ev.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

static const char message[] = "hello world";
static char buffer[64];
static exs_acceptaddr_t client;
static int status = 1;

/* Starts the next operation when one has completed. Returns 0; 1 after the last operation; or -1 and errno. */
static int next(exs_ev *w, const exs_event_t *e)
{
    int sock = e->exs_evt_socket;

    errno = e->exs_evt_errno;
    if (errno != 0)
        return -1;
    switch (e->exs_evt_type) {
    case EXS_EVT_ACCEPT:
        printf("going to send the message: '%s'\n", message);
        sock = (int)exs_event_result(e);
        return exs_send(sock, message, sizeof(message), 0, w->queue, NULL, NULL) == -1 ? -1 : 0;
    case EXS_EVT_CONNECT:
        return exs_recv(sock, buffer, sizeof(buffer) - 1, 0, w->queue, NULL, NULL) == -1 ? -1 : 0;
    case EXS_EVT_RECV:
        printf("Message is '%s'\n", buffer);
        return exs_close(sock, 0, w->queue, NULL);
    case EXS_EVT_SEND:
        return exs_close(sock, 0, w->queue, NULL);
    default: /* closed */
        return 1;
    }
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    for (int i = 0; i < count; i++) {
        int rc = next(w, &events[i]);

        if (rc == 0)
            continue;
        if (rc == -1)
            perror("hello-world-ev");
        status = rc == 1 ? 0 : 1;
        ev_break(EV_A_ EVBREAK_ALL);
    }
}

static int start(const char *server, struct addrinfo *address, exs_qhandle_t queue)
{
    struct sockaddr_in bound;
    socklen_t length = sizeof(bound);
    int sock = exs_socket(PF_INET, SOCK_SEQPACKET, 0);

    if (server)
        return exs_connect(sock, address->ai_addr, address->ai_addrlen, 0, NULL, queue, NULL);
    if (exs_bind(sock, address->ai_addr, address->ai_addrlen) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
        exs_getsockname(sock, (struct sockaddr *)&bound, &length) == -1)
        return -1;
    printf("waiting on port %u\n", ntohs(bound.sin_port));
    fflush(stdout);
    return exs_accept(sock, &client, 1, 0, queue);
}

int main(int argc, char **argv)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *address;
    const char *port = "19875";
    exs_ev watcher;

    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        return 1;
    }
    int option = getopt(argc, argv, "p:");
    if (option == 'p')
        port = optarg;
    const char *server = argv[optind];
    int rc = option == '?' ? EAI_BADFLAGS : getaddrinfo(server, port, &hints, &address);
    if (rc != 0) {
        fprintf(stderr, "usage: hello-world-ev [-p PORT] [SERVER]: %s\n", gai_strerror(rc));
        return 2;
    }
    exs_qhandle_t queue = exs_qcreate(16);
    if (start(server, address, queue) == -1) {
        perror("hello-world-ev");
    } else {
        exs_ev_init(&watcher, events_cb, queue);
        exs_ev_start(EV_DEFAULT_ & watcher);
        ev_run(EV_DEFAULT_ 0);
    }
    freeaddrinfo(address);
    return status;
}
