/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx.c - the sending side: posts work requests for operations, into advertised buffers or the peer's ring buffer.
 *
 * Sends are posted in order. If one can't continue, because there is no credit, no room or no advertisement,
 * xs_tx_run() returns. It is called again after the next completion or control message.
 */
#include <errno.h>
#include "core/base/clock.h"
#include "core/file/file.h"
#include "core/memory/memory.h"
#include "core/queue/nic.h"
#include "core/queue/socket.h"
#include "conn.h"
#include "ending.h"
#include "message.h"

/* bytes in flight that keep the peer busy until it has advertised more */
#define FILLED_MIN 65536
/* maximum time that a long send waits for an advertisement */
#define ADVERT_NS (20 * UINT64_C(1000000))
/* maximum of peer_adverts.skip */
#define BACKOFF_MAX 1023

/* ---- Advertisements --------------------------------------------------------------------------- */

/* The peer advertised a receive: adjust peer_adverts.skip, the number of advertisements that must arrive before a
 * send waits for one. A receive that is shorter than the ring buffer is not worth a wait: filling the ring
 * ahead of the receives is faster than a round trip per receive. */
static void trust_more(struct conn *conn, uint64_t length)
{
    if (conn->peer_adverts.wait_until != 0)
        conn->peer_adverts.backoff /= 2;
    conn->peer_adverts.wait_until = 0;
    if (length < conn->peer_ring.size)
        conn->peer_adverts.skip += conn->peer_adverts.skip == 0;
    else if (conn->peer_adverts.skip > 0)
        conn->peer_adverts.skip--;
}

void xs_tx_advert(struct conn *conn, const struct control *control)
{
    bool usable = !sock_is_stream(conn->sock) ||
                  (control->phase == conn->tx.phase && conn->tx.phase % 2 == 0) ||
                  ((int32_t)(control->phase - conn->tx.phase) > 0 && control->position == conn->tx.position);

    trust_more(conn, control->length);
    if (!usable) {
        conn->adverts.stale++;
        return;
    }
    conn->tx.phase = control->phase;
    conn->peer_adverts.list[(conn->peer_adverts.head + conn->peer_adverts.count++) % ADVERTS_MAX] =
        (struct advert){
            .addr = control->addr,
            .left = control->length,
            .rkey = control->rkey,
            .waitall = (control->flags & CONTROL_WAITALL) != 0,
        };
}

static inline void drop_advert(struct conn *conn)
{
    conn->peer_adverts.head = (conn->peer_adverts.head + 1) % ADVERTS_MAX;
    conn->peer_adverts.count--;
}

void xs_tx_recall(struct conn *conn)
{
    conn->peer_adverts.count = conn->peer_adverts.begun ? 1 : 0;
    conn->peer_adverts.list[conn->peer_adverts.head].waitall = false;
}

/* At least FILLED_MIN bytes are in flight to advertised buffers. */
static __attribute__((noinline)) bool is_filled(const struct conn *conn)
{
    uint64_t bytes = 0;

    if (conn->tx.phase % 2 != 0)
        return false;
    for (uint32_t entry = conn->sq.head; entry != conn->sq.tail && bytes < FILLED_MIN; entry++)
        bytes += conn->sq.posted[entry % SQ_DEPTH].told;
    return bytes >= FILLED_MIN;
}

/* A send whose rest is longer than the peer's ring buffer cannot complete before the peer posts a receive, so
 * it waits up to ADVERT_NS for an advertisement. Its bytes then go straight into the receive buffer; through
 * the ring, each receive would complete with the few bytes that had been copied by then, and the ring would be
 * full again before the next receive is advertised. But the peer may itself wait for data before it receives.
 * Therefore each wait that times out doubles peer_adverts.backoff, the number of advertisements that must arrive before
 * a send waits again. A send does not wait if the queue has no timer that would end the wait. */
static __attribute__((noinline)) bool awaits_advert(struct conn *conn, const struct op *op)
{
    struct queue *home = atomic_load(&conn->sock->home);
    uint64_t now;

    if (op->length - op->posted <= conn->peer_ring.size || op->deadline != 0 || conn->peer_adverts.skip > 0)
        return false;
    now = now_ns();
    if (conn->peer_adverts.wait_until == 0 || conn->peer_adverts.waiter != op->out.number) {
        conn->peer_adverts.waiter = op->out.number;
        conn->peer_adverts.wait_until = ns_after(now, ADVERT_NS);
        xs_sock_wake_by(conn->sock, conn->peer_adverts.wait_until);
    }
    if (now < conn->peer_adverts.wait_until && xs_queue_keeps_time(home))
        return true;
    conn->peer_adverts.wait_until = 0;
    conn->peer_adverts.backoff =
        conn->peer_adverts.backoff < BACKOFF_MAX ? 2 * conn->peer_adverts.backoff + 1 : BACKOFF_MAX;
    conn->peer_adverts.skip = conn->peer_adverts.backoff;
    return false;
}

