/* SPDX-License-Identifier: BSD-2-Clause */
/* known.h - known differences between a device and the specification. */
#ifndef IBTA_KNOWN_H
#define IBTA_KNOWN_H

#include "judge.h"

/* Returns a text that says whether the specification or both are right, and why, if this fault of `device` in this case
 * is known; else NULL. */
const char *known_difference(const char *device, const char *row, const struct judge *judge);

#endif
