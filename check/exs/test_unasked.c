/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_unasked.c - connections whose last work requests were unsignaled, as those of an application that only
 * receives: when the peer leaves in any way, pending receives end and the socket can be closed.
 */
#include "check/support/support.h"

enum { MOST = 200, SHORT = 64 };

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
static struct pair pair;

/* Passes this number of messages, signaled or not. The server has then posted control messages of its own. */
static void pass_messages(int count, bool is_signaled)
{
    static char out[SHORT], in[SHORT];

    for (int i = 0; i < count; i++) {
        must(exs_recv(pair.server, in, SHORT, 0, pair.server_box->queue, NULL, NULL));
        must(exs_send(pair.client, out, SHORT, is_signaled ? 0 : EXS_UNSIGNALED,
                      is_signaled ? pair.client_box->queue : NULL, NULL, NULL));
        take_good(pair.server_box, EXS_EVT_RECV, pair.server);
        if (is_signaled)
            take_good(pair.client_box, EXS_EVT_SEND, pair.client);
    }
}

START_TEST(receiver_closes)
{
    bool is_first = _i & 1, is_signaled = _i & 2;

    for (int count = 1; count <= MOST; count = count * 3 / 2 + 1) {
        pair_open(&pair, AF_INET, types[_i / 4]);
        pass_messages(count, is_signaled);
        if (is_first)
            close_socket(pair.server_box, pair.server);
        close_socket(pair.client_box, pair.client);
        if (!is_first)
            close_socket(pair.server_box, pair.server);
        pair_close_rest(&pair);
    }
}
END_TEST

START_TEST(receive_is_reset)
{
    const struct linger none = {.l_onoff = 1};
    char byte;

    for (int count = 1; count <= MOST; count = count * 3 / 2 + 1) {
        pair_open(&pair, AF_INET, types[_i & 1]);
        pass_messages(count, _i & 2);
        must(exs_recv(pair.server, &byte, 1, 0, pair.server_box->queue, NULL, NULL));
        must(exs_setsockopt(pair.client, SOL_SOCKET, SO_LINGER, &none, sizeof none));
        close_socket(pair.client_box, pair.client);
        take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ECONNRESET);
        close_socket(pair.server_box, pair.server);
        pair_close_rest(&pair);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unasked");
    TCase *tcase = add_case(suite, "unasked", 10);

    tcase_add_loop_test(tcase, receiver_closes, 0, 8);
    tcase_add_loop_test(tcase, receive_is_reset, 0, 4);
    return run_suite(suite);
}
