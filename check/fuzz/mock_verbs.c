/* SPDX-License-Identifier: BSD-2-Clause */
/* The mock's protection domains, memory regions, completion queues and completion channels. See mock.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "check/fuzz/mock.h"

#define STRAY 0 /* not the number of any queue pair */

static LIST_HEAD(, mock_mr) regions = LIST_HEAD_INITIALIZER(regions);
static LIST_HEAD(, mock_cq) queues = LIST_HEAD_INITIALIZER(queues);
static LIST_HEAD(, mock_comp_channel) channels = LIST_HEAD_INITIALIZER(channels);
static uint32_t last_key;

/* ---- Protection domains and memory regions ---------------------------------------------------------- */

/* Frees an object of the context; returns what the destroying call returns. */
static int given_back(struct ibv_context *context, void *object)
{
    mock_count_object(context, -1);
    free(object);
    return mock_refuses(context) ? EIO : 0;
}

struct ibv_pd *mock_alloc_pd(struct ibv_context *context)
{
    struct mock_pd *pd = mock_refuses(context) || mock_fails() ? NULL : calloc(1, sizeof(*pd));

    if (pd == NULL)
        return NULL;
    pd->pd.context = context;
    mock_count_object(context, 1);
    mock_count.pds++;
    return &pd->pd;
}

int mock_dealloc_pd(struct ibv_pd *pd)
{
    struct mock_pd *mock = (struct mock_pd *)pd;

    require(mock->users == 0, "a protection domain goes before %d objects of it", mock->users);
    mock_count.pds--;
    return given_back(pd->context, mock);
}

struct ibv_mr *mock_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return mock_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *mock_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                 unsigned int access)
{
    struct mock_mr *mr = mock_refuses(pd->context) || mock_fails() ? NULL : calloc(1, sizeof(*mr));

    if (mr == NULL)
        return NULL;
    mock_count_object(pd->context, 1);
    require(length > 0, "a region of no bytes");
    require(!(access & IBV_ACCESS_REMOTE_WRITE) || access & IBV_ACCESS_LOCAL_WRITE,
            "remote write without local");
    last_key += 0x101; /* other numbers do not count in such steps */
    mr->mr = (struct ibv_mr){
        .context = pd->context, .pd = pd, .addr = addr, .length = length, .lkey = last_key, .rkey = last_key};
    mr->iova = iova;
    mr->access = (int)access;
    ((struct mock_pd *)pd)->users++;
    LIST_INSERT_HEAD(&regions, mr, link);
    mock_count.mrs++;
    return &mr->mr;
}

int mock_dereg_mr(struct ibv_mr *mr)
{
    struct mock_mr *mock = (struct mock_mr *)mr;

    require(!mock_key_in_use(mr->pd, mr->lkey), "a region goes while a work request uses it");
    ((struct mock_pd *)mr->pd)->users--;
    LIST_REMOVE(mock, link);
    mock_count.mrs--;
    return given_back(mr->context, mock);
}

static bool covers(const struct mock_mr *mr, uint64_t addr, uint64_t length)
{
    uint64_t offset = addr - mr->iova;

    return addr >= mr->iova && offset <= mr->mr.length && length <= mr->mr.length - offset;
}

struct mock_mr *mock_remote(struct ibv_pd *pd, uint32_t rkey, uint64_t addr, uint64_t length, int access)
{
    struct mock_mr *mr;

    LIST_FOREACH (mr, &regions, link) {
        if (mr->mr.pd == pd && mr->mr.rkey == rkey)
            return covers(mr, addr, length) && (mr->access & access) == access ? mr : NULL;
    }
    return NULL;
}

struct mock_mr *mock_local(struct ibv_pd *pd, uint32_t lkey, const void *addr, uint64_t length, int access)
{
    return mock_remote(pd, lkey, (uintptr_t)addr, length, access);
}

bool mock_writable(const void *addr, size_t length)
{
    struct mock_mr *mr;

    LIST_FOREACH (mr, &regions, link) {
        if (mr->access & IBV_ACCESS_REMOTE_WRITE && (uintptr_t)addr < (uintptr_t)mr->mr.addr + mr->mr.length &&
            (uintptr_t)mr->mr.addr < (uintptr_t)addr + length)
            return true;
    }
    return false;
}

/* ---- Completion channels ---------------------------------------------------------------------------- */

/* The channel is a pipe: when the write end is closed, the reader sees that no more events come. */
struct ibv_comp_channel *mock_create_comp_channel(struct ibv_context *context)
{
    struct mock_comp_channel *channel =
        mock_refuses(context) || mock_fails() ? NULL : calloc(1, sizeof(*channel));
    int ends[2];

    if (channel == NULL)
        return NULL;
    require(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "no pipe: errno %d", errno);
    channel->channel.context = context;
    channel->channel.fd = ends[0];
    channel->wakefd = ends[1];
    LIST_INSERT_HEAD(&channels, channel, link);
    mock_count_object(context, 1);
    mock_count.channels++;
    return &channel->channel;
}

/* Adds or removes an event; the pipe is readable while there are events. */
static void add_events(struct mock_comp_channel *channel, int change)
{
    bool waited = channel->waiting > 0;
    char byte = 0;

    channel->waiting += change;
    if (channel->wakefd == -1 || waited == (channel->waiting > 0))
        return;
    require((waited ? read(channel->channel.fd, &byte, 1) : write(channel->wakefd, &byte, 1)) == 1,
            "a channel's pipe fails: errno %d", errno);
}

