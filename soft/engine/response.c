/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * response.c - builds and sends the responder's packets: READ responses and atomic responses, and one ACK or NAK for
 * all request packets since the last one. (In the code, `answer` is an ACK or NAK, or any packet of a responder.)
 *
 * Responses are sent in the order of their PSNs, so an ACK or NAK waits until the READs before it have been answered.
 * The responder remembers the last max_dest_rd_atomic READs and atomics (struct soft_resource), so that it can repeat
 * the response: a READ reads memory again, an atomic returns its first result.
 *
 * A READ or an atomic is answered only by its data; no ACK has its PSN. A peer that takes such an ACK for the answer,
 * as Linux's rxe does, would continue without the data if the data are lost, or overtaken by the ACK. The data also
 * acknowledge all PSNs before them.
 */
#include "core/base/bytes.h"
#include "engine.h"
#include "mw.h"

#define ACK_PATIENCE 4 /* packets for which an ACK may be delayed */
/* Number of ACK requests that may be pending while an ACK is delayed: a requester sends four in each window. */
#define ASKS_PATIENCE 3

static unsigned resource_count(const struct soft_qp *qp)
{
    return qp->attr.max_dest_rd_atomic;
}

/* ---- Remembered READs and atomics ---- */

/* Remembers a request and starts to answer it. False: the peer has more outstanding requests than agreed. */
bool soft_resource_add(struct soft_qp *qp, const struct soft_packet *packet)
{
    struct soft_responder *resp = &qp->resp;
    unsigned next;
    struct soft_resource *resource;
    bool atomic = packet->op & SOFT_OP_ATOMIC;

    if (resource_count(qp) == 0)
        return false;
    next = (resp->newest + 1) % resource_count(qp);
    resource = &resp->resources[next];
    /* The requester must have received the answer in this entry, or it would not send another request. A repeated
     * answer is therefore no longer needed; a first answer that is not complete means one request too many. */
    if (resource->cursor < resource->end) {
        if (!resource->again)
            return false;
        resp->active--;
    }
    *resource = (struct soft_resource){
        .psn = resp->expected,
        .va = packet->va,
        .rkey = packet->rkey,
        .length = atomic ? 8 : packet->dma_length,
        .packets = atomic ? 1 : soft_packets(packet->dma_length, qp->mtu),
        .msn = resp->msn + 1,
        .pd = soft_ibv(qp)->pd,
        .atomic = atomic,
    };
    resp->newest = next;
    if (resp->answer == SOFT_ANSWER_ACK)
        resp->answer = SOFT_ANSWER_NONE;
    soft_resource_answer(qp, resource, resource->psn, resource->packets);
    resource->again = false;
    return true;
}

static bool is_part(const struct soft_resource *resource, uint32_t mtu, uint64_t psn,
                    const struct soft_packet *packet)
{
    uint64_t offset = (psn - resource->psn) * mtu;

    if (packet->rkey != resource->rkey || resource->packets == 0 || psn < resource->psn ||
        psn >= resource->psn + resource->packets)
        return false;
    if (packet->op & SOFT_OP_ATOMIC)
        return resource->atomic && packet->va == resource->va;
    return !resource->atomic && packet->va == resource->va + offset &&
           packet->dma_length <= resource->length - offset;
}

struct soft_resource *soft_resource_find(struct soft_qp *qp, uint64_t psn, const struct soft_packet *packet)
{
    for (unsigned i = 0; i < resource_count(qp); i++)
        if (is_part(&qp->resp.resources[i], qp->mtu, psn, packet))
            return &qp->resp.resources[i];
    return NULL;
}

/* Answers (again) from psn on. */
void soft_resource_answer(struct soft_qp *qp, struct soft_resource *resource, uint64_t psn, uint32_t packets)
{
    if (resource->cursor == resource->end)
        qp->resp.active++;
    resource->start = resource->cursor = psn;
    resource->end = psn + packets;
    resource->again = true;
    soft_work(qp);
}

/* Stops answering at psn and behind it. */
void soft_resource_drop(struct soft_qp *qp, uint64_t psn)
{
    for (unsigned i = 0; i < resource_count(qp) && qp->resp.active > 0; i++) {
        struct soft_resource *resource = &qp->resp.resources[i];

        if (resource->cursor < resource->end && resource->end > psn) {
            resource->cursor = resource->end;
            qp->resp.active--;
        }
    }
}

/* Returns the entry with the lowest PSN of those being answered. */
static struct soft_resource *first_active(struct soft_qp *qp)
{
    struct soft_resource *first = NULL;

    for (unsigned i = 0; i < resource_count(qp) && qp->resp.active > 0; i++) {
        struct soft_resource *resource = &qp->resp.resources[i];

        if (resource->cursor < resource->end && (first == NULL || resource->psn < first->psn))
            first = resource;
    }
    return first;
}

/* ---- Building packets ---- */

