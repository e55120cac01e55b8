/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_told.c - the callbacks of struct ib_world: finds the listener of a request, and posts events for users. */
#include <stdlib.h>
#include <string.h>
#include "ib_address.h"
#include "ib_end.h"
#include "ib_pass.h"

/* ---- Event queues (locked) ---- */

void ib_end_post(struct ib_end *end)
{
    if (end->queued)
        return;
    TAILQ_INSERT_TAIL(&end->box->news, end, news);
    end->queued = true;
    doorbell_signal(&end->box->wakefd);
}

void ib_end_unpost(struct ib_end *end)
{
    if (end->queued)
        TAILQ_REMOVE(&end->box->news, end, news);
    end->queued = false;
}

void ib_end_untake(struct ib_end *end)
{
    if (end->listener != NULL)
        end->listener->untaken--;
    end->listener = NULL;
}

void ib_end_close_inbox(struct ib_end *end)
{
    if (!end->has_inbox)
        return;
    ib_pass_close(end->inbox, end->inbox_place);
    end->has_inbox = false;
    if (end->inbox == ib_port.heard)
        ib_port.heard = -1;
    if (end->backlog == 0)
        ib_port.kept_open--;
}

void ib_end_free(struct ib_end *end)
{
    ib_end_unpost(end);
    ib_end_untake(end);
    ib_end(&ib_port.world, &end->conn);
    ib_end_close_inbox(end);
    ib_port.ends--;
    free(end);
}

/* ---- Callbacks (locked) ---- */

void ib_told_send(struct ib_world *world, const struct soft_path *path, const uint8_t mad[IB_MAD_BYTES])
{
    (void)world;
    qp1_send(&ib_port.qp1, path, mad);
}

static bool listens_at(const struct ib_end *listener, const union soft_addr *addr, in_port_t number)
{
    if (listener->addr.in.sin_port != number) /* at the same place in sockaddr_in6 */
        return false;
    if (!soft_is_any(&listener->addr))
        return ib_same_address(&listener->addr, addr);
    return listener->addr.sa.sa_family == addr->sa.sa_family ||
           (listener->addr.sa.sa_family == AF_INET6 && !listener->one_family);
}

struct ib_end *ib_told_listener(enum ib_space space, const union soft_addr *addr, in_port_t number)
{
    struct ib_end *listener;

    LIST_FOREACH (listener, &ib_port.listeners, listeners)
        if (listener->space == space && listens_at(listener, addr, number))
            return listener;
    return NULL;
}

static bool is_gid_of(const uint8_t bytes[IB_GID_BYTES], const union soft_addr *addr)
{
    union ibv_gid gid;

    soft_gid_of(&gid, &addr->sa);
    return memcmp(bytes, gid.raw, sizeof gid.raw) == 0;
}

/* Whether the addresses in a request are those of its packet, so that a peer can't make this host send to a third
 * one. */
static bool is_honest(const struct soft_path *path, const struct ib_message *req)
{
    union soft_addr from, to;

    return ib_address_decode(&from, &to, req->private_data) && ib_same_address(&from, &path->remote) &&
           ib_same_address(&to, &path->local) &&
           (req->type == IB_SIDR_REQ || is_gid_of(req->req.local_gid, &path->remote));
}

/* Look-ups must be for datagram services, connection requests for the others. */
bool ib_told_service(const struct ib_message *req, enum ib_space *space, uint16_t *port)
{
    uint64_t service = req->type == IB_REQ ? req->req.service : req->sidr_req.service;

    return ib_service_port(service, space, port) &&
           *space == (req->type == IB_REQ ? IB_SPACE_TCP : IB_SPACE_UDP);
}

/* Whether the endpoint has no user, and is kept only to answer duplicates. */
static bool is_kept_only(const struct ib_conn *conn)
{
    return ((const struct ib_end *)conn)->user == NULL &&
           (conn->state == IB_ANSWERED || conn->state == IB_TIMEWAIT || conn->state == IB_DREQ_SENT);
}

