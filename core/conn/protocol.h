/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol.h - the protocol between two EXS libraries, over a reliable connection.
 *
 * All fields are big-endian and of fixed width. There are three kinds of messages:
 *
 *   hello    the private data of connect and accept, and of reject, which has a reason
 *   data     RDMA WRITE WITH IMMEDIATE; the immediate data describes the data that was written (IMM_ below). If a
 *            device has no immediate data (iWARP), RDMA WRITE and then a control message with the same description. A
 *            WRITE of no bytes also has the address and rkey of the target, because a device may check them
 *   control  a SEND of CONTROL_SIZE bytes: advertisement and its recall, acknowledgement, credits, end of stream
 *
 * A sender writes into a receive buffer that the peer has advertised (direct transfer). On a STREAM, a sender without
 * an advertisement writes into the peer's ring buffer, out of which the peer's library copies the bytes (indirect
 * transfer). Each direction of a STREAM has a phase, which is even while transfers are direct and odd while they are
 * indirect. The sender uses an advertisement only if
 *
 *   - its phase is the sender's current phase, and that is even; or
 *   - its phase is later than the sender's, and all bytes sent so far had arrived when it was made (position).
 *
 * Any other advertisement has crossed with indirect data and is stale. The sender drops it, and the receiver cancels
 * it when that data arrives, without another message.
 *
 * The ring buffer of a STREAM grows if it limits a long path (ring.c), and if both sides support that. The sender asks
 * with RING_WANTED, and the receiver may answer with RING, or not at all. The sender marks the first data that it
 * writes into the new ring buffer with IMM_NEW_RING. Because messages arrive in order, the receiver then knows that no
 * more data will arrive in the old one. In each ring buffer the offset of a byte is its number, counted over all
 * indirect bytes of the connection, modulo the size of the ring buffer.
 *
 * Each message consumes one receive that the peer has posted, a credit. The last credits are reserved, so that both
 * sides can always return credits (CREDITS_ below). The message that ends the stream returns all of them. They prove
 * that the messages that used them have arrived, and all writes before these, even if the peer leaves before it has
 * acknowledged everything.
 *
 * A side that receives a message that violates the protocol ends the connection, at both ends with ECONNRESET:
 *
 *   - a message of unknown type or length, or of a kind that was not agreed on;
 *   - an advertisement of no bytes, of an odd phase, with a position beyond the bytes sent, or one too many;
 *   - an acknowledgement of bytes that were not sent, or fewer bytes than acknowledged before;
 *   - data that exceeds the advertised buffer or the free part of the ring buffer, or with invalid bits; data of no
 *     bytes on a STREAM, unless it ends a direct transfer that was cut off; data after the end of the stream; indirect
 *     data, or the end of a SEQPACKET, while a direct transfer is incomplete;
 *   - a ring that was not asked for, or that is not larger; data in a ring that was not offered;
 *   - RECALLED without a RECALL, or an acknowledgement of a FIN that was not sent; more credits than there are
 *     receives; a message without a credit.
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
    uint8_t reason;   /* of a reject: HELLO_BAD_ or HELLO_NO_, below; else 0 */
    uint32_t credits; /* number of receives that the sender of this hello has posted for messages */
    uint16_t flags;   /* HELLO_NO_IMMEDIATE, HELLO_IMM_CREDITS, HELLO_EMPTY_END, HELLO_RING_GROWS */
    uint16_t adverts; /* maximum number of advertisements that the sender of this hello holds */
    /* The ring buffer of the sender of this hello: bytes, key, address. */
    uint32_t recv_ring_size;
    uint32_t recv_ring_rkey;
    uint64_t recv_ring_addr;
};

/* Flags of a hello. */
#define HELLO_NO_IMMEDIATE 1 /* the sender has no RDMA WRITE WITH IMMEDIATE, so neither side uses it */
#define HELLO_IMM_CREDITS 2  /* the sender understands IMM_CREDITS */
#define HELLO_EMPTY_END 4    /* the sender accepts data of no bytes on a STREAM: the end of a direct transfer */

#define HELLO_RING_GROWS 8 /* the sender understands CONTROL_RING_WANTED, CONTROL_RING and IMM_NEW_RING */

/* Limits of a valid hello. */
#define HELLO_CREDITS_MIN 4
#define HELLO_CREDITS_MAX 65535
#define HELLO_RECV_RING_MIN 1024 /* bytes */
#define HELLO_RECV_RING_MAX (1u << 30)

enum { HELLO_OK, HELLO_BAD_VERSION, HELLO_BAD_TYPE, HELLO_BAD_VALUE, HELLO_NO_RESOURCES, HELLO_NO_EXS };

