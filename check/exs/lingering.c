/* SPDX-License-Identifier: BSD-2-Clause */
/* lingering.c - see lingering.h. */
#include "lingering.h"

void set_linger(int socket, int on, int seconds)
{
    struct linger wanted = {.l_onoff = on, .l_linger = seconds}, held;
    socklen_t length = sizeof held;

    must(exs_setsockopt(socket, SOL_SOCKET, SO_LINGER, &wanted, sizeof wanted));
    must(exs_getsockopt(socket, SOL_SOCKET, SO_LINGER, &held, &length));
    ck_assert_uint_eq(length, sizeof held);
    ck_assert_int_eq(held.l_onoff, on != 0);
    ck_assert_int_eq(held.l_linger, seconds);
}

/* Long, short, long. The short send is copied when it is its turn to be sent. */
size_t length_of(int send)
{
    return send == 1 ? 100 : LENGTH;
}

uint8_t *send_all(struct pair *pair)
{
    uint8_t *out = new_buffer(SENDS * LENGTH);

    for (int i = 0; i < SENDS; i++) {
        pattern_fill(out + i * LENGTH, length_of(i), (uint64_t)i, 0);
        must(exs_send(pair->client, out + i * LENGTH, length_of(i), 0, pair->client_box->queue,
                      out + i * LENGTH, NULL));
    }
    return out;
}

void ends(struct inbox *box, int type, const void *ahandle, int error)
{
    while (box->count == 0)
        inbox_pump(box, WAIT_MS);
    ck_assert_str_eq(exs_strevent(box->kept[0].exs_evt_type), exs_strevent(type));
    exs_event_t event = take_failed(box, type, -1, error);
    ck_assert_ptr_eq(event.exs_evt_ahandle, ahandle);
}

void client_ends(struct pair *pair, const uint8_t *out, int send_error, int close_error)
{
    for (int i = 0; i < SENDS; i++)
        ends(pair->client_box, EXS_EVT_SEND, out + i * LENGTH, send_error);
    ends(pair->client_box, EXS_EVT_CLOSE, pair, close_error);
    inbox_quiet(pair->client_box, QUIET_MS);
}

void close_client(struct pair *pair, int flags)
{
    must(exs_close(pair->client, flags, pair->client_box->queue, pair));
    must_fail(exs_send(pair->client, "x", 1, 0, pair->client_box->queue, NULL, NULL), EBADF);
}

void close_server(struct pair *pair)
{
    close_socket(pair->server_box, pair->server);
    pair_close_rest(pair);
}

/* Starts more reads of the peer's memory than can be in progress at once. */
uint8_t *read_all(struct pair *pair, uint8_t *there)
{
    uint8_t *here = new_buffer(READS * READ);
    exs_mhandle_t region = exs_mregister(there, READ, 0);
    exs_token_t token;

    ck_assert_ptr_ne(region, EXS_MHANDLE_INVALID);
    must(exs_mexport(pair->server, region, there, READ, EXS_REMOTE_READ, &token));
    pattern_fill(there, READ, 5, 0);
    for (size_t i = 0; i < READS; i++)
        must(exs_rread(pair->client, here + i * READ, READ, &token, 0, 0, pair->client_box->queue,
                       here + i * READ, NULL));
    return here;
}
