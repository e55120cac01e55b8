/* SPDX-License-Identifier: BSD-2-Clause */
/* nic.c - a device context in a queue: its resources, and polling for its completions. See nic.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/log.h"
#include "core/base/settings.h"
#include "core/device/registry.h"
#include "nic.h"
#include "queue.h"
#include "upcalls.h"

#define CQ_SIZE 16384 /* completions: enough for 128 connections; a private queue's is sized for one */
/* RDMA READs in flight: more do not raise the throughput, and each costs memory per connection */
#define READS_MAX 16
/* events: an acknowledgement takes a lock, and only ibv_destroy_cq() waits for it */
#define ACK_AT_ONCE 4096

/* ---- Making and freeing ---------------------------------------------------------------------- */

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

static int query_limits(struct nic *nic, uint8_t port_num)
{
    struct ibv_device_attr attr;
    struct ibv_port_attr port;

    if (nic->device->query_device(nic->context, &attr) != 0 ||
        nic->device->query_port(nic->context, port_num, &port) != 0)
        return -1;
    nic->max_cqe = attr.max_cqe;
    nic->max_wr = (uint32_t)attr.max_qp_wr;
    nic->max_sge = attr.max_sge > 1 ? (uint32_t)attr.max_sge : 1;
    nic->max_reads = (uint8_t)min_int(min_int(attr.max_qp_rd_atom, attr.max_qp_init_rd_atom), READS_MAX);
    nic->max_request = port.max_msg_sz;
    nic->immediate = nic->context->device->transport_type != IBV_TRANSPORT_IWARP && settings()->immediate;
    if (nic->device->long_request != 0 && nic->device->long_request < nic->max_request)
        nic->max_request = nic->device->long_request;
    return 0;
}

static int open_nic(struct nic *nic, uint8_t port)
{
    if (query_limits(nic, port) < 0)
        return -1;
    if (nic->device->create_quiet_comp_channel != NULL)
        nic->channel = nic->device->create_quiet_comp_channel(nic->context, &nic->waits);
    else
        nic->channel = nic->device->create_comp_channel(nic->context);
    if (nic->channel == NULL)
        return -1;
    if (nic->waits == NULL &&
        fcntl(nic->channel->fd, F_SETFL, fcntl(nic->channel->fd, F_GETFL) | O_NONBLOCK) < 0)
        return -1;
    return xs_queue_watch(nic->queue, nic->channel->fd, nic->waits);
}

struct nic *xs_nic_get(struct queue *queue, const struct device *device, struct ibv_context *context,
                       uint8_t port)
{
    struct nic *nic;

    LIST_FOREACH (nic, &queue->channels.nics, link) {
        if (nic->context == context)
            return nic;
    }
    if (!xs_device_allowed(context)) {
        xs_explain(ENODEV, "the route uses device %s, which %s excludes", context->device->name,
                   settings()->name[SET_DEVICE]);
        return NULL;
    }
    nic = calloc(1, sizeof(*nic));
    if (nic == NULL)
        return NULL;
    nic->device = device;
    nic->queue = queue;
    nic->context = context;
    nic->poll = device->poll_state != NULL ? device->poll_state(context) : &nic->no_poll_state;
    pthread_mutex_init(&nic->map_lock, NULL);
    LIST_INSERT_HEAD(&queue->channels.nics, nic, link);
    if (open_nic(nic, port) < 0) {
        xs_explain(errno, "can't use device %s: %s", context->device->name, strerror(errno));
        xs_nic_free(nic);
        return NULL;
    }
    return nic;
}

static void ack_events(struct nic *nic, struct cq *cq)
{
    if (cq->taken > 0)
        nic->device->ack_cq_events(cq->cq, cq->taken);
    cq->taken = 0;
}

void xs_nic_free(struct nic *nic)
{
    struct cq *cq;
    int saved = errno;

    LIST_REMOVE(nic, link);
    while ((cq = LIST_FIRST(&nic->cqs)) != NULL) {
        LIST_REMOVE(cq, link);
        ack_events(nic, cq);
        nic->device->destroy_cq(cq->cq);
        free(cq);
    }
    if (nic->channel != NULL) {
        xs_queue_unwatch(nic->queue, nic->channel->fd, nic->waits);
        nic->device->destroy_comp_channel(nic->channel);
    }
    pthread_mutex_destroy(&nic->map_lock);
    free(nic);
    errno = saved;
}

void xs_nic_leave(struct nic *nic)
{
    if (--nic->conns == 0 && nic->device->contexts_end)
        xs_nic_free(nic);
}

/* ---- Completion queues --------------------------------------------------------------------------- */

struct cq *xs_nic_cq(struct nic *nic, int completions)
{
    int size = min_int(nic->max_cqe, nic->queue->handle != NULL ? CQ_SIZE : completions);
    struct cq *cq;

