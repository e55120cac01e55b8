/* SPDX-License-Identifier: BSD-2-Clause */
/* network.c - see network.h. Nodes, the fate of their packets, and the loop that advances the time. */
#include "network.h"
#include "flights.h"
#include "bursts.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct soft_wire wire; /* must be the first member */
    struct soft_link link;
    struct network *network;
    struct ibv_context *context; /* NULL: the test plays this node */
    union soft_addr address;
    unsigned number;
    struct flights inbox;              /* with pull: packets that arrived and were not fetched */
    uint8_t room[SOFT_BURST_LONG + 1]; /* with far: bursts are built here, one byte from the start */
};

/* `lock` guards everything but the nodes, which are created before any traffic. It is never held while an engine
 * runs. */
struct network {
    struct soft_clock clock;
    _Atomic uint64_t now;
    pthread_mutex_t lock;
    struct node nodes[NETWORK_NODES];
    unsigned count;
    int family;
    uint64_t seed;
    size_t trailer;
    bool pull, far;
    size_t longest; /* bytes of a burst */
    struct flights flights;
    network_script *script;
    void *arg;
    bool keep_bytes;
    struct packet *log;
    unsigned logged, log_room, bursts;
    unsigned ways[NETWORK_NODES][NETWORK_NODES];
    const char *fault;
};

/* ---- Sending ---- */

static void dispatch(struct network *network, const struct packet *packet, const uint8_t *bytes)
{
    struct flights *flights = &network->flights;
    uint64_t arrival = network->now + NETWORK_LATENCY;
    unsigned from = packet->from, to = packet->to;
    size_t length = packet->length;
    switch (packet->fate) {
    case FATE_DROP:
        return;
    case FATE_DELAY:
        flights_hold(flights, arrival + NETWORK_ECHO, bytes, length, from, to);
        return;
    case FATE_TRUNCATE:
        length = packet->number % ROCE_BTH;
        break;
    case FATE_ECHO:
        flights_add(flights, arrival + NETWORK_ECHO, bytes, length, from, to);
        break;
    case FATE_DUPLICATE:
        flights_add(flights, arrival, bytes, length, from, to);
        break;
    default:
        break;
    }
    flights_add(flights, arrival, bytes, length, from, to)->corrupt = packet->fate == FATE_CORRUPT;
    flights_release(flights, arrival, from, to);
}

static struct packet *log_packet(struct network *network, unsigned from, unsigned to, const uint8_t *bytes,
                                 size_t length)
{
    if (network->logged == network->log_room) {
        network->log_room = network->log_room ? network->log_room * 2 : 256;
        network->log = flights_must(realloc(network->log, network->log_room * sizeof *network->log));
    }
    struct packet *packet = &network->log[network->logged];
    *packet = (struct packet){.time = network->now,
                              .from = from,
                              .to = to,
                              .number = network->logged++,
                              .way = network->ways[from][to]++,
                              .burst = network->bursts,
                              .length = length};
    if (network->keep_bytes)
        packet->bytes = memcpy(flights_must(malloc(length ? length : 1)), bytes, length);
    packet->readable = roce_read(&packet->roce, network->keep_bytes ? packet->bytes : bytes, length);
    if (!network->keep_bytes)
        packet->roce.payload = NULL;
    return packet;
}

static void send_packet(struct node *node, unsigned to, const uint8_t *bytes, size_t length)
{
    struct network *network = node->network;
    struct packet *packet = log_packet(network, node->number, to, bytes, length);
    if (network->script)
        packet->fate = network->script(network->arg, packet);
    dispatch(network, packet, bytes);
}

static bool same_address(const union soft_addr *a, const union soft_addr *b)
{
    if (a->sa.sa_family != b->sa.sa_family)
        return false;
    if (a->sa.sa_family == AF_INET)
        return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
    return !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof a->in6.sin6_addr);
}

static int node_of(struct network *network, const union soft_addr *address)
{
    for (unsigned i = 0; i < network->count; i++)
        if (same_address(&network->nodes[i].address, address))
            return (int)i;
    return -1;
}

