/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibpeer.h - librdmacm's calls of the embedded device with a peer that speaks as adapters do: InfiniBand's
 * connection management, at queue pair 1 of UDP port 4791. The peer is a plain socket on another host
 * (twonets.h).
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
#define NUMBER 0x99 /* of the peer's connection */
#define PATIENCE_MS 20000
#define AGAIN_MS 1000 /* after which the peer asks again */

/* ---- The peer ---- */

extern struct ibpeer {
    int fd;
    struct soft_path path; /* as it sees it */
    uint32_t number;       /* of our connection */
    uint64_t transaction;  /* of our request */
} peer;

void peer_open(void);
void peer_says(const struct ib_message *message);
void peer_says_as(const struct ib_message *message, uint32_t qkey);
/* An answer with both numbers. */
struct ib_message peer_answer(enum ib_type type);
/* The next packet, whose every header is as adapters want it. */
struct ib_message peer_hears_any(void);
/* The next one that isn't a request, or an end, that comes again, since it was not answered so soon. */
struct ib_message peer_hears(enum ib_type type);
/* The answer to its request, REP or REJ: it asks again where none comes, since what one program is to pass on
 * to another may be lost on its way, as packets may. */
struct ib_message peer_asks(const struct ib_message *req);
/* Our channel is looked at meanwhile, and has no event. */
struct ib_message peer_hears_meanwhile(enum ib_type type);
void peer_hears_nothing(void);
/* 1, 2, 3... */
void peer_fill(uint8_t *data, size_t length);
/* Its request for a connection to our port, its question who serves it, and its reply to a request of ours;
 * their private data is full. */
struct ib_message peer_request(unsigned port);
struct ib_message peer_question(unsigned port);
struct ib_message peer_reply(void);

/* ---- Ours ---- */

extern struct rdma_event_channel *channel;
extern enum rdma_port_space space; /* of new identifiers */

struct rdma_cm_event *next_event(enum rdma_cm_event_type type);
/* The next one's, which is acknowledged. */
int status_of(enum rdma_cm_event_type type);
/* There is none. */
void no_event(void);
/* The channel is looked at until this is readable. */
void await_fd(int fd);
void make_id_qp(struct rdma_cm_id *id);
struct rdma_cm_id *listen_on(const char *text, unsigned port);
struct rdma_cm_id *listen_at(const char *text);
void end_id(struct rdma_cm_id *id);
struct rdma_cm_id *take_request(void);
/* One that is about to connect to the peer. */
struct rdma_cm_id *resolve_id(void);
/* With a port of its own it is not patient where nobody listens. */
struct rdma_cm_id *resolve_bound(void);
/* It connects, and this is what the peer hears of it. */
struct ib_message peer_is_asked(struct rdma_cm_id *id);

/* Another program, which accepts whatever comes, and hangs up, until it is killed. */
pid_t start_server(const char *text, unsigned port);
/* A connection to that from its beginning to its end. */
void peer_visits(unsigned port, uint32_t number);

/* At the far end's TCP port, whose queue is full: more is dropped, as by a firewall. */
struct wall {
    int listener, waits[8];
    int count;
};

struct wall wall_open(void);
void wall_close(struct wall *wall);
/* There is place again: what is said again comes through. */
void wall_opens(struct wall *wall);

/* ---- The program ---- */

/* Tests with a channel of ours and a peer. */
TCase *ib_case(Suite *suite, const char *name);
/* 77 where there can't be another host. */
int ib_main(Suite *(*suite)(void));

#endif