static bool put_atomic(struct soft_qp *qp, const struct soft_resource *resource)
{
    struct soft_bth bth = {
        .opcode = qp->transport | SOFT_ATOMIC_ACK, .qpn = qp->attr.dest_qp_num, .psn = (uint32_t)resource->psn};
    uint8_t *at = soft_burst_add(qp, &qp->path, SOFT_BTH_BYTES + SOFT_AETH_BYTES + SOFT_ATOMIC_ACK_BYTES,
                                 resource->psn, true);

    if (at == NULL)
        return false;
    at = soft_put_aeth(soft_put_bth(at, &bth), SOFT_SYNDROME_ACK, resource->msn);
    put64(at, resource->original);
    return true;
}

static uint8_t read_opcode(bool first, bool last)
{
    if (first)
        return last ? SOFT_READ_ONLY : SOFT_READ_FIRST;
    return last ? SOFT_READ_LAST : SOFT_READ_MIDDLE;
}

/* Builds one response of a READ. False: the caller must check again what it has to send. */
static bool put_read(struct soft_qp *qp, const struct soft_resource *resource)
{
    uint64_t psn = resource->cursor, offset = (psn - resource->psn) * qp->mtu;
    uint32_t left = resource->length - (uint32_t)offset, length = left < qp->mtu ? left : qp->mtu;
    bool first = psn == resource->start, last = psn + 1 == resource->end, aeth = first || last;
    struct iovec from;
    struct soft_bth bth = {.opcode = qp->transport | read_opcode(first, last),
                           .pad = soft_pad(length),
                           .qpn = qp->attr.dest_qp_num,
                           .psn = (uint32_t)psn};
    size_t headers = SOFT_BTH_BYTES + (aeth ? SOFT_AETH_BYTES : 0);
    const struct soft_mr *mr = NULL;
    uint8_t *at;

    if (qp->xrcd != NULL)
        soft_ibv(qp)->pd = resource->pd;
    if (length > 0)
        mr = soft_remote_check(qp, resource->rkey, resource->va + offset, length, IBV_ACCESS_REMOTE_READ);
    if (length > 0 && mr == NULL) {
        soft_responder_fail(qp, psn, SOFT_SYNDROME_ACCESS, IBV_WC_REM_ACCESS_ERR);
        return false;
    }
    if ((at = soft_burst_add(qp, &qp->path, headers + length + bth.pad, psn, true)) == NULL)
        return false;
    at = soft_put_bth(at, &bth);
    if (aeth)
        at = soft_put_aeth(at, SOFT_SYNDROME_ACK, resource->msn);
    if (length > 0) {
        from = (struct iovec){soft_mr_at(mr, resource->va + offset), length};
        soft_burst_payload(qp->context, at, &from, 1, mr->nofault ? mr : NULL);
    }
    memset(at + length, 0, bth.pad);
    return true;
}

/* ---- ACK and NAK ---- */

void soft_answer_ack(struct soft_qp *qp)
{
    struct soft_responder *resp = &qp->resp;

    /* A NAK that was not sent yet says more than an ACK; nak_by_now() checks whether its reason still exists. */
    if (resp->answer == SOFT_ANSWER_NONE) {
        resp->answer = SOFT_ANSWER_ACK;
        resp->asks = 1;
    } else {
        resp->asks++;
    }
    soft_work(qp);
}

void soft_answer_nak(struct soft_qp *qp, uint64_t psn, uint8_t syndrome)
{
    struct soft_responder *resp = &qp->resp;

    resp->answer = SOFT_ANSWER_NAK;
    resp->syndrome = syndrome;
    resp->nak_psn = psn;
    resp->nak_sent = true;
    resp->ahead = 0;
    soft_work(qp);
}

/* Requests a NAK, but only if an incomplete message or a gap shows that more packets had been sent; other queue pairs
 * have lost nothing that is known. */
void soft_answer_overflow(struct soft_qp *qp)
{
    const struct soft_responder *resp = &qp->resp;

    if (qp->reliable && soft_receives(qp) && qp->path_known && resp->answer != SOFT_ANSWER_NAK &&
        (resp->message != 0 || resp->missed > resp->expected))
        soft_answer_nak(qp, qp->resp.expected, SOFT_SYNDROME_SEQUENCE);
}

/* Stores syndrome and PSN of the pending NAK as they must be now, when it is sent. A sequence or RNR NAK may have
 * become obsolete and turn into an ACK, because packets that arrived in another order have filled or moved the gap. */
static void nak_by_now(struct soft_responder *resp, uint8_t *syndrome, uint64_t *psn)
{
    *syndrome = resp->syndrome;
    *psn = resp->nak_psn;
    if (resp->syndrome == SOFT_SYNDROME_SEQUENCE)
        *psn = resp->expected;
    if ((resp->syndrome == SOFT_SYNDROME_SEQUENCE && !resp->nak_sent && resp->expected >= resp->missed) ||
        ((resp->syndrome & SOFT_SYNDROME_KIND) == SOFT_SYNDROME_RNR && resp->nak_psn != resp->expected)) {
        *syndrome = SOFT_SYNDROME_ACK;
        *psn = resp->data - 1;
    }
}

