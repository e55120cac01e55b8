/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp_peer.c - a connection of the tcp link, from the handshake until its socket is closed. See tcp.h. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include "core/base/fds.h"
#include "core/base/pages.h"
#include "core/base/log.h"
#include "tcp.h"
#include "tcp_frame.h"

/* ---- A context's epoll ---- */

int tcp_prepare(struct tcp *tcp)
{
    struct soft_wire *wire = soft_wire_of(tcp->context);
    int error = 0;

    if (tcp->epoll != -1)
        return 0;
    if (wire->open != NULL && (error = wire->open(wire, tcp->context)) != 0)
        return error;
    tcp->epoll = fds_epoll_private();
    if (tcp->epoll == -1)
        return errno;
    error = service_attach(tcp->service, tcp->epoll);
    if (error != 0) {
        fds_close(tcp->epoll);
        tcp->epoll = -1;
    }
    return error;
}

static uint32_t events_of(const struct tcp_peer *peer)
{
    return (peer->ended ? 0 : EPOLLIN) | (peer->blocked ? EPOLLOUT : 0);
}

/* A socket whose stream has ended is always ready, so it is removed from the epoll when no event is wanted. */
void tcp_watch_events(struct tcp_peer *peer)
{
    struct epoll_event event = {.events = events_of(peer), .data.ptr = peer};

    if (!peer->joined)
        return;
    if (event.events != 0) {
        fds_rewatch(peer->tcp->epoll, peer->fd, &event);
        return;
    }
    fds_unwatch(peer->tcp->epoll, peer->fd);
    peer->joined = false;
}

/* ---- References ---- */

static void drop_share(struct tcp_peer *peer)
{
    if (atomic_fetch_sub(&peer->shares, 1) > 1)
        return;
    fds_close(peer->fd);
    pages_free(peer->out.bytes, TCP_OUT_BYTES);
    pages_free(peer->in.bytes, TCP_IN_BYTES);
    free(peer->out.pieces);
    free(peer);
}

static void leave_epoll(struct tcp_peer *peer)
{
    if (peer->joined)
        fds_unwatch(peer->tcp->epoll, peer->fd);
    peer->joined = false;
}

/* The leave() callback of struct soft_link. */
static void leave_link(struct soft_link *link)
{
    struct tcp_peer *peer = (struct tcp_peer *)link;

    tcp_flush(peer);
    tcp_leave_unsent(peer);
    tcp_drop_pieces(peer, peer->out.count - peer->out.first);
    leave_epoll(peer);
    peer->tcp->count--;
    LIST_REMOVE(peer, peers);
    peer->tcp = NULL;
    drop_share(peer);
}

struct tcp_peer *tcp_peer_new(int fd)
{
    struct tcp_peer *peer = calloc(1, sizeof *peer);

    if (peer == NULL)
        return NULL;
    peer->link = (struct soft_link){.name = "tcp",
                                    .mtu = TCP_MTU,
                                    .lossless = true,
                                    .patience = TCP_PATIENCE,
                                    .trailer = TCP_FRAME_HEADER,
                                    .carries_ack = true,
                                    .full = true,
                                    .room = tcp_link_room,
                                    .send = tcp_link_send,
                                    .gather = tcp_link_gather,
                                    .settle = tcp_link_settle,
                                    .gathered = UINT64_MAX,
                                    .leave = leave_link};
    peer->path.link = &peer->link;
    peer->fd = fd;
    peer->shares = 1;
    return peer;
}

static int make_buffers(struct tcp_peer *peer)
{
    if (peer->out.bytes == NULL)
        peer->out.bytes = pages_new(TCP_OUT_BYTES);
    if (peer->in.bytes == NULL)
        peer->in.bytes = pages_new(TCP_IN_BYTES);
    if (peer->out.pieces == NULL)
        peer->out.pieces = calloc(TCP_PIECES, sizeof *peer->out.pieces);
    return peer->out.bytes == NULL || peer->in.bytes == NULL || peer->out.pieces == NULL ? ENOMEM : 0;
}

int tcp_peer_attach(struct tcp *tcp, struct tcp_peer *peer)
{
    int error;

    soft_lock(tcp->context);
    error = tcp_prepare(tcp);
    if (error == 0)
        error = make_buffers(peer);
    if (error == 0 && peer->tcp == NULL) {
        peer->tcp = tcp;
        peer->context = tcp->context;
        peer->out.held_since = tcp->polls - 1;
        tcp->count++;
        LIST_INSERT_HEAD(&tcp->peers, peer, peers);
        atomic_fetch_add(&peer->shares, 1);
    }
    soft_unlock(tcp->context);
    return error;
}

