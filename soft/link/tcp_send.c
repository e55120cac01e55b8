/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp_send.c - makes frames of the packets in a connection's send buffer, and writes them to its socket. See tcp.h. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include "core/base/nofault.h"
#include "tcp.h"
#include "tcp_frame.h"

#define SEND_STRETCHES (2 * TCP_PIECES + 1) /* maximum struct iovec of one call */

/* ---- Payload that is not in the buffer ---- */

bool tcp_link_gather(struct soft_link *link, uint8_t *to, const struct soft_source *from, uint64_t psn)
{
    struct tcp_peer *peer = (struct tcp_peer *)link;
    struct tcp_out *out = &peer->out;

    if (out->count == TCP_PIECES)
        return false;
    if (out->count == 0)
        LIST_INSERT_HEAD(&peer->tcp->gathering, peer, gathers);
    out->pieces[out->count++] = (struct tcp_piece){(size_t)(to - out->bytes), *from, psn};
    if (psn < link->gathered)
        link->gathered = psn;
    return true;
}

void tcp_drop_pieces(struct tcp_peer *peer, unsigned count)
{
    struct tcp_out *out = &peer->out;

    if (count == 0)
        return;
    out->first += count;
    peer->link.gathered = UINT64_MAX;
    for (unsigned i = out->first; i < out->count; i++)
        if (out->pieces[i].psn < peer->link.gathered)
            peer->link.gathered = out->pieces[i].psn;
    if (out->first < out->count)
        return;
    out->first = out->count = 0;
    LIST_REMOVE(peer, gathers);
}

/* The number of bytes of a piece that have been sent. */
static size_t gone_of(const struct tcp_out *out, const struct tcp_piece *piece)
{
    return out->sent > piece->at ? out->sent - piece->at : 0;
}

/* Copies the unsent rest of a piece into the buffer. False: its file has become shorter. */
static bool copy_piece(const struct tcp_out *out, const struct tcp_piece *piece)
{
    size_t gone = gone_of(out, piece), length = piece->from.length - gone;
    struct iovec to = {out->bytes + piece->at + gone, length};

    if (piece->from.memory == NULL)
        return nofault_read(piece->from.file, &to, 1, piece->from.place + gone, length);
    memcpy(to.iov_base, piece->from.memory + gone, length);
    return true;
}

/* The socket has failed, or the next bytes can't be sent. The engine may be in the middle of a step, so the queue pair
 * is not failed here, but when tcp_take() receives the end of the stream. */
static void stop_sending(struct tcp_peer *peer)
{
    peer->failed = true;
    tcp_drop_pieces(peer, peer->out.count - peer->out.first);
    shutdown(peer->fd, SHUT_RDWR);
}

void tcp_link_settle(struct soft_link *link)
{
    struct tcp_peer *peer = (struct tcp_peer *)link;
    struct tcp_out *out = &peer->out;

    for (unsigned i = out->first; i < out->count; i++) {
        if (copy_piece(out, &out->pieces[i]))
            continue;
        out->has_vanished = true;
        out->vanished = out->pieces[i].psn;
        stop_sending(peer);
        return;
    }
    tcp_drop_pieces(peer, out->count - out->first);
}

/* ---- The socket ---- */

/* Lists the memory of the unsent bytes, up to the next piece that is in a file; *file_follows: there is one. Returns
 * the number of entries. */
static size_t list_memory(const struct tcp_out *out, struct iovec memory[SEND_STRETCHES], bool *file_follows)
{
    size_t at = out->sent, count = 0;

    *file_follows = false;
    for (unsigned i = out->first; i < out->count; i++) {
        const struct tcp_piece *piece = &out->pieces[i];
        size_t gone = gone_of(out, piece);

        if (at < piece->at)
            memory[count++] = (struct iovec){out->bytes + at, piece->at - at};
        if (piece->from.memory == NULL) {
            *file_follows = true;
            return count;
        }
        memory[count++] =
            (struct iovec){(uint8_t *)(uintptr_t)piece->from.memory + gone, piece->from.length - gone};
        at = piece->at + piece->from.length;
    }
    if (at < out->end)
        memory[count++] = (struct iovec){out->bytes + at, out->end - at};
    return count;
}

/* The socket has taken this number of bytes. When it has taken the whole buffer, the buffer is used from its beginning
 * again; if a DREQ was in it, the stream ends here. */
static void consume_out(struct tcp_peer *peer, size_t bytes)
{
    struct tcp_out *out = &peer->out;
    unsigned gone = 0;

    out->sent += bytes;
    while (out->first + gone < out->count &&
           out->pieces[out->first + gone].at + out->pieces[out->first + gone].from.length <= out->sent)
        gone++;
    tcp_drop_pieces(peer, gone);
    if (out->sent < out->end)
        return;
    out->sent = out->end = 0;
    if (peer->closing)
        shutdown(peer->fd, SHUT_WR);
}

static bool is_empty(const struct tcp_out *out)
{
    return out->sent == out->end;
}

static void set_blocked(struct tcp_peer *peer, bool blocked)
{
    if (peer->blocked == blocked)
        return;
    peer->blocked = blocked;
    tcp_watch_events(peer);
    if (!blocked && peer->link.full && !peer->closing)
        soft_link_drained(&peer->link);
}

