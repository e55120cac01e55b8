/* SPDX-License-Identifier: BSD-2-Clause */
/* settled.h - what the device says on stderr where the process ends. */
#ifndef CHECK_SETTLED_H
#define CHECK_SETTLED_H

#include <stddef.h>
#include "soft/service/home.h"

/* As if it ended now, with the settings as the environment has them. `home` is the one that is open; NULL: none
 * is. */
void settled_text(struct soft_home *home, char *text, size_t size);

#endif
