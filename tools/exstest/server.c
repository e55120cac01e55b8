/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server.c - the server: any number of clients in one libev loop, on one event queue.
 *
 * A client that misbehaves does not affect the others: its connection fails, the server prints the reason and
 * continues.
 */
#include "server.h"

#include <errno.h>
#include <exs_ev.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "link.h"
#include "tools/common/acceptor.h"
#include "tools/common/options.h"
#include "say.h"
#include "session.h"

enum {
    BACKLOG = 1024,
    LINKS_MAX = 8192,
    DEPTH = 4096,
    BATCH = 64,
    ROUNDS = 1024,
    POLL_IDLE_S = 1, /* seconds without an event after which the server sleeps though a client wants polling */
    HANDSHAKE_PATIENCE = 20, /* seconds without an event during the handshake */
    TEST_PATIENCE = 60,
    REST_PATIENCE = 3600 /* if the test may have no events for a long time (link->may_rest) */
};

struct client { /* a connection */
    struct link link;
    LIST_ENTRY(client) entry;
    struct session *session;
    char name[OPTIONS_ADDRESS_MAX];
    bool polling;
    uint64_t moves; /* link.moves a second ago */
    int silent;     /* seconds without an event */
};

/* Owned by server_run(), used by the loop's thread only. */
static struct server {
    struct ev_loop *loop;
    exs_qhandle_t queue;
    exs_ev events;
    ev_signal interrupt, terminate;
    ev_timer second;
    ev_idle poll;
    int listener; /* -1: closed */
    struct acceptor acceptor;
    char device[64];
    LIST_HEAD(, client) clients;
    struct sessions sessions;
    int count, polling; /* connections; connections whose client wants polling */
    ev_tstamp heard;    /* time of the last event */
    struct budget budget;
    bool ending;
} server;

static int report_error(const char *what)
{
    complain("%s: %s", what, strerror(errno));
    return -1;
}

/* ---- Shutdown ---------------------------------------------------------------------------------------- */

static void end_when_quiet(struct server *s)
{
    if (s->ending && s->count == 0 && s->listener == -1)
        ev_break(s->loop, EVBREAK_ALL);
}

/* Stops accepting clients, and lets the current ones finish. */
static void begin_to_end(struct server *s)
{
    if (s->ending)
        return;
    s->ending = true;
    acceptor_end(&s->acceptor);
    if (exs_close(s->listener, 0, s->queue, NULL) == -1) {
        report_error("closing the listener");
        s->listener = -1;
    }
    end_when_quiet(s);
}

static void signal_cb(EV_P_ ev_signal *w, int revents)
{
    struct client *client, *next;

    (void)loop, (void)w, (void)revents;
    begin_to_end(&server);
    for (client = LIST_FIRST(&server.clients); client != NULL; client = next) {
        next = LIST_NEXT(client, entry);
        link_fail(&client->link, "the server was told to end");
    }
}

/* ---- Connections ------------------------------------------------------------------------------------- */

static void free_client(struct client *client)
{
    LIST_REMOVE(client, entry);
    server.count--;
    server.polling -= client->polling;
    if (server.polling == 0)
        ev_idle_stop(server.loop, &server.poll);
    free(client);
    acceptor_more(&server.acceptor);
    end_when_quiet(&server);
}

static int room_for_connections(const struct server *s)
{
    int room = budget_connections(&s->budget);

    return room < LINKS_MAX ? room : LINKS_MAX;
}

static void client_asked(struct client *client)
{
    struct link *link = &client->link;

    trace(1, "%s: test %c, connection %u of %u, %u iterations", client->name, link->request.test,
          link->request.number + 1, link->request.total, link->request.iterations);
    for (int i = 0; i < link->request.ops.count && say_debug >= 2; i++) {
        char text[64];

        trace(2, "%s: op[%d] %s", client->name, i, op_text(&link->request.ops.op[i], text));
    }
    if (server.ending) {
        snprintf(link->answer.why, sizeof(link->answer.why), "the server is about to quit");
        return;
    }
    if (link->request.test == 'Q')
        return;
    if (link->request.total > (uint32_t)room_for_connections(&server)) {
        snprintf(link->answer.why, sizeof(link->answer.why),
                 "the server's memory: the test has %u connections, there may be %d: give the server more (-M)",
                 link->request.total, room_for_connections(&server));
        return;
    }
    client->session = session_join(&server.sessions, link->request.session, link->request.test,
                                   link->request.total, client->name);
    if (client->session == NULL)
        snprintf(link->answer.why, sizeof(link->answer.why), "the server has no memory");
    client->polling = (link->request.flags & REQUEST_POLLING) != 0;
    server.polling += client->polling;
    server.heard = ev_now(server.loop);
    if (client->polling)
        ev_idle_start(server.loop, &server.poll);
}

