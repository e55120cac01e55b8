/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * requester.c - the sending half of a queue pair: turns work requests into packets.
 *
 * Two PSNs control it: una, the oldest that is not acknowledged, and next. To send again, the requester sets next =
 * una, wherever in a message that is: each packet is built from the work request and the application's memory.
 *
 * The window limits how many packets are unacknowledged, so that the peer's socket buffer can hold them. The responses
 * of a READ count, too: they arrive in this side's socket buffer, and the responder has no other limit for them. The
 * requester therefore requests a long READ in parts.
 *
 * On an unreliable transport nothing is acknowledged: una follows next, and a request completes when its last packet
 * has been sent. The link may then ask for a pause, so that the queue pair does not send faster than the peer reads.
 */
#include "engine.h"
#include "mw.h"

#define ASKED_BYTES 2097152 /* maximum payload for which one acknowledgement is asked */

_Static_assert(SOFT_WINDOW_MAX * 4096 <= SOFT_FLIGHT_MAX, "links have room for a window");

static struct soft_send *current_send(const struct soft_qp *qp)
{
    return soft_ring_at(&qp->req.ring, qp->req.index);
}

/* Number of packets that the window still allows. */
static uint32_t window_room(const struct soft_requester *req)
{
    uint64_t out = req->next - req->una;

    return out >= req->recovery.window ? 0 : (uint32_t)(req->recovery.window - out);
}

/* Number of PSNs that the next packet uses. A READ request requests at most a window of response packets; the requester
 * requests the rest when these have arrived. On a lossless link it requests all. A repeated request covers exactly the
 * responses that were requested before: the responder may not have received that request, or it answers a part of
 * it. */
static uint32_t psn_span(const struct soft_qp *qp, const struct soft_send *send)
{
    const struct soft_requester *req = &qp->req;
    uint64_t left = send->psn + send->packets - req->next, most = req->recovery.window;

    if (send->base != SOFT_READ_REQUEST)
        return 1;
    if (req->next < req->high)
        most = req->high - req->next;
    return left > most && !soft_is_lossless(qp) ? (uint32_t)most : (uint32_t)left;
}

/* The number of outstanding READs and atomics is limited, and of the parts of one READ only one may be outstanding. */
static bool answered_may_go(const struct soft_qp *qp, const struct soft_send *send)
{
    const struct soft_requester *req = &qp->req;

    return req->reads < qp->attr.max_rd_atomic && (req->next == send->psn || req->next == req->una);
}

bool soft_requester_may_go(const struct soft_qp *qp)
{
    const struct soft_requester *req = &qp->req;
    const struct soft_send *send;

    if (!soft_sends(qp) || req->rnr_wait || window_room(req) == 0)
        return false;
    send = current_send(qp);
    if (soft_state(qp) == IBV_QPS_SQD && req->next == send->psn && req->next == req->high)
        return false; /* drained: started requests continue, no new one starts */
    if (send->status != IBV_WC_SUCCESS)
        return req->index == req->ring.tail; /* it fails, or is executed locally, when it is the oldest */
    if (send->flags & IBV_SEND_FENCE && req->next == send->psn && req->reads > 0)
        return false;
    return !soft_send_answered(send) || answered_may_go(qp, send);
}

bool soft_requester_drained(const struct soft_qp *qp)
{
    const struct soft_requester *req = &qp->req;

    return req->una == req->high && (req->index == req->ring.head || current_send(qp)->psn == req->next);
}

void soft_requester_drain(struct soft_qp *qp)
{
    if (!qp->attr.en_sqd_async_notify || !soft_requester_drained(qp))
        return;
    qp->attr.en_sqd_async_notify = 0;
    soft_event_raise(qp->context, &qp->events, IBV_EVENT_SQ_DRAINED);
}

void soft_requester_back(struct soft_qp *qp)
{
    struct soft_requester *req = &qp->req;

    soft_settle(qp);
    req->next = req->una;
    req->index = req->ring.tail;
    req->asked = req->una;
    req->reads = 0;
    req->expiry = NEVER_NS;
    soft_recovery_repeat(&req->recovery, soft_now(qp->context));
    soft_timer_set(qp, NEVER_NS);
    soft_work(qp);
}

void soft_requester_lost(struct soft_qp *qp)
{
    struct soft_requester *req = &qp->req;

    soft_recovery_lost(&req->recovery, req->una, req->high);
    soft_requester_back(qp);
}

