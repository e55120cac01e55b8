/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transaction.c - the transaction test on one connection: in each iteration both ends execute the same list of
 * operations.
 *
 * The end that starts an operation waits for its completion. For a send, the other end waits for the message. Nothing
 * else synchronizes the ends, therefore the list must contain a send in each direction.
 *
 * Validation adds three sends: server, client, server. When the client has received the first, the server has done
 * all of its operations, so the client checks the data that it received and writes new data for the server to read.
 * With the second send the server does the same; the third lets the client continue. Neither end touches a buffer
 * that the other end may be using.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "pattern.h"
#include "say.h"
#include "transfer.h"

enum { REPORTED_MAX = 3 }; /* mismatches of a connection that are printed; further ones are only counted */

struct transaction {                        /* owned by its link */
    exs_token_t token[OPS_MAX + OPS_ADDED]; /* of the operations that this end starts */
    uint32_t iteration;
    int step;
    bool begun;          /* this end has started the operation of this step */
    int sends, onesided; /* expected completion events */
    uint64_t got;        /* received messages that were not processed yet */
    int next_in;         /* the operation of the next message */
};

static const struct op *op_at(const struct link *link, int step)
{
    return &link->area.ops.op[step];
}

static bool is_validating(const struct link *link)
{
    return (link->request.flags & REQUEST_VALIDATE) != 0;
}

static bool is_received(const struct op *op, bool server)
{
    return op->transfer == SEND_RECV && !op_is_mine(op, server);
}

/* ---- Data -------------------------------------------------------------------------------------------- */

static uint64_t seed_of(const struct link *link, int step, uint32_t segment, uint32_t iteration)
{
    return pattern_seed(link->request.session, link->request.number, step, segment, iteration);
}

static void fill_source(struct link *link, int step, uint32_t iteration)
{
    const struct op *op = op_at(link, step);
    const struct place *place = area_place(&link->area, step, 0);

    for (uint32_t i = 0; i < op->segments; i++)
        pattern_put(place->base + i * place->stride, op->size, seed_of(link, step, i, iteration));
}

/* Writes the data that the other end will read by RDMA in the next iteration. */
static void fill_exported(struct link *link, uint32_t iteration)
{
    for (int i = 0; i < link->area.ops.count; i++) {
        const struct op *op = op_at(link, i);

        if (op_is_exported(op, link->server) && op_is_source(op, link->server))
            fill_source(link, i, iteration);
    }
}

/* Prints "operation 3, RDMA_READ (server) 999 x 2, iteration 7", and `where` in it. */
static void report_mismatch(struct link *link, int step, const char *where, unsigned want, unsigned got)
{
    char text[64];

    if (link->mismatches++ >= REPORTED_MAX)
        return;
    complain("Test[%x.%u]: Validation Error :: operation %d, %s, iteration %u, %s",
             (unsigned)link->request.session, link->request.number, step, op_text(op_at(link, step), text),
             ((struct transaction *)link->work)->iteration, where);
    complain("Test[%x.%u]: Expected %02x Got %02x", (unsigned)link->request.session, link->request.number, want,
             got);
}

/* Whether the buffer has the data of the previous iteration, because the new data never arrived. */
static bool is_of_before(const struct link *link, int step, uint32_t segment, const char *bytes)
{
    const struct transaction *t = link->work;
    size_t size = op_at(link, step)->size;

    return t->iteration > 0 &&
           pattern_differs(bytes, size, seed_of(link, step, segment, t->iteration - 1)) == size;
}

static void mismatch_at(struct link *link, int step, uint32_t segment, const char *bytes, size_t at)
{
    uint64_t seed = seed_of(link, step, segment, ((struct transaction *)link->work)->iteration);
    bool old = link->mismatches < REPORTED_MAX && is_of_before(link, step, segment, bytes);
    char where[96];

    snprintf(where, sizeof(where), "segment %u, byte %zu%s", segment, at,
             old ? ": all of it as in the iteration before" : "");
    report_mismatch(link, step, where, pattern_byte(at, seed), (unsigned char)bytes[at]);
}

static void check_target(struct link *link, int step)
{
    struct transaction *t = link->work;
    const struct op *op = op_at(link, step);
    const struct place *place = area_place(&link->area, step, 0);

    for (uint32_t i = 0; i < op->segments; i++) {
        const char *bytes = place->base + i * place->stride;
        uint64_t seed = seed_of(link, step, i, t->iteration);
        size_t at = pattern_differs(bytes, op->size, seed);

        if (at < op->size)
            mismatch_at(link, step, i, bytes, at);
    }
    const char *outside = area_broken_guard(&link->area, step);

    if (outside != NULL)
        report_mismatch(link, step, "outside of its buffer", GUARD_BYTE, (unsigned char)*outside);
}

/* ---- Receives ---------------------------------------------------------------------------------------- */

static bool post_receive(struct link *link, int step)
{
    return transfer_receive(link, op_at(link, step), area_place(&link->area, step, 0));
}

/* Posts the receives of the operations `from` to `to` - 1. */
static bool post_receives(struct link *link, int from, int to)
{
    for (int i = from; i < to; i++)
        if (is_received(op_at(link, i), link->server) && !post_receive(link, i))
            return false;
    return true;
}

static bool is_last_iteration(const struct link *link)
{
    return ((struct transaction *)link->work)->iteration + 1 == link->request.iterations;
}

/* Posts the receive again after its message was processed, unless this is the last iteration. */
static bool receive_again(struct link *link, int step)
{
    return is_last_iteration(link) || post_receive(link, step);
}

/* ---- Steps ------------------------------------------------------------------------------------------- */

