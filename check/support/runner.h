/* SPDX-License-Identifier: BSD-2-Clause */
/* runner.h - makes and runs the suite of a Check program. */
#ifndef CHECK_RUNNER_H
#define CHECK_RUNNER_H

#include <check.h>

/* Adds a case to the suite: without a fixture, with Check's own time limit. */
TCase *new_case(Suite *suite, const char *name);
/* Runs the suite as the environment says: CK_FORK, CK_RUN_CASE, CK_VERBOSITY. Returns the exit status. */
int run_suite(Suite *suite);

#endif
