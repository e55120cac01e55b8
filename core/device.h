/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.h - the seam: what EXS asks of an RDMA device.
 *
 * A table of the calls that are real symbols of libibverbs and librdmacm, with their own names (less the
 * prefix), signatures, types, return values and errno. The hot calls - ibv_post_send, ibv_post_recv -
 * are not here: they are inline in <infiniband/verbs.h> and reach the device through context->ops, so the
 * code above is the same for hardware and for the embedded device, and pays nothing for the choice. What a
 * device does better than those calls can say is "ours".
 *
 * Nothing of EXS is known below this line. An object goes back only to the device that made it.
 */
#ifndef XS_DEVICE_H
#define XS_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* What a completion channel gives in one go: completions of one of its completion queues. */
#define HARVEST_MAX 32

struct harvest {
    struct ibv_cq *unfinished; /* the device's, between two calls; NULL before the first */
    void *cq_context;          /* of the queue that they are of */
    bool fetched;              /* an event of it was, which ack_cq_events is to be told of */
    bool left;                 /* it has more: harvest again */
    bool stuck;                /* the device refused to arm it: no event would come, so harvest again later */
    bool gone; /* the device is, with all that was made of it: what did not complete by now never will */
    struct ibv_wc wc[HARVEST_MAX];
};

struct waitset;

struct device {
    const char *name; /* "soft" or "rdma": what EXS_DEVICE calls it */

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

    /* libibverbs: which devices there are */
    struct ibv_device **(*get_device_list)(int *num_devices);
    void (*free_device_list)(struct ibv_device **list);

    /* libibverbs: resources */
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
    struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access);
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

    /* Ours: the next event's completion queue polled and armed again, in an order in which no completion is
     * missed. How many completions, or -1: there is no event, and where it is gone none will come. The channel
     * doesn't block. */
    int (*harvest)(struct ibv_comp_channel *channel, struct harvest *harvest);

    /* Ours: was the connection set up over TCP, which sends again at once what is lost, and notices by itself
     * that the host of an idle peer is gone? NULL: none is. */
    bool (*is_by_tcp)(struct rdma_cm_id *id);

    /* Ours: how many packets of the queue pair's requests were sent again, ever. NULL where it does not tell.
     */
    uint64_t (*retransmitted)(struct ibv_qp *qp);

    /* Ours: the longest request, in bytes, that is worth giving to it; 0: as long as its ports say. */
    uint32_t long_request;

    /* Ours: of messages of so many bytes, or more, the news is sent faster as a request of its own, behind all of
     * the bytes and in one call with them, by queue pairs of this kind; NULL: there are none. */
    uint32_t news_apart;
    bool (*wants_news_apart)(const struct ibv_qp *qp);

    /* Extension: the queue pair's peer must name a valid key also in a WRITE of no bytes, which InfiniBand's specification
     * does not check. Called before the queue pair is connected. NULL where the device can't check it. */
    void (*check_every_key)(struct ibv_qp *qp);

    /* Ours: it holds no pages of registered memory: what is given back to the kernel comes again, empty, when
     * it is used. */
    bool holds_no_pages;

    /* Ours: where a device is gone its context is closed with the last id on it, and freed. So a queue keeps
     * nothing of a context that it has no connection on. */
    bool contexts_end;

    /* Ours: a region that is a part of a file, which the device reads by itself when it sends from there;
     * nobody may write to it. Its addresses begin at 0. The descriptor, from which any byte must be readable,
     * stays open as long as the region is there. Bytes that the file has lost by then are those of no memory
     * (IBV_WC_LOC_PROT_ERR). NULL and errno. NULL itself where files must be mapped. */
    struct ibv_mr *(*reg_file)(struct ibv_pd *pd, int file, uint64_t offset, size_t length);

    /* Ours: the same channels without a descriptor (fd is -1), whose calls never wait, for who sleeps on their
     * wait sets (waitset.h): which live as long as they do. NULL where there is none such. */
    struct rdma_event_channel *(*create_quiet_event_channel)(struct waitset **waits);
    struct ibv_comp_channel *(*create_quiet_comp_channel)(struct ibv_context *context, struct waitset **waits);

    /* Ours: the program has done all that the last completions made it do, and may sleep. What it sent by then
     * was worth waiting for: acknowledgements went along. Returns when it is to look again at the latest, ns, since a
     * timer of the device's is due; NEVER_NS: none is. NULL where the device sees to all that by itself. */
    uint64_t (*rest)(struct ibv_context *context);
    /* And where it is to be read whether anything waits for that, as long as the context is open: a hint, which pairs
     * with nothing. Of a device that has `rest`. */
    const atomic_bool *(*rest_wanted)(struct ibv_context *context);
    /* Ours: where it is to be read, as long as the context is open, how many looks for completions have found none, but
     * packets of a connection's peer: so more is on its way. A hint, which pairs with nothing. NULL where nobody counts. */
    const atomic_uint *(*stirs)(struct ibv_context *context);
    /* Ours: somebody sleeps, from now on, where packets wake him, and a timer does when `rest` has said; or nobody does any
     * more. A hint. NULL where nobody needs to know. */
    void (*sleeps)(struct ibv_context *context, bool sleeps);
    /* Ours: who polled a completion queue does not go on with it, so what arrives is to wake somebody; as `rest`
     * has it, too. NULL where it always does. */
    void (*poll_ended)(struct ibv_context *context);

    /* Ours: the last user of the library is done, and all objects are destroyed: close what was kept for the next.
     * NULL where nothing is. */
    void (*end)(void);

    /* Ours: forget every object and thread, in a forked child, whose descriptors are closed already. NULL where
     * there is nothing to forget. */
    void (*forget)(void);
};

extern const struct device rdma_device; /* core/rdma: rdma-core's devices */
extern const struct device soft_device; /* core/soft: in user space, always there */

#endif
