/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qp1.h - queue pair 1 at RoCE's own port: where the connection managers of RDMA adapters, and of the kernel's
 * software ones, send their datagrams to (IBA volume 1, 13.4; annex A17 for RoCEv2).
 *
 * Each is one packet: BTH, DETH and a management datagram of 256 bytes. They come to a socket of their own, so
 * that no queue pair's packets pass by here, and the context's lock is none of ours. All the processes that
 * have the port have that socket in common (roce_port.h), and whichever looks first takes a packet. What is
 * sent leaves by a socket of one's own, which hears when nobody is at the port over there.
 */
#ifndef SOFT_QP1_H
#define SOFT_QP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/soft/engine/wire.h"
#include "icrc_id.h"

#define QP1_SHARES 16                      /* of the port */
#define QP1_MAD 256                        /* bytes of a management datagram */
#define QP1_HEADERS 20                     /* BTH and DETH */
#define QP1_PACKET (QP1_HEADERS + QP1_MAD) /* without the check */

struct roce_port;
struct roce_table;

/* Its holder's, and guarded by his lock. */
struct qp1 {
    unsigned share;           /* the port's, */
    struct roce_table *table; /* and its table; or NULL */
    int fds[2];     /* by IPv4 and IPv6; the port's own, -1: a host without IPv6 */
    int out[2];     /* by which we send; -1: likewise */
    in_port_t out_port[2];
    struct icrc_ids ids;
    uint32_t psn; /* of the next packet that is sent */
};

/* The port must outlive it. 0 or an errno. */
int qp1_open(struct qp1 *qp1, const struct roce_port *roce);
void qp1_close(struct qp1 *qp1);

/* From path->local to path->remote, ports aside. What can't be sent is lost, as on any wire. */
void qp1_send(struct qp1 *qp1, const struct soft_path *path, const uint8_t mad[QP1_MAD]);
/* The next one that has come by this of the sockets, and on which path. 1; 0: it was something else; -1: there
 * is none. */
int qp1_receive(struct qp1 *qp1, int family, struct soft_path *path, uint8_t mad[QP1_MAD]);

/* The next one of ours that a host had nobody for, as that says, of those that went by this socket; path->local
 * is not known. 1; 0: something else; -1: there is none. */
int qp1_refused(struct qp1 *qp1, int family, struct soft_path *path, uint8_t mad[QP1_MAD]);

/* A packet's bytes, from the BTH on and without the check. */
void qp1_write(uint8_t packet[QP1_PACKET], uint32_t psn, const uint8_t mad[QP1_MAD]);
/* The datagram in it; NULL: that can't be. */
const uint8_t *qp1_read(const uint8_t *packet, size_t length);

#endif
