/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * disk.h - simulates disk errors: one file operation fails as the harness says.
 *
 * Linked with --wrap (fuzz.am), so it affects only the source files of the harness's program.
 */
#ifndef CHECK_FUZZ_DISK_H
#define CHECK_FUZZ_DISK_H

#include <stdbool.h>
#include "check/fuzz/input.h"

/* Reads from the input which call fails, after how many that do not, and how. */
void disk_will_fail(struct input *input);
bool disk_has_failed(void); /* since disk_will_fail() */
/* No call fails from now on. */
void disk_mend(void);
/* While paused, calls of the harness itself do not fail. */
void disk_pause(bool paused);

#endif
