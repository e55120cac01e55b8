/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_scripted.c - EXS between an application and a peer that both do what a byte string says, on the device
 * in memory. This is the fuzzer's harness (check/fuzz/core.c) with some thousand random inputs, which are the
 * same in each run.
 */
#include "check/fuzz/input.h"
#include "check/fuzz/mock.h"
#include "check/support/support.h"

#define RANDOM_INPUTS 3000 /* for each seed */
#define INPUT_MAX 4096

START_TEST(random_inputs)
{
    struct chance chance = {.state = (uint64_t)_i + 1};
    uint8_t bytes[INPUT_MAX];
    char name[64];

    for (int i = 0; i < RANDOM_INPUTS; i++) {
        size_t length = chance_size(&chance, 16, 1024);

        for (size_t at = 0; at < length; at++)
            bytes[at] = (uint8_t)(chance_next(&chance) >> 16);
        snprintf(name, sizeof(name), "random input %d of seed %d", i, _i + 1);
        mock_running = name;
        LLVMFuzzerTestOneInput(bytes, length);
    }
    mock_running = NULL;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scripted");
    TCase *random = add_bare_case(suite, "random", 60);

    tcase_add_loop_test(random, random_inputs, 0, 2);
    return run_suite(suite);
}
