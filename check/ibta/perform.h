/* SPDX-License-Identifier: BSD-2-Clause */
/* perform.h - the whole table on one device: every conversation held, every record judged. */
#ifndef IBTA_PERFORM_H
#define IBTA_PERFORM_H

#include "rows.h"

struct outcome {
    struct judge judge; /* of record, which is the outcome's own */
    struct record *record;
};

/* Holds the conversation on a fresh virtual bench; then judges it. */
void perform_virtually(const struct row *row, struct outcome *outcome);
/* All of them, many at once, on this bench, which is closed after. Returns for how long a processor stood
 * still, ns. */
uint64_t perform_at_once(struct bench *bench, const struct rows *rows, struct outcome *outcomes);
void outcome_free(struct outcome *outcome);

#endif
