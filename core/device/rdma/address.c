/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses as rdma-core's devices understand them. See address.h. */
#include <string.h>
#include "address.h"

#define MAPPED_AT 12 /* bytes: where an IPv6 address holds the IPv4 address that is mapped in it */

struct sockaddr *rdma_plain_address(struct sockaddr *address, union rdma_address *room)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;

    if (address == NULL || address->sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
        return address;
    *room = (union rdma_address){.in = {.sin_family = AF_INET, .sin_port = in6->sin6_port}};
    memcpy(&room->in.sin_addr, &in6->sin6_addr.s6_addr[MAPPED_AT], sizeof(room->in.sin_addr));
    return &room->sa;
}

bool rdma_is_loopback(const struct sockaddr *plain)
{
    if (plain->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)plain)->sin_addr.s_addr) >> IN_CLASSA_NSHIFT ==
               IN_LOOPBACKNET;
    return plain->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)plain)->sin6_addr);
}
