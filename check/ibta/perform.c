/* SPDX-License-Identifier: BSD-2-Clause */
/* perform.c - holding conversations: in turn on a virtual clock, all at once on the wall's. */
#include <stdlib.h>
#include "perform.h"

struct speaker {
    pthread_t thread;
    struct channel *channel;
    const struct row *row;
};

/* The record is judged as a copy, when the device can add nothing to it any more. */
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
    struct speaker *speaker = argument;

    speaker->row->talk(speaker->channel, speaker->row);
    return NULL;
}

void perform_at_once(struct bench *bench, const struct rows *rows, struct outcome *outcomes)
{
    struct speaker *speakers = calloc(rows->count, sizeof *speakers);
    int error;

    if (speakers == NULL)
        abort();
    for (unsigned i = 0; i < rows->count; i++)
        speakers[i] =
            (struct speaker){.channel = channel_open(bench, &rows->row[i].terms), .row = &rows->row[i]};
    for (unsigned i = 0; i < rows->count; i++)
        if ((error = pthread_create(&speakers[i].thread, NULL, speak, &speakers[i])) != 0)
            bench_fail("starting a conversation", error);
    for (unsigned i = 0; i < rows->count; i++)
        pthread_join(speakers[i].thread, NULL);
    bench->stop(bench);
    for (unsigned i = 0; i < rows->count; i++)
        conclude(speakers[i].channel, &rows->row[i], &outcomes[i]);
    bench_close(bench);
    free(speakers);
}
