/* SPDX-License-Identifier: BSD-2-Clause */
/* A small key-value server on a libev loop, for EXS and TCP clients, with one store and one protocol: the server
 * answers "set KEY VALUE" by "ok", and "get KEY" by the value or an empty line. kv-client measures both.
 *
 * Build: cc kv-server.c $(pkg-config --cflags --libs exs) -lev. Run: kv-server [EXS-PORT [TCP-PORT]]. */
#define _DEFAULT_SOURCE /* POSIX's names, with -std=c11, too */
#include <exs_ev.h>
#include <netinet/in.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 512 };

/* ---- The store ------------------------------------------------------------------------------------ */

struct pair {
    char *key, *value;
};

static void *store;

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

static void set(const char *key, const char *value)
{
    struct pair wanted = {(char *)key, NULL}, **found = tsearch(&wanted, &store, compare);

    if (found != NULL && *found == &wanted) {
        *found = calloc(1, sizeof(**found));
        if (*found != NULL)
            (*found)->key = strdup(key);
    }
    if (found == NULL || *found == NULL || (*found)->key == NULL)
        abort(); /* no memory */
    free((*found)->value);
    (*found)->value = strdup(value);
}

static const char *get(const char *key)
{
    struct pair wanted = {(char *)key, NULL}, **found = tfind(&wanted, &store, compare);

    return found != NULL && (*found)->value != NULL ? (*found)->value : "";
}

/* ---- A client, of EXS or TCP ----------------------------------------------------------------------- */

struct client {
    ev_io io; /* used for TCP only */
    int sock;
    size_t have; /* bytes of the line that were received */
    char in[LINE], out[LINE];
};

static struct client *make_client(int sock)
{
    struct client *client = calloc(1, sizeof(*client));

    if (client == NULL)
        abort();
    client->sock = sock;
    return client;
}

/* Processes `length` received bytes. Returns the bytes of the answer in `out`; 0 if the line is incomplete; -1 if it is
 * invalid. */
static int take(struct client *client, size_t length)
{
    client->have += length;
    char *end = memchr(client->in, '\n', client->have);
    if (end == NULL)
        return client->have < LINE ? 0 : -1;
    *end = '\0';
    client->have = 0; /* a client must wait for the answer before it sends the next line */
    char *key = strchr(client->in, ' '), *value;
    if (key == NULL)
        return -1;
    *key++ = '\0';
    value = strchr(key, ' ');
    if (strcmp(client->in, "get") == 0)
        return snprintf(client->out, LINE, "%s\n", get(key));
    if (strcmp(client->in, "set") != 0 || value == NULL)
        return -1;
    *value++ = '\0';
    set(key, value);
    return snprintf(client->out, LINE, "ok\n");
}

/* ---- EXS ----------------------------------------------------------------------------------------- */

static exs_acceptaddr_t every_one; /* used by the library while it accepts connections */

static int exs_next(struct client *client, const exs_event_t *e, exs_qhandle_t queue)
{
    ssize_t result = exs_event_result(e);
    int length = 0;

    if (result < 0 || (e->exs_evt_type == EXS_EVT_RECV && result == 0))
        return -1;
    if (e->exs_evt_type == EXS_EVT_RECV)
        length = take(client, (size_t)result);
    if (length > 0)
        return (int)exs_send(client->sock, client->out, (size_t)length, 0, queue, client, NULL);
    if (length == -1)
        return -1;
    return (int)exs_recv(client->sock, client->in + client->have, LINE - client->have, 0, queue, client, NULL);
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    (void)loop;
    for (exs_event_t *e = events; e < events + count; e++) {
        struct client *client = e->exs_evt_ahandle;

        if (e->exs_evt_type == EXS_EVT_CLOSE) {
            free(client);
            continue;
        }
        if (e->exs_evt_type == EXS_EVT_ACCEPT && e->exs_evt_errno == 0)
            client = make_client((int)exs_event_result(e));
        if (client != NULL && exs_next(client, e, w->queue) == -1)
            exs_close(client->sock, 0, w->queue, client);
    }
}

/* ---- TCP ------------------------------------------------------------------------------------------- */

/* A client waits for each answer, so an answer always fits into the socket's send buffer. */
static void tcp_ready(EV_P_ ev_io *io, int revents)
{
    struct client *client = (struct client *)io; /* its first member */
    ssize_t length = recv(client->sock, client->in + client->have, LINE - client->have, MSG_DONTWAIT);
    int answer = length > 0 ? take(client, (size_t)length) : -1;

    (void)revents;
    if (answer == 0 ||
        (answer > 0 && send(client->sock, client->out, (size_t)answer, MSG_DONTWAIT | MSG_NOSIGNAL) == answer))
        return;
    ev_io_stop(EV_A_ io);
    close(client->sock);
    free(client);
}

static void tcp_accept(EV_P_ ev_io *io, int revents)
{
    int fd = accept(io->fd, NULL, NULL);

    (void)revents;
    if (fd == -1)
        return;
    struct client *client = make_client(fd);
    ev_io_init(&client->io, tcp_ready, fd, EV_READ);
    ev_io_start(EV_A_ & client->io);
}

/* ---- Both ------------------------------------------------------------------------------------------ */

static struct sockaddr_in local(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

int main(int argc, char **argv)
{
    struct sockaddr_in exs = local(argc > 1 ? argv[1] : "7475"), tcp = local(argc > 2 ? argv[2] : "7476");
    socklen_t length = sizeof(exs);
    struct ev_loop *loop = ev_default_loop(0);
    exs_ev watcher;
    ev_io io;

    if (exs_init(EXS_VERSION) == -1) {
        perror("exs_init");
        return 1;
    }
    int sock = exs_socket(PF_INET, SOCK_STREAM, 0), listener = socket(PF_INET, SOCK_STREAM, 0);
    exs_qhandle_t queue = exs_qcreate(256);
    if (exs_bind(sock, (struct sockaddr *)&exs, length) == -1 || exs_listen(sock, SOMAXCONN) == -1 ||
        exs_getsockname(sock, (struct sockaddr *)&exs, &length) == -1 ||
        bind(listener, (struct sockaddr *)&tcp, length) == -1 || listen(listener, 16) == -1 ||
        getsockname(listener, (struct sockaddr *)&tcp, &length) == -1 ||
        exs_accept(sock, &every_one, 1, EXS_MULTISHOT, queue) == -1) {
        perror("kv-server");
        return 1;
    }
    printf("waiting on port %u, for TCP on port %u\n", ntohs(exs.sin_port), ntohs(tcp.sin_port));
    fflush(stdout);
    exs_ev_init(&watcher, events_cb, queue);
    exs_ev_start(loop, &watcher);
    ev_io_init(&io, tcp_accept, listener, EV_READ);
    ev_io_start(loop, &io);
    return ev_run(loop, 0);
}