void xs_tx_look(struct conn *conn)
{
    if (conn->peer_adverts.wait_until > now_ns())
        xs_sock_wake_by(conn->sock, conn->peer_adverts.wait_until);
    else if (conn->peer_adverts.wait_until != 0)
        xs_conn_run_sends(conn);
}

/* As a rule the peer completes receives and advertises others before all bytes in flight have arrived. A send
 * into the ring now would cost a copy and make the new advertisements stale. But the peer may also wait for
 * more data before it receives, so a send waits only until the device has acknowledged nearly all bytes. */
static bool waits_for_advert(struct conn *conn, const struct op *op)
{
    return op->length >= DIRECT_MIN && !conn->tx.nonblocking && !path_is_long(conn) &&
           (is_filled(conn) || awaits_advert(conn, op));
}

static bool find_target(struct conn *conn, const struct op *op, struct target *target)
{
    uint64_t used = conn->tx.ring_sent - conn->tx.ring_acked;
    uint64_t offset = conn->tx.ring_sent % conn->peer_ring.size;

    if (conn->peer_adverts.count > 0) {
        struct advert *advert = &conn->peer_adverts.list[conn->peer_adverts.head];

        *target = (struct target){.addr = advert->addr,
                                  .room = advert->left,
                                  .rkey = advert->rkey,
                                  .imm = IMM_DIRECT,
                                  .advert = advert};
        return true;
    }
    if (!sock_is_stream(conn->sock) || used == conn->peer_ring.size || waits_for_advert(conn, op))
        return false;
    *target = (struct target){
        .addr = conn->peer_ring.addr + offset,
        .room = conn->peer_ring.size - (used > offset ? used : offset), /* without a wrap */
        .rkey = conn->peer_ring.rkey,
        .imm = conn->peer_ring.is_new ? IMM_NEW_RING : 0,
    };
    return true;
}

/* `bytes` were written into the target: advance the positions, and drop an advertisement that is used up. */
static void advance_target(struct conn *conn, struct target *target, uint32_t bytes)
{
    conn->tx.position += bytes;
    if (target->advert == NULL) {
        conn->tx.ring_sent += bytes;
        conn->peer_ring.is_new = false;
        conn->tx.phase |= 1;
        return;
    }
    target->advert->addr += bytes;
    target->advert->left -= bytes;
    conn->peer_adverts.begun = (target->imm & IMM_MORE) != 0;
    if (conn->peer_adverts.begun)
        return;
    if (!sock_is_stream(conn->sock) || !target->advert->waitall || target->advert->left == 0)
        drop_advert(conn);
}

/* ---- Operations --------------------------------------------------------------------------------- */

/* Like next_span(), for a send from files. A separate function, so that the compiler can keep the span of a
 * send from memory in registers. */
static inline int next_span_of_files(struct conn *conn, struct op *op, struct span *span)
{
    struct span found = {0};
    int there = xs_files_span(op->out.files, &conn->domain, &found.addr, &found.length, &found.lkey,
                              &found.window, &op->error);

    *span = found;
    return there;
}

int xs_tx_span(struct conn *conn, struct op *op, struct span *span)
{
    if (op->out.files != NULL)
        return next_span_of_files(conn, op, span);
    int copied = op->out.deferred ? xs_deferred_copy(conn, op) : 1;

    if (copied != 1)
        return copied;
    uint32_t lkey;
    const uint8_t *base = op_memory(op, &lkey);

    *span =
        (struct span){.addr = (uintptr_t)base + op->posted, .length = op->length - op->posted, .lkey = lkey};
    return 1;
}

void xs_tx_all_posted(struct conn *conn, struct op *op)
{
    op->out.all_posted = true;
    conn->tx.current = STAILQ_NEXT(op, link);
}

static uint32_t min_of_four(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t least = a < b ? a : b;

    least = c < least ? c : least;
    return (uint32_t)(d < least ? d : least);
}

/* Post one message. False: the operation can't continue now. */
static bool post_data(struct conn *conn, struct op *op)
{
    struct message message;
    struct target *target = &message.target;
    struct span *span = &message.span;
    uint64_t most;

    if (!xs_message_room(conn, &most) || !find_target(conn, op, target)) {
        if (conn->path.is_measured)
            xs_path_blocked(conn);
        return false;
    }
    if (op->length > 0) {
        int there = xs_tx_span(conn, op, span);

        if (there == 0)
            return false;
        if (there < 0) {
            xs_send_fail(conn, op, op->error);
            xs_tx_end(conn);
            return true;
        }
    } else {
        *span = (struct span){0};
    }
    uint32_t bytes = min_of_four(span->length, target->room, DATA_MAX, most);
    bool fills = bytes == target->room, ends = op->posted + bytes == op->length;
    bool is_cut = !sock_is_stream(conn->sock) && fills && !ends;

    if (target->advert != NULL && !fills && !ends)
        target->imm |= IMM_MORE;
    if (is_cut)
        target->imm |= IMM_TRUNC;
    message.op = op;
    message.bytes = bytes;
    message.posted = 0;
    message.followers = 0;
    bool is_posted =
        batch_may_follow(conn, op, bytes) ? xs_batch_post(conn, &message) : xs_message_post(conn, &message);

    if (!is_posted)
        return false;
    op->posted += bytes;
    if (sock_sent(conn->sock) != SENT_WHOLE)
        xs_send_follows(conn, op);
    if (span->window != NULL) /* NULL for an empty file */
        xs_window_posted(span->window, bytes);
    advance_target(conn, target, message.bytes);
    if (ends || is_cut)
        xs_tx_all_posted(conn, op);
    if (conn->path.is_due)
        xs_path_start_trip(conn);
    if (message.followers > 0)
        xs_batch_posted(conn, &message);
    return true;
}

