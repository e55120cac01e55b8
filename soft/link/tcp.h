/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp.h - the link of the software device that carries a queue pair's packets over a TCP connection: the one with
 * which the connection manager has set the connection up (REQ, REP, RTU). tcp_frame.h has the format.
 *
 * Objects. A context has one struct tcp: an epoll with the sockets of all its connections. The context's
 * completion channels and the service thread watch that epoll, so a frame wakes them as a datagram does. Each
 * connection has a struct tcp_peer: the socket, the soft_link that the queue pair's path names, and a buffer for
 * each direction. The queue pair's path and the connection manager's identifier share it; the last one of the
 * two that lets go of it closes the socket.
 *
 * Sending. The engine builds packets in the peer's send buffer, and leaves between them the bytes in which this
 * link then writes the frame headers. The buffer goes to the socket when it holds TCP_FLUSH_BYTES, and at the end
 * of each step of the engine. When the socket is full the rest waits in the buffer, the link says that it is full,
 * and EPOLLOUT is watched until all of the rest has left. An RC acknowledgement travels in the header of the next
 * packet.
 *
 * Pacing. The device completes requests, and EXS returns credits, many at a time, so the socket gets its data in bursts,
 * and a burst that is longer than the shortest queue of the path loses packets. So the kernel spreads the packets of a
 * congestion window over the round trip, unless that is shorter than TCP_PACED_US, where timers cost more than bursts do.
 * At 100 Mbit/s, RTT 20 ms and a queue of 32 KiB, a stream of 64 KiB sends reaches 72 in place of 37 Mbit/s, and exs-put
 * 68 in place of 30; a plain TCP stream, which is not paced, reaches 48. In one
 * bottleneck with a plain TCP stream, two such flows get 1.0 to 1.2 of their fair shares, and 0.7 to 1.0 unpaced.
 *
 * Receiving. With TCP_FEW connections the link's receive function tries to receive from each, else the epoll says
 * which are ready. It takes up to TCP_RECEIVE_BYTES from each ready socket, so that one connection doesn't keep the
 * others waiting. A peer that stops within a frame leaves its headers, or less
 * than TCP_SHORT_FRAME bytes of it, in its own receive buffer, and nothing else waits for it.
 *
 * Copies in user space:
 *
 *   | sent from                                 | copied                                                         |
 *   |-------------------------------------------|----------------------------------------------------------------|
 *   | registered memory, more than a page       | not: sendmsg() takes it from there (struct tcp_piece), unless   |
 *   |                                           | it may change before it has left: the queue pair fails or goes |
 *   |                                           | back, a region is deregistered, the peer acknowledges what it  |
 *   |                                           | can't have. Then the rest is copied into the buffer (settle)   |
 *   | less, or inline                           | into the send buffer                                           |
 *   | a file's region, more than a page         | not: sendfile() takes it from the kernel's cache. If the file   |
 *   |                                           | became shorter after its header left, the connection breaks.   |
 *   |                                           | The rest is read into the buffer where sendfile() fails, and    |
 *   |                                           | in the cases of registered memory                              |
 *   | less, or memory that may vanish           | by the kernel into the send buffer, before its header leaves   |
 *
 *   | received in a frame of                    | copied                                                         |
 *   |-------------------------------------------|----------------------------------------------------------------|
 *   | TCP_SHORT_FRAME bytes at most             | from the receive buffer to where it belongs                    |
 *   | more                                      | not: recvmsg() writes where it belongs, once the engine has    |
 *   |                                           | checked the headers (soft_input_target)                        |
 *
 * Beginning. Each side's link starts when its connection manager has sent or received REP. The peer of the side that
 * sent REP writes its RTU before its first frame, so on that side this link reads the RTU, and then wakes the
 * connection manager (enum tcp_rtu). So a peer's packets are taken in although the application does not look at its
 * event channel, as over the other links.
 *
 * Ends. TCP delivers in order or not at all, so the link is lossless and nothing is sent again. The peer's DREQ
 * ends what is received, and the queue pair stays as it is until the application disconnects, too. The end of
 * the stream without a DREQ, a reset, a TCP time-out and an invalid frame put the queue pair into the error state
 * at once. A DREQ is the last frame behind all that waits in the send buffer, and the end of the stream (FIN) follows
 * it when the socket has taken all of that. While the socket is full both wait, as long as the queue pair exists; if it
 * is destroyed before, the stream is cut off. There is no DREP: TCP delivers the DREQ or breaks the connection, so
 * the sender of a DREQ expects no answer, and its connection is over at once. A peer whose host is reachable but which
 * acknowledges nothing, or doesn't read, is given up after TCP_PATIENCE, or a time that the application sets. The
 * connection manager watches the same socket for the end of the stream alone (EPOLLRDHUP): it then takes in what has
 * come before, and reports DISCONNECTED.
 *
 * Locks. The context's lock guards everything here but the count of shares.
 */