static void wire_send(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
                      size_t stride)
{
    struct node *node = (struct node *)(void *)((char *)link - offsetof(struct node, link));
    struct network *network = node->network;
    pthread_mutex_lock(&network->lock);
    size_t sizes[SOFT_BURST_PACKETS];
    const char *fault;
    unsigned packets = burst_sizes(link, length, stride, sizes, &fault);
    int to = node_of(network, &path->remote);
    network->longest = length > network->longest ? length : network->longest;
    if (!fault && to < 0)
        fault = "a burst goes to an address that no node has";
    if (!fault && !same_address(&path->local, &node->address))
        fault = "a burst comes from an address that is not the node's";
    const uint8_t *at = burst;
    for (unsigned i = 0; !fault && i < packets; at += sizes[i++])
        send_packet(node, (unsigned)to, at, sizes[i] - link->trailer);
    if (fault)
        network->fault = fault;
    network->bursts++;
    pthread_mutex_unlock(&network->lock);
    /* A link may overwrite the burst, so the engine must not rely on its contents. */
    memset(burst, 0xee, length);
}

static uint8_t *wire_room(struct soft_link *link, size_t size, size_t *limit)
{
    struct node *node = (struct node *)(void *)((char *)link - offsetof(struct node, link));
    (void)size;
    *limit = SOFT_BURST_LONG;
    return node->room + 1;
}

/* ---- Time ---- */

static uint64_t clock_now(struct soft_clock *clock)
{
    return ((struct network *)clock)->now;
}

static uint64_t next_packet(struct network *network)
{
    pthread_mutex_lock(&network->lock);
    uint64_t time = flights_next(&network->flights);
    pthread_mutex_unlock(&network->lock);
    return time;
}

static uint64_t next_timer(struct network *network, struct node **due)
{
    uint64_t time = NEVER_NS;
    for (unsigned i = 0; i < network->count; i++) {
        struct node *node = &network->nodes[i];
        if (!node->context)
            continue;
        soft_lock(node->context);
        uint64_t deadline = soft_deadline(node->context);
        soft_unlock(node->context);
        if (deadline < time) {
            time = deadline;
            *due = node;
        }
    }
    return time;
}

uint64_t network_next(struct network *network)
{
    struct node *due;
    uint64_t packet = next_packet(network), timer = next_timer(network, &due);
    uint64_t next = packet < timer ? packet : timer;
    return next == NEVER_NS || next > network->now ? next : network->now;
}

static struct flight *take_due(struct network *network, int to)
{
    pthread_mutex_lock(&network->lock);
    struct flight *flight = flights_take(&network->flights, network->now, to);
    pthread_mutex_unlock(&network->lock);
    return flight;
}

static void take_in(struct network *network, struct flight *flight)
{
    struct node *node = &network->nodes[flight->to];
    struct soft_path path = {.local = node->address, .remote = network->nodes[flight->from].address};
    if (node->context && flight->corrupt)
        soft_count_malformed(node->context);
    else if (node->context)
        soft_input(node->context, &path, flight->packet, flight->length);
    free(flight);
}

/* A small number, so that batches are split anywhere. */
#define PULLED 5

static int wire_receive(struct soft_wire *wire, struct ibv_context *context)
{
    struct node *node = (struct node *)wire;
    int count = 0;
    (void)context;
    for (; count < PULLED; count++) {
        pthread_mutex_lock(&node->network->lock);
        struct flight *flight = flights_take(&node->inbox, NEVER_NS, -1);
        pthread_mutex_unlock(&node->network->lock);
        if (!flight)
            break;
        take_in(node->network, flight);
    }
    return count;
}

/* The engine fetches from its inbox until a fetch finds nothing. */
static void pull(struct node *node)
{
    soft_lock(node->context);
    while (soft_progress(node->context) > 0)
        ;
    soft_unlock(node->context);
}

static void to_inbox(struct node *node, struct flight *flight)
{
    pthread_mutex_lock(&node->network->lock);
    struct flight *arrived =
        flights_add(&node->inbox, flight->time, flight->packet, flight->length, flight->from, flight->to);
    arrived->corrupt = flight->corrupt;
    pthread_mutex_unlock(&node->network->lock);
    free(flight);
}

