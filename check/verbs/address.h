/* SPDX-License-Identifier: BSD-2-Clause */
/* address.h - the address by which the connection manager finds the device under test. */
#ifndef VERBS_ADDRESS_H
#define VERBS_ADDRESS_H

#include "rig.h"

#include <netinet/in.h>
#include <sys/socket.h>

union address {
    struct sockaddr_storage room; /* the largest member is first, so that an initializer clears all bytes */
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
};

/* Returns an address of the device, from its GIDs. Not a link-local one, which would also need its interface. */
union address own_address(struct rig *r);

#endif
