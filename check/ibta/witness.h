/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * witness.h - measures for how long the machine's CPUs were stopped, by other processes or by the host of a virtual
 * machine. Times measured on the machine can be wrong by this much, without a fault of the device under test.
 */
#ifndef IBTA_WITNESS_H
#define IBTA_WITNESS_H

#include <stdint.h>

/* Starts measuring. Only one measurement at a time. */
void witness_start(void);
/* Stops measuring. Returns the longest time, ns. */
uint64_t witness_stop(void);

#endif
