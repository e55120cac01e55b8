/* SPDX-License-Identifier: BSD-2-Clause */
/* limit.h - the limit test: measures how many of each resource this process can get, and checks that all are
 * released. */
#ifndef EXSTEST_LIMIT_H
#define EXSTEST_LIMIT_H

#include "options.h"

int limit_run(const struct options *options); /* returns the exit status */

#endif
