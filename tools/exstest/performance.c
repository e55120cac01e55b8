/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * performance.c - the performance test, on a single connection.
 *
 * The first phase measures throughput: `pipeline` operations are in flight until all iterations are done. The second
 * phase measures latency: one operation at a time; the server answers a send by a send of the same size. The server is
 * passive while the client reads or writes its memory.
 */
#include <errno.h>
#include <stdlib.h>
#include "figures.h"
#include "transfer.h"

enum { ASKED, ECHO }; /* indices of operations: the requested one; the answer to a send */

struct performance { /* owned by its link */
    exs_token_t token;
    bool timing;            /* second phase: latency */
    uint32_t started, done; /* operations of this phase */
    uint32_t events;        /* received for the current operation */
    uint32_t messages;      /* server: messages received; client: answers received */
    uint32_t receives;      /* posted since the start */
    uint32_t echoes;        /* server: answers in flight */
    uint64_t began, cpu, asked;
};

static const struct op *the_op(const struct link *link)
{
    return &link->area.ops.op[ASKED];
}

static uint32_t latencies_of(const struct link *link)
{
    return link->request.iterations < LATENCIES_MAX ? link->request.iterations : LATENCIES_MAX;
}

static bool is_echoed(const struct link *link)
{
    return the_op(link)->transfer == SEND_RECV;
}

/* ---- The client -------------------------------------------------------------------------------------- */

static uint32_t pipeline_depth(const struct link *link)
{
    return ((struct performance *)link->work)->timing ? 1 : link->request.pipeline;
}

static bool start_one(struct link *link)
{
    struct performance *p = link->work;
    int slot = (int)(p->started % pipeline_depth(link));
    uint64_t before = clock_now();

    if (p->timing && is_echoed(link) &&
        !transfer_receive(link, &link->area.ops.op[ECHO], area_place(&link->area, ECHO, 0)))
        return false;
    p->asked = before;
    if (transfer_start(link, the_op(link), area_place(&link->area, ASKED, slot), &p->token) < 0)
        return false;
    if (!p->timing)
        link->figures->posting += clock_now() - before;
    p->started++;
    return true;
}

static void fill_pipeline(struct link *link)
{
    struct performance *p = link->work;
    uint32_t all = p->timing ? latencies_of(link) : link->request.iterations;

    while (p->started < all && p->started - p->done < pipeline_depth(link))
        if (!start_one(link))
            return;
}

static void next_phase(struct link *link)
{
    struct performance *p = link->work;

    link->figures->elapsed = clock_now() - p->began;
    link->figures->cpu = cpu_now() - p->cpu;
    p->timing = true;
    p->started = p->done = 0;
}

static void one_done(struct link *link)
{
    struct performance *p = link->work;

    p->done++;
    if (p->timing) {
        uint64_t took = clock_now() - p->asked;

        link->figures->latency[link->figures->latencies++] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
        if (p->done == latencies_of(link)) {
            link_finished(link);
            return;
        }
    } else if (p->done == link->request.iterations) {
        next_phase(link);
    }
    fill_pipeline(link);
}

/* A timed send is done when its answer and its own completion event have arrived. */
static void client_event(struct link *link, const exs_event_t *event)
{
    struct performance *p = link->work;
    bool send = is_echoed(link), timed_send = send && p->timing;
    uint32_t want = send ? 1u + timed_send : the_op(link)->segments;

    if (event->exs_evt_type == EXS_EVT_RECV && !transfer_is_whole(link, &link->area.ops.op[ECHO], event))
        return;
    if (++p->events < want)
        return;
    p->events = 0;
    one_done(link);
}

/* ---- The server -------------------------------------------------------------------------------------- */

static uint32_t messages_of(const struct link *link)
{
    return is_echoed(link) ? link->request.iterations + latencies_of(link) : 0;
}

static bool post_receive(struct link *link)
{
    struct performance *p = link->work;
    int slot = (int)(p->receives % link->request.pipeline);

    if (p->receives == messages_of(link))
        return true;
    p->receives++;
    return transfer_receive(link, the_op(link), area_place(&link->area, ASKED, slot));
}

static void finish_when_done(struct link *link)
{
    struct performance *p = link->work;

    if (p->messages == messages_of(link) && p->echoes == 0)
        link_finished(link);
}

static void server_event(struct link *link, const exs_event_t *event)
{
    struct performance *p = link->work;

    if (is_send(event)) {
        p->echoes--;
    } else {
        if (!transfer_is_whole(link, the_op(link), event) || !post_receive(link))
            return;
        if (++p->messages > link->request.iterations) {
            p->echoes++;
            if (transfer_start(link, &link->area.ops.op[ECHO], area_place(&link->area, ECHO, 0), NULL) < 0)
                return;
        }
    }
    finish_when_done(link);
}

/* ---- The exercise ------------------------------------------------------------------------------------ */

static int prepare_performance(struct link *link, struct tokens *mine, const char **why)
{
    struct ops ops = link->request.ops;
    const struct op *op = &ops.op[ASKED];
    bool send = op->transfer == SEND_RECV;

    if (send) {
        ops.op[ECHO] = *op;
        ops.op[ECHO].by_server = true;
        ops.count = 2;
    }
    if (link_make_area(link, &ops, link->server && !send ? 1 : (int)link->request.pipeline, why) == -1)
        return -1;
    link->work = calloc(1, sizeof(struct performance));
    if (link->work == NULL)
        return -1;
    mine->count = 0;
    if (!op_is_exported(op, link->server))
        return 0;
    *why = "the buffer can not be exported";
    return transfer_export(link, op, area_place(&link->area, ASKED, 0), &mine->token[mine->count++]);
}

static int start_performance(struct link *link, const struct tokens *theirs)
{
    struct performance *p = link->work;

    if (link->server) {
        for (uint32_t i = 0; i < link->request.pipeline; i++)
            if (!post_receive(link))
                return 0;
        link->may_rest = !is_echoed(link);
        finish_when_done(link);
        return 0;
    }
    if (theirs->count != (is_echoed(link) ? 0 : 1)) {
        errno = EPROTO;
        return -1;
    }
    p->token = theirs->token[0];
    p->began = clock_now();
    p->cpu = cpu_now();
    fill_pipeline(link);
    return 0;
}

static void performance_event(struct link *link, const exs_event_t *event)
{
    if (link->server)
        server_event(link, event);
    else
        client_event(link, event);
}

static void end_performance(struct link *link)
{
    free(link->work);
    link->work = NULL;
}

const struct exercise performance = {.prepare = prepare_performance,
                                     .start = start_performance,
                                     .event = performance_event,
                                     .end = end_performance};
