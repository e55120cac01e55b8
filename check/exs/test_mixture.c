/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_mixture.c - a random mixture of everything, by one thread that has both ends: transfers of every kind,
 * timeouts, cancels, polls, reads of state, and closes while operations are pending. Each operation ends once,
 * before its socket's close; the receiver gets what the sender sent, in order, and nothing else.
 */
#include <poll.h>
#include "mixture.h"

/* ---- Events ------------------------------------------------------------------------------------------ */

static void note_file(struct op *op, size_t moved)
{
    size_t in_file = op->elements[0].exs_xfv.exs_fdv.exs_length;
    size_t bytes = moved < in_file ? moved : in_file;

    ck_assert_int_eq(pread(op->file, op->memory, bytes, 0), (ssize_t)bytes);
}

static void note(struct mixture *m, int end, const exs_event_t *event)
{
    struct op *op = event->exs_evt_ahandle;

    if (event->exs_evt_type == EXS_EVT_CLOSE) {
        ck_assert(!m->has_closed[end]);
        m->has_closed[end] = true;
        return;
    }
    if (event->exs_evt_type == EXS_EVT_SHUTDOWN) {
        m->has_shut[end] = true;
        return;
    }
    ck_assert_int_eq(op->type, event->exs_evt_type);
    ck_assert_msg(!op->ended, "%s ends twice", exs_strevent(op->type));
    op->ended = true;
    op->error = event->exs_evt_errno;
    m->pending--;
    --*op_count(m, op);
    if (op->type == EXS_EVT_POLL)
        return;
    ck_assert_msg(!m->has_closed[op->end], "%s ends behind its socket's close", exs_strevent(op->type));
    if (op->type == EXS_EVT_SENDFILE || op->type == EXS_EVT_RECVFILE) {
        op->moved = (size_t)event->exs_evt_union.exs_evt_xferfile.exs_evt_length;
        op->told = event->exs_evt_union.exs_evt_xferfile.exs_evt_flags;
    } else if (op->type == EXS_EVT_SENDMSG || op->type == EXS_EVT_RECVMSG) {
        op->moved = event->exs_evt_union.exs_evt_xfermsg.exs_evt_length;
        op->told = event->exs_evt_union.exs_evt_xfermsg.exs_evt_flags;
    } else {
        op->moved = event->exs_evt_union.exs_evt_xfer.exs_evt_length;
        op->told = event->exs_evt_union.exs_evt_xfer.exs_evt_flags;
    }
    m->has_ended[op->end] |= (op->told & EXS_EOF) != 0;
    ck_assert_uint_le(op->moved, op->length);
    op->unsure = m->may_break && op->error != 0 && !is_receive(op);
    if (!m->may_break)
        ck_assert_msg(op->error == 0 || op->error == ECANCELED || op->error == ETIMEDOUT, "%s: %s",
                      exs_strevent(op->type), strerror(op->error));
    if (op->type == EXS_EVT_RECVFILE)
        note_file(op, op->moved);
}

/* Dequeues events in batches. If wait_ms is not 0, first waits until the descriptor of one of the queues is
 * readable. */
static void take(struct mixture *m, int wait_ms)
{
    struct pollfd fds[2];
    exs_event_t events[8];

    for (int end = 0; end < 2; end++)
        fds[end] = (struct pollfd){.fd = exs_qfd(m->box[end].queue), .events = POLLIN};
    if (wait_ms > 0)
        ck_assert_msg(poll(fds, 2, wait_ms) > 0, "%d operations are pending, and no descriptor is readable",
                      m->pending);
    for (int end = 0; end < 2; end++) {
        int most = 1 + (int)below(m, COUNT(events));
        int count = exs_qdequeue(m->box[end].queue, events, most, &(struct timeval){0});

        must(count);
        for (int i = 0; i < count; i++)
            note(m, end, &events[i]);
    }
}

/* ---- One connection ---------------------------------------------------------------------------------- */

