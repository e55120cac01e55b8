/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roce_port.h - UDP port 4791, to which RDMA adapters and the kernel's software devices send, and how the processes of
 * a host share it.
 *
 * The port has a fixed number of sockets ("shares") for each address family, all bound to the wildcard address with
 * SO_REUSEPORT. A classic BPF program gives each packet to the socket that its destination queue pair's number
 * selects. That needs no privilege, but all processes must have the same user. The kernel numbers the sockets of such
 * a group, and moves the last one to the number of one that is closed. Therefore no process may close a socket while
 * the group is in use: a process that joins gets descriptors of all sockets from one that is there, keeps them open,
 * and reads only its own share. A process that exits or is stopped, in any order, does not disturb the packets of the
 * others.
 *
 * A share belongs to the process that has bound an abstract unix socket to its name; the name is free when the process
 * ends. Processes that join later connect to that socket (in the code: listener) and get the sockets there. Only one
 * process joins at a time: it has bound another name while it joins.
 *
 * Packets for queue pair 1 (connection management) belong to no share: they arrive at one more socket, which every
 * process of the port may read (qp1.h).
 */
#ifndef SOFT_ROCE_PORT_H
#define SOFT_ROCE_PORT_H

#include <stddef.h>
#include "roce_table.h"

#define ROCE_SHARES 16       /* maximum contexts of a user and network namespace at the port; a power of two */
#define ROCE_QP1 ROCE_SHARES /* index of the socket of queue pair 1 */
#define ROCE_SOCKETS (ROCE_SHARES + 1)
/* How long a joining process waits for an answer of another process, which may get little CPU time. */
#define ROCE_PATIENCE_MS 5000

enum roce_family { ROCE_IPV4, ROCE_IPV6, ROCE_FAMILIES };

/* One context's share of the port. Owned by its struct udp; guarded by the context's lock. */
struct roce_port {
    /* Index of the share that gets the packets for the context's queue pairs: its LID modulo ROCE_SHARES. */
    unsigned share;
    int listener; /* listening unix socket: readable when a process wants to join */
    int fds[ROCE_SOCKETS]
           [ROCE_FAMILIES]; /* sockets of all shares, and of queue pair 1; -1: the host has no IPv6 */
    int memory;             /* descriptor of the table; -1: none */
    /* The table that all processes of the port share; NULL: the process that opened the port could not make one. */
    struct roce_table *table;
};

/* Joins the processes that share the port, or opens it. NULL and errno: EADDRINUSE, another program has the port;
 * EUSERS, all shares are taken; EPERM, another user has taken their names; ETIMEDOUT, the process that has the port
 * does not answer. May block, up to ROCE_PATIENCE_MS for each step. */
struct roce_port *roce_port_join(void);
/* Gives the share up, and frees the struct. */
void roce_port_leave(struct roce_port *roce);
/* Accepts one process that wants to join and sends it the sockets. Does not block. */
void roce_port_answer(struct roce_port *roce);

/* Writes what an errno of roce_port_join() means and what to do about it, as the end of a sentence. */
void roce_port_explain(int error, char *text, size_t size);

#endif