/* Makes space for one more endpoint. At the limits it frees the endpoint without a user that would expire first: peers
 * determine how long these are kept, and must not prevent other peers from connecting by that. The number of kept
 * endpoints is limited, too, because each message that arrives searches all of them. */
static bool make_room(void)
{
    struct ib_conn *conn, *first = NULL;
    unsigned kept = 0;

    LIST_FOREACH (conn, &ib_port.world.conns, all)
        if (is_kept_only(conn)) {
            kept++;
            if (first == NULL || conn->due < first->due)
                first = conn;
        }
    if (ib_port.ends < IB_ENDS_MAX && kept < IB_KEPT_MAX)
        return true;
    if (first != NULL)
        ib_end_free((struct ib_end *)first);
    return first != NULL;
}

/* Makes space for one more request of this listener. If its backlog is full, the oldest request of the same host is
 * dropped, or else the oldest one. Its peer sends it again, and no request waits behind a flood. */
static void make_room_at(struct ib_end *listener, const struct soft_path *path)
{
    struct ib_conn *conn, *oldest = NULL, *same = NULL;

    if (listener->untaken < listener->backlog)
        return;
    LIST_FOREACH (conn, &ib_port.world.conns, all) { /* the newest first */
        if (((struct ib_end *)conn)->listener != listener)
            continue;
        oldest = conn;
        if (ib_same_address(&conn->path.remote, &path->remote))
            same = conn;
    }
    if (same != NULL)
        oldest = same;
    ib_rest(oldest, IB_IDLE); /* so that no REJ is sent */
    ib_end_free((struct ib_end *)oldest);
}

struct ib_conn *ib_told_request(struct ib_world *world, const struct soft_path *path,
                                const struct ib_message *req, enum ib_reason *why)
{
    struct ib_end *listener, *end;
    enum ib_space space;
    uint16_t number;

    (void)world;
    *why = IB_INVALID_SERVICE;
    if (!ib_told_service(req, &space, &number))
        return NULL;
    listener = ib_told_listener(space, &path->local, htons(number));
    if (listener == NULL)
        return NULL;
    *why = IB_CONSUMER;
    if (!is_honest(path, req) || (req->type == IB_REQ && req->req.transport != IB_RC))
        return NULL;
    *why = 0; /* not answered: there may be memory when it arrives again */
    make_room_at(listener, path);
    if (!make_room() || (end = calloc(1, sizeof *end)) == NULL)
        return NULL;
    if (req->type == IB_REQ)
        ib_pass_remember(req->req.ca_guid, req->local_id, ib_port.qp1.share);
    end->listener = listener;
    end->came_to = listener;
    end->box = listener->box;
    listener->untaken++;
    ib_port.ends++;
    return &end->conn;
}

void ib_told_requested(struct ib_world *world, struct ib_conn *conn, const struct ib_message *req)
{
    struct ib_end *end = (struct ib_end *)conn;

    (void)world;
    end->requested = true;
    end->said = *req;
    ib_end_post(end);
}

/* Posts an event for the user. Frees an endpoint without a user if it is IDLE, or if its request was not seen yet. */
void ib_told_event(struct ib_world *world, struct ib_conn *conn, enum ib_event event,
                   const struct ib_message *message)
{
    struct ib_end *end = (struct ib_end *)conn;

    (void)world;
    if (end->user == NULL) {
        if (conn->state == IB_IDLE || end->listener != NULL)
            ib_end_free(end);
        return;
    }
    if (event == IB_EV_OVER)
        return;
    if (event == IB_EV_REJECTED || event == IB_EV_UNREACHABLE)
        end->events &= ~(1u << IB_EV_REPLIED | 1u << IB_EV_ESTABLISHED);
    end->events |= 1u << event;
    if (message != NULL)
        end->said = *message;
    ib_end_post(end);
}
