/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibnet.h - two ends of InfiniBand's connections (ib_conn.h) on a virtual clock, and the network between them,
 * which loses what it is told to, and has it come twice.
 *
 * One thread drives it. What each end is told is in a log, to be compared.
 */
#ifndef CHECK_IBNET_H
#define CHECK_IBNET_H

#include <stdbool.h>
#include <stdint.h>
#include "soft/cm/ib_conn.h"

#define MASKED 12      /* packets that a mask is about */
#define FLIGHT 1000000 /* ns that a packet takes */
#define SERVICE UINT64_C(0x01061234)
#define SECOND UINT64_C(1000000000)
#define IBNET_QUEUE 64
#define IBNET_CONNS 4
#define IBNET_LOG 16
#define REQUESTED 100 /* in a log, beside enum ib_event */

/* One packet under way. */
struct ibnet_flight {
    uint64_t at;
    int to;
    uint8_t mad[IB_MAD_BYTES];
};

struct ibnet;

struct ibnet_end {
    struct ib_world world; /* first */
    struct ibnet *network;
    int number;
    struct soft_path path; /* to the other */
    struct ib_conn conns[IBNET_CONNS];
    int used;
    bool listens, accepts, hangs_up;
    uint32_t next_qpn, next_id;
    int log[IBNET_LOG];
    int logged;
    unsigned rejected; /* the last reason, or a look-up's status */
};

struct ibnet {
    struct soft_clock clock; /* first */
    uint64_t now;
    struct ibnet_end ends[2];
    struct ibnet_flight flights[IBNET_QUEUE];
    int count;
    unsigned sent;
    unsigned lost, doubled; /* masks */
    bool deaf;              /* nothing arrives */
    struct soft_path third; /* to another host, for both ends; of what is sent there the last is kept */
    struct ib_message to_third;
    unsigned of_type[32];     /* sent, by the attribute's last bits, */
    unsigned third_heard[32]; /* and the same, to the third */
};

/* Both ends listen, accept, and hang up as soon as they have connected. */
struct ibnet *ibnet_new(void);
void ibnet_free(struct ibnet *network);

/* What a request says beside its queue pair. */
extern const struct ib_req some_req;

/* The first end connects; the second answers, a request or a look-up, where it doesn't by itself. */
struct ib_conn *ibnet_connect(struct ibnet *network, uint32_t qpn);
void ibnet_accept(struct ibnet_end *self, struct ib_conn *conn);
void ibnet_reply(struct ibnet_end *self, struct ib_conn *conn, unsigned status);
/* Another host says this to an end. */
void ibnet_third_says(struct ibnet *network, int end, const struct ib_message *message);

/* What lives with every mask of losses of the first packets; of what comes twice; and with both, of the first
 * eight: what is not lost may come twice, three ways for each. */
void ibnet_losses(void (*live)(unsigned lost, unsigned doubled));
void ibnet_doubles(void (*live)(unsigned lost, unsigned doubled));
void ibnet_losses_and_doubles(void (*live)(unsigned lost, unsigned doubled));

/* Until nothing more happens, or so long. */
void ibnet_run(struct ibnet *network, uint64_t ns);
/* When something happens next; NEVER_NS. */
uint64_t ibnet_next(const struct ibnet *network);

/* The end has been told this, all in all. */
void ibnet_expect(const struct ibnet *network, int end, const int *events, int count);
#define expect_events(network, end, ...)                                                                       \
    ibnet_expect(network, end, (const int[]){__VA_ARGS__},                                                     \
                 (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

#endif
