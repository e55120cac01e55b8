/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_arrive.c - handles each type of message in each state. Messages that fit no connection are not answered. */
#include "core/base/clock.h"
#include "core/base/bytes.h"
#include "ib_address.h"
#include "ib_conn.h"

/* ---- Finding the connection ---- */

static bool same_host(const struct soft_path *path, const struct soft_path *other)
{
    return ib_same_address(&path->remote, &other->remote);
}

/* Look-ups use other messages than connections. */
static bool is_look_up(const struct ib_conn *conn)
{
    return conn->state >= IB_ASKED;
}

/* Whether this end has a request of the peer, and does not know yet that the peer has received the answer. */
static bool is_before_established(const struct ib_conn *conn)
{
    return conn->state == IB_REQUESTED || conn->state == IB_REP_SENT || conn->state == IB_REP_HEARD;
}

/* Finds a connection by its number here, and by the peer's number, if that is known. */
static struct ib_conn *find_conn(struct ib_world *world, const struct soft_path *from,
                                 const struct ib_message *message)
{
    struct ib_conn *conn;

    LIST_FOREACH (conn, &world->conns, all)
        if (conn->local_id == message->remote_id && !is_look_up(conn) && same_host(&conn->path, from) &&
            (conn->remote_id == 0 || conn->remote_id == message->local_id))
            return conn;
    return NULL;
}

/* Finds a connection by the peer's number and GUID. The peer's address must match, too, because a peer can claim any
 * GUID: otherwise another host could prevent it from connecting. */
static struct ib_conn *find_remote(struct ib_world *world, const struct soft_path *from, uint64_t guid,
                                   uint32_t remote_id)
{
    struct ib_conn *conn;

    LIST_FOREACH (conn, &world->conns, all)
        if (conn->remote_guid == guid && conn->remote_id == remote_id && conn->state != IB_IDLE &&
            !is_look_up(conn) && same_host(&conn->path, from))
            return conn;
    return NULL;
}

/* Finds a connection, other than `but`, to the same queue pair of the peer. */
static struct ib_conn *find_stale(struct ib_world *world, const struct ib_conn *but,
                                  const struct soft_path *from, uint64_t guid, uint32_t qpn)
{
    struct ib_conn *conn;

    LIST_FOREACH (conn, &world->conns, all)
        if (conn != but && conn->remote_guid == guid && conn->remote_qpn == qpn && conn->state != IB_IDLE &&
            same_host(&conn->path, from))
            return conn;
    return NULL;
}

static void send_rej(struct ib_world *world, const struct soft_path *to, const struct ib_message *message,
                     enum ib_answered answered, enum ib_reason reason)
{
    struct ib_message rej = {
        .type = IB_REJ,
        .transaction = message->transaction,
        .local_id = message->remote_id,
        .remote_id = message->local_id,
        .rej = {.answered = answered, .reason = (uint16_t)reason},
    };

    ib_send(world, to, &rej);
}

/* Ends a connection whose peer uses the queue pair for another one, and so has forgotten this one. */
static void end_stale(struct ib_world *world, struct ib_conn *conn)
{
    if (conn->state == IB_TIMEWAIT)
        return;
    ib_wait_out(world, conn);
    world->tell(world, conn, IB_EV_DISCONNECTED, NULL);
}

/* ---- Setting up ---- */

/* A duplicate of a REQ: the answer was lost, or was not given yet. */
static void repeat_answer(struct ib_world *world, struct ib_conn *conn, const struct ib_message *req)
{
    struct ib_message mra = ib_answer(conn, IB_MRA);

    mra.mra.answered = IB_TO_REQ;
    mra.mra.service_time = IB_SERVICE_TIME;
    if (conn->state == IB_REQUESTED)
        ib_send(world, &conn->path, &mra);
    else if (conn->state == IB_REP_SENT || conn->state == IB_REP_HEARD)
        world->send(world, &conn->path, conn->mad);
    else if (conn->state == IB_TIMEWAIT)
        send_rej(world, &conn->path, req, IB_TO_REQ, IB_STALE);
}

/* Limits a time that a peer asks for, which may be hours. */
static unsigned at_most(unsigned time)
{
    return time < IB_TIME_MAX ? time : IB_TIME_MAX;
}

/* Limits retransmissions of the answer, in number and rate: the source address of a request may be forged, and the
 * host that really has it gets the answers. If an answer is lost, the peer repeats its request and gets another. */
static void answer_at_leisure(struct ib_conn *conn, const struct ib_req *req)
{
    unsigned response = at_most(req->local_response);

    conn->interval = ib_time_ns(response > IB_RESPONSE_MIN ? response : IB_RESPONSE_MIN);
    conn->tries = req->cm_retries < IB_REPLY_RETRIES ? req->cm_retries : IB_REPLY_RETRIES;
}

