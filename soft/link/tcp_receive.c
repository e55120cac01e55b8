/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp_receive.c - reads frames from a connection's socket and passes them to the engine. See tcp.h.
 *
 * Short frames are read many at a time into the receive buffer, and the engine copies their payload. Of a packet that
 * is longer than TCP_SHORT_FRAME only the headers are read into the buffer. The engine checks them and returns the
 * destination of the payload (soft_input_target), and the rest of the payload is read from the socket directly into
 * that memory. The engine is asked again before each read, because a region may be deregistered, or a queue pair may
 * enter the error state, while the payload is arriving; the rest of it is then read and dropped.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "tcp.h"
#include "tcp_frame.h"

/* How much to read behind a long packet. Usually another long packet follows, and only its headers should be read into
 * the buffer. */
#define AHEAD (TCP_FRAME_HEADER + SOFT_TARGET_HEADERS)

static struct ibv_context *context_of(const struct tcp_peer *peer)
{
    return peer->tcp->context;
}

static size_t buffered_bytes(const struct tcp_in *in)
{
    return in->end - in->begin;
}

/* The peer has disconnected: bytes behind its DREQ are not read. The shutdown wakes the connection manager, which
 * watches for the end of the stream, even if the peer does not end the stream. */
static void end_input(struct tcp_peer *peer)
{
    peer->ended = true;
    shutdown(peer->fd, SHUT_RD);
    tcp_watch_events(peer);
}

/* ---- Long packets ---- */

/* The engine has handled the packet: processes the acknowledgement in its frame header. Bytes of the packet that are
 * still missing will be dropped. */
static void finish_packet(struct tcp_peer *peer)
{
    struct tcp_packet *packet = &peer->in.packet;

    packet->dropped = true;
    if (packet->frame.ack != 0)
        soft_input_ack(&peer->link, packet->frame.ack);
}

/* The payload is complete, or its destination has vanished: the engine executes the packet. */
static void carry_out(struct tcp_peer *peer, bool vanished)
{
    struct tcp_packet *packet = &peer->in.packet;

    soft_input_placed(context_of(peer), &peer->path, packet->headers, packet->frame.length, vanished);
    finish_packet(peer);
}

/* Asks the engine for the destination of the payload. False: the payload is dropped. */
static bool find_target(struct tcp_peer *peer, struct soft_target *target)
{
    struct tcp_packet *packet = &peer->in.packet;

    if (packet->dropped)
        return false;
    if (soft_input_target(context_of(peer), &peer->path, packet->headers, packet->frame.length, target))
        return true;
    finish_packet(peer);
    return false;
}

/* The next `length` bytes of the packet, payload and then pad, have been received and written. `payload`: bytes of the
 * packet's payload. */
static void advance_packet(struct tcp_peer *peer, uint32_t payload, size_t length)
{
    struct tcp_packet *packet = &peer->in.packet;

    packet->left -= (uint32_t)length;
    if (packet->dropped)
        return;
    packet->placed += (uint32_t)length < payload - packet->placed ? (uint32_t)length : payload - packet->placed;
    if (packet->placed == payload)
        carry_out(peer, false);
}

/* Writes the bytes of the packet that are in the buffer to their destination. */
static void place_buffered(struct tcp_peer *peer)
{
    struct tcp_in *in = &peer->in;
    struct tcp_packet *packet = &in->packet;
    struct soft_target target;
    size_t length = buffered_bytes(in) < packet->left ? buffered_bytes(in) : packet->left;
    const uint8_t *bytes = in->bytes + in->begin;

    in->begin += length;
    if (!find_target(peer, &target)) {
        packet->left -= (uint32_t)length;
    } else if (soft_target_write(&target, packet->placed, bytes,
                                 length < target.length ? (uint32_t)length : target.length)) {
        advance_packet(peer, target.length, length);
    } else {
        packet->left -= (uint32_t)length;
        carry_out(peer, true);
    }
}

