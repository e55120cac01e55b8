/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rows.h - the table of cases: each has a conversation, and the requirement of the specification for it.
 */
#ifndef IBTA_ROWS_H
#define IBTA_ROWS_H

#include "talk.h"

#define ROW_NAME 56
#define ROW_MEASURED 40

/* A case. Plain data. `talk` runs once for each bench; `judge` and `measure` read only the record. */
struct row {
    char name[ROW_NAME];
    const char *asks; /* the requirement */
    struct terms terms;
    void (*talk)(struct channel *channel, const struct row *row);
    void (*judge)(struct judge *judge, const struct row *row);
    void (*measure)(const struct record *record, const struct row *row, char text[ROW_MEASURED]); /* or NULL */
    unsigned number;  /* parameter of the case, for talk and judge */
    const void *data; /* further parameters */
};

struct rows {
    struct row *row;
    unsigned count, room;
};

/* Adds a row with default terms. The pointer is valid until the next row is added. */
struct row *rows_add(struct rows *rows, const char *asks, void (*talk)(struct channel *, const struct row *),
                     void (*judge)(struct judge *, const struct row *), const char *name, ...)
    __attribute__((format(printf, 5, 6)));

struct rows rows_all(void);
void rows_free(struct rows *rows);

/* Each function adds its part of the table. */
void rows_c09_142_01(struct rows *rows);
void rows_timeout(struct rows *rows);  /* requester: no responses, or late ones */
void rows_progress(struct rows *rows); /* requester: a part of the responses */
void rows_nak(struct rows *rows);      /* requester: NAKs */
void rows_rnr(struct rows *rows);      /* requester: RNR NAKs */
void rows_answer(struct rows *rows);   /* responder: new and repeated requests */
void rows_refused(struct rows *rows);  /* responder: requests that it must refuse */

/* Returns the time of an RNR NAK's timer code, ns. */
uint64_t rnr_time(unsigned code);

/* Writes the shortest and the longest time from a transmission of this PSN to its retransmission or its completion. */
void measure_intervals(const struct record *record, const struct row *row, char text[ROW_MEASURED]);

#endif
