/* SPDX-License-Identifier: BSD-2-Clause */
/* receiving.c - see receiving.h. */
#include "receiving.h"

struct pair pair;
struct folder folder;

void open_all(void)
{
    init_library();
    folder_make(&folder);
    pair_open(&pair, AF_INET, SOCK_STREAM);
}

void close_all(void)
{
    inbox_quiet(pair.server_box, QUIET_MS); /* calls that failed have left no event */
    pair_close(&pair);
    folder_clear(&folder);
}

void receive_files(exs_xferfile_t *vector, int count, int flags)
{
    must(exs_recvfile(pair.server, vector, count, flags, pair.server_box->queue, vector));
}

uint8_t *send_pattern(size_t length, uint64_t at)
{
    uint8_t *bytes = new_buffer(length);

    pattern_fill(bytes, length, SEED, at);
    must(exs_send(pair.client, bytes, length, 0, pair.client_box->queue, NULL, NULL));
    return bytes;
}

off_t length_of(const exs_event_t *event)
{
    return event->exs_evt_union.exs_evt_xferfile.exs_evt_length;
}

/* The next receive returns the bytes that could not be written. */
void rest_comes(uint64_t at, size_t length)
{
    uint8_t *in = new_buffer(length);

    must(exs_recv(pair.server, in, length, MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    take_good(pair.server_box, EXS_EVT_RECV, pair.server);
    pattern_check(in, length, SEED, at);
    free(in);
}
