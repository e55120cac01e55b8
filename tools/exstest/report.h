/* SPDX-License-Identifier: BSD-2-Clause */
/* report.h - the figures of a test, for people and, with --json, for programs. */
#ifndef EXSTEST_REPORT_H
#define EXSTEST_REPORT_H

#include "client.h"

void report_transaction(const struct options *options, const struct outcome *outcome);
void report_performance(const struct options *options, struct outcome *outcome);

#endif