static void push(struct network *network, struct node *node, struct flight *flight)
{
    if (node->context)
        soft_lock(node->context);
    do
        take_in(network, flight);
    while ((flight = take_due(network, (int)node->number)));
    if (node->context) {
        soft_flush(node->context);
        soft_unlock(node->context);
    }
}

void network_arrive(struct network *network)
{
    for (uint64_t time; (time = next_packet(network)) != NEVER_NS;) {
        if (network->now < time)
            network->now = time;
        struct flight *flight = take_due(network, -1);
        to_inbox(&network->nodes[flight->to], flight);
    }
}

/* All packets that arrive at one node at this time are one batch, as from a socket. */
static void deliver(struct network *network)
{
    struct flight *flight = take_due(network, -1);
    if (!flight)
        return;
    struct node *node = &network->nodes[flight->to];
    if (!node->wire.receive) {
        push(network, node, flight);
        return;
    }
    do
        to_inbox(node, flight);
    while ((flight = take_due(network, (int)node->number)));
    pull(node);
}

static void run_timers(struct node *node)
{
    soft_lock(node->context);
    soft_timers(node->context);
    soft_flush(node->context);
    soft_unlock(node->context);
}

bool network_step(struct network *network)
{
    struct node *due = NULL;
    uint64_t packet = next_packet(network), timer = next_timer(network, &due);
    if (packet == NEVER_NS && timer == NEVER_NS)
        return false;
    uint64_t next = packet <= timer ? packet : timer;
    if (next > network->now)
        network->now = next;
    if (packet <= timer)
        deliver(network);
    else
        run_timers(due);
    return true;
}

bool network_run(struct network *network, unsigned long steps)
{
    while (steps--)
        if (!network_step(network))
            return true;
    return false;
}

void network_run_until(struct network *network, uint64_t time)
{
    while (network_next(network) <= time && network_step(network))
        ;
    if (network->now < time)
        network->now = time;
}

void network_drain(struct network *network)
{
    pthread_mutex_lock(&network->lock);
    flights_drop(&network->flights);
    for (unsigned i = 0; i < network->count; i++)
        flights_drop(&network->nodes[i].inbox);
    pthread_mutex_unlock(&network->lock);
}

uint64_t network_now(struct network *network)
{
    return network->now;
}

/* ---- Nodes ---- */

static void name_node(struct node *node, int family)
{
    uint8_t last = (uint8_t)(node->number + 1);
    if (family == AF_INET) {
        node->address.in.sin_family = AF_INET;
        node->address.in.sin_port = htons(SOFT_UDP_PORT);
        node->address.in.sin_addr.s_addr = htonl(0x0a000000u + last);
        return;
    }
    node->address.in6.sin6_family = AF_INET6;
    node->address.in6.sin6_port = htons(SOFT_UDP_PORT);
    node->address.in6.sin6_addr.s6_addr[0] = 0xfd;
    node->address.in6.sin6_addr.s6_addr[15] = last;
}

unsigned network_add_ghost(struct network *network)
{
    if (network->count == NETWORK_NODES) {
        fprintf(stderr, "virtual network: more than %d nodes, raise NETWORK_NODES\n", NETWORK_NODES);
        abort();
    }
    struct node *node = &network->nodes[network->count];
    node->network = network;
    node->number = network->count++;
    node->link = (struct soft_link){.trailer = network->trailer, .send = wire_send, .far = network->far};
    if (network->far)
        node->link.room = wire_room;
    node->wire = (struct soft_wire){.link = &node->link};
    name_node(node, network->family);
    return node->number;
}

unsigned network_add(struct network *network)
{
    unsigned number = network_add_ghost(network);
    struct node *node = &network->nodes[number];
    node->wire.receive = network->pull ? wire_receive : NULL;
    node->context =
        flights_must(soft_open(&node->wire, &network->clock, network->seed ? network->seed + number : 0));
    if (soft_async_fd(node->context) < 0)
        flights_must(NULL);
    return number;
}

struct ibv_context *network_context(struct network *network, unsigned node)
{
    return network->nodes[node].context;
}

void network_path(struct network *network, unsigned local, unsigned remote, struct soft_path *path)
{
    *path =
        (struct soft_path){.local = network->nodes[local].address, .remote = network->nodes[remote].address};
}

