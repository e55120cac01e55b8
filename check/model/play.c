/* SPDX-License-Identifier: BSD-2-Clause */
/* play.c - runs a program: makes the calls, dequeues the events, and passes both to the model. See model.h. */
#include "play.h"

#include "check/support/files.h"

#include <limits.h>
#include <poll.h>
#include <stdarg.h>

#define ALL_QUEUES (2 * QUEUES)
#define OPS_OF_ALL 600
#define PROGRAM_S 60 /* s; longest time of a program, to be multiplied by the machine's slowness */

static exs_qhandle_t queues[ALL_QUEUES];
static struct setup *setups[PAIRS];
static struct op ops[OPS_OF_ALL];
static unsigned op_count;
double patience_s = 5;
struct figures *figures;

void wrong(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(figures->text, sizeof figures->text, format, arguments);
    va_end(arguments);
    _exit(1);
}

exs_qhandle_t queue_of(int index)
{
    return queues[index];
}

struct side *side_of(const struct step *step)
{
    struct setup *setup = setups[step->pair];

    return setup && !setup->sides[step->end].closed ? &setup->sides[step->end] : NULL;
}

struct op *op_new(struct side *side, int type, const struct step *step)
{
    if (op_count == OPS_OF_ALL)
        return NULL;
    struct op *op = &ops[op_count];

    *op = (struct op){.type = type,
                      .side = side,
                      .number = op_count++,
                      .queue = (int)(step->end * QUEUES + step->queue),
                      .flags = step->flags,
                      .length = step->length};
    return op;
}

/* ---- Events ------------------------------------------------------------------------------ */

static void told(const exs_event_t *event)
{
    struct op *op = event->exs_evt_ahandle;

    if (meet_event(event))
        return;
    if (op < ops || op >= ops + op_count || op->type != event->exs_evt_type)
        wrong("an event that nobody asked for: %s of socket %d, %s", exs_strevent(event->exs_evt_type),
              event->exs_evt_socket, strerrorname_np(event->exs_evt_errno));
    if (event->exs_evt_socket != op->side->socket)
        wrong("%s: its event names socket %d", op_text(op), event->exs_evt_socket);
    read_event(op, event);
    reference_event(op, event);
    figures->events++;
}

static int dequeue(int queue, int most)
{
    exs_event_t events[16];

    CALL();
    int got = exs_qdequeue(queues[queue], events, most, &(struct timeval){0, 0});
    if (got < 0 || got > most)
        wrong("exs_qdequeue: %d, %s", got, strerrorname_np(errno));
    for (int i = 0; i < got; i++)
        told(&events[i]);
    return got;
}

void drive(int wait_ms)
{
    struct pollfd wait[ALL_QUEUES];
    int got = 0;

    for (int i = 0; i < ALL_QUEUES; i++)
        got += dequeue(i, 16);
    for (int i = 0; i < ALL_QUEUES; i++)
        wait[i] = (struct pollfd){.fd = exs_qfd(queues[i]), .events = POLLIN};
    if (got == 0)
        poll(wait, ALL_QUEUES, wait_ms);
}

static const struct op *awaited(void)
{
    for (int pair = 0; pair < PAIRS; pair++)
        for (int end = 0; end < 2 && setups[pair]; end++) {
            const struct side *side = &setups[pair]->sides[end];
            for (int i = 0; i < side->count; i++)
                if (must_come(side->ops[i]))
                    return side->ops[i];
        }
    return NULL;
}

static void settle(void)
{
    double until = seconds_now() + patience_s;
    const struct op *op;

    while ((op = awaited()) != NULL) {
        if (seconds_now() > until)
            wrong("%s: its event does not come", op_text(op));
        drive(100);
    }
}

/* ---- Steps that are no transfers ------------------------------------------------------------- */

static void do_cancel(struct side *side, const struct step *step)
{
    struct op *found = NULL;
    int owed = 0;

    for (int i = 0; i < side->count; i++)
        if (side->ops[i]->owed && step->detail % (unsigned)++owed == 0)
            found = side->ops[i];
    if (step->flags & ALL)
        found = NULL;
    else if (!found)
        return;
    CALL();
    int count = exs_cancel(side->socket, found, found ? 0 : EXS_CANCEL_ALL);
    reference_cancelled(side, found, count);
}

