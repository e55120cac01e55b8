/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rawpeer.h - a peer that is no EXS: one end of a connection by rdma_cm and verbs alone, which says what it
 * likes.
 *
 * It goes through the seam (core/device/device.h), so the same peer meets EXS on the embedded device and on
 * rdma-core's. Where EXS's end is in the same process its inbox is moved whenever the peer waits. Owned by one
 * thread.
 */
#ifndef CHECK_RAWPEER_H
#define CHECK_RAWPEER_H

#include "core/device/device.h"
#include "core/conn/protocol.h"
#include "support.h"

#define RAW_RECV_RING (64 * KIB) /* bytes that its hello offers as ring buffer */
#define RAW_ROOM (64 * KIB)      /* bytes of its own: what it writes from, and what it advertises */
#define RAW_DEPTH 256            /* work requests of either queue; messages and events that it keeps */

/* What the connection manager said. */
struct raw_event {
    enum rdma_cm_event_type type;
    int status;
    struct rdma_cm_id *id;
    uint8_t private_data[256];
    size_t length;
};

/* A message of EXS's: data, by its immediate less the credits in it, or a control message. */
struct raw_message {
    bool data;
    uint32_t imm;
    struct control control;
};

struct raw {
    const struct device *device;
    struct inbox *box; /* EXS's end; NULL where that is another process's */
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id, *listener;
    struct ibv_comp_channel *completions;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint8_t *memory, *recv_ring, *room; /* all of it, and its parts */
    int receives;                       /* that it posts; 0: deaf */
    uint8_t rnr_retries;                /* of EXS's device, when this end posts no receives; 7: for ever */
    struct hello there;                 /* what EXS said */
    struct raw_event events[8];
    struct raw_message messages[RAW_DEPTH];
    int event_count, message_count;
    int sent, done;            /* work requests */
    enum ibv_wc_status status; /* of the first that failed */
    uint64_t told;             /* bytes written to EXS's ring buffer */
    uint32_t indirect_flags;   /* of the immediate of raw_indirect */
};

void raw_open(struct raw *raw, struct inbox *box);
void raw_close(struct raw *raw); /* ends the connection, if there is one */

struct hello raw_hello(int socktype); /* as an EXS would say it, but for where the ring buffer is */

/* The next event must be this one. It brings EXS's hello along, a CONNECT_REQUEST the connection too. */
struct raw_event raw_expect(struct raw *raw, enum rdma_cm_event_type type);
/* Ask an EXS listener, with so many bytes of this hello; what it answers is an event. */
void raw_request(struct raw *raw, const struct address *to, struct hello hello, size_t length);
void raw_connect(struct raw *raw, const struct address *to, struct hello hello); /* and be accepted */
void raw_listen(struct raw *raw, struct address *address);                       /* for one CONNECT_REQUEST */
void raw_accept(struct raw *raw, struct hello hello, size_t length);
void raw_reject(struct raw *raw, const void *bytes, size_t length);
void raw_disconnect(struct raw *raw);
void raw_ended(struct raw *raw); /* EXS ends the connection */

/* Say something. No more than RAW_DEPTH at once; all are signalled. */
void raw_send(struct raw *raw, const void *bytes, size_t length);
void raw_send_imm(struct raw *raw, const void *bytes, size_t length, uint32_t imm);
void raw_control(struct raw *raw, struct control control);
void raw_data(struct raw *raw, uint32_t imm);       /* WRITE WITH IMMEDIATE, of no bytes */
void raw_indirect(struct raw *raw, uint32_t bytes); /* bytes of room, as protocol.h wants it */
void raw_direct(struct raw *raw, const struct control *advert, uint32_t bytes, uint32_t flags);
void raw_reach(struct raw *raw, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey, uint32_t bytes);
struct control raw_advert(const struct raw *raw); /* of its room, as protocol.h wants it */

enum ibv_wc_status raw_status(struct raw *raw); /* when all that was said is done: what failed first */
void raw_look(struct raw *raw);                 /* take what has come, and do not wait */
struct raw_message raw_hear(struct raw *raw);   /* the next message */
struct control raw_hear_control(struct raw *raw, enum control_type type); /* the next must be such a one */

#endif
