/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * datagram.c - unreliable datagrams: a SEND of one packet, to the destination of its address handle.
 *
 * The receiver finds the sender's addresses in the first 40 bytes of its buffer: an IPv6 header, or 20 zero bytes and
 * an IPv4 header. The link does not pass on the header that arrived, so it is rebuilt from the addresses.
 */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include "engine.h"

#define UDP_HEADER 8
/* The service level that rdma-core's providers report for RoCE datagrams encodes whether the datagram arrived over UDP,
 * and the type of the IP header. UCX needs it to find the addresses in the GRH. */
#define TYPE_UDP 8
#define TYPE_IPV6 1
#define TYPE_IPV4 2
#define OWN_QKEY 0x80000000u /* In a request's Q_Key: use the queue pair's own. */

/* ---- Sending ---- */

bool soft_ud_put(struct soft_qp *qp, struct soft_send *send)
{
    const struct soft_destination *to = soft_destination_of(&qp->req.ring, send);
    size_t headers = SOFT_BTH_BYTES + SOFT_DETH_BYTES + (send->with_imm ? SOFT_IMM_BYTES : 0);
    struct soft_bth bth = {.opcode = (uint8_t)(SOFT_UD | (SOFT_SEND + 4 + send->with_imm)),
                           .solicited = send->flags & IBV_SEND_SOLICITED,
                           .pad = soft_pad(send->length),
                           .qpn = to->qpn,
                           .psn = (uint32_t)send->psn};
    struct iovec slice[SOFT_MAX_SGE];
    const struct soft_mr *nofault = NULL;
    int pieces;
    uint8_t *at;

    pieces = soft_send_slice(qp, send, 0, send->length, slice, &nofault);
    if (pieces < 0) {
        soft_requester_fault(qp, send->psn, IBV_WC_LOC_PROT_ERR);
        return false;
    }
    if ((at = soft_burst_add(qp, &to->path, headers + send->length + bth.pad, send->psn, false)) == NULL)
        return false;
    at = soft_put_bth(at, &bth);
    at = soft_put_deth(at, to->qkey & OWN_QKEY ? qp->attr.qkey : to->qkey, soft_ibv(qp)->qp_num);
    if (send->with_imm) {
        memcpy(at, &send->imm, SOFT_IMM_BYTES);
        at += SOFT_IMM_BYTES;
    }
    soft_burst_payload(qp->context, at, slice, pieces, nofault);
    memset(at + send->length, 0, bth.pad);
    return true;
}

/* ---- Receiving ---- */

static uint16_t header_checksum(const void *header, size_t length)
{
    const uint8_t *bytes = header;
    uint32_t sum = 0;

    for (size_t i = 0; i < length; i += 2)
        sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    while (sum > 0xffff)
        sum = (sum >> 16) + (sum & 0xffff);
    return htons((uint16_t)~sum);
}

static void fill_ipv4(uint8_t *grh, const struct soft_path *path, size_t length)
{
    struct iphdr ip = {
        .version = 4,
        .ihl = 5,
        .tos = (uint8_t)path->traffic_class,
        .tot_len = htons((uint16_t)(sizeof ip + length)),
        .frag_off = htons(IP_DF),
        .ttl = IPDEFTTL,
        .protocol = IPPROTO_UDP,
        .saddr = path->remote.in.sin_addr.s_addr,
        .daddr = path->local.in.sin_addr.s_addr,
    };

    ip.check = header_checksum(&ip, sizeof ip);
    memset(grh, 0, SOFT_GRH_BYTES - sizeof ip);
    memcpy(grh + SOFT_GRH_BYTES - sizeof ip, &ip, sizeof ip);
}

static void fill_ipv6(uint8_t *grh, const struct soft_path *path, size_t length)
{
    struct ip6_hdr ip = {
        .ip6_flow = htonl(6u << 28 | (uint32_t)path->traffic_class << 20),
        .ip6_plen = htons((uint16_t)length),
        .ip6_nxt = IPPROTO_UDP,
        .ip6_hlim = IPDEFTTL,
        .ip6_src = path->remote.in6.sin6_addr,
        .ip6_dst = path->local.in6.sin6_addr,
    };

    memcpy(grh, &ip, sizeof ip);
}

