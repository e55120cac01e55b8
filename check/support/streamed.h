/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * streamed.h - a device with one queue pair whose packets travel over a stream socket (soft/link/tcp.h). The
 * other end of the socket is the test's. No thread looks after the device, and its clock is the test's.
 */
#ifndef CHECK_STREAMED_H
#define CHECK_STREAMED_H

#include "check/support/roce.h"
#include "soft/engine/engine.h"
#include "soft/link/tcp.h"

#define STREAMED_MEMORY (4 << 20)
#define STREAMED_SEGMENTS 4 /* of a request */
#define STREAMED_FRAME (TCP_FRAME_HEADER + TCP_PACKET_MAX + 1)

struct streamed {
    struct soft_wire wire; /* first */
    struct soft_clock clock;
    uint64_t now; /* of the clock, ns; the test may change it */
    struct service_member service;
    struct tcp tcp; /* with the context */
    struct tcp_peer *peer;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp; /* in RTS */
    struct ibv_mr *mr;
    uint8_t *memory; /* STREAMED_MEMORY bytes, with GUARD bytes on both sides */
};

/* Of zeros. The device has this socket from then on. */
void streamed_open(struct streamed *device, int fd);
/* Checks the guards, too. */
void streamed_close(struct streamed *device);
/* Take in what has come, and send what there is to send. */
void streamed_run(struct streamed *device);
/* Post one request of so many bytes of the memory. */
void streamed_post(struct streamed *device, enum ibv_wr_opcode opcode, size_t offset, uint32_t length);
void streamed_receive(struct streamed *device, size_t offset, uint32_t length);
/* The status of the next completion, or -1. */
int streamed_poll(struct streamed *device);
enum ibv_qp_state streamed_state(struct streamed *device);
/* A frame with this packet, right for the queue pair: `roce` says opcode, payload, va and so on. `ack` as in a frame's
 * header. Returns its length. */
size_t streamed_frame(const struct streamed *device, uint8_t *frame, struct roce *roce, uint32_t ack);

#endif
