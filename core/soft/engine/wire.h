/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire.h - what the transport engine of the embedded device asks of the world, and what the world asks of it.
 *
 * The engine (requester, responder, completer of every queue pair of one context) has no clock, socket or
 * thread of its own. A context's home, or a test's virtual network, gives it a struct soft_wire and a struct
 * soft_clock, and its links call the soft_ functions below. So a test runs the same engine on a clock of its
 * own, over a network that loses, doubles and reorders what it likes, with the same answer every time.
 *
 * One lock for each context guards all its objects. Functions marked (locked) are called with the context's
 * lock held: the engine calls the wire (locked), and the link takes it by soft_lock before it calls in.
 */
#ifndef SOFT_WIRE_H
#define SOFT_WIRE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <infiniband/verbs.h>
#include "core/clock.h"

#define SOFT_UDP_PORT 4791     /* RoCEv2's port */
#define SOFT_ROCE_HEADERS 80   /* bytes of a packet: the most that IP, UDP and RoCEv2's own headers take */
#define SOFT_PKEY 0xffff       /* the default partition */
#define SOFT_PKEY_MASK 0x7fff  /* the upper bit is membership */
#define SOFT_DEVICE_PORT 1     /* the device's only one */
#define SOFT_TRAIN_MAX 65488   /* bytes of a train: what one UDP datagram holds, of IPv6 on the loopback, */
#define SOFT_TRAIN_LONG 263168 /* and of one put together in a link's own room: four packets of 64 KiB */
#define SOFT_TRAIN_PACKETS 60  /* packets of a train */
#define SOFT_FLIGHT_MAX 524288 /* bytes of payload that a queue pair has under way */

/* As core/clock.h has it, or a test: nanoseconds of a clock that only goes forward. */
struct soft_clock {
    uint64_t (*now)(struct soft_clock *clock);
};

/* The longest first: what begins one begins it all. From GCC 15 on an initializer leaves what is behind the
 * member that it names as it was; IPv6's addresses are longer, and paths are compared byte by byte. */
union soft_addr {
    struct sockaddr_in6 in6;
    struct sockaddr_in in;
    struct sockaddr sa;
};

/* None in particular: 0.0.0.0, or ::. */
static inline bool soft_is_any(const union soft_addr *addr)
{
    return addr->sa.sa_family == AF_INET ? addr->in.sin_addr.s_addr == htonl(INADDR_ANY)
                                         : IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
}

/* Both ends of a queue pair's way: addresses and UDP ports. What comes from elsewhere, another port included,
 * is not the peer's - unless the peer is at SOFT_UDP_PORT, which says nothing of where RoCE's packets come
 * from. */
struct soft_path {
    union soft_addr local, remote;
    struct soft_link *link;  /* NULL: the one that the wire has for all */
    uintptr_t traffic_class; /* of IP, 8 bits; so wide since paths are compared byte by byte, with no padding */
};

#define SOFT_ACKED 0x80u /* in the upper eight bits, and a PSN: it has come, and all before it */
#define SOFT_ACKED_SHIFT 24

/* What carries packets. A context may have many at once: a link belongs to a path. Its owner's; it outlives the
 * queue pairs whose path it is. */
struct soft_link {
    const char *name;
    uint32_t mtu; /* the largest payload of a packet, bytes, whatever the path MTU says; 0: that */
    bool
        lossless; /* what is sent arrives, as long as the peer is there: nothing is sent again but on request */
    uint64_t
        patience;   /* ns that a lossless link's peer may be silent at least, whatever the retry count says: the
                        * link finds out itself, and sooner, that a peer is gone; 0: what the retry count says */
    size_t trailer; /* bytes that the engine leaves free behind each packet for the link's check (ICRC: 4) */

    /* (locked) Send a train: packets from the BTH on, stride bytes apart, the last one perhaps shorter, each
     * ending in `trailer` free bytes (counted in stride and in length). The train may be changed, and is the
     * engine's again on return. What cannot be sent is lost, as on any wire. */
    void (*send)(struct soft_link *link, const struct soft_path *path, uint8_t *train, size_t length,
                 size_t stride);

    /* (locked) Where to put the next train together, which begins with a packet of `size` bytes, and how long
     * it may get, SOFT_TRAIN_LONG at most. NULL: there is no room now, and `full` is set, until
     * soft_link_drained. The call itself is NULL where the engine's own memory will do. A link that has it
     * carries one queue pair's packets. */
    uint8_t *(*room)(struct soft_link *link, size_t size, size_t *limit);
    bool full;
    bool far;               /* another processor reads what is put there next: it is copied past the cache */
    struct soft_qp *waiter; /* the queue pair that found it full */

