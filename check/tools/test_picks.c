/* SPDX-License-Identifier: BSD-2-Clause */
/* test_picks.c - tools/files/picks.h: the files in a folder, and their names. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/support/runner.h"
#include "tools/files/picks.h"

static char looked_at[64];
static int unreadable; /* errno of scandir(); 0: it returns one file, which no longer exists */

/* Replaces the function of the C library. */
int scandir(const char *path, struct dirent ***entries, int (*wanted)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **))
{
    (void)wanted, (void)compare;
    snprintf(looked_at, sizeof(looked_at), "%s", path);
    errno = unreadable;
    if (unreadable != 0)
        return -1;
    *entries = calloc(1, sizeof(**entries));
    ck_assert_ptr_nonnull(*entries);
    (*entries)[0] = calloc(1, sizeof(***entries));
    ck_assert_ptr_nonnull((*entries)[0]);
    snprintf((*entries)[0]->d_name, sizeof((*entries)[0]->d_name), "no such file");
    return 1;
}

static const struct {
    const char *given, *folder, *path, *name; /* of the file in it */
} rows[] = {
    {"/", "/", "/no such file", "no such file"},
    {"///", "/", "/no such file", "no such file"},
    {".", ".", "./no such file", "no such file"},
    {"..", "..", "../no such file", "no such file"},
    {"/./", "/.", "/./no such file", "no such file"},
    {"/tmp", "/tmp", "/tmp/no such file", "tmp/no such file"},
    {"/tmp//", "/tmp", "/tmp/no such file", "tmp/no such file"},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

START_TEST(names)
{
    struct picks picks = {0};

    ck_assert_int_eq(picks_add_tree(&picks, rows[_i].given), 0);
    ck_assert_str_eq(looked_at, rows[_i].folder);
    ck_assert_uint_eq(picks.count, 1);
    ck_assert_str_eq(picks.list[0].path, rows[_i].path);
    ck_assert_str_eq(picks.list[0].name, rows[_i].name);
    picks_free(&picks);
}
END_TEST

/* An unreadable folder is reported with its path. */
START_TEST(cannot_be_read)
{
    struct picks picks = {0};

    unreadable = EACCES;
    ck_assert_int_eq(picks_add_tree(&picks, rows[_i].given), 0);
    ck_assert_uint_eq(picks.count, 1);
    const struct pick *pick = &picks.list[0];
    ck_assert_str_eq(pick->path, rows[_i].folder);
    ck_assert_str_eq(pick->problem, "cannot read this folder");
    ck_assert_msg(pick->name >= pick->path && pick->name <= pick->path + strlen(pick->path),
                  "the name of %s is outside of its path", pick->path);
    picks_free(&picks);
}
END_TEST

START_TEST(no_memory)
{
    struct picks picks = {0};

    unreadable = ENOMEM;
    ck_assert_int_eq(picks_add_tree(&picks, "."), -1);
    ck_assert_uint_eq(picks.count, 0);
    picks_free(&picks);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("picks");
    TCase *folders = new_case(suite, "folders");

    tcase_add_loop_test(folders, names, 0, ROWS);
    tcase_add_loop_test(folders, cannot_be_read, 0, ROWS);
    tcase_add_test(folders, no_memory);
    return run_suite(suite);
}
