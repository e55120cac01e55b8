/* SPDX-License-Identifier: BSD-2-Clause */
/* runner.h - what the main() of a Check program comes to. */
#ifndef CHECK_RUNNER_H
#define CHECK_RUNNER_H

#include <check.h>

/* As the environment asks for it: CK_FORK, CK_RUN_CASE, CK_VERBOSITY. The exit status. */
int run_suite(Suite *suite);

#endif
