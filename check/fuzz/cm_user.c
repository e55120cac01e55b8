/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_user.c - the application of the connection manager. It checks that each event of an identifier was due, and was
 * delivered once.
 */
#include <unistd.h>
#include "check/fuzz/cm_world.h"

static struct user *find(struct cm_world *world, const struct rdma_cm_id *id)
{
    for (int i = 0; i < CM_USERS; i++)
        if (world->users[i].id == id)
            return &world->users[i];
    return NULL;
}

/* RDMA_PS_UDP needs a context with names, which programs share (CM_SHARED). */
static enum rdma_port_space space(bool datagrams)
{
#ifdef CM_SHARED
    return datagrams ? RDMA_PS_UDP : RDMA_PS_TCP;
#else
    (void)datagrams;
    return RDMA_PS_TCP;
#endif
}

static struct user *choose(struct cm_world *world)
{
    struct user *user = &world->users[input_below(&world->input, CM_USERS)];

    for (int i = 0; i < CM_USERS && !user->id; i++)
        user = &world->users[i];
    return user->id ? user : NULL;
}

/* ---- Calls ---- */

static void make_qp(struct user *user)
{
    struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = user->id->qp_type};

    if (user->pd || !user->id->verbs)
        return;
    user->pd = soft_alloc_pd(user->id->verbs);
    if (user->pd)
        (void)soft_create_id_qp(user->id, user->pd, &attr);
}

static struct rdma_conn_param read_param(struct input *input)
{
    static const uint8_t data[255];
    uint8_t how = input_u8(input);
    struct rdma_conn_param param = {.private_data = how & 1 ? data : NULL,
                                    .private_data_len = how & 2 ? input_u8(input) : 0,
                                    .responder_resources = (uint8_t)(how & 4 ? RDMA_MAX_RESP_RES : how >> 4),
                                    .initiator_depth = (uint8_t)(how & 8 ? RDMA_MAX_INIT_DEPTH : how >> 4),
                                    .retry_count = (uint8_t)(how >> 4),
                                    .rnr_retry_count = 7,
                                    .qp_num = how & 128 ? 0x1000000u : 0x4321u};
    return param;
}

void user_listen(struct cm_world *world)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int backlog = input_u8(&world->input);

    expect(!soft_create_id(world->channels[0], &world->listener, world, space(backlog & 64)) &&
               !soft_bind_addr(world->listener, (struct sockaddr *)&address) &&
               !soft_listen(world->listener, backlog < 128 ? 1024 : 0),
           "a listener: %s", strerror(errno));
    world->address = world->listener->route.addr.src_sin;
}

void user_tries(struct cm_world *world)
{
    struct rdma_event_channel *channel = soft_create_event_channel();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint8_t how = input_u8(&world->input);
    struct rdma_cm_id *id;

    if (!channel)
        return;
    if (!soft_create_id(channel, &id, NULL, how & 8 ? RDMA_PS_UDP : RDMA_PS_TCP)) {
        if (how & 1)
            (void)soft_bind_addr(id, (struct sockaddr *)&address);
        (void)soft_listen(id, 0);
        if (how & 2)
            (void)soft_listen(id, 0);
        if (how & 4)
            (void)soft_resolve_addr(id, (struct sockaddr *)&address, (struct sockaddr *)&world->address, 1000);
        soft_destroy_id(id);
    }
    soft_destroy_event_channel(channel);
}

/* Makes the next calls of connecting, from the start or from where the identifier is. */
static void go_on(struct cm_world *world, struct user *user, uint8_t how)
{
    struct sockaddr_in to = how & 4 ? world->address : world->stranger_address;
    struct rdma_conn_param param;

    if (how & 8)
        to.sin_port ^= htons(0x5555); /* a port without a listener, most likely */
    if (!soft_resolve_addr(user->id, NULL, (struct sockaddr *)&to, 1000))
        user->address = true;
    if (!soft_resolve_route(user->id, 1000))
        user->route = true;
    if (how & 16)
        make_qp(user);
    if (how & 32)
        return;
    param = read_param(&world->input);
    if (!soft_connect(user->id, how & 64 ? NULL : &param))
        user->asked = true;
}

