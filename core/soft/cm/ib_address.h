/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ib_address.h - how librdmacm's addresses and ports stand in InfiniBand's messages: the port that is connected
 * to in the service ID, and both addresses and the other port at the beginning of a request's private data (IBA
 * volume 1, annex A11, with "IP addressing").
 */
#ifndef SOFT_IB_ADDRESS_H
#define SOFT_IB_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/soft/engine/wire.h"

#define IB_ADDRESS_BYTES                                                                                       \
    36 /* of a request's private data, which leaves the user 56 of a REQ, 180 of a SIDR_REQ */

enum ib_space { IB_SPACE_TCP = 0x0106, IB_SPACE_UDP = 0x0111 }; /* as in enum rdma_port_space */

/* The service of a port, in host byte order, and the other way round: false where it is none of librdmacm's. */
uint64_t ib_service(enum ib_space space, uint16_t port);
bool ib_service_port(uint64_t service, enum ib_space *space, uint16_t *port);

/* Who connects, from which address and port, and to which address. Both are of one family. */
void ib_address_encode(const union soft_addr *from, const union soft_addr *to, uint8_t bytes[IB_ADDRESS_BYTES]);
/* False for what it can't be; the port of *to is left 0. */
bool ib_address_decode(union soft_addr *from, union soft_addr *to, const uint8_t bytes[IB_ADDRESS_BYTES]);

/* Of one host: ports don't count. */
bool ib_same_address(const union soft_addr *one, const union soft_addr *other);

#endif
