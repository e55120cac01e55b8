/* SPDX-License-Identifier: BSD-2-Clause */
/* report.h - prints the results of a test, as text or, with --json, as JSON. */
#ifndef EXSTEST_REPORT_H
#define EXSTEST_REPORT_H

#include "client.h"

void report_transaction(const struct options *options, const struct outcome *outcome);
void report_performance(const struct options *options, struct outcome *outcome);

#endif