void xs_hello_pack(const struct hello *hello, uint8_t out[HELLO_SIZE]);
/* Unpacks and checks a hello for a socket of this type. Returns HELLO_OK, or the reason to refuse it. */
int xs_hello_unpack(struct hello *hello, const void *in, size_t length, int socktype);
/* Return the errno with which a connect fails: for a reason, and for the private data of a reject; ECONNREFUSED if that
 * contains no reason. */
int xs_hello_errno(int reason);
int xs_reject_errno(const void *in, size_t length);

/* ---- data ------------------------------------------------------------------------------ */

#define IMM_DIRECT 0x80000000u   /* the data is in the first advertised buffer; else it is in the ring buffer */
#define IMM_MORE 0x40000000u     /* direct: the next message continues this transfer */
#define IMM_TRUNC 0x20000000u    /* direct: the message was longer than the buffer */
#define IMM_NEW_RING 0x20000000u /* indirect: the first data in the ring buffer that CONTROL_RING offered */
#define IMM_LENGTH 0x0fffffffu   /* bytes */
#define DATA_MAX (1u << 27)      /* maximum number of bytes of one message */

/* A short message may also return credits, so that peers that exchange short messages need no control messages for
 * that. */
#define IMM_CREDITS 0x10000000u /* the length has 16 bits, and the bits above them are a number of credits */
#define IMM_SHORT_MAX 0xffffu   /* maximum bytes of a message that returns credits */
#define IMM_CREDITS_SHIFT 16    /* position of the number of credits */
#define IMM_CREDITS_MASK 0x0fff0000u

/* ---- control ---------------------------------------------------------------------------- */

enum control_type {
    CONTROL_ADVERT = 1, /* a buffer that the peer may write to */
    CONTROL_ACK,        /* how many bytes were copied out of the ring buffer */
    CONTROL_CREDIT,     /* returns credits, as all control messages do, and nothing else */
    CONTROL_FIN,        /* no more data follows */
    CONTROL_RECALL,     /* the peer must drop the advertisements, but may finish a transfer that has begun */
    CONTROL_RECALLED, /* the sender of this message has dropped the advertisements, and writes nothing more there */
    CONTROL_DATA,     /* describes the data that was written before it; only without immediate data */
    CONTROL_RING_WANTED, /* the ring buffer limits the sender of this message: it asks for a larger one */
    CONTROL_RING         /* a larger ring buffer: the sender of indirect data uses it from now on */
};

#define CONTROL_SIZE 40
#define CONTROL_WAITALL 1 /* flag of an ADVERT: the buffer is used until it is full */
#define CONTROL_HAS_END 2 /* flag of all types: the peer's FIN has arrived, and everything before it */

/* A control message. */
struct control {
    uint8_t type;
    uint8_t flags;
    uint16_t credits; /* receives that were posted again since credits were last returned */
    /* ADVERT: the phase; DATA: the immediate data that a device with immediate data would send. */
    uint32_t phase;
    /* ADVERT: bytes of the stream that had arrived; ACK: bytes copied out since the connection began. */
    uint64_t position;
    /* ADVERT, RING: address, bytes and key of the buffer. */
    uint64_t addr;
    uint64_t length;
    uint32_t rkey;
};

void xs_control_pack(const struct control *control, uint8_t out[CONTROL_SIZE]);
/* Returns false if it is not a control message. */
bool xs_control_unpack(struct control *control, const void *in, size_t length);

/* ---- token -------------------------------------------------------------------------------- */

/* A token: the data that a peer needs to access exported memory. The application must send it to the peer. The key and
 * address of this end's ring buffer identify the connection that the token is for. */

#define TOKEN_MAGIC 0x45585401u /* "EXT", version 1 */

struct token {
    uint32_t access; /* EXS_REMOTE_ */
    uint32_t recv_ring_rkey;
    uint64_t recv_ring_addr;
    uint32_t rkey;
    uint64_t addr;
    uint64_t length; /* bytes */
};

void xs_token_pack(const struct token *token, exs_token_t *out);
/* Returns false if it is not a token. */
bool xs_token_unpack(struct token *token, const exs_token_t *in);

/* ---- credits ------------------------------------------------------------------------------ */

/* All messages but CREDIT and FIN must leave 2 credits unused, one for each of these two. So FIN never waits for a
 * credit, and CREDIT uses the last one after FIN. A side returns credits at the latest when it owes the peer half of
 * them; therefore, if a side has no credits, the peer owes it less than half, or a CREDIT is on its way. */
#define CREDITS_KEPT 2
#define CREDITS_KEPT_FOR_FIN 1

#endif
