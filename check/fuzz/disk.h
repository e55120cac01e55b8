/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * disk.h - a disk that fails: one call for files, of those that come, does what a harness says in place of what
 * it should.
 *
 * Linked by --wrap (fuzz.am), so only for the files of the harness's own program.
 */
#ifndef CHECK_FUZZ_DISK_H
#define CHECK_FUZZ_DISK_H

#include <stdbool.h>
#include "check/fuzz/input.h"

/* Which call, after so many that don't, fails and with what; of the input. */
void disk_will_fail(struct input *input);
bool disk_has_failed(void); /* since then */
/* The disk works. */
void disk_mend(void);
/* What is called now is the harness's own, and works. */
void disk_pause(bool paused);

#endif
