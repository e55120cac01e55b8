/* SPDX-License-Identifier: BSD-2-Clause */
/* crowd_line.c - a line of the crowd: what it sends, what it expects to receive, and its operations. See crowd.h. */
#include "crowd.h"

#include <stdarg.h>

/* ---- What each side sends ------------------------------------------------------------ */

size_t owed_up(const struct cell *cell)
{
    return cell->large ? 400000 : 20000;
}

size_t owed_down(const struct cell *cell)
{
    return cell->large ? 300000 : 15000;
}

/* Must fit into the ring buffer of a STREAM, because the receiver may request it late. */
size_t owed_last(const struct cell *cell)
{
    return cell->large ? 150000 : 5000;
}

static size_t longest_piece(const struct cell *cell)
{
    return cell->large ? 100000 : 900;
}

size_t owed_never(const struct cell *cell)
{
    return cell->socktype == SOCK_STREAM ? MIB : longest_piece(cell);
}

bool is_odd(const struct line *line)
{
    return line->peer & 1;
}

static uint64_t direction_seed(const struct line *line, bool up)
{
    return (uint64_t)line->peer * 2 + up;
}

/* The position where the part ends that contains byte `at`. */
static size_t end_of_part(const struct cell *cell, bool up, size_t at)
{
    size_t first = up ? owed_up(cell) : owed_down(cell), last = first + owed_last(cell);

    return at < first ? first : at < last ? last : last + owed_never(cell);
}

static size_t length_from_chance(const struct line *line, bool up, size_t at, size_t most)
{
    struct chance chance = {(direction_seed(line, up) << 32) + at};

    return chance_size(&chance, 1, most);
}

/* The length of the piece that starts at byte `at`; on a SEQPACKET it is one message. */
static size_t piece_length(const struct line *line, bool up, size_t at)
{
    const struct cell *cell = line->crowd->cell;
    size_t rest = end_of_part(cell, up, at) - at, most = longest_piece(cell);

    if (rest == owed_never(cell))
        return rest;
    size_t length = length_from_chance(line, up, at, most);
    return length < rest ? length : rest;
}

/* ---- Operations ---------------------------------------------------------------------- */

struct op *op_new(struct crowd *crowd, struct line *line, int type, size_t length)
{
    struct op *op = calloc(1, sizeof *op);

    ck_assert_ptr_nonnull(op);
    *op = (struct op){.self = op, .next = crowd->ops, .line = line, .type = type, .length = length};
    crowd->ops = op;
    if (line)
        op->number = line->started[type]++;
    return op;
}

void op_forget(struct op *op)
{
    op->events = 1;
    if (op->line)
        op->line->started[op->type]--;
    free(op->buffer);
    op->buffer = NULL;
}

/* An operation has exactly one event: of its type, on its socket, in the order of submission. */
void op_done(struct op *op, const exs_event_t *event)
{
    struct line *line = op->line;
    const exs_evt_xfer_t *moved = &event->exs_evt_union.exs_evt_xfer;

    ck_assert_msg(op->self == op, "an event %s has an ahandle that nobody gave",
                  exs_strevent(event->exs_evt_type));
    ck_assert_msg(op->events++ == 0, "an operation has a second event: %s", exs_strevent(op->type));
    ck_assert_msg(event->exs_evt_type == op->type, "an event is %s, the operation was %s",
                  exs_strevent(event->exs_evt_type), exs_strevent(op->type));
    if (!line)
        return;
    expect(line->crowd, event->exs_evt_socket == line->socket, "%s: on socket %d, not %d",
           exs_strevent(op->type), event->exs_evt_socket, line->socket);
    expect(line->crowd, op->number == line->finished[op->type]++, "%s of peer %d: number %u out of turn",
           exs_strevent(op->type), line->peer, op->number);
    if (op->type != EXS_EVT_SEND && op->type != EXS_EVT_RECV)
        return;
    expect(line->crowd, moved->exs_evt_buffer == op->buffer, "%s: another buffer", exs_strevent(op->type));
    expect(line->crowd, moved->exs_evt_length <= op->length, "%s: %zu of %zu bytes", exs_strevent(op->type),
           moved->exs_evt_length, op->length);
    bool ends = op->type == EXS_EVT_RECV && event->exs_evt_errno == 0 && moved->exs_evt_length == 0;

    expect(line->crowd, moved->exs_evt_flags == (ends ? EXS_EOF : 0), "%s of %zu bytes: flags %#x",
           exs_strevent(op->type), moved->exs_evt_length, (unsigned)moved->exs_evt_flags);
}

/* ---- Receiving ----------------------------------------------------------------------- */

size_t line_next_receive(const struct line *line)
{
    const struct crowd *crowd = line->crowd;
    size_t most = longest_piece(crowd->cell), room = line->in_limit - line->in_asked;

    if (line->in_end || line->in_refused || line->closing || line->receives == WINDOW ||
        line->in_asked >= line->in_limit)
        return 0;
    if (crowd->cell->socktype == SOCK_SEQPACKET)
        return most;
    size_t length = length_from_chance(line, crowd->server, line->in_asked + 1000000007, most);
    return length < room ? length : room;
}

/* How many bytes a receive of this length will return at least: on a SEQPACKET, the length of the next message. */
static size_t bytes_asked(const struct line *line, size_t length)
{
    return line->crowd->cell->socktype == SOCK_STREAM ? length
                                                      : piece_length(line, line->crowd->server, line->in_asked);
}