static void client_ended(struct client *client, bool failed)
{
    if (client->session != NULL)
        session_leave(client->session, failed, client->link.mismatches);
    client->session = NULL;
}

static void handle_news(struct link *link, enum news news)
{
    struct client *client = link->owner;

    switch (news) {
    case LINK_READY:
        client_asked(client);
        break;
    case LINK_DONE:
        client_ended(client, false);
        if (link->request.test == 'Q') {
            say("Server: %s asks to quit", client->name);
            begin_to_end(&server);
        }
        break;
    case LINK_FAILED:
        complain("client %s: %s", client->name, link->failure);
        client_ended(client, true);
        break;
    case LINK_GONE:
        free_client(client);
        break;
    }
}

static void add_client(int socket, const struct sockaddr_storage *peer)
{
    struct client *client = calloc(1, sizeof(*client));

    if (client == NULL) {
        report_error("a client is sent away");
        exs_close(socket, 0, NULL, NULL);
        return;
    }
    options_address_text(peer, client->name);
    client->link.owner = client;
    client->link.tell = handle_news;
    client->link.version = WIRE_VERSION;
    client->link.budget = &server.budget;
    LIST_INSERT_HEAD(&server.clients, client, entry);
    server.count++;
    trace(1, "%s connected", client->name);
    link_accepted(&client->link, socket, server.queue);
}

/* ---- Listening --------------------------------------------------------------------------------------- */

static int free_places(void)
{
    return room_for_connections(&server) - server.count;
}

static void say_why(const char *why)
{
    complain("%s", why);
}

static void give_out(struct server *s, const exs_event_t *events, int count)
{
    for (const exs_event_t *event = events; event < events + count; event++) {
        if (event->exs_evt_type == EXS_EVT_ACCEPT) {
            acceptor_event(&s->acceptor, event);
        } else if (event->exs_evt_ahandle != NULL) {
            link_event(event->exs_evt_ahandle, event);
        } else if (event->exs_evt_type == EXS_EVT_CLOSE) {
            s->listener = -1;
            end_when_quiet(s);
        }
    }
}

static void events_cb(EV_P_ exs_ev *w, exs_event_t *events, int count)
{
    struct server *s = w->data;

    s->heard = ev_now(EV_A);
    if (s->polling > 0)
        ev_idle_start(EV_A, &s->poll);
    give_out(s, events, count);
}

/* While a client wants polling, the loop busy-polls the queue when it is idle. After POLL_IDLE_S seconds without an
 * event, for example because the client was stopped, the server sleeps until the next event and then polls again. */
static void poll_cb(EV_P_ ev_idle *w, int revents)
{
    const struct timeval now = {0};
    struct server *s = w->data;
    exs_event_t events[BATCH];
    int count = 0;

    (void)revents;
    for (int i = 0; i < ROUNDS && count == 0; i++)
        count = exs_qdequeue(s->queue, events, BATCH, &now);
    if (count > 0) {
        s->heard = ev_now(EV_A);
        give_out(s, events, count);
    } else if (ev_now(EV_A) - s->heard > POLL_IDLE_S) {
        ev_idle_stop(EV_A, w);
    }
}

/* ---- Time limits ------------------------------------------------------------------------------------- */

