/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rawpeer.h - a peer without the EXS library: one end of a connection made with rdma_cm and verbs alone, which can send
 * anything.
 *
 * It uses the device abstraction layer (core/device/device.h), so the same peer can connect to EXS on the software
 * device and on rdma-core. If the EXS end is in the same process, its inbox is driven whenever the peer waits. Owned by
 * one thread.
 */
#ifndef CHECK_RAWPEER_H
#define CHECK_RAWPEER_H

#include "core/device/device.h"
#include "core/conn/protocol.h"
#include "support.h"

#define RAW_RECV_RING (64 * KIB) /* bytes of the receive ring that its hello offers */
#define RAW_ROOM (64 * KIB)      /* bytes of `room`, which it writes from and advertises */
/* Work requests of either queue; maximum number of messages and events that are kept. */
#define RAW_DEPTH 256

/* An event of the connection manager. */
struct raw_event {
    enum rdma_cm_event_type type;
    int status;
    struct rdma_cm_id *id;
    uint8_t private_data[256];
    size_t length;
};

/* A message of EXS: data, with the immediate without its credits, or a control message. */
struct raw_message {
    bool data;
    uint32_t imm;
    struct control control;
};

struct raw {
    const struct device *device;
    struct inbox *box; /* the EXS end's; NULL if that is in another process */
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id, *listener;
    struct ibv_comp_channel *completions;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint8_t *memory, *recv_ring, *room; /* the whole buffer, and its parts */
    int receives;                       /* receives to post; 0: none, so that it is never ready */
    uint8_t rnr_retries;                /* for EXS's device, if this end posts no receives; 7: for ever */
    struct hello there;                 /* hello of EXS */
    struct raw_event events[8];
    struct raw_message messages[RAW_DEPTH];
    int event_count, message_count;
    int sent, done;            /* number of work requests */
    enum ibv_wc_status status; /* of the first that failed */
    uint64_t told;             /* bytes written to EXS's receive ring */
    uint32_t indirect_flags;   /* added to the immediate by raw_indirect() */
};

void raw_open(struct raw *raw, struct inbox *box);
void raw_close(struct raw *raw); /* also disconnects */

struct hello raw_hello(int socktype); /* as EXS would send it, without the receive ring's address */

/* Expects this event next, and stores EXS's hello. For a CONNECT_REQUEST it creates the queue pair. */
struct raw_event raw_expect(struct raw *raw, enum rdma_cm_event_type type);
/* Sends a connection request to an EXS listener, with the first `length` bytes of this hello. */
void raw_request(struct raw *raw, const struct address *to, struct hello hello, size_t length);
/* And expects to be accepted. */
void raw_connect(struct raw *raw, const struct address *to, struct hello hello);
void raw_listen(struct raw *raw, struct address *address); /* for one CONNECT_REQUEST */
void raw_accept(struct raw *raw, struct hello hello, size_t length);
void raw_reject(struct raw *raw, const void *bytes, size_t length);
void raw_disconnect(struct raw *raw);
void raw_ended(struct raw *raw); /* expects that EXS disconnects */

/* Post a request. At most RAW_DEPTH at once; all are signaled. */
void raw_send(struct raw *raw, const void *bytes, size_t length);
void raw_send_imm(struct raw *raw, const void *bytes, size_t length, uint32_t imm);
void raw_control(struct raw *raw, struct control control);
void raw_data(struct raw *raw, uint32_t imm);       /* WRITE WITH IMMEDIATE without bytes */
void raw_indirect(struct raw *raw, uint32_t bytes); /* sends bytes of `room` as protocol.h requires */
void raw_direct(struct raw *raw, const struct control *advert, uint32_t bytes, uint32_t flags);
void raw_reach(struct raw *raw, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey, uint32_t bytes);
struct control raw_advert(const struct raw *raw); /* an advertisement of `room` */

enum ibv_wc_status raw_status(struct raw *raw); /* waits for all requests; returns the first error */
void raw_look(struct raw *raw);                 /* processes what has arrived, without waiting */
struct raw_message raw_hear(struct raw *raw);   /* waits for the next message */
struct control raw_hear_control(struct raw *raw, enum control_type type); /* expects this type next */

#endif
