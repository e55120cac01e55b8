/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * responder.c - the receiving half of a queue pair: checks requests and executes them, in order and once.
 *
 * Each packet is checked against the access rights of the queue pair and the region when it arrives, because a region
 * may be deregistered within a message. Payload is copied once, from the packet to its destination. nak.c handles
 * requests that cannot be executed.
 *
 * Only a packet whose PSN is near the expected one is answered. InfiniBand's specification answers a duplicate from up
 * to half of all PSNs back with an ACK, and any later PSN with a NAK. On a shared host an attacker that can see how
 * many datagrams are sent would learn from that when it has guessed a queue pair number. The peer's window bounds how
 * far a duplicate or an early packet can be away, so all others get no answer. A repeated READ or atomic is answered at
 * any distance, because it must match a remembered one in key and address.
 */
#include <arpa/inet.h>
#include "core/base/copy.h"
#include "core/base/nofault.h"
#include "engine.h"
#include "mw.h"

static void refuse_invalid(struct soft_qp *qp)
{
    soft_refuse(qp, SOFT_SYNDROME_INVALID, IBV_WC_REM_INV_REQ_ERR);
}

/* The local memory has vanished or was deregistered. */
static void refuse_vanished(struct soft_qp *qp)
{
    soft_refuse(qp, SOFT_SYNDROME_OPERATION, IBV_WC_LOC_PROT_ERR);
}

/* ---- Checks of the next packet ---- */

/* The next packet of a message must be of the same kind; all but the last have full length. */
static bool in_sequence(const struct soft_qp *qp, const struct soft_packet *packet)
{
    unsigned message = qp->resp.message;
    bool first = packet->op & SOFT_OP_FIRST, last = packet->op & SOFT_OP_LAST;

    if (packet->op & SOFT_OP_UNKNOWN || (first ? message != 0 : !(packet->op & message)))
        return false;
    if (packet->op & (SOFT_OP_READ | SOFT_OP_ATOMIC))
        return packet->length == 0;
    if (!last)
        return packet->length == qp->mtu;
    return packet->length <= qp->mtu && (first || packet->length > 0);
}

static bool has_access(const struct soft_qp *qp, unsigned access)
{
    return qp->attr.qp_access_flags & access;
}

/* Finds the receive for the first packet of a SEND, or for a WRITE's immediate data; a WRITE uses it when it is
 * complete. For other packets *recv is unchanged. False: none is posted, and the sender gets an RNR NAK. */
static bool take_receive(struct soft_qp *qp, const struct soft_packet *packet, struct soft_recv **recv)
{
    bool send = packet->op & SOFT_OP_SEND;

    if (!(packet->op & (send ? SOFT_OP_FIRST : SOFT_OP_IMM)))
        return true;
    if ((*recv = soft_receive_next(qp)) == NULL) {
        soft_not_ready(qp);
        return false;
    }
    qp->resp.receiving = send;
    return true;
}

/* ---- Execution ---- */

static bool scatter_payload(struct soft_qp *qp, const struct soft_packet *packet)
{
    struct soft_recv *recv = soft_receive_next(qp);
    struct iovec slice[SOFT_MAX_SGE];
    struct ibv_pd *pd = soft_receive_pd(qp);
    uint64_t end = qp->resp.offset + packet->length;
    const struct soft_mr *nofault = NULL;
    int pieces;

    if (packet->length == 0)
        return true;
    if (end > soft_sge_length(recv->sge, recv->sges) || end > SOFT_MAX_MESSAGE) {
        soft_refuse(qp, SOFT_SYNDROME_INVALID, IBV_WC_LOC_LEN_ERR);
        return false;
    }
    pieces = soft_sge_slice(qp->context, pd, recv->sge, recv->sges, qp->resp.offset, packet->length,
                            IBV_ACCESS_LOCAL_WRITE, slice, &nofault);
    if (pieces < 0 || !soft_place_payload(packet, slice, pieces, nofault != NULL)) {
        refuse_vanished(qp);
        return false;
    }
    return packet->target == NULL;
}

