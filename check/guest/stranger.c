/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stranger ROLE ADDRESS PORT VERSION - one end of a connection by rdma_cm alone, which greets as an EXS of this
 * version of the protocol would.
 *
 * Roles: serve (accept one connection, whatever its greeting), connect. Says what the other end did about it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "core/conn/protocol.h"

#define TIMEOUT_MS 2000
#define RETRIES 3

static uint8_t greeting[HELLO_SIZE];
static struct rdma_conn_param param = {
    .private_data = greeting,
    .private_data_len = HELLO_SIZE,
    .retry_count = RETRIES,
    .rnr_retry_count = RETRIES,
};

static _Noreturn void fail(const char *what)
{
    printf("%s: %s\n", what, strerrorname_np(errno));
    exit(1);
}

static uint16_t number(const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (end == text || *end != 0 || value > UINT16_MAX) {
        fprintf(stderr, "stranger: %s is no number up to %d\n", text, UINT16_MAX);
        exit(2);
    }
    return (uint16_t)value;
}

static void greet(uint16_t version)
{
    const struct hello hello = {
        .magic = HELLO_MAGIC,
        .version = version,
        .socktype = SOCK_STREAM,
        .credits = 64,
        .adverts = 32,
        .recv_ring_size = 65536,
        .recv_ring_addr = 65536,
    };

    xs_hello_pack(&hello, greeting);
}

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_cq *cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };

    if (cq == NULL || rdma_create_qp(id, NULL, &attr) == -1)
        fail("queue pair");
}

static struct rdma_cm_event *next_event(struct rdma_event_channel *channel)
{
    struct rdma_cm_event *event;

    if (rdma_get_cm_event(channel, &event) == -1)
        fail("rdma_get_cm_event");
    return event;
}

static void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = next_event(channel);

    if (event->event != type) {
        printf("%s, not %s\n", rdma_event_str(event->event), rdma_event_str(type));
        exit(1);
    }
    rdma_ack_cm_event(event);
}

/* Until the connection ends, in whichever way. */
static void tell_end(struct rdma_event_channel *channel)
{
    struct rdma_cm_event *event = next_event(channel);

    while (event->event == RDMA_CM_EVENT_ESTABLISHED) {
        printf("established\n");
        rdma_ack_cm_event(event);
        event = next_event(channel);
    }
    const uint8_t *data = event->param.conn.private_data;

    printf("%s", rdma_event_str(event->event));
    if (event->event == RDMA_CM_EVENT_REJECTED && event->param.conn.private_data_len >= HELLO_SIZE)
        printf(", version %d, reason %d", data[4] << 8 | data[5], data[7]);
    printf("\n");
    rdma_ack_cm_event(event);
}

static void serve(struct rdma_event_channel *channel, struct rdma_cm_id *id, struct sockaddr_in *address)
{
    if (rdma_bind_addr(id, (struct sockaddr *)address) == -1 || rdma_listen(id, 1) == -1)
        fail("listen");
    printf("listening\n");
    struct rdma_cm_event *request = next_event(channel);

    make_qp(request->id);
    if (rdma_accept(request->id, &param) == -1)
        fail("accept");
    rdma_ack_cm_event(request);
    tell_end(channel);
}

static void connect_there(struct rdma_event_channel *channel, struct rdma_cm_id *id,
                          struct sockaddr_in *address)
{
    if (rdma_resolve_addr(id, NULL, (struct sockaddr *)address, TIMEOUT_MS) == -1)
        fail("address");
    expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    if (rdma_resolve_route(id, TIMEOUT_MS) == -1)
        fail("route");
    expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_qp(id);
    if (rdma_connect(id, &param) == -1)
        fail("connect");
    tell_end(channel);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct rdma_cm_id *id;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 5 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) {
        fprintf(stderr, "usage: stranger serve|connect ADDRESS PORT VERSION\n");
        return 2;
    }
    address.sin_port = htons(number(argv[3]));
    greet(number(argv[4]));
    struct rdma_event_channel *channel = rdma_create_event_channel();

    if (channel == NULL || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == -1)
        fail("rdma_cm");
    if (strcmp(argv[1], "serve") == 0)
        serve(channel, id, &address);
    else
        connect_there(channel, id, &address);
    return 0;
}
