/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp_send.c - packets become frames in a connection's send buffer, and leave by its socket. See tcp.h. */
#include <errno.h>
#include <sys/socket.h>
#include "tcp.h"
#include "tcp_frame.h"

/* A buffer that the socket has taken all of begins again. */
static void consume(struct tcp_out *out, size_t bytes)
{
    out->sent += bytes;
    if (out->sent == out->end)
        out->sent = out->end = 0;
}

static bool is_empty(const struct tcp_out *out)
{
    return out->sent == out->end;
}

static void block(struct tcp_peer *peer, bool blocked)
{
    if (peer->blocked == blocked)
        return;
    peer->blocked = blocked;
    tcp_watch_events(peer);
    if (!blocked && peer->link.full)
        soft_link_drained(&peer->link);
}

void tcp_leave_unsent(struct tcp_peer *peer)
{
    if (peer->is_unsent)
        TAILQ_REMOVE(&peer->tcp->unsent, peer, entry);
    peer->is_unsent = false;
}

/* The socket is broken. The engine may be in the middle of a step, so the queue pair learns of it when the end of
 * the stream is received. */
static void stop_sending(struct tcp_peer *peer)
{
    peer->failed = true;
    shutdown(peer->fd, SHUT_RDWR);
}

void tcp_flush(struct tcp_peer *peer)
{
    struct tcp_out *out = &peer->out;
    ssize_t sent;

    tcp_leave_unsent(peer);
    while (!peer->failed && !is_empty(out)) {
        sent = send(peer->fd, out->bytes + out->sent, out->end - out->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0)
            consume(out, (size_t)sent);
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            stop_sending(peer);
    }
    block(peer, !peer->failed && !is_empty(out));
}

uint8_t *tcp_link_room(struct soft_link *link, size_t size, size_t *limit)
{
    struct tcp_peer *peer = (struct tcp_peer *)link;
    struct tcp_out *out = &peer->out;
    size_t used = out->end + TCP_FRAME_HEADER;

    link->full = !peer->begun || peer->failed || peer->blocked || size > TCP_OUT_BYTES - used;
    if (link->full)
        return NULL;
    *limit = TCP_OUT_BYTES - used < SOFT_TRAIN_LONG ? TCP_OUT_BYTES - used : SOFT_TRAIN_LONG;
    return out->bytes + used;
}

/* The trailer of each packet is where the header of the next frame goes. */
static void write_headers(struct tcp_peer *peer, uint8_t *train, size_t length, size_t stride)
{
    struct tcp_frame frame = {.type = TCP_FRAME_PACKET};

    for (size_t at = 0; at < length; at += stride) {
        size_t left = length - at, size = left < stride ? left : stride;

        frame.length = (uint32_t)(size - TCP_FRAME_HEADER);
        frame.ack = size == left ? peer->link.ack : 0; /* behind all packets of the train */
        tcp_frame_write(&frame, train + at - TCP_FRAME_HEADER);
    }
    peer->link.ack = 0;
}

void tcp_link_send(struct soft_link *link, const struct soft_path *path, uint8_t *train, size_t length,
                   size_t stride)
{
    struct tcp_peer *peer = (struct tcp_peer *)link;
    struct tcp_out *out = &peer->out;

    (void)path;
    write_headers(peer, train, length, stride);
    out->end += length;
    service_traffic(peer->tcp->service);
    if (out->end - out->sent >= TCP_FLUSH_BYTES) {
        tcp_flush(peer);
    } else if (!peer->is_unsent) {
        TAILQ_INSERT_TAIL(&peer->tcp->unsent, peer, entry);
        peer->is_unsent = true;
    }
}
