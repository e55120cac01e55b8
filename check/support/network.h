/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * network.h - a virtual network: connects the engines of several software devices on one virtual clock.
 *
 * Packets are queued with the time of their delivery, a script decides the fate of each, and the clock jumps to the
 * next event. A conversation therefore runs as fast as the engine computes, and a script has the same result every
 * time. A log contains all packets that were passed to the wire.
 *
 * One thread drives a network (network_step() and its callers); engines may send from any thread.
 */
#ifndef CHECK_NETWORK_H
#define CHECK_NETWORK_H

#include <stdbool.h>
#include <stdint.h>
#include "soft/engine/wire.h"
#include "roce.h"

#define NETWORK_NODES 16
#define NETWORK_LATENCY 1000 /* ns from any node to any other */
#define NETWORK_ECHO                                                                                           \
    50000 /* ns by which a FATE_ECHO copy is late, and by which a FATE_DELAY packet is late at most */

enum fate {
    FATE_DELIVER,
    FATE_DROP,
    FATE_DUPLICATE, /* two copies, one directly behind the other */
    FATE_DELAY,     /* arrives behind the next packet of the same direction that is not delayed */
    FATE_ECHO,      /* delivered, and again much later */
    FATE_CORRUPT,   /* the link detects the wrong ICRC and counts it */
    FATE_TRUNCATE   /* only a part of its BTH arrives */
};

/* One packet as it was passed to the wire. Owned by the network, valid until network_forget(). */
struct packet {
    uint64_t time; /* when it was sent */
    unsigned from, to;
    unsigned number; /* number in the log, from 0 */
    unsigned way;    /* number among the packets from `from` to `to`, from 0 */
    unsigned burst;  /* number of its burst, from 0 */
    enum fate fate;
    bool readable; /* roce is filled in */
    struct roce roce;
    size_t length;
    const uint8_t *bytes; /* NULL, like roce.payload, if network_keep_bytes is off */
};

typedef enum fate network_script(void *arg, const struct packet *packet);

struct network;

/* family: of the nodes' addresses; seed: for soft_open(); trailer: bytes that the link requests behind each packet. */
struct network *network_new(int family, uint64_t seed, size_t trailer);
/* The contexts must have no objects. Returns false if one refuses to close. */
bool network_free(struct network *network);

/* Nodes that are added from now on fetch their packets, a few at a time, as from a socket; otherwise packets are passed
 * to them. */
void network_set_pull(struct network *network, bool pull);
/* The links of these nodes have their own burst buffers, which are written past the cache; for nodes with one queue
 * pair. */
void network_set_far(struct network *network, bool far);

/* Add a node with an engine, or one without (ghost), whose packets only go to the log. Return its number. */
unsigned network_add(struct network *network);
unsigned network_add_ghost(struct network *network);
struct ibv_context *network_context(struct network *network, unsigned node);
void network_path(struct network *network, unsigned local, unsigned remote, struct soft_path *path);
void network_gid(struct network *network, unsigned node, union ibv_gid *gid);

void network_set_script(struct network *network, network_script *script, void *arg);
void network_keep_bytes(struct network *network, bool keep);

uint64_t network_now(struct network *network);
/* Returns the time of the next packet or timer, or NEVER_NS. */
uint64_t network_next(struct network *network);
/* Advances the clock to the next packets or timer and processes them. Returns false if there is none. */
bool network_step(struct network *network);
/* Runs until nothing is left. Returns false if that takes more than `steps`. */
bool network_run(struct network *network, unsigned long steps);
/* Processes everything up to this time, and sets the clock to it. */
void network_run_until(struct network *network, uint64_t time);
/* With network_set_pull(): moves all packets to the nodes' inboxes; the engines have not fetched them yet. */
void network_arrive(struct network *network);
/* Loses all packets in the network. */
void network_drain(struct network *network);

/* Delivers a packet at once, in a batch of its own. */
void network_inject(struct network *network, unsigned from, unsigned to, const void *packet, size_t length);
void network_inject_on(struct network *network, unsigned to, const struct soft_path *path, const void *packet,
                       size_t length);

unsigned network_packets(struct network *network);
const struct packet *network_packet(struct network *network, unsigned number);
void network_forget(struct network *network);    /* numbers start from 0 again */
size_t network_longest(struct network *network); /* bytes of the longest burst since the last call */
void network_print(struct network *network);     /* prints the last 100 packets to stderr */
/* Returns the first rule of wire.h that an engine broke, or NULL. */
const char *network_fault(struct network *network);

#endif
