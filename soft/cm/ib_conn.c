/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_conn.c - the calls of a connection's user, and its timers. */
#include <errno.h>
#include <string.h>
#include "core/base/bytes.h"
#include "ib_conn.h"

#define LIFETIME 18                  /* maximum time that a packet is on the way, as in Linux for RoCE */
#define EARLY_NS UINT64_C(250000000) /* until the first early retransmission; doubled for each further one */
#define EARLY 5                      /* early retransmissions; the last after 4 s, before any interval ends */

/* ---- Sending ---- */

void ib_send(struct ib_world *world, const struct soft_path *to, const struct ib_message *message)
{
    uint8_t mad[IB_MAD_BYTES];

    ib_encode(message, mad);
    world->send(world, to, mad);
}

struct ib_message ib_answer(const struct ib_conn *conn, enum ib_type type)
{
    return (struct ib_message){
        .type = type,
        .transaction = conn->transaction,
        .local_id = conn->local_id,
        .remote_id = conn->remote_id,
    };
}

/* Whether the next retransmission is an early one. Not of a SIDR_REQ: Linux takes it for a new one if it has answered
 * the first. Not if the interval is shorter than the early time. */
static bool is_early(const struct ib_conn *conn)
{
    return (conn->state == IB_REQ_SENT || conn->state == IB_DREQ_SENT) && conn->early < EARLY &&
           EARLY_NS << conn->early < conn->interval;
}

/* Time of the next retransmission. */
static uint64_t next_sending(const struct ib_conn *conn)
{
    return ns_after(conn->said, is_early(conn) ? EARLY_NS << conn->early : conn->interval);
}

void ib_say(struct ib_world *world, struct ib_conn *conn, const struct ib_message *message, enum ib_state state)
{
    conn->state = state;
    conn->tries_left = conn->tries;
    conn->said = world->clock->now(world->clock);
    conn->early = 0;
    conn->due = next_sending(conn);
    ib_encode(message, conn->mad);
    world->send(world, &conn->path, conn->mad);
}

void ib_rest(struct ib_conn *conn, enum ib_state state)
{
    conn->state = state;
    conn->due = NEVER_NS;
}

void ib_wait_out(struct ib_world *world, struct ib_conn *conn)
{
    conn->state = IB_TIMEWAIT;
    conn->due = ns_after(world->clock->now(world->clock), conn->timewait);
}

static bool is_known(const struct ib_world *world, uint32_t id)
{
    const struct ib_conn *conn;

    LIST_FOREACH (conn, &world->conns, all)
        if (conn->local_id == id)
            return true;
    return false;
}

/* Gives the connection a number that is not in use, and was not lately, and adds it to the list. */
void ib_number(struct ib_world *world, struct ib_conn *conn)
{
    do {
        conn->local_id = world->number(world);
    } while (conn->local_id == 0 || is_known(world, conn->local_id));
    LIST_INSERT_HEAD(&world->conns, conn, all);
}

/* ---- Calls of the user ---- */

int ib_connect(struct ib_world *world, struct ib_conn *conn, struct ib_message *req)
{
    if (conn->state != IB_IDLE || conn->local_id != 0)
        return EINVAL;
    ib_number(world, conn);
    conn->transaction = world->next_transaction++;
    conn->local_qpn = req->req.qpn;
    conn->interval = ib_time_ns(req->req.remote_response) + 2 * ib_time_ns(LIFETIME);
    conn->timewait = ib_time_ns(req->req.ack_timeout);
    conn->tries = req->req.cm_retries;
    req->type = IB_REQ;
    req->transaction = conn->transaction;
    req->local_id = conn->local_id;
    req->req.ca_guid = world->guid;
    ib_say(world, conn, req, IB_REQ_SENT);
    return 0;
}

int ib_accept(struct ib_world *world, struct ib_conn *conn, struct ib_message *rep)
{
    if (conn->state != IB_REQUESTED)
        return EINVAL;
    conn->local_qpn = rep->rep.qpn;
    rep->type = IB_REP;
    rep->transaction = conn->transaction;
    rep->local_id = conn->local_id;
    rep->remote_id = conn->remote_id;
    rep->rep.ca_guid = world->guid;
    ib_say(world, conn, rep, IB_REP_SENT);
    return 0;
}

static void send_rej(struct ib_world *world, struct ib_conn *conn, enum ib_answered answered, unsigned reason,
                     const void *data, size_t length)
{
    struct ib_message rej = ib_answer(conn, IB_REJ);

    rej.rej.answered = answered;
    rej.rej.reason = (uint16_t)reason;
    if (reason == IB_TIMEOUT) { /* the peer knows an unanswered request by this GUID */
        put64(rej.rej.info, world->guid);
        rej.rej.info_length = sizeof world->guid;
    }
    memcpy(rej.private_data, data, length);
    ib_send(world, &conn->path, &rej);
}

static int refuse_question(struct ib_world *world, struct ib_conn *conn, const void *data, size_t length)
{
    struct ib_message reply = {.sidr_rep = {.status = IB_SIDR_REJECTED}};

    if (length > ib_private(IB_SIDR_REP))
        return EINVAL;
    memcpy(reply.private_data, data, length);
    return ib_reply(world, conn, &reply);
}

