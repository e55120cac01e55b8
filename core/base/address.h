/* SPDX-License-Identifier: BSD-2-Clause */
/* address.h - socket addresses as text. */
#ifndef XS_ADDRESS_H
#define XS_ADDRESS_H

#include <netinet/in.h>

/* Formats an address and its port for log messages. */
#define ADDRESS_TEXT (INET6_ADDRSTRLEN + sizeof(" port 65535"))
const char *xs_address_text(const struct sockaddr *address, char text[ADDRESS_TEXT]);

#endif
