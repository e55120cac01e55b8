/* SPDX-License-Identifier: BSD-2-Clause */
/* poll.h - waiting for a completion by asking again and again: soonest seen, and a processor's whole time. */
#ifndef VERBS_POLL_H
#define VERBS_POLL_H

#include "resources.h"

#define COMPLETION_LIMIT 20000 /* milliseconds */

/* Each: 0 once a request has completed well, or -1 after saying why not. */
int poll_cq(struct resources *r, struct ibv_wc *wc);
/* The same, and says what it found. */
int poll_completion(struct resources *r);
/* 0 if the request completed well; else -1, after saying how it ended. */
int check_status(const struct ibv_wc *wc);

#endif
