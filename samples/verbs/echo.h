/* SPDX-License-Identifier: BSD-2-Clause */
/* echo.h - what the echo servers have in common: lines of text from the client's standard input to the daemon's
 * standard output.
 *
 * At its end the client tells by TCP how many lines it has sent; the daemon then knows when it has them all. */
#ifndef VERBS_ECHO_H
#define VERBS_ECHO_H

#include "resources.h"

#define TEXT_MAX 256 /* bytes, the terminating NUL included; longer lines go in pieces */

/* A completion queue with a channel to sleep on, armed. 0 or -1. */
int echo_cq(struct resources *r, int entries);
/* Sleeps until a request has completed: 1; or until there is something from the other side by TCP and no
 * completion: 0. -1 after saying what went wrong, or that limit milliseconds have passed (-1: no limit). */
int echo_await(struct resources *r, struct ibv_wc *wc, int limit);
/* The daemon's part: take prints what a completion has brought, and makes room for more. Says how many lines
 * there were. lossy: it is no error when some are missing. 0 or -1. */
int echo_serve(struct resources *r, int (*take)(struct resources *r, const struct ibv_wc *wc), bool lossy);
/* The client's part: reads lines; give sends the one that stands at text, length bytes with its NUL; number
 * counts them from 0. 0 or -1. */
int echo_talk(struct resources *r,
              int (*give)(struct resources *r, uint32_t number, const char *text, size_t length));

#endif