static void count_nak(struct soft_qp *qp, uint8_t syndrome)
{
    struct soft_counters *counters = &qp->context->counters;

    if ((syndrome & SOFT_SYNDROME_KIND) == SOFT_SYNDROME_RNR)
        counters->rnr_naks_sent++;
    else if (syndrome != SOFT_SYNDROME_ACK)
        counters->naks_sent++;
}

/* Builds an ACK or NAK packet. False: the caller must check again what it has to send. */
static bool put_one_aeth(struct soft_qp *qp, uint8_t syndrome, uint64_t psn)
{
    struct soft_bth bth = {.opcode = qp->ack, .qpn = qp->attr.dest_qp_num, .psn = (uint32_t)psn};
    uint8_t *at = soft_burst_add(qp, &qp->path, SOFT_BTH_BYTES + SOFT_AETH_BYTES, psn, true);

    if (at == NULL)
        return false;
    soft_put_aeth(soft_put_bth(at, &bth), syndrome,
                  syndrome == SOFT_SYNDROME_ACK ? qp->resp.data_msn : qp->resp.msn);
    count_nak(qp, syndrome);
    return true;
}

/* True if an ACK must precede the NAK. A sequence NAK acknowledges all PSNs before it. But Linux's rxe, a peer at
 * RoCE's port, counts each NAK as a failed retry until an ACK arrives, and fails its queue pair although everything
 * arrives in the end. */
static bool is_owed_progress(const struct soft_qp *qp, uint8_t syndrome)
{
    return syndrome == SOFT_SYNDROME_SEQUENCE && qp->resp.data > qp->resp.acked &&
           qp->path.remote.in.sin_port == htons(SOFT_UDP_PORT); /* at the same place in sockaddr_in6 */
}

static inline __attribute__((always_inline)) void put_aeth(struct soft_qp *qp)
{
    struct soft_responder *resp = &qp->resp;
    uint64_t psn = resp->data - 1;
    uint8_t syndrome = SOFT_SYNDROME_ACK;

    if (resp->answer == SOFT_ANSWER_NAK)
        nak_by_now(resp, &syndrome, &psn);
    if (is_owed_progress(qp, syndrome)) {
        if (!put_one_aeth(qp, SOFT_SYNDROME_ACK, resp->data - 1))
            return;
        resp->acked = resp->expected;
    }
    if (!put_one_aeth(qp, syndrome, psn))
        return;
    resp->answer = SOFT_ANSWER_NONE;
    resp->acked = resp->expected;
    /* After an overflow the NAK was sent without a known gap; if there is a gap now, it needs its own NAK. */
    if (syndrome == SOFT_SYNDROME_SEQUENCE)
        resp->nak_sent = resp->missed > resp->expected;
}

/* True if the link carries the ACK with the burst that is about to be sent. The responses in the burst are in order, so
 * the ACK is behind all of them. */
static bool is_carried(struct soft_qp *qp)
{
    struct soft_responder *resp = &qp->resp;
    const struct soft_burst *burst = &qp->context->burst;
    struct soft_link *link = qp->path.link;

    if (resp->answer != SOFT_ANSWER_ACK || link == NULL || !link->carries_ack || burst->packets == 0 ||
        burst->link != link)
        return false;
    link->ack = SOFT_ACKED << SOFT_ACKED_SHIFT | ((uint32_t)(resp->data - 1) & SOFT_PSN_MASK);
    resp->answer = SOFT_ANSWER_NONE;
    resp->acked = resp->expected;
    return true;
}

/* True if there is nothing to send but an ACK of a few packets, or of less than the peer's window, so that the peer is
 * not blocked yet. */
bool soft_answer_can_wait(const struct soft_qp *qp)
{
    const struct soft_responder *resp = &qp->resp;

    return resp->active == 0 && resp->answer == SOFT_ANSWER_ACK &&
           (resp->expected - resp->acked <= ACK_PATIENCE || resp->asks <= ASKS_PATIENCE);
}

/* Sends data of READs and atomics, at most one burst. False: an ACK or NAK must not follow now. */
static __attribute__((noinline)) bool put_data(struct soft_qp *qp)
{
    struct soft_responder *resp = &qp->resp;
    unsigned limit = qp->turn < SOFT_BURST_PACKETS ? qp->turn : SOFT_BURST_PACKETS;
    struct soft_resource *resource;

    while (limit-- > 0 && (resource = first_active(qp)) != NULL) {
        if (!(resource->atomic ? put_atomic(qp, resource) : put_read(qp, resource)))
            return false;
        if (++resource->cursor == resource->end)
            resp->active--;
    }
    return resp->active == 0;
}

/* Sends data, then the ACK or NAK if nothing precedes it. Returns true if more remains. */
bool soft_answer_go(struct soft_qp *qp)
{
    struct soft_responder *resp = &qp->resp;

    if ((resp->active == 0 || put_data(qp)) && resp->answer != SOFT_ANSWER_NONE && !is_carried(qp))
        put_aeth(qp);
    return resp->active > 0 || resp->answer != SOFT_ANSWER_NONE;
}
