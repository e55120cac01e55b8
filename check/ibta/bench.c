/* SPDX-License-Identifier: BSD-2-Clause */
/* bench.c - creates the queue pairs of the device under test, and records its packets and completions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

#define DEPTH 64

_Noreturn void bench_fail(const char *what, int error)
{
    fprintf(stderr, "tester: %s: %s\n", what, strerror(error));
    exit(2);
}

static void *need(void *object, const char *what)
{
    if (object == NULL)
        bench_fail(what, errno);
    return object;
}

bool bench_init(struct bench *bench)
{
    const struct device *device = bench->device;

    pthread_mutex_init(&bench->lock, NULL);
    bench->pd = need(device->alloc_pd(bench->context), "ibv_alloc_pd");
    bench->events = need(device->create_comp_channel(bench->context), "ibv_create_comp_channel");
    return true;
}

/* ---- A channel ---- */

static void modify(struct channel *channel, struct ibv_qp_attr *attr, int mask, const char *what)
{
    int error = channel->bench->device->modify_qp(channel->qp, attr, mask);

    if (error != 0)
        bench_fail(what, error);
}

static void connect_qp(struct channel *channel, const struct terms *terms)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = terms->qp_access};
    int path;

    modify(channel, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
           "ibv_modify_qp to INIT");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = channel->record.tester_qpn,
                                .rq_psn = terms->tester_psn,
                                .max_dest_rd_atomic = terms->max_dest_rd_atomic,
                                .min_rnr_timer = terms->min_rnr_timer};
    path = channel->bench->path(channel->bench, channel->qp, &attr);
    modify(channel, &attr,
           IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
               IBV_QP_MIN_RNR_TIMER | path,
           "ibv_modify_qp to RTR");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .timeout = terms->timeout,
                                .retry_cnt = terms->retry_cnt,
                                .rnr_retry = terms->rnr_retry,
                                .sq_psn = terms->dut_psn,
                                .max_rd_atomic = terms->max_rd_atomic};
    modify(channel, &attr,
           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC,
           "ibv_modify_qp to RTS");
}

static void create_qp(struct channel *channel)
{
    const struct device *device = channel->bench->device;
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = DEPTH / 2, .max_recv_wr = DEPTH / 2, .max_send_sge = 1, .max_recv_sge = 1}};

    channel->cq = need(device->create_cq(channel->bench->context, DEPTH, channel, channel->bench->events, 0),
                       "ibv_create_cq");
    if (ibv_req_notify_cq(channel->cq, 0) != 0)
        bench_fail("ibv_req_notify_cq", errno);
    init.send_cq = init.recv_cq = channel->cq;
    channel->qp = need(device->create_verbs_qp(channel->bench->pd, &init), "ibv_create_qp");
    channel->record.dut_qpn = channel->qp->qp_num;
}

static void enter(struct bench *bench, struct channel *channel)
{
    pthread_mutex_lock(&bench->lock);
    channel->number = bench->count;
    channel->record.tester_qpn = TESTER_QPN + bench->count;
    bench->channels = need(realloc(bench->channels, (bench->count + 1) * sizeof(struct channel *)), "channels");
    bench->channels[bench->count++] = channel;
    pthread_mutex_unlock(&bench->lock);
}

struct channel *channel_open(struct bench *bench, const struct terms *terms)
{
    struct channel *channel = need(calloc(1, sizeof *channel), "channel");
    pthread_condattr_t attr;

    channel->bench = bench;
    channel->record = (struct record){.terms = *terms, .late = bench->late};
    channel->next_psn = terms->tester_psn;
    channel->memory = need(aligned_alloc(4096, CHANNEL_MEMORY), "memory");
    memset(channel->memory, 0, CHANNEL_MEMORY);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&channel->news, &attr);
    channel->mr = need(bench->device->reg_mr(bench->pd, channel->memory, CHANNEL_MEMORY, (int)terms->mr_access),
                       "ibv_reg_mr");
    create_qp(channel);
    enter(bench, channel);
    connect_qp(channel, terms);
    return channel;
}

static void channel_close(struct channel *channel)
{
    const struct device *device = channel->bench->device;

    if (device->destroy_verbs_qp(channel->qp) != 0 || device->destroy_cq(channel->cq) != 0 ||
        device->dereg_mr(channel->mr) != 0)
        bench_fail("destroying a queue pair", errno);
    record_free(&channel->record);
    pthread_cond_destroy(&channel->news);
    free(channel->memory);
    free(channel);
}

void bench_close(struct bench *bench)
{
    bench->stop(bench);
    for (unsigned i = 0; i < bench->count; i++)
        channel_close(bench->channels[i]);
    free(bench->channels);
    if (bench->device->destroy_comp_channel(bench->events) != 0 || bench->device->dealloc_pd(bench->pd) != 0)
        bench_fail("destroying a completion channel", errno);
    pthread_mutex_destroy(&bench->lock);
    bench->close(bench);
}

/* ---- Packets and completions of the device ---- */

bool channel_poll(struct channel *channel)
{
    struct ibv_wc wc;
    bool any = false;

    while (ibv_poll_cq(channel->cq, 1, &wc) == 1) {
        struct entry *entry =
            record_event(&channel->record, ENTRY_COMPLETION, channel->bench->now(channel->bench));

        if (entry != NULL)
            entry->wc = wc;
        any = true;
    }
    return any;
}

/* Returns the channel of a packet. A packet for an unknown queue pair goes to the first channel, where judge_form()
 * reports it. */
static struct channel *channel_of(struct bench *bench, const uint8_t *packet)
{
    uint32_t number = ((uint32_t)packet[5] << 16 | (uint32_t)packet[6] << 8 | packet[7]) - TESTER_QPN;

    return bench->channels[number < bench->count ? number : 0];
}

void bench_arrival(struct bench *bench, uint64_t time, const struct frame *frame, const uint8_t *packet,
                   size_t length)
{
    struct channel *channel;

    pthread_mutex_lock(&bench->lock);
    if (length >= ROCE_BTH + FRAME_CHECK && length <= FRAME_MAX && bench->count > 0) {
        length -= FRAME_CHECK;
        channel = channel_of(bench, packet);
        record_packet(&channel->record, ENTRY_FROM_DUT, time, packet, length,
                      frame_is_sealed(frame, packet, length));
        pthread_cond_signal(&channel->news);
    }
    pthread_mutex_unlock(&bench->lock);
}
