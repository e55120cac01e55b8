/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp_frame.c - reads and writes the frame headers of the tcp link. See tcp_frame.h. */
#include <string.h>
#include "core/base/bytes.h"
#include "soft/engine/wire.h"
#include "tcp_frame.h"

#define LENGTH_BITS 24

_Static_assert(TCP_PACKET_MAX == SOFT_MTU_MAX + SOFT_TARGET_HEADERS + 3 && TCP_PACKET_MAX < 1 << LENGTH_BITS,
               "the engine takes each packet whose frame is valid");

static bool has_valid_length(const struct tcp_frame *frame)
{
    switch (frame->type) {
    case TCP_FRAME_PACKET:
        return frame->length >= TCP_PACKET_MIN && frame->length <= TCP_PACKET_MAX;
    case TCP_FRAME_DREQ:
        return frame->length == 0;
    default:
        return false;
    }
}

bool tcp_frame_read(struct tcp_frame *frame, const uint8_t *header)
{
    uint32_t first = get32(header);

    frame->type = (enum tcp_frame_type)(first >> LENGTH_BITS);
    frame->length = first & ((UINT32_C(1) << LENGTH_BITS) - 1);
    frame->ack = get32(header + 4);
    return has_valid_length(frame) && (frame->ack == 0 || frame->ack >> SOFT_ACKED_SHIFT == SOFT_ACKED);
}

bool tcp_frame_is_rtu(const uint8_t *header)
{
    static const uint8_t rtu[TCP_FRAME_HEADER] = {0xe8, 'E', 'X', 'S', 1, 3, 0, TCP_FRAME_HEADER};

    return memcmp(header, rtu, sizeof rtu) == 0;
}

void tcp_frame_write(const struct tcp_frame *frame, uint8_t *header)
{
    put32(header, (uint32_t)frame->type << LENGTH_BITS | frame->length);
    put32(header + 4, frame->ack);
}