    /* Where an acknowledgement needs no packet of its own: it goes with the next train, and is the link's to tell
     * and to clear (SOFT_ACKED and a PSN; 0: none). Such a link carries one queue pair's packets. */
    bool carries_ack;
    uint32_t ack;
    struct soft_qp *user; /* whose path it is: the last one's, if there are several */

    /*
     * (locked) A link that sends from where a payload is: bytes that belong at `to`, in the room that it gave, are
     * here, and stay so until the peer acknowledges PSN `psn` or `settle` is called. False: they are to be copied
     * there instead. settle: they don't stay so any longer, whichever they are; the link copies what has not left.
     * NULL, both, where all is copied.
     */
    bool (*gather)(struct soft_link *link, uint8_t *to, const void *from, size_t length, uint64_t psn);
    void (*settle)(struct soft_link *link);
    uint64_t gathered; /* the PSN of the first packet whose bytes it has not sent; UINT64_MAX: none */

    /* (locked) So many bytes more are being sent that nobody acknowledges. How long to wait before the next,
     * ns, and then to ask again, of 0 bytes; 0: don't wait. NULL where nothing is lost for want of room. */
    uint64_t (*pace)(struct soft_link *link, const struct soft_path *path, size_t bytes);

    /* (locked) Its queue pair is gone, or has another path; nobody uses the link any more. May be NULL. */
    void (*leave)(struct soft_link *link);
};

/* Who calls a wire's `receive`. */
enum soft_looker {
    SOFT_LOOKS_ONCE,  /* someone who may sleep then, or who has been woken */
    SOFT_POLLS,       /* a program that polls, and asks for an event before it sleeps */
    SOFT_POLLS_RESTS, /* one that, besides, says when it sleeps: soft_rest */
};

/* A context's way to the world. Owned by whoever opens the context, and outlives it. */
struct soft_wire {
    struct soft_link *link; /* of paths that name none */

    enum soft_looker looker;

    /* What arrives wakes nobody, since the last who looked are to look again: `watch` comes before they sleep, or
     * when they have not come for a while. */
    bool unwatched;

    uint64_t grain; /* ns by which it may be late with soft_timers, and answers with it */

    /* (locked) Take in what has arrived, by soft_input for each packet; returns how many packets.
     * Bounded: at most a few trains, so that the lock is not held for long. NULL where packets are pushed. */
    int (*receive)(struct soft_wire *wire, struct ibv_context *context);

    /* (locked) A turn of sending is over, after one train or many: who is to be woken up for them can be now.
     * May be NULL. */
    void (*sent)(struct soft_wire *wire, struct ibv_context *context);

    /* (locked) What arrives from now on wakes whoever waits for it, and so does what has arrived already. NULL
     * where it always does. */
    void (*watch)(struct soft_wire *wire);

    /* (locked) The application itself is driving the device (it polled a completion queue, waited for an
     * event, or posted work): a service thread may step aside. NULL where there is none. */
    void (*attended)(struct soft_wire *wire, struct ibv_context *context);

    /* (locked) The application is about to sleep on a completion channel's descriptor where packets don't wake
     * it: somebody else has to take them in, at once. NULL where nobody can. */
    void (*awaits)(struct soft_wire *wire, struct ibv_context *context);

    /* (locked) Called when the first queue pair of the context is created: a link opens its sockets now.
     * 0, or an errno with which creating the queue pair fails. May be NULL. */
    int (*open)(struct soft_wire *wire, struct ibv_context *context);

    /* (locked) Listen at a multicast group's address, which has no port, and no more. 0 or an errno. NULL,
     * both, where there is no such thing. */
    int (*join)(struct soft_wire *wire, const union soft_addr *group);
    void (*leave)(struct soft_wire *wire, const union soft_addr *group);

    /* (locked) Memory is about to be deregistered: no link sends from where it is. May be NULL. */
    void (*settle)(struct soft_wire *wire);
};

/* ---- A context ----------------------------------------------------------------------------- */

/* A device context of its own: NULL and errno when there is no memory. GUID and queue pair numbers are
 * random, or follow from `seed` when it is not 0. */
struct ibv_context *soft_open(struct soft_wire *wire, struct soft_clock *clock, uint64_t seed);
/* Give it the descriptor of its asynchronous events, async_fd, which programs of verbs watch, if it has none.
 * 0, or -1 and errno. */
