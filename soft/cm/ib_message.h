/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_message.h - the messages of InfiniBand's connection managers, with which adapters and the kernel's RDMA devices
 * set up connections, on queue pair 1 of RoCE's port. Two software devices use TCP instead (cm_message.h).
 *
 * Each message is a management datagram (MAD) of 256 bytes: a header of 24 bytes and the message of 232. Numbers are
 * big-endian (IBA volume 1, chapter 12; message formats 12.6 and 12.11). Fields that RoCE does not use (LIDs, service
 * levels, alternate paths, end-to-end contexts) are sent as zero and ignored.
 *
 * Private data has no length: each type has a field for it, which arrives as a whole.
 */
#ifndef SOFT_IB_MESSAGE_H
#define SOFT_IB_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IB_MAD_BYTES 256
#define IB_PRIVATE_MAX 224 /* maximum bytes of private data in a message of any type */
#define IB_INFO_MAX 72     /* maximum bytes of a REJ's additional information */
#define IB_GID_BYTES 16

/* Types of messages: the attribute ID of the datagram. */
enum ib_type {
    IB_REQ = 0x10,
    IB_MRA = 0x11,
    IB_REJ = 0x12,
    IB_REP = 0x13,
    IB_RTU = 0x14,
    IB_DREQ = 0x15,
    IB_DREP = 0x16,
    IB_SIDR_REQ = 0x17,
    IB_SIDR_REP = 0x18
};

/* The message of the peer that an MRA or REJ answers. */
enum ib_answered { IB_TO_REQ, IB_TO_REP, IB_TO_OTHER };

enum ib_transport { IB_RC, IB_UC };

/* Reasons of a REJ: those that EXS sends or distinguishes. */
enum ib_reason {
    IB_TIMEOUT = 4,
    IB_INVALID_SERVICE = 8, /* no listener */
    IB_STALE = 10,          /* the peer still has a connection of this queue pair */
    IB_INVALID_GID = 12,
    IB_INVALID_MTU = 26,
    IB_CONSUMER = 28
};

/* The status of a reply to a look-up. */
enum ib_sidr_status {
    IB_SIDR_VALID,
    IB_SIDR_UNSUPPORTED, /* no listener */
    IB_SIDR_REJECTED
};

/* The fields of a REQ. Times have 5 bits: n means 4.096 us * 2^n. */
struct ib_req {
    uint64_t service, ca_guid; /* ca_guid, in all messages: GUID of the sender's node */
    uint32_t qpn, psn;         /* the sender's queue pair; the first PSN that the sender expects */
    uint32_t qkey;
    uint8_t responder_resources, initiator_depth;
    /* Times: how long the receiver, and the sender, may take to answer. */
    uint8_t remote_response, local_response;
    enum ib_transport transport;
    bool flow_control, srq;
    uint8_t retry_count, rnr_retry_count; /* 3 bits: of the receiver's queue pair */
    uint8_t cm_retries;                   /* 4 bits: maximum retransmissions of a message */
    uint16_t pkey;
    uint8_t mtu; /* an enum ibv_mtu */
    uint8_t local_gid[IB_GID_BYTES], remote_gid[IB_GID_BYTES];
    uint32_t flow_label; /* 20 bits */
    uint8_t traffic_class, hop_limit;
    uint8_t ack_timeout; /* time: ACK timeout for the receiver's queue pair */
};

/* The fields of a REP. */
struct ib_rep {
    uint64_t ca_guid;
    uint32_t qpn, psn, qkey;
    uint8_t responder_resources, initiator_depth;
    uint8_t ack_delay;       /* maximum time in which the sender acknowledges packets */
    uint8_t rnr_retry_count; /* 3 bits: of the receiver's queue pair */
    bool flow_control, srq;
};

/* A message, decoded. */
struct ib_message {
    enum ib_type type;
    uint64_t transaction;
    /* The connection's number at the sender, and at the receiver. A REQ, a SIDR_REQ and a SIDR_REP have only local_id;
     * that of a SIDR_REP is that of the SIDR_REQ. */
    uint32_t local_id, remote_id;
    union {
        struct ib_req req;
        struct ib_rep rep;
        struct {
            enum ib_answered answered;
            uint8_t service_time; /* time for which the receiver must wait */
        } mra;
        struct {
            enum ib_answered answered;
            uint16_t reason; /* an enum ib_reason, or any other value */
            uint8_t info_length, info[IB_INFO_MAX];
        } rej;
        struct {
            uint32_t qpn; /* the receiver's queue pair */
        } dreq;
        struct {
            uint64_t service;
            uint16_t pkey;
        } sidr_req;
        struct {
            uint64_t service;
            uint32_t qpn, qkey;
            uint8_t status; /* an enum ib_sidr_status, or any other value */
        } sidr_rep;
    };
    uint8_t private_data[IB_PRIVATE_MAX]; /* the first ib_private() bytes are used */
};

/* Returns the bytes of private data in a message of this type; 0: the type is unknown. */
size_t ib_private(unsigned type);

void ib_encode(const struct ib_message *message, uint8_t mad[IB_MAD_BYTES]);

/* Decodes a message. False: the type is unknown or a field is invalid, and *message is all zero. */
bool ib_decode(struct ib_message *message, const uint8_t mad[IB_MAD_BYTES]);

#endif
