/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ibta.c - the transport tester's whole table on the embedded device and a virtual clock; and that its
 * judge can find fault.
 */
#include <check.h>
#include <stdlib.h>
#include "check/endpoints.h"
#include "check/ibta/perform.h"

static struct rows rows;

START_TEST(holds)
{
    struct outcome outcome;

    perform_virtually(&rows.row[_i], &outcome);
    ck_assert_msg(outcome.judge.broken == RULE_NONE, "%s: must %s; %s", rows.row[_i].name, rows.row[_i].asks,
                  outcome.judge.why);
    outcome_free(&outcome);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("transport: conformance");
    TCase *table = tcase_create("table");

    rows = rows_all();
    tcase_set_timeout(table, 20);
    tcase_add_loop_test(table, holds, 0, (int)rows.count);
    suite_add_tcase(suite, table);
    return suite;
}

int main(void)
{
    int failed = run_suite(suite());

    rows_free(&rows);
    return failed;
}
