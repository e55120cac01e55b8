/* SPDX-License-Identifier: BSD-2-Clause */
/* crowd_server.c - the crowd's server. It exchanges the first part with all peers, makes them end, and checks that each
 * connection ends as it must. See crowd.h. */
#include "crowd.h"
#include "check/support/processes.h"

#include <signal.h>

#define ACCEPTS 8 /* accept elements pending at the same time */
#define UNREAD 3000

static bool ends_as_the_cell(int child)
{
    return child % 2 == 0;
}

static bool stops(const struct cell *cell)
{
    return cell->ending == STOPS || cell->ending == STOPPED_KILLED || cell->ending == SILENT;
}

/* Nothing is sent to it while it is stopped. */
static bool is_idle(const struct line *line)
{
    return line->peer / MOST_CHILDREN % 3 == 1;
}

static bool is_stopped(const struct line *line)
{
    return stops(line->crowd->cell) && ends_as_the_cell(line->peer % children_of(line->crowd->cell));
}

/* ---- How a connection must end ------------------------------------------------------- */

static void expect_in(const struct line *line)
{
    const struct cell *cell = line->crowd->cell;
    size_t least = owed_up(cell), most;
    int want = ECONNRESET, end = line->in_end;

    if (line->ending != STOPPED_KILLED && line->ending != SILENT)
        least += owed_last(cell);
    most = least;
    if (line->ending == RESETS || (line->ending == KILLED && is_odd(line)))
        most += owed_never(cell);
    if (line->ending == CLOSES || line->ending == HALF_CLOSES || line->ending == STOPS)
        want = THE_END;
    if (line->ending == SILENT && !(is_idle(line) && end == ECONNRESET))
        want = ETIMEDOUT;
    expect(line->crowd, line->in_got >= least && line->in_got <= most && end == want,
           "peer %d: %zu bytes came, want %zu to %zu; then %s, want %s", line->peer, line->in_got, least, most,
           end == THE_END ? "the end" : strerrorname_np(end),
           want == THE_END ? "the end" : strerrorname_np(want));
}

static void expect_out(const struct line *line)
{
    bool unread = line->ending == CLOSES && is_odd(line), cut = is_stopped(line) && line->ending != STOPS;
    int error = line->out_end;

    if (cut && is_idle(line))
        cut = false;
    if (cut)
        expect(line->crowd, error == line->in_end, "peer %d: sends failed with %s, receives with %s",
               line->peer, strerrorname_np(error), strerrorname_np(line->in_end));
    else if (!unread || error == 0)
        expect(line->crowd, error == 0 && line->out_done == line->out_total,
               "peer %d: %zu of %zu sent, then %s", line->peer, line->out_done, line->out_total,
               strerrorname_np(error));
    else
        expect(line->crowd, error == EPIPE || error == ECONNRESET, "peer %d: sends failed with %s", line->peer,
               strerrorname_np(error));
}

/* Calls after the end return the same error, without waiting. */
static void expect_the_same_again(const struct line *line)
{
    bool can_be_buffered = line->crowd->cell->socktype == SOCK_STREAM;
    char byte = 0;
    ssize_t got = exs_blocking_recv(line->socket, &byte, 1, 0, NULL);
    int error = got == -1 ? errno : THE_END;

    expect(line->crowd, got <= 0 && error == line->in_end, "peer %d: a receive after the end: %zd, %s",
           line->peer, got, strerror(error));
    /* A peer that still receives while it closes may receive this byte. */
    if (line->ending == STOPS || (line->ending == CLOSES && !is_odd(line)))
        return;
    ssize_t sent = exs_blocking_send(line->socket, &byte, 1, 0, NULL);
    error = sent == -1 ? errno : 0;
    if (line->in_end != THE_END)
        expect(line->crowd, error == line->in_end, "peer %d: a send after %s: %s", line->peer,
               strerrorname_np(line->in_end), strerror(error));
    else if (line->ending == HALF_CLOSES)
        expect(line->crowd, error == EPIPE, "peer %d: a send after exs_shutdown: %s", line->peer,
               strerror(error));
    else
        expect(line->crowd, error == EPIPE || error == ECONNRESET || can_be_buffered,
               "peer %d: a send after its close: %s", line->peer, strerror(error));
}

void line_end(struct line *line)
{
    expect_in(line);
    expect_out(line);
    expect_the_same_again(line);
}

/* ---- Lines --------------------------------------------------------------------------- */

/* For some lines the last part is requested only after the peers have ended. With THREADS only a part that the peer
 * never completes is left unrequested: a connection that no thread waits on is not driven, so it would take in only a
 * few pieces. */
