/* SPDX-License-Identifier: BSD-2-Clause */
/* runner.c - see runner.h. */
#include "runner.h"

int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);

    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);

    srunner_free(runner);
    return failed != 0;
}
