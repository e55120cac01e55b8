/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * packet.h - packets of InfiniBand's transport: headers, opcodes, packet sequence numbers (PSN).
 *
 * A packet begins here with the BTH and ends with the payload's pad; addresses and checksums belong to the link. All
 * fields are big-endian on the wire. IBTA volume 1, chapter 9, defines the headers: BTH, RETH (remote address, key and
 * length), AtomicETH, AETH (acknowledgement), DETH (datagram), XRCETH, IETH (key to invalidate), immediate data.
 */
#ifndef SOFT_PACKET_H
#define SOFT_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of each header. */
#define SOFT_BTH_BYTES 12
#define SOFT_RETH_BYTES 16
#define SOFT_ATOMIC_BYTES 28
#define SOFT_AETH_BYTES 4
#define SOFT_IMM_BYTES 4
#define SOFT_ATOMIC_ACK_BYTES 8
#define SOFT_DETH_BYTES 8
#define SOFT_XRCETH_BYTES 4
#define SOFT_HEADER_MAX (SOFT_BTH_BYTES + SOFT_XRCETH_BYTES + SOFT_ATOMIC_BYTES)
#define SOFT_PACKET_MAX (SOFT_MTU_MAX + SOFT_HEADER_MAX + 3) /* bytes, with the pad */

#define SOFT_PSN_MASK 0xffffffu

/* Transports: the upper bits of an opcode. */
enum {
    SOFT_RC = 0x00,  /* reliable connection */
    SOFT_UC = 0x20,  /* unreliable connection */
    SOFT_UD = 0x60,  /* unreliable datagram */
    SOFT_XRC = 0xa0, /* extended reliable connection */
    SOFT_TRANSPORT = 0xe0,
};

/* Opcodes of reliable connections. SOFT_SEND and SOFT_WRITE are the opcodes of a message's first packet; those of its
 * middle, last, last with immediate data, only, and only with immediate data follow in this order. The other transports
 * have a subset of these opcodes, with their own upper bits. */
enum {
    SOFT_SEND = 0x00,
    SOFT_WRITE = 0x06,
    SOFT_READ_REQUEST = 0x0c,
    SOFT_READ_FIRST = 0x0d,
    SOFT_READ_MIDDLE = 0x0e,
    SOFT_READ_LAST = 0x0f,
    SOFT_READ_ONLY = 0x10,
    SOFT_ACK = 0x11,
    SOFT_ATOMIC_ACK = 0x12,
    SOFT_CMP_SWAP = 0x13,
    SOFT_FETCH_ADD = 0x14,
    SOFT_SEND_LAST_INV = 0x16, /* with a key to be invalidated */
    SOFT_SEND_ONLY_INV = 0x17,
    SOFT_CNP = 0x81, /* congestion notification packet */
};

/* The properties of an opcode. */
enum {
    SOFT_OP_SEND = 1 << 0,
    SOFT_OP_WRITE = 1 << 1,
    SOFT_OP_READ = 1 << 2,
    SOFT_OP_ATOMIC = 1 << 3,
    SOFT_OP_ANSWER = 1 << 4, /* a packet from a responder to a requester */
    SOFT_OP_FIRST = 1 << 5,  /* first packet of a message */
    SOFT_OP_LAST = 1 << 6,   /* last packet of a message */
    SOFT_OP_RETH = 1 << 7,
    SOFT_OP_AETH = 1 << 8,
    SOFT_OP_IMM = 1 << 9,
    SOFT_OP_ATOMICETH = 1 << 10,
    SOFT_OP_ATOMICACK = 1 << 11,
    SOFT_OP_DETH = 1 << 12,
    SOFT_OP_UNKNOWN = 1 << 13, /* a request with an unknown opcode, which must be refused */
    SOFT_OP_IETH = 1 << 14,    /* has the length and the place of immediate data */
    SOFT_OP_XRCETH = 1 << 15,
    SOFT_OP_REQUEST = SOFT_OP_SEND | SOFT_OP_WRITE | SOFT_OP_READ | SOFT_OP_ATOMIC,
};