void xs_tx_end(struct conn *conn)
{
    struct advert *advert = &conn->peer_adverts.list[conn->peer_adverts.head];
    uint64_t most;

    conn->tx.due &= (uint8_t)~DUE_END;
    if (!conn->peer_adverts.begun || !sock_is_stream(conn->sock) || conn->state.writing >= WRITE_FIN_SENT ||
        (conn->peer.flags & HELLO_EMPTY_END) == 0)
        return;
    if (conn->tx.current != NULL || conn->state.stage != CONN_OPEN || !xs_message_room(conn, &most) ||
        !xs_message_end(conn, advert)) {
        conn->tx.due |= DUE_END;
        return;
    }
    conn->peer_adverts.begun = false;
    if (!advert->waitall)
        drop_advert(conn);
}

inline void xs_tx_release(struct conn *conn, struct op *op)
{
    if (op->out.files != NULL)
        xs_files_free(op->out.files, &conn->domain);
    if (op->one_off != NULL)
        conn->device->dereg_mr(op->one_off);
    if (op->out.bounce != NULL)
        xs_bounce_put(&conn->domain, op->out.bounce);
    if (op->memory != NULL)
        xs_memory_unuse(op->memory);
    xs_deferred_end(op);
}

inline void xs_tx_finish(struct conn *conn, struct op *op, int error)
{
    uint64_t bytes = error == 0 ? op->length : op->out.acked;

    STAILQ_REMOVE_HEAD(&conn->tx.sends, link);
    xs_op_moved(op, bytes);
    xs_tx_release(conn, op);
    xs_op_complete(op, error);
}

static inline bool first_is_done(const struct conn *conn)
{
    const struct op *op = STAILQ_FIRST(&conn->tx.sends);

    return op != NULL && op->out.requests == 0 && op->out.all_posted && !op->out.failed;
}

/* The first send is done: complete it and the sends behind it that are done, too. */
static void finish_done(struct conn *conn)
{
    do {
        struct op *op = STAILQ_FIRST(&conn->tx.sends);

        if (op->event.exs_evt_type == EXS_EVT_SHUTDOWN && conn->state.writing < WRITE_FIN_ACKED &&
            op->error == 0)
            break;
        xs_tx_finish(conn, op, op->error);
    } while (first_is_done(conn));
}

void xs_tx_finish_done(struct conn *conn)
{
    if (first_is_done(conn))
        finish_done(conn);
}

static __attribute__((noinline)) void window_completed(struct conn *conn, const struct posted *posted)
{
    struct op *op = posted->op;

    if (xs_window_acked(op->out.files, posted->window, posted->bytes, &conn->domain) < 0 && op->error == 0)
        xs_send_fail(conn, op, EIO);
}

inline void xs_tx_completed(struct conn *conn, const struct posted *posted)
{
    struct op *op = posted->op;

    op->out.requests--;
    op->out.acked += posted->told;
    if (posted->followers > 0)
        op->out.acked -= xs_batch_completed(posted);
    if (posted->window != NULL)
        window_completed(conn, posted);
}

/* Post the next message of the first send that is not all posted. False: it can't continue now, or it must not overtake
 * a one-sided operation that was started earlier. */
static bool post_next(struct conn *conn)
{
    struct op *op = conn->tx.current;

    if (op == NULL || (conn->onesided.current != NULL && conn->onesided.current->out.number < op->out.number))
        return false;
    if (op->event.exs_evt_type != EXS_EVT_SHUTDOWN && (op->length > 0 || !sock_is_stream(conn->sock)))
        return post_data(conn, op);
    xs_tx_all_posted(conn, op);
    return true;
}

static void post_all(struct conn *conn)
{
    while (conn->state.stage == CONN_OPEN && (post_next(conn) || xs_onesided_post(conn)))
        ;
}

inline void xs_tx_run(struct conn *conn)
{
    if (conn->path.times_trip || conn->path.times_ring)
        xs_path_progress(conn);
    if (conn->tx.current != NULL || conn->onesided.current != NULL)
        post_all(conn);
    if (first_is_done(conn))
        finish_done(conn);
    if (!STAILQ_EMPTY(&conn->onesided.ops))
        xs_onesided_finish(conn, 0);
}
