/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mock.h - a device in memory behind the seam (core/device/device.h), for one thread and without a clock of its own.
 *
 * Nothing happens by itself: a work request stays where it was posted, and a connection where it is, until
 * somebody says what becomes of it. The mock holds EXS to the device's rules meanwhile - what is given back, in
 * which order, what a work request may touch - and ends the program where one is broken.
 *
 * It is both devices that EXS knows, "rdma" and "soft". An object is one allocation that begins with
 * rdma-core's struct. Everything belongs to the mock; the pointers are good until EXS destroys the object.
 */
#ifndef CHECK_FUZZ_MOCK_H
#define CHECK_FUZZ_MOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "core/device/device.h"

#define MOCK_SENDS 128 /* work requests of a queue pair, more than EXS ever asks for */
#define MOCK_INLINE 64 /* bytes */
#define MOCK_STRAYS                                                                                            \
    64 /* completions of nothing that was posted that a completion queue holds, beside EXS's own */

/* A rule was broken, by EXS or by the mock itself. */
_Noreturn void mock_broken(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define require(condition, ...) ((condition) ? (void)0 : mock_broken(__FILE__, __LINE__, __VA_ARGS__))

/* ---- What kind of device it is ---------------------------------------------------------------------- */

struct mock_config {
    uint32_t max_request; /* bytes of one work request */
    int max_wr, max_cqe, reads;
    bool iwarp;          /* no RDMA WRITE WITH IMMEDIATE */
    bool has_inline;     /* takes inline data */
    bool keeps_cqes;     /* completions of a queue pair outlive it */
    bool early;          /* data can overtake the news that the connection is there */
    bool cm_unreachable; /* the first device finds no way to any address */
};

void mock_reset(const struct mock_config *config); /* no object may be left */
void mock_balance(void);                           /* every object was given back */
void mock_end(void);                               /* none is left: the clock is everybody's again */
void mock_pass_time(uint64_t ns);                  /* CLOCK_MONOTONIC stands still otherwise */
void mock_fail(unsigned calls, int error);         /* so many calls from now, one fails; error 0: none does */

/* Called by every call of the table that can fail. */
bool mock_fails(void);
extern struct mock_config mock_config;
extern const struct device *const mock_devices[2];
struct ibv_context *mock_context(const struct device *device);

/* ---- A device that goes ------------------------------------------------------------------------------ */

/* As the kernel and rdma-core take one away, in either order: its ids, and what was made of its context, whose
 * calls fail a while before. When the last id on it is destroyed the context is closed, and nothing of it may
 * be left. */
struct mock_context {
    struct ibv_context context;
    struct ibv_device device;
    bool replaced, removed, refuses;
    int ids, objects;
};

/* Connections get another device of this kind from now on. The one that they have had, which does not notice;
 * NULL: one before it is not closed yet. */
struct ibv_context *mock_replace(const struct device *device);
void mock_remove(struct ibv_context *context);    /* its ids are told, and can do no more */
void mock_refuse(struct ibv_context *context);    /* calls fail; what is posted goes on */
void mock_take_back(struct ibv_context *context); /* nothing completes any more, and its channels have ended */

/* Calls on it fail, with this errno: EIO, or of an id's connection manager ENXIO. */
bool mock_refuses(const struct ibv_context *context);
bool mock_is_removed(const struct ibv_context *context);
/* So many objects of it more. */
void mock_count_object(struct ibv_context *context, int change);
void mock_count_id(struct ibv_context *context, int change);
/* What mock_take_back does to its queue pairs and channels. */
void mock_take_qps(const struct ibv_context *context);
void mock_end_channels(const struct ibv_context *context);

/* ---- Objects of verbs ------------------------------------------------------------------------------- */

struct mock_pd {
    struct ibv_pd pd;
    int users;
};

struct mock_mr {
    struct ibv_mr mr;
    uint64_t iova; /* of its first byte, as the peer names it */
    int access;
    LIST_ENTRY(mock_mr) link;
};

struct mock_comp_channel {
    struct ibv_comp_channel channel;
    int wakefd;       /* the other end of its descriptor; -1: it has ended */
    int cqs, waiting; /* events not fetched */
    LIST_ENTRY(mock_comp_channel) link;
};

struct mock_cq {
    struct ibv_cq cq;
    struct ibv_wc *wcs; /* a ring of cq.cqe, and the strays */
    int head, count, strays, users, events;
    bool armed;
    LIST_ENTRY(mock_cq) link;
};

struct mock_wr {
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    uint64_t remote;
    uint32_t rkey, imm, length, lkey;
    const uint8_t *data; /* where the SGE points to, or copy */
    bool is_copy;
    bool signaled; /* it has a completion, also if it succeeds */
    uint8_t copy[MOCK_INLINE];
};

struct peer;

struct mock_qp {
    struct ibv_qp qp;
    struct mock_id *id;
    struct mock_wr sends[MOCK_SENDS], recvs[MOCK_SENDS];
    uint32_t send_head, send_tail, recv_head, recv_tail; /* counts */
    uint32_t
        send_freed; /* as send_head was behind the last send whose completion EXS has: those from here on have places */
    bool misled; /* EXS has a completion of an entry that it had not posted (mock_mislead) */
    uint32_t max_send, max_recv, max_inline;
    LIST_ENTRY(mock_qp) link;
};

/* May a peer write there, by any registration? */
bool mock_writable(const void *addr, size_t length);
/* Is any work request of a living queue pair at these bytes? */
bool mock_in_use(const void *addr, size_t length);
bool mock_key_in_use(const struct ibv_pd *pd, uint32_t lkey);
struct mock_mr *mock_remote(struct ibv_pd *pd, uint32_t rkey, uint64_t addr, uint64_t length, int access);
struct mock_mr *mock_local(struct ibv_pd *pd, uint32_t lkey, const void *addr, uint64_t length, int access);
void mock_complete(struct ibv_cq *cq, const struct ibv_wc *wc);
/* One of a connection that is gone, or of none; EXS made no room for it, so it takes none of what EXS has. */
void mock_stray(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
void mock_stray_as(struct ibv_cq *cq, const struct ibv_wc *wc); /* all of it */
/* One of this connection, which names one of the entries that are not under way when EXS polls it. It may send nothing more
 * then. */
void mock_mislead(struct mock_qp *qp, uint32_t which, enum ibv_wc_status status);
bool mock_all_awake(void); /* every completion that waits has an event, so nobody sleeps over it */

/* The table's calls, by the names that the seam has for them. */
struct ibv_pd *mock_alloc_pd(struct ibv_context *context);
int mock_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *mock_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
struct ibv_mr *mock_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                 unsigned int access);
int mock_dereg_mr(struct ibv_mr *mr);
struct ibv_comp_channel *mock_create_comp_channel(struct ibv_context *context);
int mock_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *mock_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                              struct ibv_comp_channel *channel, int comp_vector);
int mock_destroy_cq(struct ibv_cq *cq);
int mock_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void mock_ack_cq_events(struct ibv_cq *cq, unsigned int count);
int mock_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int mock_req_notify(struct ibv_cq *cq, int solicited_only);

