/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.h - memory windows: b binds and invalidates them, a asks through them. Each says what came of it. */
#ifndef VERBS_BIND_H
#define VERBS_BIND_H

#include "work.h"

#define READS IBV_ACCESS_REMOTE_READ
#define WRITES IBV_ACCESS_REMOTE_WRITE
#define ATOMICS IBV_ACCESS_REMOTE_ATOMIC
#define FROM_ZERO IBV_ACCESS_ZERO_BASED
#define AT 4096 /* the window in b's memory, */
#define LENGTH 4096

/* A connected pair; b's region is one that windows may be bound to, but nothing is open to a by it. */
void window_pair(struct rig *r);
/* With such a pair. */
struct ibv_mw *window_new(struct rig *r, enum ibv_mw_type type);
/* Its place in b's memory. */
struct ibv_mw_bind_info window_range(struct rig *r, unsigned access);
/* By ibv_bind_mw, for type 1; by a request of that queue pair of b's, for type 2. */
void bind_first(struct rig *r, struct ibv_mw *mw, struct ibv_mw_bind_info to);
/* By a request of that queue pair of b's, under this key. False: it failed. */
bool bind_as(struct rig *r, struct ibv_qp *qp, struct ibv_mw *mw, uint32_t key, struct ibv_mw_bind_info to);
void bind_second(struct rig *r, struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind_info to);
/* One of type 2 that is open to a. */
struct ibv_mw *window_bound(struct rig *r);
void invalidate(struct rig *r, struct ibv_qp *qp, uint32_t key);
/* By a, at an address of b's. */
void window_ask(struct rig *r, enum ibv_wr_opcode opcode, uint64_t address, uint32_t length, uint32_t key);
/* Its first bytes. */
void window_write(struct rig *r, uint32_t key);

#endif
