/* SPDX-License-Identifier: BSD-2-Clause */
/* echo.h - common parts of the echo servers, which transfer lines of text from the client's standard input to the
 * daemon's standard output.
 *
 * At its end the client sends the number of its lines over TCP, so that the daemon knows when it has received all. */
#ifndef VERBS_ECHO_H
#define VERBS_ECHO_H

#include "resources.h"

#define TEXT_MAX 256 /* bytes, including the terminating 0; longer lines are sent in pieces */

/* Creates a completion queue with a completion channel, and arms it. Returns 0, or -1 after printing an error. */
int echo_cq(struct resources *r, int entries);
/* Sleeps until a request has completed (returns 1), or until the other side has sent data over TCP and there is no
 * completion (returns 0). Returns -1 after printing an error: a failure, or a timeout after `limit` milliseconds (-1:
 * no limit). */
int echo_await(struct resources *r, struct ibv_wc *wc, int limit);
/* The daemon: calls take() for each completion, which prints the line and posts a receive again. Prints the number of
 * lines. lossy: missing lines are not an error. Returns 0 or -1. */
int echo_serve(struct resources *r, int (*take)(struct resources *r, const struct ibv_wc *wc), bool lossy);
/* The client: reads lines, and calls give() to send each: `length` bytes, including the terminating 0. number: index of
 * the line, from 0. Returns 0 or -1. */
int echo_talk(struct resources *r,
              int (*give)(struct resources *r, uint32_t number, const char *text, size_t length));

#endif