void soft_requester_fault(struct soft_qp *qp, uint64_t psn, enum ibv_wc_status status)
{
    struct soft_requester *req = &qp->req;
    uint32_t index = req->ring.tail;
    struct soft_send *send;

    if (!soft_sends(qp))
        return;
    while (index != req->ring.head) {
        send = soft_ring_at(&req->ring, index);
        if (psn < send->psn + send->packets)
            break;
        index++;
    }
    if (index == req->ring.head)
        return; /* acknowledged in the meantime */
    send = soft_ring_at(&req->ring, index);
    send->status = status;
    req->index = index;
    req->next = psn;
    if (index == req->ring.tail) {
        req->ring.tail++;
        soft_complete_send(qp, send, status);
        soft_send_queue_fail(qp);
    }
}

/* ---- Building packets ---- */

static inline int payload_of(const struct soft_qp *qp, struct soft_send *send, uint64_t offset, uint32_t length,
                             struct iovec slice[SOFT_MAX_SGE], const struct soft_mr **nofault)
{
    struct ibv_pd *pd = qp->ibv.qp_base.pd;

    if (length == 0)
        return 0;
    if (send->flags & IBV_SEND_INLINE) {
        slice[0] = (struct iovec){send->data.bytes + offset, length};
        return 1;
    }
    if (offset == 0 && !soft_sge_check(qp->context, pd, send->data.sge, send->sges, 0))
        return -1;
    return soft_sge_slice(qp->context, pd, send->data.sge, send->sges, offset, length, 0, slice, nofault);
}

int soft_send_slice(const struct soft_qp *qp, struct soft_send *send, uint64_t offset, uint32_t length,
                    struct iovec slice[SOFT_MAX_SGE], const struct soft_mr **nofault)
{
    return payload_of(qp, send, offset, length, slice, nofault);
}

/* The number of packets of which one asks for an acknowledgement: four do in a window, and more if packets are long. So
 * the peer of a slow path is heard of while it receives a long message. */
static uint32_t packets_per_answer(const struct soft_qp *qp)
{
    uint32_t packets = qp->req.recovery.window / 4, most = ASKED_BYTES / qp->mtu;

    return packets < most ? packets : most;
}

/* Whether a packet asks for an acknowledgement: one of some, the end of the window, and the end of a message. A packet
 * with a PSN below next is a probe. */
static bool asks_ack(struct soft_qp *qp, uint64_t psn, bool last)
{
    struct soft_requester *req = &qp->req;
    uint32_t window = req->recovery.window;

    if (psn < req->next)
        return true;
    if (!last && psn + 1 - req->asked < packets_per_answer(qp) && psn + 1 - req->una < window)
        return false;
    req->asked = psn + 1;
    if (psn == req->high && !soft_is_lossless(qp))
        soft_recovery_time(&req->recovery, psn);
    return true;
}

/* Builds one packet of a SEND or WRITE; `only`: it is the whole message. False: the caller must check again what it has
 * to send. */
static inline __attribute__((always_inline)) bool put_data_as(struct soft_qp *qp, struct soft_send *send,
                                                              uint64_t psn, bool extended, bool only)
{
    uint64_t offset = only ? 0 : (psn - send->psn) * qp->mtu;
    uint32_t left = send->length - (uint32_t)offset, length = only || left < qp->mtu ? left : qp->mtu;
    bool first = only || psn == send->psn, last = only || psn + 1 == send->psn + send->packets;
    bool imm = last && send->with_imm, reth = first && send->base == SOFT_WRITE;
    size_t headers = SOFT_BTH_BYTES + (extended ? SOFT_XRCETH_BYTES : 0) + (reth ? SOFT_RETH_BYTES : 0) +
                     (imm ? SOFT_IMM_BYTES : 0);
    struct soft_bth bth = {.pad = soft_pad(length), .qpn = qp->attr.dest_qp_num, .psn = (uint32_t)psn};
    struct iovec slice[SOFT_MAX_SGE];
    const struct soft_mr *nofault = NULL;
    bool is_inline = send->flags & IBV_SEND_INLINE;
    int pieces = is_inline ? 0 : payload_of(qp, send, offset, length, slice, &nofault);
    uint8_t *at;

    if (pieces < 0) {
        soft_requester_fault(qp, psn, IBV_WC_LOC_PROT_ERR);
        return false;
    }
    if ((at = soft_burst_add(qp, &qp->path, headers + length + bth.pad, psn, false)) == NULL)
        return false;
    bth.opcode = (uint8_t)(qp->transport | (last ? send->last : send->base + !first));
    bth.solicited = last && send->flags & IBV_SEND_SOLICITED && (imm || send->base == SOFT_SEND);
    bth.ack_request = qp->reliable && asks_ack(qp, psn, last);
    at = soft_put_bth(at, &bth);
    if (extended)
        at = soft_put_xrceth(at, send->srqn);
    if (reth)
        at = soft_put_reth(at, send->va, send->rkey, send->length);
    if (imm) {
        memcpy(at, &send->imm, SOFT_IMM_BYTES);
        at += SOFT_IMM_BYTES;
    }
    if (is_inline)
        memcpy(at, send->data.bytes + offset, length);
    else
        soft_burst_payload(qp->context, at, slice, pieces, nofault);
    memset(at + length, 0, bth.pad);
    return true;
}

