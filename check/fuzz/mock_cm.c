/* SPDX-License-Identifier: BSD-2-Clause */
/* The mock's connection manager: ids, their states, and the events that the harness adds. See mock.h. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "check/fuzz/mock.h"

struct mock_event {
    struct rdma_cm_event event;
    uint8_t private_data[256];
    TAILQ_ENTRY(mock_event) link;
};

struct mock_channel {
    struct rdma_event_channel channel;
    TAILQ_HEAD(mock_events, mock_event) events;
    int ids, fetched;
    LIST_ENTRY(mock_channel) link;
};

struct mock_id_list mock_ids = LIST_HEAD_INITIALIZER(mock_ids);
static LIST_HEAD(, mock_channel) channels = LIST_HEAD_INITIALIZER(channels);
static uint16_t last_port;

/* ---- Channels and events --------------------------------------------------------------------- */

struct rdma_event_channel *mock_create_event_channel(void)
{
    struct mock_channel *channel = mock_fails() ? NULL : calloc(1, sizeof(*channel));

    if (channel == NULL)
        return NULL;
    channel->channel.fd = eventfd(0, EFD_CLOEXEC);
    TAILQ_INIT(&channel->events);
    LIST_INSERT_HEAD(&channels, channel, link);
    mock_count.cm_channels++;
    return &channel->channel;
}

void mock_destroy_event_channel(struct rdma_event_channel *channel)
{
    struct mock_channel *mock = (struct mock_channel *)channel;

    require(mock->ids == 0 && mock->fetched == 0, "an event channel goes before %d ids of it", mock->ids);
    LIST_REMOVE(mock, link);
    close(channel->fd);
    mock_count.cm_channels--;
    free(mock);
}

static struct mock_channel *channel_of(const struct rdma_cm_id *id)
{
    return (struct mock_channel *)id->channel;
}

static void add_event(struct mock_channel *channel, struct mock_event *event)
{
    if (TAILQ_EMPTY(&channel->events))
        eventfd_write(channel->channel.fd, 1);
    TAILQ_INSERT_TAIL(&channel->events, event, link);
}

static void remove_event(struct mock_channel *channel, struct mock_event *event)
{
    eventfd_t value;

    TAILQ_REMOVE(&channel->events, event, link);
    if (TAILQ_EMPTY(&channel->events))
        eventfd_read(channel->channel.fd, &value);
}

static void open_qp(const struct mock_id *id)
{
    struct ibv_qp *qp = id->id.qp;

    if (qp != NULL && qp->state == IBV_QPS_INIT)
        qp->state = IBV_QPS_RTS;
}

void mock_cm_event(struct mock_id *id, enum rdma_cm_event_type type, int status, const void *private_data,
                   uint8_t length, int responder_resources, int initiator_depth)
{
    struct mock_event *event = calloc(1, sizeof(*event));

    if (type == RDMA_CM_EVENT_ESTABLISHED && mock_config.early)
        open_qp(id);
    event->event = (struct rdma_cm_event){.id = &id->id, .event = type, .status = status};
    event->event.param.conn.responder_resources = (uint8_t)responder_resources;
    event->event.param.conn.initiator_depth = (uint8_t)initiator_depth;
    if (length > 0) {
        memcpy(event->private_data, private_data, length);
        event->event.param.conn.private_data = event->private_data;
        event->event.param.conn.private_data_len = length;
    }
    add_event(channel_of(&id->id), event);
}

/* The state of an id changes when EXS fetches the event. */
static void arrive(struct mock_id *id, enum rdma_cm_event_type type)
{
    if (type != RDMA_CM_EVENT_ESTABLISHED)
        return;
    if (id->state != MOCK_ENDED)
        id->state = MOCK_OPEN;
    open_qp(id);
}

int mock_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    struct mock_channel *mock = (struct mock_channel *)channel;
    struct mock_event *first = TAILQ_FIRST(&mock->events);

    if (first == NULL) {
        errno = EAGAIN;
        return -1;
    }
    remove_event(mock, first);
    mock->fetched++;
    mock_progress++;
    if (first->event.event != RDMA_CM_EVENT_CONNECT_REQUEST)
        arrive((struct mock_id *)first->event.id, first->event.event);
    *event = &first->event;
    return 0;
}

