/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * witness.h - how long this machine's processors were kept from running, by others or by its host: times that
 * are measured on it can be wrong by so much, and the device under test is not to blame.
 */
#ifndef IBTA_WITNESS_H
#define IBTA_WITNESS_H

#include <stdint.h>

/* From now on; one at a time. */
void witness_start(void);
/* Since then: the longest, ns. */
uint64_t witness_stop(void);

#endif
