/* SPDX-License-Identifier: BSD-2-Clause */
/* work.c - a connection at work: posts work requests, processes completions, and decides what is done next. */
#include <endian.h>
#include <errno.h>
#include "core/base/address.h"
#include "core/base/log.h"
#include "core/memory/memory.h"
#include "core/queue/nic.h"
#include "core/queue/socket.h"
#include "core/queue/wait.h"
#include "conn.h"
#include "upcalls.h"

/* ---- Work requests and completions ---------------------------------------------------------- */

/* Inline data is copied by the device's library in the calling thread. A fault there would kill the process, so
 * inline data comes only from the library's own memory, or from registered memory that can't become
 * inaccessible (nofault.h). */
inline __attribute__((always_inline)) bool xs_conn_may_inline(const struct conn *conn, const struct op *op,
                                                              uint32_t bytes)
{
    return bytes <= conn->limits.max_inline &&
           (op == NULL || bytes == 0 || op->out.bounce != NULL || (op->memory != NULL && !op->memory->nofault));
}

/* Tells the device whether this thread will poll again after it has posted (struct poll_state). */
static inline void report_polling(const struct conn *conn)
{
    atomic_store_explicit(&conn->nic->poll->polls_again, xs_loop_handles(conn->nic->queue),
                          memory_order_relaxed);
}

/* A post may have changed whether the device waits for a flush. */
static inline void posted_more(struct conn *conn)
{
    if (xs_nic_waits(conn->nic) != atomic_load_explicit(&conn->nic->queue->waits, memory_order_relaxed))
        xs_queue_note_waits(conn->nic->queue);
}

/* Selective signaling: control messages, silent sends and all but the last request of a message are posted
 * unsignaled; the completion of a later request implies theirs. At least every (depth / 4)th request is
 * signaled, so that send-queue entries are reclaimed. After FIN every request is signaled, because close waits
 * for all of them. */
static inline bool is_unsignaled(const struct conn *conn, const struct posted *posted)
{
    bool may_be = posted->kind == POSTED_PART ? posted->window == NULL
                                              : posted->kind == POSTED_CONTROL || posted->kind == POSTED_SILENT;

    return may_be && conn->state.writing < WRITE_FIN_SENT &&
           conn->sq.tail - conn->sq.signaled < conn->limits.depth / 4;
}

/* Put the request into the next entry of `posted`; from then on it belongs to the device. */
static inline __attribute__((always_inline)) void enqueue_wr(struct conn *conn, struct ibv_send_wr *wr,
                                                             const struct posted *posted)
{
    uint32_t entry = conn->sq.tail++ % SQ_DEPTH;

    conn->sq.posted[entry] = *posted;
    if (posted->op != NULL)
        posted->op->out.requests++;
    if (posted->followers > 0)
        xs_batch_count(posted, 1);
    wr->wr_id = (uintptr_t)conn->handle | (uint64_t)entry << ENTRY_SHIFT;
    if (!is_unsignaled(conn, posted)) {
        wr->send_flags |= IBV_SEND_SIGNALED;
        conn->sq.posted[entry].signaled = true;
        conn->sq.signaled = conn->sq.tail;
    }
    if (wr->num_sge == 1 && wr->opcode != IBV_WR_RDMA_READ &&
        xs_conn_may_inline(conn, posted->op, wr->sg_list->length))
        wr->send_flags |= IBV_SEND_INLINE;
}

/* The device refused the last `count` requests: remove them from `posted` and break the connection. */
static __attribute__((cold)) bool take_back(struct conn *conn, long count)
{
    for (; count > 0; count--) {
        const struct posted *posted = &conn->sq.posted[--conn->sq.tail % SQ_DEPTH];

        if (posted->op != NULL)
            posted->op->out.requests--;
        xs_batch_count(posted, -1);
    }
    conn->sq.signaled = conn->sq.tail;
    while (conn->sq.signaled != conn->sq.head && !conn->sq.posted[(conn->sq.signaled - 1) % SQ_DEPTH].signaled)
        conn->sq.signaled--;
    xs_conn_fail(conn, ECONNRESET);
    return false;
}

inline __attribute__((always_inline)) bool xs_conn_post(struct conn *conn, struct ibv_send_wr *wr,
                                                        const struct posted *posted)
{
    struct ibv_send_wr *bad;

    enqueue_wr(conn, wr, posted);
    report_polling(conn);
    if (ibv_post_send(conn->qp, wr, &bad) != 0)
        return take_back(conn, 1);
    posted_more(conn);
    return true;
}

