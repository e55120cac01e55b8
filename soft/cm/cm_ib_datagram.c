/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_ib_datagram.c - requests of the port space of datagrams (cm_datagram.c) as look-ups of the port (ib_port.h), by
 * InfiniBand's connection manager.
 */
#include <string.h>
#include "cm_id.h"

/* ---- The client ---- */

struct ib_end *cm_ib_ask(struct cm_id *id, const struct soft_path *path)
{
    const struct cm_message *own = &id->own;
    struct ib_message question = {
        .sidr_req = {.service = ib_service(IB_SPACE_UDP, ntohs(path->remote.in.sin_port)), .pkey = SOFT_PKEY},
    };

    ib_address_encode(&path->local, &path->remote, question.private_data);
    memcpy(question.private_data + IB_ADDRESS_BYTES, own->private_data, own->private_length);
    return ib_port_ask(&cm_channel_of(id)->ib, id, path, &question);
}

void cm_ib_answered(struct cm_id *id, const struct ib_message *said)
{
    id->peer = (struct cm_message){
        .type = CM_SIDR_REP,
        .reason = said->sidr_rep.status,
        .qp_num = said->sidr_rep.qpn,
        .qkey = said->sidr_rep.qkey,
        .private_length = CM_SIDR_REP_PRIVATE,
    };
    memcpy(id->peer.private_data, said->private_data, CM_SIDR_REP_PRIVATE);
    cm_datagram_answered(id);
}

/* ---- The listener ---- */

void cm_ib_reply(struct cm_id *id, const struct cm_message *message)
{
    struct ib_message reply = {
        .sidr_rep = {.qpn = message->qp_num, .qkey = message->qkey, .status = (uint8_t)message->reason},
    };

    memcpy(reply.private_data, message->private_data, message->private_length);
    (void)ib_port_reply(id->ib, &reply);
}