static __attribute__((noinline)) bool put_part(struct soft_qp *qp, struct soft_send *send, uint64_t psn)
{
    return put_data_as(qp, send, psn, false, false);
}

static bool put_data(struct soft_qp *qp, struct soft_send *send, uint64_t psn)
{
    return send->packets == 1 ? put_data_as(qp, send, psn, false, true) : put_part(qp, send, psn);
}

static bool put_data_extended(struct soft_qp *qp, struct soft_send *send, uint64_t psn)
{
    return put_data_as(qp, send, psn, true, false);
}

/* Builds an atomic, or a READ request for `count` packets. The local memory is checked when the response is stored there,
 * as by adapters: if the key of the peer's memory is wrong, too, the peer's error is the one reported, and an atomic with
 * a wrong local key is executed. */
static bool put_request(struct soft_qp *qp, struct soft_send *send, uint64_t psn, uint32_t count)
{
    bool atomic = send->base != SOFT_READ_REQUEST;
    bool extended = qp->transport == SOFT_XRC;
    size_t size =
        SOFT_BTH_BYTES + (extended ? SOFT_XRCETH_BYTES : 0) + (atomic ? SOFT_ATOMIC_BYTES : SOFT_RETH_BYTES);
    uint64_t offset = (psn - send->psn) * qp->mtu, length = (uint64_t)count * qp->mtu;
    struct soft_bth bth = {.opcode = qp->transport | send->base,
                           .ack_request = true,
                           .qpn = qp->attr.dest_qp_num,
                           .psn = (uint32_t)psn};
    uint8_t *at;

    if ((at = soft_burst_add(qp, &qp->path, size, psn, false)) == NULL)
        return false;
    if (length > send->length - offset)
        length = send->length - offset;
    at = soft_put_bth(at, &bth);
    if (extended)
        at = soft_put_xrceth(at, send->srqn);
    if (atomic)
        soft_put_atomic(at, send->va, send->rkey, send->swap_add, send->compare);
    else
        soft_put_reth(at, send->va + offset, send->rkey, (uint32_t)length);
    qp->req.asked = psn + count;
    if (psn == qp->req.high)
        soft_recovery_time(&qp->req.recovery, psn);
    return true;
}

static void count_again(struct soft_qp *qp)
{
    qp->context->counters.retransmitted++;
    qp->req.retransmitted++;
}

/* Transports whose packets have an extra addressing header (UD, XRC). */
static bool put_addressed(struct soft_qp *qp, struct soft_send *send, uint32_t count)
{
    if (qp->transport == SOFT_UD)
        return soft_ud_put(qp, send);
    if (soft_send_answered(send))
        return put_request(qp, send, qp->req.next, count);
    return put_data_extended(qp, send, qp->req.next);
}

static bool put_packet(struct soft_qp *qp, struct soft_send *send, uint32_t count)
{
    if (qp->transport >= SOFT_UD)
        return put_addressed(qp, send, count);
    if (soft_send_answered(send))
        return put_request(qp, send, qp->req.next, count);
    return put_data(qp, send, qp->req.next);
}

/* `bytes` more bytes were sent for this request. If the link asks for a pause, it ends in soft_requester_waited(), like
 * an RNR wait. */
