/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_address.h - how librdmacm encodes IP addresses and ports in InfiniBand's messages: the destination port in the
 * service ID, both addresses and the source port at the beginning of a request's private data (IBA volume 1, annex
 * A11, "IP addressing").
 */
#ifndef SOFT_IB_ADDRESS_H
#define SOFT_IB_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include "soft/engine/wire.h"

/* Bytes of the encoded addresses in a request's private data; the application has the other 56 (REQ) or 180
 * (SIDR_REQ). */
#define IB_ADDRESS_BYTES 36

enum ib_space { IB_SPACE_TCP = 0x0106, IB_SPACE_UDP = 0x0111 }; /* values of enum rdma_port_space */

/* Returns the service ID of a port. Both are in host byte order. */
uint64_t ib_service(enum ib_space space, uint16_t port);
/* Finds the port space and port of a service ID. False: the service ID is not one of librdmacm. */
bool ib_service_port(uint64_t service, enum ib_space *space, uint16_t *port);

/* Writes the address and port of the connecting end, and the destination address. Both must be of one family. */
void ib_address_encode(const union soft_addr *from, const union soft_addr *to, uint8_t bytes[IB_ADDRESS_BYTES]);
/* Reads the addresses; sets the port of *to to 0. False: the bytes are invalid. */
bool ib_address_decode(union soft_addr *from, union soft_addr *to, const uint8_t bytes[IB_ADDRESS_BYTES]);

/* Returns whether two addresses are equal, apart from their ports. */
bool ib_same_address(const union soft_addr *one, const union soft_addr *other);

#endif