void tcp_leave_unsent(struct tcp_peer *peer)
{
    if (peer->is_unsent)
        TAILQ_REMOVE(&peer->tcp->unsent, peer, entry);
    peer->is_unsent = false;
}

/* Like sendfile(2), but without SIGPIPE, which sendfile(2) has no flag to suppress: the signal is blocked, and removed
 * if it is pending only because of this call. The kernel sends in parts, and raises the signal also if a part was sent
 * before the connection broke; the call then returns the length of that part. */
static ssize_t sendfile_quietly(int to, int file, off_t *place, size_t length)
{
    const struct timespec now = {0};
    sigset_t broken_pipe, before;
    ssize_t sent;
    bool may_be_broken;
    int error;

    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
    sent = sendfile(to, file, place, length);
    error = errno;
    may_be_broken = sent == -1 ? error == EPIPE : (size_t)sent < length;
    if (may_be_broken && !sigismember(&before, SIGPIPE))
        (void)sigtimedwait(&broken_pipe, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return sent;
}

/* Sends the rest of a piece that is in a file. If the file is too short, or is one that sendfile(2) can't send, the
 * piece is copied into the buffer or, if that fails, the connection fails; the caller then tries again. Returns as
 * send(2) does. */
static ssize_t send_file(struct tcp_peer *peer, const struct tcp_piece *piece)
{
    size_t gone = gone_of(&peer->out, piece);
    off_t place = (off_t)(piece->from.place + gone);
    ssize_t sent = sendfile_quietly(peer->fd, piece->from.file, &place, piece->from.length - gone);

    if (sent > 0 || (sent == -1 && (errno == EAGAIN || errno == EINTR)))
        return sent;
    tcp_link_settle(&peer->link);
    errno = EINTR;
    return -1;
}

/* Sends some of the unsent bytes. Returns as send(2) does. */
static ssize_t send_some(struct tcp_peer *peer)
{
    const struct tcp_out *out = &peer->out;
    const struct tcp_piece *piece = out->first == out->count ? NULL : &out->pieces[out->first];
    struct iovec memory[SEND_STRETCHES];
    struct msghdr message = {.msg_iov = memory};
    bool file_follows;

    if (piece == NULL) /* send(2) costs the kernel less than sendmsg(2) */
        return send(peer->fd, out->bytes + out->sent, out->end - out->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (piece->from.memory == NULL && piece->at <= out->sent)
        return send_file(peer, piece);
    message.msg_iovlen = list_memory(out, memory, &file_follows);
    return sendmsg(peer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL | (file_follows ? MSG_MORE : 0));
}

void tcp_flush(struct tcp_peer *peer)
{
    struct tcp_out *out = &peer->out;
    ssize_t sent;

    tcp_leave_unsent(peer);
    while (!peer->failed && !is_empty(out)) {
        sent = send_some(peer);
        if (sent > 0)
            consume_out(peer, (size_t)sent);
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            stop_sending(peer);
    }
    set_blocked(peer, !peer->failed && !is_empty(out));
}

/* A socket that is not full has taken the whole buffer when it last held TCP_FLUSH_BYTES. So the link is never full only
 * because a packet is long, a state that no EPOLLOUT would end. */
_Static_assert(TCP_OUT_BYTES - TCP_FLUSH_BYTES >= TCP_PACKET_MAX + 2 * TCP_FRAME_HEADER,
               "there is room for any packet while the socket is not full");

uint8_t *tcp_link_room(struct soft_link *link, size_t size, size_t *limit)
{
    struct tcp_peer *peer = (struct tcp_peer *)link;
    struct tcp_out *out = &peer->out;
    size_t used = out->end + TCP_FRAME_HEADER;

    link->full = !peer->begun || peer->failed || peer->closing || peer->blocked || size > TCP_OUT_BYTES - used;
    if (link->full)
        return NULL;
    *limit = TCP_OUT_BYTES - used < SOFT_BURST_LONG ? TCP_OUT_BYTES - used : SOFT_BURST_LONG;
    return out->bytes + used;
}

/* Writes the frame header before each packet of a burst. The engine leaves TCP_FRAME_HEADER bytes behind each packet
 * (the link's trailer), into which the header of the next frame is written. */
static void write_headers(struct tcp_peer *peer, uint8_t *burst, size_t length, size_t stride)
{
    struct tcp_frame frame = {.type = TCP_FRAME_PACKET};

    for (size_t at = 0; at < length; at += stride) {
        size_t left = length - at, size = left < stride ? left : stride;

        frame.length = (uint32_t)(size - TCP_FRAME_HEADER);
        frame.ack = size == left ? peer->link.ack : 0; /* in the last frame of the burst */
        tcp_frame_write(&frame, burst + at - TCP_FRAME_HEADER);
    }
    peer->link.ack = 0;
}

void tcp_link_send(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
                   size_t stride)
{
    struct tcp_peer *peer = (struct tcp_peer *)link;
    struct tcp_out *out = &peer->out;

    (void)path;
    write_headers(peer, burst, length, stride);
    out->end += length;
    service_traffic(peer->tcp->service);
    if (out->end - out->sent >= TCP_FLUSH_BYTES) {
        tcp_flush(peer);
    } else if (!peer->is_unsent) {
        TAILQ_INSERT_TAIL(&peer->tcp->unsent, peer, entry);
        peer->is_unsent = true;
    }
}
