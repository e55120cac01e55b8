/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qp1.h - queue pair 1 at RoCE's UDP port, to which the connection managers of RDMA adapters and of the kernel's
 * software devices send their datagrams (IBA volume 1, 13.4; annex A17 for RoCEv2).
 *
 * Each datagram is one packet: BTH, DETH and a management datagram (MAD) of 256 bytes. They arrive at a separate
 * socket, so this code sees no packets of other queue pairs and does not need the context's lock. All processes that
 * use the port share that socket (roce_port.h), and any of them may receive a given packet. Each process sends from a
 * separate socket, which gets the ICMP errors of hosts where no process has the port.
 */
#ifndef SOFT_QP1_H
#define SOFT_QP1_H

#include <stddef.h>
#include <stdint.h>
#include "soft/engine/wire.h"
#include "icrc_id.h"

#define QP1_SHARES 16                      /* contexts that can share the port */
#define QP1_MAD 256                        /* bytes of a management datagram */
#define QP1_HEADERS 20                     /* BTH and DETH */
#define QP1_PACKET (QP1_HEADERS + QP1_MAD) /* without the ICRC */

struct roce_port;
struct roce_table;

/* Owned by struct ib_port, and guarded by its lock. */
struct qp1 {
    unsigned share;           /* copied from struct roce_port */
    struct roce_table *table; /* copied from struct roce_port; or NULL */
    int fds[2];            /* shared receiving sockets, IPv4 and IPv6; -1: no IPv6; owned by struct roce_port */
    int out[2];            /* sending sockets, IPv4 and IPv6; -1: no IPv6 */
    in_port_t out_port[2]; /* their UDP ports, network byte order */
    struct icrc_ids ids;
    uint32_t psn; /* PSN of the next packet that is sent */
};

/* Opens the sending sockets. `roce` must outlive `qp1`. 0 or an errno. */
int qp1_open(struct qp1 *qp1, const struct roce_port *roce);
void qp1_close(struct qp1 *qp1);

/* Sends from path->local to path->remote; their ports are ignored. Errors are ignored: the datagram is lost. */
void qp1_send(struct qp1 *qp1, const struct soft_path *path, const uint8_t mad[QP1_MAD]);
/* Receives the next packet of this family (enum roce_family), and its path. 1; 0: the packet was no valid datagram; -1:
 * there is none. */
int qp1_receive(struct qp1 *qp1, int family, struct soft_path *path, uint8_t mad[QP1_MAD]);

/* Returns the next datagram that was sent by this process and for which a host has reported that no process has the
 * port; path->local is not known. 1; 0: another error was reported; -1: there is no report. */
int qp1_refused(struct qp1 *qp1, int family, struct soft_path *path, uint8_t mad[QP1_MAD]);

/* Builds a packet, from the BTH on and without the ICRC. */
void qp1_write(uint8_t packet[QP1_PACKET], uint32_t psn, const uint8_t mad[QP1_MAD]);
/* Returns the MAD in a packet, or NULL if the packet is invalid. */
const uint8_t *qp1_read(const uint8_t *packet, size_t length);

#endif