static void begin(struct mixture *m)
{
    m->ops = m->pending = 0;
    m->may_break = false;
    for (int end = 0; end < 2; end++)
        m->has_closed[end] = m->has_shut[end] = m->has_ended[end] = false;
    connect_ends(m->listener, m->type, &m->address, &m->box[0], &m->box[1], &m->socket[0], &m->socket[1]);
}

static void close_end(struct mixture *m, int end)
{
    must(exs_close(m->socket[end], 0, m->box[end].queue, NULL));
    m->socket[end] = -1;
    m->may_break = true;
}

static void finish(struct mixture *m)
{
    for (int end = 0; end < 2; end++)
        if (m->socket[end] != -1)
            close_end(m, end);
    while (m->pending > 0 || !m->has_closed[0] || !m->has_closed[1])
        take(m, WAIT_MS);
    inbox_quiet(&m->box[0], 0);
    inbox_quiet(&m->box[1], 0);
}

/* Receives everything that was sent, and then the end of stream, in both directions. */
static void drain(struct mixture *m)
{
    struct timeval none = {0};

    for (int end = 0; end < 2; end++) {
        must(exs_setsockopt(m->socket[end], SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)));
        must(exs_setsockopt(m->socket[end], SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none)));
        must(exs_shutdown(m->socket[end], SHUT_WR, 0, m->box[end].queue, NULL));
    }
    while (m->has_shut[0] + m->has_shut[1] + m->has_ended[0] + m->has_ended[1] < 4) {
        for (int end = 0; end < 2; end++)
            if (!m->has_ended[end] && m->receives[end] == 0)
                call_receive(m, end);
        take(m, WAIT_MS);
    }
}

static void one_step(struct mixture *m)
{
    int end = (int)below(m, 2);

    switch (below(m, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        call_transfer(m, end, true);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        call_transfer(m, end, false);
        break;
    case 8:
        call_cancel(m, end);
        break;
    case 9:
        call_limit(m, end);
        break;
    case 10:
        call_poll(m);
        break;
    case 11:
        call_read(m, end);
        break;
    case 12:
        call_look(m, end);
        break;
    default:
        take(m, 0);
    }
}

static void end_life(struct mixture *m)
{
    bool orderly = below(m, 2);

    if (orderly)
        drain(m);
    else if (below(m, 2))
        close_end(m, (int)below(m, 2));
    for (int i = 0; !orderly && m->may_break && i < 20; i++)
        one_step(m);
    finish(m);
    log_compare(m, 0, orderly);
    log_compare(m, 1, orderly);
    for (int i = 0; i < m->ops; i++)
        op_free(m->op[i]);
}

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};

START_TEST(everything)
{
    struct mixture m = {.chance = chance_new(), .type = types[_i], .region_memory = new_buffer(LONGEST)};
    double end = seconds_now() + seconds_to_spend();

    pattern_fill(m.region_memory, LONGEST, 0, 0);
    m.region = exs_mregister(m.region_memory, LONGEST, 0);
    must(pipe(m.pipe));
    inbox_open(&m.box[0], 16);
    inbox_open(&m.box[1], 16);
    m.box[0].beside = &m.box[1];
    m.box[1].beside = &m.box[0];
    m.listener = open_listener(AF_INET, m.type, 4, &m.address);
    while (seconds_now() < end) {
        begin(&m);
        for (int steps = (int)chance_size(&m.chance, 1, 3000); steps > 0; steps--)
            one_step(&m);
        end_life(&m);
    }
    must(exs_mderegister(m.region, 0));
    must(exs_blocking_close(m.listener));
    m.box[0].beside = m.box[1].beside = NULL;
    inbox_close(&m.box[0]);
    inbox_close(&m.box[1]);
    close(m.pipe[0]);
    close(m.pipe[1]);
    free(m.region_memory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mixture");
    TCase *tcase = add_case(suite, "mixture", 30);

    tcase_add_loop_test(tcase, everything, 0, COUNT(types));
    return run_suite(suite);
}
