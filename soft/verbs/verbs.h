/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs.h - libibverbs' functions for the software device.
 *
 * Names, signatures, return values and errno are those of rdma-core, with soft_ in place of ibv_. Applications call the
 * inline functions (ibv_post_send, ibv_post_recv, ibv_post_srq_recv, ibv_poll_cq, ibv_req_notify_cq, ibv_bind_mw...)
 * through context->ops. Each function takes the context's lock itself; the caller must not hold it.
 */
#ifndef SOFT_VERBS_H
#define SOFT_VERBS_H

#include <stdbool.h>
#include <string.h>
#include <infiniband/verbs.h>

struct poll_state;
struct waitset;

/* Returns the only device, soft0. */
struct ibv_device *soft_the_device(void);
/* Returns true if the context is one of the software device. */
bool soft_is_ours(const struct ibv_context *context);
/* ibv_open_device(): opens a new context with names (wire.h). Returns NULL and errno on failure. */
struct ibv_context *soft_open_device(void);
int soft_close_device(struct ibv_context *context);

/* Polls one completion queue of the channel that has an event: stores at most `room` completions in wc, and the queue
 * in *cq. Sets *left if completions remain; the event then stays pending. Otherwise arms the queue again. Returns the
 * number of completions, or -1: no queue has an event. */
int soft_harvest(struct ibv_comp_channel *channel, struct ibv_cq **cq, int room, struct ibv_wc *wc, bool *left);
/* Polls all completion queues of the channel that have completions: stores at most `room` completions in wc, and arms
 * the queues that become empty. Returns the number of completions. The caller must soon poll again or call
 * soft_stop_polling(). For contexts without names. */
int soft_poll_channel(struct ibv_comp_channel *channel, int room, struct ibv_wc *wc);
/* Returns the variables by which the device and the threads that poll the context inform each other (poll_state.h). */
struct poll_state *soft_poll_state(struct ibv_context *context);
/* Called by a thread that stops polling: from now on packets wake a waiting thread. With `sleeps` the thread has
 * handled its completions and may sleep: sends delayed acknowledgements, and returns the time when the thread must poll
 * again because a timer is due, ns; NEVER_NS: no timer runs. */
uint64_t soft_stop_polling(struct ibv_context *context, bool sleeps);

int soft_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int soft_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);

int soft_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
int soft_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                      uint32_t flags, size_t size);
ssize_t soft_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t room,
                             uint32_t flags, size_t size);
int soft_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
int soft_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey);

struct ibv_pd *soft_alloc_pd(struct ibv_context *context);
int soft_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *soft_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
struct ibv_mr *soft_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access);
/* Registers a part of a file, as a source of sends: see core/device/device.h. NULL and errno: EINVAL, ENOMEM. */
struct ibv_mr *soft_reg_file(struct ibv_pd *pd, int file, uint64_t offset, size_t length);
int soft_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access);
int soft_dereg_mr(struct ibv_mr *mr);
int soft_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list,
                   uint32_t num_sge);
struct ibv_mw *soft_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int soft_dealloc_mw(struct ibv_mw *mw);
int soft_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

struct ibv_ah *soft_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int soft_destroy_ah(struct ibv_ah *ah);
int soft_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
                         struct ibv_ah_attr *attr);
struct ibv_ah *soft_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port);

struct ibv_comp_channel *soft_create_comp_channel(struct ibv_context *context);
/* Creates a channel without a descriptor, for a caller that sleeps on the channel's wait set, to which *waits is
 * set. */
struct ibv_comp_channel *soft_create_quiet_comp_channel(struct ibv_context *context, struct waitset **waits);
int soft_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *soft_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                              struct ibv_comp_channel *channel, int comp_vector);
struct ibv_cq_ex *soft_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int soft_destroy_cq(struct ibv_cq *cq);
int soft_resize_cq(struct ibv_cq *cq, int cqe);
int soft_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void soft_ack_async_event(struct ibv_async_event *event);
int soft_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void soft_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/* An XRC domain belongs to this context alone, even if it was opened by a file: no other context can open it. */
struct ibv_xrcd *soft_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int soft_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_srq *soft_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int soft_get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct ibv_srq *soft_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int soft_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask);
int soft_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int soft_destroy_srq(struct ibv_srq *srq);

struct ibv_qp *soft_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *soft_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp_ex *soft_qp_to_qp_ex(struct ibv_qp *qp); /* NULL unless created with send_ops_flags */
int soft_destroy_qp(struct ibv_qp *qp);
/* For UD queue pairs, which then receive the packets that are sent to the group on any of the host's networks. */
int soft_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int soft_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int soft_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int soft_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init);

const char *soft_wc_status_str(enum ibv_wc_status status);

/* Copies a struct of `size` bytes to a caller whose struct has `room` bytes. If the caller's struct is longer, its
 * other bytes become 0. */
static inline void soft_give(void *to, size_t room, const void *from, size_t size)
{
    memset(to, 0, room);
    memcpy(to, from, room < size ? room : size);
}

#endif
