/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.h - the device abstraction layer: the functions that EXS calls in an RDMA device.
 *
 * struct device is a table of functions. Most are functions of libibverbs and librdmacm, with their own names
 * (without the prefix), signatures, return values and errno. ibv_post_send(), ibv_post_recv(), ibv_poll_cq() and
 * ibv_req_notify_cq() are not in the table: they are inline in <infiniband/verbs.h> and call the device through
 * context->ops, so the data path is the same for hardware and for the software device. Entries that are marked
 * "Extension" are not functions of these libraries.
 *
 * A device knows nothing of EXS. An object must only be passed to functions of the device that made it.
 */
#ifndef XS_DEVICE_H
#define XS_DEVICE_H

#include <stdbool.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* The maximum number of completions that one call of `harvest` returns; all are of one completion queue. */
#define HARVEST_MAX 32

/* State and result of `harvest`. Owned by the caller. */
struct harvest {
    /* In and out: a completion queue that still has completions or could not be armed; the next call continues with it.
     * Must be NULL before the first call on a channel. The caller only keeps it from one call to the next. */
    struct ibv_cq *unfinished;
    void *cq_context; /* the context pointer of the completion queue that `wc` is from */
    /* The call has read an event from the channel, which the caller must acknowledge with ack_cq_events(). */
    bool fetched;
    bool left; /* there are more completions: the caller must call again */
    /* The device failed to arm the completion queue, but was not removed. No event will come, so the caller must call
     * again later. */
    bool stuck;
    bool gone; /* the device was removed with all of its objects: no further completion will come */
    struct ibv_wc wc[HARVEST_MAX];
};

struct poll_state;
struct waitset;

struct device {
    const char *name; /* "soft" or "rdma", as in EXS_DEVICE */

    /* librdmacm: connections */
    struct rdma_event_channel *(*create_event_channel)(void);
    void (*destroy_event_channel)(struct rdma_event_channel *channel);
    int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                     enum rdma_port_space ps);
    int (*destroy_id)(struct rdma_cm_id *id);
    int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
    int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms);
    int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
    int (*create_qp)(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    void (*destroy_qp)(struct rdma_cm_id *id);
    int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*listen)(struct rdma_cm_id *id, int backlog);
    int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*reject)(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
    int (*disconnect)(struct rdma_cm_id *id);
    int (*notify)(struct rdma_cm_id *id, enum ibv_event_type event);
    int (*migrate_id)(struct rdma_cm_id *id, struct rdma_event_channel *channel);
    int (*set_option)(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);
    int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
    int (*ack_cm_event)(struct rdma_cm_event *event);

    /* libibverbs: the list of devices */
    struct ibv_device **(*get_device_list)(int *num_devices);
    void (*free_device_list)(struct ibv_device **list);

    /* libibverbs: resources */
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
    struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                   unsigned int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
                                struct ibv_comp_channel *channel, int comp_vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned int nevents);
    struct ibv_qp *(*create_verbs_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr); /* ibv_create_qp */
    int (*destroy_verbs_qp)(struct ibv_qp *qp);                                          /* ibv_destroy_qp */
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
    int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init);
    const char *(*wc_status_str)(enum ibv_wc_status status);

    /* Extension: reads one event of the channel, polls the event's completion queue and arms it again, in an order that
     * misses no completion. Never blocks. Returns the number of completions, or -1 if there is no event; `gone` is set
     * then if no event will ever come. */
    int (*harvest)(struct ibv_comp_channel *channel, struct harvest *harvest);

    /* Extension: polls all completion queues of the channel in one call, whose cost does not depend on their number.
     * Stores at most HARVEST_MAX completions, and arms each completion queue that it has emptied. The caller must soon
     * poll again or call `stop_polling`, because packets that arrive in between may wake no thread. Returns the number
     * of completions. NULL: EXS polls each completion queue with ibv_poll_cq(). */
    int (*poll_channel)(struct ibv_comp_channel *channel, struct ibv_wc *wc);

    /* Extension: returns true if the connection was set up over TCP, which retransmits a lost message soon, and detects
     * that the host of an idle peer has failed. NULL: the device sets up no connection over TCP. */
    bool (*is_by_tcp)(struct rdma_cm_id *id);

    /* Extension: returns how many packets the queue pair's requester has retransmitted. NULL: the device does not count
     * them. */
    uint64_t (*retransmitted)(struct ibv_qp *qp);

    /* Extension: the longest work request, in bytes, that EXS should post. After a loss the device sends all packets
     * from the lost one on again, so it would rarely complete a longer request on a network that loses packets. 0: the
     * maximum message size of the port. */
    uint32_t long_request;

    /* Extension: from now on the queue pair's peer must name a valid key also in a WRITE of no bytes, which
     * InfiniBand's specification does not check. Called before the queue pair is connected. NULL: the device can't
     * check it. */
    void (*check_every_key)(struct ibv_qp *qp);

    /* Extension: the device does not pin registered memory. After MADV_DONTNEED the device and the application see the
     * same new page of zeros; with pinned memory the device would still use the old page. */
    bool holds_no_pages;

    /* Extension: when a device was removed, its context is closed and freed with the last id on it. A queue therefore
     * frees its objects of a context together with its last connection on the context (xs_nic_leave()). */
    bool contexts_end;

    /* Extension: registers a part of a file, from which the device itself reads the bytes that it sends. The region is
     * read-only, and its addresses begin at 0. The descriptor must allow reads of any byte and must stay open until
     * the region is deregistered. If the file has become shorter, a send of the missing bytes completes with
     * IBV_WC_LOC_PROT_ERR. Returns NULL and errno on failure. If `reg_file` itself is NULL, files must be mapped. */
    struct ibv_mr *(*reg_file)(struct ibv_pd *pd, int file, uint64_t offset, size_t length);

    /* Extension: create channels without a descriptor (fd is -1), whose functions never block. To wait for an event, a
     * thread sleeps on *waits (waitset.h), which is valid as long as the channel. NULL: the device has no such
     * channels. */
    struct rdma_event_channel *(*create_quiet_event_channel)(struct waitset **waits);
    struct ibv_comp_channel *(*create_quiet_comp_channel)(struct ibv_context *context, struct waitset **waits);

    /* Extension: returns the variables by which the device and the threads that poll the context inform each other
     * (poll_state.h); valid as long as the context. NULL: the device has none. */
    struct poll_state *(*poll_state)(struct ibv_context *context);
    /* Extension: a thread that polled a completion queue calls this when it stops, so that later packets wake a waiter.
     * With `sleeps` the thread has handled the last completions and may sleep: the device then sends the
     * acknowledgements that it held back in the hope that the application would send packets that could carry them.
     * Returns the time (ns, clock.h) when the caller must poll again, because a timer of the device expires then;
     * NEVER_NS: no timer runs. NULL: packets always wake a waiter. Must not be NULL if `poll_state` is not. */
    uint64_t (*stop_polling)(struct ibv_context *context, bool sleeps);

    /* Extension: called by the last exs_fini(), when all objects are destroyed: frees the resources that the device
     * keeps open for later use. NULL: it keeps none. */
    void (*end)(void);

    /* Extension: called in a forked child, whose copies of the device's descriptors are closed already: forgets every
     * object and thread. NULL: there is nothing to forget. */
    void (*forget)(void);
};

extern const struct device rdma_device; /* core/device/rdma: rdma-core's devices */
extern const struct device soft_device; /* soft: the software device, always available */

#endif