/* Starts a long packet, whose headers are in the buffer. */
static void begin_packet(struct tcp_peer *peer, const struct tcp_frame *frame)
{
    struct tcp_in *in = &peer->in;
    struct soft_target target;

    in->packet = (struct tcp_packet){.frame = *frame, .left = frame->length};
    memcpy(in->packet.headers, in->bytes + in->begin, sizeof in->packet.headers);
    if (find_target(peer, &target)) {
        in->packet.left -= target.headers;
        in->begin += target.headers;
    }
    place_buffered(peer);
}

/* Lists the memory for the rest of the payload, and behind it the buffer, for the pad and the next frame's headers.
 * Returns the number of entries. */
static int list_memory(const struct tcp_peer *peer, const struct soft_target *target,
                       struct iovec memory[SOFT_TARGETS + 1])
{
    uint32_t skipped = peer->in.packet.placed;
    int count = 0;

    for (int i = 0; i < target->count; i++) {
        size_t size = target->memory[i].iov_len;

        if (skipped >= size) {
            skipped -= (uint32_t)size;
            continue;
        }
        memory[count++] = (struct iovec){(uint8_t *)target->memory[i].iov_base + skipped, size - skipped};
        skipped = 0;
    }
    memory[count] =
        (struct iovec){peer->in.bytes, peer->in.packet.left - (target->length - peer->in.packet.placed)};
    memory[count].iov_len += AHEAD;
    return count + 1;
}

/* ---- Reading ---- */

/* If the kernel has no memory for a receive, the bytes stay in the socket. The link then tries again, up to
 * TCP_SHORTAGES times in a row. */
static bool may_try_again(struct tcp_peer *peer, int error)
{
    return error == EAGAIN || error == EINTR || (error == ENOMEM && ++peer->in.shortages < TCP_SHORTAGES);
}

/* Handles the result of recv() or recvmsg(). Returns the number of bytes; 0: there are none now, or the connection has
 * failed. */
static size_t handle_received(struct tcp_peer *peer, ssize_t got)
{
    if (got == 0)
        tcp_fail(peer, "its peer is gone", 0);
    else if (got == -1 && !may_try_again(peer, errno))
        tcp_fail(peer, "its socket can't be read from", errno);
    if (got <= 0)
        return 0;
    peer->in.shortages = 0;
    return (size_t)got;
}

static size_t read_into(struct tcp_peer *peer, uint8_t *memory, size_t size)
{
    return handle_received(peer, recv(peer->fd, memory, size, MSG_DONTWAIT));
}

/* Reads and drops bytes of the packet. Here and below, *wanted is the number of bytes that the call asked for: if fewer
 * were received the socket is empty. */
static size_t drop_payload(struct tcp_peer *peer, size_t *wanted)
{
    struct tcp_in *in = &peer->in;
    size_t size = in->packet.left < TCP_IN_BYTES ? in->packet.left : TCP_IN_BYTES;
    size_t got = read_into(peer, in->bytes, size);

    *wanted = size;
    in->packet.left -= (uint32_t)got;
    return got;
}

/* Reads the rest of a payload into its destination; the buffer must be empty. If that memory has vanished, recvmsg()
 * fails with EFAULT and takes nothing from the socket. */
static size_t read_payload(struct tcp_peer *peer, size_t *wanted)
{
    struct tcp_in *in = &peer->in;
    struct iovec memory[SOFT_TARGETS + 1];
    struct soft_target target;
    struct msghdr message = {.msg_iov = memory};
    ssize_t got;
    size_t own;

    if (!find_target(peer, &target))
        return drop_payload(peer, wanted);
    message.msg_iovlen = (size_t)list_memory(peer, &target, memory);
    own = target.length - in->packet.placed;
    *wanted = in->packet.left + AHEAD;
    got = recvmsg(peer->fd, &message, MSG_DONTWAIT);
    if (got == -1 && errno == EFAULT) {
        carry_out(peer, true);
        return *wanted; /* there is more in the socket */
    }
    got = (ssize_t)handle_received(peer, got);
    if ((size_t)got > own) /* pad, and frames behind it */
        in->end = (size_t)got - own;
    if (got > 0)
        advance_packet(peer, target.length, (size_t)got < own ? (size_t)got : own);
    if (in->packet.left > 0 && in->end > 0) {
        size_t pad = in->end < in->packet.left ? in->end : in->packet.left;

        in->packet.left -= (uint32_t)pad;
        in->begin += pad;
    }
    return (size_t)got;
}