/* The last packet may name a key, which is invalidated before the receive completes. */
static bool send_payload(struct soft_qp *qp, const struct soft_packet *packet)
{
    if (!scatter_payload(qp, packet))
        return false;
    if (!(packet->op & SOFT_OP_IETH) || soft_mw_invalidate(qp, ntohl(packet->imm)))
        return true;
    soft_refuse(qp, SOFT_SYNDROME_ACCESS, IBV_WC_REM_INV_REQ_ERR);
    return false;
}

/* Writes the payload of a WRITE to the region. False: the memory has vanished. */
static inline bool write_region(const struct soft_mr *mr, uint64_t va, const struct soft_packet *packet)
{
    struct iovec to = {soft_mr_at(mr, va), packet->length};

    if (mr->nofault || packet->target != NULL || packet->where != SOFT_PAYLOAD_HERE)
        return soft_place_payload(packet, &to, 1, mr->nofault);
    copy_near(soft_mr_at(mr, va), packet->payload, packet->length);
    return true;
}

/* Stores the RETH of a WRITE's first packet. */
static bool write_begin(struct soft_qp *qp, const struct soft_packet *packet)
{
    struct soft_responder *resp = &qp->resp;

    resp->va = packet->va;
    resp->rkey = packet->rkey;
    resp->length = packet->dma_length;
    if (!has_access(qp, IBV_ACCESS_REMOTE_WRITE) || resp->length > SOFT_MAX_MESSAGE) {
        refuse_invalid(qp);
        return false;
    }
    return true;
}

/* No region or window may be written under this key. The receive of a WRITE with immediate data reports that; otherwise
 * an asynchronous event does, because only the last packet has immediate data. */
static void refuse_write(struct soft_qp *qp, const struct soft_packet *packet)
{
    bool imm = packet->op & SOFT_OP_IMM;

    qp->resp.receiving = imm;
    soft_refuse(qp, SOFT_SYNDROME_ACCESS, imm ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_REM_ACCESS_ERR);
}

static bool write_payload(struct soft_qp *qp, const struct soft_packet *packet)
{
    struct soft_responder *resp = &qp->resp;
    uint64_t end = resp->offset + packet->length;
    struct soft_mr *mr;

    if (packet->op & SOFT_OP_FIRST && !write_begin(qp, packet))
        return false;
    if (end > resp->length || (packet->op & SOFT_OP_LAST && end != resp->length)) {
        refuse_invalid(qp);
        return false;
    }
    /* The specification checks no key of a WRITE of no bytes. EXS always sends a valid one and asks for the
     * check; otherwise an attacker could inject immediate data without a key. */
    if (resp->length == 0 && !qp->checks_every_key)
        return true;
    /* Each packet checks the range of the whole message: nothing is written of a message that does not fit. */
    mr = soft_mr_check(qp->context, qp->ibv.qp_base.pd, resp->rkey, resp->va, resp->length,
                       IBV_ACCESS_REMOTE_WRITE);
    if (mr == NULL)
        mr = soft_mw_check(qp, resp->rkey, resp->va, resp->length, IBV_ACCESS_REMOTE_WRITE);
    if (mr == NULL) {
        refuse_write(qp, packet);
        return false;
    }
    if (!write_region(mr, resp->va + resp->offset, packet)) {
        refuse_vanished(qp);
        return false;
    }
    return packet->target == NULL;
}

/* Fills in the completion's immediate data, or the key that was invalidated. */
static inline void set_wc_imm(struct ibv_wc *wc, const struct soft_packet *packet)
{
    wc->wc_flags = packet->op & SOFT_OP_IMM ? IBV_WC_WITH_IMM : IBV_WC_WITH_INV;
    if (packet->op & SOFT_OP_IMM)
        wc->imm_data = packet->imm;
    else
        wc->invalidated_rkey = ntohl(packet->imm);
}

