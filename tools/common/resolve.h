/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.h - a host and a port, each by its name or its number, as addresses. */
#ifndef TOOLS_RESOLVE_H
#define TOOLS_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>

enum { RESOLVE_TEXT_MAX = 256 }; /* bytes */

/* What a stream socket may use, the best first; freeaddrinfo is for it. NULL: why is one line that says what is
 * wanted, and errno EINVAL where it is the port that is wrong, or EADDRNOTAVAIL where the host is not known,
 * which it may be later. listening: the port may be 0, any that is free. */
struct addrinfo *resolve(const char *host, const char *port, bool listening, char why[RESOLVE_TEXT_MAX]);

#endif
