/* SPDX-License-Identifier: BSD-2-Clause */
/* known.h - where a device is known to do otherwise than the specification asks, and what that is worth. */
#ifndef IBTA_KNOWN_H
#define IBTA_KNOWN_H

#include "judge.h"

/* Who is right and why, where `device` was found at fault in this row; NULL where that is not known. */
const char *known_difference(const char *device, const char *row, const struct judge *judge);

#endif
