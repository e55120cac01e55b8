/* SPDX-License-Identifier: BSD-2-Clause */
/* choice.h - which device a connection to an address would use, and why. */
#ifndef INFO_CHOICE_H
#define INFO_CHOICE_H

#include <exs.h>

struct choice {
    const exs_device_t *device;   /* an element of `devices`; NULL: none */
    struct sockaddr_storage from; /* the local address; its family is 0 if there is no route */
    char why[160];
};

/* Asks the kernel for the local address of the route, and chooses the first device with this address. Sends no
 * packet. */
struct choice choice_make(const exs_device_t *devices, int count, const struct sockaddr *to, socklen_t length);

#endif