void mock_end_channels(const struct ibv_context *context)
{
    struct mock_comp_channel *channel;

    LIST_FOREACH (channel, &channels, link) {
        if (channel->channel.context != context || channel->wakefd == -1)
            continue;
        close(channel->wakefd);
        channel->wakefd = -1;
    }
}

int mock_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    struct mock_comp_channel *mock = (struct mock_comp_channel *)channel;

    require(mock->cqs == 0, "a completion channel goes before %d completion queues of it", mock->cqs);
    close(channel->fd);
    if (mock->wakefd != -1)
        close(mock->wakefd);
    LIST_REMOVE(mock, link);
    mock_count.channels--;
    return given_back(channel->context, mock);
}

int mock_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    struct mock_comp_channel *mock = (struct mock_comp_channel *)channel;
    struct mock_cq *queue;

    if (mock->wakefd == -1) {
        errno = EIO;
        return -1;
    }
    LIST_FOREACH (queue, &queues, link) {
        if (queue->cq.channel != channel || queue->events == 0)
            continue;
        queue->events--;
        add_events(mock, -1);
        *cq = &queue->cq;
        *cq_context = queue->cq.cq_context;
        return 0;
    }
    errno = EAGAIN;
    return -1;
}

void mock_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    (void)cq;
    (void)count;
}

/* ---- Completion queues ----------------------------------------------------------------------- */

struct ibv_cq *mock_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                              struct ibv_comp_channel *channel, int comp_vector)
{
    struct mock_cq *cq = mock_refuses(context) || mock_fails() ? NULL : calloc(1, sizeof(*cq));

    (void)comp_vector;
    if (cq == NULL)
        return NULL;
    mock_count_object(context, 1);
    cq->cq = (struct ibv_cq){.context = context, .channel = channel, .cq_context = cq_context, .cqe = cqe};
    cq->wcs = calloc((size_t)cqe + MOCK_STRAYS, sizeof(*cq->wcs));
    ((struct mock_comp_channel *)channel)->cqs++;
    LIST_INSERT_HEAD(&queues, cq, link);
    mock_count.cqs++;
    return &cq->cq;
}

int mock_destroy_cq(struct ibv_cq *cq)
{
    struct mock_cq *mock = (struct mock_cq *)cq;
    struct mock_comp_channel *channel = (struct mock_comp_channel *)cq->channel;

    require(mock->users == 0, "a completion queue goes before %d queue pairs of it", mock->users);
    add_events(channel, -mock->events);
    channel->cqs--;
    LIST_REMOVE(mock, link);
    mock_count.cqs--;
    free(mock->wcs);
    return given_back(cq->context, mock);
}

static int ring_size(const struct mock_cq *cq)
{
    return cq->cq.cqe + MOCK_STRAYS;
}

static void append(struct mock_cq *cq, const struct ibv_wc *wc)
{
    struct mock_comp_channel *channel = (struct mock_comp_channel *)cq->cq.channel;

    cq->wcs[(cq->head + cq->count++) % ring_size(cq)] = *wc;
    mock_progress++;
    if (!cq->armed)
        return;
    cq->armed = false;
    cq->events++;
    add_events(channel, 1);
}

void mock_complete(struct ibv_cq *cq, const struct ibv_wc *wc)
{
    struct mock_cq *mock = (struct mock_cq *)cq;

    require(mock->count - mock->strays < cq->cqe, "a completion queue of %d is full", cq->cqe);
    append(mock, wc);
}

void mock_stray_as(struct ibv_cq *cq, const struct ibv_wc *wc)
{
    struct mock_cq *mock = (struct mock_cq *)cq;

    require(wc->qp_num == STRAY, "a stray completion of queue pair %u", wc->qp_num);
    if (mock->strays == MOCK_STRAYS)
        return;
    mock->strays++;
    append(mock, wc);
}

void mock_stray(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
    mock_stray_as(cq, &(struct ibv_wc){.wr_id = wr_id, .status = status});
}

int mock_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    struct mock_cq *mock = (struct mock_cq *)cq;
    int got = 0;

    for (; got < count && mock->count > 0; got++, mock->count--) {
        wc[got] = mock->wcs[mock->head];
        mock->head = (mock->head + 1) % ring_size(mock);
        mock->strays -= wc[got].qp_num == STRAY;
        mock_polled(&wc[got]);
    }
    return got;
}

void mock_forget(const struct mock_qp *qp)
{
    struct mock_cq *cq = (struct mock_cq *)qp->qp.send_cq;
    int kept = 0;

    for (int i = 0; i < cq->count; i++) {
        const struct ibv_wc wc = cq->wcs[(cq->head + i) % ring_size(cq)];

        if (wc.qp_num != qp->qp.qp_num)
            cq->wcs[(cq->head + kept++) % ring_size(cq)] = wc;
    }
    cq->count = kept;
}

int mock_req_notify(struct ibv_cq *cq, int solicited_only)
{
    require(solicited_only == 0, "events of solicited completions alone");
    if (mock_refuses(cq->context) || mock_fails())
        return errno;
    ((struct mock_cq *)cq)->armed = true;
    return 0;
}

bool mock_all_awake(void)
{
    struct mock_cq *cq;

    LIST_FOREACH (cq, &queues, link) {
        if (cq->count > 0 && cq->events == 0)
            return false;
    }
    return true;
}
