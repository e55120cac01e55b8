/* SPDX-License-Identifier: BSD-2-Clause */
/* test_progress.c - tools/files/progress.h: the bar fits a line, and bytes of an earlier attempt do not count in the
 * rate. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check/support/runner.h"
#include "tools/common/clock.h"
#include "tools/common/terminal.h"
#include "tools/files/progress.h"

enum { COLUMNS = 80 };

static const char wipe[] = "\r\x1b[K";
static struct progress progress;
static FILE *said; /* captured standard error */

/* Replaces the function of the C library. */
int isatty(int fd)
{
    return fd == STDERR_FILENO;
}

static void setup(void)
{
    said = tmpfile();
    ck_assert_int_ne(dup2(fileno(said), STDERR_FILENO), -1);
}

/* Draws the bar, and returns it without the sequence that clears the line. */
static const char *draw(uint64_t done)
{
    static char line[512];

    rewind(said);
    progress.drawn -= 1;
    progress_update(&progress, done);
    fflush(stderr);
    rewind(said);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), said));
    ck_assert_int_eq(strncmp(line, wipe, strlen(wipe)), 0);
    return line + strlen(wipe);
}

static size_t count_characters(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

/* The bar fits for names of any length; no UTF-8 character is split. */
START_TEST(fits_a_line)
{
    static const char *const characters[] = {"a", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    char name[512] = "x", filtered[512];

    for (int i = 0; i < 100; i++)
        memcpy(name + 1 + (size_t)i * strlen(characters[_i]), characters[_i], strlen(characters[_i]));
    progress_start(&progress, name, UINT64_C(200000000000), false);
    progress.since -= 1; /* 200 GB/s */
    const char *bar = draw(UINT64_C(200000000000));
    ck_assert_uint_lt(count_characters(bar), COLUMNS);
    ck_assert_ptr_nonnull(strstr(bar, "] 100% "));
    snprintf(filtered, sizeof(filtered), "%s", bar);
    ck_assert_str_eq(terminal_filter(filtered), bar);
}
END_TEST

START_TEST(was_there)
{
    progress_start(&progress, "file", UINT64_C(4000000000000), false);
    progress_skip(&progress, UINT64_C(2000000000000));
    progress.since -= 1000;
    const char *bar = draw(UINT64_C(3000000000000));
    ck_assert_msg(strstr(bar, "]  75% 3.0 TB 1.00 GB/s ETA 16:40") != NULL, "drawn: %s", bar);
}
END_TEST

/* Long times are shown in hours; before any data were transferred there is no estimate. */
START_TEST(time_left)
{
    progress_start(&progress, "file", UINT64_C(10000000000), false);
    progress.since -= 1000;
    const char *bar = draw(UINT64_C(1000000000));
    ck_assert_msg(strstr(bar, "]  10% 1.0 GB 0.00 GB/s ETA 2:30 h") != NULL, "drawn: %s", bar);
}
END_TEST

START_TEST(no_estimate)
{
    progress_start(&progress, "file", 1000, false);
    const char *bar = draw(0);

    ck_assert_msg(strstr(bar, "]   0% 0 B 0.00 GB/s") != NULL && strstr(bar, "ETA") == NULL, "drawn: %s", bar);
}
END_TEST

/* Many small files share one line, which has the name of the last file. */
START_TEST(counts)
{
    progress_start(&progress, "", 0, false);
    progress.started -= 100;
    progress.drawn -= 1;
    progress_count(&progress, "folder/na\tme", 1000, 4000, 12345678);
    fflush(stderr);
    rewind(said);
    char line[512];

    ck_assert_ptr_nonnull(fgets(line, sizeof(line), said));
    ck_assert_msg(strstr(line, "folder/na?me, 1000 of 4000 files, 12 MB ETA 5:00") != NULL, "drawn: %s", line);
    ck_assert_uint_lt(count_characters(line), COLUMNS);
}
END_TEST

START_TEST(quiet)
{
    progress_start(&progress, "file", 100, true);
    progress.drawn -= 1;
    progress_update(&progress, 50);
    progress_end(&progress);
    fflush(stderr);
    ck_assert_int_eq(fseek(said, 0, SEEK_END), 0);
    ck_assert_int_eq(ftell(said), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("progress");
    TCase *tcase = new_case(suite, "bars");

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, fits_a_line, 0, 4);
    tcase_add_test(tcase, was_there);
    tcase_add_test(tcase, time_left);
    tcase_add_test(tcase, no_estimate);
    tcase_add_test(tcase, counts);
    tcase_add_test(tcase, quiet);
    return run_suite(suite);
}