int soft_async_fd(struct ibv_context *context);
/* EBUSY while it has objects. */
int soft_close(struct ibv_context *context);

/* The numbers that a queue pair may have are 24 bits: 0 and 1 are for management, and the last is multicast's. */
#define SOFT_QPN_MIN 2
#define SOFT_QPN_MAX 0xfffffe
#define SOFT_GROUP_QPN 0xffffff /* the destination of every packet to a group */
bool soft_is_qpn(uint32_t number);

/*
 * What programs tell each other by means of their own, to connect queue pairs.
 *
 * A context with names has a local identifier, LID, from 1 to SOFT_LID_MAX, one to a process of this host, and
 * its UDP port is SOFT_LID_PORT + LID. The number of each of its queue pairs begins with the LID, too: so a GID
 * and a queue pair number lead to the queue pair from any host, and a LID and a queue pair number from this
 * one.
 */
#define SOFT_LID_PORT 49152
#define SOFT_LID_MAX 4094
#define SOFT_LID_QPNS_BITS 12 /* the rest of a queue pair number */
#define SOFT_GIDS 64          /* places in the table */

struct soft_gid {
    union ibv_gid gid;
    unsigned interface; /* of the network, its index */
};

struct soft_names {
    uint16_t lid;
    uint64_t guid;    /* of the node, network byte order */
    enum ibv_mtu mtu; /* the largest that all the addresses can carry */
    bool roce; /* reached at SOFT_UDP_PORT, too, and to find there whoever shows no LID of the kind below */
    int gid_count;
    struct soft_gid gids[SOFT_GIDS];
};

/* Before the context has any object. */
void soft_set_names(struct ibv_context *context, const struct soft_names *names);
/* This host's addresses, the one to give to others first; returns how many. */
int soft_host_gids(struct soft_gid gids[SOFT_GIDS]);
/* Any socket will do. */
enum ibv_mtu soft_host_mtu(int socket, const struct soft_gid *gids, int count);
uint64_t soft_host_guid(void);
void soft_gid_of(union ibv_gid *gid, const struct sockaddr *addr);
/* The place of a GID in the table, -1 if it has none. (locked) */
int soft_gid_index(struct ibv_context *context, const union ibv_gid *gid);
/* The same for an address that is this host's but that nobody has listed, as all of 127.0.0.0/8 are: it gets a
 * place now. -1: none is left, or the context has no names. (not locked) */
int soft_gid_enter(struct ibv_context *context, const union ibv_gid *gid);

static inline in_port_t soft_port_of_lid(unsigned lid) /* network byte order */
{
    return htons((uint16_t)(SOFT_LID_PORT + lid));
}

static inline uint16_t soft_lid_of_port(in_port_t port) /* 0: none */
{
    unsigned lid = ntohs(port) - SOFT_LID_PORT;

    return lid <= SOFT_LID_MAX ? (uint16_t)lid : 0;
}

struct soft_wire *soft_wire_of(struct ibv_context *context);
void soft_lock(struct ibv_context *context);
bool soft_trylock(struct ibv_context *context);
void soft_unlock(struct ibv_context *context);

/* Whoever has looked, and was to look again, sleeps now, or has not come: what arrives is to wake somebody. (locked) */
void soft_watch_again(struct ibv_context *context);

/* Watch this descriptor too (level-triggered, reading) in every completion channel of the context, present
 * and future: so a packet wakes the application without a thread between. (locked) */
int soft_watch(struct ibv_context *context, int fd);
void soft_unwatch(struct ibv_context *context, int fd); /* (locked) */
/* Has `awaits` been called, and no event come yet? (any thread) */
bool soft_is_awaited(struct ibv_context *context);
/* Does somebody sleep where packets wake him, and timers of which he knows? (any thread) */
bool soft_is_slept_on(struct ibv_context *context);

/* ---- What a link calls (locked) --------------------------------------------------------------- */

/* One packet, from the BTH on, without the trailer, that came on `path` (local = where it arrived).
 * Malformed ones are counted and dropped. */
void soft_input(struct ibv_context *context, const struct soft_path *path, const uint8_t *packet,
                size_t length);
/* The same of one that its sender may still be changing: no byte of it is read twice. */
void soft_input_shared(struct ibv_context *context, const struct soft_path *path, const uint8_t *packet,
                       size_t length);
/*
 * Of a long packet a link may give the headers first, to receive the payload where it belongs. Each part of the
 * payload needs a call of soft_input_target() before it, under the same hold of the lock: memory that is not
 * registered any more is not written to. soft_input_placed() then carries the packet out.
 */
