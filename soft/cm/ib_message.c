/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_message.c - encodes and decodes the messages of InfiniBand's connection managers. Every field that a peer sends is
 * checked. */
#include <string.h>
#include <infiniband/verbs.h>
#include "core/base/bytes.h"
#include "ib_message.h"
#include "soft/engine/wire.h"

/* Fixed fields of the header. */
#define BASE_VERSION 1
#define CLASS 7 /* communication management */
#define CLASS_VERSION 2
#define METHOD_SEND 3
#define HEADER 24 /* bytes; offsets in the message are counted from its end */

static uint8_t *put_u24(uint8_t *at, uint32_t value)
{
    *at = (uint8_t)(value >> 16);
    return put16(at + 1, (uint16_t)value);
}

static uint8_t place_bits(unsigned value, unsigned width, unsigned behind)
{
    return (uint8_t)((value & ((1u << width) - 1)) << behind);
}

static unsigned bits_of(uint8_t byte, unsigned width, unsigned behind)
{
    return (unsigned)byte >> behind & ((1u << width) - 1);
}

/* ---- Private data ---- */

struct room {
    uint8_t at, length;
};

static struct room room_of(unsigned type)
{
    static const struct room rooms[] = {
        [IB_REQ] = {140, 92}, [IB_MRA] = {10, 222},      [IB_REJ] = {84, 148},
        [IB_REP] = {36, 196}, [IB_RTU] = {8, 224},       [IB_DREQ] = {12, 220},
        [IB_DREP] = {8, 224}, [IB_SIDR_REQ] = {16, 216}, [IB_SIDR_REP] = {96, 136},
    };

    return type < sizeof rooms / sizeof *rooms ? rooms[type] : rooms[0];
}

size_t ib_private(unsigned type)
{
    return room_of(type).length;
}

/* ---- Encoding: `at` is the message, initially all zero ---- */

static void encode_req(const struct ib_req *req, uint8_t *at)
{
    put64(at + 8, req->service);
    put64(at + 16, req->ca_guid);
    put32(at + 28, req->qkey);
    put_u24(at + 32, req->qpn);
    at[35] = req->responder_resources;
    at[39] = req->initiator_depth;
    at[43] = place_bits(req->remote_response, 5, 3) | place_bits(req->transport, 2, 1) | req->flow_control;
    put_u24(at + 44, req->psn);
    at[47] = place_bits(req->local_response, 5, 3) | place_bits(req->retry_count, 3, 0);
    put16(at + 48, req->pkey);
    at[50] = place_bits(req->mtu, 4, 4) | place_bits(req->rnr_retry_count, 3, 0);
    at[51] = place_bits(req->cm_retries, 4, 4) | place_bits(req->srq, 1, 3);
    memcpy(at + 56, req->local_gid, IB_GID_BYTES);
    memcpy(at + 72, req->remote_gid, IB_GID_BYTES);
    put32(at + 88, req->flow_label << 12);
    at[92] = req->traffic_class;
    at[93] = req->hop_limit;
    at[95] = place_bits(req->ack_timeout, 5, 3);
    if (req->hop_limit > 1) /* the LIDs of a routed path */
        memset(at + 52, 0xff, 4);
}

static void encode_rep(const struct ib_rep *rep, uint8_t *at)
{
    put32(at + 8, rep->qkey);
    put_u24(at + 12, rep->qpn);
    put_u24(at + 20, rep->psn);
    at[24] = rep->responder_resources;
    at[25] = rep->initiator_depth;
    at[26] = place_bits(rep->ack_delay, 5, 3) | rep->flow_control;
    at[27] = place_bits(rep->rnr_retry_count, 3, 5) | place_bits(rep->srq, 1, 4);
    put64(at + 28, rep->ca_guid);
}

static void encode_rej(const struct ib_message *message, uint8_t *at)
{
    at[8] = place_bits(message->rej.answered, 2, 6);
    at[9] = place_bits(message->rej.info_length, 7, 1);
    put16(at + 10, message->rej.reason);
    memcpy(at + 12, message->rej.info, message->rej.info_length);
}

static void encode_body(const struct ib_message *message, uint8_t *at)
{
    switch (message->type) {
    case IB_REQ:
        encode_req(&message->req, at);
        break;
    case IB_REP:
        encode_rep(&message->rep, at);
        break;
    case IB_MRA:
        at[8] = place_bits(message->mra.answered, 2, 6);
        at[9] = place_bits(message->mra.service_time, 5, 3);
        break;
    case IB_REJ:
        encode_rej(message, at);
        break;
    case IB_DREQ:
        put_u24(at + 8, message->dreq.qpn);
        break;
    case IB_SIDR_REQ:
        put16(at + 4, message->sidr_req.pkey);
        put64(at + 8, message->sidr_req.service);
        break;
    case IB_SIDR_REP:
        at[4] = message->sidr_rep.status;
        put_u24(at + 8, message->sidr_rep.qpn);
        put64(at + 12, message->sidr_rep.service);
        put32(at + 20, message->sidr_rep.qkey);
        break;
    case IB_RTU:
    case IB_DREP:
        break;
    }
}

static bool has_remote_id(unsigned type)
{
    return type != IB_REQ && type != IB_SIDR_REQ && type != IB_SIDR_REP;
}

