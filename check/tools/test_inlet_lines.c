/* SPDX-License-Identifier: BSD-2-Clause */
/* What exs-serve says of its connections: how many lines, and with which time in front. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/support/runner.h"
#include "inlet_fixture.h"

START_TEST(lines)
{
    for (int i = 0; i < 1000; i++)
        inlets_say(&inlets, "line %d", i);
    ck_assert_int_eq(count_said("exs-serve: line"), LINES_BURST);
    pass(LINES_PERIOD - 1);
    ck_assert_int_eq(count_said("suppressed"), 0);
    pass(1);
    ck_assert_int_eq(count_said("exs-serve: 900 more lines suppressed"), 1);
    for (int i = 0; i < 1000; i++)
        inlets_say(&inlets, "another %d", i);
    ck_assert_int_eq(count_said("exs-serve: another"), LINES_PERIOD); /* one for each second */
}
END_TEST

/* The time is in front, but not where a journal has one of its own. */
START_TEST(times)
{
    struct stat status;
    char journal[64];

    inlets_say(&inlets, "told");
    ck_assert_int_eq(count_said("+0000 exs-serve: told"), 1);
    ck_assert_int_eq(fstat(STDERR_FILENO, &status), 0);
    snprintf(journal, sizeof(journal), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino + 1);
    setenv("JOURNAL_STREAM", journal, 1); /* another one's */
    inlets_say(&inlets, "told");
    ck_assert_int_eq(count_said("+0000 exs-serve: told"), 2);
    snprintf(journal, sizeof(journal), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    setenv("JOURNAL_STREAM", journal, 1);
    inlets_say(&inlets, "told");
    ck_assert_int_eq(count_said("+0000 exs-serve: told"), 2);
    ck_assert_int_eq(count_said("exs-serve: told"), 3);
}
END_TEST

int main(void)
{
    setenv("TZ", "UTC0", 1);

    Suite *suite = suite_create("lines");
    TCase *tcase = tcase_create("lines");

    tcase_add_checked_fixture(tcase, inlets_setup, inlets_teardown);
    tcase_add_test(tcase, lines);
    tcase_add_test(tcase, times);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
