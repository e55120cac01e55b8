/* SPDX-License-Identifier: BSD-2-Clause */
/* poll.h - waiting for a completion by busy polling: the shortest latency, but it keeps a CPU busy. */
#ifndef VERBS_POLL_H
#define VERBS_POLL_H

#include "resources.h"

#define COMPLETION_LIMIT 20000 /* milliseconds */

/* Waits for a completion. Returns 0 if the request was successful, or -1 after printing an error. */
int poll_cq(struct resources *r, struct ibv_wc *wc);
/* Like poll_cq(), and prints the completion. */
int poll_completion(struct resources *r);
/* Returns 0 if the request was successful, or -1 after printing its status. */
int check_status(const struct ibv_wc *wc);

#endif
