/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * address.h - addresses as rdma-core's devices understand them.
 *
 * The kernel's connection manager takes a loopback address for the wildcard address: a listener that is bound to
 * 127.0.0.1 would accept connections from the network, and one that is bound to ::1 also connections by IPv4. Therefore
 * these devices serve no loopback address. The connection manager does not convert IPv4-mapped IPv6 addresses: it has
 * no route to ::ffff:192.0.2.1, although it has one to 192.0.2.1.
 */
#ifndef XS_RDMA_ADDRESS_H
#define XS_RDMA_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>

union rdma_address {
    struct sockaddr sa;
    struct sockaddr_in in;
};

/* Returns `address` or, if it is IPv4-mapped, the IPv4 address, which is stored in *room. Returns NULL for NULL. */
struct sockaddr *rdma_plain_address(struct sockaddr *address, union rdma_address *room);
/* Returns true if `plain`, which rdma_plain_address() has returned, is in 127.0.0.0/8, or is ::1. */
bool rdma_is_loopback(const struct sockaddr *plain);

#endif
