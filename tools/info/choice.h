/* SPDX-License-Identifier: BSD-2-Clause */
/* choice.h - which device a connection to an address would go by, and why. */
#ifndef INFO_CHOICE_H
#define INFO_CHOICE_H

#include <exs.h>

struct choice {
    const exs_device_t *device;   /* of those given; NULL: none */
    struct sockaddr_storage from; /* this host's address for it; its family is 0 where there is no way */
    char why[160];
};

/* The kernel knows the way, the devices whose address that begins with: the first of them carries it. Nothing
 * is sent. */
struct choice choice_make(const exs_device_t *devices, int count, const struct sockaddr *to, socklen_t length);

#endif
