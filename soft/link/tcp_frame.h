/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp_frame.h - the frames of the tcp link (tcp.h), which two software devices write to their TCP connection after the
 * connection manager's handshake: REQ and then RTU in one direction, REP in the other.
 *
 * A frame is a header of 8 bytes and a body. Numbers are big-endian.
 *
 *   | offset | bytes | field           | values                                                                  |
 *   |--------|-------|-----------------|-------------------------------------------------------------------------|
 *   | 0      | 1     | type            | 1: a packet; 2: the sender disconnects (DREQ), and sends nothing more   |
 *   | 1      | 3     | length          | bytes of the body                                                       |
 *   | 4      | 4     | acknowledgement | 0: none; otherwise 0x80 in the first byte, and in the others the PSN of |
 *   |        |       |                 | the last packet that was received in order; processed after the body    |
 *   | 8      |       | body            | of a packet: from the BTH to the pad, without ICRC, 12 to 262,191 bytes;|
 *   |        |       |                 | of a DREQ: none                                                         |
 *
 * A header with any other value is an error, after which the receiver reads nothing more from the connection.
 */
#ifndef SOFT_TCP_FRAME_H
#define SOFT_TCP_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#define TCP_FRAME_HEADER 8
#define TCP_PACKET_MIN 12     /* bytes: a BTH alone */
#define TCP_PACKET_MAX 262191 /* bytes: the longest headers, 256 KiB of payload and its pad */

enum tcp_frame_type { TCP_FRAME_PACKET = 1, TCP_FRAME_DREQ };

struct tcp_frame {
    enum tcp_frame_type type;
    uint32_t length; /* of the body, bytes */
    uint32_t ack;    /* SOFT_ACKED and a PSN, for soft_input_ack(); 0: none */
};

/* Reads and checks a header of TCP_FRAME_HEADER bytes. False: the header is invalid, and *frame is unspecified. */
bool tcp_frame_read(struct tcp_frame *frame, const uint8_t *header);
/* Whether these TCP_FRAME_HEADER bytes are the connection manager's RTU (soft/cm/cm_message.h) instead of a header. */
bool tcp_frame_is_rtu(const uint8_t *header);
void tcp_frame_write(const struct tcp_frame *frame, uint8_t *header);

#endif
