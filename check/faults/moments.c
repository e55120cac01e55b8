/* SPDX-License-Identifier: BSD-2-Clause */
/* moments.c - the moments in which a fault strikes: what both ends do in that time, one row each. See faults.h. */
#include "check/support/files.h"
#include "faults.h"

#include <poll.h>

#define TOTAL_OF(end) ((end)->cell->moment->total)

typedef struct op *start_fn(struct end *end, size_t at, size_t length);

/* ---- Transfers of one segment -------------------------------------------------------- */

static struct op *send_piece(struct end *end, size_t at, size_t length)
{
    struct op *op = op_begin(end, EXS_EVT_SEND, end->socket);

    ssize_t result;

    do
        result = exs_send(end->socket, end->out + at, length, 0, end->queue, op, end->out_region);
    while (is_refused(end, result));
    return op_began(end, op, result);
}

static struct op *recv_piece(struct end *end, size_t at, size_t length)
{
    struct op *op = op_begin(end, EXS_EVT_RECV, end->socket);

    ssize_t result;

    do
        result = exs_recv(end->socket, end->in + at, length, MSG_WAITALL, end->queue, op, end->in_region);
    while (is_refused(end, result));
    return op_began(end, op, result);
}

static struct op *send_file(struct end *end, size_t at, size_t length)
{
    struct op *op = op_begin(end, EXS_EVT_SENDFILE, end->socket);
    exs_xferfile_t piece = by_fd(end->out_file, (off_t)at, length);

    int result;

    do
        result = exs_sendfile(end->socket, &piece, 1, 0, end->queue, op);
    while (is_refused(end, result));
    return op_began(end, op, result);
}

static struct op *recv_file(struct end *end, size_t at, size_t length)
{
    struct op *op = op_begin(end, EXS_EVT_RECVFILE, end->socket);
    exs_xferfile_t piece = by_fd(end->in_file, (off_t)at, length);

    int result;

    do
        result = exs_recvfile(end->socket, &piece, 1, 0, end->queue, op);
    while (is_refused(end, result));
    return op_began(end, op, result);
}

static exs_token_t token; /* of the peer's memory */

static struct op *write_piece(struct end *end, size_t at, size_t length)
{
    struct op *op = op_begin(end, EXS_EVT_RWRITE, end->socket);

    int result;

    do
        result = exs_rwrite(end->socket, end->out + at, length, &token, at, 0, end->queue, op, NULL);
    while (is_refused(end, result));
    return op_began(end, op, result);
}

static struct op *read_piece(struct end *end, size_t at, size_t length)
{
    struct op *op = op_begin(end, EXS_EVT_RREAD, end->socket);

    int result;

    do
        result = exs_rread(end->socket, end->in + at, length, &token, at, 0, end->queue, op, NULL);
    while (is_refused(end, result));
    return op_began(end, op, result);
}

/* ---- A flow of segments -------------------------------------------------------------- */

/* During a shortage a transfer of a file may end early. Its event says how far it came, and the next one
 * continues there. It must not have others behind it, which would leave a gap. */
static bool stands_alone(const struct end *end, start_fn *start)
{
    return is_short(end) && !end->victim && (start == send_file || start == recv_file);
}

/* Transfers segments in order, some at the same time. The moved bytes have no gaps. */
static bool flow(struct end *end, start_fn *start, size_t least, size_t most, size_t *moved)
{
    struct chance chance = {.state = end->point->seed + end->victim};
    struct op *ops[WINDOW];
    size_t total = TOTAL_OF(end), started = 0, wanted[WINDOW];
    unsigned first = 0, next = 0;
    bool good = true, alone = stands_alone(end, start);

    *moved = 0;
    while (first < next || (good && started < total)) {
        while (good && started < total && next - first < (alone ? 1 : WINDOW)) {
            size_t length = chance_size(&chance, least, most);
            length = length < total - started ? length : total - started;
            wanted[next % WINDOW] = length;
            ops[next++ % WINDOW] = start(end, started, length);
            started += length;
        }
        size_t length = 0;
        int error = op_wait(end, ops[first % WINDOW], &length);
        ck_assert_msg(length <= wanted[first % WINDOW], "%zu bytes of %zu", length, wanted[first % WINDOW]);
        if (!good)
            ck_assert_msg(length == 0 && (error != 0 || end->ended),
                          "behind the last one %zu bytes moved, errno %s", length, strerrorname_np(error));
        *moved += length;
        if (good && alone && error == end->cell->fault->error) {
            started -= wanted[first % WINDOW] - length;
            error = 0;
            poll(NULL, 0, 1);
        } else if (good && error == 0 && length < wanted[first % WINDOW])
            end->ended = true;
        good = good && end_good(end, error) && !end->ended;
        first++;
        atomic_fetch_add(&end->moved, length);
    }
    return good;
}

static void fill_out(struct end *end)
{
    pattern_fill(end->out, TOTAL_OF(end), end->point->seed, 0);
    memset(end->in, CANARY, TOTAL_OF(end));
}

static void check_in(const struct end *end, size_t moved)
{
    pattern_check(end->in, moved, end->point->seed, 0);
}

