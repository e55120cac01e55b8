/* SPDX-License-Identifier: BSD-2-Clause */
/* bursts.h - a burst, as an engine hands it to its link, taken apart; and what wire.h forbids of one. */
#ifndef CHECK_BURSTS_H
#define CHECK_BURSTS_H

#include "soft/engine/wire.h"

/* How long each packet is, with the link's trailer; returns how many there are. 0: the burst is none, and *fault says
 * why. */
unsigned burst_sizes(const struct soft_link *link, size_t length, size_t stride,
                     size_t sizes[SOFT_BURST_PACKETS], const char **fault);

#endif