void network_gid(struct network *network, unsigned node, union ibv_gid *gid)
{
    const union soft_addr *address = &network->nodes[node].address;
    memset(gid, 0, sizeof *gid);
    if (network->family == AF_INET6) {
        memcpy(gid->raw, &address->in6.sin6_addr, 16);
        return;
    }
    gid->raw[10] = gid->raw[11] = 0xff;
    memcpy(gid->raw + 12, &address->in.sin_addr, 4);
}

struct network *network_new(int family, uint64_t seed, size_t trailer)
{
    struct network *network = flights_must(calloc(1, sizeof *network));
    network->clock.now = clock_now;
    network->now = 1000000000; /* real clocks are never close to 0 */
    pthread_mutex_init(&network->lock, NULL);
    network->family = family;
    network->seed = seed;
    network->trailer = trailer;
    network->keep_bytes = true;
    return network;
}

bool network_free(struct network *network)
{
    bool closed = true;
    network_drain(network);
    network_forget(network);
    for (unsigned i = 0; i < network->count; i++)
        if (network->nodes[i].context && soft_close(network->nodes[i].context))
            closed = false;
    if (!closed) /* the context may still use the clock and the wire */
        return false;
    free(network->log);
    pthread_mutex_destroy(&network->lock);
    free(network);
    return true;
}

/* ---- Injecting and querying ---- */

void network_inject_on(struct network *network, unsigned to, const struct soft_path *path, const void *packet,
                       size_t length)
{
    struct ibv_context *context = network->nodes[to].context;
    uint8_t *copy = flights_must(malloc(length ? length : 1));
    memcpy(copy, packet, length);
    soft_lock(context);
    soft_input(context, path, copy, length);
    soft_flush(context);
    soft_unlock(context);
    free(copy);
}

void network_inject(struct network *network, unsigned from, unsigned to, const void *packet, size_t length)
{
    struct soft_path path;
    network_path(network, to, from, &path);
    network_inject_on(network, to, &path, packet, length);
}

void network_set_script(struct network *network, network_script *script, void *arg)
{
    network->script = script;
    network->arg = arg;
}

void network_set_pull(struct network *network, bool pull)
{
    network->pull = pull;
}

void network_set_far(struct network *network, bool far)
{
    network->far = far;
}

void network_keep_bytes(struct network *network, bool keep)
{
    network->keep_bytes = keep;
}

unsigned network_packets(struct network *network)
{
    return network->logged;
}

const struct packet *network_packet(struct network *network, unsigned number)
{
    return number < network->logged ? &network->log[number] : NULL;
}

void network_forget(struct network *network)
{
    for (unsigned i = 0; i < network->logged; i++)
        free((void *)(uintptr_t)network->log[i].bytes);
    network->logged = network->bursts = 0;
    memset(network->ways, 0, sizeof network->ways);
}

size_t network_longest(struct network *network)
{
    size_t longest = network->longest;
    network->longest = 0;
    return longest;
}

void network_print(struct network *network)
{
    static const char *const fates[] = {"", "DROP", "DUPLICATE", "DELAY", "ECHO", "CORRUPT", "TRUNCATE"};
    for (unsigned i = network->logged > 100 ? network->logged - 100 : 0; i < network->logged; i++) {
        const struct packet *packet = &network->log[i];
        const struct roce *roce = &packet->roce;
        fprintf(stderr, "%4u %12.3f us %u->%u op %02x psn %06x%s len %zu", packet->number,
                (double)packet->time / 1000, packet->from, packet->to, roce->opcode, roce->psn,
                roce->ackreq ? " AckReq" : "", packet->readable ? roce->payload_length : packet->length);
        if (roce->has_aeth)
            fprintf(stderr, " syndrome %02x msn %u", roce->syndrome, roce->msn);
        if (roce->has_reth)
            fprintf(stderr, " va %llx length %u", (unsigned long long)roce->va, roce->dma_length);
        fprintf(stderr, " %s\n", fates[packet->fate]);
    }
}

const char *network_fault(struct network *network)
{
    return network->fault;
}
