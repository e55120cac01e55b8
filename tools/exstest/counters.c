/* SPDX-License-Identifier: BSD-2-Clause */
/* counters.c - sums and prints the library's counters; see counters.h. */
#include "counters.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include "say.h"

static const struct counter {
    const char *name; /* in JSON */
    size_t offset;
} counters[] = {
    {"sends", offsetof(exs_stats_t, exs_sends)},
    {"receives", offsetof(exs_stats_t, exs_receives)},
    {"sent", offsetof(exs_stats_t, exs_sent)},
    {"sent_direct", offsetof(exs_stats_t, exs_sent_direct)},
    {"received", offsetof(exs_stats_t, exs_received)},
    {"received_direct", offsetof(exs_stats_t, exs_received_direct)},
    {"bytes_read", offsetof(exs_stats_t, exs_bytes_read)},
    {"bytes_written", offsetof(exs_stats_t, exs_bytes_written)},
    {"retransmissions", offsetof(exs_stats_t, exs_retransmissions)},
    {"events", offsetof(exs_stats_t, exs_events)},
    {"turns", offsetof(exs_stats_t, exs_turns)},
    {"empty_turns", offsetof(exs_stats_t, exs_empty_turns)},
    {"completions", offsetof(exs_stats_t, exs_completions)},
};

enum { COUNTERS = sizeof(counters) / sizeof(counters[0]) };

static uint64_t counter_value(const exs_stats_t *stats, const struct counter *counter)
{
    return *(const uint64_t *)((const char *)stats + counter->offset);
}

void counters_join(exs_stats_t *sum, const exs_stats_t *part)
{
    for (const struct counter *c = counters; c < counters + COUNTERS; c++) {
        uint64_t *whole = (uint64_t *)((char *)sum + c->offset), more = counter_value(part, c);

        if (*whole == EXS_STATS_UNKNOWN || more == EXS_STATS_UNKNOWN)
            *whole = EXS_STATS_UNKNOWN;
        else
            *whole += more;
    }
}

void counters_add(exs_stats_t *sum, exs_qhandle_t queue)
{
    exs_stats_t counted;

    if (exs_getstats(-1, queue, &counted) == 0)
        counters_join(sum, &counted);
}

static double percent_of(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100. * (double)part / (double)whole;
}

void counters_say(const exs_stats_t *s)
{
    say("----- Library ---- : what the client's event queues counted, from connecting to closing");
    say("Sends, receives  : %" PRIu64 ", %" PRIu64, s->exs_sends, s->exs_receives);
    say("Bytes sent       : %" PRIu64 ", %.1f %% straight into the server's memory", s->exs_sent,
        percent_of(s->exs_sent_direct, s->exs_sent));
    say("Bytes received   : %" PRIu64 ", %.1f %% straight into memory of receives", s->exs_received,
        percent_of(s->exs_received_direct, s->exs_received));
    say("Bytes one-sided  : %" PRIu64 " read, %" PRIu64 " written", s->exs_bytes_read, s->exs_bytes_written);
    if (s->exs_retransmissions == EXS_STATS_UNKNOWN)
        say("Packets again    : the device does not tell");
    else
        say("Packets again    : %" PRIu64, s->exs_retransmissions);
    say("Events           : %" PRIu64 ", in %" PRIu64 " turns of the loop, %.1f %% of which found none",
        s->exs_events, s->exs_turns, percent_of(s->exs_empty_turns, s->exs_turns));
    say("Completions      : %" PRIu64, s->exs_completions);
}

void counters_json(const exs_stats_t *counted)
{
    printf("\"library\":{");
    for (const struct counter *c = counters; c < counters + COUNTERS; c++) {
        const char *comma = c == counters ? "" : ",";

        if (counter_value(counted, c) == EXS_STATS_UNKNOWN)
            printf("%s\"%s\":null", comma, c->name);
        else
            printf("%s\"%s\":%" PRIu64, comma, c->name, counter_value(counted, c));
    }
    printf("}");
}
