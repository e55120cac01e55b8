/* SPDX-License-Identifier: BSD-2-Clause */
/* limit.h - the limit test: how many of each resource can this process get, and are all released again? */
#ifndef EXSTEST_LIMIT_H
#define EXSTEST_LIMIT_H

#include "options.h"

int limit_run(const struct options *options); /* returns the exit status */

#endif