bool xs_conn_post_list(struct conn *conn, struct ibv_send_wr *wr, const struct posted *posted, int count)
{
    struct ibv_send_wr *bad;

    for (int i = 0; i < count; i++) {
        wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
        enqueue_wr(conn, &wr[i], &posted[i]);
    }
    report_polling(conn);
    if (ibv_post_send(conn->qp, wr, &bad) != 0)
        return take_back(conn, count - (bad - wr)); /* the requests before `bad` were posted */
    posted_more(conn);
    return true;
}

static int status_errno(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return ETIMEDOUT;
    default:
        return ECONNRESET;
    }
}

static void report_failure(const struct conn *conn, const struct ibv_wc *wc)
{
    char peer[ADDRESS_TEXT];

    xs_address_text(&conn->id->route.addr.dst_addr, peer);
    if (wc->status == IBV_WC_RETRY_EXC_ERR)
        xs_log(
            "connection %d: %s has not acknowledged data on device %s, sent %d times with a timeout of %.2f s: "
            "is the host there, and the network between?",
            conn->sock->number, peer, conn->nic->context->device->name, RETRY_COUNT + 1,
            4.096e-6 * (1 << ACK_TIMEOUT));
    else
        xs_log("connection %d to %s by device %s: %s", conn->sock->number, peer,
               conn->nic->context->device->name, conn->device->wc_status_str(wc->status));
}

/* Has the peer received the message of this work request, or a later message? This is known from the credits, because
 * the peer returns all credits with the end of its stream. A peer that closes in order need therefore not stay until
 * its last acknowledgement is delivered. A WRITE arrives before any message behind it; a READ completes only by its
 * response. */
static bool has_arrived(const struct conn *conn, uint32_t entry)
{
    const struct posted *posted = &conn->sq.posted[entry % SQ_DEPTH];
    /* Number of messages: that of this request (or the one that follows a part), and all later ones. */
    uint32_t messages = 0;

    if (posted->kind == POSTED_PROBE || (posted->kind == POSTED_ONESIDED && xs_onesided_is_read(posted->op)))
        return false;
    for (; entry != conn->sq.tail; entry++)
        messages += conn->sq.posted[entry % SQ_DEPTH].kind < POSTED_PART;
    return messages > conn->peer.credits - conn->credits.available;
}

static void wr_failed(struct conn *conn, const struct posted *posted, const struct ibv_wc *wc)
{
    if (posted->op != NULL && posted->op->error == 0 && wc->status == IBV_WC_LOC_PROT_ERR)
        posted->op->error = posted->op->out.files != NULL ? EIO : EFAULT;
    if (wc->status != IBV_WC_WR_FLUSH_ERR)
        report_failure(conn, wc);
    if (posted->kind == POSTED_SILENT) {
        xs_sent_is_lost(conn);
    } else if (posted->kind == POSTED_DATA || posted->kind == POSTED_PART) {
        xs_batch_failed(posted);
    } else if (posted->kind == POSTED_ONESIDED) {
        xs_onesided_completed(conn, posted, wc->status);
    }
}

/* A work request did not succeed. True: the peer has received it nevertheless. */
static bool made_good(struct conn *conn, uint32_t entry, const struct ibv_wc *wc)
{
    bool arrived = has_arrived(conn, entry);

    xs_conn_fail(conn, status_errno(wc->status));
    if (!arrived)
        wr_failed(conn, &conn->sq.posted[entry % SQ_DEPTH], wc);
    return arrived;
}

static inline void wr_succeeded(struct conn *conn, const struct posted *posted)
{
    if (posted->kind == POSTED_DATA || posted->kind == POSTED_PART)
        xs_tx_completed(conn, posted);
    else if (posted->kind == POSTED_ONESIDED)
        xs_onesided_completed(conn, posted, IBV_WC_SUCCESS);
    else if (posted->kind == POSTED_FIN && conn->state.writing < WRITE_FIN_ACKED)
        conn->state.writing = WRITE_FIN_ACKED;
}

/* A work request did not succeed, but the peer may have received it nevertheless. */
static __attribute__((cold)) void send_failed(struct conn *conn, uint32_t entry, const struct ibv_wc *wc)
{
    if (made_good(conn, entry, wc))
        wr_succeeded(conn, &conn->sq.posted[entry % SQ_DEPTH]);
}

/* The device completed a work request that was not posted, or flushed one after the connection was drained. */
static __attribute__((cold)) void posted_by_nobody(struct conn *conn)
{
    if (conn->state.stage == CONN_DRAINED)
        return;
    xs_log("connection %d: device %s completed an unknown work request; closing it", conn->sock->number,
           conn->nic->context->device->name);
    xs_conn_fail(conn, ECONNRESET);
}

/* The unsignaled requests before a completion: they have succeeded, too. */
static __attribute__((noinline)) void take_unsignaled(struct conn *conn, uint32_t count)
{
    while (count-- > 0)
        wr_succeeded(conn, &conn->sq.posted[conn->sq.head++ % SQ_DEPTH]);
}

