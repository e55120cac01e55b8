/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibnet.h - two endpoints of InfiniBand's connection management (ib_conn.h) on a virtual clock, and the network between
 * them, which loses or duplicates the packets that a test selects.
 *
 * Single-threaded. Each endpoint records the events of its application in a log.
 */
#ifndef CHECK_IBNET_H
#define CHECK_IBNET_H

#include <stdbool.h>
#include <stdint.h>
#include "soft/cm/ib_conn.h"

#define MASKED 12      /* number of packets that a mask selects from */
#define FLIGHT 1000000 /* ns that a packet takes */
#define SERVICE UINT64_C(0x01061234)
#define SECOND UINT64_C(1000000000)
#define IBNET_QUEUE 64
#define IBNET_CONNS 4
#define IBNET_LOG 16
#define REQUESTED 100 /* in a log, in addition to enum ib_event */

/* One packet in the network. */
struct ibnet_flight {
    uint64_t at;
    int to;
    uint8_t mad[IB_MAD_BYTES];
};

struct ibnet;

struct ibnet_end {
    struct ib_world world; /* must be the first member */
    struct ibnet *network;
    int number;
    struct soft_path path; /* to the other endpoint */
    struct ib_conn conns[IBNET_CONNS];
    int used;
    bool listens, accepts, hangs_up;
    uint32_t next_qpn, next_id;
    int log[IBNET_LOG];
    int logged;
    unsigned rejected; /* the last REJ's reason, or a SIDR_REP's status */
};

struct ibnet {
    struct soft_clock clock; /* must be the first member */
    uint64_t now;
    struct ibnet_end ends[2];
    struct ibnet_flight flights[IBNET_QUEUE];
    int count;
    unsigned sent;
    unsigned lost, doubled; /* masks: a bit for each of the first packets */
    bool deaf;              /* all packets are lost */
    struct soft_path third; /* path to a third host; the last message sent there is kept */
    struct ib_message to_third;
    unsigned of_type[32];     /* number of messages sent, by the lower bits of the attribute ID */
    unsigned third_heard[32]; /* the same for messages to the third host */
};

/* Both endpoints listen, accept, and disconnect as soon as they are connected. */
struct ibnet *ibnet_new(void);
void ibnet_free(struct ibnet *network);

/* The fields of a REQ except the queue pair number. */
extern const struct ib_req some_req;

/* The first endpoint connects. If the second does not accept on its own, ibnet_accept() answers a REQ, and
 * ibnet_reply() a SIDR_REQ. */
struct ib_conn *ibnet_connect(struct ibnet *network, uint32_t qpn);
void ibnet_accept(struct ibnet_end *self, struct ib_conn *conn);
void ibnet_reply(struct ibnet_end *self, struct ib_conn *conn, unsigned status);
/* Delivers a message of the third host. */
void ibnet_third_says(struct ibnet *network, int end, const struct ib_message *message);

/* Call `live` with every mask of losses among the first packets; with every mask of duplicates; and with both for the
 * first eight, where each packet is lost, duplicated or neither. */
void ibnet_losses(void (*live)(unsigned lost, unsigned doubled));
void ibnet_doubles(void (*live)(unsigned lost, unsigned doubled));
void ibnet_losses_and_doubles(void (*live)(unsigned lost, unsigned doubled));

/* Runs until nothing more happens, or for this time. */
void ibnet_run(struct ibnet *network, uint64_t ns);
/* Returns the time of the next packet or timer, or NEVER_NS. */
uint64_t ibnet_next(const struct ibnet *network);

/* Expects that the endpoint's log contains exactly these events. */
void ibnet_expect(const struct ibnet *network, int end, const int *events, int count);
#define expect_events(network, end, ...)                                                                       \
    ibnet_expect(network, end, (const int[]){__VA_ARGS__},                                                     \
                 (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

#endif
