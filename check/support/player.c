/* SPDX-License-Identifier: BSD-2-Clause */
/* player.c - see player.h. Each round posts a receive and a send, and ends when both events have arrived. */
#include "player.h"

static void player_send(struct player *p)
{
    pattern_fill(p->out, p->size, (uint64_t)p->rounds, 0);
    p->owed_send = true;
    must(exs_send(p->socket, p->out, p->size, 0, p->queue, p, NULL));
}

static void player_start_round(struct player *p)
{
    if (p->rounds == 0)
        return;
    p->size = chance_size(&p->sizes, 1, p->most);
    bool send_first = chance_below(&p->sizes, 2) && !p->serves;
    if (send_first)
        player_send(p);
    p->owed_recv = true;
    must(exs_recv(p->socket, p->in, p->size, MSG_WAITALL, p->queue, p, NULL));
    if (!p->serves && !send_first)
        player_send(p);
}

void player_open(struct player *p, int socket, exs_qhandle_t queue, bool serves, int rounds, size_t most,
                 uint64_t seed)
{
    *p = (struct player){.socket = socket,
                         .queue = queue,
                         .serves = serves,
                         .rounds = rounds,
                         .most = most,
                         .sizes = {seed},
                         .out = new_buffer(most),
                         .in = new_buffer(most)};
    player_start_round(p);
}

bool player_is_over(const struct player *p)
{
    return p->rounds == 0;
}

void player_close(struct player *p)
{
    ck_assert_int_eq(p->rounds, 0);
    free(p->out);
    free(p->in);
}

void player_event(struct player *p, const exs_event_t *event)
{
    const exs_evt_xfer_t *xfer = &event->exs_evt_union.exs_evt_xfer;
    bool is_send = event->exs_evt_type == EXS_EVT_SEND;

    ck_assert_msg(is_send || event->exs_evt_type == EXS_EVT_RECV, "a player got a %s",
                  exs_strevent(event->exs_evt_type));
    ck_assert_msg(event->exs_evt_errno == 0, "%s failed: %s", exs_strevent(event->exs_evt_type),
                  strerror(event->exs_evt_errno));
    ck_assert_msg(is_send ? p->owed_send : p->owed_recv, "nobody is owed this %s",
                  exs_strevent(event->exs_evt_type));
    ck_assert_int_eq(event->exs_evt_socket, p->socket);
    ck_assert_ptr_eq(xfer->exs_evt_buffer, is_send ? p->out : p->in);
    ck_assert_uint_eq(xfer->exs_evt_length, p->size);
    if (is_send) {
        p->owed_send = false;
    } else {
        p->owed_recv = false;
        pattern_check(p->in, p->size, (uint64_t)p->rounds, 0);
        if (p->serves)
            player_send(p);
    }
    if (p->owed_send || p->owed_recv)
        return;
    p->rounds--;
    player_start_round(p);
}
