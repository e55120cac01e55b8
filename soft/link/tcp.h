/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp.h - the software device's link that carries a queue pair's packets over TCP: over the same TCP connection, and so
 * the same descriptor, with which the connection manager has set the connection up (REQ, REP, RTU). tcp_frame.h
 * describes the format.
 *
 * Objects. A context has one struct tcp: an epoll with the sockets of all its connections. The context's completion
 * channels and the service thread watch that epoll, so a frame wakes them as a datagram does. Each connection has one
 * struct tcp_peer: the socket, the soft_link that the queue pair's path names, and a buffer for each direction. It has
 * two references, one of the queue pair's path and one of the connection manager; dropping the last one closes the
 * socket and frees the struct.
 *
 * Sending. The engine builds packets in the peer's send buffer and leaves space between them, into which this link
 * writes the frame headers. The link writes the buffer to the socket when it holds TCP_FLUSH_BYTES, and at the end of
 * each step of the engine. If the socket is full the unsent bytes stay in the buffer, the link reports to the engine
 * that it is full, and it watches EPOLLOUT until the socket has taken all of them. An RC acknowledgement travels in the
 * header of the next packet.
 *
 * Holding back. A thread that handles a batch of events often posts several short requests of one connection. If it has
 * announced that it will poll again (struct poll_state, `polls_again`), the end of a step writes only the first of them
 * to the socket, and the others stay in the send buffer until the thread polls or stops polling, another thread posts,
 * or the service thread visits the context, after 1 to 16 ms. With 64 outstanding sends of 64 bytes, the rate is 6.5
 * times as high as without this.
 *
 * Pacing. The device completes requests, and EXS returns credits, many at a time. The socket therefore gets its data in
 * bursts, and a burst that is longer than the shortest queue of the path loses packets. Therefore the link asks the
 * kernel to spread the packets of a congestion window over the round trip, unless the round trip is shorter than
 * TCP_PACED_US, where the timers cost more than bursts do. Measured at 100 Mbit/s, a round trip of 20 ms and a queue of
 * 32 KiB: a stream of 64 KiB sends reaches 72 instead of 37 Mbit/s, and exs-put 68 instead of 30; a plain TCP stream,
 * which is not paced, reaches 48. If two flows share a bottleneck with a plain TCP stream, each gets 1.0 to 1.2 of its
 * fair share with pacing, and 0.7 to 1.0 without.
 *
 * Receiving. With at most TCP_FEW connections the receive function tries each socket; with more it asks the epoll which
 * ones are ready. It reads up to TCP_RECEIVE_BYTES from each ready socket, so that one connection does not delay the
 * others. If a peer stops within a frame, the headers, or less than TCP_SHORT_FRAME bytes of the frame, stay in that
 * peer's receive buffer, and no other connection has to wait.
 *
 * Copies in user space:
 *
 *   | payload that is sent                      | copied?                                                        |
 *   |-------------------------------------------|----------------------------------------------------------------|
 *   | registered memory, more than a page       | no: sendmsg() reads the memory (struct tcp_piece). The unsent  |
 *   |                                           | rest is copied into the send buffer (settle) if the memory may |
 *   |                                           | change: when the queue pair fails or sends packets again, a    |
 *   |                                           | region is deregistered, or the peer acknowledges packets that  |
 *   |                                           | were not sent yet                                              |
 *   | registered memory, less; inline data      | yes, into the send buffer                                      |
 *   | region of a file, more than a page        | no: sendfile(2) sends it from the page cache. If the file      |
 *   |                                           | becomes shorter after the frame's header was sent, the         |
 *   |                                           | connection breaks. The unsent rest is read into the send       |
 *   |                                           | buffer if sendfile(2) fails, and in the cases above            |
 *   | region of a file, less; memory that may   | yes, by the kernel, into the send buffer, before the frame's   |
 *   | become unmapped                           | header is sent                                                 |
 *
 *   | body of a frame that is received          | copied?                                                        |
 *   |-------------------------------------------|----------------------------------------------------------------|
 *   | at most TCP_SHORT_FRAME bytes             | yes, from the receive buffer to its destination                |
 *   | more                                      | no: recvmsg() writes the payload to its destination after the  |
 *   |                                           | engine has checked the headers (soft_input_target)             |
 *
 * Start. The link of either side starts when its connection manager has sent or received REP. The peer of the side that
 * sent REP writes its RTU before its first frame. On that side this link reads the RTU, and then wakes the connection
 * manager (enum tcp_rtu). Packets of the peer are therefore received even if the application does not read its event
 * channel, as over the other links.
 *
 * End. TCP delivers in order or not at all, so the link is lossless, and the engine sends nothing again. After the
 * peer's DREQ the link receives nothing more, and the queue pair keeps its state until the application disconnects. The
 * end of the stream without a DREQ, a reset, a TCP timeout and an invalid frame put the queue pair into the error state
 * at once. A DREQ is the last frame in the send buffer; when the socket has taken the whole buffer, the link ends the
 * stream (FIN). While the socket is full both wait, as long as the queue pair exists; if the queue pair is destroyed
 * before that, the stream is cut off. There is no DREP: TCP delivers the DREQ or breaks the connection, so the sender
 * of a DREQ expects no answer, and its connection is over at once. If the peer's host is reachable, but the peer
 * acknowledges nothing or does not read, the link gives the peer up after TCP_PATIENCE, or after the time that the
 * application sets. The connection manager watches the same socket, only for the end of the stream (EPOLLRDHUP): it
 * then processes what was received before, and reports DISCONNECTED.
 *
 * Locks. The context's lock guards everything here except the atomic fields of struct tcp_peer.
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
#define TCP_MTU SOFT_MTU_MAX               /* bytes of payload in a packet */
#define TCP_FLUSH_BYTES 65536    /* a send buffer of this length is written at once, also within a step */
#define TCP_RECEIVE_BYTES 262144 /* maximum bytes that one call reads from a socket */
#define TCP_SHORT_FRAME 4096     /* maximum bytes of a body that is received in the buffer and copied */
#define TCP_SHORTAGES 100 /* receives in a row that fail without memory, after which the connection ends */
#define TCP_PACED_US 1000 /* microseconds: a connection with a shorter round trip is not paced */
#define TCP_READY 16      /* maximum number of ready sockets that one call reads */
#define TCP_FEW 2         /* maximum number of connections that are all tried, without asking the epoll */

