/* SPDX-License-Identifier: BSD-2-Clause */
/* streamed.c - see streamed.h. */
#include "check/support/streamed.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "check/support/endpoints.h"
#include "core/base/bytes.h"
#include "core/base/fds.h"

static uint64_t clock_now(struct soft_clock *clock)
{
    return ((struct streamed *)((char *)clock - offsetof(struct streamed, clock)))->now;
}

static int receive(struct soft_wire *wire, struct ibv_context *context)
{
    (void)context;
    return tcp_receive(&((struct streamed *)wire)->tcp);
}

static void sent(struct soft_wire *wire, struct ibv_context *context)
{
    (void)context;
    wire->holds = tcp_sent(&((struct streamed *)wire)->tcp, wire->may_hold);
}

static void settle(struct soft_wire *wire)
{
    tcp_settle(&((struct streamed *)wire)->tcp);
}

static void connect_qp(struct streamed *device)
{
    struct ibv_qp_init_attr init = {
        .send_cq = device->cq,
        .recv_cq = device->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = STREAMED_SEGMENTS, .max_recv_sge = 1}};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_256,
                              .dest_qp_num = 0x4321,
                              .max_dest_rd_atomic = 4,
                              .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid.raw = {[15] = 1}}}};
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
    const struct soft_path path = {
        .local.sa.sa_family = AF_INET, .remote.sa.sa_family = AF_INET, .link = &device->peer->link};

    device->qp = soft_create_qp(device->pd, &init);
    expect(device->qp && qp_init(device->qp, ACCESS_ALL) == 0, "a queue pair: %s", strerror(errno));
    soft_set_path(device->qp, &path);
    expect(soft_modify_qp(device->qp, &rtr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
           "to RTR");
    expect(soft_modify_qp(device->qp, &rts,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC) == 0,
           "to RTS");
}

void streamed_open(struct streamed *device, int fd)
{
    struct ibv_context *context;

    device->clock.now = clock_now;
    device->now = 1000000000;
    device->wire = (struct soft_wire){.receive = receive, .sent = sent, .settle = settle};
    device->service.context = context = soft_open(&device->wire, &device->clock, 1);
    expect(context, "no context");
    atomic_store(&device->service.state, SERVICE_WATCH); /* so that the link need not wake the service thread */
    tcp_init(&device->tcp, context, &device->service);
    device->tcp.epoll = fds_epoll();
    device->memory = malloc(STREAMED_MEMORY + 2 * GUARD);
    expect(device->tcp.epoll != -1 && device->memory, "no epoll, or no memory");
    memset(device->memory, GUARD_BYTE, STREAMED_MEMORY + 2 * GUARD);
    device->memory += GUARD;
    memset(device->memory, 0, STREAMED_MEMORY);
    device->pd = soft_alloc_pd(context);
    device->cq = soft_create_cq(context, 256, NULL, NULL, 0);
    device->mr = soft_reg_mr(device->pd, device->memory, STREAMED_MEMORY, ACCESS_ALL);
    device->peer = tcp_peer_new(fds_own(fd));
    expect(device->cq && device->mr && device->peer, "no region: %s", strerror(errno));
    expect(tcp_peer_attach(&device->tcp, device->peer) == 0, "not attached");
    connect_qp(device);
    tcp_peer_begin(device->peer, TCP_RTU_NOT_EXPECTED, NULL, 0);
}

void streamed_close(struct streamed *device)
{
    expect_byte(device->memory - GUARD, GUARD, GUARD_BYTE);
    expect_byte(device->memory + STREAMED_MEMORY, GUARD, GUARD_BYTE);
    expect(!soft_destroy_qp(device->qp), "soft_destroy_qp");
    expect(device->tcp.count == 0 && TAILQ_EMPTY(&device->tcp.unsent) && LIST_EMPTY(&device->tcp.gathering),
           "a connection is left");
    tcp_peer_release(device->peer);
    if (device->mr != NULL)
        expect(!soft_dereg_mr(device->mr), "soft_dereg_mr");
    expect(!soft_destroy_cq(device->cq) && !soft_dealloc_pd(device->pd) && !soft_close(device->service.context),
           "something is still in use");
    tcp_end(&device->tcp);
    free(device->memory - GUARD);
}

void streamed_run(struct streamed *device)
{
    soft_lock(device->service.context);
    for (int round = 0; round < 100 && soft_progress(device->service.context) > 0; round++)
        ;
    soft_unlock(device->service.context);
}

void streamed_post(struct streamed *device, enum ibv_wr_opcode opcode, size_t offset, uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)device->memory + offset, length, device->mr->lkey};
    struct ibv_send_wr send = {.opcode = opcode,
                               .send_flags = IBV_SEND_SIGNALED,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .wr.rdma = {.remote_addr = sge.addr, .rkey = device->mr->rkey}},
                       *bad;

    (void)ibv_post_send(device->qp, &send, &bad);
}

void streamed_receive(struct streamed *device, size_t offset, uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)device->memory + offset, length, device->mr->lkey};
    struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad;

    (void)ibv_post_recv(device->qp, &recv, &bad);
}

int streamed_poll(struct streamed *device)
{
    struct ibv_wc wc;

    return ibv_poll_cq(device->cq, 1, &wc) > 0 ? (int)wc.status : -1;
}

enum ibv_qp_state streamed_state(struct streamed *device)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    expect(!soft_query_qp(device->qp, &attr, IBV_QP_STATE, &init), "soft_query_qp");
    return attr.qp_state;
}

size_t streamed_frame(const struct streamed *device, uint8_t *frame, struct roce *roce, uint32_t ack)
{
    size_t length;

    roce->migreq = true;
    roce->pkey = 0xffff;
    if (roce->qpn == 0)
        roce->qpn = device->qp->qp_num;
    if (roce->rkey == 0)
        roce->rkey = device->mr->rkey;
    if (roce->dma_length == 0)
        roce->dma_length = (uint32_t)roce->payload_length;
    length = roce_write(frame + TCP_FRAME_HEADER, roce);
    put32(frame, UINT32_C(1) << 24 | (uint32_t)length);
    put32(frame + 4, ack);
    return TCP_FRAME_HEADER + length;
}
