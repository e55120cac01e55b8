/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_hear.c - reads the port's sockets, and passes datagrams on to the process of the host that they are for. */
#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/fds.h"
#include "ib_address.h"
#include "ib_end.h"
#include "ib_pass.h"

#define BATCH 64 /* maximum datagrams read at once */

/* Passes a datagram to the process with this share. A connection's number modulo QP1_SHARES is the share. */
static bool pass_to_share(unsigned share, const struct soft_path *path, const uint8_t *mad)
{
    const struct ib_pass_name name = ib_pass_to_share(share % QP1_SHARES);

    return ib_pass_on(&name, path, mad) != IB_NOBODY;
}

/* Passes a request to a listener at the address, or else at the wildcard address. The owner of the first name may be
 * another user's process that does not read; the second name is then tried, too. */
static bool pass_to_listener(const struct soft_path *path, enum ib_space space, uint16_t number,
                             const uint8_t *mad)
{
    const union soft_addr any = {.in6.sin6_family = AF_INET};
    const struct ib_pass_name here = ib_pass_to_listener(space, &path->local, htons(number)),
                              everywhere = ib_pass_to_listener(space, &any, htons(number));
    const enum ib_passed passed = ib_pass_on(&here, path, mad);

    return passed == IB_PASSED || ib_pass_on(&everywhere, path, mad) != IB_NOBODY || passed == IB_LOST;
}

/* Passes a duplicate request to the process that has got it before, if its listener is closed. */
static bool pass_to_asked(const struct soft_path *path, const struct ib_message *req, const uint8_t *mad)
{
    const struct ib_pass_name name = req->type == IB_REQ
                                         ? ib_pass_to_request(&path->remote, req->req.ca_guid, req->local_id)
                                         : ib_pass_to_question(&path->remote, req->transaction, req->local_id);

    return ib_pass_on(&name, path, mad) != IB_NOBODY;
}

/* Passes on a REJ that withdraws an unanswered request. */
static void pass_to_requested(const struct soft_path *path, const struct ib_message *rej, const uint8_t *mad)
{
    const int asked = ib_pass_recall(get64(rej->rej.info), rej->local_id), own = (int)ib_port.qp1.share;

    for (int share = 0; share < QP1_SHARES; share++)
        if (share != own && (asked == share || asked == IB_ANY_SHARE))
            (void)pass_to_share((unsigned)share, path, mad);
}

/* Whether the datagram was for another process, and was passed on. If no process has it, this one answers. */
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
    if (message.type == IB_REJ && message.remote_id == 0) { /* withdraws a request that was not answered */
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

static void take_passed(int inbox)
{
    uint8_t mad[IB_MAD_BYTES];
    struct soft_path path;
    int got = 0;

    ib_port.heard = inbox;
    for (int i = 0; i < BATCH && got >= 0 && ib_port.heard == inbox; i++) {
        got = ib_pass_receive(inbox, &path, mad);
        if (got > 0)
            ib_arrive(&ib_port.world, &path, mad);
    }
    if (got >= 0 && ib_port.heard == inbox) /* there may be more */
        fds_rewatch(ib_port.epoll, inbox, &(struct epoll_event){.events = IB_INBOX_EVENTS, .data.fd = inbox});
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