#ifndef SOFT_TCP_H
#define SOFT_TCP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "soft/engine/wire.h"
#include "soft/service/service.h"
#include "core/base/waitset.h"
#include "tcp_frame.h"

#define TCP_PATIENCE UINT64_C(20000000000) /* ns: an outage that TCP survives (TCP_USER_TIMEOUT) */
#define TCP_MTU 65536                      /* bytes of payload in a packet */
#define TCP_FLUSH_BYTES 65536              /* in a send buffer, which then goes to the socket within a step */
#define TCP_RECEIVE_BYTES 262144           /* taken from a socket in one call */
#define TCP_SHORT_FRAME 4096               /* bytes of a body that is received in the buffer and copied */
#define TCP_SHORTAGES 100                  /* receives in a row without memory that end the connection */
#define TCP_PACED_US 1000                  /* microseconds: a shorter round trip is not paced */
#define TCP_READY 16                       /* sockets that are looked at in one call */
#define TCP_FEW 2                          /* connections that are tried in turn, without the epoll */

/* Part of a context's home. */
struct tcp {
    struct ibv_context *context;
    struct service_member *service;
    int epoll;      /* -1: none yet */
    unsigned count; /* connections whose link a queue pair has: */
    LIST_HEAD(, tcp_peer) peers;
    TAILQ_HEAD(, tcp_peer) unsent;
    LIST_HEAD(, tcp_peer) gathering; /* those with pieces that have not left */
};

/* Payload of a packet in a send buffer: it is sent from the application's memory, and its place in the buffer is
 * filled only if that memory may change before it has left. */
struct tcp_piece {
    size_t at; /* its place in the buffer */
    struct soft_source from;
    uint64_t psn; /* of the request that it belongs to; UINT64_MAX: it is an answer's */
};

/* A long packet whose payload is arriving. */
struct tcp_packet {
    struct tcp_frame frame;
    uint8_t headers[SOFT_TARGET_HEADERS];
    uint32_t left;   /* bytes of it that have not come; 0: there is none */
    uint32_t placed; /* bytes of payload that are where they belong */
    bool dropped;    /* what is left of it is of no use */
};

/* The peer's last message of the handshake: the side that sent REP finds it before the first frame. */
enum tcp_rtu { TCP_RTU_NOT_EXPECTED, TCP_RTU_EXPECTED, TCP_RTU_RECEIVED, TCP_RTU_WRONG };

/* One connection. */
struct tcp_peer {
    struct soft_link link;       /* first */
    struct soft_path path;       /* by the link: what the packets come on */
    struct tcp *tcp;             /* NULL: no queue pair has the link (any more) */
    struct ibv_context *context; /* that of the queue pair, also when that is gone; NULL: there was none */
    int fd;
    atomic_uint shares; /* of the connection manager and of the queue pair; pairs with nothing but itself */
    atomic_int rtu;     /* enum tcp_rtu. The link's store of a state follows the wake-up that tells of it: the
                         * connection manager's load without the lock pairs with that store */
    struct waitset *waits; /* where the connection manager is woken when the RTU has come; NULL: nowhere */
    void *tag;
    bool begun;     /* frames may come and go */
    bool closing;   /* the DREQ is in the buffer: nothing more is sent behind it */
    bool joined;    /* the socket is in the epoll */
    bool ended;     /* nothing more is received */
    bool failed;    /* and nothing more is sent */
    bool blocked;   /* the socket was full; EPOLLOUT is watched */
    bool is_unsent; /* it is on that list */
    TAILQ_ENTRY(tcp_peer) entry;

