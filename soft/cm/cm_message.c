/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_message.c - encodes and decodes the connection manager's messages. Every field that a peer sends is checked. */
#include <errno.h>
#include <string.h>
#include <infiniband/verbs.h>
#include "core/base/bytes.h"
#include "cm_message.h"
#include "soft/engine/wire.h"

static const uint8_t magic[4] = {0xe8, 'E', 'X', 'S'}; /* no text protocol starts with this byte */

#define FLAG_FLOW_CONTROL 1
#define FLAG_SRQ 2
#define FLAG_SHM 4
/* EXS 2.1 used flags 8 and 16: they are neither set nor read. */
#define FLAG_TCP 32
#define FLAG_MRA 64
#define PSN_MAX 0xffffff
#define RETRY_MAX 7 /* 3 bits */

#define REQ_DATA 28 /* offset of private data */
#define REQ_TOKEN (REQ_DATA + CM_REQ_PRIVATE - CM_TOKEN)
#define REJ_DATA 12
#define SIDR_REQ_DATA 16
#define SIDR_REP_DATA 20

static size_t size_of(unsigned type)
{
    switch (type) {
    case CM_REQ:
        return REQ_DATA + CM_REQ_PRIVATE;
    case CM_REP:
        return REQ_DATA + CM_REP_PRIVATE;
    case CM_REJ:
        return REJ_DATA + CM_REJ_PRIVATE;
    case CM_SIDR_REQ:
        return SIDR_REQ_DATA + CM_SIDR_REQ_PRIVATE;
    case CM_SIDR_REP:
        return SIDR_REP_DATA + CM_SIDR_REP_PRIVATE;
    case CM_RTU:
    case CM_DREQ:
    case CM_MRA:
        return CM_HEADER;
    default:
        return 0;
    }
}

static void encode_ends(const struct cm_message *message, uint8_t *bytes)
{
    put32(bytes + 8, message->qp_num);
    put32(bytes + 12, message->psn);
    put16(bytes + 16, message->udp_port);
    bytes[18] = message->mtu;
    bytes[19] = message->responder_resources;
    bytes[20] = message->initiator_depth;
    bytes[21] = message->retry_count;
    bytes[22] = message->rnr_retry_count;
    bytes[23] = (message->flow_control ? FLAG_FLOW_CONTROL : 0) | (message->srq ? FLAG_SRQ : 0) |
                (message->shm ? FLAG_SHM : 0) | (message->tcp ? FLAG_TCP : 0) | (message->mra ? FLAG_MRA : 0);
    bytes[24] = message->private_length;
    if (message->type == CM_REQ) {
        bytes[25] = message->service;
        bytes[26] = message->space_ib;
    }
    memcpy(bytes + REQ_DATA, message->private_data, message->private_length);
    if (message->type == CM_REQ && message->shm)
        memcpy(bytes + REQ_TOKEN, message->token, CM_TOKEN);
}

static void encode_reject(const struct cm_message *message, uint8_t *bytes)
{
    put16(bytes + 8, message->reason);
    bytes[10] = message->private_length;
    memcpy(bytes + REJ_DATA, message->private_data, message->private_length);
}

static void encode_sidr_req(const struct cm_message *message, uint8_t *bytes)
{
    bytes[8] = message->private_length;
    put16(bytes + 12, ntohs(message->asked));
    put16(bytes + 14, ntohs(message->asker));
    memcpy(bytes + SIDR_REQ_DATA, message->private_data, message->private_length);
}

static void encode_sidr_rep(const struct cm_message *message, uint8_t *bytes)
{
    put16(bytes + 8, message->reason);
    bytes[10] = message->private_length;
    put32(bytes + 12, message->qp_num);
    put32(bytes + 16, message->qkey);
    memcpy(bytes + SIDR_REP_DATA, message->private_data, message->private_length);
}

static void encode_contents(const struct cm_message *message, uint8_t *bytes)
{
    switch (message->type) {
    case CM_REQ:
    case CM_REP:
        encode_ends(message, bytes);
        break;
    case CM_REJ:
        encode_reject(message, bytes);
        break;
    case CM_SIDR_REQ:
        encode_sidr_req(message, bytes);
        break;
    case CM_SIDR_REP:
        encode_sidr_rep(message, bytes);
        break;
    default:
        break;
    }
}

size_t cm_message_encode(const struct cm_message *message, uint8_t *bytes)
{
    size_t size = size_of(message->type);

    memset(bytes, 0, size);
    memcpy(bytes, magic, sizeof magic);
    bytes[4] = CM_VERSION;
    bytes[5] = (uint8_t)message->type;
    put16(bytes + 6, (unsigned)size);
    encode_contents(message, bytes);
    return size;
}