/* The message of `bytes` bytes is complete. recv: the receive that it uses, or NULL if an earlier packet took it. */
static void finish_message(struct soft_qp *qp, const struct soft_packet *packet, uint64_t bytes,
                           struct soft_recv *recv)
{
    struct soft_responder *resp = &qp->resp;
    bool send = packet->op & SOFT_OP_SEND;
    struct ibv_wc wc = {
        .status = IBV_WC_SUCCESS,
        .opcode = send ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
        .byte_len = (uint32_t)bytes,
    };

    resp->message = 0;
    resp->offset = 0;
    resp->msn++;
    if (!send && !(packet->op & SOFT_OP_IMM))
        return;
    if (packet->op & (SOFT_OP_IMM | SOFT_OP_IETH))
        set_wc_imm(&wc, packet);
    if (recv == NULL)
        recv = soft_receive_next(qp);
    soft_receive_done(qp);
    soft_complete_recv(qp, recv, &wc, packet->solicited);
}

static void accept_psns(struct soft_qp *qp, uint64_t psns)
{
    struct soft_responder *resp = &qp->resp;

    resp->expected += psns;
    resp->nak_sent = false;
}

static void execute_data(struct soft_qp *qp, const struct soft_packet *packet)
{
    struct soft_responder *resp = &qp->resp;
    struct soft_recv *recv = NULL;

    if (!take_receive(qp, packet, &recv))
        return;
    if (!(packet->op & SOFT_OP_SEND ? send_payload(qp, packet) : write_payload(qp, packet)))
        return;
    accept_psns(qp, 1);
    resp->data = resp->expected;
    resp->data_msn = resp->msn + !!(packet->op & SOFT_OP_LAST);
    if (packet->ack_request && qp->reliable)
        soft_answer_ack(qp);
    if (packet->op & SOFT_OP_LAST) {
        finish_message(qp, packet, resp->offset + packet->length, recv);
        return;
    }
    resp->message = packet->op & (SOFT_OP_SEND | SOFT_OP_WRITE);
    resp->offset += packet->length;
}

static __attribute__((noinline)) void execute_read(struct soft_qp *qp, const struct soft_packet *packet)
{
    if (!has_access(qp, IBV_ACCESS_REMOTE_READ) || packet->dma_length > SOFT_MAX_MESSAGE) {
        refuse_invalid(qp);
        return;
    }
    if (packet->dma_length > 0 &&
        soft_remote_check(qp, packet->rkey, packet->va, packet->dma_length, IBV_ACCESS_REMOTE_READ) == NULL) {
        soft_refuse(qp, SOFT_SYNDROME_ACCESS, IBV_WC_REM_ACCESS_ERR);
        return;
    }
    if (!soft_resource_add(qp, packet)) {
        refuse_invalid(qp);
        return;
    }
    qp->resp.msn++;
    accept_psns(qp, soft_packets(packet->dma_length, qp->mtu));
}

/* True if the 64-bit word exists. The kernel cannot do this access for the device, because no system call is atomic on
 * 64 bits. Between this check and the access a file may still be truncated, but only by a process that shares the file
 * with the application. */
static bool is_there(const struct soft_mr *mr, const uint64_t *word)
{
    uint64_t value;

    if (mr->on_demand && !soft_page_is_writable(word)) /* not checked at registration */
        return false;
    return !mr->nofault || nofault_copy(&value, word, sizeof value);
}

