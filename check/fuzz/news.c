/* SPDX-License-Identifier: BSD-2-Clause */
/* The events of the connection manager, chosen by the input: the one that is expected next, or an error. See core.h. */
#include <string.h>
#include "check/fuzz/core.h"
#include "check/fuzz/peer.h"

static struct mock_id *some_id(struct input *input)
{
    uint8_t choice = input_u8(input), count = 0;
    struct mock_id *id;

    LIST_FOREACH (id, &mock_ids, link) {
        count++;
    }
    if (count == 0)
        return NULL;
    choice %= count;
    LIST_FOREACH (id, &mock_ids, link) {
        if (choice-- == 0)
            return id;
    }
    return NULL;
}

static void event(struct mock_id *id, enum rdma_cm_event_type type, int status)
{
    mock_cm_event(id, type, status, NULL, 0, 0, 0);
}

/* The peer accepts a connection request of EXS. */
static void accept_exs(struct mock_id *id, struct input *input)
{
    uint8_t bytes[HELLO_SIZE];
    struct peer *peer = id->peer;

    if (peer == NULL)
        return;
    struct hello mine = peer_hello(peer, input, id->hello[6]);

    xs_hello_pack(&mine, bytes);
    id->state = MOCK_ANSWERED;
    peer_met(peer, &mine);
    mock_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, bytes, sizeof(bytes), mock_config.reads, mock_config.reads);
}