#define SOFT_TARGETS 32        /* stretches of memory that one payload goes to */
#define SOFT_TARGET_HEADERS 44 /* bytes of a packet: all its headers, whatever it is */

struct soft_target {
    uint32_t headers,
        length;   /* bytes of the packet's headers, and of the payload behind them, without its pad */
    bool fragile; /* the memory may vanish: the kernel has to write there */
    int count;
    struct iovec memory[SOFT_TARGETS]; /* `length` bytes altogether */
};

/* `bytes`: the first SOFT_TARGET_HEADERS of a packet of `length`. True: its payload goes to `target`. False: the
 * packet has been dealt with, and its payload is to be dropped. */
bool soft_input_target(struct ibv_context *context, const struct soft_path *path, const uint8_t *bytes,
                       size_t length, struct soft_target *target);
/* Write a part of the payload, which begins at this offset of it. False: the memory has vanished. */
bool soft_target_write(const struct soft_target *target, uint32_t offset, const uint8_t *from, uint32_t length);
/* The payload has all been received there, or, where `vanished`, could not be written. */
void soft_input_placed(struct ibv_context *context, const struct soft_path *path, const uint8_t *bytes,
                       size_t length, bool vanished);
/* An acknowledgement that came with a train, after its packets: SOFT_ACKED and a PSN. */
void soft_input_ack(struct soft_link *link, uint32_t ack);
/* There is room again; soft_flush goes on. */
void soft_link_drained(struct soft_link *link);
/* Nothing can come or go by it any more: its queue pair is in error. */
void soft_link_failed(struct ibv_context *context, const struct soft_link *link);
/* How many queue pairs there are. */
size_t soft_qps(struct ibv_context *context);
/* After a batch of soft_input: send the acknowledgements that were put together, go on sending. */
void soft_flush(struct ibv_context *context);
/* When soft_timers has something to do: a time of the clock, or NEVER_NS. */
uint64_t soft_deadline(struct ibv_context *context);
void soft_timers(struct ibv_context *context) __attribute__((noinline));
/* The link knows that it dropped packets that had arrived (a full socket buffer) at this port of its own, in
 * network byte order, 0: at any, and has taken in all the others: ask for what is missing now, not after a
 * time-out. */
void soft_overflow(struct ibv_context *context, in_port_t port);
/* receive, timers when due, flush: what polling and waiting do. Returns packets taken in. */
int soft_progress(struct ibv_context *context);

/* ---- What the connection manager calls -------------------------------------------------------- */

/* Give a queue pair in RTR or before its way: overrides what modify_qp made of the address handle. */
void soft_set_path(struct ibv_qp *qp, const struct soft_path *path);
/* To one in RTS: a message of ours was there and back in so many ns. */
void soft_set_round_trip(struct ibv_qp *qp, uint64_t round);

/* Counters of a context, for tests and for the curious. */
struct soft_counters {
    uint64_t packets_sent, packets_received, bytes_sent, bytes_received; /* payload and headers */
    uint64_t retransmitted;                                              /* request packets sent again */
    uint64_t timeouts;                                                   /* ACK time-outs that fired */
    uint64_t probes;                                                     /* sent again before that */
    uint64_t naks_sent, naks_received, rnr_naks_sent, rnr_naks_received;
    uint64_t duplicates; /* requests seen again by the responder */
    uint64_t malformed;  /* truncated, wrong version, unknown opcode, bad check, no such queue pair */
    uint64_t refused;    /* key, bounds, access or address wrong, or a PSN far from the expected one */
    uint64_t unready;    /* messages for which no receive was posted, where the sender isn't told */
    uint64_t overflows;
    uint64_t paced; /* pauses of queue pairs that nobody acknowledges */
};
void soft_query_counters(struct ibv_context *context, struct soft_counters *counters);
/* A longer packet at the end of a message has a train of its own. */
bool soft_wants_news_apart(const struct ibv_qp *qp);
/* From now on a WRITE of no bytes needs a valid key, too. Before its peer is known. */
void soft_check_every_key(struct ibv_qp *qp);
uint64_t soft_query_retransmitted(struct ibv_qp *qp);                      /* of these, of one queue pair */
const struct soft_counters *soft_counters_of(struct ibv_context *context); /* (locked) */
/* Does the kernel's loopback carry what goes between these, for all that they say? */
bool soft_is_by_loopback(const union soft_addr *local, const union soft_addr *remote);
/* The wire dropped a packet before soft_input could see it (bad ICRC, too short). (locked) */
void soft_count_malformed(struct ibv_context *context);

#endif
