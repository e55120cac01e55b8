/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.h - finds the addresses of a host and a port, each given by name or by number. */
#ifndef TOOLS_RESOLVE_H
#define TOOLS_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>

enum { RESOLVE_TEXT_MAX = 256 }; /* bytes */

/* Returns addresses for a stream socket, the best first; the caller frees them by freeaddrinfo(). On failure returns
 * NULL, writes the reason to `why`, one line, and sets errno: EINVAL (invalid port) or EADDRNOTAVAIL (unknown host; a
 * later attempt may succeed). listening: the port may be 0, for any free port. */
struct addrinfo *resolve(const char *host, const char *port, bool listening, char why[RESOLVE_TEXT_MAX]);

#endif
