/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mock.h - a mock device in memory, behind the interface core/device/device.h. It uses one thread, and only the harness
 * advances its clock.
 *
 * Nothing completes by itself: work requests stay posted, and connections keep their state, until the harness decides
 * what happens to them. The mock checks that EXS obeys the rules of a device: which objects it destroys and in which
 * order, and which memory a work request may access. It ends the program when EXS breaks a rule.
 *
 * It plays both devices that EXS knows, "rdma" and "soft". Each object is one allocation that begins with the struct of
 * rdma-core. The mock owns all objects; pointers to them are valid until EXS destroys the object.
 */
#ifndef CHECK_FUZZ_MOCK_H
#define CHECK_FUZZ_MOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "core/device/device.h"

#define MOCK_SENDS 128 /* work requests of a queue pair, more than EXS asks for */
#define MOCK_INLINE 64 /* bytes */
#define MOCK_STRAYS                                                                                            \
    64 /* room of a completion queue for completions that match no work request, added to the room for EXS */

/* EXS, or the mock itself, has broken a rule: prints that, and aborts. */
_Noreturn void mock_broken(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define require(condition, ...) ((condition) ? (void)0 : mock_broken(__FILE__, __LINE__, __VA_ARGS__))

/* ---- The kind of device ----------------------------------------------------------------------------- */

struct mock_config {
    uint32_t max_request; /* the most bytes of one work request */
    int max_wr, max_cqe, reads;
    bool iwarp;          /* no RDMA WRITE WITH IMMEDIATE */
    bool has_inline;     /* supports inline data */
    bool keeps_cqes;     /* completions stay when their queue pair is destroyed */
    bool early;          /* data may arrive before the event that the connection is established */
    bool cm_unreachable; /* the first device has no route to any address */
};

void mock_reset(const struct mock_config *config); /* no object may exist */
void mock_balance(void);                           /* checks that all objects were destroyed */
void mock_end(void);                               /* checks that all objects are freed; restores the clock */
void mock_pass_time(uint64_t ns);                  /* CLOCK_MONOTONIC advances only here */
/* After this many calls, one fails with this error; error 0: none does. */
void mock_fail(unsigned calls, int error);

/* Every call of the device's table that may fail asks this. */
bool mock_fails(void);
extern struct mock_config mock_config;
extern const struct device *const mock_devices[2];
struct ibv_context *mock_context(const struct device *device);

/* ---- Removal of a device ----------------------------------------------------------------------------- */

/* A context of a device that can be removed. As with the kernel and rdma-core, its ids and the objects of the context
 * go in either order, and calls may fail before that. When the last id is destroyed, the context is closed; no object
 * of it may exist then. */
struct mock_context {
    struct ibv_context context;
    struct ibv_device device;
    bool replaced, removed, refuses;
    int ids, objects;
};

/* New connections get another device of this kind. Returns the one that they have used, which does not notice; NULL:
 * one that was replaced earlier is not closed yet. */
struct ibv_context *mock_replace(const struct device *device);
void mock_remove(struct ibv_context *context);    /* its ids get the event, and are of no more use */
void mock_refuse(struct ibv_context *context);    /* calls fail; posted work requests go on */
void mock_take_back(struct ibv_context *context); /* nothing more completes, and the channels end */

/* True: calls on the context fail. Sets errno to EIO, or in mock_is_removed to ENXIO, for the calls on an id. */
bool mock_refuses(const struct ibv_context *context);
bool mock_is_removed(const struct ibv_context *context);
/* Adds to the number of its objects. */
void mock_count_object(struct ibv_context *context, int change);
void mock_count_id(struct ibv_context *context, int change);
/* The part of mock_take_back for the queue pairs, and that for the channels. */
void mock_take_qps(const struct ibv_context *context);
void mock_end_channels(const struct ibv_context *context);

/* ---- Objects of verbs ------------------------------------------------------------------------------- */

struct mock_pd {
    struct ibv_pd pd;
    int users;
};

struct mock_mr {
    struct ibv_mr mr;
    uint64_t iova; /* the first byte's address, as the peer knows it */
    int access;
    LIST_ENTRY(mock_mr) link;
};

struct mock_comp_channel {
    struct ibv_comp_channel channel;
    int wakefd;       /* write end of the pipe whose read end is channel.fd; -1: the channel has ended */
    int cqs, waiting; /* waiting: events not fetched */
    LIST_ENTRY(mock_comp_channel) link;
};

struct mock_cq {
    struct ibv_cq cq;
    struct ibv_wc *wcs; /* a ring buffer of cq.cqe and MOCK_STRAYS completions */
    int head, count, strays, users, events;
    bool armed;
    LIST_ENTRY(mock_cq) link;
};

struct mock_wr {
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    uint64_t remote;
    uint32_t rkey, imm, length, lkey;
    const uint8_t *data; /* the memory of the SGE, or copy */
    bool is_copy;
    bool signaled; /* success generates a completion, too */
    uint8_t copy[MOCK_INLINE];
};

struct peer;

struct mock_qp {
    struct ibv_qp qp;
    struct mock_id *id;
    struct mock_wr sends[MOCK_SENDS], recvs[MOCK_SENDS];
    uint32_t send_head, send_tail, recv_head, recv_tail; /* counters */
    uint32_t
        send_freed; /* send_head behind the last send whose completion EXS has polled; later sends still take room */
    bool misled; /* EXS has polled a completion for an entry that it has not posted (mock_mislead) */
    uint32_t max_send, max_recv, max_inline;
    LIST_ENTRY(mock_qp) link;
};

/* Does any registration allow a peer to write there? */
bool mock_writable(const void *addr, size_t length);
/* Does a posted work request of any queue pair use these bytes? */
bool mock_in_use(const void *addr, size_t length);
bool mock_key_in_use(const struct ibv_pd *pd, uint32_t lkey);
struct mock_mr *mock_remote(struct ibv_pd *pd, uint32_t rkey, uint64_t addr, uint64_t length, int access);
struct mock_mr *mock_local(struct ibv_pd *pd, uint32_t lkey, const void *addr, uint64_t length, int access);
void mock_complete(struct ibv_cq *cq, const struct ibv_wc *wc);
/* Adds a completion of a connection that is gone or never was. It takes none of the room that EXS has planned for. */
void mock_stray(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
void mock_stray_as(struct ibv_cq *cq, const struct ibv_wc *wc); /* the completion with all its fields */
/* Adds a completion of this connection with the wr_id of an entry that is not posted when EXS polls it. EXS may post no
 * send after that. */
void mock_mislead(struct mock_qp *qp, uint32_t which, enum ibv_wc_status status);
/* Does a completion channel have an event for every waiting completion? Then no thread misses one. */
bool mock_all_awake(void);

/* The calls of the device's table, under the names that the table has for them. */
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
/* Ends the oldest one with this status. EXS gets a completion if the work request is signaled or has failed; a failure
 * puts the queue pair in the error state. */
void mock_sent(struct mock_qp *qp, enum ibv_wc_status status);
/* A message arrives for the oldest posted receive; false: there is none. opcode: IBV_WC_RECV or
 * IBV_WC_RECV_RDMA_WITH_IMM. */
bool mock_receive(struct mock_qp *qp, enum ibv_wc_opcode opcode, const void *bytes, uint32_t length,
                  bool with_imm, uint32_t imm);
/* The oldest receive fails. */
void mock_receive_error(struct mock_qp *qp, enum ibv_wc_status status);
/* The peer's RDMA WRITE. Without permission for it the queue pair goes to the error state. */
bool mock_write(struct mock_qp *qp, uint64_t addr, uint32_t rkey, const void *bytes, uint32_t length);
/* Puts the queue pair in the error state: all posted work requests are flushed. */
void mock_break(struct mock_qp *qp);
struct mock_qp *mock_qp_of(struct rdma_cm_id *id); /* NULL: it has none */
struct mock_qp *mock_qp_numbered(uint32_t number); /* NULL: it is gone */
void mock_polled(struct ibv_wc *wc);               /* EXS is about to get this completion */
void mock_forget(const struct mock_qp *qp);        /* removes its completions from their queues */

/* ---- Connections ----------------------------------------------------------------------------- */

enum mock_state {
    MOCK_IDLE,
    MOCK_RESOLVING,
    MOCK_RESOLVED,
    MOCK_ROUTING,
    MOCK_ROUTED,
    MOCK_CONNECTING, /* EXS has sent a request to the peer */
    MOCK_ASKED,      /* the peer has sent a request */
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
    struct peer *peer;  /* the harness uses it */
    uint8_t hello[256]; /* the private data of EXS */
    size_t hello_length;
    int initiator_depth; /* as EXS knows it */
    LIST_ENTRY(mock_id) link;
};

LIST_HEAD(mock_id_list, mock_id);
extern struct mock_id_list mock_ids;

/* Adds an event for an id. Before ESTABLISHED the queue pair becomes ready to send. */
void mock_cm_event(struct mock_id *id, enum rdma_cm_event_type type, int status, const void *private_data,
                   uint8_t length, int responder_resources, int initiator_depth);
/* A peer sends a connection request to a listener. */
struct mock_id *mock_request(struct mock_id *listener, const void *private_data, uint8_t length,
                             int reads_wanted, int reads_served);
bool mock_cm_waits(void); /* there are events that EXS has not fetched */

/* Calls to the harness. */
/* EXS has called rdma_connect; the next functions are for rdma_accept, rdma_disconnect and rdma_destroy_id. */
void mock_connects(struct mock_id *id);
void mock_accepts(struct mock_id *id);
void mock_disconnects(struct mock_id *id);
void mock_gone(struct mock_id *id);
void mock_posted(struct mock_qp *qp, const struct mock_wr *wr); /* EXS has posted this */

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

extern const char *mock_running; /* the program's name for the current input, or NULL */
extern uint64_t mock_progress;   /* counts completions and events, which shows whether anything happens */

/* The objects that exist. */
extern struct mock_count {
    int pds, mrs, channels, cqs, qps, ids, cm_channels;
} mock_count;

#endif
