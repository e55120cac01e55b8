/* SPDX-License-Identifier: BSD-2-Clause */
/* limit.h - the limit test: how much of everything this process can have, and does it come back? */
#ifndef EXSTEST_LIMIT_H
#define EXSTEST_LIMIT_H

#include "options.h"

int limit_run(const struct options *options); /* the exit status */

#endif
