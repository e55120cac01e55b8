/* SPDX-License-Identifier: BSD-2-Clause */
/* work.h - posts work requests, and prints their results. */
#ifndef VERBS_WORK_H
#define VERBS_WORK_H

#include "rig.h"

/* A request with up to four scatter/gather elements. It contains pointers to itself and must not be copied. */
struct work {
    struct ibv_sge sges[4];
    struct ibv_send_wr wr;
};

/* Prepares a request of a: `length` bytes at the start of a's memory, to or from the start of b's memory. */
void work(struct work *w, const struct rig *r, enum ibv_wr_opcode opcode, uint32_t length);
/* Posts a request. If it is refused, prints the error and whether bad_wr is this request. Returns whether it was
 * accepted. */
bool work_post(struct rig *r, struct work *w);
/* Posts a request, and prints the status of its completion. */
void work_run(struct rig *r, struct work *w);
/* Like work_run(), and prints the states of both queue pairs afterwards. */
void work_outcome(struct rig *r, struct work *w);
/* Sends this number of bytes, which must be successful. */
void work_send(struct rig *r, uint32_t length);

/* Posts a receive at this offset of the end's memory. Returns the errno. */
int receive_at(struct rig_end *end, uint64_t wr_id, uint32_t offset, uint32_t length, uint32_t lkey);
/* Posts a receive at offset 8192, which must be accepted. */
void receive(struct rig_end *end, uint64_t wr_id, uint32_t length);

/* Waits up to `limit` milliseconds for a completion. Returns whether there was one. */
bool completion_within(struct rig_end *end, struct ibv_wc *wc, int limit);
/* Waits for a completion, and prints its status or "none". Returns false if there was none. */
bool say_completion(const char *what, struct rig_end *end, struct ibv_wc *wc);
/* Prints wr_id and status of the next `count` completions, in order: "1:SUCCESS,2:WR_FLUSH_ERR". */
void say_completions(const char *what, struct rig_end *end, int count);
/* Prints the state of the queue pair. Waits a while, because a change to ERR may be in progress. */
void say_state(const char *what, struct ibv_qp *qp);
/* Waits for an asynchronous event, and prints it or "none". */
void say_async(const char *what, struct rig *r);

#endif
