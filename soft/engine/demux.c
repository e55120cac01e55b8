/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * demux.c - the functions that links call for each received packet (soft_input() and others).
 *
 * They parse the headers, find the queue pair by its number, check that it can receive and that the packet is from its
 * peer, and pass the packet on: responses to the requester (completer.c), requests to the responder of the transport,
 * and multicast datagrams to group.c. Packets that fail a check are counted and dropped.
 */
#include "engine.h"
#include "group.h"
#include "core/base/tsan.h"

_Static_assert(SOFT_TARGETS >= SOFT_MAX_SGE && SOFT_TARGET_HEADERS >= SOFT_HEADER_MAX,
               "a target has room for all that a packet may say");

/* True if the queue pair accepts packets from this path. Datagrams may come from any address, but not over the link of
 * a connection; those sent to a multicast address are only for the group's members. */
static inline __attribute__((always_inline)) bool is_from_peer(const struct soft_qp *qp,
                                                               const struct soft_path *path)
{
    return qp->transport == SOFT_UD ? path->link == NULL && !soft_is_group(&path->local)
                                    : soft_path_matches(&qp->path, path);
}

/* The first packet has arrived at a queue pair in RTR: raises IBV_EVENT_COMM_EST. */
static void raise_comm_est(struct soft_qp *qp)
{
    qp->resp.established = true;
    if (qp->transport != SOFT_UD)
        soft_event_raise(qp->context, &qp->events, IBV_EVENT_COMM_EST);
}

static inline void pass_on(struct soft_qp *qp, const struct soft_packet *packet, const struct soft_path *path)
{
    if (packet->op & SOFT_OP_ANSWER)
        soft_completer_input(qp, packet);
    else if (qp->transport == SOFT_RC)
        soft_responder_input(qp, packet);
    else if (qp->transport == SOFT_UC)
        soft_uc_input(qp, packet);
    else if (qp->transport == SOFT_UD)
        soft_ud_input(qp, packet, path);
    else
        soft_xrc_input(qp, packet);
}

static __attribute__((noinline)) void deliver_first(struct soft_qp *qp, const struct soft_packet *packet,
                                                    const struct soft_path *path)
{
    raise_comm_est(qp);
    pass_on(qp, packet, path);
}

static void deliver_packet(struct soft_qp *qp, const struct soft_packet *packet, const struct soft_path *path)
{
    if (soft_state(qp) == IBV_QPS_RTR && !qp->resp.established)
        deliver_first(qp, packet, path);
    else
        pass_on(qp, packet, path);
}

static bool is_ours(const struct soft_packet *packet)
{
    return (packet->pkey & SOFT_PKEY_MASK) == (SOFT_PKEY & SOFT_PKEY_MASK);
}

/* Handles a packet for which no queue pair has the number and transport; it may be for a multicast group. Separate from
 * the fast path. */
static __attribute__((noinline)) void handle_stray(struct soft_context *context, struct soft_packet *packet,
                                                   const struct soft_path *path, const uint8_t *bytes,
                                                   const uint8_t *whole)
{
    if (packet->qpn != SOFT_GROUP_QPN || path->link != NULL) {
        context->counters.malformed++;
    } else if (!is_ours(packet)) {
        context->counters.refused++;
    } else {
        packet->payload = whole + (packet->payload - bytes);
        soft_group_input(context, packet, path);
    }
}

static void input_packet(struct ibv_context *ibv, const struct soft_path *path, const uint8_t *bytes,
                         const uint8_t *whole, size_t length, enum soft_payload where,
                         struct soft_target *target) __attribute__((always_inline));

/* Processes one packet of `length` bytes. Its headers are read from `bytes`, its payload from `whole`, behind the
 * headers there; soft_input_shared() has copied only the headers. */
static inline void input_packet(struct ibv_context *ibv, const struct soft_path *path, const uint8_t *bytes,
                                const uint8_t *whole, size_t length, enum soft_payload where,
                                struct soft_target *target)
{
    struct soft_context *context = soft_context_of(ibv);
    struct soft_counters *counters = &context->counters;
    struct soft_packet packet;
    struct soft_qp *qp;

    tsan_acquire(&soft_packet_order);
    counters->packets_received++;
    counters->bytes_received += length;
    if (length >= SOFT_BTH_BYTES && bytes[0] == SOFT_CNP)
        return; /* no reaction: losses already reduce the window */
    if (!soft_packet_parse(&packet, bytes, length)) {
        counters->malformed++;
        return;
    }
    packet.where = where;
    packet.target = target;
    if (target != NULL) {
        target->headers = (uint32_t)(packet.payload - bytes);
        target->length = packet.length;
    }
    if ((qp = soft_qp_find(context, packet.qpn)) == NULL || (packet.opcode & SOFT_TRANSPORT) != qp->transport) {
        handle_stray(context, &packet, path, bytes, whole);
        return;
    }
    if (!soft_receives(qp) || !qp->path_known)
        return;
    if (!is_ours(&packet) || !is_from_peer(qp, path)) {
        counters->refused++;
        return;
    }
    packet.payload = whole + (packet.payload - bytes);
    context->packets_found++;
    deliver_packet(qp, &packet, path);
}

void soft_input(struct ibv_context *ibv, const struct soft_path *path, const uint8_t *bytes, size_t length)
{
    input_packet(ibv, path, bytes, bytes, length, SOFT_PAYLOAD_HERE, NULL);
}

bool soft_input_target(struct ibv_context *ibv, const struct soft_path *path, const uint8_t *bytes,
                       size_t length, struct soft_target *target)
{
    struct soft_context *context = soft_context_of(ibv);
    struct soft_counters *counters = &context->counters;

    target->count = 0;
    target->headers = target->length = 0;
    input_packet(ibv, path, bytes, bytes, length, SOFT_PAYLOAD_HERE, target);
    if (target->count == 0)
        return false;
    /* soft_input_placed() counts the packet. A part of it is no activity: a thread that busy-polls would do so for as
     * long as the rest takes, which the network's rate or a peer that stops decides. */
    context->packets_found--;
    counters->packets_received--;
    counters->bytes_received -= length;
    return true;
}

void soft_input_placed(struct ibv_context *ibv, const struct soft_path *path, const uint8_t *bytes,
                       size_t length, bool vanished)
{
    input_packet(ibv, path, bytes, bytes, length, vanished ? SOFT_PAYLOAD_VANISHED : SOFT_PAYLOAD_PLACED, NULL);
}

void soft_input_shared(struct ibv_context *ibv, const struct soft_path *path, const uint8_t *bytes,
                       size_t length)
{
    uint8_t headers[SOFT_HEADER_MAX];

    if (length >= sizeof headers)
        memcpy(headers, bytes, sizeof headers); /* constant size, so the compiler inlines it */
    else
        memcpy(headers, bytes, length);
    input_packet(ibv, path, headers, bytes, length, SOFT_PAYLOAD_HERE, NULL);
}

void soft_input_ack(struct soft_link *link, uint32_t ack)
{
    struct soft_qp *qp = link->user;

    if (qp != NULL && qp->reliable)
        soft_completer_acked(qp, ack & SOFT_PSN_MASK);
}

void soft_count_malformed(struct ibv_context *ibv)
{
    soft_context_of(ibv)->counters.malformed++;
}
