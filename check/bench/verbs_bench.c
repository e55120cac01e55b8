/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs_bench.c - measures round trips of plain verbs, without sockets: the lower bound for an event loop on a device.
 * The completion channel's descriptor is in a libev loop at both sides. Work: BENCH_PING over one connection.
 */
#include <ev.h>
#include <fcntl.h>
#include <inttypes.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>

#include "bench.h"

enum {
    DEPTH = 64,
    SIGNALLED = 32,   /* one send of this number is signaled */
    ACKNOWLEDGED = 64 /* events that are acknowledged at once */
};

static struct bench bench;
static struct rdma_cm_id *id;
static struct ibv_mr *region;
static char *buffer; /* one received and one sent message */
static uint64_t moved;
static unsigned sent, signalled,
    events; /* sends; signaled sends without completion so far; events to acknowledge */

static void post_receive(void)
{
    if (rdma_post_recv(id, NULL, buffer, bench.size, region) == -1)
        bench_fail("rdma_post_recv");
}

/* Waits until all signaled sends have completed. */
static void reap_sends(void)
{
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

    while (signalled > 0) {
        if (ibv_poll_cq(id->send_cq, 1, &wc) == 1)
            signalled--;
        if (wc.status != IBV_WC_SUCCESS) {
            fprintf(stderr, "verbs_bench: a send ended with %s\n", ibv_wc_status_str(wc.status));
            exit(1);
        }
    }
}

static void throw_ball(void)
{
    bool last = bench.serve && moved == bench.total, asks = ++sent % SIGNALLED == 0 || last;

    if (sent % SIGNALLED == 1)
        reap_sends();
    signalled += asks;
    if (rdma_post_send(id, NULL, buffer + bench.size, bench.size, region, asks ? IBV_SEND_SIGNALED : 0) == -1)
        bench_fail("rdma_post_send");
    if (last)
        reap_sends();
}

static void received(EV_P)
{
    moved++;
    if (bench.serve || moved < bench.total)
        throw_ball();
    post_receive();
    bench_done(&bench, moved);
    if (moved == bench.total)
        ev_break(EV_A_ EVBREAK_ALL);
}

static void channel_cb(EV_P_ ev_io *w, int revents)
{
    struct ibv_cq *cq;
    void *context;
    struct ibv_wc wc;

    (void)w;
    (void)revents;
    if (ibv_get_cq_event(id->recv_cq_channel, &cq, &context) == -1)
        return;
    if (++events == ACKNOWLEDGED) {
        ibv_ack_cq_events(cq, events);
        events = 0;
    }
    if (ibv_req_notify_cq(cq, 0) != 0)
        bench_fail("ibv_req_notify_cq");
    while (ibv_poll_cq(cq, 1, &wc) == 1) {
        if (wc.status != IBV_WC_SUCCESS) {
            fprintf(stderr, "verbs_bench: a receive ended with %s after %" PRIu64 " round trips\n",
                    ibv_wc_status_str(wc.status), moved);
            exit(1);
        }
        received(EV_A);
    }
}

static void make_id(struct rdma_cm_id **made)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1}};
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = bench.serve ? RAI_PASSIVE : 0},
                         *info;
    char host[INET_ADDRSTRLEN], port[8];

    inet_ntop(AF_INET, &bench.address.sin_addr, host, sizeof(host));
    snprintf(port, sizeof(port), "%u", ntohs(bench.address.sin_port));
    if (rdma_getaddrinfo(host, port, &hints, &info) != 0 || rdma_create_ep(made, info, NULL, &attr) == -1)
        bench_fail("rdma_create_ep");
    rdma_freeaddrinfo(info);
}

static void prepare(void)
{
    buffer = calloc(2, bench.size);
    if (buffer == NULL || (region = rdma_reg_msgs(id, buffer, 2 * bench.size)) == NULL)
        bench_fail("buffer");
    if (fcntl(id->recv_cq_channel->fd, F_SETFL, O_NONBLOCK) == -1 || ibv_req_notify_cq(id->recv_cq, 0) != 0)
        bench_fail("channel");
    post_receive();
    post_receive(); /* before the send, because the answer may arrive at once */
}

static void meet(void)
{
    struct rdma_cm_id *listener;

    make_id(&listener);
    if (!bench.serve) {
        id = listener;
        prepare();
        if (rdma_connect(id, NULL) == -1)
            bench_fail("rdma_connect");
        return;
    }
    if (rdma_listen(listener, 1) == -1)
        bench_fail("rdma_listen");
    printf("%u\n", ntohs(rdma_get_src_port(listener)));
    fflush(stdout);
    if (rdma_get_request(listener, &id) == -1)
        bench_fail("rdma_get_request");
    prepare();
    if (rdma_accept(id, NULL) == -1)
        bench_fail("rdma_accept");
    rdma_destroy_ep(listener);
}

int main(int argc, char **argv)
{
    ev_io watcher;

    bench_parse(&bench, argc, argv);
    if (bench.mode != BENCH_PING || bench.connections != 1) {
        fprintf(stderr, "verbs_bench: it has only ping\n");
        return 2;
    }
    meet();
    ev_io_init(&watcher, channel_cb, id->recv_cq_channel->fd, EV_READ);
    ev_io_start(EV_DEFAULT_ & watcher);
    bench_start(&bench);
    if (!bench.serve)
        throw_ball();
    ev_run(EV_DEFAULT_ 0);
    bench_print(&bench);
    ibv_ack_cq_events(id->recv_cq, events);
    rdma_disconnect(id);
    rdma_dereg_mr(region);
    rdma_destroy_ep(id);
    free(buffer);
    return 0;
}