static void second_cb(EV_P_ ev_timer *w, int revents)
{
    struct client *client, *next;

    (void)loop, (void)w, (void)revents;
    for (client = LIST_FIRST(&server.clients); client != NULL; client = next) {
        struct link *link = &client->link;
        bool asking = link->stage == GREETING || link->stage == ASKING;
        int patience = asking ? HANDSHAKE_PATIENCE : link->may_rest ? REST_PATIENCE : TEST_PATIENCE;

        next = LIST_NEXT(client, entry);
        client->silent = link->moves == client->moves ? client->silent + 1 : 0;
        client->moves = link->moves;
        if (client->silent >= patience)
            link_fail(link, "it has been silent for %d seconds", client->silent);
    }
    say_second();
}

/* ---- Start ------------------------------------------------------------------------------------------- */

/* Returns 0, or -1 and errno, or -1 after printing an error. */
static int listen_on(struct server *s, const char *host, const char *port)
{
    struct sockaddr_storage address;
    socklen_t length = options_address(host, port, &address);

    s->listener = exs_socket(address.ss_family, SOCK_SEQPACKET, 0);
    if (s->listener == -1)
        return -1;
    if (exs_bind(s->listener, (struct sockaddr *)&address, length) == 0 &&
        exs_listen(s->listener, BACKLOG) == 0)
        return 0;
    int error = errno;

    exs_blocking_close(s->listener);
    s->listener = -1;
    errno = error;
    return -1;
}

static int port_of(int listener)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);

    if (exs_getsockname(listener, (struct sockaddr *)&address, &length) == -1)
        return -1;
    return ntohs(((struct sockaddr_in *)&address)->sin_port); /* same offset in sockaddr_in6 */
}

/* Listens on the wildcard address of IPv6, which includes IPv4, or of IPv4 on a machine without IPv6. */
static int start_listening(struct server *s, const struct options *o)
{
    int result = listen_on(s, o->address != NULL ? o->address : "::", o->port);

    if (result == -1 && o->address == NULL)
        result = listen_on(s, "0.0.0.0", o->port);
    if (result == -1) {
        complain("listening on port %s failed: %s", o->port, strerror(errno));
        return -1;
    }
    int port = port_of(s->listener);

    if (port == -1 || exs_getdevice(s->listener, s->device, sizeof(s->device)) == -1)
        return report_error("asking for the listener's device");
    s->acceptor = (struct acceptor){.loop = s->loop,
                                    .queue = s->queue,
                                    .listener = s->listener,
                                    .room = free_places,
                                    .came = add_client,
                                    .say = say_why};
    if (acceptor_begin(&s->acceptor) == -1)
        return report_error("accepting");
    say("exstest: Service Point Ready - %s, port %d", s->device, port);
    return 0;
}

static void start_watchers(struct server *s)
{
    ev_signal_init(&s->interrupt, signal_cb, SIGINT);
    ev_signal_init(&s->terminate, signal_cb, SIGTERM);
    ev_signal_start(s->loop, &s->interrupt);
    ev_signal_start(s->loop, &s->terminate);
    ev_timer_init(&s->second, second_cb, 1., 1.);
    ev_timer_start(s->loop, &s->second);
    ev_idle_init(&s->poll, poll_cb);
    s->poll.data = s->events.data = s;
    exs_ev_init(&s->events, events_cb, s->queue);
    exs_ev_start(s->loop, &s->events);
}

static void stop_watchers(struct server *s)
{
    exs_ev_stop(s->loop, &s->events);
    ev_idle_stop(s->loop, &s->poll);
    ev_timer_stop(s->loop, &s->second);
    ev_signal_stop(s->loop, &s->interrupt);
    ev_signal_stop(s->loop, &s->terminate);
}

int server_run(const struct options *options)
{
    struct server *s = &server;
    int status = 1;

    s->budget = budget_of(options->memory);
    s->loop = ev_default_loop(0);
    s->queue = exs_qcreate(DEPTH);
    if (s->loop == NULL || s->queue == EXS_QHANDLE_INVALID) {
        report_error("starting");
        return 1;
    }
    start_watchers(s);
    if (start_listening(s, options) == 0) {
        say_limited();
        ev_run(s->loop, 0);
        status = 0;
    }
    stop_watchers(s);
    if (status == 0 && exs_qdelete(s->queue) == -1) {
        report_error("giving back the event queue");
        status = 1;
    }
    say_end();
    say("exstest: Server (%s): Exiting.", s->device);
    ev_loop_destroy(s->loop);
    return status;
}
