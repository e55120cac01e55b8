/* SPDX-License-Identifier: BSD-2-Clause */
/* perform.h - runs all cases of the table on one device: each conversation is run, and its record judged. */
#ifndef IBTA_PERFORM_H
#define IBTA_PERFORM_H

#include "rows.h"

struct outcome {
    struct judge judge; /* of `record`, which the outcome owns */
    struct record *record;
};

/* Runs the conversation on a new virtual bench, and judges it. */
void perform_virtually(const struct row *row, struct outcome *outcome);
/* Runs all cases, many at once, on this bench, and closes it. Returns the longest time for which a CPU was stopped,
 * ns. */
uint64_t perform_at_once(struct bench *bench, const struct rows *rows, struct outcome *outcomes);
void outcome_free(struct outcome *outcome);

#endif
