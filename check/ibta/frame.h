/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h - the IPv4 and UDP headers of a RoCEv2 packet, as far as the invariant CRC (ICRC) covers them.
 *
 * The tester computes the ICRC from complete headers, by code that it does not share with the device.
 */
#ifndef IBTA_FRAME_H
#define IBTA_FRAME_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_CHECK 4   /* bytes of the ICRC at the end of a packet */
#define FRAME_MAX 4400  /* maximum bytes of a packet, from the BTH to the ICRC */
#define FRAME_DF 0x4000 /* bit of `fragment`: don't fragment */
#define FRAME_ANY_ID                                                                                           \
    0x10000 /* the identification is unknown to the receiver: any that a packet of a burst may have */

/* The headers of one direction. Plain data; all but id and fragment in network byte order. */
struct frame {
    struct in_addr from, to;
    in_port_t from_port, to_port;
    uint32_t id; /* identification, or FRAME_ANY_ID */
    uint16_t fragment;
};

/* Returns the ICRC of a packet of `length` bytes, which begin with the BTH, as a number whose least significant byte is
 * sent first. */
uint32_t frame_check(const struct frame *frame, const uint8_t *packet, size_t length);
/* Appends the ICRC to the packet. */
void frame_seal(const struct frame *frame, uint8_t *packet, size_t length);
/* Whether the ICRC after a packet of `length` bytes (without it) is correct. */
bool frame_is_sealed(const struct frame *frame, const uint8_t *packet, size_t length);

#endif