static void set_option(const struct side *side, int option, const void *value, socklen_t length)
{
    CALL();
    if (exs_setsockopt(side->socket, SOL_SOCKET, option, value, length) != 0)
        wrong("exs_setsockopt: %s", strerrorname_np(errno));
}

static void do_option(struct side *side, const struct step *step)
{
    struct timeval limit = {.tv_usec = (suseconds_t)(step->length % 20 + 1) * 1000}, none = {0, 0};
    int bytes = (int)step->length, unlimited = INT_MAX, yes = 1, no = 0;

    switch (step->detail % 4) {
    case 0:
        set_option(side, SO_RCVTIMEO, &limit, sizeof limit);
        side->recv_limit = true;
        break;
    case 1:
        set_option(side, SO_SNDTIMEO, &limit, sizeof limit);
        side->send_limit = true;
        break;
    case 2:
        set_option(side, SO_SNDBUF, &bytes, sizeof bytes);
        set_option(side, EXS_SO_SENDLIMIT, &yes, sizeof yes);
        side->limit = step->length;
        break;
    default:
        set_option(side, SO_RCVTIMEO, &none, sizeof none);
        set_option(side, SO_SNDTIMEO, &none, sizeof none);
        set_option(side, SO_SNDBUF, &unlimited, sizeof unlimited);
        set_option(side, EXS_SO_SENDLIMIT, &no, sizeof no);
        side->recv_limit = side->send_limit = false;
        side->limit = SIZE_MAX;
    }
}

static void do_close(struct side *side, const struct step *step)
{
    unsigned flags = step->flags & CUTS ? step->flags & ~(unsigned)LINGERS : step->flags;
    struct linger linger = {.l_onoff = 1, .l_linger = flags & CUTS ? 0 : LINGER_S};
    struct step alike = *step;

    alike.flags = 0;
    struct op *op = flags & NO_QUEUE ? NULL : op_new(side, EXS_EVT_CLOSE, &alike);
    if (flags & (CUTS | LINGERS))
        set_option(side, SO_LINGER, &linger, sizeof linger);
    reference_closed(side, flags);
    side->close = op;
    CALL();
    long result = exs_close(side->socket, step->detail % 2 && (flags & LINGERS) ? EXS_LINGER : 0,
                            op ? queues[op->queue] : NULL, op);
    if (result != 0)
        wrong("exs_close: %s", strerrorname_np(errno));
    if (op)
        reference_started(op, result, 0);
}

static void do_status(const struct step *step)
{
    int queue = (int)(step->end * QUEUES + step->queue), least = 0, most = 0;
    exs_qstatus_t status;

    CALL();
    if (exs_qstatus(queues[queue], &status) != 0)
        wrong("exs_qstatus: %s", strerrorname_np(errno));
    for (unsigned i = 0; i < op_count; i++)
        if (ops[i].owed && ops[i].queue == queue) {
            least += !(ops[i].flags & UNSIGNALED);
            most++;
        }
    /* Operations without an event may be in progress, too: a close, receives that are kept after SHUT_RD
     * because the peer may still write into them, and operations that a lingering close discards. */
    for (int pair = 0; pair < PAIRS; pair++)
        for (int end = 0; end < 2 && setups[pair]; end++) {
            const struct side *side = &setups[pair]->sides[end];
            most += side->home != queue
                        ? 0
                        : (side->closed ? 1 + !side->close : 0) + (side->reads_no_more ? side->count : 0);
        }
    if (status.exs_events + status.exs_pending < least || status.exs_events + status.exs_pending > most)
        wrong("exs_qstatus: %d events wait, %d operations are in progress; %d to %d events are owed",
              status.exs_events, status.exs_pending, least, most);
}

/* ---- Connections ------------------------------------------------------------------------------- */

