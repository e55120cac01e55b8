/* SPDX-License-Identifier: BSD-2-Clause */
/* work.h - asking for something, and finding out what came of it. */
#ifndef VERBS_WORK_H
#define VERBS_WORK_H

#include "rig.h"

/* One request with up to four pieces of memory. It points into itself: don't copy. */
struct work {
    struct ibv_sge sges[4];
    struct ibv_send_wr wr;
};

/* A request of a's: so many bytes from the start of its memory, and to or from the start of b's. */
void work(struct work *w, const struct rig *r, enum ibv_wr_opcode opcode, uint32_t length);
/* Posts it; a post that is refused is said, and whether bad_wr is this one. True when it was taken. */
bool work_post(struct rig *r, struct work *w);
/* Posts it, and says as what it completes. */
void work_run(struct rig *r, struct work *w);
/* Both: and in what state that leaves both queue pairs. */
void work_outcome(struct rig *r, struct work *w);
/* A send of so many bytes that must work. */
void work_send(struct rig *r, uint32_t length);

/* A receive of so many bytes at offset of the end's memory. The errno. */
int receive_at(struct rig_end *end, uint64_t wr_id, uint32_t offset, uint32_t length, uint32_t lkey);
/* One that must be taken: at offset 8192, with wr_id. */
void receive(struct rig_end *end, uint64_t wr_id, uint32_t length);

/* Waits up to so many milliseconds for a completion. */
bool completion_within(struct rig_end *end, struct ibv_wc *wc, int limit);
/* Waits for one and says its status, or "none". False when there was none. */
bool say_completion(const char *what, struct rig_end *end, struct ibv_wc *wc);
/* Each wr_id and status of the next so many completions, in their order: "1:SUCCESS,2:WR_FLUSH_ERR". */
void say_completions(const char *what, struct rig_end *end, int count);
/* Says its state, which it may be about to change to ERR. */
void say_state(const char *what, struct ibv_qp *qp);
/* Waits for an asynchronous event and says it, or "none". */
void say_async(const char *what, struct rig *r);

#endif
