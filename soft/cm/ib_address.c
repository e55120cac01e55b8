/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_address.c - encodes and decodes addresses, ports and service IDs. */
#include <string.h>
#include "ib_address.h"

#define VERSION 0
#define IPV4 4
#define IPV6 6
#define FROM 4 /* offset of the addresses, 16 bytes each; an IPv4 one is in the last four, behind zeros */
#define TO 20
#define BEFORE_IPV4 12

uint64_t ib_service(enum ib_space space, uint16_t port)
{
    return (uint64_t)space << 16 | port;
}

bool ib_service_port(uint64_t service, enum ib_space *space, uint16_t *port)
{
    *space = (enum ib_space)(service >> 16);
    *port = (uint16_t)service;
    return service >> 16 == IB_SPACE_TCP || service >> 16 == IB_SPACE_UDP;
}

bool ib_same_address(const union soft_addr *one, const union soft_addr *other)
{
    if (one->sa.sa_family != other->sa.sa_family)
        return false;
    if (one->sa.sa_family == AF_INET)
        return one->in.sin_addr.s_addr == other->in.sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&one->in6.sin6_addr, &other->in6.sin6_addr);
}

static void put_address(uint8_t *at, const union soft_addr *addr)
{
    memset(at, 0, sizeof addr->in6.sin6_addr);
    if (addr->sa.sa_family == AF_INET)
        memcpy(at + BEFORE_IPV4, &addr->in.sin_addr, sizeof addr->in.sin_addr);
    else
        memcpy(at, &addr->in6.sin6_addr, sizeof addr->in6.sin6_addr);
}

void ib_address_encode(const union soft_addr *from, const union soft_addr *to, uint8_t bytes[IB_ADDRESS_BYTES])
{
    bytes[0] = VERSION;
    bytes[1] = (uint8_t)((from->sa.sa_family == AF_INET ? IPV4 : IPV6) << 4);
    memcpy(bytes + 2, &from->in.sin_port, sizeof from->in.sin_port); /* at the same place in sockaddr_in6 */
    put_address(bytes + FROM, from);
    put_address(bytes + TO, to);
}

static void get_address(union soft_addr *addr, sa_family_t family, const uint8_t *at)
{
    memset(addr, 0, sizeof *addr);
    addr->sa.sa_family = family;
    if (family == AF_INET)
        memcpy(&addr->in.sin_addr, at + BEFORE_IPV4, sizeof addr->in.sin_addr);
    else
        memcpy(&addr->in6.sin6_addr, at, sizeof addr->in6.sin6_addr);
}

/* Whether it is a unicast address of one host. */
static bool is_host(const union soft_addr *addr)
{
    uint32_t ipv4 = ntohl(addr->in.sin_addr.s_addr);

    if (addr->sa.sa_family == AF_INET)
        return ipv4 >> 24 != 0 && !IN_MULTICAST(ipv4) && ipv4 != INADDR_BROADCAST;
    return !IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr) && !IN6_IS_ADDR_MULTICAST(&addr->in6.sin6_addr);
}

bool ib_address_decode(union soft_addr *from, union soft_addr *to, const uint8_t bytes[IB_ADDRESS_BYTES])
{
    unsigned version = bytes[1] >> 4;
    sa_family_t family = version == IPV4 ? AF_INET : AF_INET6;

    get_address(from, family, bytes + FROM);
    get_address(to, family, bytes + TO);
    memcpy(&from->in.sin_port, bytes + 2, sizeof from->in.sin_port);
    return bytes[0] == VERSION && (version == IPV4 || version == IPV6) && is_host(from) && is_host(to);
}
