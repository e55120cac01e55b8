/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm.h - the software device's connection manager: librdmacm's calls, with soft_ for rdma_.
 *
 * Connections are set up over TCP on the address and port that the application named, so the kernel provides the port
 * space, refuses connections without a listener, and reports a peer that has died. If EXS_ROCE asks for it, a listener
 * also answers at queue pair 1 of RoCE's port, as RDMA adapters do, and if a host does not answer by TCP, the request
 * is sent there. The work is done inside the calls, most of it in soft_get_cm_event(): a channel's descriptor is
 * readable when that call has something to do.
 *
 * How failures are reported (event, status):
 *   no such address or route                 ADDR_ERROR, -errno (-ENETUNREACH, ...)
 *   no listener at that port                 REJECTED, -ECONNREFUSED; 8 if channels share a context
 *   an adapter's or a kernel's peer rejects  REJECTED, IB's reason
 *   the listener rejected the request        REJECTED, 28 (IB's "consumer defined"), with its private data
 *   the listener has no memory for it        REJECTED, 3 (IB's "no resources")
 *   the peer speaks another version          REJECTED, -EPROTONOSUPPORT
 *   no answer, no host, no network           UNREACHABLE, -ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH
 *   the peer died during the handshake       UNREACHABLE, -ECONNRESET
 *   the peer speaks another protocol         CONNECT_ERROR, -EPROTO
 *   the local queue pair can't be connected  CONNECT_ERROR, -errno
 *   an established connection ends           DISCONNECTED, 0, once: the peer disconnected, or its process died
 *                                            (reported immediately), or its host stopped answering (after at
 *                                            most 25 seconds); at RoCE's port: the peer or its kernel sent a
 *                                            DREQ, or its host reported that no process has the port
 *   ...and at RoCE's port no DREP arrives    DISCONNECTED, -ETIMEDOUT
 * For datagrams (RDMA_PS_UDP, in a shared context) the failures are
 *   no process serves that port              UNREACHABLE, 1 (IB's "not supported")
 *   the listener rejected the request        UNREACHABLE, 2 (IB's "rejected"), with its private data
 *   any other                                UNREACHABLE, -errno as above
 *
 * Differences from librdmacm: an event is a copy, so soft_migrate_id() does not wait until events are acknowledged
 * (soft_destroy_id() does, because a thread with an event may still use the identifier). Over TCP, which delivers the
 * message, soft_disconnect() reports DISCONNECTED without waiting for the peer's answer. soft_accept() fails with
 * ECONNRESET if the peer has given up since its request.
 */
#ifndef SOFT_CM_H
#define SOFT_CM_H

#include <stdbool.h>
#include <stdint.h>
#include <rdma/rdma_cma.h>

struct waitset;

struct rdma_event_channel *soft_create_event_channel(void);
/* Creates a channel without a descriptor, for a caller that sleeps on the channel's wait set, to which *waits is
 * set. */
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

/* If no protection domain is given, one of the shared context is used (soft_share_context()). For each completion queue
 * that is not given, one is created, with a completion channel. */
int soft_create_id_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int soft_create_id_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr);
void soft_destroy_id_qp(struct rdma_cm_id *id);
/* Create a shared receive queue, from which the identifier's queue pair takes its receives; from an XRC one the queue
 * pairs of its domain take them. */
int soft_create_id_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int soft_create_id_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);
void soft_destroy_id_srq(struct rdma_cm_id *id);

int soft_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int soft_listen(struct rdma_cm_id *id, int backlog);
int soft_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int soft_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
int soft_disconnect(struct rdma_cm_id *id);
int soft_notify(struct rdma_cm_id *id, enum ibv_event_type event);
/* Returns whether a connecting or connected identifier uses TCP; false: InfiniBand's connection manager. */
bool soft_is_by_tcp(struct rdma_cm_id *id);

/* `receives`: the identifier's queue pair receives what is sent to the group; otherwise it only sends. */
int soft_join_multicast(struct rdma_cm_id *id, const struct sockaddr *addr, bool receives, void *context);
int soft_leave_multicast(struct rdma_cm_id *id, const struct sockaddr *addr);

/* For applications that create queue pairs without soft_create_id_qp(). */
int soft_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
int soft_establish(struct rdma_cm_id *id);

/* An identifier that is created, or migrated, without a channel is synchronous: its calls block. */
int soft_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                   struct ibv_qp_init_attr *attr);
void soft_destroy_ep(struct rdma_cm_id *id);
int soft_get_request(struct rdma_cm_id *listener, struct rdma_cm_id **id);

/* From now on all channels share one context, as with librdmacm. The context has a LID and GIDs (struct soft_names).
 * Must be called before the first channel is created. */
void soft_share_context(void);

/* Counts of the TCP connections to this process's listeners and of their ends, and of the links of all connections. */
struct soft_cm_counters {
    uint64_t accepted;           /* TCP connections that were accepted */
    uint64_t requests;           /* those that became a CONNECT_REQUEST */
    uint64_t refused_magic;      /* those whose client speaks another protocol */
    uint64_t refused_version;    /* those whose peer has another version; it got a REJ */
    uint64_t refused_malformed;  /* those with an invalid request */
    uint64_t refused_memory;     /* those for which there was no memory; the peer got a REJ */
    uint64_t hung_up;            /* those that the client closed before the request was complete */
    uint64_t half_open_timeouts; /* those whose request was not complete in time */
    uint64_t half_open_dropped;  /* those that were closed as the oldest of too many half-open ones */
    uint64_t descriptor_limits; /* how often accepting had to pause, because no descriptor or memory was left */
    uint64_t by_shm, by_tcp, by_udp; /* connections of this process, by link */
};
void soft_query_cm_counters(struct soft_cm_counters *counters);

#endif