int mock_ack_cm_event(struct rdma_cm_event *event)
{
    channel_of(event->listen_id != NULL ? event->listen_id : event->id)->fetched--;
    free(event);
    return 0;
}

bool mock_cm_waits(void)
{
    struct mock_channel *channel;

    LIST_FOREACH (channel, &channels, link) {
        if (!TAILQ_EMPTY(&channel->events))
            return true;
    }
    return false;
}

/* ---- Ids ------------------------------------------------------------------------------------- */

static struct mock_id *new_id(const struct device *device, struct rdma_event_channel *channel, void *context)
{
    struct mock_id *id = calloc(1, sizeof(*id));

    id->id.channel = channel;
    id->id.context = context;
    id->id.ps = RDMA_PS_TCP;
    id->device = device;
    ((struct mock_channel *)channel)->ids++;
    LIST_INSERT_HEAD(&mock_ids, id, link);
    mock_count.ids++;
    return id;
}

int mock_create_id_on(const struct device *device, struct rdma_event_channel *channel, struct rdma_cm_id **id,
                      void *context)
{
    if (mock_fails())
        return -1;
    *id = &new_id(device, channel, context)->id;
    return 0;
}

/* Drops the pending events of an id that is destroyed, and the connections that they bring. */
static void drop_events(struct mock_id *id)
{
    struct mock_channel *channel = channel_of(&id->id);
    struct mock_event *event = TAILQ_FIRST(&channel->events), *next;

    for (; event != NULL; event = next) {
        next = TAILQ_NEXT(event, link);
        if (event->event.listen_id == &id->id) {
            remove_event(channel, event);
            mock_destroy_id(event->event.id);
            free(event);
            next = TAILQ_FIRST(&channel->events); /* the events of the new connection are gone, too */
        } else if (event->event.id == &id->id) {
            remove_event(channel, event);
            free(event);
        }
    }
}

int mock_destroy_id(struct rdma_cm_id *id)
{
    struct mock_id *mock = (struct mock_id *)id;

    require(id->qp == NULL, "an id goes before its queue pair");
    mock_gone(mock);
    drop_events(mock);
    if (id->verbs != NULL)
        mock_count_id(id->verbs, -1);
    channel_of(id)->ids--;
    LIST_REMOVE(mock, link);
    mock_count.ids--;
    free(mock);
    return 0;
}

int mock_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *to)
{
    struct mock_channel *from = channel_of(id);
    struct mock_event *event = TAILQ_FIRST(&from->events), *next;

    if (mock_is_removed(id->verbs) || mock_fails())
        return -1;
    for (; event != NULL; event = next) {
        next = TAILQ_NEXT(event, link);
        if (event->event.id != id || from->channel.fd == to->fd)
            continue;
        remove_event(from, event);
        add_event((struct mock_channel *)to, event);
    }
    from->ids--;
    ((struct mock_channel *)to)->ids++;
    id->channel = to;
    return 0;
}

int mock_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
    require(level == RDMA_OPTION_ID && name == RDMA_OPTION_ID_ACK_TIMEOUT && value != NULL && length == 1,
            "option %d of level %d", name, level);
    return mock_is_removed(id->verbs) || mock_fails() ? -1 : 0;
}

/* ---- Connections ------------------------------------------------------------------------------------ */

static void give_address(struct sockaddr *to, const struct sockaddr *from)
{
    memcpy(to, from, from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
}

/* Calls fail for an id whose device was removed, or whose connection has ended. */
static bool call_fails(const struct mock_id *id)
{
    if (mock_is_removed(id->id.verbs))
        return true;
    if (id->state == MOCK_ENDED)
        errno = ENODEV;
    return id->state == MOCK_ENDED || mock_fails();
}

int mock_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    struct mock_id *mock = (struct mock_id *)id;
    struct sockaddr_in *here = (struct sockaddr_in *)&id->route.addr.src_addr;

    if (mock_fails())
        return -1;
    require(!mock->bound, "an id is bound twice");
    give_address(&id->route.addr.src_addr, address);
    if (here->sin_port == 0)
        here->sin_port = htons((uint16_t)(10000 + last_port++ % 1000));
    mock->bound = true;
    return 0;
}

static void find_device(struct mock_id *id)
{
    id->id.verbs = mock_context(id->device);
    id->id.port_num = 1;
    mock_count_id(id->id.verbs, 1);
}