/* The application may use atomics on the same word. */
static uint64_t operate_atomic(uint64_t *word, const struct soft_packet *packet)
{
    uint64_t original = packet->compare;

    if ((packet->opcode & ~SOFT_TRANSPORT) == SOFT_FETCH_ADD)
        return __atomic_fetch_add(word, packet->swap_add, __ATOMIC_SEQ_CST);
    __atomic_compare_exchange_n(word, &original, packet->swap_add, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return original;
}

static __attribute__((noinline)) void execute_atomic(struct soft_qp *qp, const struct soft_packet *packet)
{
    struct soft_responder *resp = &qp->resp;
    struct soft_mr *mr;

    if (!has_access(qp, IBV_ACCESS_REMOTE_ATOMIC) || packet->va & 7) {
        refuse_invalid(qp);
        return;
    }
    mr = soft_remote_check(qp, packet->rkey, packet->va, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (mr == NULL || mr->shift & 7) {
        soft_refuse(qp, SOFT_SYNDROME_ACCESS, IBV_WC_REM_ACCESS_ERR);
        return;
    }
    if (!is_there(mr, soft_mr_at(mr, packet->va))) {
        refuse_vanished(qp);
        return;
    }
    if (!soft_resource_add(qp, packet)) {
        refuse_invalid(qp);
        return;
    }
    resp->resources[resp->newest].original = operate_atomic(soft_mr_at(mr, packet->va), packet);
    resp->msn++;
    accept_psns(qp, 1);
}

static inline void execute_request(struct soft_qp *qp, const struct soft_packet *packet)
{
    if (!in_sequence(qp, packet))
        refuse_invalid(qp);
    else if (packet->op & SOFT_OP_READ)
        execute_read(qp, packet);
    else if (packet->op & SOFT_OP_ATOMIC)
        execute_atomic(qp, packet);
    else
        execute_data(qp, packet);
}

void soft_responder_execute(struct soft_qp *qp, const struct soft_packet *packet)
{
    execute_request(qp, packet);
}

/* ---- Duplicates and early packets ---- */

#define NEAR SOFT_WINDOW_MAX /* maximum outstanding packets of this device's requester */
/* The same for other devices: more bytes than a socket buffer holds, at an MTU of 2048. */
#define NEAR_ADAPTER 16384

/* The specification does not limit the window of an adapter on another host. Such a peer has RoCE's port. */
static bool is_near(const struct soft_qp *qp, uint64_t psn)
{
    const struct soft_path *path = &qp->path;
    uint64_t expected = qp->resp.expected, distance = psn < expected ? expected - psn : psn - expected;
    bool adapter = path->remote.in.sin_port == htons(SOFT_UDP_PORT) && /* at the same place in sockaddr_in6 */
                   !soft_is_by_loopback(&path->local, &path->remote);

    return distance <= (adapter ? NEAR_ADAPTER : NEAR);
}

static __attribute__((noinline)) void repeat_response(struct soft_qp *qp, const struct soft_packet *packet,
                                                      uint64_t psn)
{
    struct soft_resource *resource;

    if (!(packet->op & (SOFT_OP_READ | SOFT_OP_ATOMIC))) {
        if (!is_near(qp, psn)) {
            qp->context->counters.refused++;
            return;
        }
        qp->context->counters.duplicates++;
        soft_answer_ack(qp);
        return;
    }
    qp->context->counters.duplicates++;
    resource = soft_resource_find(qp, psn, packet);
    if (resource != NULL)
        soft_resource_answer(qp, resource, psn,
                             packet->op & SOFT_OP_READ ? soft_packets(packet->dma_length, qp->mtu) : 1);
}

static __attribute__((noinline)) void ahead_of_others(struct soft_qp *qp, uint64_t psn)
{
    struct soft_responder *resp = &qp->resp;

    if (!is_near(qp, psn)) {
        qp->context->counters.refused++;
        return;
    }
    if (resp->missed <= psn)
        resp->missed = psn + 1;
    /* One NAK for each pass of the sender: when its PSNs start again from an earlier one, the retransmission was
     * lost. */
    if (!resp->nak_sent || psn <= resp->ahead)
        soft_answer_nak(qp, psn, SOFT_SYNDROME_SEQUENCE);
    resp->ahead = psn;
}

/* ---- Entry point ---- */

inline void soft_responder_input(struct soft_qp *qp, const struct soft_packet *packet)
{
    struct soft_responder *resp = &qp->resp;
    uint64_t psn = soft_psn_near(resp->expected, packet->psn);

    if (!soft_receives(qp))
        return;
    if (psn < resp->expected) {
        repeat_response(qp, packet, psn);
        return;
    }
    if (psn > resp->expected) {
        ahead_of_others(qp, psn);
        return;
    }
    execute_request(qp, packet);
}
