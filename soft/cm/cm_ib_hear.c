/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_ib_hear.c - converts InfiniBand's messages to struct cm_message. The length of private data is not transmitted:
 * the whole field arrives.
 */
#include <string.h>
#include "cm_id.h"

_Static_assert(IB_ADDRESS_BYTES + CM_SIDR_REQ_PRIVATE == 216, "all of a SIDR_REQ's private data");

void cm_ib_hear_request(struct cm_message *peer, const struct ib_message *said)
{
    const struct ib_req *req = &said->req;

    *peer = (struct cm_message){
        .type = CM_REQ,
        .qp_num = req->qpn,
        .psn = req->psn,
        .udp_port = SOFT_UDP_PORT,
        .mtu = req->mtu,
        .responder_resources = req->responder_resources,
        .initiator_depth = req->initiator_depth,
        .retry_count = req->retry_count,
        .rnr_retry_count = req->rnr_retry_count,
        .ack_timeout = req->ack_timeout,
        .flow_control = req->flow_control,
        .srq = req->srq,
        .private_length = CM_REQ_PRIVATE,
    };
    memcpy(peer->private_data, said->private_data + IB_ADDRESS_BYTES, CM_REQ_PRIVATE);
}

void cm_ib_hear_reply(struct cm_id *id, const struct ib_message *said)
{
    const struct ib_rep *rep = &said->rep;

    id->peer = (struct cm_message){
        .type = CM_REP,
        .qp_num = rep->qpn,
        .psn = rep->psn,
        .udp_port = SOFT_UDP_PORT,
        .mtu = id->own.mtu,
        .responder_resources = rep->responder_resources,
        .initiator_depth = rep->initiator_depth,
        .rnr_retry_count = rep->rnr_retry_count,
        .ack_timeout = rep->ack_delay < CM_IB_ACK_TIMEOUT ? CM_IB_ACK_TIMEOUT : rep->ack_delay,
        .flow_control = rep->flow_control,
        .srq = rep->srq,
        .private_length = CM_REP_PRIVATE,
    };
    memcpy(id->peer.private_data, said->private_data, CM_REP_PRIVATE);
}

/* Reason 0 is replaced, because the event's status 0 would mean success. */
void cm_ib_hear_refusal(struct cm_id *id, const struct ib_message *said)
{
    id->peer = (struct cm_message){
        .type = CM_REJ,
        .reason = said->rej.reason != 0 ? said->rej.reason : CM_CONSUMER_DEFINED,
        .private_length = CM_REJ_PRIVATE,
    };
    memcpy(id->peer.private_data, said->private_data, CM_REJ_PRIVATE);
}

void cm_ib_hear_question(struct cm_message *peer, const struct ib_message *said)
{
    *peer = (struct cm_message){.type = CM_SIDR_REQ, .private_length = CM_SIDR_REQ_PRIVATE};
    memcpy(peer->private_data, said->private_data + IB_ADDRESS_BYTES, CM_SIDR_REQ_PRIVATE);
}
