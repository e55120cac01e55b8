/* SPDX-License-Identifier: BSD-2-Clause */
/* ending.c - connections of the connection manager: the traffic class of their packets, and disconnecting. The server
 * runs in a separate thread until the connection is established, because each end waits for the other. */
#include "cases.h"
#include "ends.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#define CLASS 96

/* ---- Both ends ---- */

static void expect(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = cm_next_event(id);

    if (event->event != type)
        give_up(cm_event_name(event), EPROTO);
    must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

/* The thread of the server. Its identifier uses the listener's event channel. */
static void *serve(void *listener)
{
    struct rdma_conn_param param = {.responder_resources = 1};
    struct rdma_cm_event *event = cm_next_event(listener);
    struct rdma_cm_id *server = event->id;

    cm_make_qp(server, IBV_QPT_RC);
    must(rdma_accept(server, &param), "rdma_accept");
    must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
    expect(server, RDMA_CM_EVENT_ESTABLISHED);
    return server;
}

static struct rdma_cm_id *connect_to(struct rdma_cm_id *listener, struct rdma_cm_id *client)
{
    struct rdma_conn_param param = {.responder_resources = 1, .retry_count = 7, .rnr_retry_count = 7};
    pthread_t thread;
    void *server;

    must(pthread_create(&thread, NULL, serve, listener), "pthread_create");
    must(rdma_connect(client, &param), "rdma_connect");
    expect(client, RDMA_CM_EVENT_ESTABLISHED);
    must(pthread_join(thread, &server), "pthread_join");
    return server;
}

/* Prints the next event, or that there is none. */
static void say_next(const char *what, struct rdma_cm_id *id)
{
    struct pollfd poller = {.fd = id->channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;

    if (poll(&poller, 1, PATIENCE) != 1) {
        say(what, "nothing");
        return;
    }
    event = cm_next_event(id);
    say(what, event->id == id ? cm_event_name(event) : "another's");
    must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

/* ---- Cases ---- */

/* The connection of an adapter ends (TIMEWAIT_EXIT) after packets in flight can no longer arrive. Programs free its
 * resources at this event. */
static void end_timewait(struct rig *r)
{
    struct rdma_cm_id *listener = cm_listen(r, RDMA_PS_TCP), *client = cm_prepare(listener, RDMA_PS_TCP);
    struct rdma_cm_id *server = connect_to(listener, client);

    say_error("disconnect", rdma_disconnect(client));
    say_next("server", server);
    say_error("disconnect", rdma_disconnect(server));
    say_next("client", client);
    say_next("client", client);
    say_next("server", server);
}

/* An identifier that is destroyed after disconnecting gets no further events, and does not block others on its
 * channel. */
static void end_destroyed(struct rig *r)
{
    struct rdma_cm_id *listener = cm_listen(r, RDMA_PS_TCP), *client = cm_prepare(listener, RDMA_PS_TCP);
    struct rdma_cm_id *other = cm_prepare(listener, RDMA_PS_TCP), *server = connect_to(listener, client);

    must(rdma_migrate_id(other, client->channel), "rdma_migrate_id");
    say_error("disconnect", rdma_disconnect(client));
    say_next("server", server);
    say_error("disconnect", rdma_disconnect(server));
    say_next("client", client);
    rdma_destroy_qp(client);
    say_error("destroy", rdma_destroy_id(client));
    say_next("server", server);
    must(rdma_destroy_id(listener), "rdma_destroy_id");
    must(rdma_connect(other, NULL), "rdma_connect");
    say_next("other", other);
}

static void say_class(const char *what, struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr made;
    struct ibv_qp_attr attr;

    must(ibv_query_qp(id->qp, &attr, IBV_QP_AV, &made), "ibv_query_qp");
    say_number(what, attr.ah_attr.grh.traffic_class);
}

static void tos(struct rig *r)
{
    struct rdma_cm_id *listener = cm_listen(r, RDMA_PS_TCP), *client = cm_prepare(listener, RDMA_PS_TCP);
    uint8_t class = CLASS;

    say_error("nothing", rdma_set_option(client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, 0));
    connect_to(listener, client);
    say_class("class", client);

    client = cm_make_id(RDMA_PS_TCP);
    say_error("set", rdma_set_option(client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, sizeof class));
    cm_resolve(client, listener);
    cm_make_qp(client, IBV_QPT_RC);
    connect_to(listener, client);
    say_class("class", client);
}

const struct verbs_case ending_cases[] = {
    {"end-timewait", end_timewait},
    {"end-destroyed", end_destroyed},
    {"tos", tos},
    {0},
};
