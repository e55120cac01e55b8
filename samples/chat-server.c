/* SPDX-License-Identifier: BSD-2-Clause */
/* A chat server on a libev loop: sends each message of a client to all others. A client that does not read does not
 * delay the others: the server counts the bytes that are being sent to it, and disconnects it at a limit.
 *
 * Build: cc chat-server.c $(pkg-config --cflags --libs exs) -lev. Run: chat-server [PORT], and chat-client. */
#include <exs_ev.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum { LONGEST = 1024, WAITING_MAX = 64 * 1024 };

/* One copy for all readers; freed after the last delivery. */
struct message {
    int readers;
    size_t length;
    char text[LONGEST];
};

struct client {
    int sock;
    size_t waiting; /* bytes of sends that have not completed */
    int leaving;
    char in[LONGEST];
    LIST_ENTRY(client) others;
};

struct delivery {
    struct client *to;
    struct message *message;
};

static LIST_HEAD(, client) clients = LIST_HEAD_INITIALIZER(clients);
static exs_acceptaddr_t every_one; /* used by the library while it accepts connections */

/* Disconnects a client. Its state is freed at the close event, which is the last event of the socket. */
static void leave(struct client *client, exs_qhandle_t queue)
{
    if (client->leaving)
        return;
    client->leaving = 1;
    LIST_REMOVE(client, others);
    exs_close(client->sock, 0, queue, client);
}

static void delivered(struct delivery *delivery)
{
    delivery->to->waiting -= delivery->message->length;
    if (--delivery->message->readers == 0)
        free(delivery->message);
    free(delivery);
}

static void deliver(struct client *to, struct message *message, exs_qhandle_t queue)
{
    struct delivery *delivery = malloc(sizeof(*delivery));

    if (delivery == NULL)
        abort();
    *delivery = (struct delivery){to, message};
    message->readers++;
    to->waiting += message->length;
    if (to->waiting > WAITING_MAX) {
        printf("client %d reads too slowly: %zu bytes wait for it\n", to->sock, to->waiting);
        leave(to, queue);
    }
    if (to->leaving || exs_send(to->sock, message->text, message->length, 0, queue, delivery, NULL) == -1) {
        delivered(delivery);
        leave(to, queue);
    }
}

static void say(struct client *from, size_t length, exs_qhandle_t queue)
{
    struct message *message = malloc(sizeof(*message));
    struct client *to, *next;

    if (message == NULL)
        abort();
    message->readers = 1; /* the reference of this function */
    message->length = length;
    memcpy(message->text, from->in, length);
    for (to = LIST_FIRST(&clients); to != NULL; to = next) {
        next = LIST_NEXT(to, others);
        if (to != from)
            deliver(to, message, queue);
    }
    if (--message->readers == 0)
        free(message);
}

static void listen_to(struct client *client, exs_qhandle_t queue)
{
    if (!client->leaving && exs_recv(client->sock, client->in, LONGEST, 0, queue, client, NULL) == -1)
        leave(client, queue);
}

static void welcome(int sock, exs_qhandle_t queue)
{
    struct client *client = calloc(1, sizeof(*client));

    if (client == NULL)
        abort();
    client->sock = sock;
    LIST_INSERT_HEAD(&clients, client, others);
    printf("client %d is here\n", sock);
    listen_to(client, queue);
}

static void handle(const exs_event_t *e, exs_qhandle_t queue)
{
    struct client *client = e->exs_evt_ahandle;

    switch (e->exs_evt_type) {
    case EXS_EVT_ACCEPT:
        if (e->exs_evt_errno == 0)
            welcome((int)exs_event_result(e), queue);
        break;
    case EXS_EVT_RECV: /* a message, an error, or the end of the stream */
        if (e->exs_evt_errno != 0 || (exs_event_flags(e) & EXS_EOF)) {
            leave(client, queue);
            break;
        }
        say(client, (size_t)exs_event_result(e), queue);
        listen_to(client, queue);
        break;
    case EXS_EVT_SEND:
        delivered(e->exs_evt_ahandle);
        break;
    case EXS_EVT_CLOSE:
        printf("client %d is gone\n", client->sock);
        free(client);
        break;
    }
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)loop;
    for (int i = 0; i < count; i++)
        handle(&events[i], w->queue);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(here);
    exs_ev watcher;

    here.sin_port = htons((uint16_t)strtoul(argc > 1 ? argv[1] : "7472", NULL, 10));
    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        return 1;
    }
    int sock = exs_socket(PF_INET, SOCK_SEQPACKET, 0); /* preserves message boundaries */
    exs_qhandle_t queue = exs_qcreate(1024);
    if (exs_bind(sock, (struct sockaddr *)&here, length) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
        exs_getsockname(sock, (struct sockaddr *)&here, &length) == -1 ||
        exs_accept(sock, &every_one, 1, EXS_MULTISHOT, queue) == -1) {
        perror("chat-server");
        return 1;
    }
    printf("waiting on port %u\n", ntohs(here.sin_port));
    fflush(stdout);
    exs_ev_init(&watcher, events_cb, queue);
    exs_ev_start(EV_DEFAULT_ & watcher);
    return ev_run(EV_DEFAULT_ 0);
}
