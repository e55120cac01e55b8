/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * silent.h - untrusted peers at the software device's TCP port that send a valid connection request, and nothing more.
 */
#ifndef CHECK_SILENT_H
#define CHECK_SILENT_H

#include "support.h"

int silent_ask(const struct address *to); /* returns the peer's socket */
void silent_say(int fd);                  /* sends the request on a TCP connection */
/* Returns whether the request was answered or the connection closed. Reads the answer, which must be valid. */
bool silent_is_answered(int fd, bool *is_there);
bool silent_is_there(int fd); /* not closed, and all answers were read */

#endif
