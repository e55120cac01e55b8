/* SPDX-License-Identifier: BSD-2-Clause */
/* settled.h - the messages that the device writes to stderr when the process ends. */
#ifndef CHECK_SETTLED_H
#define CHECK_SETTLED_H

#include <stddef.h>
#include "soft/service/home.h"

/* Stores in `text` what the device would write if the process ended now, with the settings of the current environment.
 * home: the open device, or NULL if there is none. */
void settled_text(struct soft_home *home, char *text, size_t size);

#endif
