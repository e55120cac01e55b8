/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.h - memory windows: b binds and invalidates them, a accesses b's memory through them. Each function prints its
 * result. */
#ifndef VERBS_BIND_H
#define VERBS_BIND_H

#include "work.h"

#define READS IBV_ACCESS_REMOTE_READ
#define WRITES IBV_ACCESS_REMOTE_WRITE
#define ATOMICS IBV_ACCESS_REMOTE_ATOMIC
#define FROM_ZERO IBV_ACCESS_ZERO_BASED
#define AT 4096 /* offset of the window in b's memory, bytes */
#define LENGTH 4096

/* Creates a connected pair. Windows may be bound to b's region, which itself permits no remote access. */
void window_pair(struct rig *r);
/* Calls window_pair(), and allocates a window. */
struct ibv_mw *window_new(struct rig *r, enum ibv_mw_type type);
/* Returns the window's range in b's memory. */
struct ibv_mw_bind_info window_range(struct rig *r, unsigned access);
/* Binds a window of type 1, by ibv_bind_mw(). */
void bind_first(struct rig *r, struct ibv_mw *mw, struct ibv_mw_bind_info to);
/* Bind a window of type 2, by a request on this queue pair of b. bind_as() uses this key, and returns false if the bind
 * has failed. */
bool bind_as(struct rig *r, struct ibv_qp *qp, struct ibv_mw *mw, uint32_t key, struct ibv_mw_bind_info to);
void bind_second(struct rig *r, struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind_info to);
/* Calls window_new(), and binds a window of type 2 that permits access to a. */
struct ibv_mw *window_bound(struct rig *r);
void invalidate(struct rig *r, struct ibv_qp *qp, uint32_t key);
/* Posts a request of a to this address of b, with this key. */
void window_ask(struct rig *r, enum ibv_wr_opcode opcode, uint64_t address, uint32_t length, uint32_t key);
/* Writes the first bytes of the window. */
void window_write(struct rig *r, uint32_t key);

#endif