/* ---- Queue pairs ----------------------------------------------------------------------------- */

int mock_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void mock_destroy_qp(struct rdma_cm_id *id);
int mock_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int mock_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int mock_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* The oldest work request of the send queue, or NULL. */
struct mock_wr *mock_sending(struct mock_qp *qp);
/* That is done, like this: EXS is told if it asked for that, or if it went wrong, which breaks the queue pair. */
void mock_sent(struct mock_qp *qp, enum ibv_wc_status status);
/* A message for the oldest posted receive; false: there is none. opcode: IBV_WC_RECV or RECV_RDMA_WITH_IMM. */
bool mock_receive(struct mock_qp *qp, enum ibv_wc_opcode opcode, const void *bytes, uint32_t length,
                  bool with_imm, uint32_t imm);
/* The receive fails. */
void mock_receive_error(struct mock_qp *qp, enum ibv_wc_status status);
/* A WRITE of the peer. Without a right to it the queue pair breaks. */
bool mock_write(struct mock_qp *qp, uint64_t addr, uint32_t rkey, const void *bytes, uint32_t length);
/* To the error state: everything that is posted comes back flushed. */
void mock_break(struct mock_qp *qp);
struct mock_qp *mock_qp_of(struct rdma_cm_id *id); /* NULL: it has none */
struct mock_qp *mock_qp_numbered(uint32_t number); /* NULL: it is gone */
void mock_polled(struct ibv_wc *wc);               /* EXS gets this completion */
void mock_forget(const struct mock_qp *qp);        /* take its completions out of their queue */