/* A context's part of the link. Part of its struct soft_home. */
struct tcp {
    struct ibv_context *context;
    struct service_member *service;
    int epoll;                       /* -1: none yet */
    unsigned count;                  /* entries of `peers` */
    unsigned polls;                  /* calls of tcp_receive() */
    LIST_HEAD(, tcp_peer) peers;     /* connections whose link a queue pair uses */
    TAILQ_HEAD(, tcp_peer) unsent;   /* peers whose send buffers must be flushed at the end of the step */
    LIST_HEAD(, tcp_peer) gathering; /* peers with pieces that are not completely sent */
};

/* Payload of a packet in a send buffer that is sent from the application's memory or from a file. Its bytes in the
 * buffer are reserved, but filled in only if the source may change before all of it has been sent. */
struct tcp_piece {
    size_t at; /* offset of its bytes in the buffer */
    struct soft_source from;
    uint64_t psn; /* PSN of the request that the payload belongs to; UINT64_MAX: it belongs to a response */
};

/* A long packet whose payload is arriving. */
struct tcp_packet {
    struct tcp_frame frame;
    uint8_t headers[SOFT_TARGET_HEADERS];
    uint32_t left;   /* bytes of the packet that have not been received; 0: no such packet is arriving */
    uint32_t placed; /* bytes of payload that have been written to their destination */
    bool dropped;    /* the bytes that are still missing will be read and dropped */
};

/* State of the RTU, the last message of the handshake: the side that sent REP receives it before the first frame. */
enum tcp_rtu { TCP_RTU_NOT_EXPECTED, TCP_RTU_EXPECTED, TCP_RTU_RECEIVED, TCP_RTU_WRONG };

/* One connection. */
struct tcp_peer {
    struct soft_link link; /* first */
    struct soft_path path; /* names `link`; the engine gets the peer's packets with this path */
    struct tcp *tcp;       /* the context's part; NULL: no queue pair uses the link (any more) */
    /* Context of the queue pair, even after that was destroyed; NULL: there was none. */
    struct ibv_context *context;
    int fd;
    /* References: the connection manager's and the queue pair's. Each drop pairs with the others. */
    atomic_uint shares;
    /* enum tcp_rtu. The connection manager's load, without the lock, pairs with the link's store, which follows the
     * wake-up (tcp_set_rtu()). */
    atomic_int rtu;
    struct waitset *waits; /* where the connection manager is woken when the RTU was received; NULL: nowhere */
    void *tag;
    bool begun;     /* frames may be sent and received */
    bool closing;   /* the DREQ is in the send buffer, and nothing may follow it */
    bool joined;    /* the socket is in the epoll */
    bool ended;     /* nothing more is received */
    bool failed;    /* nothing more is sent */
    bool blocked;   /* the socket was full; EPOLLOUT is watched */
    bool is_unsent; /* it is on the list `unsent` */
    TAILQ_ENTRY(tcp_peer) entry;

