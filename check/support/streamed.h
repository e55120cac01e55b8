/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * streamed.h - a device with one queue pair on the TCP link (soft/link/tcp.h). The test has the other end of the
 * socket, drives the device, which has no service thread, and owns its clock.
 */
#ifndef CHECK_STREAMED_H
#define CHECK_STREAMED_H

#include "check/support/roce.h"
#include "soft/engine/engine.h"
#include "soft/link/tcp.h"

#define STREAMED_MEMORY (4 << 20)
#define STREAMED_SEGMENTS 4 /* maximum segments of a request */
#define STREAMED_FRAME (TCP_FRAME_HEADER + TCP_PACKET_MAX + 1)

struct streamed {
    struct soft_wire wire; /* must be the first member */
    struct soft_clock clock;
    uint64_t now; /* ns; the test may change it */
    struct service_member service;
    struct tcp tcp; /* contains the context */
    struct tcp_peer *peer;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp; /* in RTS */
    struct ibv_mr *mr;
    uint8_t *memory; /* STREAMED_MEMORY bytes, with GUARD bytes on both sides */
};

/* The struct must be zeroed. The device owns the socket from then on. */
void streamed_open(struct streamed *device, int fd);
/* Also checks the guards. */
void streamed_close(struct streamed *device);
/* Receives what has arrived, and sends what is waiting. */
void streamed_run(struct streamed *device);
/* Posts one request for `length` bytes at `offset` of the memory. */
void streamed_post(struct streamed *device, enum ibv_wr_opcode opcode, size_t offset, uint32_t length);
void streamed_receive(struct streamed *device, size_t offset, uint32_t length);
/* Returns the status of the next completion, or -1. */
int streamed_poll(struct streamed *device);
enum ibv_qp_state streamed_state(struct streamed *device);
/* Stores a frame with this packet, completed for the queue pair: `roce` contains opcode, payload, va and so on. `ack`:
 * as in a frame's header. Returns the frame's length. */
size_t streamed_frame(const struct streamed *device, uint8_t *frame, struct roce *roce, uint32_t ack);

#endif
