/* SPDX-License-Identifier: BSD-2-Clause */
/* c09_142_01.h - the report of the document's test C09_142_01. */
#ifndef IBTA_C09_142_01_H
#define IBTA_C09_142_01_H

#include <stdio.h>
#include "judge.h"

/* Prints the result of each of the document's steps. Returns true if all are passed. */
bool c09_142_01_report(FILE *to, const struct record *record, const char *device);

#endif