/* Reads more bytes into the buffer. */
static size_t fill_buffer(struct tcp_peer *peer, size_t *wanted)
{
    struct tcp_in *in = &peer->in;
    size_t size = in->is_bulk && in->end < AHEAD ? AHEAD - in->end : TCP_IN_BYTES - in->end;
    size_t got = read_into(peer, in->bytes + in->end, size);

    *wanted = size;
    in->end += got;
    return got;
}

/* ---- Frames ---- */

/* Processes a frame that is complete in the buffer. Returns the number of packets, 0 or 1. */
static int give_frame(struct tcp_peer *peer, const struct tcp_frame *frame, const uint8_t *body)
{
    if (frame->type == TCP_FRAME_PACKET)
        soft_input(context_of(peer), &peer->path, body, frame->length);
    if (frame->ack != 0)
        soft_input_ack(&peer->link, frame->ack);
    if (frame->type == TCP_FRAME_DREQ)
        end_input(peer);
    return frame->type == TCP_FRAME_PACKET;
}

/* Takes the connection manager's RTU, which precedes the first frame. False: it is something else, and the connection
 * has failed. */
static bool take_rtu(struct tcp_peer *peer, const uint8_t *header)
{
    if (!tcp_frame_is_rtu(header)) {
        tcp_set_rtu(peer, TCP_RTU_WRONG);
        tcp_fail(peer, "what it receives is no RTU", 0);
        return false;
    }
    peer->in.begin += TCP_FRAME_HEADER;
    tcp_set_rtu(peer, TCP_RTU_RECEIVED);
    return true;
}

/* Processes the frame at the beginning of the buffer. False: not enough of it has arrived, or the connection has
 * failed. */
static bool take_frame(struct tcp_peer *peer, int *packets)
{
    struct tcp_in *in = &peer->in;
    const uint8_t *header = in->bytes + in->begin;
    struct tcp_frame frame;
    size_t body = buffered_bytes(in) - TCP_FRAME_HEADER;

    if (tcp_peer_rtu(peer) == TCP_RTU_EXPECTED)
        return take_rtu(peer, header);
    if (!tcp_frame_read(&frame, header)) {
        soft_count_malformed(context_of(peer));
        tcp_fail(peer, "what it receives is no frame", 0);
        return false;
    }
    in->is_bulk = frame.length > TCP_SHORT_FRAME;
    if (body < (in->is_bulk ? SOFT_TARGET_HEADERS : frame.length))
        return false;
    in->begin += TCP_FRAME_HEADER;
    if (in->is_bulk) {
        (*packets)++;
        begin_packet(peer, &frame);
    } else {
        in->begin += frame.length;
        *packets += give_frame(peer, &frame, header + TCP_FRAME_HEADER);
    }
    return true;
}

/* Processes all frames in the buffer, and moves an incomplete one to its beginning. Returns the number of packets. */
static int take_frames(struct tcp_peer *peer)
{
    struct tcp_in *in = &peer->in;
    int packets = 0;

    while (!peer->ended && in->packet.left == 0 && buffered_bytes(in) >= TCP_FRAME_HEADER &&
           take_frame(peer, &packets))
        ;
    in->end -= in->begin;
    memmove(in->bytes, in->bytes + in->begin, in->end);
    in->begin = 0;
    return packets;
}

int tcp_take(struct tcp_peer *peer)
{
    size_t taken = 0;
    int packets = 0;

    while (!peer->ended && taken < TCP_RECEIVE_BYTES) {
        size_t wanted,
            got = peer->in.packet.left > 0 ? read_payload(peer, &wanted) : fill_buffer(peer, &wanted);

        packets += take_frames(peer);
        taken += got;
        if (got < wanted)
            break;
    }
    return packets;
}
