/* SPDX-License-Identifier: BSD-2-Clause */
/* trains.h - a train, as an engine hands it to its link, taken apart; and what wire.h forbids of one. */
#ifndef CHECK_TRAINS_H
#define CHECK_TRAINS_H

#include "soft/engine/wire.h"

/* How long each packet is, with the link's trailer; returns how many there are. 0: the train is none, and *fault says
 * why. */
unsigned train_sizes(const struct soft_link *link, size_t length, size_t stride,
                     size_t sizes[SOFT_TRAIN_PACKETS], const char **fault);

#endif