/* The wake-up precedes the store: once the connection manager has read the new state, no wake-up can follow. */
void tcp_set_rtu(struct tcp_peer *peer, enum tcp_rtu rtu)
{
    if (peer->waits != NULL)
        waitset_change(peer->waits, peer->fd, EPOLLOUT | EPOLLRDHUP, peer->tag);
    atomic_store(&peer->rtu, rtu);
}

enum tcp_rtu tcp_peer_rtu(const struct tcp_peer *peer)
{
    return (enum tcp_rtu)atomic_load(&peer->rtu);
}

void tcp_peer_watch(struct tcp_peer *peer, struct waitset *waits, void *tag)
{
    soft_lock(peer->context);
    peer->waits = waits;
    peer->tag = tag;
    if (waits != NULL && tcp_peer_rtu(peer) >= TCP_RTU_RECEIVED)
        waitset_change(waits, peer->fd, EPOLLOUT | EPOLLRDHUP, tag);
    soft_unlock(peer->context);
}

/* Any rate below the maximum makes the kernel pace the connection at a rate that it derives from the congestion window.
 * TCP's handshake has measured the round trip. If this fails the connection is not paced. */
static void pace_long_path(int fd)
{
    const unsigned long rate = ULONG_MAX - 1;
    struct tcp_info info;
    socklen_t length = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_rtt >= TCP_PACED_US)
        (void)setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
}

void tcp_peer_begin(struct tcp_peer *peer, enum tcp_rtu rtu, const uint8_t *rest, size_t length)
{
    struct ibv_context *context = peer->context;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};

    soft_lock(context);
    pace_long_path(peer->fd);
    peer->begun = true;
    atomic_store(&peer->rtu, rtu);
    if (length > 0)
        memcpy(peer->out.bytes, rest, length);
    peer->out.end = length;
    peer->joined = fds_watch(peer->tcp->epoll, peer->fd, &event) == 0;
    if (peer->joined)
        soft_link_drained(&peer->link);
    else
        tcp_fail(peer, "its socket can't be watched", errno);
    soft_flush(context);
    soft_unlock(context);
}

void tcp_peer_wait(struct tcp_peer *peer, uint64_t patience)
{
    soft_lock(peer->context);
    peer->link.patience = patience;
    soft_unlock(peer->context);
}

void tcp_peer_disconnect(struct tcp_peer *peer)
{
    struct tcp_frame dreq = {.type = TCP_FRAME_DREQ};
    struct ibv_context *context = peer->tcp->context;
    struct tcp_out *out = &peer->out;

    soft_lock(context);
    soft_flush(context);
    if (peer->begun && !peer->failed && !peer->closing) { /* tcp_link_room() leaves room for one header */
        tcp_frame_write(&dreq, out->bytes + out->end);
        out->end += TCP_FRAME_HEADER;
        peer->closing = true;
        tcp_flush(peer);
    }
    soft_unlock(context);
}

/* Ends the stream, unless a DREQ is still waiting to be sent: tcp_flush() then ends the stream behind it. */
static void end_output(struct tcp_peer *peer)
{
    peer->waits = NULL;
    if (peer->tcp == NULL || !peer->closing || peer->failed || !peer->blocked)
        shutdown(peer->fd, SHUT_WR);
}

void tcp_peer_release(struct tcp_peer *peer)
{
    struct ibv_context *context = peer->context;

    if (context != NULL)
        soft_lock(context);
    end_output(peer);
    if (context != NULL)
        soft_unlock(context);
    drop_share(peer);
}

/* ---- The end ---- */

/* The shutdown in both directions makes the socket readable at its end, which notifies the connection manager. */
void tcp_fail(struct tcp_peer *peer, const char *why, int error)
{
    if (peer->failed && peer->ended)
        return;
    xs_log("a connection by tcp is broken because %s%s%s", why, error != 0 ? ": " : "",
           error != 0 ? strerror(error) : "");
    peer->failed = peer->ended = true;
    tcp_drop_pieces(peer, peer->out.count - peer->out.first);
    peer->blocked = false;
    shutdown(peer->fd, SHUT_RDWR);
    tcp_leave_unsent(peer);
    tcp_watch_events(peer);
    if (peer->out.has_vanished)
        soft_link_vanished(&peer->link, peer->out.vanished);
    soft_link_failed(peer->tcp->context, &peer->link);
}
