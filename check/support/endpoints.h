/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * endpoints.h - the fixture of the transport tests: two queue pairs that are connected through the virtual network.
 *
 * Each end has one memory region with guard bytes around it; pair_free() checks that the guards were not written.
 */
#ifndef CHECK_ENDPOINTS_H
#define CHECK_ENDPOINTS_H

#include <check.h>
#include <stdatomic.h>
#include <sys/types.h>
#include "soft/verbs/verbs.h"
#include "asleep.h"
#include "network.h"
#include "runner.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__
#endif
#endif

/* Like ck_assert_msg(), but costs nothing if the condition holds, for loops with a million checks. Needs a format. */
#define expect(condition, ...)                                                                                 \
    do                                                                                                         \
        if (!(condition)) {                                                                                    \
            if (before_failure)                                                                                \
                before_failure();                                                                              \
            ck_abort_msg(#condition ": " __VA_ARGS__);                                                         \
        }                                                                                                      \
    while (0)

/* Writes details of a failure to stderr; NULL unless a test sets it. */
extern void (*before_failure)(void);

#define GUARD 4096 /* bytes before and behind the region */
#define GUARD_BYTE 0xa5
#define GHOST_QPN 0x123456
#define GHOST_RKEY 0xbadcab1e
#define ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define RUN_STEPS 20000000ul

/* The parameters of a pair: start with setup_default(), and change what the test is about. */
struct setup {
    int family;
    enum ibv_qp_type type; /* IBV_QPT_XRC_SEND: type of the first end; the second is XRC_RECV */
    uint32_t qkey;
    bool names; /* the contexts have a LID (node + 1), and their address in the GID table */
    uint64_t seed;
    size_t trailer, memory;
    enum ibv_mtu mtu;
    uint32_t psn[2]; /* PSN of the first request of each end */
    uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, max_rd_atomic;
    unsigned send_depth, recv_depth, sges, inline_data;
    unsigned srq_depth; /* depth of the shared receive queue; 0: there is none */
    int cqe;
    bool all_signaled;
    unsigned qp_access, mr_access;
    bool ghost;    /* the second end has no engine; the test plays it */
    bool pull;     /* the engines fetch their packets */
    bool far;      /* the links have their own burst buffers, written past the cache */
    bool loopback; /* both ends are queue pairs of one context */
};

/* One end. Owned by its pair. */
struct end {
    struct network *network;
    unsigned node;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;   /* or NULL */
    struct ibv_xrcd *xrcd; /* of the receiving end of an XRC connection */
    uint32_t srqn;         /* number of its shared receive queue */
    struct ibv_qp *qp;
    struct ibv_qp_cap cap; /* as create_qp returned it */
    uint32_t qpn, rkey;
    uint32_t psn; /* of its first request */
    uint8_t *memory;
    size_t size;
    struct ibv_mr *mr;
};

struct pair {
    struct setup setup;
    struct network *network;
    struct end end[2];
};

/* The parameters of a work request: data at offset `at` of the poster's memory, and `target` of the other end's. */
struct work {
    uint64_t id;
    enum ibv_wr_opcode opcode;
    size_t at, length, target;
    unsigned flags;
    uint32_t imm;
};

struct setup setup_default(void);
struct pair *pair_new(const struct setup *setup);
void pair_free(struct pair *pair);
/* Creates and connects new queue pairs on the same contexts; packets in the network are lost. */
void pair_renew(struct pair *pair);
size_t mtu_bytes(enum ibv_mtu mtu);

struct ibv_qp *qp_new(struct end *end, const struct setup *setup);
int qp_init(struct ibv_qp *qp, unsigned access);
int qp_ready_to_receive(struct end *end, struct ibv_qp *qp, unsigned to_node, uint32_t to_qpn, uint32_t psn,
                        const struct setup *setup);
int qp_ready_to_send(struct ibv_qp *qp, uint32_t psn, const struct setup *setup);
/* All three transitions; psn and remote_psn are those of the first request of each side. */
void qp_connect(struct end *end, struct ibv_qp *qp, unsigned to_node, uint32_t to_qpn, uint32_t psn,
                uint32_t remote_psn, const struct setup *setup);
enum ibv_qp_state qp_state(struct ibv_qp *qp);
void qp_ready_datagrams(struct ibv_qp *qp, uint32_t qkey); /* from RESET to RTS */
void qp_fail(struct ibv_qp *qp);                           /* to IBV_QPS_ERR */

int post_try(struct end *from, const struct end *to, const struct work *work);
void post(struct end *from, const struct end *to, const struct work *work);
void post_receive(struct end *end, uint64_t id, size_t at, size_t length);

/* Runs the network until nothing is left to do. */
void run(struct pair *pair);

/* Expects this completion next, and returns it. */
struct ibv_wc expect_wc(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status);
void expect_done(struct ibv_cq *cq, uint64_t id, enum ibv_wc_opcode opcode);
void expect_none(struct ibv_cq *cq);
void expect_quiet(struct pair *pair); /* no completion in any queue */
struct soft_counters counters_of(struct end *end);

/* Fills memory with pseudo-random bytes, which depend on the seed; filled() checks them. */
void fill(void *memory, size_t length, uint64_t seed);
bool filled(const void *memory, size_t length, uint64_t seed);
void expect_byte(const uint8_t *memory, size_t length, uint8_t byte);
uint64_t random_next(uint64_t *state);

/* Expects this asynchronous event next, and acknowledges it. */
void expect_async(struct end *end, enum ibv_event_type type, const void *element);
void expect_no_async(struct end *end);

/* Returns the number of packets in the log from node `from` with this opcode; ROCE_NO_OPCODE: with any. */
unsigned count_packets(struct network *network, unsigned from, unsigned opcode);
/* Returns the n-th of them, counted from 0, or NULL. */
const struct packet *find_packet(struct network *network, unsigned from, unsigned opcode, unsigned n);

/* Returns the n-th transmission of the request with this PSN, or NULL. */
const struct packet *find_psn(struct network *network, unsigned from, uint32_t psn, unsigned n);
void expect_between(uint64_t elapsed, uint64_t least, uint64_t most);

/* For pthread_cleanup_push() in a thread that is cancelled: the address sanitizer does not know that the frames of the
 * cancelled calls are gone, and would report functions that use their stack. */
void forget_frames(void *unused);

#endif
