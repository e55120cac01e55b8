/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rows.h - the table of cases: what is said in a conversation, and what the specification asks of the device
 * then.
 */
#ifndef IBTA_ROWS_H
#define IBTA_ROWS_H

#include "talk.h"

#define ROW_NAME 56
#define ROW_MEASURED 40

/* One case. Plain data; `talk` runs once for each bench, `judge` and `measure` look at a record only. */
struct row {
    char name[ROW_NAME];
    const char *asks; /* of the device */
    struct terms terms;
    void (*talk)(struct channel *channel, const struct row *row);
    void (*judge)(struct judge *judge, const struct row *row);
    void (*measure)(const struct record *record, const struct row *row, char text[ROW_MEASURED]); /* or NULL */
    unsigned number;  /* what the case is about, to talk and judge */
    const void *data; /* likewise */
};

struct rows {
    struct row *row;
    unsigned count, room;
};

/* A row with default terms; valid until the next is added. */
struct row *rows_add(struct rows *rows, const char *asks, void (*talk)(struct channel *, const struct row *),
                     void (*judge)(struct judge *, const struct row *), const char *name, ...)
    __attribute__((format(printf, 5, 6)));

struct rows rows_all(void);
void rows_free(struct rows *rows);

/* Each adds its part. */
void rows_c09_142_01(struct rows *rows);
void rows_timeout(struct rows *rows);  /* a requester that hears nothing, or too late */
void rows_progress(struct rows *rows); /* or a part of it */
void rows_nak(struct rows *rows);      /* or a refusal */
void rows_rnr(struct rows *rows);      /* or that the receiver is not ready */
void rows_answer(struct rows *rows);   /* a responder that is asked, or asked again */
void rows_refused(struct rows *rows);  /* or asked what it must refuse */

/* The time of an RNR NAK's timer code, ns. */
uint64_t rnr_time(unsigned code);

/* The shortest and the longest time from a transmission of this PSN to what the device did next about it. */
void measure_intervals(const struct record *record, const struct row *row, char text[ROW_MEASURED]);

#endif
