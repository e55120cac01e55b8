/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol.h - what two EXS libraries say to each other over a reliable connection.
 *
 * Everything is big-endian and of fixed width. Three forms:
 *
 *   hello    private data of connect and accept (and of reject, with a reason)
 *   data     RDMA WRITE WITH IMMEDIATE; the immediate says what was written (IMM_ below). Where either
 *            device has none (iWARP), RDMA WRITE and then a control message that says the same. Also a WRITE of no
 *            bytes names the key of the buffer that it is about: a device may check it
 *   control  a SEND of CONTROL_SIZE bytes: advertisement and its recall, acknowledgement, credit, end of
 *            stream
 *
 * Data goes straight into a receive buffer that the peer advertised (direct), or, on a STREAM that holds no
 * advertisement, into the peer's hidden circular buffer (indirect), from where it is copied out. The two never
 * mix: `phase` is even while data is direct, odd while it is indirect, and an advertisement is used only if
 *
 *   - it is of the sender's own, even phase, or
 *   - it is of a later phase and says that all bytes sent so far had arrived when it was made (position).
 *
 * Any other crossed with indirect data on its way and is stale: the sender drops it, and the receiver takes it
 * back by itself when that data arrives.
 *
 * Every message uses up one receive that the peer has posted: a credit. The last ones are kept back, so that
 * both sides can always return credits (CREDITS_ below). With the end of a stream all are returned, and so tell
 * that what they were used for has arrived, and what was written before it: whoever sent it may miss the
 * acknowledgement, and ask in vain.
 *
 * Who says what cannot be is believed no more, and the connection ends, at both ends with ECONNRESET:
 *
 *   - a message of no known type or length, or one that was not agreed on;
 *   - an advertisement of nothing, of an odd phase, of bytes of the stream that were not sent, or one too many;
 *   - an acknowledgement of bytes that were not sent, or were acknowledged before;
 *   - data for which there is no room, or with bits that it can't have; of no bytes on a STREAM, but for the
 *     end of a direct transfer that was cut off; behind the end of the stream; indirect data, or the end of a
 *     SEQPACKET, where a direct transfer is to go on;
 *   - an answer that nobody asked for, or to an end that was not said; more credits than there are; a message
 *     without a credit.
 */
#ifndef XS_PROTOCOL_H
#define XS_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <exs.h>

/* ---- hello ----------------------------------------------------------------------------- */

#define HELLO_MAGIC 0x45585332u /* "EXS2" */
#define HELLO_VERSION 1
#define HELLO_SIZE 32

struct hello {
    uint32_t magic;
    uint16_t version;
    uint8_t socktype; /* SOCK_STREAM or SOCK_SEQPACKET */
    uint8_t reason;   /* of a reject: HELLO_REASON_..., else 0 */
    uint32_t credits; /* receives posted for the peer */
    uint16_t flags;   /* HELLO_NO_IMMEDIATE, HELLO_IMM_CREDITS, HELLO_EMPTY_END */
    uint16_t adverts; /* most advertisements that may be outstanding towards the sender of this hello */
    uint32_t hidden_size;
    uint32_t hidden_rkey;
    uint64_t hidden_addr;
};

/* flags */
#define HELLO_NO_IMMEDIATE 1 /* this side has no RDMA WRITE WITH IMMEDIATE, so neither uses it */
#define HELLO_IMM_CREDITS 2  /* this side reads IMM_CREDITS */
#define HELLO_EMPTY_END 4 /* this side takes data of no bytes on a STREAM, for the end of a direct transfer */

#define HELLO_CREDITS_MIN 4
#define HELLO_CREDITS_MAX 65535
#define HELLO_HIDDEN_MIN 1024 /* bytes */
#define HELLO_HIDDEN_MAX (1u << 30)

enum { HELLO_OK, HELLO_BAD_VERSION, HELLO_BAD_TYPE, HELLO_BAD_VALUE, HELLO_NO_RESOURCES, HELLO_NO_EXS };

