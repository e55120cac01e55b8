/* SPDX-License-Identifier: BSD-2-Clause */
/* scenarios.h - those of a program: each has one protocol's. */
#ifndef CHECK_RACES_SCENARIOS_H
#define CHECK_RACES_SCENARIOS_H

#include "races.h"

extern const struct race good_races[], bad_races[]; /* the second ones must fail */
extern const int good_count, bad_count;

#define SCENARIOS(...)                                                                                         \
    const struct race good_races[] = {__VA_ARGS__}, bad_races[1];                                              \
    const int good_count = sizeof good_races / sizeof *good_races, bad_count = 0

#endif
