/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm.h - the embedded device's connection manager: librdmacm's calls, with soft_ for rdma_.
 *
 * Connections are set up over TCP on the address and port that the user named, so that the port space, refusal
 * and the death of a peer come from the kernel. Where EXS_ROCE asks for it a listener answers at queue pair 1
 * of RoCE's port, too, as RDMA adapters do, and whoever doesn't answer by TCP is asked there. Progress is made
 * inside the calls, above all in soft_get_cm_event: a channel's descriptor is readable whenever that call has
 * something to do.
 *
 * How failures are reported (event, status):
 *   no such address or route                 ADDR_ERROR, -errno (-ENETUNREACH, ...)
 *   nobody listens there                     REJECTED, -ECONNREFUSED; 8 where programs share a context
 *   an adapter's or a kernel's side rejects  REJECTED, IB's reason
 *   the listener rejected the request        REJECTED, 28 (IB's "consumer defined"), with its private data
 *   the listener has no memory for it        REJECTED, 3 (IB's "no resources")
 *   the peer speaks another version          REJECTED, -EPROTONOSUPPORT
 *   no answer, no host, no network           UNREACHABLE, -ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH
 *   the peer died during the handshake       UNREACHABLE, -ECONNRESET
 *   what answers isn't a peer of ours        CONNECT_ERROR, -EPROTO
 *   the own queue pair can't be connected    CONNECT_ERROR, -errno
 *   an established connection ends           DISCONNECTED, 0, once: the peer disconnected, or its process died
 *                                            (known at once), or its host went silent (25 seconds at most);
 *                                            by RoCE's port: the peer, or its kernel, said so, or its host
 *                                            that nobody is at the port any more
 *   ...and nobody answers its end there      DISCONNECTED, -ETIMEDOUT
 * of datagrams (RDMA_PS_UDP, in a shared context) all of these are
 *   nobody serves them there                 UNREACHABLE, 1 (IB's "not supported")
 *   the listener rejected the request        UNREACHABLE, 2 (IB's "rejected"), with its private data
 *   any other                                UNREACHABLE, -errno as above
 *
 * Where it differs from librdmacm: events are copies of their own, so soft_migrate_id doesn't wait for them to
 * be acknowledged (soft_destroy_id does: the identifier may still be about to be used); over TCP, which sees to
 * it that the peer hears, soft_disconnect doesn't wait for the peer's answer before it reports DISCONNECTED;
 * and soft_accept fails with ECONNRESET when the peer has meanwhile given up.
 */
#ifndef SOFT_CM_H
#define SOFT_CM_H

#include <stdbool.h>
#include <stdint.h>
#include <rdma/rdma_cma.h>

struct waitset;

struct rdma_event_channel *soft_create_event_channel(void);
/* Without a descriptor: for a library that sleeps on its wait set. */
struct rdma_event_channel *soft_create_quiet_event_channel(struct waitset **waits);
void soft_destroy_event_channel(struct rdma_event_channel *channel);
int soft_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int soft_ack_cm_event(struct rdma_cm_event *event);

int soft_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps);
int soft_destroy_id(struct rdma_cm_id *id);
int soft_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);
int soft_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);

int soft_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int soft_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms);
int soft_resolve_route(struct rdma_cm_id *id, int timeout_ms);

/* Without a protection domain the shared context's is taken (soft_share_context); without completion queues
 * each gets one with a channel of its own. */
int soft_create_id_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int soft_create_id_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr);
void soft_destroy_id_qp(struct rdma_cm_id *id);
/* The identifier's queue pair, or, of extended connections, its domain takes receives from there. */
int soft_create_id_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int soft_create_id_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);
void soft_destroy_id_srq(struct rdma_cm_id *id);

int soft_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int soft_listen(struct rdma_cm_id *id, int backlog);
int soft_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int soft_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
int soft_disconnect(struct rdma_cm_id *id);
int soft_notify(struct rdma_cm_id *id, enum ibv_event_type event);
/* Of one that connects or is connected: by TCP, or by InfiniBand's connection manager? */
bool soft_is_by_tcp(struct rdma_cm_id *id);

/* `receives`: what is sent there comes to the identifier's queue pair; otherwise it only sends. */
int soft_join_multicast(struct rdma_cm_id *id, const struct sockaddr *addr, bool receives, void *context);
int soft_leave_multicast(struct rdma_cm_id *id, const struct sockaddr *addr);

/* For whoever makes queue pairs without soft_create_id_qp. */
int soft_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
int soft_establish(struct rdma_cm_id *id);

/* An identifier that is made, or migrated, without a channel is synchronous: its calls wait. */
int soft_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                   struct ibv_qp_init_attr *attr);
void soft_destroy_ep(struct rdma_cm_id *id);
int soft_get_request(struct rdma_cm_id *listener, struct rdma_cm_id **id);

/* From now on all channels have one context in common, as librdmacm's do, and it has names (wire.h). Before the
 * first channel is made. */
void soft_share_context(void);

/* What came to this process's listeners, and what carries the connections of both kinds. */
struct soft_cm_counters {
    uint64_t accepted;               /* TCP connections taken from a listener */
    uint64_t requests;               /* of these, those that became a CONNECT_REQUEST */
    uint64_t refused_magic;          /* something else talks to us */
    uint64_t refused_version;        /* a peer of another version: told so */
    uint64_t refused_malformed;      /* a request with impossible contents */
    uint64_t refused_memory;         /* no memory to take the request: told so */
    uint64_t hung_up;                /* closed by the other side before the request was complete */
    uint64_t half_open_timeouts;     /* no complete request in time */
    uint64_t half_open_dropped;      /* too many half open ones: the oldest had to go */
    uint64_t descriptor_limits;      /* accepting had to pause: no descriptors or memory left */
    uint64_t by_shm, by_tcp, by_udp; /* ends of connections */
};
void soft_query_cm_counters(struct soft_cm_counters *counters);

#endif
