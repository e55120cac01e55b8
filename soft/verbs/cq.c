/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq.c - completion queues: a ring of completions that the engine fills and ibv_poll_cq() empties.
 *
 * Polling an empty ring drives the device, so an application that polls needs no other thread to move its data. The
 * exception, in contexts without names, is the first poll after arming: it is for completions that exist already, and
 * later ones are not lost, because packets make the descriptor readable.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include "core/base/pages.h"
#include "soft/engine/engine.h"
#include "verbs.h"
#include "soft/lock.h"

#define EMPTY_POLLS                                                                                            \
    16 /* Consecutive polls without a completion until the polling thread yields the CPU once. */

int soft_cq_check(const struct ibv_cq *cq)
{
    return soft_object_check(soft_context_of(cq->context), SOFT_CQ, cq, cq->handle);
}

static size_t ring_bytes(unsigned entries)
{
    return entries * sizeof(struct ibv_wc);
}

/* Frees everything but the struct. */
static void release_cq(struct soft_cq *cq)
{
    struct ibv_cq *ibv = ibv_cq_ex_to_cq(&cq->ibv);

    pthread_cond_destroy(&ibv->cond);
    pthread_mutex_destroy(&ibv->mutex);
    pages_free(cq->ring, ring_bytes((unsigned)ibv->cqe));
}

struct ibv_cq *soft_create_cq(struct ibv_context *ibv, int cqe, void *cq_context,
                              struct ibv_comp_channel *channel, int comp_vector)
{
    struct soft_context *context = soft_context_of(ibv);
    struct soft_cq *cq;
    struct ibv_cq *plain;
    bool entered;

    if (cqe < 1 || cqe > SOFT_MAX_CQE || comp_vector < 0 || comp_vector >= ibv->num_comp_vectors ||
        (channel != NULL && channel->context != ibv)) {
        errno = EINVAL;
        return NULL;
    }
    if ((cq = calloc(1, sizeof *cq)) == NULL)
        return NULL;
    if ((cq->ring = pages_new(ring_bytes((unsigned)cqe))) == NULL) {
        free(cq);
        return NULL;
    }
    plain = ibv_cq_ex_to_cq(&cq->ibv);
    plain->context = ibv;
    plain->channel = channel;
    plain->cq_context = cq_context;
    plain->cqe = cqe;
    cq->async.element = plain;
    pthread_mutex_init(&plain->mutex, NULL);
    pthread_cond_init(&plain->cond, NULL);
    soft_lock(ibv);
    entered = soft_object_enter(context, SOFT_CQ, plain, &plain->handle);
    if (entered && channel != NULL)
        channel->refcnt++;
    soft_unlock(ibv);
    if (entered)
        return plain;
    release_cq(cq);
    free(cq);
    errno = ENOMEM;
    return NULL;
}

/* (locked) */
static void disarm_cq(struct soft_cq *cq)
{
    cq->armed = SOFT_UNARMED;
    if (cq->awaited)
        atomic_fetch_sub(&soft_context_of(cq->ibv.context)->awaited, 1);
    cq->awaited = false;
}

void soft_cq_arm(struct soft_cq *cq, enum soft_arm armed)
{
    struct soft_context *context = soft_context_of(cq->ibv.context);

    cq->armed = armed;
    if (cq->awaited || context->wire->awaits == NULL ||
        !soft_channel_sleeps_outside((struct soft_channel *)cq->ibv.channel))
        return;
    cq->awaited = true;
    atomic_fetch_add(&context->awaited, 1);
    context->wire->awaits(context->wire, &context->verbs.context);
}

bool soft_is_awaited(struct ibv_context *context)
{
    return atomic_load(&soft_context_of(context)->awaited) > 0;
}

/* (locked) Removes the queue from its context; EBUSY while queue pairs use it. */
static int detach_cq(struct soft_cq *cq)
{
    int error = soft_cq_check(ibv_cq_ex_to_cq(&cq->ibv));

    if (error != 0)
        return error;
    if (cq->users > 0)
        return EBUSY;
    disarm_cq(cq);
    if (cq->ibv.channel != NULL) {
        soft_channel_forget((struct soft_channel *)cq->ibv.channel, cq);
        cq->ibv.channel->refcnt--;
    }
    soft_events_forget(soft_context_of(cq->ibv.context), &cq->async);
    soft_object_retire(soft_context_of(cq->ibv.context), cq->ibv.handle);
    return 0;
}