/* The receiver confirms that it has everything; then the sender need not wait any more. */
static bool agree(struct end *end)
{
    char byte = 'y';
    size_t got = 0;

    if (!is_sending(end))
        return end_good(end, end_send(end, &byte, 1));
    if (!end_good(end, end_recv(end, &byte, 1, &got)))
        return false;
    end->ended |= got == 0;
    return got == 1;
}

/* ---- The moments --------------------------------------------------------------------- */

/* The shortest use of a new connection. */
static bool run_connect(struct end *end)
{
    return agree(end);
}

/* Both ends wait until the fault has struck or, without a strike function, only briefly. */
static bool run_idle(struct end *end)
{
    char byte = 'i';
    size_t got = 0;

    if (end->victim) {
        struct op *op = op_begin(end, EXS_EVT_RECV, end->socket);

        op_began(end, op, exs_recv(end->socket, &byte, 1, MSG_WAITALL, end->queue, op, NULL));
        if (is_gone(end)) { /* its peer waits, too */
            end_good(end, op_wait(end, op, &got));
            return false;
        }
        trigger_wait(end);
        return end_good(end, end_send(end, "i", 1)) && end_good(end, op_wait(end, op, &got)) && got == 1;
    }
    if (!end_good(end, end_recv(end, &byte, 1, &got)) || got == 0) {
        end->ended |= end->error == 0;
        return false;
    }
    return end_good(end, end_send(end, &byte, 1));
}

static bool run_direct(struct end *end)
{
    size_t moved;

    fill_out(end);
    if (is_sending(end))
        return flow(end, send_piece, 1, 60000, &moved) && agree(end);
    bool good = flow(end, recv_piece, 4096, 60000, &moved);
    check_in(end, moved);
    return good && agree(end);
}

static bool run_recv_ring(struct end *end)
{
    size_t moved;

    fill_out(end);
    if (is_sending(end))
        return flow(end, send_piece, 1, 60000, &moved) && agree(end);
    bool good = flow(end, recv_piece, 1, SMALL, &moved);
    check_in(end, moved);
    return good && agree(end);
}

static bool run_sendfile(struct end *end)
{
    size_t moved;

    fill_out(end);
    ck_assert_int_eq(pwrite(end->out_file, end->out, TOTAL_OF(end), 0), TOTAL_OF(end));
    if (is_sending(end))
        return flow(end, send_file, 1, 60000, &moved) && agree(end);
    bool good = flow(end, recv_piece, 1, 60000, &moved);
    check_in(end, moved);
    return good && agree(end);
}

static bool run_recvfile(struct end *end)
{
    size_t moved;

    fill_out(end);
    if (is_sending(end))
        return flow(end, send_piece, 1, 60000, &moved) && agree(end);
    must(ftruncate(end->in_file, 0));
    bool good = flow(end, recv_file, 1, 60000, &moved);
    ck_assert_msg(pread(end->in_file, end->in, moved, 0) == (ssize_t)moved,
                  "the file has fewer bytes than told");
    check_in(end, moved);
    return good && agree(end);
}

/* The sender writes the peer's memory and reads it back. */
static bool run_onesided(struct end *end)
{
    size_t moved, total = TOTAL_OF(end), got;

    fill_out(end);
    if (!is_sending(end)) {
        atomic_store(&end->moved, total); /* its program is not involved */
        char byte;
        int result;

        do
            result = exs_mexport(end->socket, end->in_region, end->in, total,
                                 EXS_REMOTE_READ | EXS_REMOTE_WRITE, &token);
        while (is_refused(end, result));
        must(result);
        if (!end_good(end, end_send(end, &token, sizeof token)) ||
            !end_good(end, end_recv(end, &byte, 1, &got)))
            return false;
        end->ended |= got == 0;
        if (got == 1)
            check_in(end, total);
        return got == 1 && agree(end);
    }
    if (!end_good(end, end_recv(end, &token, sizeof token, &got)) || got < sizeof token) {
        end->ended |= end->error == 0;
        return false;
    }
    if (!flow(end, write_piece, 1, 60000, &moved))
        return false;
    bool good = flow(end, read_piece, 1, 60000, &moved);
    check_in(end, moved);
    return good && end_good(end, end_send(end, "x", 1)) && agree(end);
}

/* The sender shuts down its direction behind its bytes, then the other end does; both close. */
static bool run_close(struct end *end)
{
    size_t moved;

    fill_out(end);
    if (is_sending(end))
        return flow(end, send_piece, 1, 60000, &moved) && say_end(end) && hear_end(end);
    bool good = flow(end, recv_piece, 1, 60000, &moved);
    check_in(end, moved);
    return good && hear_end(end) && say_end(end);
}

const struct moment moment_rows[] = {
    {.name = "connect", .run = run_connect, .after = 3000, .setup = true},
    {.name = "idle", .run = run_idle, .after = 2000},
    {.name = "direct", .run = run_direct, .total = MIB, .after = 100},
    {.name = "recv_ring", .run = run_recv_ring, .total = 256 * KIB, .after = 100},
    {.name = "sendfile", .run = run_sendfile, .total = MIB, .after = 100},
    {.name = "recvfile", .run = run_recvfile, .total = MIB, .after = 100, .files = true},
    {.name = "one-sided", .run = run_onesided, .total = 512 * KIB, .after = 1000, .exports = true},
    {.name = "close", .run = run_close, .total = 100 * KIB, .after = 500, .closing = true},
};
const int moment_count = COUNT(moment_rows);