static void take_request(struct ib_world *world, struct ib_conn *conn, const struct soft_path *from,
                         const struct ib_message *req)
{
    conn->path = *from;
    conn->remote_id = req->local_id;
    conn->remote_qpn = req->req.qpn;
    conn->remote_guid = req->req.ca_guid;
    conn->transaction = req->transaction;
    conn->timewait = ib_time_ns(at_most(req->req.ack_timeout));
    answer_at_leisure(conn, &req->req);
    ib_number(world, conn);
    ib_rest(conn, IB_REQUESTED);
    world->requested(world, conn, req);
}

static void req_arrives(struct ib_world *world, const struct soft_path *from, const struct ib_message *req)
{
    struct ib_conn *conn = find_remote(world, from, req->req.ca_guid, req->local_id), *stale;
    enum ib_reason why = IB_INVALID_SERVICE;

    if (conn != NULL) {
        repeat_answer(world, conn, req);
        return;
    }
    stale = find_stale(world, NULL, from, req->req.ca_guid, req->req.qpn);
    if (stale != NULL) {
        send_rej(world, from, req, IB_TO_REQ, IB_STALE);
        end_stale(world, stale);
        return;
    }
    conn = world->request(world, from, req, &why);
    if (conn != NULL)
        take_request(world, conn, from, req);
    else if (why != 0)
        send_rej(world, from, req, IB_TO_REQ, why);
}

static void take_reply(struct ib_world *world, struct ib_conn *conn, const struct ib_message *rep)
{
    const struct soft_path from = conn->path; /* the callback may end the connection */
    struct ib_conn *stale = find_stale(world, conn, &from, rep->rep.ca_guid, rep->rep.qpn);

    if (stale != NULL) {
        send_rej(world, &from, rep, IB_TO_REP, IB_STALE);
        ib_rest(conn, IB_IDLE);
        world->tell(world, conn, IB_EV_UNREACHABLE, NULL);
        stale = find_stale(world, NULL, &from, rep->rep.ca_guid, rep->rep.qpn);
        if (stale != NULL) /* no callback has ended it */
            end_stale(world, stale);
        return;
    }
    conn->remote_id = rep->local_id;
    conn->remote_qpn = rep->rep.qpn;
    conn->remote_guid = rep->rep.ca_guid;
    ib_rest(conn, IB_REPLIED);
    world->tell(world, conn, IB_EV_REPLIED, rep);
}

static void rep_arrives(struct ib_world *world, struct ib_conn *conn, const struct ib_message *rep)
{
    struct ib_message rtu;

    if (rep->transaction != conn->transaction)
        return;
    if (conn->state == IB_REQ_SENT || conn->state == IB_REQ_HEARD) {
        take_reply(world, conn, rep);
    } else if (conn->state == IB_ESTABLISHED) { /* the RTU was lost */
        rtu = ib_answer(conn, IB_RTU);
        ib_send(world, &conn->path, &rtu);
    }
}

static void rtu_arrives(struct ib_world *world, struct ib_conn *conn, const struct ib_message *rtu)
{
    if (conn->state != IB_REP_SENT && conn->state != IB_REP_HEARD)
        return;
    ib_rest(conn, IB_ESTABLISHED);
    world->tell(world, conn, IB_EV_ESTABLISHED, rtu);
}

/* The peer needs more time: postpones the retransmission. */
static void mra_arrives(struct ib_world *world, struct ib_conn *conn, const struct ib_message *mra)
{
    if (conn->state == IB_REQ_SENT && mra->mra.answered == IB_TO_REQ)
        conn->state = IB_REQ_HEARD;
    else if (conn->state == IB_REP_SENT && mra->mra.answered == IB_TO_REP)
        conn->state = IB_REP_HEARD;
    else
        return;
    conn->due =
        ns_after(world->clock->now(world->clock), ib_time_ns(at_most(mra->mra.service_time)) + conn->timewait);
}

/* ---- Refusals, and the end ---- */

static void rej_arrives(struct ib_world *world, struct ib_conn *conn, const struct ib_message *rej)
{
    switch (conn->state) {
    case IB_IDLE:
    case IB_TIMEWAIT:
    case IB_ASKED:
    case IB_QUESTIONED:
    case IB_ANSWERED:
        return;
    case IB_REPLIED:
    case IB_ESTABLISHED:
    case IB_DREQ_SENT:
        ib_wait_out(world, conn);
        break;
    case IB_REQ_SENT:
    case IB_REQ_HEARD:
    case IB_REQUESTED:
    case IB_REP_SENT:
    case IB_REP_HEARD:
        if (rej->rej.reason == IB_STALE)
            ib_wait_out(world, conn);
        else
            ib_rest(conn, IB_IDLE);
        break;
    }
    world->tell(world, conn, IB_EV_REJECTED, rej);
}