static size_t first_limit(const struct line *line)
{
    const struct cell *cell = line->crowd->cell;

    if (cell->way == THREADS)
        return line->ending == RESETS ? owed_up(cell) + owed_last(cell) : SIZE_MAX;
    return is_odd(line) || line->ending == RESETS ? owed_up(cell) : SIZE_MAX;
}

void line_known(struct line *line, int peer)
{
    struct crowd *crowd = line->crowd;
    const struct cell *cell = crowd->cell;

    expect(crowd, peer >= 0 && peer < cell->peers, "peer %d says hello", peer);
    for (int i = 0; i < crowd->count; i++)
        expect(crowd, crowd->lines[i].peer != peer, "peer %d says hello twice", peer);
    line->peer = peer;
    line->ending = ending_of(cell, peer);
    line->out_total = owed_down(cell);
    line->in_limit = first_limit(line);
}

static void go_on_to_the_end(struct line *line)
{
    if (line->crowd->cell->way == THREADS || line->peer == -1 || line->closing)
        return;
    line_go_on(line);
    bool answers = line->ending == HALF_CLOSES && line->in_end == THE_END;
    if (answers && !line->answered) {
        line->answered = true;
        line->out_total += owed_last(line->crowd->cell);
        line_go_on(line);
    }
    if (!line->in_end || line->receives || line->sends)
        return;
    if (answers && !line->shutting)
        line_shut(line);
    if (line->shutting && !line->shut)
        return;
    line_end(line);
    line_close(line);
}

static void go_on_with_all(struct crowd *crowd)
{
    for (int i = 0; i < crowd->count; i++)
        go_on_to_the_end(&crowd->lines[i]);
    pthread_cond_broadcast(&crowd->more);
}

/* ---- Events -------------------------------------------------------------------------- */

static void accept_one_more(struct crowd *crowd)
{
    struct op *op = op_new(crowd, NULL, EXS_EVT_ACCEPT, 0);

    op->element.exs_ahandle = op;
    crowd->accepts++;
    must(exs_accept(crowd->listener, &op->element, 1, 0, crowd->queue));
}

static void ask_for_hello(struct line *line)
{
    struct op *op = op_new(line->crowd, line, EXS_EVT_RECV, HELLO);

    op->hello = true;
    op->buffer = new_buffer(HELLO);
    must(exs_recv(line->socket, op->buffer, HELLO, line->crowd->cell->socktype == SOCK_STREAM ? MSG_WAITALL : 0,
                  line->crowd->queue, op, NULL));
}

static void accepted(struct crowd *crowd, struct op *op, const exs_event_t *event)
{
    int socket = event->exs_evt_union.exs_evt_accept.exs_evt_newsocket;

    expect(crowd, event->exs_evt_errno == 0, "accept: %s", strerror(event->exs_evt_errno));
    expect(crowd, socket == op->element.exs_socket, "accept: %d and %d", socket, op->element.exs_socket);
    line_open(crowd, socket, -1);
    ask_for_hello(&crowd->lines[crowd->count - 1]);
    if (crowd->accepts < crowd->cell->peers)
        accept_one_more(crowd);
}

static void hello_came(struct op *op, const exs_event_t *event)
{
    uint64_t peer;

    expect(op->line->crowd, event->exs_evt_errno == 0, "hello: %s", strerror(event->exs_evt_errno));
    expect(op->line->crowd, event->exs_evt_union.exs_evt_xfer.exs_evt_length == HELLO, "a short hello");
    memcpy(&peer, op->buffer, HELLO);
    line_known(op->line, (int)peer);
}

static void handle_event(struct crowd *crowd, struct op *op, const exs_event_t *event)
{
    if (op->type == EXS_EVT_ACCEPT) {
        accepted(crowd, op, event);
    } else if (!op->line) {
        crowd->listener_closed = true;
    } else {
        if (op->hello)
            hello_came(op, event);
        else
            line_event(op, event);
        go_on_to_the_end(op->line);
    }
}

/* ---- The course of a cell ------------------------------------------------------------ */

static bool has_first_part(const struct line *line)
{
    const struct cell *cell = line->crowd->cell;

    return line->peer >= 0 && line->in_got >= owed_up(cell) && line->out_done >= owed_down(cell);
}

static bool is_closed(const struct line *line)
{
    return line->closed;
}

static bool is_broken_or_lives(const struct line *line)
{
    return !is_stopped(line) || is_idle(line) || (line->in_end && line->out_end);
}

static void start_children(struct crowd *crowd, struct peer_task *tasks, const struct cell *cell)
{
    crowd->child_count = children_of(cell);
    for (int i = 0; i < crowd->child_count; i++) {
        tasks[i] = (struct peer_task){.cell = cell, .child = i};
        child_start(&crowd->children[i], crowd_peer, &tasks[i]);
    }
}

