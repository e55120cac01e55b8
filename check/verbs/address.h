/* SPDX-License-Identifier: BSD-2-Clause */
/* address.h - where the connection manager finds the device. */
#ifndef VERBS_ADDRESS_H
#define VERBS_ADDRESS_H

#include "rig.h"

#include <netinet/in.h>
#include <sys/socket.h>

union address {
    struct sockaddr_storage room; /* the longest first: what begins one begins it all */
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
};

/* The device's own, which its GIDs tell; not a link's, which would need its interface, too. */
union address own_address(struct rig *r);

#endif