int ib_refuse(struct ib_world *world, struct ib_conn *conn, unsigned reason, const void *data, size_t length)
{
    if (conn->state == IB_QUESTIONED)
        return refuse_question(world, conn, data, length);
    if (length > ib_private(IB_REJ))
        return EINVAL;
    if (conn->state == IB_REQUESTED)
        send_rej(world, conn, IB_TO_REQ, reason, data, length);
    else if (conn->state == IB_REPLIED)
        send_rej(world, conn, IB_TO_REP, reason, data, length);
    else
        return EINVAL;
    ib_rest(conn, IB_IDLE);
    return 0;
}

int ib_establish(struct ib_world *world, struct ib_conn *conn)
{
    struct ib_message rtu = ib_answer(conn, IB_RTU);

    if (conn->state == IB_REPLIED)
        ib_send(world, &conn->path, &rtu);
    else if (conn->state != IB_REP_SENT && conn->state != IB_REP_HEARD)
        return EINVAL;
    ib_rest(conn, IB_ESTABLISHED);
    return 0;
}

int ib_disconnect(struct ib_world *world, struct ib_conn *conn)
{
    struct ib_message dreq = ib_answer(conn, IB_DREQ);

    if (conn->state != IB_ESTABLISHED)
        return EINVAL;
    dreq.transaction = world->next_transaction++;
    dreq.dreq.qpn = conn->remote_qpn;
    conn->tries = IB_END_RETRIES; /* no longer limited: the peer's address is verified */
    ib_say(world, conn, &dreq, IB_DREQ_SENT);
    return 0;
}

/* Notifies the peer of the end, depending on the state. */
static void take_leave(struct ib_world *world, struct ib_conn *conn)
{
    switch (conn->state) {
    case IB_REQ_SENT:
    case IB_REQ_HEARD:
        send_rej(world, conn, IB_TO_REQ, IB_TIMEOUT, "", 0);
        break;
    case IB_REQUESTED:
        send_rej(world, conn, IB_TO_REQ, IB_CONSUMER, "", 0);
        break;
    case IB_REPLIED:
    case IB_REP_SENT:
    case IB_REP_HEARD:
        send_rej(world, conn, conn->state == IB_REPLIED ? IB_TO_REP : IB_TO_OTHER, IB_CONSUMER, "", 0);
        break;
    case IB_ESTABLISHED:
        (void)ib_disconnect(world, conn);
        break;
    case IB_QUESTIONED:
        (void)refuse_question(world, conn, "", 0);
        break;
    case IB_IDLE:
    case IB_DREQ_SENT:
    case IB_TIMEWAIT:
    case IB_ASKED:
    case IB_ANSWERED:
        break;
    }
}

void ib_end(struct ib_world *world, struct ib_conn *conn)
{
    if (conn->local_id == 0)
        return; /* it was never started */
    take_leave(world, conn);
    LIST_REMOVE(conn, all);
    conn->local_id = 0;
    ib_rest(conn, IB_IDLE);
}

/* ---- Timers ---- */

/* The last retransmission was not answered. */
static void give_up(struct ib_world *world, struct ib_conn *conn)
{
    if (conn->state == IB_DREQ_SENT) {
        ib_wait_out(world, conn);
        world->tell(world, conn, IB_EV_UNANSWERED, NULL);
        return;
    }
    if (conn->state != IB_ASKED) /* a look-up needs no REJ */
        send_rej(world, conn,
                 conn->state == IB_REP_SENT || conn->state == IB_REP_HEARD ? IB_TO_OTHER : IB_TO_REQ,
                 IB_TIMEOUT, "", 0);
    ib_rest(conn, IB_IDLE);
    world->tell(world, conn, IB_EV_UNREACHABLE, NULL);
}

static void handle_timeout(struct ib_world *world, struct ib_conn *conn, uint64_t now)
{
    if (conn->state == IB_TIMEWAIT || conn->state == IB_ANSWERED) {
        ib_rest(conn, IB_IDLE);
        world->tell(world, conn, IB_EV_OVER, NULL);
    } else if (is_early(conn)) {
        conn->early++;
        conn->due = next_sending(conn);
        world->send(world, &conn->path, conn->mad);
    } else if (conn->tries_left == 0) {
        give_up(world, conn);
    } else {
        conn->tries_left--;
        conn->due = ns_after(now, conn->interval);
        world->send(world, &conn->path, conn->mad);
    }
}

uint64_t ib_deadline(const struct ib_world *world)
{
    const struct ib_conn *conn;
    uint64_t least = NEVER_NS;

    LIST_FOREACH (conn, &world->conns, all)
        if (conn->due < least)
            least = conn->due;
    return least;
}

/* Starts from the head of the list again after each timer, because the callback may end any connection. */
void ib_timers(struct ib_world *world)
{
    uint64_t now = world->clock->now(world->clock);
    struct ib_conn *conn;

    do {
        LIST_FOREACH (conn, &world->conns, all)
            if (conn->due <= now)
                break;
        if (conn != NULL)
            handle_timeout(world, conn, now);
    } while (conn != NULL);
}