static void forget(struct setup **setup)
{
    reference_end(*setup);
    for (int end = 0; end < 2; end++) {
        const struct side *side = &(*setup)->sides[end];
        for (int i = 0; i < side->count; i++) {
            free(side->ops[i]->bytes);
            side->ops[i]->bytes = NULL;
            side->ops[i]->owed = false; /* unsignaled */
            memory_forget(side->ops[i]->pieces, side->ops[i]->piece_count);
        }
    }
    free(*setup);
    *setup = NULL;
}

/* After a socket's close its events have all arrived, also those of failed unsignaled operations. Dequeues
 * them. */
static void drain(void)
{
    for (int i = 0; i < ALL_QUEUES; i++)
        while (dequeue(i, 16) > 0)
            continue;
}

/* Waits until no socket is left on any queue, also none of a close without an event. */
static void await_sockets(int most)
{
    double until = seconds_now() + patience_s;

    for (int i = 0; i < ALL_QUEUES;) {
        exs_qstatus_t status;

        if (exs_qstatus(queues[i], &status) != 0)
            wrong("exs_qstatus: %s", strerrorname_np(errno));
        if (status.exs_sockets <= most && (most > 0 || status.exs_pending == 0)) {
            i++;
            continue;
        }
        if (seconds_now() > until)
            wrong("%d sockets and %d operations are left on queue %d when all is closed", status.exs_sockets,
                  status.exs_pending, i);
        drive(20);
    }
}

static void do_connect(const struct step *step)
{
    struct setup **setup = &setups[step->pair];

    if (*setup && !((*setup)->sides[0].closed && (*setup)->sides[1].closed))
        return;
    if (*setup) {
        settle();
        await_sockets(setups[!step->pair] ? 2 : 0);
        drain();
        forget(setup);
    }
    *setup = meet(step);
    figures->connections++;
}

static void do_step(const struct step *step)
{
    struct side *side = side_of(step);

    if (step->verb == CONNECT)
        do_connect(step);
    else if (step->verb == DEQUEUE)
        dequeue((int)(step->end * QUEUES + step->queue), (int)(step->detail % 8 + 1));
    else if (step->verb == STATUS)
        do_status(step);
    else if (step->verb == SETTLE)
        settle();
    else if (!side)
        return;
    else if (step->verb == CANCEL)
        do_cancel(side, step);
    else if (step->verb == OPTION)
        do_option(side, step);
    else if (step->verb == CLOSE)
        do_close(side, step);
    else
        do_transfer(side, step);
}

static void close_all(void)
{
    settle();
    for (unsigned pair = 0; pair < PAIRS; pair++)
        for (unsigned end = 0; end < 2; end++) {
            struct step step = {.verb = CLOSE, .pair = pair, .end = end};
            if (side_of(&step))
                do_close(side_of(&step), &step);
        }
    settle();
    await_sockets(0);
    drain();
    for (int pair = 0; pair < PAIRS; pair++)
        if (setups[pair])
            forget(&setups[pair]);
    drain();
}

void play(const struct program *program)
{
    alarm((unsigned)(PROGRAM_S * LATE_S));
    op_count = 0;
    memory_begin();
    for (int i = 0; i < program->count; i++) {
        figures->step = i;
        figures->started[program->steps[i].verb]++;
        do_step(&program->steps[i]);
    }
    close_all();
    memory_end();
    figures->programs++;
}

void play_open(void)
{
    if (exs_init(EXS_VERSION) != 0)
        wrong("exs_init: %s", strerrorname_np(errno));
    for (int i = 0; i < ALL_QUEUES; i++)
        if ((queues[i] = exs_qcreate(64)) == EXS_QHANDLE_INVALID)
            wrong("exs_qcreate: %s", strerrorname_np(errno));
    memory_open();
    meet_open();
}

void play_close(void)
{
    meet_close();
    for (int i = 0; i < ALL_QUEUES; i++)
        if (exs_qdelete(queues[i]) != 0)
            wrong("exs_qdelete: %s", strerrorname_np(errno));
    memory_close();
    if (exs_fini() != 0)
        wrong("exs_fini: %s", strerrorname_np(errno));
}