/* A connection that EXS has not accepted yet gets no event. */
void mock_remove(struct ibv_context *context)
{
    struct mock_id *id;

    ((struct mock_context *)context)->removed = true;
    LIST_FOREACH (id, &mock_ids, link) {
        bool is_known = id->state != MOCK_ASKED;

        if (id->id.verbs != context)
            continue;
        id->state = MOCK_ENDED;
        if (is_known)
            mock_cm_event(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0, 0, 0);
    }
}

int mock_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
    struct mock_id *mock = (struct mock_id *)id;

    require(from == NULL && timeout_ms > 0, "resolving within %d ms", timeout_ms);
    if (mock_config.cm_unreachable && mock->device == mock_devices[0]) {
        errno = ENODEV;
        return -1;
    }
    if (call_fails(mock))
        return -1;
    require(mock->state == MOCK_IDLE, "resolving an address twice");
    if (id->route.addr.src_addr.sa_family == 0)
        id->route.addr.src_addr.sa_family = to->sa_family;
    give_address(&id->route.addr.dst_addr, to);
    find_device(mock);
    mock->state = MOCK_RESOLVING;
    return 0;
}

int mock_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    require(timeout_ms > 0, "a route within %d ms", timeout_ms);
    if (call_fails((struct mock_id *)id))
        return -1;
    require(((struct mock_id *)id)->state == MOCK_RESOLVED, "a route without an address");
    ((struct mock_id *)id)->state = MOCK_ROUTING;
    return 0;
}

static void hear(struct mock_id *id, const struct rdma_conn_param *param)
{
    memcpy(id->hello, param->private_data, param->private_data_len);
    id->hello_length = param->private_data_len;
    id->initiator_depth = param->initiator_depth;
}

int mock_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct mock_id *mock = (struct mock_id *)id;

    require(id->qp != NULL && id->verbs != NULL, "connecting without a queue pair");
    if (call_fails(mock))
        return -1;
    require(mock->state == MOCK_ROUTED, "connecting without a route");
    hear(mock, param);
    mock->state = MOCK_CONNECTING;
    mock_connects(mock);
    return 0;
}

int mock_listen(struct rdma_cm_id *id, int backlog)
{
    require(backlog > 0 && ((struct mock_id *)id)->bound, "listening with a backlog of %d", backlog);
    if (mock_fails())
        return -1;
    ((struct mock_id *)id)->listening = true;
    return 0;
}

struct mock_id *mock_request(struct mock_id *listener, const void *private_data, uint8_t length,
                             int reads_wanted, int reads_served)
{
    struct mock_id *id = new_id(listener->device, listener->id.channel, listener->id.context);
    struct sockaddr_in *there = (struct sockaddr_in *)&id->id.route.addr.dst_addr;
    struct mock_event *event;

    id->id.route.addr.src_addr = listener->id.route.addr.src_addr;
    *there =
        (struct sockaddr_in){.sin_family = listener->id.route.addr.src_addr.sa_family, .sin_port = htons(7)};
    id->state = MOCK_ASKED;
    find_device(id);
    mock_cm_event(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, private_data, length, reads_wanted, reads_served);
    event = TAILQ_LAST(&channel_of(&listener->id)->events, mock_events);
    event->event.listen_id = &listener->id;
    return id;
}

int mock_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct mock_id *mock = (struct mock_id *)id;

    if (call_fails(mock))
        return -1;
    require(mock->state == MOCK_ASKED, "accepting what nobody asked for");
    hear(mock, param);
    mock->state = MOCK_ACCEPTED;
    mock_qp_of(id)->qp.state = IBV_QPS_RTS;
    mock_accepts(mock);
    return 0;
}

int mock_reject(struct rdma_cm_id *id, const void *private_data, uint8_t length)
{
    (void)private_data;
    (void)length;
    require(id->qp == NULL, "refusing what was accepted");
    ((struct mock_id *)id)->state = MOCK_ENDED;
    return mock_fails() ? -1 : 0;
}

int mock_disconnect(struct rdma_cm_id *id)
{
    struct mock_id *mock = (struct mock_id *)id;

    if (mock_refuses(id->verbs) || mock_fails())
        return -1;
    mock->state = MOCK_ENDED;
    mock_break(mock_qp_of(id));
    mock_disconnects(mock);
    return mock_is_removed(id->verbs) ? -1 : 0;
}
