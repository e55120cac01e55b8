/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * network.h - a virtual network: joins the engines of several embedded devices on one virtual clock.
 *
 * Nothing here is real: packets are queued with the time of their delivery, a script decides the fate of each,
 * and time jumps to whatever comes next. So a conversation runs as fast as the engine, and a given script has
 * the same answer every time. All packets that were handed to the wire are in a log, for assertions.
 *
 * One thread drives a network (network_step and what calls it); engines may send from any thread.
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
    50000 /* ns by which a FATE_ECHO copy comes late, and by which a FATE_DELAY packet at most */

enum fate {
    FATE_DELIVER,
    FATE_DROP,
    FATE_DUPLICATE, /* two copies, one right behind the other */
    FATE_DELAY,     /* behind the next packet of the same direction that is not delayed itself */
    FATE_ECHO,      /* delivered, and once more long after */
    FATE_CORRUPT,   /* the link's check finds it and counts it */
    FATE_TRUNCATE   /* only a part of its BTH arrives */
};

/* One packet as it was handed to the wire. Owned by the network, valid until network_forget. */
struct packet {
    uint64_t time; /* when it was sent */
    unsigned from, to;
    unsigned number; /* in the log, from 0 */
    unsigned way;    /* among the packets from `from` to `to`, from 0 */
    unsigned burst;  /* that it was part of, from 0 */
    enum fate fate;
    bool readable; /* roce is filled in */
    struct roce roce;
    size_t length;
    const uint8_t *bytes; /* NULL when network_keep_bytes is off; roce.payload too */
};

typedef enum fate network_script(void *arg, const struct packet *packet);

struct network;

/* Addresses of this family; the seed goes to soft_open. `trailer` bytes are asked for behind each packet. */
struct network *network_new(int family, uint64_t seed, size_t trailer);
/* The contexts must have no objects any more: false when one refuses to close. */
bool network_free(struct network *network);

/* Nodes that are added from now on fetch their packets themselves, a few at a time, as from a socket; else what
 * arrives is handed to them. */
void network_set_pull(struct network *network, bool pull);
/* Their bursts are put together in memory of their link's, past the cache: of nodes with one queue pair. */
void network_set_far(struct network *network, bool far);

/* A node with an engine, or (ghost) one without, whose packets only go to the log. Returns its number. */
unsigned network_add(struct network *network);
unsigned network_add_ghost(struct network *network);
struct ibv_context *network_context(struct network *network, unsigned node);
void network_path(struct network *network, unsigned local, unsigned remote, struct soft_path *path);
void network_gid(struct network *network, unsigned node, union ibv_gid *gid);

void network_set_script(struct network *network, network_script *script, void *arg);
void network_keep_bytes(struct network *network, bool keep);

uint64_t network_now(struct network *network);
/* When something comes next: a time, or NEVER_NS. */
uint64_t network_next(struct network *network);
/* Go to what comes next and let it happen; false when nothing ever will. */
bool network_step(struct network *network);
/* Until nothing is left to happen; false when that takes more than `steps`. */
bool network_run(struct network *network, unsigned long steps);
/* Everything up to this time, and the clock put there. */
void network_run_until(struct network *network, uint64_t time);
/* With network_set_pull: what is on its way arrives, and nobody looks at it yet. */
void network_arrive(struct network *network);
/* Loses what is on its way. */
void network_drain(struct network *network);

/* A packet out of nowhere, taken in at once, as one alone. */
void network_inject(struct network *network, unsigned from, unsigned to, const void *packet, size_t length);
void network_inject_on(struct network *network, unsigned to, const struct soft_path *path, const void *packet,
                       size_t length);

/* The log. */
unsigned network_packets(struct network *network);
const struct packet *network_packet(struct network *network, unsigned number);
void network_forget(struct network *network);    /* numbers start from 0 again */
size_t network_longest(struct network *network); /* burst, bytes, since that was asked last */
void network_print(struct network *network);     /* to stderr, the newest 100 */
/* What the engine did to the wire that wire.h forbids, or NULL. */
const char *network_fault(struct network *network);

#endif