void xs_hello_pack(const struct hello *hello, uint8_t out[HELLO_SIZE]);
/* HELLO_OK, or the reason why it cannot be accepted by a socket of this type. */
int xs_hello_unpack(struct hello *hello, const void *in, size_t length, int socktype);
/* The errno that a connect gets for a reason, and for a reject; ECONNREFUSED when it has none. */
int xs_hello_errno(int reason);
int xs_reject_errno(const void *in, size_t length);

/* ---- data ------------------------------------------------------------------------------ */

#define IMM_DIRECT 0x80000000u /* into the first advertised buffer; else into the hidden buffer */
#define IMM_MORE 0x40000000u   /* direct: this transfer goes on with the next message */
#define IMM_TRUNC 0x20000000u  /* direct: the message was longer than the buffer */
#define IMM_LENGTH 0x0fffffffu /* bytes */
#define DATA_MAX (1u << 27)    /* most bytes of one message */

/* A short message returns credits, so that two that talk in short messages need no others for that. */
#define IMM_CREDITS 0x10000000u /* the length has 16 bits, and above them is a number of credits */
#define IMM_SHORT_MAX 0xffffu   /* bytes of a message that can */
#define IMM_CREDITS_SHIFT 16    /* where they are */
#define IMM_CREDITS_MASK 0x0fff0000u

/* ---- control ---------------------------------------------------------------------------- */

enum control_type {
    CONTROL_ADVERT = 1, /* here you may write */
    CONTROL_ACK,        /* so much of the hidden buffer was copied out */
    CONTROL_CREDIT,     /* credits alone */
    CONTROL_FIN,        /* no more data will come */
    CONTROL_RECALL,     /* forget what I advertised, when the transfer ends that has begun there */
    CONTROL_RECALLED,   /* forgotten: nothing more is written there */
    CONTROL_DATA        /* what was written before this; only without immediate data */
};

#define CONTROL_SIZE 40
#define CONTROL_WAITALL 1 /* flags of an ADVERT: used until it is full */
#define CONTROL_HAS_END 2 /* flags of any: your FIN has come, and with it all before it */

struct control {
    uint8_t type;
    uint8_t flags;
    uint16_t credits;  /* receives posted anew since the last control message */
    uint32_t phase;    /* ADVERT; DATA: what the immediate would say */
    uint64_t position; /* ADVERT: bytes of the stream that had arrived; ACK: bytes ever copied out */
    uint64_t addr;     /* ADVERT */
    uint64_t length;   /* ADVERT, bytes */
    uint32_t rkey;     /* ADVERT */
};

void xs_control_pack(const struct control *control, uint8_t out[CONTROL_SIZE]);
/* False when it is no control message. */
bool xs_control_unpack(struct control *control, const void *in, size_t length);

/* ---- token -------------------------------------------------------------------------------- */

/* What a peer needs to use exported memory. It is the application's to carry; the hidden buffer's key and
 * address say which connection it is for. */

#define TOKEN_MAGIC 0x45585401u /* "EXT", version 1 */

struct token {
    uint32_t access; /* EXS_REMOTE_ */
    uint32_t hidden_rkey;
    uint64_t hidden_addr;
    uint32_t rkey;
    uint64_t addr;
    uint64_t length; /* bytes */
};

void xs_token_pack(const struct token *token, exs_token_t *out);
/* False when it is no token. */
bool xs_token_unpack(struct token *token, const exs_token_t *in);

/* ---- credits ------------------------------------------------------------------------------ */

/* What may be used: all but CREDIT and FIN leave 2 credits, one for each of these. So FIN never waits for a credit, and
 * after it CREDIT takes the last. A side returns credits at the latest when it owes half of them; so one that has run
 * dry is owed less than half, or a CREDIT is on its way to it. */
#define CREDITS_KEPT 2
#define CREDITS_KEPT_FOR_FIN 1

#endif