void user_connect(struct cm_world *world)
{
    uint8_t how = input_u8(&world->input);
    struct user *user = find(world, NULL);

    if (how & 1)
        user = choose(world);
    if (!user)
        return;
    if (!user->id) {
        *user = (struct user){.active = true};
        if (soft_create_id(world->channels[how >> 1 & 1], &user->id, NULL, space(how & 128))) {
            user->id = NULL;
            return;
        }
    }
    go_on(world, user, how);
}

void user_answer(struct cm_world *world)
{
    uint8_t how = input_u8(&world->input);
    struct user *user = choose(world);
    struct rdma_conn_param param;

    if (!user)
        return;
    if ((how & 7) == 0) {
        static const uint8_t data[255];
        (void)soft_reject(user->id, how & 8 ? data : NULL, how & 16 ? input_u8(&world->input) : 0);
        return;
    }
    if (how & 8)
        make_qp(user);
    param = read_param(&world->input);
    if (!soft_accept(user->id, how & 16 ? NULL : &param))
        user->asked = true;
}

static void ask_attributes(struct user *user, uint8_t how)
{
    struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)(how & 3)};
    int mask;

    (void)soft_init_qp_attr(user->id, &attr, &mask);
}

/* Queries GIDs and P_Keys, as programs do that connect without librdmacm. */
static void ask_names(struct input *input, struct ibv_context *context)
{
    uint8_t port = input_u8(input) & 3, index = input_u8(input) % (SOFT_GIDS + 2);
    struct ibv_gid_entry entries[4];
    union ibv_gid gid;
    __be16 pkey;

    if (!context)
        return;
    (void)soft_query_gid(context, port, index, &gid);
    (void)soft_query_gid_ex(context, port, index, entries, port & 2, sizeof entries[0]);
    ssize_t room = index & 3,
            count = soft_query_gid_table(context, entries, (size_t)room, port & 2, sizeof entries[0]);
    expect(count <= room, "%zd GIDs, and room for %zd", count, room);
    if (soft_query_pkey(context, port, index & 1, &pkey) == 0)
        expect(soft_get_pkey_index(context, port, pkey) == (index & 1), "a partition key's place");
}

static void set_option(struct user *user, uint8_t how)
{
    int value = how >> 2;

    (void)soft_set_option(user->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS + (how & 3), &value,
                          how & 128 ? 1 : sizeof value);
}

void user_ends(struct cm_world *world)
{
    uint8_t how = input_u8(&world->input);
    struct user *user = choose(world);

    if (!user)
        return;
    switch (how & 7) {
    case 0:
    case 1:
        (void)soft_disconnect(user->id);
        break;
    case 2:
        (void)soft_establish(user->id);
        break;
    case 3:
        (void)soft_migrate_id(user->id, world->channels[how >> 3 & 1]);
        break;
    case 4:
        soft_destroy_id_qp(user->id);
        break;
    case 5:
        ask_attributes(user, how >> 3);
        ask_names(&world->input, user->id->verbs);
        break;
    case 6:
        set_option(user, input_u8(&world->input));
        break;
    default:
        user_destroy(world, user);
    }
}

void user_destroy(struct cm_world *world, struct user *user)
{
    user_acknowledge(world); /* otherwise destroying waits for it */
    soft_destroy_id_qp(user->id);
    if (user->pd)
        expect(!soft_dealloc_pd(user->pd), "the protection domain is in use");
    soft_destroy_id(user->id);
    *user = (struct user){.id = NULL};
}

/* ---- Events ---- */

static void expect_private(const struct rdma_cm_event *event, unsigned most)
{
    const uint8_t *data = event->param.conn.private_data;
    unsigned sum = 0;

    expect(event->param.conn.private_data_len <= most, "%u bytes of private data",
           event->param.conn.private_data_len);
    for (unsigned i = 0; i < event->param.conn.private_data_len; i++)
        sum += data[i];
    expect(sum <= most * 255, "readable");
}

static void take_request(struct cm_world *world, const struct rdma_cm_event *event)
{
    struct user *user = find(world, NULL);

    expect(event->listen_id == world->listener, "a request of another listener");
    expect(!find(world, event->id), "a request that was told before");
    expect(event->status == 0, "a request's status");
    if (event->id->ps == RDMA_PS_TCP)
        expect(event->param.conn.qp_num > 1 && event->param.conn.qp_num < 0xffffff, "queue pair %u",
               event->param.conn.qp_num);
    expect_private(event, event->id->ps == RDMA_PS_TCP ? CM_REQ_PRIVATE : CM_SIDR_REQ_PRIVATE);
    world->requests++;
    if (user)
        *user = (struct user){.id = event->id};
}

