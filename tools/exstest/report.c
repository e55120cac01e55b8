/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report.c - prints the results of a test; see report.h.
 *
 * Units are those of dapltest. Transaction test: 1 MB is 10^6 bytes; Send and Recv are the client's, RDMA reads and
 * writes those of both ends. Performance test: 1 MB is 2^20 bytes.
 */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "counters.h"
#include "say.h"

#define NS 1e9
#define MB 1e6
#define MIB 1048576.

/* ---- Transaction ------------------------------------------------------------------------------------- */

struct sums {
    double send, receive, read, write; /* bytes */
    double operations;
    double seconds;
};

static struct sums add_up(const struct options *o, const struct outcome *outcome)
{
    double times = (double)o->threads * o->connections * o->iterations;
    struct sums sums = {.operations = times * o->ops.count, .seconds = (double)outcome->elapsed / NS};

    for (int i = 0; i < o->ops.count; i++) {
        const struct op *op = &o->ops.op[i];
        double bytes = times * (double)op_bytes(op);

        if (op->transfer == REMOTE_READ)
            sums.read += bytes;
        else if (op->transfer == REMOTE_WRITE)
            sums.write += bytes;
        else if (op->by_server)
            sums.receive += bytes;
        else
            sums.send += bytes;
    }
    return sums;
}

static void say_sum(const char *name, double bytes, double seconds)
{
    say("%-17s: %10.2f MB - %10.2f MB/Sec", name, bytes / MB, bytes / MB / seconds);
}

/* Prints the last member of the JSON object. */
static void end_json(const struct outcome *outcome)
{
    counters_json(&outcome->counted);
    printf("}\n");
}

static void json_transaction(const struct options *o, const struct outcome *outcome, const struct sums *sums)
{
    printf(
        "{\"test\":\"T\",\"passed\":%s,\"threads\":%u,\"connections\":%u,\"iterations\":%u,\"operations\":%.0f,"
        "\"seconds\":%.6f,\"sent\":%.0f,\"received\":%.0f,\"remote_read\":%.0f,\"remote_written\":%.0f,"
        "\"validated\":%s,\"mismatches_client\":%" PRIu64 ",\"mismatches_server\":%" PRIu64 ",",
        outcome->passed ? "true" : "false", o->threads, o->connections, o->iterations, sums->operations,
        sums->seconds, sums->send, sums->receive, sums->read, sums->write, o->validate ? "true" : "false",
        outcome->mismatches, outcome->mismatches_there);
    end_json(outcome);
}

static void say_validated(const struct options *o)
{
    if (o->validate)
        say("Total Validated  : no mismatch");
}

static void say_counted(const struct options *o, const struct outcome *outcome)
{
    if (o->statistics)
        counters_say(&outcome->counted);
}

void report_transaction(const struct options *o, const struct outcome *outcome)
{
    struct sums sums = add_up(o, outcome);

    if (o->json)
        json_transaction(o, outcome, &sums);
    if (outcome->mismatches + outcome->mismatches_there > 0)
        complain("%" PRIu64 " mismatches at the client, %" PRIu64 " at the server", outcome->mismatches,
                 outcome->mismatches_there);
    if (!outcome->passed)
        return;
    say("----- Stats ---- : %u threads, %u EPs", o->threads, o->connections);
    say("Total WQE        : %10.2f WQE/Sec", sums.operations / sums.seconds);
    say("Total Time       : %10.2f sec", sums.seconds);
    say_sum("Total Send", sums.send, sums.seconds);
    say_sum("Total Recv", sums.receive, sums.seconds);
    say_sum("Total RDMA Read", sums.read, sums.seconds);
    say_sum("Total RDMA Write", sums.write, sums.seconds);
    say_validated(o);
    say_counted(o, outcome);
}

/* ---- Performance ------------------------------------------------------------------------------------- */

static int compare_ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

struct latency { /* us; for a send half of the round trip */
    double least, mean, most, median, p90, p99, p999;
};

static double latency_percentile(const struct figures *f, double part, double scale)
{
    return (double)f->latency[(uint32_t)(part * (f->latencies - 1) + 0.5)] / scale;
}

static struct latency compute_latency(struct figures *f, enum transfer transfer)
{
    double sum = 0, scale = transfer == SEND_RECV ? 2000 : 1000;