    struct tcp_out {
        uint8_t *bytes;           /* TCP_OUT_BYTES, allocated by tcp_peer_attach() */
        unsigned held_since;      /* the context's `polls` when the first packet of a batch was sent */
        size_t sent, end;         /* the bytes from `sent` to `end` have not been sent */
        struct tcp_piece *pieces; /* TCP_PIECES entries, in the order of their offsets */
        unsigned first, count;    /* the entries from `first` to `count` are not completely sent */
        /* A file became too short for a piece; the PSN of that piece. */
        bool has_vanished;
        uint64_t vanished;
    } out;
    LIST_ENTRY(tcp_peer) peers, gathers;
    struct tcp_in {
        uint8_t *bytes;    /* TCP_IN_BYTES, allocated by tcp_peer_attach() */
        size_t begin, end; /* the bytes between them have been received and not processed */
        bool is_bulk;      /* the last frame was longer than TCP_SHORT_FRAME */
        uint8_t shortages; /* receives in a row that found no memory */
        struct tcp_packet packet;
    } in;
};

void tcp_init(struct tcp *tcp, struct ibv_context *context, struct service_member *service);
/* Creates the epoll, if there is none yet; it stays open until tcp_end(). 0 or an errno. (locked) */
int tcp_prepare(struct tcp *tcp);
/* Closes the epoll, when the context is closed. */
void tcp_end(struct tcp *tcp);

/* Callbacks of struct soft_wire. (locked) tcp_receive() returns the number of packets. */
int tcp_receive(struct tcp *tcp);
/* Flushes the send buffers. With `may_hold` only the first such call after a poll flushes a peer's buffer, unless the
 * buffer is long. Returns whether a buffer is left: tcp_sent() must be called again. */
bool tcp_sent(struct tcp *tcp, bool may_hold);
void tcp_settle(struct tcp *tcp);

/* ---- What the connection manager calls (not locked) -------------------------------------------- */

/* Creates a peer, which then owns this nonblocking socket. The caller has the first reference. On failure returns NULL
 * and errno, and the caller still owns the socket. */
struct tcp_peer *tcp_peer_new(int fd);
/* Allocates the buffers, and adds the reference of a queue pair of this context, whose path is about to name the link.
 * 0 or an errno. */
int tcp_peer_attach(struct tcp *tcp, struct tcp_peer *peer);
/* Says where the connection manager watches the socket for EPOLLRDHUP: in `waits`, with this tag. When the peer's RTU
 * has been received, the link watches EPOLLOUT there, too, which wakes the connection manager. NULL: it is not
 * woken. */
void tcp_peer_watch(struct tcp_peer *peer, struct waitset *waits, void *tag);
/* Called when the caller has read the whole handshake from the socket, except for the RTU if `rtu` says that one is
 * expected: from now on frames may be sent and received. `rest`: bytes of the handshake that the socket has not taken
 * yet; the link sends them before the frames. */
void tcp_peer_begin(struct tcp_peer *peer, enum tcp_rtu rtu, const uint8_t *rest, size_t length);
enum tcp_rtu tcp_peer_rtu(const struct tcp_peer *peer);
/* Sets how long the peer may acknowledge nothing, ns, instead of TCP_PATIENCE. */
void tcp_peer_wait(struct tcp_peer *peer, uint64_t patience);
/* Sends the packets that the queue pair has to send, then the DREQ, and then ends the stream. Called only while the
 * queue pair exists. */
void tcp_peer_disconnect(struct tcp_peer *peer);
/* Drops the connection manager's reference, and ends the stream, behind the DREQ if one is waiting to be sent. */
void tcp_peer_release(struct tcp_peer *peer);

/* ---- Between the link's own files (locked) ------------------------------------------------------ */

#define TCP_PIECES 64 /* maximum pieces of a send buffer */
#define TCP_OUT_BYTES (SOFT_BURST_LONG + TCP_FLUSH_BYTES)
#define TCP_IN_BYTES ((size_t)4 * TCP_SHORT_FRAME)

/* Callbacks of struct soft_link. */
uint8_t *tcp_link_room(struct soft_link *link, size_t size, size_t *limit);
void tcp_link_send(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
                   size_t stride);

bool tcp_link_gather(struct soft_link *link, uint8_t *to, const struct soft_source *from, uint64_t psn);
void tcp_link_settle(struct soft_link *link);
/* Removes the first `count` of the pieces that are not completely sent. */
void tcp_drop_pieces(struct tcp_peer *peer, unsigned count);

/* Writes as much of the send buffer to the socket as it takes. */
void tcp_flush(struct tcp_peer *peer);
/* Called when the RTU, or something else in its place, has been received: sets the RTU's state, and wakes the
 * connection manager. */
void tcp_set_rtu(struct tcp_peer *peer, enum tcp_rtu rtu);
/* Removes the peer from the list `unsent`, if it is there. */
void tcp_leave_unsent(struct tcp_peer *peer);
/* Receives and processes up to about TCP_RECEIVE_BYTES. Returns the number of packets. */
int tcp_take(struct tcp_peer *peer);
/* Sets the events that the epoll watches for, according to the peer's state. */
void tcp_watch_events(struct tcp_peer *peer);
/* Called when the connection is broken: puts the queue pair into the error state, and logs `why` and `error` (an errno,
 * or 0). */
void tcp_fail(struct tcp_peer *peer, const char *why, int error);

#endif