int cm_message_size(const uint8_t *bytes, size_t have)
{
    /* Checked as soon as possible: the first byte may show that the peer speaks another protocol. */
    if (memcmp(bytes, magic, have < sizeof magic ? have : sizeof magic) != 0)
        return -EBADMSG;
    if (have < CM_HEADER)
        return 0;
    /* A REJ is accepted in any version, because its reason may be the version. */
    if (bytes[4] != CM_VERSION && bytes[5] != CM_REJ)
        return -EPROTONOSUPPORT;
    if (size_of(bytes[5]) == 0 || get16(bytes + 6) != size_of(bytes[5]))
        return -EPROTO;
    return get16(bytes + 6);
}

static bool decode_private(struct cm_message *message, uint8_t length, const uint8_t *data, size_t most)
{
    if (length > most)
        return false;
    message->private_length = length;
    memcpy(message->private_data, data, length);
    return true;
}

static bool decode_ends(struct cm_message *message, const uint8_t *bytes, size_t private_max)
{
    message->qp_num = get32(bytes + 8);
    message->psn = get32(bytes + 12);
    message->udp_port = get16(bytes + 16);
    message->mtu = bytes[18];
    message->responder_resources = bytes[19];
    message->initiator_depth = bytes[20];
    message->retry_count = bytes[21];
    message->rnr_retry_count = bytes[22];
    message->flow_control = (bytes[23] & FLAG_FLOW_CONTROL) != 0;
    message->srq = (bytes[23] & FLAG_SRQ) != 0;
    message->shm = (bytes[23] & FLAG_SHM) != 0;
    message->tcp = (bytes[23] & FLAG_TCP) != 0;
    if (!soft_is_qpn(message->qp_num) || message->psn > PSN_MAX)
        return false;
    if (message->udp_port == 0 || message->mtu < IBV_MTU_256 || message->mtu > IBV_MTU_4096)
        return false;
    if (message->retry_count > RETRY_MAX || message->rnr_retry_count > RETRY_MAX)
        return false;
    if (message->type == CM_REQ) {
        message->service = bytes[25];
        message->space_ib = bytes[26] != 0;
        message->mra = (bytes[23] & FLAG_MRA) != 0;
    }
    if (message->type == CM_REQ && message->shm)
        memcpy(message->token, bytes + REQ_TOKEN, CM_TOKEN);
    return decode_private(message, bytes[24], bytes + REQ_DATA, private_max);
}

/* Reason 0 is invalid, because the event's status 0 would mean success. */
static bool decode_reject(struct cm_message *message, const uint8_t *bytes)
{
    message->reason = get16(bytes + 8);
    return message->reason != 0 && decode_private(message, bytes[10], bytes + REJ_DATA, CM_REJ_PRIVATE);
}

static bool decode_sidr_rep(struct cm_message *message, const uint8_t *bytes)
{
    message->reason = get16(bytes + 8);
    message->qp_num = get32(bytes + 12);
    message->qkey = get32(bytes + 16);
    if (message->reason == CM_SIDR_VALID && !soft_is_qpn(message->qp_num))
        return false;
    return decode_private(message, bytes[10], bytes + SIDR_REP_DATA, CM_SIDR_REP_PRIVATE);
}

static bool decode_sidr_req(struct cm_message *message, const uint8_t *bytes)
{
    message->asked = htons((uint16_t)get16(bytes + 12));
    message->asker = htons((uint16_t)get16(bytes + 14));
    return decode_private(message, bytes[8], bytes + SIDR_REQ_DATA, CM_SIDR_REQ_PRIVATE);
}

static bool decode_contents(struct cm_message *message, const uint8_t *bytes)
{
    switch (message->type) {
    case CM_REQ:
        return decode_ends(message, bytes, CM_REQ_PRIVATE);
    case CM_REP:
        return decode_ends(message, bytes, CM_REP_PRIVATE);
    case CM_REJ:
        return decode_reject(message, bytes);
    case CM_SIDR_REQ:
        return decode_sidr_req(message, bytes);
    case CM_SIDR_REP:
        return decode_sidr_rep(message, bytes);
    default:
        return true;
    }
}

bool cm_message_decode(struct cm_message *message, const uint8_t *bytes)
{
    memset(message, 0, sizeof *message);
    message->type = bytes[5];
    if (decode_contents(message, bytes))
        return true;
    memset(message, 0, sizeof *message); /* leave no invalid values */
    return false;
}
