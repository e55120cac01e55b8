/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * races [NAME...] - explores all orders of steps of each scenario, or of those that are named. Prints the number of
 * orders, or the steps that lead to a failure. Exits with 1 if a scenario fails, or one that must fail does not.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "scenarios.h"

static bool is_wanted(const char *name, char **wanted)
{
    for (char **each = wanted; *each; each++)
        if (strcmp(*each, name) == 0)
            return true;
    return *wanted == NULL;
}

static int run(const struct race *races, int count, bool good, char **wanted)
{
    int bad = 0;

    for (int i = 0; i < count; i++) {
        struct tally tally;
        clock_t begin = clock();

        if (!is_wanted(races[i].name, wanted))
            continue;
        bool passed = explore(&races[i], &tally);

        bad += passed != good;
        printf("%s %-22s %8lu orders, %8lu repetitions, %9lu steps, %5.2f s: %s%s\n",
               passed == good ? "PASS" : "FAIL", races[i].name, tally.orders, tally.cut, tally.steps,
               (double)(clock() - begin) / CLOCKS_PER_SEC, races[i].what, good ? "" : ", found as it must be");
        fflush(stdout);
    }
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0;

    (void)argc;
    bad += run(good_races, good_count, true, argv + 1);
    bad += run(bad_races, bad_count, false, argv + 1);
    return bad != 0;
}
