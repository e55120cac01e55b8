/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * address.h - addresses as rdma-core's devices understand them.
 *
 * The kernel's connection manager takes loopback for "any": who bound to 127.0.0.1 would be open to the
 * network, and ::1 even to IPv4. So loopback is no address of its devices here. And it looks IPv6 addresses up
 * as such, so it has no route to ::ffff:192.0.2.1 where it has one to 192.0.2.1.
 */
#ifndef XS_RDMA_ADDRESS_H
#define XS_RDMA_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>

union rdma_address {
    struct sockaddr sa;
    struct sockaddr_in in;
};

/* The address itself, or in `room` the IPv4 address that is mapped in it. NULL: NULL. */
struct sockaddr *rdma_plain_address(struct sockaddr *address, union rdma_address *room);
/* Of a plain one: all of 127.0.0.0/8, and ::1. */
bool rdma_is_loopback(const struct sockaddr *plain);

#endif
