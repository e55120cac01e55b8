/* SPDX-License-Identifier: BSD-2-Clause */
/* runner.h - runs the suite of a Check program. */
#ifndef CHECK_RUNNER_H
#define CHECK_RUNNER_H

#include <check.h>

/* Runs the suite as the environment says: CK_FORK, CK_RUN_CASE, CK_VERBOSITY. Returns the exit status. */
int run_suite(Suite *suite);

#endif