void ib_encode(const struct ib_message *message, uint8_t mad[IB_MAD_BYTES])
{
    struct room room = room_of(message->type);
    uint8_t *at = mad + HEADER;

    memset(mad, 0, IB_MAD_BYTES);
    mad[0] = BASE_VERSION;
    mad[1] = CLASS;
    mad[2] = CLASS_VERSION;
    mad[3] = METHOD_SEND;
    put64(mad + 8, message->transaction);
    put16(mad + 16, (uint16_t)message->type);
    put32(at, message->local_id);
    if (has_remote_id(message->type))
        put32(at + 4, message->remote_id);
    encode_body(message, at);
    memcpy(at + room.at, message->private_data, room.length);
}

/* ---- Decoding: false if a field is invalid ---- */

static bool decode_req(struct ib_req *req, const uint8_t *at)
{
    unsigned transport = bits_of(at[43], 2, 1);

    *req = (struct ib_req){
        .service = get64(at + 8),
        .ca_guid = get64(at + 16),
        .qkey = get32(at + 28),
        .qpn = get24(at + 32),
        .responder_resources = at[35],
        .initiator_depth = at[39],
        .remote_response = (uint8_t)bits_of(at[43], 5, 3),
        .transport = (enum ib_transport)transport,
        .flow_control = at[43] & 1,
        .psn = get24(at + 44),
        .local_response = (uint8_t)bits_of(at[47], 5, 3),
        .retry_count = (uint8_t)bits_of(at[47], 3, 0),
        .pkey = get16(at + 48),
        .mtu = (uint8_t)bits_of(at[50], 4, 4),
        .rnr_retry_count = (uint8_t)bits_of(at[50], 3, 0),
        .cm_retries = (uint8_t)bits_of(at[51], 4, 4),
        .srq = bits_of(at[51], 1, 3),
        .flow_label = get32(at + 88) >> 12,
        .traffic_class = at[92],
        .hop_limit = at[93],
        .ack_timeout = (uint8_t)bits_of(at[95], 5, 3),
    };
    memcpy(req->local_gid, at + 56, IB_GID_BYTES);
    memcpy(req->remote_gid, at + 72, IB_GID_BYTES);
    return soft_is_qpn(req->qpn) && transport <= IB_UC && req->mtu >= IBV_MTU_256 && req->mtu <= IBV_MTU_4096;
}

static bool decode_rep(struct ib_rep *rep, const uint8_t *at)
{
    *rep = (struct ib_rep){
        .qkey = get32(at + 8),
        .qpn = get24(at + 12),
        .psn = get24(at + 20),
        .responder_resources = at[24],
        .initiator_depth = at[25],
        .ack_delay = (uint8_t)bits_of(at[26], 5, 3),
        .flow_control = at[26] & 1,
        .rnr_retry_count = (uint8_t)bits_of(at[27], 3, 5),
        .srq = bits_of(at[27], 1, 4),
        .ca_guid = get64(at + 28),
    };
    return soft_is_qpn(rep->qpn);
}

static bool decode_answered(enum ib_answered *answered, uint8_t byte)
{
    *answered = (enum ib_answered)bits_of(byte, 2, 6);
    return *answered <= IB_TO_OTHER;
}

static bool decode_rej(struct ib_message *message, const uint8_t *at)
{
    message->rej.info_length = (uint8_t)bits_of(at[9], 7, 1);
    message->rej.reason = get16(at + 10);
    if (message->rej.info_length > IB_INFO_MAX)
        return false;
    memcpy(message->rej.info, at + 12, message->rej.info_length);
    return decode_answered(&message->rej.answered, at[8]);
}

static bool decode_sidr_rep(struct ib_message *message, const uint8_t *at)
{
    message->sidr_rep.status = at[4];
    message->sidr_rep.qpn = get24(at + 8);
    message->sidr_rep.service = get64(at + 12);
    message->sidr_rep.qkey = get32(at + 20);
    return at[4] != 0 || soft_is_qpn(message->sidr_rep.qpn);
}

static bool decode_body(struct ib_message *message, const uint8_t *at)
{
    switch (message->type) {
    case IB_REQ:
        return decode_req(&message->req, at);
    case IB_REP:
        return decode_rep(&message->rep, at);
    case IB_MRA:
        message->mra.service_time = (uint8_t)bits_of(at[9], 5, 3);
        return decode_answered(&message->mra.answered, at[8]);
    case IB_REJ:
        return decode_rej(message, at);
    case IB_DREQ:
        message->dreq.qpn = get24(at + 8);
        return true;
    case IB_SIDR_REQ:
        message->sidr_req.pkey = get16(at + 4);
        message->sidr_req.service = get64(at + 8);
        return true;
    case IB_SIDR_REP:
        return decode_sidr_rep(message, at);
    case IB_RTU:
    case IB_DREP:
        return true;
    }
    return false;
}

bool ib_decode(struct ib_message *message, const uint8_t mad[IB_MAD_BYTES])
{
    const uint8_t *at = mad + HEADER;
    unsigned type = get16(mad + 16);
    struct room room = room_of(type);

    memset(message, 0, sizeof *message);
    if (mad[0] != BASE_VERSION || mad[1] != CLASS || mad[2] != CLASS_VERSION || mad[3] != METHOD_SEND ||
        room.length == 0)
        return false;
    message->type = (enum ib_type)type;
    message->transaction = get64(mad + 8);
    message->local_id = get32(at);
    message->remote_id = has_remote_id(type) ? get32(at + 4) : 0;
    memcpy(message->private_data, at + room.at, room.length);
    if (decode_body(message, at))
        return true;
    memset(message, 0, sizeof *message);
    return false;
}