int soft_destroy_cq(struct ibv_cq *ibv)
{
    struct soft_cq *cq = (struct soft_cq *)ibv;
    int error;

    soft_lock(ibv->context);
    error = detach_cq(cq);
    soft_unlock(ibv->context);
    if (error != 0)
        return errno = error;
    /* A thread that fetched an event may still be about to use the queue, until it acknowledges the event. */
    soft_mutex_lock(&ibv->mutex);
    while (ibv->comp_events_completed != cq->delivered)
        pthread_cond_wait(&ibv->cond, &ibv->mutex);
    soft_mutex_unlock(&ibv->mutex);
    soft_events_wait(&ibv->mutex, &ibv->cond, &ibv->async_events_completed, &cq->async);
    release_cq(cq);
    soft_object_free(soft_context_of(ibv->context), cq);
    return 0;
}

/* (locked) Replaces the ring by one of this size; keeps its completions. 0 or an errno. */
static int resize_ring(struct soft_cq *cq, unsigned size)
{
    struct ibv_wc *ring;
    unsigned old = (unsigned)cq->ibv.cqe;

    if (size < cq->count)
        return EINVAL;
    if ((ring = pages_new(ring_bytes(size))) == NULL)
        return ENOMEM;
    for (unsigned i = 0; i < cq->count; i++)
        ring[i] = cq->ring[(cq->head + i) % old];
    pages_free(cq->ring, ring_bytes(old));
    cq->ring = ring;
    cq->head = 0;
    cq->ibv.cqe = (int)size;
    return 0;
}

int soft_resize_cq(struct ibv_cq *ibv, int cqe)
{
    int error;

    if (cqe < 1 || cqe > SOFT_MAX_CQE)
        return EINVAL;
    soft_lock(ibv->context);
    error = soft_cq_check(ibv);
    if (error == 0)
        error = resize_ring((struct soft_cq *)ibv, (unsigned)cqe);
    soft_unlock(ibv->context);
    return error;
}

void soft_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    if (nevents == 0)
        return;
    soft_mutex_lock(&cq->mutex);
    cq->comp_events_completed += nevents;
    pthread_cond_signal(&cq->cond);
    soft_mutex_unlock(&cq->mutex);
}

/* A completion did not fit, now or before. */
static __attribute__((cold)) void report_overrun(struct soft_cq *cq)
{
    if (cq->overrun)
        return;
    cq->overrun = true;
    soft_event_raise(soft_context_of(cq->ibv.context), &cq->async, IBV_EVENT_CQ_ERR);
}

/* Field by field, so that the compiler writes the caller's struct directly to the ring. */
static inline void copy_wc(struct ibv_wc *to, const struct ibv_wc *wc)
{
    to->wr_id = wc->wr_id;
    to->status = wc->status;
    to->opcode = wc->opcode;
    to->vendor_err = wc->vendor_err;
    to->byte_len = wc->byte_len;
    to->imm_data = wc->imm_data; /* or the invalidated key, at the same offset */
    to->qp_num = wc->qp_num;
    to->src_qp = wc->src_qp;
    to->wc_flags = wc->wc_flags;
    to->pkey_index = wc->pkey_index;
    to->slid = wc->slid;
    to->sl = wc->sl;
    to->dlid_path_bits = wc->dlid_path_bits;
}

inline __attribute__((always_inline)) bool soft_cq_add(struct soft_cq *cq, const struct ibv_wc *wc,
                                                       bool solicited)
{
    unsigned size = (unsigned)cq->ibv.cqe, at = cq->head + cq->count;
    bool error = wc->status != IBV_WC_SUCCESS;

    if (cq->overrun || cq->count == size) {
        report_overrun(cq);
        return false;
    }
    copy_wc(&cq->ring[at < size ? at : at - size], wc);
    cq->count++;
    if (cq->armed == SOFT_ARM_ANY || (cq->armed == SOFT_ARM_SOLICITED && (solicited || error))) {
        disarm_cq(cq);
        soft_channel_notify((struct soft_channel *)cq->ibv.channel, cq);
    }
    return true;
}