static void apply_pace(struct soft_qp *qp, struct soft_send *send, size_t bytes)
{
    const struct soft_path *path =
        qp->transport == SOFT_UD ? &soft_destination_of(&qp->req.ring, send)->path : &qp->path;
    struct soft_link *link = path->link != NULL ? path->link : qp->context->wire->link;
    uint64_t pause = link->pace == NULL ? 0 : link->pace(link, path, bytes);

    if (pause == 0)
        return;
    qp->context->counters.paced++;
    qp->req.rnr_wait = true;
    soft_timer_set(qp, soft_now(qp->context) + pause);
}

void soft_requester_waited(struct soft_qp *qp)
{
    struct soft_requester *req = &qp->req;

    req->rnr_wait = false;
    if (!qp->reliable && req->index != req->ring.head)
        apply_pace(qp, current_send(qp), 0);
    if (!req->rnr_wait)
        soft_work(qp);
}

/* Unreliable transports: the packet is done. False: some of its payload's memory had vanished. */
static bool sent_for_good(struct soft_qp *qp, struct soft_send *send)
{
    struct soft_requester *req = &qp->req;

    /* Payload that is yet to be copied may turn out to have vanished. Copy it before the request completes
     * successfully. */
    if (req->next == send->psn + send->packets && qp->context->burst.pieces > 0 &&
        !soft_burst_leave(qp->context) && !soft_sends(qp))
        return false;
    req->una = req->next;
    apply_pace(qp, send, qp->mtu);
    if (req->next == send->psn + send->packets)
        soft_request_done(qp);
    return true;
}

/* Builds the next packet. False: the caller must check again what it has to send. */
static bool put_next(struct soft_qp *qp)
{
    struct soft_requester *req = &qp->req;
    struct soft_send *send = current_send(qp);
    uint32_t count = psn_span(qp, send);

    if (send->status != IBV_WC_SUCCESS) {
        if (send->base == SOFT_LOCAL)
            soft_local_go(qp, send);
        else
            soft_requester_fault(qp, req->next, send->status);
        return false;
    }
    if (!put_packet(qp, send, count))
        return false;
    if (soft_send_answered(send))
        req->read_end[req->reads++] = req->next + count;
    if (req->next < req->high)
        count_again(qp);
    req->next += count;
    if (req->high < req->next)
        req->high = req->next;
    if (req->next == send->psn + send->packets)
        req->index++;
    return qp->reliable || sent_for_good(qp, send);
}

/* The packets behind it have probably arrived or are on their way, so only the oldest is sent. The responses of a READ
 * or atomic arrive in sequence, so missing ones are requested as after a loss. */
void soft_requester_probe(struct soft_qp *qp)
{
    struct soft_requester *req = &qp->req;
    struct soft_send *send = soft_ring_at(&req->ring, req->ring.tail);
    uint64_t expiry = req->expiry;

    qp->context->counters.probes++;
    soft_recovery_probe(&req->recovery, req->una, req->high, soft_now(qp->context));
    if (soft_send_answered(send)) {
        req->gap = NEVER_NS;
        soft_requester_back(qp);
        req->expiry = expiry;
        return;
    }
    if ((qp->transport == SOFT_XRC ? put_data_extended : put_data)(qp, send, req->una))
        count_again(qp);
}

/* Packets are about to be sent: start the timer. */
static void wait_for_answer(struct soft_qp *qp)
{
    bool waits = qp->deadline != NEVER_NS;

    if (soft_is_lossless(qp)) {
        if (!waits)
            soft_timer_start_later(qp);
    } else if (!waits || soft_recovery_waits(&qp->req.recovery)) {
        soft_timer_start(qp);
    }
}

bool soft_requester_go(struct soft_qp *qp)
{
    struct soft_requester *req = &qp->req;
    uint64_t limit = req->next + qp->turn;
    bool sent = false, ready = soft_requester_ready(qp);

    for (unsigned packets = 0; packets < SOFT_BURST_PACKETS && ready && req->next < limit; packets++) {
        bool put = put_next(qp);

        ready = soft_requester_ready(qp);
        if (!put)
            break;
        sent = true;
    }
    if (sent && qp->attr.timeout != 0)
        wait_for_answer(qp);
    if (soft_state(qp) == IBV_QPS_SQD)
        soft_requester_drain(qp);
    return ready;
}
