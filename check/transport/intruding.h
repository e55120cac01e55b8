/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * intruding.h - a connection of the device's by UDP to a peer who is a TCP and a UDP socket of the test: what the tests of
 * datagrams that are not the peer's, or not as he sent them, have in common.
 *
 * The device takes its packets from a socket of its own.
 */
#ifndef CHECK_INTRUDING_H
#define CHECK_INTRUDING_H

#include "check/support/cmpeer.h"
#include "check/support/endpoints.h"
#include "soft/link/icrc.h"

#define BYTES 64      /* of a message */
#define PLACES 3      /* for messages */
#define PATIENCE_S 20 /* longer than anything takes that does happen */
#define OURS 0x1234   /* the peer's queue pair, */
#define FIRST 0x777   /* and the first PSN that it expects */
#define FLAGS 23      /* of a REQ and a REP: where their flags are, */
#define OLD_FLAGS 24  /* and two that EXS up to 2.1 had */

/* A connection, and the peer's end of it. */
struct intruded {
    struct cmside side;
    int tcp, udp;
    struct soft_path path; /* as the peer sees it */
    uint32_t qpn, psn;     /* where its packets go to, and the next PSN */
    struct ibv_mr *mr;
    uint8_t memory[PLACES * BYTES];
};
extern struct intruded world;

int udp_at(uint32_t address, in_port_t port); /* host byte order, and network's */
/* A receive for the next message that comes, of BYTES at the first place, or another. */
void post_one(void);
void post_at(int place);

/* Connect, and say these flags; a receive is posted. */
void meet(unsigned flags);
void part(void); /* the connection is over, and the listener still there */
void begin(unsigned flags);
void leave(void);

/* A SEND of so many bytes of this value, with its check: the next one that is due, but so many PSNs further on. */
size_t put_packet_of(uint8_t *bytes, size_t payload, uint8_t value, uint32_t ahead);
size_t put_packet(uint8_t *bytes, uint8_t value, uint32_t ahead); /* of BYTES */

/* Send it, and wait until the device has looked at it. How many messages were taken, in `taken`; true: one. */
int sent_from(int fd, const uint8_t *bytes, size_t length, struct ibv_wc taken[PLACES]);
bool send_from(int fd, const uint8_t *bytes, size_t length);
/* How many packets have come back, and what the last one says. */
unsigned answers(uint8_t *syndrome);
/* So far nothing has come of all that was sent; the peer's own packet is taken, and acknowledged. */
void expect_untouched(void);

#endif
