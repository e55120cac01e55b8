/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_ends.h - the part of the harness ib that fuzzes a process's endpoints: ib_ends.c. */
#ifndef CHECK_FUZZ_IB_ENDS_H
#define CHECK_FUZZ_IB_ENDS_H

#include "check/fuzz/input.h"

/* Uses all of the input. */
void ib_ends_fuzz(struct input *input);

#endif
