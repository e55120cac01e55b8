/* SPDX-License-Identifier: BSD-2-Clause */
/* end.c - the operations of one end: each has one event, and no other event arrives. See faults.h. */
#include "faults.h"

#include <poll.h>
#include <sys/mman.h>

#define ROOM MIB /* bytes of each buffer; those of the longest moment */

void end_open(struct end *end, const struct cell *cell, bool victim, int fd)
{
    *end = (struct end){.cell = cell, .victim = victim, .fd = fd, .listener = -1, .socket = -1, .busy = -1};
    end->queue = exs_qcreate(OPS);
    ck_assert_ptr_ne(end->queue, EXS_QHANDLE_INVALID);
    end->in = new_buffer(ROOM);
    end->out = new_buffer(ROOM);
    end->in_region = exs_mregister(end->in, ROOM, 0);
    end->out_region = exs_mregister(end->out, ROOM, 0);
    ck_assert(end->in_region != EXS_MHANDLE_INVALID && end->out_region != EXS_MHANDLE_INVALID);
    must(end->in_file = memfd_create("in", MFD_CLOEXEC));
    must(end->out_file = memfd_create("out", MFD_CLOEXEC));
}

void end_close(struct end *end)
{
    end_turn(end, 0);
    for (int i = 0; i < OPS; i++)
        ck_assert_msg(!end->ops[i].used, "%s was never awaited", exs_strevent(end->ops[i].type));
    must(exs_qdelete(end->queue));
    must(exs_mderegister(end->in_region, 0));
    must(exs_mderegister(end->out_region, 0));
    free(end->in);
    free(end->out);
    close(end->in_file);
    close(end->out_file);
    must(exs_fini());
}

/* ---- Events -------------------------------------------------------------------------- */

static void take_event(struct end *end, const exs_event_t *event)
{
    struct op *op = event->exs_evt_ahandle;

    ck_assert_msg(op >= end->ops && op < end->ops + OPS && op->owed, "%s, errno %s, that nobody is owed",
                  exs_strevent(event->exs_evt_type), strerrorname_np(event->exs_evt_errno));
    ck_assert_msg(op->type == event->exs_evt_type && op->socket == event->exs_evt_socket,
                  "%s of socket %d where %s of socket %d is owed", exs_strevent(event->exs_evt_type),
                  event->exs_evt_socket, exs_strevent(op->type), op->socket);
    op->owed = false;
    op->error = event->exs_evt_errno;
    switch (op->type) {
    case EXS_EVT_ACCEPT:
        op->accepted = event->exs_evt_union.exs_evt_accept.exs_evt_newsocket;
        break;
    case EXS_EVT_SENDFILE:
    case EXS_EVT_RECVFILE:
        op->length = (size_t)event->exs_evt_union.exs_evt_xferfile.exs_evt_length;
        break;
    case EXS_EVT_SEND:
    case EXS_EVT_RECV:
    case EXS_EVT_RREAD:
    case EXS_EVT_RWRITE:
        op->length = event->exs_evt_union.exs_evt_xfer.exs_evt_length;
        break;
    default:
        break;
    }
}

void end_turn(struct end *end, int wait_ms)
{
    struct pollfd wait = {.fd = exs_qfd(end->queue), .events = POLLIN};
    exs_event_t events[OPS];
    double stall = atomic_load(&end->stalled_to) - seconds_now();
    int ready, count;

    if (stall > 0)
        poll(NULL, 0, (int)(stall * 1e3) + 1); /* the fault itself: the queue is not polled */
    ready = poll(&wait, 1, wait_ms);
    ck_assert_msg(ready >= 0 || errno == EINTR, "poll: %s", strerror(errno));
    do
        count = exs_qdequeue(end->queue, events, OPS, &(struct timeval){0});
    while (is_refused(end, count));
    ck_assert_msg(count >= 0 && count <= OPS, "exs_qdequeue: %d, %s", count, strerror(errno));
    for (int i = 0; i < count; i++)
        take_event(end, &events[i]);
}

/* ---- Operations ---------------------------------------------------------------------- */

struct op *op_begin(struct end *end, int type, int socket)
{
    struct op *op = end->ops;

    while (op < end->ops + OPS && op->used)
        op++;
    ck_assert_msg(op < end->ops + OPS, "too many operations");
    *op = (struct op){.type = type, .socket = socket, .used = true, .owed = true, .accepted = -1};
    if (socket != end->listener)
        atomic_store(&end->busy, type == EXS_EVT_CLOSE ? -1 : socket);
    return op;
}

/* A call that failed has no event. */
struct op *op_began(struct end *end, struct op *op, ssize_t result)
{
    (void)end;
    ck_assert_msg(result == 0 || result == -1, "%s: the call returns %zd", exs_strevent(op->type), result);
    if (result == -1) {
        op->owed = false;
        op->error = errno;
    }
    return op;
}

int op_wait(struct end *end, struct op *op, size_t *length)
{
    double limit = seconds_now() + WAIT_MS / 1e3 + end->cell->fault->bound;

    while (op->owed) {
        ck_assert_msg(seconds_now() < limit, "no %s came to the %s; fault %s", exs_strevent(op->type),
                      end->victim ? "victim" : "survivor", end->struck ? "known" : "not known");
        end_turn(end, 200);
    }
    op->used = false;
    if (length)
        *length = op->length;
    return op->error;
}

bool end_good(struct end *end, int error)
{
    if (error && !end->error) {
        end->error = error;
        end->noticed = seconds_now();
    }
    return error == 0;
}

bool is_short(const struct end *end)
{
    return !end->point->calm && end->cell->fault->fate == SHORT &&
           (end->cell->moment->setup || !end->cell->fault->connecting);
}

bool is_gone(const struct end *end)
{
    return !end->point->calm && end->cell->fault->fate == GONE;
}

bool may_fail(const struct end *end)
{
    return !end->point->calm && (is_short(end) || end->cell->fault->fate > SHORT);
}

bool is_refused(const struct end *end, ssize_t result)
{
    if (result != -1 || end->victim || !is_short(end) || errno != end->cell->fault->error)
        return false;
    poll(NULL, 0, 1);
    return true;
}

int end_send(struct end *end, const void *bytes, size_t length)
{
    struct op *op = op_begin(end, EXS_EVT_SEND, end->socket);

    ssize_t result;

    do
        result = exs_send(end->socket, bytes, length, 0, end->queue, op, NULL);
    while (is_refused(end, result));
    op_began(end, op, result);
    return op_wait(end, op, NULL);
}

int end_recv(struct end *end, void *bytes, size_t length, size_t *got)
{
    struct op *op = op_begin(end, EXS_EVT_RECV, end->socket);

    ssize_t result;

    do
        result = exs_recv(end->socket, bytes, length, MSG_WAITALL, end->queue, op, NULL);
    while (is_refused(end, result));
    op_began(end, op, result);
    return op_wait(end, op, got);
}

struct op *ask_close(struct end *end, int socket)
{
    struct op *op = op_begin(end, EXS_EVT_CLOSE, socket);

    int result;

    do
        result = exs_close(socket, 0, end->queue, op);
    while (is_refused(end, result));
    return op_began(end, op, result);
}

int end_close_socket(struct end *end, int *socket)
{
    int error = op_wait(end, ask_close(end, *socket), NULL);

    *socket = -1;
    return error;
}
