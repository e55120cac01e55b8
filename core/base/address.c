/* SPDX-License-Identifier: BSD-2-Clause */
/* address.c - socket addresses as text. See address.h. */
#include <arpa/inet.h>
#include <stdio.h>
#include "address.h"

const char *xs_address_text(const struct sockaddr *address, char text[ADDRESS_TEXT])
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
    const void *host = address->sa_family == AF_INET6 ? (const void *)&in6->sin6_addr : &in->sin_addr;
    char buffer[INET6_ADDRSTRLEN] = "?";

    inet_ntop(address->sa_family, host, buffer, sizeof(buffer));
    /* sin_port and sin6_port are at the same offset */
    snprintf(text, ADDRESS_TEXT, "%s port %d", buffer, ntohs(in->sin_port));
    return text;
}
