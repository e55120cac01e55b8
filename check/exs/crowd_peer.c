/* SPDX-License-Identifier: BSD-2-Clause */
/* crowd_peer.c - a process that runs some of the crowd's peers. See crowd.h. */
#include "crowd.h"

static void connect_peer(struct crowd *crowd, int peer)
{
    const struct cell *cell = crowd->cell;
    int socket = exs_socket(PF_INET, cell->socktype, 0);

    must(socket);
    line_open(crowd, socket, peer);
    struct line *line = &crowd->lines[crowd->count - 1];
    line->ending = ending_of(cell, peer);
    line->out_total = owed_up(cell);
    /* Peers with an odd number close with unread bytes, the others with receives in progress. */
    line->in_limit = line->ending == CLOSES && is_odd(line) ? owed_down(cell) : SIZE_MAX;
    must(exs_connect(socket, SA(&crowd->address), crowd->address.length, 0, NULL, crowd->queue,
                     op_new(crowd, line, EXS_EVT_CONNECT, 0)));
}

static void say_hello(struct line *line)
{
    struct op *op = op_new(line->crowd, line, EXS_EVT_SEND, HELLO);
    uint64_t peer = (uint64_t)line->peer;

    op->hello = true;
    op->buffer = new_buffer(HELLO);
    memcpy(op->buffer, &peer, HELLO);
    must(exs_send(line->socket, op->buffer, HELLO, 0, line->crowd->queue, op, NULL));
}

static void handle_peers_event(struct op *op, const exs_event_t *event)
{
    struct line *line = op->line;

    if (op->type == EXS_EVT_CONNECT || op->hello) {
        expect(line->crowd, event->exs_evt_errno == 0, "peer %d: %s: %s", line->peer, exs_strevent(op->type),
               strerror(event->exs_evt_errno));
        if (!op->hello)
            say_hello(line);
    } else {
        line_event(op, event);
        if (!line->closing)
            expect(line->crowd, line->in_end <= 0 && line->out_end == 0, "peer %d: receives %s, sends %s",
                   line->peer, strerrorname_np(line->in_end), strerrorname_np(line->out_end));
    }
    line_go_on(line);
}

/* ---- What the peers wait for --------------------------------------------------------- */

static bool has_first_part(const struct line *line)
{
    return line->out_done == owed_up(line->crowd->cell) && line->in_got >= owed_down(line->crowd->cell);
}

static bool has_sent(const struct line *line)
{
    return line->out_done == line->out_total;
}

/* The server has sent no second part to those that it left idle while they were stopped. */
static bool has_second_part(const struct line *line)
{
    size_t first = owed_down(line->crowd->cell);

    return line->in_got == first + owed_last(line->crowd->cell) ||
           (line->ending == STOPS && line->peer / MOST_CHILDREN % 3 == 1 && line->in_got == first);
}

static bool has_the_end(const struct line *line)
{
    return line->in_end != 0;
}

static bool is_shut(const struct line *line)
{
    return line->shut;
}

static bool is_closed(const struct line *line)
{
    return line->closed;
}

/* ---- How the peers end --------------------------------------------------------------- */

static void send_more(struct crowd *crowd, size_t length)
{
    for (int i = 0; i < crowd->count; i++) {
        crowd->lines[i].out_total += length;
        line_go_on(&crowd->lines[i]);
    }
}

static void close_all(struct crowd *crowd)
{
    for (int i = 0; i < crowd->count; i++)
        line_close(&crowd->lines[i]);
    crowd_wait(crowd, is_closed, "the close of its sockets");
}

static void half_close(struct crowd *crowd, int fd)
{
    for (int i = 0; i < crowd->count; i++)
        line_shut(&crowd->lines[i]);
    crowd_wait(crowd, is_shut, "exs_shutdown");
    tell(fd, "s", 1);
    crowd_wait(crowd, has_second_part, "the answer");
    crowd_wait(crowd, has_the_end, "the end of the answer");
    close_all(crowd);
}

static void wait_for_death(struct crowd *crowd, int fd)
{
    for (int i = 0; i < crowd->count; i++)
        if (is_odd(&crowd->lines[i])) {
            crowd->lines[i].out_total += owed_never(crowd->cell);
            line_go_on(&crowd->lines[i]);
        }
    tell(fd, "s", 1);
    for (;;)
        pause();
}

static void reset_all(struct crowd *crowd, int fd)
{
    send_more(crowd, owed_never(crowd->cell));
    close_all(crowd);
    tell(fd, "s", 1);
}

static void end_as(struct crowd *crowd, int fd, enum ending ending)
{
    send_more(crowd, owed_last(crowd->cell));
    crowd_wait(crowd, has_sent, "the second part to be sent");
    if (ending == STOPS)
        crowd_wait(crowd, has_second_part, "what came while it was stopped");
    if (ending == HALF_CLOSES) {
        half_close(crowd, fd);
    } else if (ending == KILLED) {
        wait_for_death(crowd, fd);
    } else if (ending == RESETS) {
        reset_all(crowd, fd);
    } else {
        tell(fd, "s", 1);
        close_all(crowd);
    }
}

void crowd_peer(int fd, void *arg)
{
    static struct crowd crowd;
    const struct peer_task *task = arg;
    const struct cell *cell = task->cell;
    char bid;

    init_library();
    crowd_open(&crowd, cell, false);
    crowd.handle = handle_peers_event;
    way_open(&crowd);
    hear(fd, &crowd.address, sizeof crowd.address);
    for (int peer = task->child; peer < cell->peers; peer += children_of(cell))
        crowd.due++;
    for (int peer = task->child; peer < cell->peers; peer += children_of(cell))
        connect_peer(&crowd, peer);
    crowd_wait(&crowd, has_first_part, "the first part");
    hear(fd, &bid, 1);
    end_as(&crowd, fd, ending_of(cell, task->child));
    crowd_close(&crowd);
}