/* Returns the step at which this end checks the data of all steps so far: that of the added send which it receives
 * first. */
static int check_step(const struct link *link)
{
    return link->area.ops.count - (link->server ? 2 : 3);
}

static bool check_all(struct link *link)
{
    struct transaction *t = link->work;
    int last = check_step(link);

    for (int i = 0; i <= last; i++)
        if (!op_is_source(op_at(link, i), link->server))
            check_target(link, i);
    if (is_last_iteration(link))
        return true;
    fill_exported(link, t->iteration + 1);
    return post_receives(link, 0, last + 1);
}

/* Processes the received message of this step. */
static bool take_message(struct link *link, int step)
{
    struct transaction *t = link->work;

    t->got--;
    if (!is_validating(link))
        return receive_again(link, step);
    if (step < check_step(link))
        return true;
    if (step == check_step(link))
        return check_all(link);
    check_target(link, step);
    return receive_again(link, step);
}

static bool begin_op(struct link *link, int step)
{
    struct transaction *t = link->work;
    const struct op *op = op_at(link, step);

    if (is_validating(link) && op_is_source(op, link->server))
        fill_source(link, step, t->iteration);
    t->begun = true;
    int events = transfer_start(link, op, area_place(&link->area, step, 0), &t->token[step]);

    if (events < 0)
        return false;
    if (op->transfer == SEND_RECV)
        t->sends += events;
    else
        t->onesided += events;
    return true;
}

/* Executes a step. Returns 1 if it is done, 0 if it must wait, -1 if it failed. */
static int try_step(struct link *link)
{
    struct transaction *t = link->work;
    const struct op *op = op_at(link, t->step);
    bool later =
        op->deferred && !link->server; /* a client's -f: completes before the next message is processed */

    if (op_is_mine(op, link->server)) {
        if (!t->begun && !begin_op(link, t->step))
            return -1;
        return later || (op->transfer == SEND_RECV ? t->sends : t->onesided) == 0;
    }
    if (op->transfer != SEND_RECV)
        return 1;
    if (t->got == 0 || t->sends > 0)
        return 0;
    return take_message(link, t->step) ? 1 : -1;
}

static void go_on(struct link *link)
{
    struct transaction *t = link->work;

    while (t->iteration < link->request.iterations) {
        int result = try_step(link);

        if (result <= 0)
            return;
        t->begun = false;
        if (++t->step == link->area.ops.count) {
            t->step = 0;
            t->iteration++;
        }
    }
    link_finished(link);
}

/* ---- The exercise ------------------------------------------------------------------------------------ */

/* A request for validation must contain the three operations that ops.c adds for it. */
static bool is_well_formed(const struct request *request)
{
    if (!(request->flags & REQUEST_VALIDATE))
        return true;
    if (request->ops.count < OPS_ADDED)
        return false;
    const struct op *last = &request->ops.op[request->ops.count - OPS_ADDED];

    for (int i = 0; i < OPS_ADDED; i++)
        if (last[i].transfer != SEND_RECV || last[i].by_server != (i != 1))
            return false;
    return true;
}

static int export_all(struct link *link, struct tokens *mine)
{
    mine->count = 0;
    for (int i = 0; i < link->area.ops.count; i++) {
        const struct op *op = op_at(link, i);

        if (op_is_exported(op, link->server) &&
            transfer_export(link, op, area_place(&link->area, i, 0), &mine->token[mine->count++]) == -1)
            return -1;
    }
    return 0;
}

static int prepare_transaction(struct link *link, struct tokens *mine, const char **why)
{
    *why = "the request is malformed: no validation operations at its end";
    errno = EINVAL;
    if (!is_well_formed(&link->request))
        return -1;
    if (link_make_area(link, &link->request.ops, 1, why) == -1)
        return -1;
    link->work = calloc(1, sizeof(struct transaction));
    if (link->work == NULL)
        return -1;
    if (is_validating(link)) {
        area_put_guards(&link->area);
        fill_exported(link, 0);
    }
    *why = "the buffers can not be exported";
    return export_all(link, mine);
}

static int start_transaction(struct link *link, const struct tokens *theirs)
{
    struct transaction *t = link->work;
    int count = 0;

    for (int i = 0; i < link->area.ops.count; i++)
        if (op_is_exported(op_at(link, i), !link->server) && count < theirs->count)
            t->token[i] = theirs->token[count++];
    if (count != theirs->count) {
        errno = EPROTO;
        return -1;
    }
    if (post_receives(link, 0, link->area.ops.count))
        go_on(link);
    return 0;
}

/* Messages arrive in the order of the operations. */
static bool message_event(struct link *link, const exs_event_t *event)
{
    struct transaction *t = link->work;

    while (!is_received(op_at(link, t->next_in), link->server))
        t->next_in = (t->next_in + 1) % link->area.ops.count;
    const struct op *op = op_at(link, t->next_in);

    t->next_in = (t->next_in + 1) % link->area.ops.count;
    t->got++;
    return transfer_is_whole(link, op, event);
}

static void transaction_event(struct link *link, const exs_event_t *event)
{
    struct transaction *t = link->work;

    if (is_send(event))
        t->sends--;
    else if (event->exs_evt_type != EXS_EVT_RECV)
        t->onesided--;
    else if (!message_event(link, event))
        return;
    go_on(link);
}

static void end_transaction(struct link *link)
{
    free(link->work);
    link->work = NULL;
}

const struct exercise transaction = {.prepare = prepare_transaction,
                                     .start = start_transaction,
                                     .event = transaction_event,
                                     .end = end_transaction};
