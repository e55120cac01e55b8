/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire.h - the interface between the software device's transport engine, the links that carry its packets, and the
 * clock.
 *
 * The engine is the requester, responder and completer of every queue pair of one context. It calls no socket function,
 * reads no clock and starts no thread. The opener of a context passes it a struct soft_wire (callbacks to the
 * environment: a part of struct soft_home in soft/service/, or a test's virtual network) and a struct soft_clock. A
 * struct soft_link is a way of carrying packets (udp, tcp, shm). The links call the soft_ functions below when packets
 * arrive. A test therefore runs the same engine on a virtual clock, over a network that loses, duplicates and reorders
 * packets in a reproducible way.
 *
 * One mutex for each context guards all objects of the context. A function or callback marked (locked) is called with
 * this mutex held: the engine holds it when it calls a callback, and a link takes it with soft_lock() before it calls
 * the engine. A burst is a run of packets that one call of a link sends.
 */
#ifndef SOFT_WIRE_H
#define SOFT_WIRE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <infiniband/verbs.h>
#include "core/base/clock.h" /* export */

#define SOFT_UDP_PORT 4791    /* RoCEv2 */
#define SOFT_ROCE_HEADERS 80  /* maximum bytes of IP, UDP and RoCEv2 headers in a packet */
#define SOFT_PKEY 0xffff      /* the default partition */
#define SOFT_PKEY_MASK 0x7fff /* the most significant bit is the membership bit */
#define SOFT_DEVICE_PORT 1    /* number of the device's only port */
/* Maximum bytes of a burst that the kernel takes as one UDP datagram, with IPv6 over the loopback interface. */
#define SOFT_BURST_MAX 65488
/* Maximum bytes of a burst that is built in the link's buffer: four packets of 64 KiB, or one of SOFT_MTU_MAX. */
#define SOFT_BURST_LONG 263168
#define SOFT_MTU_MAX 262144    /* maximum payload of a packet in bytes; over UDP packets are shorter */
#define SOFT_BURST_PACKETS 60  /* maximum packets of a burst */
#define SOFT_FLIGHT_MAX 524288 /* maximum payload bytes of a queue pair that are sent and not acknowledged */

/* Nanoseconds of a monotonic clock: core/base/clock.h, or a test's virtual clock. */
struct soft_clock {
    uint64_t (*now)(struct soft_clock *clock);
};

/* The longest member is first, so that an initializer clears all bytes: from GCC 15 on, an initializer of a shorter
 * first member leaves the bytes behind it undefined, and paths are compared with memcmp(). */
union soft_addr {
    struct sockaddr_in6 in6;
    struct sockaddr_in in;
    struct sockaddr sa;
};

/* True for the wildcard address, 0.0.0.0 or ::. */
static inline bool soft_is_any(const union soft_addr *addr)
{
    return addr->sa.sa_family == AF_INET ? addr->in.sin_addr.s_addr == htonl(INADDR_ANY)
                                         : IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
}

/* Both ends of a queue pair's path: addresses and UDP ports. A packet from another address or port is not the peer's,
 * with one exception: a peer at SOFT_UDP_PORT may send from any port, as RoCEv2 allows. */
struct soft_path {
    union soft_addr local, remote;
    struct soft_link *link; /* NULL: the wire's default link */
    /* The IP header's traffic class, 8 bits. A uintptr_t, so that the struct has no padding: paths are compared with
     * memcmp(). */
    uintptr_t traffic_class;
};

/* An acknowledgement that a link carries without a packet is a 32-bit number: SOFT_ACKED in the upper eight bits, and a
 * PSN in the others. It says that all packets up to this PSN have arrived. 0 means no acknowledgement. */
#define SOFT_ACKED 0x80u
#define SOFT_ACKED_SHIFT 24

/* Payload that a link sends directly from memory or from a file. */
struct soft_source {
    const uint8_t *memory; /* NULL: the payload is in the descriptor `file`, from the offset `place` on */
    int file;
    uint64_t place;
    size_t length;
};

/* A link: it carries packets over udp, tcp or shm. A context may use several at the same time, because the link is part
 * of a path. A struct soft_link belongs to the module that created it and outlives the queue pairs whose path names
 * it. */
struct soft_link {
    const char *name;
    uint32_t mtu; /* maximum payload of a packet in bytes, in place of the path MTU; 0: the path MTU */
    /* All packets arrive as long as the peer exists, so the engine retransmits nothing unless the peer asks for it. */
    bool lossless;
    /* Lossless links: minimum time in ns before an unresponsive peer counts as dead, even if the retry count allows
     * less. The link itself detects a dead peer earlier. 0: the retry count alone decides. */
    uint64_t patience;
    /* Bytes that the engine leaves free behind each packet for the link's checksum (ICRC: 4). */
    size_t trailer;

    /* (locked) Sends a burst: packets from the BTH on, which start `stride` bytes apart. The last one may be shorter.
     * Each packet ends in `trailer` free bytes, which are counted in stride and length. The link may change the bytes
     * until it returns. Packets that it cannot send are lost, as on any network. */
    void (*send)(struct soft_link *link, const struct soft_path *path, uint8_t *burst, size_t length,
                 size_t stride);

    /* (locked) Returns where the engine builds the next burst, whose first packet has `size` bytes, and stores in
     * *limit the maximum length of the burst, at most SOFT_BURST_LONG. Returns NULL if the link has no space: it has
     * set `full`, and calls soft_link_drained() when there is space again. The callback itself is NULL if the engine
     * builds bursts in its own memory. A link with this callback carries the packets of one queue pair. */
    uint8_t *(*room)(struct soft_link *link, size_t size, size_t *limit);
    bool full;
    /* The next reader of the burst is on another CPU without a common cache, so the engine copies payload with
     * non-temporal stores (copy_far). */
    bool far;
    struct soft_qp *waiter; /* the queue pair that found the link full */

    /* If `carries_ack` is set, an acknowledgement needs no packet: the engine stores it here (SOFT_ACKED and a PSN; 0:
     * none), and the link sends it with the next burst and clears it. A link with this flag carries the packets of one
     * queue pair. */
    bool carries_ack;
    uint32_t ack;
    struct soft_qp *user; /* the queue pair whose path names this link; the last one if there are several */

    /*
     * (locked) For a link that sends payload directly from registered memory or files. gather() asks the link to send
     * the bytes of `from` in place of those at `to`, which is in the buffer that room() returned. The memory, or the
     * file descriptor, stays valid until the peer acknowledges PSN `psn` or the engine calls settle(). False: the
     * engine copies the bytes to `to`. settle() announces that such memory becomes invalid; the link copies the bytes
     * that it has not sent yet. Both are NULL if all payload is copied.
     */
    bool (*gather)(struct soft_link *link, uint8_t *to, const struct soft_source *from, uint64_t psn);
    void (*settle)(struct soft_link *link);
    /* PSN of the first packet with gathered payload that the link has not sent; UINT64_MAX: none. */
    uint64_t gathered;

    /* (locked) The engine is about to send `bytes` more bytes on a transport without acknowledgements. Returns how long
     * the queue pair must pause, in ns, before it asks again with 0 bytes; 0: no pause. NULL if the link loses nothing
     * when the receiver's buffer is full. */
    uint64_t (*pace)(struct soft_link *link, const struct soft_path *path, size_t bytes);

    /* (locked) The queue pair was destroyed or has another path now; nothing uses the link any more. May be NULL. */
    void (*leave)(struct soft_link *link);
};

/* How the caller of a wire's receive() polls. */
enum soft_poll_mode {
    SOFT_POLLS_ONCE,  /* the caller polls once: it may sleep next, or a packet has woken it */
    SOFT_POLLS,       /* the caller polls in a loop, and arms a completion queue before it sleeps */
    SOFT_POLLS_RESTS, /* the caller polls in a loop, and calls soft_stop_polling() before it sleeps */
};

/* The engine's callbacks to its environment. The struct belongs to the opener of the context and outlives the context.
 * The context's lock guards its fields. */
struct soft_wire {
    struct soft_link *link; /* the link for paths that name none */

    enum soft_poll_mode poll_mode;

    /* Set while packets that arrive wake no thread, because the last caller of receive() polls in a loop. watch() ends
     * this state: it is called before that caller sleeps, or by the service thread if the caller has not polled for a
     * while. */
    bool unwatched;

    /* Set by the engine during a step that posted work causes, if the thread that posted it will poll the context again
     * or call soft_stop_polling(): sent() may then hold packets back. */
    bool may_hold;
    bool holds; /* set by sent(): packets are held back, so sent() must be called again */

    uint64_t grain; /* ns by which calls of soft_timers(), and the peer's answers, may be late */

    /* (locked) Passes packets that have arrived to soft_input() and returns their number. It processes a few bursts at
     * most, so that the lock is not held for long. NULL if the links call soft_input() on their own. */
    int (*receive)(struct soft_wire *wire, struct ibv_context *context);

    /* (locked) Called when the engine has finished a step in which it sent bursts, or which may end `holds`. The link
     * may now wake the receivers. May be NULL. */
    void (*sent)(struct soft_wire *wire, struct ibv_context *context);

    /* (locked) From now on packets wake a waiting thread again, including packets that have arrived already. NULL if
     * packets always wake one. */
    void (*watch)(struct soft_wire *wire);

    /* (locked) Called when the application drives the device: it has polled a completion queue, waited for an event, or
     * posted work. The service thread then need not drive it. NULL if there is no service thread. */
    void (*attended)(struct soft_wire *wire, struct ibv_context *context);

    /* (locked) Called when the application is about to sleep on a completion channel's descriptor that packets do not
     * make readable, so that another thread must process packets from now on. NULL if there is no such thread. */
    void (*awaits)(struct soft_wire *wire, struct ibv_context *context);

    /* (locked) Called when the first queue pair of the context is created; the links open their sockets. Returns 0, or
     * an errno with which creating the queue pair fails. May be NULL. */
    int (*open)(struct soft_wire *wire, struct ibv_context *context);

    /* (locked) Start and stop receiving datagrams for a multicast group's address, which has no port. Returns 0 or an
     * errno. Both are NULL if multicast is not available. */
    int (*join)(struct soft_wire *wire, const union soft_addr *group);
    void (*leave)(struct soft_wire *wire, const union soft_addr *group);

    /* (locked) Called when a memory region is about to be deregistered: each link copies the bytes that it has not sent
     * from there. May be NULL. */
    void (*settle)(struct soft_wire *wire);
};

/* ---- A context ----------------------------------------------------------------------------- */

/* Opens a context with its own objects and lock. Returns NULL and errno if no memory or no random numbers are
 * available. GUID, keys and queue pair numbers are random, or derived from `seed` if it is not 0 (tests). */
struct ibv_context *soft_open(struct soft_wire *wire, struct soft_clock *clock, uint64_t seed);
/* Creates the descriptor of the context's asynchronous events (async_fd, which verbs programs watch) unless it exists.
 * 0, or -1 and errno. */
int soft_async_fd(struct ibv_context *context);
/* Closes and frees a context. Returns 0, or EBUSY while the context has objects. */
int soft_close(struct ibv_context *context);

/* Queue pair numbers have 24 bits. 0 and 1 are for management, and the last is the multicast one. */
#define SOFT_QPN_MIN 2
#define SOFT_QPN_MAX 0xfffffe
#define SOFT_GROUP_QPN 0xffffff /* the destination of each multicast packet */
/* Returns true if the number is from SOFT_QPN_MIN to SOFT_QPN_MAX. */
bool soft_is_qpn(uint32_t number);

/*
 * The names by which programs that exchange addresses on their own (not with a connection manager) connect queue pairs.
 *
 * A context with names has a local identifier (LID), from 1 to SOFT_LID_MAX, which no other process of the host has.
 * Its UDP port is SOFT_LID_PORT + LID, and the numbers of its queue pairs begin with the LID. A GID and a queue pair
 * number therefore identify the queue pair from any host, and a LID and a queue pair number from this host.
 */
#define SOFT_LID_PORT 49152
#define SOFT_LID_MAX 4094
#define SOFT_LID_QPNS_BITS 12 /* bits of a queue pair number that follow the LID */
#define SOFT_GIDS 64          /* entries of the GID table */

/* An entry of the GID table. */
struct soft_gid {
    union ibv_gid gid;
    unsigned interface; /* index of the network interface */
};

/* The names of a context. */
struct soft_names {
    uint16_t lid;     /* 0: the context has no names */
    uint64_t guid;    /* node GUID, network byte order */
    enum ibv_mtu mtu; /* the largest path MTU that the interfaces of all addresses can carry */
    /* The context also receives at SOFT_UDP_PORT, and sends to that port of each peer that no LID identifies. */
    bool roce;
    int gid_count;
    struct soft_gid gids[SOFT_GIDS];
};

/* Gives the context names. Must be called before the context has any object. */
void soft_set_names(struct ibv_context *context, const struct soft_names *names);
/* Fills in the GIDs of this host's addresses, first the one that peers should use; returns their number. */
int soft_host_gids(struct soft_gid gids[SOFT_GIDS]);
/* Returns the largest path MTU that the interfaces of all addresses can carry. `socket` may be any socket. */
enum ibv_mtu soft_host_mtu(int socket, const struct soft_gid *gids, int count);
/* Returns this host's node GUID, in network byte order. */
uint64_t soft_host_guid(void);
/* Sets *gid to the GID of an IP address; that of an IPv4 address is the IPv4-mapped IPv6 address. */
void soft_gid_of(union ibv_gid *gid, const struct sockaddr *addr);
/* Returns the index of a GID in the context's table, or -1. (locked) */
int soft_gid_index(struct ibv_context *context, const union ibv_gid *gid);
/* Like soft_gid_index(), but adds a GID that is not in the table: for addresses of this host that no interface lists,
 * such as those in 127.0.0.0/8. Returns -1 if the table is full, or the context has no names. (not locked) */
int soft_gid_enter(struct ibv_context *context, const union ibv_gid *gid);

/* Returns the UDP port of a LID, in network byte order. */
static inline in_port_t soft_port_of_lid(unsigned lid)
{
    return htons((uint16_t)(SOFT_LID_PORT + lid));
}

/* Returns the LID that has this UDP port (network byte order), or 0. */
static inline uint16_t soft_lid_of_port(in_port_t port)
{
    unsigned lid = ntohs(port) - SOFT_LID_PORT;

    return lid <= SOFT_LID_MAX ? (uint16_t)lid : 0;
}

struct soft_wire *soft_wire_of(struct ibv_context *context);
void soft_lock(struct ibv_context *context);
bool soft_trylock(struct ibv_context *context);
void soft_unlock(struct ibv_context *context);

/* Called when a thread that polled in a loop is about to sleep, or has not polled for a while: from now on packets wake
 * a waiting thread. (locked) */
void soft_watch_again(struct ibv_context *context);

/* Adds a descriptor (level-triggered, EPOLLIN) to the wait set of each completion channel that the context has or will
 * have, so that a packet wakes the application directly. 0 or an errno. (locked) */
int soft_watch(struct ibv_context *context, int fd);
/* Removes the descriptor again. (locked) */
void soft_unwatch(struct ibv_context *context, int fd);
/* True while a completion queue is armed whose user sleeps where packets do not wake it (see `awaits`). Any thread may
 * call this. */
bool soft_is_awaited(struct ibv_context *context);
/* True while a thread sleeps that packets wake, and that handles the timers. Advisory. Any thread may call this. */
bool soft_is_slept_on(struct ibv_context *context);

/* ---- What a link calls (locked) --------------------------------------------------------------- */

/* Processes one packet, from the BTH on, without the trailer. `path`: the packet's source (remote) and destination
 * (local). Malformed packets are counted and dropped. */
void soft_input(struct ibv_context *context, const struct soft_path *path, const uint8_t *packet,
                size_t length);
/* Like soft_input(), for a packet in memory that the sender can still change: the engine reads each byte once. */
void soft_input_shared(struct ibv_context *context, const struct soft_path *path, const uint8_t *packet,
                       size_t length);
/*
 * A link may pass the headers of a long packet first, and then receive the payload directly into its destination. It
 * calls soft_input_target() before each part of the payload and writes the part before it releases the lock, so that
 * deregistered memory is never written to. soft_input_placed() then executes the packet.
 */
#define SOFT_TARGETS 32        /* maximum number of memory segments for one payload */
#define SOFT_TARGET_HEADERS 44 /* maximum bytes of a packet's headers */

/* The destination of a payload. */
struct soft_target {
    /* Bytes of the packet's headers; bytes of the payload behind them without its pad. */
    uint32_t headers, length;
    bool nofault; /* the memory may vanish (a truncated file): only fault-safe copies may write there */
    int count;    /* segments in `memory` */
    struct iovec memory[SOFT_TARGETS]; /* `length` bytes in total */
};

/* Finds the destination of a payload. `bytes`: the first SOFT_TARGET_HEADERS bytes of a packet of `length` bytes. True:
 * *target is the destination. False: the engine has handled the packet, and the link drops the payload. */
bool soft_input_target(struct ibv_context *context, const struct soft_path *path, const uint8_t *bytes,
                       size_t length, struct soft_target *target);
/* Writes a part of the payload that begins at this offset. False: the memory has vanished. */
bool soft_target_write(const struct soft_target *target, uint32_t offset, const uint8_t *from, uint32_t length);
/* Called when the payload has been received completely, or could not be written (`vanished`). */
void soft_input_placed(struct ibv_context *context, const struct soft_path *path, const uint8_t *bytes,
                       size_t length, bool vanished);
/* Processes an acknowledgement (SOFT_ACKED and a PSN) that has arrived with a burst. Called after the burst's packets
 * were processed. */
void soft_input_ack(struct soft_link *link, uint32_t ack);
/* Called when the link has space again; the next soft_flush() continues to send. */
void soft_link_drained(struct soft_link *link);
/* Called when the link can carry nothing any more: its queue pairs enter the error state. */
void soft_link_failed(struct ibv_context *context, const struct soft_link *link);
/* Called when the link can't send the payload of the request with this PSN, because a file has become shorter. The link
 * can send nothing after that: it calls soft_link_failed() next. */
void soft_link_vanished(const struct soft_link *link, uint64_t psn);
/* Returns the number of queue pairs. */
size_t soft_qps(struct ibv_context *context);
/* Called after a batch of soft_input(): sends the acknowledgements that are due, and continues to send requests. */
void soft_flush(struct ibv_context *context);
/* Returns the time (ns, of the clock) when soft_timers() must be called, or NEVER_NS; 0: at once. */
uint64_t soft_deadline(struct ibv_context *context);
/* Handles the timers that are due. */
void soft_timers(struct ibv_context *context) __attribute__((noinline));
/* Called when the kernel has dropped packets for this local port (a full socket buffer), and the link has passed on all
 * others. The engine asks for the missing packets now instead of after a timeout. `port`: network byte order; 0: any
 * port. */
void soft_overflow(struct ibv_context *context, in_port_t port);
/* Drives the engine, when a thread polls or waits for events: calls receive(), soft_timers() if a timer is due, and
 * soft_flush(). Returns the number of packets received. */
int soft_progress(struct ibv_context *context);

/* ---- What the connection manager calls -------------------------------------------------------- */

/* Sets the path of a queue pair in RTR or an earlier state, in place of the path that modify_qp derived from the
 * address handle. */
void soft_set_path(struct ibv_qp *qp, const struct soft_path *path);
/* Passes on the round-trip time to the peer that the connection manager has measured, ns. The queue pair is in RTS. */
void soft_set_round_trip(struct ibv_qp *qp, uint64_t round);

/* Counters of a context, for tests and diagnostics. */
struct soft_counters {
    uint64_t packets_sent, packets_received, bytes_sent, bytes_received; /* payload and headers */
    uint64_t retransmitted;                                              /* request packets sent again */
    uint64_t timeouts;                                                   /* ACK timers that expired */
    uint64_t probes; /* packets sent again before the ACK timer expired */
    uint64_t naks_sent, naks_received, rnr_naks_sent, rnr_naks_received;
    uint64_t duplicates; /* duplicate requests that the responder received */
    /* Packets that were dropped: truncated, wrong version, unknown opcode, bad checksum, no such queue pair. */
    uint64_t malformed;
    /* Packets that were refused: wrong key, bounds, access or address, or a PSN too far from the expected one. */
    uint64_t refused;
    uint64_t unready;   /* messages without a posted receive, on transports without acknowledgements */
    uint64_t overflows; /* calls of soft_overflow() */
    uint64_t paced;     /* pauses that a link's pace() asked for */
};
/* Copies the counters. */
void soft_query_counters(struct ibv_context *context, struct soft_counters *counters);
/* From now on the peer must name a valid key even in a WRITE of no bytes. Called before the queue pair is connected. */
void soft_check_every_key(struct ibv_qp *qp);
/* Returns how many request packets this queue pair has sent again. */
uint64_t soft_query_retransmitted(struct ibv_qp *qp);
/* Returns the context's counters. (locked) */
const struct soft_counters *soft_counters_of(struct ibv_context *context);
/* True if the addresses alone show that packets between them travel over the loopback interface. */
bool soft_is_by_loopback(const union soft_addr *local, const union soft_addr *remote);
/* Called when the link has dropped a packet (bad ICRC, too short) without calling soft_input(). (locked) */
void soft_count_malformed(struct ibv_context *context);

#endif
