/* SPDX-License-Identifier: BSD-2-Clause */
/* test_copy.c - copy_near() and copy_far() (copy.h) copy exactly the given bytes, for lengths above and below COPY_LONG
 * and any offsets within a cache line. */
#include "check/support/support.h"
#include "core/base/copy.h"

#define MOST 70000
#define EDGE 64 /* bytes before and after source and target */

static uint8_t source[EDGE + MOST + EDGE], target[EDGE + MOST + EDGE];

static void copy_and_compare(bool far, size_t from, size_t to, size_t length)
{
    memset(target, 0xEE, sizeof target);
    if (far)
        copy_far(target + to, source + from, length);
    else
        copy_near(target + to, source + from, length);
    ck_assert(memcmp(target + to, source + from, length) == 0);
    for (size_t i = 0; i < EDGE; i++)
        ck_assert(target[to + length + i] == 0xEE && (i >= to || target[i] == 0xEE));
}

START_TEST(anywhere_in_a_line)
{
    static const size_t lengths[] = {
        0, 1, COPY_LONG - 1, COPY_LONG, COPY_LONG + 1, COPY_LONG + 63, COPY_LONG + 64, 4000};

    pattern_fill(source, sizeof source, 7, 0);
    for (size_t i = 0; i < COUNT(lengths); i++)
        for (size_t from = 0; from < EDGE; from += 3)
            for (size_t to = 0; to < EDGE; to++)
                copy_and_compare(_i, from, to, lengths[i]);
}
END_TEST

START_TEST(long_ones)
{
    pattern_fill(source, sizeof source, 7, 0);
    for (size_t length = 65000; length <= MOST - EDGE; length += 499)
        copy_and_compare(_i, length % 61, length % 59, length);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copy");
    TCase *tcase = add_bare_case(suite, "near and far", 20);

    tcase_add_loop_test(tcase, anywhere_in_a_line, 0, 2);
    tcase_add_loop_test(tcase, long_ones, 0, 2);
    return run_suite(suite);
}