    struct tcp_out {
        uint8_t *bytes;           /* TCP_OUT_BYTES, from the first packet on */
        size_t sent, end;         /* what is between them waits for the socket */
        struct tcp_piece *pieces; /* TCP_PIECES of them, in the order of their places */
        unsigned first, count;    /* what is between them has not left */
        bool has_vanished;        /* a file became shorter than a piece: */
        uint64_t vanished;        /* that piece's PSN */
    } out;
    LIST_ENTRY(tcp_peer) peers, gathers;
    struct tcp_in {
        uint8_t *bytes; /* TCP_IN_BYTES, from the first packet on */
        size_t begin, end;
        bool is_bulk;      /* the last frame was longer than TCP_SHORT_FRAME */
        uint8_t shortages; /* receives in a row that found no memory */
        struct tcp_packet packet;
    } in;
};

void tcp_init(struct tcp *tcp, struct ibv_context *context, struct service_member *service);
/* The descriptor that tells which sockets are ready: it is there from the first connection to the context's end.
 * 0 or an errno. (locked) */
int tcp_prepare(struct tcp *tcp);
/* The context is gone. */
void tcp_end(struct tcp *tcp);

/* As struct soft_wire has them. (locked) */
int tcp_receive(struct tcp *tcp);
void tcp_sent(struct tcp *tcp);
void tcp_settle(struct tcp *tcp);

/* ---- What the connection manager calls (not locked) -------------------------------------------- */

/* A connection over this socket, which is non-blocking. The first share is the caller's, as the socket is from now on.
 * NULL and errno: the socket stays with the caller. */
struct tcp_peer *tcp_peer_new(int fd);
/* Its link is about to be that of a queue pair of this context, which has a share then. 0 or an errno. */
int tcp_peer_attach(struct tcp *tcp, struct tcp_peer *peer);
/* The connection manager watches the socket here, with this tag, for EPOLLRDHUP. It is woken by EPOLLOUT when the
 * peer's RTU has come. NULL: it is not to be woken. */
void tcp_peer_watch(struct tcp_peer *peer, struct waitset *waits, void *tag);
/* All of the handshake has been read from the socket, but for an RTU if that is expected: frames may come and go,
 * behind the bytes of the handshake that the socket has not taken yet. */
void tcp_peer_begin(struct tcp_peer *peer, enum tcp_rtu rtu, const uint8_t *rest, size_t length);
enum tcp_rtu tcp_peer_rtu(const struct tcp_peer *peer);
/* How long the peer may acknowledge nothing, ns: a TCP_PATIENCE of its own. */
void tcp_peer_wait(struct tcp_peer *peer, uint64_t patience);
/* What the queue pair owes, then the DREQ, then the end of the stream. Only while the queue pair exists. */
void tcp_peer_disconnect(struct tcp_peer *peer);
/* The connection manager's share ends: the peer is told so by the end of the stream, behind a DREQ if there is one. */
void tcp_peer_release(struct tcp_peer *peer);

/* ---- Between the link's own files (locked) ------------------------------------------------------ */

#define TCP_PIECES 64
#define TCP_OUT_BYTES (SOFT_BURST_LONG + TCP_FLUSH_BYTES)
#define TCP_IN_BYTES ((size_t)4 * TCP_SHORT_FRAME)

/* As struct soft_link has them. */
uint8_t *tcp_link_room(struct soft_link *link, size_t size, size_t *limit);
void tcp_link_send(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
                   size_t stride);

bool tcp_link_gather(struct soft_link *link, uint8_t *to, const struct soft_source *from, uint64_t psn);
void tcp_link_settle(struct soft_link *link);
/* Drops the first `count` pieces of those that have not left. */
void tcp_drop_pieces(struct tcp_peer *peer, unsigned count);

/* Give the socket what it takes of the send buffer. */
void tcp_flush(struct tcp_peer *peer);
/* The RTU has come, or something else in its place. */
void tcp_set_rtu(struct tcp_peer *peer, enum tcp_rtu rtu);
/* Off the list of those whose send buffer waits for the end of the step. */
void tcp_leave_unsent(struct tcp_peer *peer);
/* Take in what has come, TCP_RECEIVE_BYTES at most. Returns how many packets. */
int tcp_take(struct tcp_peer *peer);
/* Watch the socket for what the state of the peer asks for. */
void tcp_watch_events(struct tcp_peer *peer);
/* The connection is broken: so is the queue pair. */
void tcp_fail(struct tcp_peer *peer, const char *why, int error);

#endif
