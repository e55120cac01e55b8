/* SPDX-License-Identifier: BSD-2-Clause */
/* rows.c - builds the table of cases. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "rows.h"

/* Default terms. The PSNs are just below their maximum, so that most conversations wrap to 0. The timeout is so long
 * that an immediate response always arrives in time. */
static const struct terms usual = {.timeout = 19,
                                   .retry_cnt = 6,
                                   .rnr_retry = 6,
                                   .min_rnr_timer = 12,
                                   .max_rd_atomic = 4,
                                   .max_dest_rd_atomic = 4,
                                   .qp_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
                                   .mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
                                   .dut_psn = 0xfffffe,
                                   .tester_psn = 0xffffff};

struct row *rows_add(struct rows *rows, const char *asks, void (*talk)(struct channel *, const struct row *),
                     void (*judge)(struct judge *, const struct row *), const char *name, ...)
{
    struct row *row;
    va_list arguments;

    if (rows->count == rows->room) {
        rows->room = rows->room == 0 ? 256 : 2 * rows->room;
        rows->row = realloc(rows->row, rows->room * sizeof *rows->row);
        if (rows->row == NULL)
            abort();
    }
    row = &rows->row[rows->count++];
    *row = (struct row){.asks = asks, .terms = usual, .talk = talk, .judge = judge};
    va_start(arguments, name);
    vsnprintf(row->name, sizeof row->name, name, arguments);
    va_end(arguments);
    return row;
}

struct rows rows_all(void)
{
    struct rows rows = {0};

    rows_c09_142_01(&rows);
    rows_timeout(&rows);
    rows_progress(&rows);
    rows_nak(&rows);
    rows_rnr(&rows);
    rows_answer(&rows);
    rows_refused(&rows);
    return rows;
}

void rows_free(struct rows *rows)
{
    free(rows->row);
    *rows = (struct rows){0};
}

void measure_intervals(const struct record *record, const struct row *row, char text[ROW_MEASURED])
{
    const struct entry *sent = record_transmission(record, row->terms.dut_psn, 0), *next;
    uint64_t least = UINT64_MAX, most = 0;

    for (unsigned n = 1; sent != NULL; n++, sent = next) {
        next = record_transmission(record, row->terms.dut_psn, n);
        const struct entry *then = next != NULL ? next : record_error(record);

        if (then == NULL)
            break;
        least = then->time - sent->time < least ? then->time - sent->time : least;
        most = then->time - sent->time > most ? then->time - sent->time : most;
    }
    if (most > 0)
        snprintf(text, ROW_MEASURED, "%.3f .. %.3f ms", (double)least / 1e6, (double)most / 1e6);
}
