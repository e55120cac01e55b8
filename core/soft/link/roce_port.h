/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roce_port.h - UDP port 4791, where RDMA adapters and the kernel's own software ones send to, and how the
 * processes of a host have it in common.
 *
 * Its sockets are a fixed number of shares for each family, all at every address, and the kernel gives each
 * packet to the one that its destination queue pair's number says: SO_REUSEPORT and a small program of classic
 * BPF, which takes no privilege but one user for all. The kernel counts a group's sockets, and moves the last
 * one to where another was closed; so nobody ever closes one while the group is in use: whoever joins gets all
 * of them from one who is there, keeps them open, and reads his own share alone. However processes end, in
 * whatever order, or stand still, the others get what is theirs.
 *
 * A share is whose abstract unix socket is bound to its name, which ends with the process. That socket is also
 * the door: who comes after finds it, and the sockets are handed out there. One at a time joins; a name that is
 * bound meanwhile sees to that.
 *
 * What is for queue pair 1, connection management, is nobody's share: it comes to one more socket, which
 * whoever has the port may read (qp1.h).
 */
#ifndef SOFT_ROCE_PORT_H
#define SOFT_ROCE_PORT_H

#include <stddef.h>
#include "roce_table.h"

#define ROCE_SHARES 16       /* a power of two: as many contexts of a user and a network namespace */
#define ROCE_QP1 ROCE_SHARES /* behind the shares' sockets, the one of queue pair 1 */
#define ROCE_SOCKETS (ROCE_SHARES + 1)
#define ROCE_PATIENCE_MS 2000 /* how long one who joins waits for others */

enum roce_family { ROCE_IPV4, ROCE_IPV6, ROCE_FAMILIES };

/* One context's. Guarded by its lock. */
struct roce_port {
    unsigned share; /* packets to queue pairs of LIDs that are this modulo ROCE_SHARES are ours */
    int door;       /* readable when somebody has come */
    int fds[ROCE_SOCKETS][ROCE_FAMILIES]; /* of all; -1: a host without IPv6 */
    int memory;                           /* of the table, */
    struct roce_table *table;             /* which all have in common; NULL: the first of them had none to give */
};

/* NULL and errno: EADDRINUSE, somebody else has the port; EUSERS, all shares are taken; EPERM, their names are
 * another user's; ETIMEDOUT, who has it doesn't answer. May wait, ROCE_PATIENCE_MS at most for each thing that
 * it waits for. */
struct roce_port *roce_port_join(void);
void roce_port_leave(struct roce_port *roce);
/* Whoever stands at the door gets the sockets. */
void roce_port_answer(struct roce_port *roce);

/* What roce_port_join's failure means, and what to do about it: a sentence's end. */
void roce_port_explain(int error, char *text, size_t size);

#endif
