/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_sidr.c - look-ups: which queue pair and Q_Key serve a service ID? One request and one reply; nothing is connected
 * (IBA volume 1, 12.11: service ID resolution).
 *
 * The request is sent again until it is answered. The listening end keeps the reply as long as the request may arrive
 * again, because the reply may have been lost, and the application must see each request only once.
 */
#include <errno.h>
#include "ib_address.h"
#include "ib_conn.h"

int ib_ask(struct ib_world *world, struct ib_conn *conn, struct ib_message *question)
{
    if (conn->state != IB_IDLE || conn->local_id != 0)
        return EINVAL;
    ib_number(world, conn);
    conn->transaction = world->next_transaction++;
    conn->interval = ib_time_ns(IB_SIDR_RESPONSE);
    conn->tries = IB_SIDR_RETRIES;
    question->type = IB_SIDR_REQ;
    question->transaction = conn->transaction;
    question->local_id = conn->local_id;
    ib_say(world, conn, question, IB_ASKED);
    return 0;
}

int ib_reply(struct ib_world *world, struct ib_conn *conn, struct ib_message *reply)
{
    if (conn->state != IB_QUESTIONED)
        return EINVAL;
    reply->type = IB_SIDR_REP;
    reply->transaction = conn->transaction;
    reply->local_id = conn->remote_id;
    reply->sidr_rep.service = conn->service;
    conn->interval = ib_time_ns(IB_SIDR_RESPONSE) * (IB_SIDR_RETRIES + 1);
    ib_say(world, conn, reply, IB_ANSWERED);
    return 0;
}

/* ---- Messages that arrive ---- */

/* Finds the look-up that this reply answers. */
static struct ib_conn *find_asked(struct ib_world *world, const struct soft_path *path,
                                  const struct ib_message *message)
{
    struct ib_conn *conn;

    LIST_FOREACH (conn, &world->conns, all)
        if (conn->state == IB_ASKED && conn->local_id == message->local_id &&
            conn->transaction == message->transaction && ib_same_address(&conn->path.remote, &path->remote))
            return conn;
    return NULL;
}

/* Finds the look-up of a duplicate request. A host that was restarted may use the same number again, but with another
 * transaction ID. */
static struct ib_conn *find_questioned(struct ib_world *world, const struct soft_path *from,
                                       const struct ib_message *question)
{
    struct ib_conn *conn;

    LIST_FOREACH (conn, &world->conns, all)
        if ((conn->state == IB_QUESTIONED || conn->state == IB_ANSWERED) &&
            conn->remote_id == question->local_id && conn->transaction == question->transaction &&
            conn->service == question->sidr_req.service && ib_same_address(&conn->path.remote, &from->remote))
            return conn;
    return NULL;
}

/* Replies that there is no queue pair for the service. */
static void reply_none(struct ib_world *world, const struct soft_path *to, const struct ib_message *question,
                       enum ib_sidr_status status)
{
    struct ib_message reply = {
        .type = IB_SIDR_REP,
        .transaction = question->transaction,
        .local_id = question->local_id,
        .sidr_rep = {.service = question->sidr_req.service, .status = (uint8_t)status},
    };

    ib_send(world, to, &reply);
}

static void take_question(struct ib_world *world, struct ib_conn *conn, const struct soft_path *from,
                          const struct ib_message *question)
{
    conn->path = *from;
    conn->remote_id = question->local_id;
    conn->transaction = question->transaction;
    conn->service = question->sidr_req.service;
    ib_number(world, conn);
    ib_rest(conn, IB_QUESTIONED);
    world->requested(world, conn, question);
}

void ib_sidr_req_arrives(struct ib_world *world, const struct soft_path *from,
                         const struct ib_message *question)
{
    struct ib_conn *conn = find_questioned(world, from, question);
    enum ib_reason why = IB_INVALID_SERVICE;

    if (conn != NULL) {
        if (conn->state == IB_ANSWERED)
            world->send(world, &conn->path, conn->mad);
        return;
    }
    conn = world->request(world, from, question, &why);
    if (conn != NULL)
        take_question(world, conn, from, question);
    else if (why != 0)
        reply_none(world, from, question, why == IB_INVALID_SERVICE ? IB_SIDR_UNSUPPORTED : IB_SIDR_REJECTED);
}

void ib_sidr_rep_arrives(struct ib_world *world, const struct soft_path *from, const struct ib_message *reply)
{
    struct ib_conn *conn = find_asked(world, from, reply);

    if (conn == NULL)
        return;
    ib_rest(conn, IB_IDLE);
    world->tell(world, conn, IB_EV_RESOLVED, reply);
}
