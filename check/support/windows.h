/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * windows.h - helpers of the tests of memory windows: a pair whose second end binds windows, and whose first end
 * accesses memory through them.
 */
#ifndef CHECK_WINDOWS_H
#define CHECK_WINDOWS_H

#include "endpoints.h"

#define READS IBV_ACCESS_REMOTE_READ
#define WRITES IBV_ACCESS_REMOTE_WRITE
#define AT 1000 /* offset of the window in the region */
#define LENGTH 3000

/* The region of the second end permits binding windows. */
struct pair *windows_pair(struct setup setup);
/* Frees the pair and the window. */
void windows_end(struct pair *pair, struct ibv_mw *mw);
struct ibv_mw *window_new(struct end *end, enum ibv_mw_type type);
/* Posts a request without memory, which completes with ID 77. Returns an errno value. */
int post_plain(struct ibv_qp *qp, struct ibv_send_wr wr);
/* Posts a bind of a type 2 window, with `key` as the low 8 bits of its key. Returns an errno value. */
int bind_try(struct ibv_qp *qp, struct ibv_mw *mw, uint8_t key, struct ibv_mr *mr, const void *at,
             size_t length, unsigned access);
int invalidate_try(struct ibv_qp *qp, uint32_t key);
/* Expects that the request of the second end, whose posting returned `error`, completes. */
void expect_local(struct pair *pair, int error, enum ibv_wc_opcode opcode);
void bind_ok(struct pair *pair, struct ibv_mw *mw, uint8_t key, size_t at, size_t length, unsigned access);
void invalidate_ok(struct pair *pair, uint32_t key);
/* Posts one READ, WRITE or atomic of the first end, at this remote address, and expects this status. */
void window_ask(struct pair *pair, uint32_t rkey, enum ibv_wr_opcode opcode, uint64_t address, size_t length,
                enum ibv_wc_status status);
/* The same for a READ of the window's first byte. */
void window_read(struct pair *pair, uint32_t key, enum ibv_wc_status status);

#endif