static void take_outcome(struct user *user, const struct rdma_cm_event *event)
{
    bool good = event->event == RDMA_CM_EVENT_ESTABLISHED || event->event == RDMA_CM_EVENT_CONNECT_RESPONSE;

    expect(user->asked && !user->told, "%s, which is not due", rdma_event_str(event->event));
    expect(good == (event->status == 0), "%s with status %d", rdma_event_str(event->event), event->status);
    if (user->id->ps == RDMA_PS_UDP)
        expect(user->active && (good ? event->param.ud.qp_num > 1 && event->param.ud.qp_num < 0xffffff
                                     : event->event == RDMA_CM_EVENT_UNREACHABLE),
               "%s of datagrams, and queue pair %u", rdma_event_str(event->event), event->param.ud.qp_num);
    expect_private(event, user->active                             ? CM_REP_PRIVATE
                          : event->event == RDMA_CM_EVENT_REJECTED ? CM_REJ_PRIVATE /* it rejects our REP */
                                                                   : CM_REQ_PRIVATE);
    user->told = true;
}

static void take(struct cm_world *world, const struct rdma_cm_event *event)
{
    struct user *user = find(world, event->id);

    expect(user || event->event == RDMA_CM_EVENT_CONNECT_REQUEST, "%s of an identifier that is gone",
           rdma_event_str(event->event));
    switch (event->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        take_request(world, event);
        break;
    case RDMA_CM_EVENT_ADDR_RESOLVED:
    case RDMA_CM_EVENT_ADDR_ERROR:
        expect(user->address, "%s, which is not due", rdma_event_str(event->event));
        user->address = false;
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        expect(user->route, "%s, which is not due", rdma_event_str(event->event));
        user->route = false;
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        expect(user->asked && !user->ended && event->status == 0, "DISCONNECTED, which is not due");
        user->ended = true;
        break;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        expect(user->ended && !user->over && event->status == 0, "TIMEWAIT_EXIT, which is not due");
        user->over = true;
        break;
    default:
        take_outcome(user, event);
    }
}

static void hold(struct cm_world *world, struct rdma_cm_event *event)
{
    for (int i = 0; i < CM_HELD; i++)
        if (!world->held[i]) {
            world->held[i] = event;
            return;
        }
    soft_ack_cm_event(event);
}

void user_acknowledge(struct cm_world *world)
{
    for (int i = 0; i < CM_HELD; i++) {
        if (world->held[i])
            soft_ack_cm_event(world->held[i]);
        world->held[i] = NULL;
    }
}

void user_hears(struct cm_world *world, unsigned events)
{
    struct rdma_cm_event *event;

    for (int i = 0; i < CM_CHANNELS; i++)
        for (unsigned count = 0; count < events && !soft_get_cm_event(world->channels[i], &event); count++) {
            struct rdma_cm_id *id = event->id;
            bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;

            take(world, event);
            hold(world, event);
            if (request && !find(world, id)) { /* no slot is free */
                user_acknowledge(world);
                soft_destroy_id(id);
            }
        }
}

/* ---- What the application can't see ---- */

/* Some requests may not have been delivered, because their listener was destroyed before. At RoCE's port requests
 * arrive without a TCP connection. */
void user_expect_counted(const struct cm_world *world, const struct soft_cm_counters *before)
{
    struct soft_cm_counters now;

    soft_query_cm_counters(&now);
    uint64_t requests = now.requests - before->requests, accepted = now.accepted - before->accepted;
#ifdef CM_ROCE
    accepted = UINT64_MAX;
#endif
    expect(world->requests <= requests && requests <= accepted,
           "%u requests told of, %llu counted, of %llu connections", world->requests,
           (unsigned long long)requests, (unsigned long long)accepted);
}

void user_expect_bounds(const struct cm_world *world)
{
    const struct cm_id *child, *listener = (const struct cm_id *)world->listener;
    unsigned half_open = 0;

    if (!listener)
        return;
    TAILQ_FOREACH (child, &listener->children, child)
        half_open += child->state == CM_HALF_OPEN || child->state == CM_REFUSING;
    expect(half_open == listener->half_open, "%u are half open, and %u counted", half_open,
           listener->half_open);
    expect(half_open <= CM_HALF_OPEN_MAX, "%u are half open", half_open);
}