    LIST_FOREACH (cq, &nic->cqs, link) {
        if (cq->size - cq->used >= completions) {
            cq->used += completions;
            return cq;
        }
    }
    cq = calloc(1, sizeof(*cq));
    if (cq == NULL)
        return NULL;
    cq->cq = nic->device->create_cq(nic->context, size, cq, nic->channel, 0);
    if (cq->cq == NULL || ibv_req_notify_cq(cq->cq, 0) != 0) {
        if (cq->cq != NULL)
            nic->device->destroy_cq(cq->cq);
        free(cq);
        return NULL;
    }
    cq->size = size;
    cq->used = completions;
    LIST_INSERT_HEAD(&nic->cqs, cq, link);
    return cq;
}

void xs_nic_cq_release(struct cq *cq, int completions)
{
    cq->used -= completions;
}

/* ---- Polling for completions ----------------------------------------------------------------------- */

static void count_event(struct nic *nic, struct cq *cq)
{
    if (++cq->taken == ACK_AT_ONCE)
        ack_events(nic, cq);
}

/* Poll each completion queue once, for at most HARVEST_MAX completions. Returns the number of completions. */
static int take_held(struct nic *nic, struct conn_list *touched)
{
    struct ibv_wc wc[HARVEST_MAX];
    const struct cq *cq;
    int taken = 0;

    if (nic->device->poll_channel != NULL) {
        taken = nic->device->poll_channel(nic->channel, wc);
        xs_conns_completed(nic, wc, taken, touched);
        return taken;
    }

    LIST_FOREACH (cq, &nic->cqs, link) {
        int count = ibv_poll_cq(cq->cq, HARVEST_MAX, wc);

        if (count <= 0)
            continue;
        xs_conns_completed(nic, wc, count, touched);
        taken += count;
    }
    return taken;
}

/* The device was removed, and will not complete the work requests that are posted. Process the completions that it has
 * delivered, then flush the other requests, as a working device would. Unregister the channel, whose descriptor would
 * stay readable. */
static __attribute__((cold)) void handle_removal(struct nic *nic, struct conn_list *touched)
{
    xs_log("device %s was removed", nic->context->device->name);
    nic->gone = true;
    nic->unfinished = NULL;
    xs_queue_unwatch(nic->queue, nic->channel->fd, nic->waits);
    while (take_held(nic, touched) > 0)
        ;
    xs_conns_flush(nic, touched);
}

inline void xs_nic_run(struct nic *nic, struct turn *turn)
{
    struct conn_list touched = LIST_HEAD_INITIALIZER(touched);
    struct harvest harvest;
    int count;

    if (nic->gone)
        return;
    harvest.unfinished = nic->unfinished;
    do {
        count = nic->device->harvest(nic->channel, &harvest);
        if (count < 0)
            break;
        if (harvest.fetched)
            count_event(nic, harvest.cq_context);
        xs_conns_completed(nic, harvest.wc, count, &touched);
        turn->harvested += count;
    } while (!harvest.stuck && !harvest.gone && (harvest.left || turn->watched == BY_EDGE));
    nic->unfinished = harvest.unfinished;
    if (count >= 0 && harvest.stuck)
        turn->left = turn->stuck = true;
    if (harvest.gone)
        handle_removal(nic, &touched);
    xs_conns_run(&touched); /* this may free the nic */
}

static int poll_nic(struct nic *nic, bool goes_on)
{
    struct conn_list touched = LIST_HEAD_INITIALIZER(touched);
    int taken = take_held(nic, &touched);

    if (!goes_on && nic->device->stop_polling != NULL)
        nic->device->stop_polling(nic->context, false);
    xs_conns_run(&touched);
    return taken;
}

int xs_nic_look(struct nic *nic)
{
    return poll_nic(nic, true);
}

void xs_nic_look_once(struct nic *nic)
{
    poll_nic(nic, false);
}

bool xs_nic_has_activity(struct nic *nic)
{
    unsigned before = nic->activity_seen;

    nic->activity_seen = atomic_load_explicit(&nic->poll->activity, memory_order_relaxed);
    return nic->activity_seen != before;
}

bool xs_nic_waits(const struct nic *nic)
{
    return atomic_load_explicit(&nic->poll->flush_wanted, memory_order_relaxed);
}

uint64_t xs_nic_flush(const struct nic *nic)
{
    return nic->device->stop_polling != NULL ? nic->device->stop_polling(nic->context, true) : NEVER_NS;
}

void xs_nic_sleeps(const struct nic *nic, bool sleeps)
{
    atomic_store_explicit(&nic->poll->asleep, sleeps, memory_order_relaxed);
}