    qsort(f->latency, f->latencies, sizeof(*f->latency), compare_ascending);
    for (uint32_t i = 0; i < f->latencies; i++)
        sum += f->latency[i];
    return (struct latency){.least = latency_percentile(f, 0, scale),
                            .mean = sum / f->latencies / scale,
                            .most = latency_percentile(f, 1, scale),
                            .median = latency_percentile(f, 0.5, scale),
                            .p90 = latency_percentile(f, 0.9, scale),
                            .p99 = latency_percentile(f, 0.99, scale),
                            .p999 = latency_percentile(f, 0.999, scale)};
}

struct rates {
    double seconds, cpu, operations, mib; /* cpu: percent of one CPU; operations and MiB per second */
    double post, reap;                    /* us per operation */
};

static struct rates compute_rates(const struct options *o, const struct figures *f)
{
    double seconds = (double)f->elapsed / NS, count = o->iterations;

    return (struct rates){.seconds = seconds,
                          .cpu = 100. * (double)f->cpu / (double)f->elapsed,
                          .operations = count / seconds,
                          .mib = count * (double)op_bytes(&o->ops.op[0]) / MIB / seconds,
                          .post = (double)f->posting / count / 1000,
                          .reap = (double)(f->elapsed - f->posting) / count / 1000};
}

static void json_performance(const struct options *o, const struct outcome *outcome, const struct rates *r,
                             const struct latency *l)
{
    const struct op *op = &o->ops.op[0];

    printf("{\"test\":\"P\",\"passed\":true,\"operation\":\"%s\",\"mode\":\"%s\",\"iterations\":%u,"
           "\"segment_size\":%u,\"segments\":%u,\"pipeline\":%u,\"seconds\":%.6f,\"cpu_percent\":%.2f,"
           "\"operations_per_second\":%.1f,\"mib_per_second\":%.2f,\"post_us\":%.3f,\"reap_us\":%.3f,"
           "\"latency_us\":{\"min\":%.3f,\"mean\":%.3f,\"max\":%.3f,\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,"
           "\"p99.9\":%.3f},",
           op_letters(op), options_poll(o) ? "polling" : "blocking", o->iterations, op->size, op->segments,
           o->pipeline, r->seconds, r->cpu, r->operations, r->mib, r->post, r->reap, l->least, l->mean, l->most,
           l->median, l->p90, l->p99, l->p999);
    end_json(outcome);
}

static void say_performance(const struct options *o, const struct rates *r, const struct latency *l)
{
    const struct op *op = &o->ops.op[0];
    char text[64];

    say("------------------------- Statistics -------------------------");
    say("    Mode                   : %s", options_poll(o) ? "Polling" : "Blocking");
    say("    Operation Type         : %s", op_text(op, text));
    say("    Number of Operations   : %u", o->iterations);
    say("    Segment Size           : %u", op->size);
    say("    Number of Segments     : %u", op->segments);
    say("    Pipeline Length        : %u", o->pipeline);
    say("    Total Time             : %10.2f sec", r->seconds);
    say("    Total Data Exchanged   : %10.2f MB", r->mib * r->seconds);
    say("    CPU Utilization        : %10.2f %% of one processor", r->cpu);
    say("    Operation Throughput   : %10.2f ops/sec", r->operations);
    say("    Bandwidth              : %10.2f MB/sec", r->mib);
    say("    Latency%s", op->transfer == SEND_RECV ? ", half of the way there and back" : "");
    say("        Arithmetic mean    : %10.2f us", l->mean);
    say("        maximum            : %10.2f us", l->most);
    say("        minimum            : %10.2f us", l->least);
    say("        50 / 90 / 99 / 99.9 %% : %.2f / %.2f / %.2f / %.2f us", l->median, l->p90, l->p99, l->p999);
    say("    Time Per Post          : %10.2f us", r->post);
    say("    Time Per Reap          : %10.2f us", r->reap);
    say("--------------------------------------------------------------");
    say("NOTE: 1 MB = 1024 KB = 1048576 B");
    say("raw: %s, %u, %u, %u, %u, %.2f, %.2f, %.2f, %.2f, %.2f, %.2f", op_letters(op), o->iterations, op->size,
        op->segments, o->pipeline, r->cpu, r->operations, r->mib, l->mean, r->post, r->reap);
}

void report_performance(const struct options *o, struct outcome *outcome)
{
    struct figures *f = &outcome->figures;

    if (!outcome->passed || f->latencies == 0) {
        if (o->json)
            printf("{\"test\":\"P\",\"passed\":false}\n");
        return;
    }
    const struct rates rates = compute_rates(o, f);
    const struct latency latency = compute_latency(f, o->ops.op[0].transfer);

    if (o->json)
        json_performance(o, outcome, &rates, &latency);
    else
        say_performance(o, &rates, &latency);
    say_counted(o, outcome);
}
