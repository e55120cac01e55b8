/* SPDX-License-Identifier: BSD-2-Clause */
/* scenarios.h - the scenarios of a program, which test one protocol. */
#ifndef CHECK_RACES_SCENARIOS_H
#define CHECK_RACES_SCENARIOS_H

#include "races.h"

extern const struct race good_races[], bad_races[]; /* the bad ones must fail */
extern const int good_count, bad_count;

#define SCENARIOS(...)                                                                                         \
    const struct race good_races[] = {__VA_ARGS__}, bad_races[1];                                              \
    const int good_count = sizeof good_races / sizeof *good_races, bad_count = 0

#endif
