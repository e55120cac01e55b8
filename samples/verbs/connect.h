/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.h - the states of a queue pair from RESET to RTR (ready to receive) and RTS (ready to send).
 *
 * The three transitions depend on the type of the queue pair and are in connect_rc.c, connect_uc.c and connect_ud.c. A
 * program is linked with one of them. Comparing two of these files shows how the types differ. */
#ifndef VERBS_CONNECT_H
#define VERBS_CONNECT_H

#include "resources.h" /* export */

#define QKEY 0x12345 /* of the datagram queue pairs of both sides */

/* The transitions. Each returns 0, or -1 after printing an error. */
int qp_to_init(struct resources *r);
int qp_to_rtr(struct resources *r);
int qp_to_rts(struct resources *r);
/* Connects a queue pair in the state INIT: exchanges data with the other side, then changes the state to RTR and, if
 * this side sends, to RTS. When it returns, the other side is in RTR, too. */
int connect_qp(struct resources *r);
/* Calls ibv_modify_qp(), and prints an error if it fails. */
int qp_modify(struct resources *r, struct ibv_qp_attr *attr, int mask, const char *to);

#endif
