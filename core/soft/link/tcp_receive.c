/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp_receive.c - frames come from a connection's socket and go to the engine. See tcp.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "tcp.h"
#include "tcp_frame.h"

/* The peer has disconnected: what comes behind its DREQ is not read. */
static void end_input(struct tcp_peer *peer)
{
    peer->ended = true;
    tcp_watch_events(peer);
}

/* The whole frame is there. Returns how many packets that is. */
static int give_frame(struct tcp_peer *peer, const struct tcp_frame *frame, const uint8_t *body)
{
    struct ibv_context *context = peer->tcp->context;

    if (frame->type == TCP_FRAME_PACKET)
        soft_input(context, &peer->path, body, frame->length);
    if (frame->ack != 0)
        soft_input_ack(&peer->link, frame->ack);
    if (frame->type == TCP_FRAME_DREQ)
        end_input(peer);
    return frame->type == TCP_FRAME_PACKET;
}

/* All whole frames of the buffer; the rest of it moves to the front. */
static int give_frames(struct tcp_peer *peer)
{
    struct tcp_in *in = &peer->in;
    struct tcp_frame frame;
    int packets = 0;

    while (!peer->ended && in->end - in->begin >= TCP_FRAME_HEADER) {
        const uint8_t *header = in->bytes + in->begin;

        if (!tcp_frame_read(&frame, header)) {
            soft_count_malformed(peer->tcp->context);
            tcp_fail(peer, "what it receives is no frame", 0);
            break;
        }
        if (in->end - in->begin - TCP_FRAME_HEADER < frame.length)
            break;
        in->begin += TCP_FRAME_HEADER + frame.length;
        packets += give_frame(peer, &frame, header + TCP_FRAME_HEADER);
    }
    in->end -= in->begin;
    memmove(in->bytes, in->bytes + in->begin, in->end);
    in->begin = 0;
    return packets;
}

/* More bytes into the buffer. How many; 0: none now, or none ever. */
static size_t fill_buffer(struct tcp_peer *peer)
{
    struct tcp_in *in = &peer->in;
    ssize_t got = recv(peer->fd, in->bytes + in->end, TCP_IN_BYTES - in->end, MSG_DONTWAIT);

    if (got > 0) {
        in->end += (size_t)got;
        return (size_t)got;
    }
    if (got == 0)
        tcp_fail(peer, "its peer is gone", 0);
    else if (errno != EAGAIN && errno != EINTR)
        tcp_fail(peer, "its socket can't be read from", errno);
    return 0;
}

int tcp_take(struct tcp_peer *peer)
{
    size_t taken = 0;
    int packets = 0;

    while (!peer->ended && taken < TCP_RECEIVE_BYTES) {
        size_t wanted = TCP_IN_BYTES - peer->in.end, got = fill_buffer(peer);

        packets += give_frames(peer);
        taken += got;
        if (got < wanted)
            break;
    }
    return packets;
}
