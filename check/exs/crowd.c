/* SPDX-License-Identifier: BSD-2-Clause */
/* crowd.c - what server and peers share: a queue, a count of events for each operation, and waits with a time limit.
 * See crowd.h. */
#include "crowd.h"

#include <stdarg.h>

int children_of(const struct cell *cell)
{
    return cell->peers < MOST_CHILDREN ? cell->peers : MOST_CHILDREN;
}

enum ending ending_of(const struct cell *cell, int peer)
{
    return peer % children_of(cell) % 2 ? CLOSES : cell->ending;
}

void crowd_fail(const struct crowd *crowd, const char *condition, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* Output of a peer process reaches the test runner too, but only its first line is kept. */
    if (!crowd->server)
        fprintf(stderr, "%s: a peer: %s (%s)\n", crowd->cell->name, text, condition);
    ck_abort_msg("%s: %s: %s (%s)", crowd->cell->name, crowd->server ? "server" : "a peer", text, condition);
}

/* Opens and closes one connection before descriptors are counted: a device stays open after its first use, and a thread
 * keeps the descriptor that it once slept on. */
static void use_once(int socktype)
{
    struct pair pair;
    char byte;

    pair_open(&pair, AF_INET, socktype);
    pass_bytes(pair.client_box, pair.client, pair.server_box, pair.server, 1, 1);
    must(exs_shutdown(pair.client, SHUT_WR, EXS_BLOCK, NULL, NULL));
    ck_assert_int_eq(exs_blocking_recv(pair.server, &byte, 1, 0, NULL), 0);
    pair_close(&pair);
}

void crowd_open(struct crowd *crowd, const struct cell *cell, bool server)
{
    use_once(cell->socktype);
    int fds = count_fds() - crowd->child_count;

    crowd->cell = cell;
    crowd->server = server;
    crowd->fds = fds;
    pthread_mutex_init(&crowd->lock, NULL);
    pthread_cond_init(&crowd->more, NULL);
    pthread_mutex_lock(&crowd->lock);
    crowd->queue = exs_qcreate(4);
    ck_assert(crowd->queue != EXS_QHANDLE_INVALID);
}

/* Fails unless every operation has had its event, no event is left, and the process has as many descriptors as
 * before. */
void crowd_close(struct crowd *crowd)
{
    exs_event_t none;

    expect(crowd, exs_qdequeue(crowd->queue, &none, 1, &(struct timeval){0}) == 0, "an event too many: %s",
           exs_strevent(none.exs_evt_type));
    while (crowd->ops) {
        struct op *op = crowd->ops;
        crowd->ops = op->next;
        expect(crowd, op->events == 1, "%s has had %d events", exs_strevent(op->type), op->events);
        free(op->buffer);
        free(op);
    }
    way_close(crowd);
    expect(crowd, exs_qdelete(crowd->queue) == 0, "exs_qdelete: %s", strerror(errno));
    int fds = count_fds();
    expect(crowd, fds == crowd->fds, "%d descriptors, were %d", fds, crowd->fds);
    pthread_mutex_unlock(&crowd->lock);
}

void crowd_event(struct crowd *crowd, const exs_event_t *event)
{
    op_done(event->exs_evt_ahandle, event);
    crowd->handle(event->exs_evt_ahandle, event);
}

double crowd_bound(void)
{
    return seconds_now() + WAIT_MS / 3e3;
}

static const char *told_end(int end)
{
    return end == THE_END ? "at its end" : end == 0 ? "open" : strerrorname_np(end);
}

static void fail_late(const struct crowd *crowd, const struct line *line, const char *what)
{
    crowd_fail(
        crowd, "in time",
        "waited too long for %s; %d of %d lines; peer %d: received %zu (asked for %zu, %d receives, %s), "
        "sent %zu of %zu (%d sends, %s)%s%s",
        what, crowd->count, crowd->due, line->peer, line->in_got, line->in_asked, line->receives,
        told_end(line->in_end), line->out_done, line->out_total, line->sends, told_end(line->out_end),
        line->closing ? ", is closing" : "", line->closed ? ", is closed" : "");
}

static const struct line *first_not(const struct crowd *crowd, bool (*over)(const struct line *line))
{
    for (int i = 0; i < crowd->count; i++)
        if (!over(&crowd->lines[i]))
            return &crowd->lines[i];
    return crowd->count == crowd->due ? NULL : &crowd->lines[0];
}

void crowd_wait(struct crowd *crowd, bool (*over)(const struct line *line), const char *what)
{
    double until = crowd_bound();
    const struct line *open;

    while ((open = first_not(crowd, over)))
        if (!way_turn(crowd, until) && (open = first_not(crowd, over)))
            fail_late(crowd, open, what);
}

void crowd_turn(struct crowd *crowd, double until, const char *what)
{
    if (!way_turn(crowd, until))
        crowd_fail(crowd, "in time", "waited too long for %s", what);
}

void crowd_hear(struct crowd *crowd, int child)
{
    char said;

    way_ignore(crowd, child);
    expect(crowd, recv(crowd->children[child].fd, &said, 1, MSG_DONTWAIT) == 1, "child %d ended early", child);
    crowd->heard[child] = true;
}
