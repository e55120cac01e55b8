/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_hear.c - what comes by the port's sockets, and for which of the host's processes it is. */
#include "core/bytes.h"
#include "core/clock.h"
#include "core/fds.h"
#include "ib_address.h"
#include "ib_end.h"
#include "ib_pass.h"

#define BATCH 64 /* datagrams taken in a row */

/* A connection's number begins with a random one, and ends with the share, modulo QP1_SHARES. */
static bool pass_to_share(unsigned share, const struct soft_path *path, const uint8_t *mad)
{
    const struct ib_pass_name name = ib_pass_to_share(share % QP1_SHARES);

    return ib_pass_on(&name, path, mad) != IB_NOBODY;
}

/* Whoever has the first name and doesn't read may be anybody, and must not keep it from who has the other. */
static bool pass_to_listener(const struct soft_path *path, enum ib_space space, uint16_t number,
                             const uint8_t *mad)
{
    const union soft_addr any = {.in6.sin6_family = AF_INET};
    const struct ib_pass_name here = ib_pass_to_listener(space, &path->local, htons(number)),
                              everywhere = ib_pass_to_listener(space, &any, htons(number));
    const enum ib_passed passed = ib_pass_on(&here, path, mad);

    return passed == IB_PASSED || ib_pass_on(&everywhere, path, mad) != IB_NOBODY || passed == IB_LOST;
}

/* To whoever has been asked this before, and whose listener has gone. */
static bool pass_to_asked(const struct soft_path *path, const struct ib_message *req, const uint8_t *mad)
{
    const struct ib_pass_name name = req->type == IB_REQ
                                         ? ib_pass_to_request(&path->remote, req->req.ca_guid, req->local_id)
                                         : ib_pass_to_question(&path->remote, req->transaction, req->local_id);

    return ib_pass_on(&name, path, mad) != IB_NOBODY;
}

/* A peer gives up a request that nobody has answered. */
static void pass_to_requested(const struct soft_path *path, const struct ib_message *rej, const uint8_t *mad)
{
    const int asked = ib_pass_recall(get64(rej->rej.info), rej->local_id), own = (int)ib_port.qp1.share;

    for (int share = 0; share < QP1_SHARES; share++)
        if (share != own && (asked == share || asked == IB_ANY_SHARE))
            (void)pass_to_share((unsigned)share, path, mad);
}

/* Is it for another process, and has that one got it? What nobody has is answered here, as it may have to be.
 */
static bool is_passed_on(const struct soft_path *path, const uint8_t *mad)
{
    struct ib_message message;
    enum ib_space space;
    uint16_t number;
    uint32_t ours;

    if (!ib_decode(&message, mad))
        return true;
    if (message.type == IB_REQ || message.type == IB_SIDR_REQ)
        return pass_to_asked(path, &message, mad) ||
               (ib_told_service(&message, &space, &number) &&
                ib_told_listener(space, &path->local, htons(number)) == NULL &&
                pass_to_listener(path, space, number, mad));
    if (message.type == IB_REJ && message.remote_id == 0) { /* of a request that we have not answered */
        if (ib_is_unanswered(&message))
            pass_to_requested(path, &message, mad);
        return false;
    }
    ours = message.type == IB_SIDR_REP ? message.local_id : message.remote_id;
    return ours % QP1_SHARES != ib_port.qp1.share && pass_to_share(ours, path, mad);
}

static void take_in(int family)
{
    uint8_t mad[IB_MAD_BYTES];
    struct soft_path path;
    int got = 0;

    for (int i = 0; i < BATCH && got >= 0; i++) {
        got = qp1_receive(&ib_port.qp1, family, &path, mad);
        if (got > 0 && ib_budget_take(&ib_port.budget, &path.remote, now_ns()) && !is_passed_on(&path, mad))
            ib_arrive(&ib_port.world, &path, mad);
    }
}

static void take_passed(int door)
{
    uint8_t mad[IB_MAD_BYTES];
    struct soft_path path;
    int got = 0;

    ib_port.heard = door;
    for (int i = 0; i < BATCH && got >= 0 && ib_port.heard == door; i++) {
        got = ib_pass_receive(door, &path, mad);
        if (got > 0)
            ib_arrive(&ib_port.world, &path, mad);
    }
    if (got >= 0 && ib_port.heard == door) /* there may be more */
        fds_rewatch(ib_port.epoll, door, &(struct epoll_event){.events = IB_DOOR_EVENTS, .data.fd = door});
}

static void take_refused(int family)
{
    uint8_t mad[IB_MAD_BYTES];
    struct soft_path path;
    int got = 0;

    for (int i = 0; i < BATCH && got >= 0; i++) {
        got = qp1_refused(&ib_port.qp1, family, &path, mad);
        if (got > 0)
            ib_absent(&ib_port.world, &path, mad);
    }
}

void ib_hear(int fd)
{
    if (fd == ib_port.qp1.fds[0] || fd == ib_port.qp1.fds[1])
        take_in(fd == ib_port.qp1.fds[1]);
    else if (fd == ib_port.qp1.out[0] || fd == ib_port.qp1.out[1])
        take_refused(fd == ib_port.qp1.out[1]);
    else
        take_passed(fd);
}