void soft_cq_take_back(struct soft_cq *cq, uint32_t qpn)
{
    unsigned size = (unsigned)cq->ibv.cqe, kept = 0;

    for (unsigned i = 0; i < cq->count; i++) {
        const struct ibv_wc *wc = &cq->ring[(cq->head + i) % size];

        if (wc->qp_num != qpn)
            cq->ring[(cq->head + kept++) % size] = *wc;
    }
    cq->count = kept;
}

inline int soft_cq_take(struct soft_cq *cq, int room, struct ibv_wc *wc)
{
    unsigned taken = (unsigned)room < cq->count ? (unsigned)room : cq->count;

    for (unsigned i = 0; i < taken; i++) {
        wc[i] = cq->ring[cq->head];
        if (++cq->head == (unsigned)cq->ibv.cqe)
            cq->head = 0;
    }
    cq->count -= taken;
    return (int)taken;
}

/* (locked) A program that polls in a loop may occupy the CPU that its peer needs to answer. Hardware would answer
 * without it; here the polling thread yields now and then. */
static bool must_yield(struct soft_context *context, int taken)
{
    context->empty_polls = taken == 0 ? context->empty_polls + 1 : 0;
    return context->empty_polls % EMPTY_POLLS == EMPTY_POLLS - 1;
}

void soft_nothing_completed(struct soft_context *context)
{
    unsigned activity = atomic_load_explicit(&context->poll.activity, memory_order_relaxed);

    if (context->packets_found > 0)
        atomic_store_explicit(&context->poll.activity, activity + 1, memory_order_relaxed);
    soft_flush_acks(context);
}

int soft_poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
    struct soft_cq *cq = (struct soft_cq *)ibv;
    struct ibv_context *context = ibv->context;
    struct soft_wire *wire = soft_context_of(context)->wire;
    bool yield;
    int taken;

    soft_lock(context);
    if (wire->attended != NULL)
        wire->attended(wire, context);
    taken = soft_cq_take(cq, count, wc);
    if (taken == 0 && count > 0 && !cq->rearmed) {
        wire->poll_mode = soft_context_of(context)->names.lid == 0 ? SOFT_POLLS_RESTS : SOFT_POLLS;
        soft_progress_delaying_acks(soft_context_of(context));
        wire->poll_mode = SOFT_POLLS_ONCE;
        taken = soft_cq_take(cq, count, wc);
        if (taken == 0)
            soft_nothing_completed(soft_context_of(context));
    }
    cq->rearmed = false;
    if (taken == 0 && count > 0 && cq->overrun)
        taken = -1; /* completions were lost: its queue pairs are in the error state */
    yield = must_yield(soft_context_of(context), taken);
    soft_unlock(context);
    if (yield)
        sched_yield();
    return taken;
}

int soft_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
    struct soft_cq *cq = (struct soft_cq *)ibv;

    soft_lock(ibv->context);
    if (ibv->channel != NULL && (!solicited_only || cq->armed == SOFT_UNARMED))
        soft_cq_arm(cq, solicited_only ? SOFT_ARM_SOLICITED : SOFT_ARM_ANY);
    if (soft_context_of(ibv->context)->names.lid == 0)
        cq->rearmed = true; /* its user calls soft_stop_polling() before it sleeps */
    else
        soft_flush_acks(soft_context_of(ibv->context)); /* the caller is about to sleep */
    soft_unlock(ibv->context);
    return 0;
}

struct poll_state *soft_poll_state(struct ibv_context *context)
{
    return &soft_context_of(context)->poll;
}

bool soft_is_slept_on(struct ibv_context *context)
{
    return atomic_load_explicit(&soft_context_of(context)->poll.asleep, memory_order_relaxed);
}

uint64_t soft_stop_polling(struct ibv_context *context, bool sleeps)
{
    uint64_t due = NEVER_NS;

    soft_lock(context);
    if (sleeps) {
        soft_flush_acks(soft_context_of(context));
        due = soft_set_next_poll(soft_context_of(context));
    }
    soft_watch_again(context);
    soft_unlock(context);
    return due;
}
