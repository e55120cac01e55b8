/* SPDX-License-Identifier: BSD-2-Clause */
/* test_inlet_lines.c - the lines that exs-serve prints about its connections: their number, their time, and the name of
 * the file. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/support/fake_exs.h"
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
    ck_assert_int_eq(count_said("exs-serve: another"), LINES_PERIOD); /* one a second */
}
END_TEST

/* Lines begin with the time, except in the journal, which records the time itself. */
START_TEST(times)
{
    struct stat status;
    char journal[64];

    inlets_say(&inlets, "told");
    ck_assert_int_eq(count_said("+0000 exs-serve: told"), 1);
    ck_assert_int_eq(fstat(STDERR_FILENO, &status), 0);
    snprintf(journal, sizeof(journal), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino + 1);
    setenv("JOURNAL_STREAM", journal, 1); /* of another stream */
    inlets_say(&inlets, "told");
    ck_assert_int_eq(count_said("+0000 exs-serve: told"), 2);
    snprintf(journal, sizeof(journal), "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    setenv("JOURNAL_STREAM", journal, 1);
    inlets_say(&inlets, "told");
    ck_assert_int_eq(count_said("+0000 exs-serve: told"), 2);
    ck_assert_int_eq(count_said("exs-serve: told"), 3);
}
END_TEST

static void say(int sock, enum transfer_version version, uint64_t size, const char *name)
{
    const struct transfer_header header = {.version = version, .name_length = strlen(name), .size = size};
    unsigned char bytes[TRANSFER_HEADER + TRANSFER_NAME_MAX];

    transfer_put_header(bytes, &header);
    memcpy(bytes + TRANSFER_HEADER, name, header.name_length);
    open_from(sock, (unsigned)sock);
    fake_arrive(sock, bytes, TRANSFER_HEADER + header.name_length);
}

/* A refusal names the file, if its name is known. */
START_TEST(refusals)
{
    say(1, TRANSFER_DETAILED, UINT64_C(2) << 30, "large");
    ck_assert_int_eq(count_said("10.0.0.1 port 1001: refused large: 1073741824 bytes are left of what"), 1);
    say(2, TRANSFER_DETAILED, 1, "two\nlines");
    ck_assert_int_eq(count_said("refused two?lines: a name must not contain control characters"), 1);
    say(3, TRANSFER_WANTS, 0, "wanted");
    ck_assert_int_eq(count_said("was not given wanted: this server gives no files"), 1);
    open_from(4, 4);
    fake_arrive(4, "This is no file transfer at all.", 32);
    ck_assert_int_eq(count_said("10.0.0.4 port 1004: refused: this is no file transfer"), 1);
    open_from(5, 5);
    say(6, TRANSFER_DETAILED, 1, "slow");
    pass(PATIENCE + 1);
    ck_assert_int_eq(count_said("10.0.0.5 port 1005: refused: silent for too long"), 1);
    ck_assert_int_eq(count_said("refused slow: silent for too long"), 1);
}
END_TEST

int main(void)
{
    setenv("TZ", "UTC0", 1);

    Suite *suite = suite_create("lines");
    TCase *tcase = new_case(suite, "lines");

    tcase_add_checked_fixture(tcase, inlets_setup, inlets_teardown);
    tcase_add_test(tcase, lines);
    tcase_add_test(tcase, times);
    tcase_add_test(tcase, refusals);
    return run_suite(suite);
}
