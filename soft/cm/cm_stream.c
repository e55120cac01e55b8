/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_stream.c - messages over a connection's TCP socket, which may send and receive them in parts. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "cm_id.h"

void cm_send_rest(struct cm_id *id)
{
    ssize_t sent = send(id->fd, id->out, id->out_length, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent == -1 && errno != EAGAIN && errno != EINTR)
        sent = (ssize_t)id->out_length; /* broken: the rest can't be sent */
    if (sent > 0) {
        id->out_length -= (size_t)sent;
        memmove(id->out, id->out + sent, id->out_length);
    }
    cm_want(id, id->out_length > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* Sends a DREQ as a frame, to a peer that uses the tcp link. */
static void send_last_frame(struct cm_id *id)
{
    if (id->public.qp != NULL)
        tcp_peer_disconnect(id->tcp);
}

static void stream_send(struct cm_id *id, const struct cm_message *message)
{
    uint8_t bytes[CM_SIZE_MAX];
    size_t size = cm_message_encode(message, bytes);
    ssize_t sent = 0;

    if (id->tcp != NULL && message->type == CM_DREQ) {
        send_last_frame(id);
        return;
    }
    if (id->out_length == 0)
        sent = send(id->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == (ssize_t)size)
        return;
    if (sent < 0)
        sent = 0;
    size -= (size_t)sent;
    if (size > sizeof id->out - id->out_length)
        return; /* impossible: `out` has space for all messages of a connection */
    memcpy(id->out + id->out_length, bytes + sent, size);
    id->out_length += size;
    cm_send_rest(id);
}

int cm_receive(struct cm_id *id)
{
    for (;;) {
        int size = cm_message_size(id->in, id->in_length);
        size_t want = size > 0 ? (size_t)size : CM_HEADER;
        ssize_t got;

        if (size < 0)
            return size;
        if (size > 0 && id->in_length == want)
            return 1;
        got = recv(id->fd, id->in + id->in_length, want - id->in_length, MSG_DONTWAIT);
        if (got == -1 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0)
            return -ECONNRESET;
        id->in_length += (size_t)got;
    }
}

static int stream_names(const struct cm_id *id, union soft_addr *local, union soft_addr *remote)
{
    return cm_socket_names(id->fd, local, remote);
}

static enum ibv_mtu stream_mtu(const struct cm_id *id)
{
    return cm_socket_mtu(id->fd);
}

static uint64_t round_trip(const struct cm_id *id)
{
    return cm_socket_round_trip(id->fd);
}

const struct cm_transport cm_tcp = {
    .meets = true,
    .names = stream_names,
    .mtu = stream_mtu,
    .round_trip = round_trip,
    .send = stream_send,
};

bool cm_discard(struct cm_id *id)
{
    ssize_t got = recv(id->fd, id->in, sizeof id->in, MSG_DONTWAIT);

    return got > 0 || (got == -1 && (errno == EAGAIN || errno == EINTR));
}