/* ---- Connections ----------------------------------------------------------------------------- */

enum mock_state {
    MOCK_IDLE,
    MOCK_RESOLVING,
    MOCK_RESOLVED,
    MOCK_ROUTING,
    MOCK_ROUTED,
    MOCK_CONNECTING, /* asked the peer */
    MOCK_ASKED,      /* by the peer */
    MOCK_ACCEPTED,
    MOCK_ANSWERED,
    MOCK_OPEN,
    MOCK_ENDED
};

struct mock_id {
    struct rdma_cm_id id;
    const struct device *device;
    enum mock_state state;
    bool bound, listening;
    struct peer *peer;  /* the harness's */
    uint8_t hello[256]; /* what EXS said */
    size_t hello_length;
    int initiator_depth; /* that EXS knows of */
    LIST_ENTRY(mock_id) link;
};

LIST_HEAD(mock_id_list, mock_id);
extern struct mock_id_list mock_ids;

/* An event for an id. The queue pair is ready when it was ESTABLISHED. */
void mock_cm_event(struct mock_id *id, enum rdma_cm_event_type type, int status, const void *private_data,
                   uint8_t length, int responder_resources, int initiator_depth);
/* Somebody asks a listener for a connection. */
struct mock_id *mock_request(struct mock_id *listener, const void *private_data, uint8_t length,
                             int reads_wanted, int reads_served);
bool mock_cm_waits(void); /* events that were not fetched */

/* What the harness hears of. */
void mock_connects(struct mock_id *id); /* EXS connected, accepted, refused or ended */
void mock_accepts(struct mock_id *id);
void mock_disconnects(struct mock_id *id);
void mock_gone(struct mock_id *id);
void mock_posted(struct mock_qp *qp, const struct mock_wr *wr); /* EXS posted this */

struct rdma_event_channel *mock_create_event_channel(void);
void mock_destroy_event_channel(struct rdma_event_channel *channel);
int mock_destroy_id(struct rdma_cm_id *id);
int mock_bind_addr(struct rdma_cm_id *id, struct sockaddr *address);
int mock_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms);
int mock_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int mock_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int mock_listen(struct rdma_cm_id *id, int backlog);
int mock_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int mock_reject(struct rdma_cm_id *id, const void *private_data, uint8_t length);
int mock_disconnect(struct rdma_cm_id *id);
int mock_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);
int mock_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length);
int mock_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int mock_ack_cm_event(struct rdma_cm_event *event);
int mock_create_id_on(const struct device *device, struct rdma_event_channel *channel, struct rdma_cm_id **id,
                      void *context);

extern const char *mock_running; /* what the program calls the input that it is at, or NULL */
extern uint64_t mock_progress;   /* completions and events ever, so that one can see whether anything happens */

/* Objects that there are. */
extern struct mock_count {
    int pds, mrs, channels, cqs, qps, ids, cm_channels;
} mock_count;

#endif
