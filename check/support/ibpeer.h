/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibpeer.h - the software device's librdmacm calls, with a peer that behaves like an adapter: it uses InfiniBand's
 * connection management at queue pair 1 of UDP port 4791. The peer is a plain socket on another host (twonets.h).
 */
#ifndef CHECK_IBPEER_H
#define CHECK_IBPEER_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "check/support/ibwords.h"
#include "check/support/support.h"
#include "check/support/twonets.h"
#include "soft/cm/cm.h"
#include "soft/cm/ib_message.h"
#include "soft/engine/wire.h"

#define PORT 7471
#define NUMBER 0x99 /* communication ID of the peer */
#define PATIENCE_MS 20000
#define AGAIN_MS 1000 /* after which the peer repeats its request */

/* ---- The peer ---- */

extern struct ibpeer {
    int fd;
    struct soft_path path; /* from the peer to the device */
    uint32_t number;       /* communication ID of the device */
    uint64_t transaction;  /* transaction ID of the device's request */
} peer;

void peer_open(void);
void peer_says(const struct ib_message *message);
void peer_says_as(const struct ib_message *message, uint32_t qkey);
/* Returns a message with both communication IDs. */
struct ib_message peer_answer(enum ib_type type);
/* Returns the next message, and checks all headers of its packet. */
struct ib_message peer_hears_any(void);
/* Returns the next message except repeated REQs and DREQs, which the device repeats until they are answered. */
struct ib_message peer_hears(enum ib_type type);
/* Sends the REQ and returns the answer, a REP or REJ. Repeats the REQ if there is no answer, because a message that one
 * program passes to another may be lost. */
struct ib_message peer_asks(const struct ib_message *req);
/* The same as peer_hears(), but drives the device's channel, which must have no event. */
struct ib_message peer_hears_meanwhile(enum ib_type type);
void peer_hears_nothing(void);
/* Fills data with 1, 2, 3... */
void peer_fill(uint8_t *data, size_t length);
/* Return the peer's REQ for a port of the device, its SIDR_REQ for such a port, and its REP to a REQ of the device,
 * each with full private data. */
struct ib_message peer_request(unsigned port);
struct ib_message peer_question(unsigned port);
struct ib_message peer_reply(void);

/* ---- The device's side ---- */

extern struct rdma_event_channel *channel;
extern enum rdma_port_space space; /* of new identifiers */

struct rdma_cm_event *next_event(enum rdma_cm_event_type type);
/* Returns the status of the next event, and acknowledges it. */
int status_of(enum rdma_cm_event_type type);
/* Expects no event. */
void no_event(void);
/* Drives the channel until fd is readable; the channel must have no event. */
void await_fd(int fd);
void make_id_qp(struct rdma_cm_id *id);
struct rdma_cm_id *listen_on(const char *text, unsigned port);
struct rdma_cm_id *listen_at(const char *text);
void end_id(struct rdma_cm_id *id);
struct rdma_cm_id *take_request(void);
/* Returns an identifier that is ready to connect to the peer. */
struct rdma_cm_id *resolve_id(void);
/* The same, bound to a local port: a missing listener is then reported at once. */
struct rdma_cm_id *resolve_bound(void);
/* Connects, and returns the REQ that the peer receives. */
struct ib_message peer_is_asked(struct rdma_cm_id *id);

/* Starts another program, which accepts every request and disconnects, until it is killed. */
pid_t start_server(const char *text, unsigned port);
/* Makes a connection to that program, from REQ to DREP. */
void peer_visits(unsigned port, uint32_t number);

/* A TCP listener at the other host whose queue is full: further SYNs are dropped, as by a firewall. */
struct wall {
    int listener, waits[8];
    int count;
};

struct wall wall_open(void);
void wall_close(struct wall *wall);
/* Makes space in the queue: a repeated SYN is answered. */
void wall_opens(struct wall *wall);

/* ---- The program ---- */

/* Test case with an event channel and a peer. */
TCase *ib_case(Suite *suite, const char *name);
/* Returns 77 if a second host can't be created. */
int ib_main(Suite *(*suite)(void));

#endif