/* Nothing is posted in this function, so the entries of `posted` stay valid. */
static void send_completion(struct conn *conn, const struct ibv_wc *wc)
{
    uint32_t skipped = ((uint32_t)(wc->wr_id >> ENTRY_SHIFT) - conn->sq.head) % SQ_DEPTH;

    if (skipped >= conn->sq.tail - conn->sq.head) {
        posted_by_nobody(conn);
        return;
    }
    if (skipped > 0)
        take_unsignaled(conn, skipped);
    if (wc->status == IBV_WC_SUCCESS)
        wr_succeeded(conn, &conn->sq.posted[conn->sq.head++ % SQ_DEPTH]);
    else
        send_failed(conn, conn->sq.head++, wc);
}

/* Process the immediate value of data that arrived: credits, if it has any, then the data. */
static void process_imm(struct conn *conn, uint32_t imm)
{
    if (imm & IMM_CREDITS) {
        if (!xs_credits_received(conn, (imm & IMM_CREDITS_MASK) >> IMM_CREDITS_SHIFT))
            return;
        imm &= ~(IMM_CREDITS | IMM_CREDITS_MASK);
    }
    xs_rx_data(conn, imm);
}

/* Post the consumed receives again: few at a time, so that the peer does not run out of credits. */
void xs_conn_post_anew(struct conn *conn)
{
    if (!xs_conn_post_receives(conn, conn->rq.next_slot - conn->rq.consumed, conn->rq.consumed)) {
        xs_conn_fail(conn, ECONNRESET);
        return;
    }
    conn->credits.unreturned += conn->rq.consumed;
    conn->rq.consumed = 0;
}

static inline __attribute__((always_inline)) void receive_completion(struct conn *conn, const struct ibv_wc *wc)
{
    uint32_t slot = conn->rq.next_slot++ % conn->limits.depth;

    conn->rq.posted--;
    if (wc->status != IBV_WC_SUCCESS) {
        if (wc->status != IBV_WC_WR_FLUSH_ERR)
            report_failure(conn, wc);
        xs_conn_fail(conn, status_errno(wc->status));
        return;
    }
    if (conn->credits.unreturned + conn->rq.consumed == conn->limits.depth)
        xs_violation(conn, "more messages than it had credits for");
    else if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        process_imm(conn, be32toh(wc->imm_data));
    else if (wc->wc_flags & IBV_WC_WITH_IMM)
        xs_violation(conn, "a control message with immediate data");
    else
        xs_control_received(conn, conn->memory.start + (size_t)slot * SLOT_SIZE, wc->byte_len);
    if (!conn_broken(conn) && ++conn->rq.consumed == conn->limits.depth / RECEIVES_AT_ONCE)
        xs_conn_post_anew(conn);
}

inline void xs_conn_completion(struct conn *conn, const struct ibv_wc *wc)
{
    if (wc->wr_id & RECEIVE_BIT)
        receive_completion(conn, wc);
    else
        send_completion(conn, wc);
}

static const struct ibv_wc flushed = {.status = IBV_WC_WR_FLUSH_ERR};

void xs_conn_end_sends(struct conn *conn)
{
    while (conn->sq.head != conn->sq.tail)
        send_failed(conn, conn->sq.head++, &flushed);
}

void xs_conn_flush(struct conn *conn)
{
    xs_conn_fail(conn, ECONNRESET);
    xs_conn_end_sends(conn);
    while (conn->rq.posted > 0)
        receive_completion(conn, &flushed);
}

inline __attribute__((always_inline)) void xs_conn_run_sends(struct conn *conn)
{
    xs_tx_run(conn);
    if (conn->state.writing == WRITE_SHUT)
        xs_control_run(conn); /* post FIN behind the data just sent */
    xs_conn_drain(conn);
}

void xs_conn_run_recvs(struct conn *conn)
{
    xs_rx_run(conn);
    xs_control_run(conn); /* acknowledge the bytes copied out of the ring buffer */
    xs_conn_drain(conn);
}

static void advance_socket(struct sock *sock)
{
    if (sock->state == SOCK_CLOSING)
        xs_close_step(sock);
    else
        xs_poll_look(sock);
}

inline void xs_conn_run(struct conn *conn)
{
    xs_rx_run(conn);
    if (conn->state.stage == CONN_OPEN) {
        xs_control_run(conn);
        xs_tx_run(conn);
        if (conn->state.writing == WRITE_SHUT)
            xs_control_run(conn); /* post FIN behind the data just sent */
    } else {
        xs_conn_hear(conn);
    }
    xs_conn_drain(conn);
    if (conn->sock->is_followed)
        advance_socket(conn->sock);
}