/* A peer that never received an answer does not know the connection's number here; the REJ's additional information is
 * the peer's GUID. */
bool ib_is_unanswered(const struct ib_message *rej)
{
    return rej->rej.reason == IB_TIMEOUT && rej->rej.info_length >= sizeof(uint64_t);
}

static struct ib_conn *find_rejected(struct ib_world *world, const struct soft_path *from,
                                     const struct ib_message *rej)
{
    struct ib_conn *conn = rej->remote_id != 0 ? find_conn(world, from, rej) : NULL;

    if (conn != NULL || !ib_is_unanswered(rej))
        return conn;
    conn = find_remote(world, from, get64(rej->rej.info), rej->local_id);
    return conn != NULL && is_before_established(conn) ? conn : NULL;
}

/* A DREQ is always answered, even if the connection is unknown here: an earlier DREP may have been lost. */
static void dreq_arrives(struct ib_world *world, struct ib_conn *conn, const struct soft_path *from,
                         const struct ib_message *dreq)
{
    struct ib_message drep = {
        .type = IB_DREP,
        .transaction = dreq->transaction,
        .local_id = dreq->remote_id,
        .remote_id = dreq->local_id,
    };
    struct soft_path to = *from;
    bool is_news = false;

    if (conn != NULL) {
        if (conn->state == IB_REQ_SENT || conn->state == IB_REQ_HEARD || conn->state == IB_REQUESTED ||
            dreq->dreq.qpn != conn->local_qpn)
            return;
        is_news = conn->state != IB_TIMEWAIT && conn->state != IB_IDLE;
    }
    if (is_news) {
        ib_wait_out(world, conn);
        world->tell(world, conn, IB_EV_DISCONNECTED, dreq);
    }
    ib_send(world, &to, &drep);
}

static void drep_arrives(struct ib_world *world, struct ib_conn *conn, const struct ib_message *drep)
{
    if (conn->state != IB_DREQ_SENT)
        return;
    ib_wait_out(world, conn);
    world->tell(world, conn, IB_EV_DISCONNECTED, drep);
}

static void look_up_arrives(struct ib_world *world, const struct soft_path *from,
                            const struct ib_message *message)
{
    if (message->type == IB_SIDR_REQ)
        ib_sidr_req_arrives(world, from, message);
    else
        ib_sidr_rep_arrives(world, from, message);
}

void ib_arrive(struct ib_world *world, const struct soft_path *from, const uint8_t mad[IB_MAD_BYTES])
{
    struct ib_message message;
    struct ib_conn *conn;

    if (!ib_decode(&message, mad))
        return;
    if (message.type == IB_REQ) {
        req_arrives(world, from, &message);
        return;
    }
    if (message.type == IB_SIDR_REQ || message.type == IB_SIDR_REP) {
        look_up_arrives(world, from, &message);
        return;
    }
    conn = message.type == IB_REJ ? find_rejected(world, from, &message) : find_conn(world, from, &message);
    if (message.type == IB_DREQ)
        dreq_arrives(world, conn, from, &message);
    else if (conn == NULL)
        return;
    else if (message.type == IB_REP)
        rep_arrives(world, conn, &message);
    else if (message.type == IB_RTU)
        rtu_arrives(world, conn, &message);
    else if (message.type == IB_MRA)
        mra_arrives(world, conn, &message);
    else if (message.type == IB_REJ)
        rej_arrives(world, conn, &message);
    else if (message.type == IB_DREP)
        drep_arrives(world, conn, &message);
}

/* The state that waits for an answer to this type of message; IDLE: none. */
static enum ib_state awaiting_state(enum ib_type type)
{
    if (type == IB_REQ)
        return IB_REQ_SENT;
    if (type == IB_SIDR_REQ)
        return IB_ASKED;
    return type == IB_DREQ ? IB_DREQ_SENT : IB_IDLE;
}

/* Only for messages that are still unanswered. For a DREQ it is as good as a DREP: no process has the connection
 * there. */
void ib_absent(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES])
{
    struct ib_message message;
    enum ib_state state;
    struct ib_conn *conn;

    if (!ib_decode(&message, mad))
        return;
    state = awaiting_state(message.type);
    if (state == IB_IDLE)
        return;
    LIST_FOREACH (conn, &world->conns, all)
        if (conn->local_id == message.local_id && conn->state == state && same_host(&conn->path, path))
            break;
    if (conn == NULL)
        return;
    if (state == IB_DREQ_SENT) {
        ib_wait_out(world, conn);
        world->tell(world, conn, IB_EV_DISCONNECTED, NULL);
    } else {
        ib_rest(conn, IB_IDLE);
        world->tell(world, conn, IB_EV_ABSENT, NULL);
    }
}
