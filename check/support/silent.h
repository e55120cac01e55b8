/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * silent.h - strangers at the embedded device's TCP port who ask for a connection, as an EXS would, and say no
 * more.
 */
#ifndef CHECK_SILENT_H
#define CHECK_SILENT_H

#include "support.h"

int silent_ask(const struct address *to); /* its end */
void silent_say(int fd);                  /* the request, where the TCP connection is there */
/* Has it been answered, or hung up on? What it was told is read, and must be right. */
bool silent_is_answered(int fd, bool *is_there);
bool silent_is_there(int fd); /* not hung up on; what it was told has been read */

#endif
