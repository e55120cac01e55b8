/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.h - a queue pair's way from RESET to where it can talk.
 *
 * The three steps differ by the type of the queue pair and are in connect_rc.c, connect_uc.c and connect_ud.c:
 * a program is linked with the one that it needs. What two of these files differ in is what the types differ
 * in. */
#ifndef VERBS_CONNECT_H
#define VERBS_CONNECT_H

#include "resources.h" /* export */

#define QKEY 0x12345 /* of both sides' datagram queue pairs */

/* Each: 0, or -1 after saying what failed. */
int qp_to_init(struct resources *r);
int qp_to_rtr(struct resources *r);
int qp_to_rts(struct resources *r);
/* From INIT: passes data with the other side, then on to RTR, and to RTS where this side sends. When it
 * returns, the other side can receive. */
int connect_qp(struct resources *r);
/* The verb, and a line if it fails. */
int qp_modify(struct resources *r, struct ibv_qp_attr *attr, int mask, const char *to);

#endif
