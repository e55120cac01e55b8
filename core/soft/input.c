/* SPDX-License-Identifier: BSD-2-Clause */
/* input.c - where packets come in: which queue pair, and which half of it. */
#include "engine.h"

#define PKEY_MASK 0x7fff /* the upper bit is membership */

static bool is_connected(const struct soft_qp *qp)
{
    return qp->path_known && (soft_state(qp) == IBV_QPS_RTR || soft_state(qp) == IBV_QPS_RTS);
}

void soft_input(struct ibv_context *ibv, const struct soft_path *path, const uint8_t *bytes, size_t length)
{
    struct soft_context *context = soft_context_of(ibv);
    struct soft_counters *counters = &context->counters;
    struct soft_packet packet;
    struct soft_qp *qp;

    counters->packets_received++;
    counters->bytes_received += length;
    if (length >= SOFT_BTH_BYTES && bytes[0] == SOFT_CNP)
        return; /* losses already make us slower */
    if (!soft_packet_parse(&packet, bytes, length) || (qp = soft_qp_find(context, packet.qpn)) == NULL) {
        counters->malformed++;
        return;
    }
    if (!is_connected(qp))
        return;
    if ((packet.pkey & PKEY_MASK) != (SOFT_PKEY & PKEY_MASK) || !soft_path_matches(&qp->path, path)) {
        counters->refused++;
        return;
    }
    if (packet.op & SOFT_OP_ANSWER)
        soft_completer_input(qp, &packet);
    else
        soft_responder_input(qp, &packet);
}

void soft_count_malformed(struct ibv_context *ibv)
{
    soft_context_of(ibv)->counters.malformed++;
}
