/* SPDX-License-Identifier: BSD-2-Clause */
/* perform.c - runs conversations: one after the other on a virtual clock, many at once in real time. */
#include <stdatomic.h>
#include <stdlib.h>
#include "perform.h"
#include "witness.h"

#define SPEAKERS 64 /* concurrent conversations: most of them wait for a timeout */

#define STAGES 4 /* threads between a device's timer and the tester, each of which may have to wait for a CPU */

/* Shared by the threads that run conversations. Owned by the caller. */
struct agenda {
    const struct rows *rows;
    struct channel **channels; /* one for each row */
    atomic_uint next;
};

/* Copies the record, after the device can add nothing to it, and judges the copy. */
static void conclude(struct channel *channel, const struct row *row, struct outcome *outcome)
{
    outcome->record = record_copy(&channel->record);
    outcome->judge = judge_new(outcome->record);
    row->judge(&outcome->judge, row);
}

void outcome_free(struct outcome *outcome)
{
    record_free(outcome->record);
    free(outcome->record);
    outcome->record = NULL;
}

void perform_virtually(const struct row *row, struct outcome *outcome)
{
    struct bench *bench = bench_open_virtual();
    struct channel *channel;

    if (bench == NULL)
        abort();
    channel = channel_open(bench, &row->terms);
    row->talk(channel, row);
    conclude(channel, row, outcome);
    bench_close(bench);
}

static void *speak(void *argument)
{
    struct agenda *agenda = argument;
    unsigned i;

    while ((i = atomic_fetch_add(&agenda->next, 1)) < agenda->rows->count)
        agenda->rows->row[i].talk(agenda->channels[i], &agenda->rows->row[i]);
    return NULL;
}

static void speak_all(struct agenda *agenda)
{
    pthread_t speakers[SPEAKERS];
    int error;

    for (unsigned i = 0; i < SPEAKERS; i++)
        if ((error = pthread_create(&speakers[i], NULL, speak, agenda)) != 0)
            bench_fail("starting a conversation", error);
    for (unsigned i = 0; i < SPEAKERS; i++)
        pthread_join(speakers[i], NULL);
}

uint64_t perform_at_once(struct bench *bench, const struct rows *rows, struct outcome *outcomes)
{
    struct agenda agenda = {.rows = rows, .channels = calloc(rows->count + 1, sizeof(struct channel *))};
    uint64_t stall;

    if (agenda.channels == NULL)
        abort();
    for (unsigned i = 0; i < rows->count; i++)
        agenda.channels[i] = channel_open(bench, &rows->row[i].terms);
    witness_start();
    speak_all(&agenda);
    stall = witness_stop();
    bench->stop(bench);
    for (unsigned i = 0; i < rows->count; i++) {
        agenda.channels[i]->record.stall = stall;
        agenda.channels[i]->record.late += STAGES * stall;
        conclude(agenda.channels[i], &rows->row[i], &outcomes[i]);
    }
    bench_close(bench);
    free(agenda.channels);
    return stall;
}