/* Writes the GRH of a packet of this many bytes from the BTH on. */
static void fill_grh(uint8_t grh[SOFT_GRH_BYTES], const struct soft_path *path, size_t length)
{
    if (path->remote.sa.sa_family == AF_INET)
        fill_ipv4(grh, path, UDP_HEADER + length);
    else
        fill_ipv6(grh, path, UDP_HEADER + length);
}

/* Stores GRH and payload in the receive. IBV_WC_SUCCESS, or the error. */
static enum ibv_wc_status store_datagram(struct soft_qp *qp, const struct soft_recv *recv, const uint8_t *grh,
                                         const struct soft_packet *packet)
{
    struct ibv_pd *pd = soft_receive_pd(qp);
    struct iovec head[SOFT_MAX_SGE], body[SOFT_MAX_SGE];
    const struct soft_mr *nofault = NULL;
    int heads, bodies;

    if (SOFT_GRH_BYTES + (uint64_t)packet->length > soft_sge_length(recv->sge, recv->sges))
        return IBV_WC_LOC_LEN_ERR;
    heads = soft_sge_slice(qp->context, pd, recv->sge, recv->sges, 0, SOFT_GRH_BYTES, IBV_ACCESS_LOCAL_WRITE,
                           head, &nofault);
    bodies = soft_sge_slice(qp->context, pd, recv->sge, recv->sges, SOFT_GRH_BYTES, packet->length,
                            IBV_ACCESS_LOCAL_WRITE, body, &nofault);
    if (heads < 0 || bodies < 0 || !soft_scatter(head, heads, grh, nofault != NULL) ||
        !soft_scatter(body, bodies, packet->payload, nofault != NULL))
        return IBV_WC_LOC_PROT_ERR;
    return IBV_WC_SUCCESS;
}

/* 0 for datagrams at RoCE's port, because any process may send there from any port. */
static uint16_t lid_of_sender(const struct soft_path *path)
{
    if (path->local.in.sin_port == htons(SOFT_UDP_PORT)) /* at the same place in sockaddr_in6 */
        return 0;
    return soft_lid_of_port(path->remote.in.sin_port);
}

static void complete_datagram(struct soft_qp *qp, const struct soft_recv *recv,
                              const struct soft_packet *packet, const struct soft_path *path)
{
    struct ibv_wc wc = {
        .status = IBV_WC_SUCCESS,
        .opcode = IBV_WC_RECV,
        .byte_len = SOFT_GRH_BYTES + packet->length,
        .src_qp = packet->source,
        .sl = TYPE_UDP | (path->remote.sa.sa_family == AF_INET ? TYPE_IPV4 : TYPE_IPV6),
        .slid = lid_of_sender(path),
        .wc_flags = IBV_WC_GRH | (packet->op & SOFT_OP_IMM ? IBV_WC_WITH_IMM : 0),
    };

    if (packet->op & SOFT_OP_IMM)
        wc.imm_data = packet->imm;
    soft_receive_done(qp);
    soft_complete_recv(qp, recv, &wc, packet->solicited);
}

void soft_ud_input(struct soft_qp *qp, const struct soft_packet *packet, const struct soft_path *path)
{
    struct soft_recv *recv;
    uint8_t grh[SOFT_GRH_BYTES];
    enum ibv_wc_status status;

    if (packet->qkey != qp->attr.qkey || packet->length > qp->mtu) {
        qp->context->counters.refused++;
        return;
    }
    if ((recv = soft_receive_next(qp)) == NULL) {
        qp->context->counters.unready++;
        return;
    }
    fill_grh(grh, path,
             SOFT_BTH_BYTES + SOFT_DETH_BYTES + (packet->op & SOFT_OP_IMM ? SOFT_IMM_BYTES : 0) +
                 packet->length + soft_pad(packet->length) + qp->context->wire->link->trailer);
    if ((status = store_datagram(qp, recv, grh, packet)) == IBV_WC_SUCCESS) {
        complete_datagram(qp, recv, packet, path);
        return;
    }
    qp->resp.receiving = true;
    soft_refuse(qp, SOFT_SYNDROME_OPERATION, status);
}
