/* SPDX-License-Identifier: BSD-2-Clause */
/* test_area.c - tools/exstest/area.h: each overwritten guard byte around a place is found. */
#include <check.h>
#include <exs.h>
#include <stdlib.h>
#include <string.h>

#include "check/support/runner.h"
#include "tools/exstest/area.h"
#include "tools/exstest/pattern.h"

/* Replaces the library: no device is needed. */
exs_mhandle_t exs_mregister(void *addr, size_t len, int flags)
{
    (void)addr, (void)len, (void)flags;
    return (exs_mhandle_t)1;
}

int exs_mderegister(exs_mhandle_t mhandle, int flags)
{
    (void)mhandle, (void)flags;
    return 0;
}

static const struct ops ops = {
    .op = {{.transfer = SEND_RECV, .size = 100, .segments = 3},
           {.transfer = SEND_RECV, .by_server = true, .size = 7, .segments = 2}},
    .count = 2,
};

static bool is_inside(const struct area *area, int op, const char *at)
{
    const struct place *place = area_place(area, op, 0);

    for (uint32_t i = 0; i < ops.op[op].segments; i++)
        if (at >= place->base + i * place->stride && at < place->base + i * place->stride + ops.op[op].size)
            return true;
    return false;
}

START_TEST(guards)
{
    struct area area;
    size_t told = 0;

    ck_assert_int_eq(area_make(&area, &ops, 1, _i == 1), 0);
    area_put_guards(&area);
    for (char *at = area.base; at < area.base + area_bytes(&ops, 1, _i == 1); at++) {
        if (is_inside(&area, 0, at) || is_inside(&area, 1, at))
            continue;
        const char *broken;

        *at = 0x5a;
        broken = area_broken_guard(&area, 0);
        if (broken == NULL)
            broken = area_broken_guard(&area, 1);
        ck_assert_ptr_eq(broken, at);
        ck_assert_int_eq(*broken, 0x5a);
        *at = (char)GUARD_BYTE;
        told++;
    }
    ck_assert_uint_gt(told, 0);
    for (int op = 0; op < ops.count; op++)
        ck_assert_ptr_null(area_broken_guard(&area, op));
    ck_assert_int_eq(area_free(&area), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("area");
    TCase *tcase = new_case(suite, "area");

    tcase_add_loop_test(tcase, guards, 0, 2);
    return run_suite(suite);
}