void news_next(struct mock_id *id, struct input *input)
{
    switch (id->state) {
    case MOCK_RESOLVING:
        id->state = MOCK_RESOLVED;
        event(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
        break;
    case MOCK_ROUTING:
        id->state = MOCK_ROUTED;
        event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
        break;
    case MOCK_CONNECTING:
        accept_exs(id, input);
        break;
    case MOCK_ACCEPTED:
        id->state = MOCK_ANSWERED;
        event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
        break;
    default:
        break;
    }
}

/* Which events a connection manager may report in this state. No peer is trusted, but a device obeys its own rules. */
static bool may_say(enum mock_state state, enum rdma_cm_event_type type)
{
    switch (type) {
    case RDMA_CM_EVENT_ADDR_ERROR:
        return state == MOCK_RESOLVING;
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return state == MOCK_ROUTING;
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_ESTABLISHED:
        return state == MOCK_CONNECTING;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        return state == MOCK_CONNECTING || state == MOCK_ACCEPTED;
    case RDMA_CM_EVENT_DISCONNECTED:
        return state == MOCK_OPEN || state == MOCK_ANSWERED || state == MOCK_ACCEPTED;
    default:
        return true;
    }
}

/* The device is removed: first its ids get the event, or first the objects of its context fail. Another device replaces
 * it at once. */
static void lose_device(struct mock_id *id, bool ids_first)
{
    struct ibv_context *context = id->id.verbs;

    if (id->device != &rdma_device || context != mock_context(id->device) || mock_replace(id->device) == NULL)
        return;
    peers_lose();
    if (ids_first)
        mock_remove(context);
    mock_take_back(context);
    if (!ids_first)
        mock_remove(context);
}

/* An error or another event, with any private data. It ends the connection, if there is one. */
static void go_wrong(struct mock_id *id, struct input *input)
{
    static const enum rdma_cm_event_type types[] = {
        RDMA_CM_EVENT_REJECTED,       RDMA_CM_EVENT_REJECTED,      RDMA_CM_EVENT_REJECTED,
        RDMA_CM_EVENT_ADDR_ERROR,     RDMA_CM_EVENT_ROUTE_ERROR,   RDMA_CM_EVENT_CONNECT_ERROR,
        RDMA_CM_EVENT_UNREACHABLE,    RDMA_CM_EVENT_ESTABLISHED,   RDMA_CM_EVENT_DISCONNECTED,
        RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_ADDR_CHANGE,
        RDMA_CM_EVENT_MULTICAST_JOIN,
    };
    uint8_t choice = input_u8(input), bytes[256] = {0};
    const uint8_t *given;
    enum rdma_cm_event_type type = types[choice % (sizeof(types) / sizeof(types[0]))];
    struct hello hello = {.magic = HELLO_MAGIC,
                          .version = HELLO_VERSION,
                          .socktype = id->hello[6],
                          .reason = choice >> 4,
                          .credits = 16,
                          .adverts = 1,
                          .recv_ring_size = 4096,
                          .recv_ring_addr = 1u << 20};
    uint8_t length = input_u8(input);

    xs_hello_pack(&hello, bytes);
    if (length >= 64) {
        bytes[length % HELLO_SIZE] ^= input_u8(input);
        length = length >= 128 ? HELLO_SIZE : length & 31;
    } else if (length >= 32) {
        length = (uint8_t)input_bytes(input, &given, length);
        memcpy(bytes, given, length);
    } else {
        length = 0;
    }
    if (!may_say(id->state, type) || (type == RDMA_CM_EVENT_ESTABLISHED && id->peer == NULL))
        return;
    if (type == RDMA_CM_EVENT_DEVICE_REMOVAL && choice & 0x80) {
        lose_device(id, choice & 0x40);
        return;
    }
    struct hello said;

    if (type == RDMA_CM_EVENT_ESTABLISHED)
        id->state = MOCK_ANSWERED;
    if (type == RDMA_CM_EVENT_ESTABLISHED && xs_hello_unpack(&said, bytes, length, id->hello[6]) == HELLO_OK) {
        peer_met(id->peer, &said);
        peer_lied(id->peer);
    }
    if (type != RDMA_CM_EVENT_TIMEWAIT_EXIT && type < RDMA_CM_EVENT_ADDR_CHANGE &&
        type != RDMA_CM_EVENT_ESTABLISHED)
        id->state = MOCK_ENDED;
    mock_cm_event(id, type, choice & 0x80 ? -(int)(choice & 0x7f) : choice & 0x40, bytes, length, 1, 1);
}

void news_request(struct mock_id *listener, struct peer *peer, const uint8_t *bytes, uint8_t length)
{
    struct mock_id *id = mock_request(listener, bytes, length, mock_config.reads, mock_config.reads);

    xs_hello_unpack(&peer->mine, bytes, length, length >= HELLO_SIZE ? bytes[6] : 0);
    peer->id = id;
    id->peer = peer;
}

/* A peer sends a connection request to one of EXS's listeners. */
static void ask_exs(struct input *input, bool honest)
{
    struct mock_id *listener;
    uint8_t choice = input_u8(input), bytes[256] = {0}, length = HELLO_SIZE;
    const uint8_t *given;

    LIST_FOREACH (listener, &mock_ids, link) {
        if (listener->listening && choice-- % 4 == 0)
            break;
    }
    struct peer *peer = listener != NULL ? peer_new(NULL) : NULL;

    if (peer == NULL)
        return;
    struct hello mine = peer_hello(peer, input, choice & 0x10 ? SOCK_SEQPACKET : SOCK_STREAM);

    xs_hello_pack(&mine, bytes);
    if (!honest && choice & 0x20) {
        length = (uint8_t)input_bytes(input, &given, choice);
        memcpy(bytes, given, length);
    } else if (!honest) {
        bytes[input_u8(input) % HELLO_SIZE] = input_u8(input);
        length = choice & 0x40 ? choice & 31 : HELLO_SIZE;
    }
    news_request(listener, peer, bytes, length);
}

static void disconnect(struct mock_id *id)
{
    if (!may_say(id->state, RDMA_CM_EVENT_DISCONNECTED))
        return;
    id->state = MOCK_ENDED;
    event(id, RDMA_CM_EVENT_DISCONNECTED, 0);
}

void news_step(struct input *input)
{
    uint8_t what = input_u8(input);

    if (what >= 192) {
        ask_exs(input, what < 232);
        return;
    }
    struct mock_id *id = some_id(input);

    if (id == NULL)
        return;
    if (what < 128)
        news_next(id, input);
    else if (what < 160)
        disconnect(id);
    else
        go_wrong(id, input);
}
