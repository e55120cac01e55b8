/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unreliable.c - the receiving half of an unreliable connection (UC).
 *
 * Nothing is acknowledged or requested again. A gap in the PSNs loses the message in which it occurs; the next first
 * packet starts a new message. The receive of a lost message is used for the next one.
 */
#include "engine.h"

void soft_uc_abandon(struct soft_qp *qp)
{
    struct soft_responder *resp = &qp->resp;

    resp->message = 0;
    resp->offset = 0;
    resp->receiving = false;
}

void soft_uc_input(struct soft_qp *qp, const struct soft_packet *packet)
{
    struct soft_responder *resp = &qp->resp;
    uint64_t psn = soft_psn_near(resp->expected, packet->psn);
    bool begins = packet->op & SOFT_OP_FIRST;

    if (begins || psn != resp->expected)
        soft_uc_abandon(qp);
    resp->expected = psn;
    if (begins || resp->message != 0)
        soft_responder_execute(qp, packet);
    resp->expected = psn + 1;
}
