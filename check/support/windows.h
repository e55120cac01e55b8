/* SPDX-License-Identifier: BSD-2-Clause */
/* windows.h - what the tests of memory windows do: a pair whose second end binds them, and whose first one
 * asks. */
#ifndef CHECK_WINDOWS_H
#define CHECK_WINDOWS_H

#include "endpoints.h"

#define READS IBV_ACCESS_REMOTE_READ
#define WRITES IBV_ACCESS_REMOTE_WRITE
#define AT 1000 /* the window in the region */
#define LENGTH 3000

/* The second end's region is one that windows may be bound to. */
struct pair *windows_pair(struct setup setup);
/* Frees both. */
void windows_end(struct pair *pair, struct ibv_mw *mw);
struct ibv_mw *window_new(struct end *end, enum ibv_mw_type type);
/* One request of this queue pair's, without memory; it completes as 77. The errno. */
int post_plain(struct ibv_qp *qp, struct ibv_send_wr wr);
/* Of type 2, by a request with this key of the window's block. The errno. */
int bind_try(struct ibv_qp *qp, struct ibv_mw *mw, uint8_t key, struct ibv_mr *mr, const void *at,
             size_t length, unsigned access);
int invalidate_try(struct ibv_qp *qp, uint32_t key);
/* The request of the second end, which was posted with this result, does it. */
void expect_local(struct pair *pair, int error, enum ibv_wc_opcode opcode);
void bind_ok(struct pair *pair, struct ibv_mw *mw, uint8_t key, size_t at, size_t length, unsigned access);
void invalidate_ok(struct pair *pair, uint32_t key);
/* One READ, WRITE or atomic of the first end's, at an address of the network's. */
void window_ask(struct pair *pair, uint32_t rkey, enum ibv_wr_opcode opcode, uint64_t address, size_t length,
                enum ibv_wc_status status);
/* A READ of the window's first byte. */
void window_read(struct pair *pair, uint32_t key, enum ibv_wc_status status);

#endif
