/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * intruding.h - one connection of the software device over UDP, whose peer is played by a TCP socket (connection
 * manager) and a UDP socket (packets) of the test. Shared by the tests that send packets from other addresses, or
 * packets that differ from those of the peer.
 *
 * The device receives its packets on its UDP socket for this connection, not at RoCE's port.
 */
#ifndef CHECK_INTRUDING_H
#define CHECK_INTRUDING_H

#include "check/support/cmpeer.h"
#include "check/support/endpoints.h"
#include "soft/link/icrc.h"

#define BYTES 64      /* payload of a message */
#define PLACES 3      /* receive buffers in `memory` */
#define PATIENCE_S 20 /* s; longer than any event takes that does occur */
#define OURS 0x1234   /* queue pair number of the peer */
#define FIRST 0x777   /* first PSN that the peer expects */
#define FLAGS 23      /* offset of the flags in a REQ and a REP */
#define OLD_FLAGS 24  /* two flags that only EXS up to 2.1 sets */

/* A connection, and the peer's end of it. */
struct intruded {
    struct cmside side;
    int tcp, udp;
    struct soft_path path; /* from the peer to the device */
    uint32_t qpn, psn;     /* the device's queue pair number, and the PSN that it expects next */
    struct ibv_mr *mr;
    uint8_t memory[PLACES * BYTES];
};
extern struct intruded world;

int udp_at(uint32_t address, in_port_t port); /* host byte order, and network's */
/* Posts a receive of BYTES into the first buffer, or into buffer `place`. */
void post_one(void);
void post_at(int place);

/* Connects with these flags in the REQ, and posts a receive. */
void meet(unsigned flags);
void part(void); /* closes the connection; the listener remains */
void begin(unsigned flags);
void leave(void);

/* Builds a SEND with its ICRC, whose payload is this number of bytes of `value`. Its PSN is `ahead` after the one that
 * the device expects. Returns the packet's length. */
size_t put_packet_of(uint8_t *bytes, size_t payload, uint8_t value, uint32_t ahead);
size_t put_packet(uint8_t *bytes, uint8_t value, uint32_t ahead); /* with BYTES of payload */

/* Sends the packet and waits until the device has processed it. sent_from() returns the number of receives that
 * completed, and stores their completions in `taken`; send_from() returns whether exactly one completed. */
int sent_from(int fd, const uint8_t *bytes, size_t length, struct ibv_wc taken[PLACES]);
bool send_from(int fd, const uint8_t *bytes, size_t length);
/* Returns how many packets the device has sent to the peer, and the AETH syndrome of the last one. */
unsigned answers(uint8_t *syndrome);
/* The packets sent so far had no effect: no answer, and memory unchanged. The peer's own packet is received and
 * acknowledged. */
void expect_untouched(void);

#endif