void line_received(struct line *line, const char *buffer, size_t asked, size_t length, int error)
{
    struct crowd *crowd = line->crowd;

    expect(crowd, line->in_end == 0 || length == 0, "peer %d: %zu bytes after the end", line->peer, length);
    if (crowd->cell->socktype == SOCK_SEQPACKET && length)
        expect(crowd, length == piece_length(line, crowd->server, line->in_got),
               "peer %d: a message of %zu bytes where one of %zu was due", line->peer, length,
               piece_length(line, crowd->server, line->in_got));
    pattern_check(buffer, length, direction_seed(line, crowd->server), line->in_got);
    line->in_got += length;
    if (crowd->cell->socktype == SOCK_STREAM)
        line->in_asked -= asked - length;
    if (error == ECANCELED && line->closing)
        return;
    if (error || length == 0) {
        int end = error ? error : THE_END;
        expect(crowd, line->in_end == 0 || line->in_end == end, "peer %d: the end is %d, was %d", line->peer,
               end, line->in_end);
        line->in_end = end;
    }
}

/* All of its bytes are in the first part. */
static bool can_wait_for_all(const struct line *line, size_t length)
{
    const struct cell *cell = line->crowd->cell;

    return cell->socktype == SOCK_STREAM &&
           line->in_asked + length <= (line->crowd->server ? owed_up(cell) : owed_down(cell));
}

/* Receives that were started before may still have events, perhaps with bytes. */
static void end_if_refused(struct line *line)
{
    if (!line->in_refused || line->receives)
        return;
    expect(line->crowd, line->in_end == 0 || line->in_end == line->in_refused, "peer %d: exs_recv: %s",
           line->peer, strerror(line->in_refused));
    line->in_end = line->in_refused;
}

static bool start_receive(struct line *line)
{
    size_t length = line_next_receive(line);

    if (!length)
        return false;
    struct op *op = op_new(line->crowd, line, EXS_EVT_RECV, length);
    int flags = can_wait_for_all(line, length) && length % 4 == 0 ? MSG_WAITALL : 0;
    op->buffer = new_buffer(length);
    if (exs_recv(line->socket, op->buffer, length, flags, line->crowd->queue, op, NULL) == -1) {
        line->in_refused = errno;
        op_forget(op);
        end_if_refused(line);
        return false;
    }
    line->in_asked += bytes_asked(line, length);
    line->receives++;
    return true;
}

/* ---- Sending ------------------------------------------------------------------------- */

size_t line_next_send(const struct line *line)
{
    if (line->out_end || line->closing || line->sends == WINDOW || line->out_started >= line->out_total)
        return 0;
    size_t length = piece_length(line, !line->crowd->server, line->out_started);
    size_t rest = line->out_total - line->out_started;
    return length < rest ? length : rest;
}

char *line_piece(const struct line *line, size_t length)
{
    char *piece = new_buffer(length);

    pattern_fill(piece, length, direction_seed(line, !line->crowd->server), line->out_started);
    return piece;
}

void line_sent(struct line *line, size_t length, int error)
{
    line->out_done += length;
    if (error && !(error == ECANCELED && line->closing))
        line->out_end = error;
}

static bool start_send(struct line *line)
{
    size_t length = line_next_send(line);

    if (!length)
        return false;
    struct op *op = op_new(line->crowd, line, EXS_EVT_SEND, length);
    op->buffer = line_piece(line, length);
    if (exs_send(line->socket, op->buffer, length, 0, line->crowd->queue, op, NULL) == -1) {
        line->out_end = errno;
        op_forget(op);
        return false;
    }
    line->out_started += length;
    line->sends++;
    return true;
}

/* ---- Both directions ----------------------------------------------------------------- */

void line_open(struct crowd *crowd, int socket, int peer)
{
    expect(crowd, crowd->count < crowd->cell->peers, "a connection too many");
    crowd->lines[crowd->count++] = (struct line){.crowd = crowd, .socket = socket, .peer = peer};
}

void line_go_on(struct line *line)
{
    if (line->peer == -1 || (line->crowd->server && line->crowd->cell->way == THREADS))
        return;
    while (start_receive(line) || start_send(line))
        ;
}

void line_event(struct op *op, const exs_event_t *event)
{
    struct line *line = op->line;
    size_t length = event->exs_evt_union.exs_evt_xfer.exs_evt_length;
    int error = event->exs_evt_errno;

    switch (op->type) {
    case EXS_EVT_RECV:
        line->receives--;
        line_received(line, op->buffer, op->length, length, error);
        end_if_refused(line);
        break;
    case EXS_EVT_SEND:
        line->sends--;
        expect(line->crowd, error || length == op->length, "peer %d: %zu of %zu bytes sent, and no error",
               line->peer, length, op->length);
        line_sent(line, length, error);
        break;
    case EXS_EVT_SHUTDOWN:
        expect(line->crowd, error == 0, "peer %d: exs_shutdown: %s", line->peer, strerror(error));
        line->shut = true;
        break;
    case EXS_EVT_CLOSE:
        expect(line->crowd, error == 0, "peer %d: exs_close: %s", line->peer, strerror(error));
        expect(line->crowd, line->sends == 0 && line->receives == 0,
               "peer %d: closed before %d sends and %d receives", line->peer, line->sends, line->receives);
        line->closed = true;
    }
    free(op->buffer);
    op->buffer = NULL;
}

void line_close(struct line *line)
{
    struct op *op = op_new(line->crowd, line, EXS_EVT_CLOSE, 0);

    line->closing = true;
    must(exs_close(line->socket, 0, line->crowd->queue, op));
}

void line_shut(struct line *line)
{
    struct op *op = op_new(line->crowd, line, EXS_EVT_SHUTDOWN, 0);

    line->shutting = true;
    must(exs_shutdown(line->socket, SHUT_WR, 0, line->crowd->queue, op));
}
