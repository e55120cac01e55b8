/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_ends.h - the part of the harness ib that is about a process's port: ib_ends.c. */
#ifndef CHECK_FUZZ_IB_ENDS_H
#define CHECK_FUZZ_IB_ENDS_H

#include "check/fuzz/input.h"

/* All of the input. */
void ib_ends_fuzz(struct input *input);

#endif