static void bid_end(struct crowd *crowd, int child)
{
    way_listen(crowd, child);
    tell(crowd->children[child].fd, "e", 1);
}

static void kill_child(struct crowd *crowd, int child)
{
    child_kill(&crowd->children[child]);
    crowd->gone[child] = true;
}

static void signal_those(struct crowd *crowd, int signal)
{
    for (int i = 0; i < crowd->child_count; i += 2) {
        if (signal == SIGKILL) {
            kill_child(crowd, i);
            continue;
        }
        if (signal == SIGSTOP) {
            process_stop(crowd->children[i].pid);
            continue;
        }
        must(kill(crowd->children[i].pid, signal));
        bid_end(crowd, i);
    }
}

/* Sends to peers that are stopped or do not receive. */
static void send_what_waits(struct crowd *crowd)
{
    const struct cell *cell = crowd->cell;

    for (int i = 0; i < crowd->count; i++) {
        struct line *line = &crowd->lines[i];
        if (is_stopped(line) && !is_idle(line))
            line->out_total += owed_last(cell);
        else if (line->ending == CLOSES && is_odd(line) && cell->socktype == SOCK_STREAM)
            line->out_total += UNREAD;
        if (line->in_limit == owed_up(cell) && cell->socktype == SOCK_SEQPACKET)
            /* On a SEQPACKET a message is sent only when the receiver has requested it. */
            line->in_limit += owed_last(cell);
    }
    go_on_with_all(crowd);
}

static void wait_in_silence(struct crowd *crowd)
{
    const struct cell *cell = crowd->cell;
    double start = seconds_now();

    if (cell->ending == SILENT) {
        crowd_wait(crowd, is_broken_or_lives, "the silence to be noticed");
        double took = seconds_now() - start;
        expect(crowd, took > 1.9, "a silent peer was given up after %.1f s", took);
    } else {
        double until = start + cell->silence;

        while (seconds_now() < until && way_turn(crowd, until)) /* regardless of events of the other peers */
            ;
    }
    signal_those(crowd, cell->ending == STOPS ? SIGCONT : SIGKILL);
}

static void end_all(struct crowd *crowd)
{
    const struct cell *cell = crowd->cell;

    if (stops(cell))
        signal_those(crowd, SIGSTOP);
    send_what_waits(crowd);
    for (int i = 0; i < crowd->child_count; i++)
        if (!stops(cell) || !ends_as_the_cell(i))
            bid_end(crowd, i);
    if (stops(cell))
        wait_in_silence(crowd);
    for (double until = crowd_bound(); crowd->awaited;)
        crowd_turn(crowd, until, "the peers to have sent all");
    if (cell->ending == KILLED)
        signal_those(crowd, SIGKILL);
    for (int i = 0; i < crowd->count; i++)
        crowd->lines[i].in_limit = SIZE_MAX;
    go_on_with_all(crowd);
    crowd_wait(crowd, is_closed, "the lines to be closed");
}

static void close_listener(struct crowd *crowd)
{
    if (crowd->cell->way == THREADS) {
        threads_join(crowd);
        must(exs_blocking_close(crowd->listener));
        return;
    }
    must(exs_close(crowd->listener, 0, crowd->queue, op_new(crowd, NULL, EXS_EVT_CLOSE, 0)));
    for (double until = crowd_bound(); !crowd->listener_closed;)
        crowd_turn(crowd, until, "the listener to be closed");
}

static struct crowd served; /* one per process */

static void handle_servers_event(struct op *op, const exs_event_t *event)
{
    handle_event(&served, op, event);
}

void crowd_serve(const struct cell *cell)
{
    struct peer_task tasks[MOST_CHILDREN];
    struct crowd *crowd = &served;

    start_children(crowd, tasks, cell);
    init_library();
    crowd_open(crowd, cell, true);
    crowd->handle = handle_servers_event;
    crowd->due = cell->peers;
    way_open(crowd);
    crowd->listener = open_listener(AF_INET, cell->socktype, cell->peers, &crowd->address);
    if (cell->way != THREADS)
        while (crowd->accepts < cell->peers && crowd->accepts < ACCEPTS)
            accept_one_more(crowd);
    for (int i = 0; i < crowd->child_count; i++)
        tell(crowd->children[i].fd, &crowd->address, sizeof crowd->address);
    if (cell->way == THREADS)
        threads_accept(crowd);
    crowd_wait(crowd, has_first_part, "the first part");
    end_all(crowd);
    close_listener(crowd);
    for (int i = 0; i < crowd->child_count; i++)
        if (!crowd->gone[i])
            child_join(&crowd->children[i]);
    crowd_close(crowd);
}
