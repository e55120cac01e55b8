/* SPDX-License-Identifier: BSD-2-Clause */
/* bursts.h - splits a burst of packets, as the engine passes it to its link, and checks the rules of wire.h. */
#ifndef CHECK_BURSTS_H
#define CHECK_BURSTS_H

#include "soft/engine/wire.h"

/* Stores the length of each packet, with the link's trailer, and returns the number of packets. Returns 0 if the burst
 * is invalid; *fault then says why, and is NULL otherwise. */
unsigned burst_sizes(const struct soft_link *link, size_t length, size_t stride,
                     size_t sizes[SOFT_BURST_PACKETS], const char **fault);

#endif