/* AETH syndromes: the kind is in the upper three bits. */
enum {
    SOFT_SYNDROME_ACK = 0x1f, /* with the credit count "invalid" */
    SOFT_SYNDROME_RNR = 0x20, /* receiver not ready; combined with the code of a time */
    SOFT_SYNDROME_SEQUENCE = 0x60,
    SOFT_SYNDROME_INVALID = 0x61,
    SOFT_SYNDROME_ACCESS = 0x62,
    SOFT_SYNDROME_OPERATION = 0x63,
    SOFT_SYNDROME_KIND = 0xe0,
    SOFT_SYNDROME_CODE = 0x1f,
};

struct soft_target;

enum soft_payload {
    SOFT_PAYLOAD_HERE,    /* the payload is in the packet */
    SOFT_PAYLOAD_PLACED,  /* the payload is in its destination already */
    SOFT_PAYLOAD_VANISHED /* lost: the destination's memory has vanished */
};

/* A parsed packet; its pointers point into the packet. */
struct soft_packet {
    unsigned op; /* SOFT_OP_ bits */
    uint8_t opcode;
    bool solicited, ack_request;
    uint16_t pkey;
    uint32_t qpn, psn;
    uint64_t va; /* RETH, AtomicETH */
    uint32_t rkey, dma_length;
    uint64_t swap_add, compare;
    uint8_t syndrome; /* AETH */
    uint32_t msn;
    uint32_t imm;          /* immediate data in network byte order; the key, if the packet has an IETH */
    uint64_t original;     /* AtomicAckETH */
    uint32_t qkey, source; /* DETH: Q_Key, the sender's queue pair */
    uint32_t srqn;         /* XRCETH */
    const uint8_t *payload;
    uint32_t length; /* bytes of the payload without its pad */
    enum soft_payload where;
    /* Not NULL: the link asks where the payload belongs, and the packet must not be executed. */
    struct soft_target *target;
};

/* The fields of a BTH. */
struct soft_bth {
    uint8_t opcode;
    bool solicited, ack_request;
    uint8_t pad;
    uint32_t qpn, psn;
};

/* Parses a packet of `length` bytes. False: the packet is malformed, or of an unknown transport. */
bool soft_packet_parse(struct soft_packet *packet, const uint8_t *bytes, size_t length);

/* Each function writes its header and returns where the next one starts. */
uint8_t *soft_put_bth(uint8_t *at, const struct soft_bth *bth);
uint8_t *soft_put_reth(uint8_t *at, uint64_t va, uint32_t rkey, uint32_t length);
uint8_t *soft_put_atomic(uint8_t *at, uint64_t va, uint32_t rkey, uint64_t swap_add, uint64_t compare);
uint8_t *soft_put_deth(uint8_t *at, uint32_t qkey, uint32_t source);
uint8_t *soft_put_xrceth(uint8_t *at, uint32_t srqn);
uint8_t *soft_put_aeth(uint8_t *at, uint8_t syndrome, uint32_t msn);

/* Convert an RNR timer code, and a local ACK timeout (0: never), to nanoseconds. */
uint64_t soft_rnr_time(uint8_t code);
uint64_t soft_ack_time(uint8_t timeout);

/* In the engine PSNs have 64 bits and never wrap. Returns the 64-bit PSN nearest to `near` whose lower 24 bits are
 * `psn`. */
static inline uint64_t soft_psn_near(uint64_t near, uint32_t psn)
{
    int32_t distance = (int32_t)((psn - (uint32_t)near) << 8) >> 8;

    return near + (uint64_t)(int64_t)distance;
}

/* Returns the 64-bit PSN with which a sequence starts. It is so large that PSNs before it are not negative. */
static inline uint64_t soft_psn_start(uint32_t psn)
{
    return (UINT64_C(1) << 32) | (psn & SOFT_PSN_MASK);
}

/* Returns the number of packets (and PSNs) of a message of `length` bytes. */
static inline uint32_t soft_packets(uint32_t length, uint32_t mtu)
{
    return length == 0 ? 1 : (length - 1) / mtu + 1;
}

/* Returns the bytes of pad after this payload: the length of payload and pad is a multiple of 4. */
static inline uint8_t soft_pad(uint32_t length)
{
    return (uint8_t)(-length & 3);
}

#endif
