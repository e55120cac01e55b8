/* SPDX-License-Identifier: BSD-2-Clause */
/* runner.c - see runner.h. */
#include "runner.h"

TCase *new_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);

    suite_add_tcase(suite, tcase);
    return tcase;
}

int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);

    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);

    srunner_free(runner);
    return failed != 0;
}
