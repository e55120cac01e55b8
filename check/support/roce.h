/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roce.h - reads and writes RoCE v2 packets from the BTH on, for tests.
 *
 * Written from the specification and not from the engine, so that a mistake there is not repeated here.
 */
#ifndef CHECK_ROCE_H
#define CHECK_ROCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum roce_transport { /* added to an opcode */
                      ROCE_RC = 0x00,
                      ROCE_UC = 0x20,
                      ROCE_UD = 0x60,
                      ROCE_XRC = 0xa0
};

enum roce_opcode { /* opcodes of reliable connections: transport bits 000 */
                   SEND_FIRST = 0x00,
                   SEND_MIDDLE = 0x01,
                   SEND_LAST = 0x02,
                   SEND_LAST_IMM = 0x03,
                   SEND_ONLY = 0x04,
                   SEND_ONLY_IMM = 0x05,
                   WRITE_FIRST = 0x06,
                   WRITE_MIDDLE = 0x07,
                   WRITE_LAST = 0x08,
                   WRITE_LAST_IMM = 0x09,
                   WRITE_ONLY = 0x0a,
                   WRITE_ONLY_IMM = 0x0b,
                   READ_REQUEST = 0x0c,
                   READ_RESPONSE_FIRST = 0x0d,
                   READ_RESPONSE_MIDDLE = 0x0e,
                   READ_RESPONSE_LAST = 0x0f,
                   READ_RESPONSE_ONLY = 0x10,
                   ACKNOWLEDGE = 0x11,
                   ATOMIC_ACKNOWLEDGE = 0x12,
                   COMPARE_SWAP = 0x13,
                   FETCH_ADD = 0x14,
                   SEND_LAST_INV = 0x16,
                   SEND_ONLY_INV = 0x17,
                   ROCE_NO_OPCODE = 0x100
};

enum roce_syndrome {
    SYNDROME_ACK = 0x1f, /* without end-to-end credits */
    SYNDROME_RNR = 0x20, /* + timer code */
    SYNDROME_SEQUENCE = 0x60,
    SYNDROME_INVALID_REQUEST = 0x61,
    SYNDROME_ACCESS = 0x62,
    SYNDROME_OPERATION = 0x63
};

#define ROCE_BTH 12
#define ROCE_RETH 16
#define ROCE_XRCETH 4
#define ROCE_ATOMIC 28
#define ROCE_AETH 4
#define ROCE_ORIGINAL 8
#define ROCE_IMM 4
#define ROCE_IETH 4
#define ROCE_DETH 8
#define ROCE_PSN_MASK 0xffffffu
#define ROCE_MAX (ROCE_BTH + ROCE_DETH + ROCE_RETH + ROCE_IMM + 4096 + 4)

/* A packet's fields in host byte order; imm is in network byte order. Owned by the caller; payload points into the
 * packet. */
struct roce {
    uint8_t opcode;
    bool solicited, migreq, ackreq;
    uint8_t pad, version;
    uint8_t congestion; /* FECN, BECN and six reserved bits */
    uint8_t reserved;   /* the seven reserved bits next to AckReq */
    uint16_t pkey;
    uint32_t qpn, psn;
    bool has_xrceth; /* XRCETH: in requests of XRC */
    uint32_t srqn;   /* number of the shared receive queue */
    bool has_deth, has_reth, has_atomic, has_aeth, has_imm, has_ieth, has_original;
    uint32_t qkey, source; /* DETH: the Q_Key and the sender's queue pair */
    uint64_t va;
    uint32_t rkey, dma_length;
    uint64_t swap_add, compare; /* AtomicETH; its address and key are va and rkey */
    uint64_t original;          /* AtomicAckETH */
    uint8_t syndrome;
    uint32_t msn;
    uint32_t imm;
    uint32_t invalidate; /* IETH: the key to invalidate */
    const uint8_t *payload;
    size_t payload_length; /* without the pad */
};

/* Returns false if the packet is too short for its headers, or its opcode belongs to no transport. */
bool roce_read(struct roce *roce, const uint8_t *packet, size_t length);
/* Writes the packet with its pad to a buffer of at least ROCE_MAX bytes. Returns its length. */
size_t roce_write(uint8_t *packet, const struct roce *roce);
/* Returns the bytes of headers behind the BTH for this opcode, or -1 if it is unknown. */
int roce_extension(unsigned opcode);

static inline uint32_t roce_psn(uint32_t psn)
{
    return psn & ROCE_PSN_MASK;
}
/* Number of PSNs of a message: one for each packet, or for each READ response. */
static inline uint32_t roce_packets(size_t length, size_t mtu)
{
    return length ? (uint32_t)((length + mtu - 1) / mtu) : 1;
}

#endif
