/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_message.h - the messages that the connection managers of two software devices exchange over TCP.
 *
 * Each message has a fixed size for its type and fixed-width fields in network byte order. The first 8 bytes have the
 * same format in every version, so that peers can detect that their versions differ:
 *
 *   0 magic 4 | 4 version 1 | 5 type 1 | 6 size of the whole message 2
 *
 * The fields: offset, name, size in bytes:
 *
 *   REQ, REP   8 queue pair number 4 | 12 first packet sequence number that the sender expects 4
 *              16 UDP port 2 | 18 path MTU 1 (enum ibv_mtu) | 19 responder resources 1 | 20 initiator depth 1
 *              21 retry count 1 | 22 RNR retry count 1 | 23 flags 1 (1: flow control, 2: SRQ, 4: shared memory,
 *              32: packets travel over this connection, tcp_frame.h; 64: of a REQ, the sender understands an MRA;
 *              EXS 2.1 used 8 and 16, which are neither set nor read)
 *              24 length of private data 1 | 25 of a REQ: transport service 1 (InfiniBand's: 0 RC, 1 UC, 3 XRC)
 *              26 of a REQ: port space 1 (0: RDMA_PS_TCP, 1: RDMA_PS_IB) | 27 zero 1
 *              28 private data 56 in a REQ, 196 in a REP
 *   REJ        8 reason 2 | 10 length of private data 1 | 11 zero 1 | 12 private data 148
 *   RTU, DREQ, MRA  only the header. An MRA (InfiniBand's message receipt acknowledgement) says that the REQ has
 *              arrived at a listener, whose application may take time to answer it
 *
 * For datagrams, one request and its reply, after which the TCP connection is closed:
 *
 *   SIDR_REQ   8 length of private data 1 | 9 zero 3 | 12 number that is asked for 2 | 14 number of the client 2
 *              16 private data 180
 *   SIDR_REP   8 status 2 | 10 length of private data 1 | 11 zero 1 | 12 queue pair number 4 | 16 Q_Key 4
 *              20 private data 136
 *
 * Messages contain no addresses: both ends take those of the TCP connection, so a peer can't claim another's address.
 * They contain ports only for datagrams, which have a separate port space (cm_number.h).
 */
#ifndef SOFT_CM_MESSAGE_H
#define SOFT_CM_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>

#define CM_VERSION 1
#define CM_HEADER 8     /* bytes of a message's header */
#define CM_SIZE_MAX 224 /* maximum bytes of a message */
/* Maximum bytes of private data in each type of message, as in librdmacm. */
#define CM_REQ_PRIVATE 56
#define CM_REP_PRIVATE 196
#define CM_REJ_PRIVATE 148
#define CM_SIDR_REQ_PRIVATE 180
#define CM_SIDR_REP_PRIVATE 136
#define CM_TOKEN 16 /* bytes of a token for shared memory (soft/link/shm_setup.h) */

enum cm_type { CM_REQ = 1, CM_REP, CM_RTU, CM_REJ, CM_DREQ, CM_SIDR_REQ, CM_SIDR_REP, CM_MRA };

enum cm_reason {
    CM_NO_RESOURCES = 3, /* this and the next two have InfiniBand's values */
    CM_INVALID_SERVICE = 8,
    CM_CONSUMER_DEFINED = 28,
    CM_OTHER_VERSION = 0x8001 /* specific to EXS: InfiniBand's reasons do not have the upper bit */
};

enum cm_service { CM_RC, CM_UC, CM_XRC = 3 }; /* InfiniBand's transport services */

/* InfiniBand's values. */
enum cm_sidr_status {
    CM_SIDR_VALID,
    CM_SIDR_UNSUPPORTED, /* no listener has the number */
    CM_SIDR_REJECTED
};

/* A message, decoded. */
struct cm_message {
    enum cm_type type;
    uint32_t qp_num;
    uint32_t psn;      /* the first PSN that the sender of this message expects */
    uint16_t udp_port; /* host byte order */
    uint16_t reason;   /* of a REJ; in a SIDR_REP it is the status */
    /* Of a SIDR_REQ: the number that is asked for, and that of the client; network byte order. */
    in_port_t asked, asker;
    uint32_t qkey;
    uint8_t mtu;
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint8_t retry_count;
    uint8_t rnr_retry_count;
    /* Minimum ACK timeout for the receiver's queue pair; 0: the message has none, as over TCP. */
    uint8_t ack_timeout;
    bool flow_control;
    bool srq;
    uint8_t service; /* of a REQ: an enum cm_service, or any other value */
    bool space_ib;   /* of a REQ: the port space is RDMA_PS_IB, else RDMA_PS_TCP */
    bool shm;        /* shared memory is offered (REQ) or accepted (REP); older versions ignore it */
    bool mra;        /* of a REQ: the sender understands an MRA, and has received none */
    bool tcp;        /* packets over this TCP connection are offered or accepted; older versions ignore it */
    uint8_t token[CM_TOKEN]; /* of a REQ that offers shared memory: the last bytes of the message */
    uint8_t private_length;
    uint8_t private_data[CM_REP_PRIVATE];
};

/* Writes the message, at most CM_SIZE_MAX bytes. Returns its size. */
size_t cm_message_encode(const struct cm_message *message, uint8_t *bytes);

/* Returns the size of the message that starts with these `have` bytes. 0: more bytes are needed. -EBADMSG: the bytes
 * are of another protocol; -EPROTONOSUPPORT: of another version; -EPROTO: the header is invalid. */
int cm_message_size(const uint8_t *bytes, size_t have);

/* Decodes a complete message (cm_message_size()). False: a field is invalid, and *message is all zero. */
bool cm_message_decode(struct cm_message *message, const uint8_t *bytes);

#endif
