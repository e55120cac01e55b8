/* SPDX-License-Identifier: BSD-2-Clause */
/* test_event_result.c - exs_event_result and exs_event_flags return what the union has for each type of event. */
#include "check/support/support.h"

#define LENGTH ((size_t)5 << 30) /* more than an int can hold */
#define FLAGS (MSG_TRUNC | EXS_EOF)

static const struct {
    exs_event_t event;
    ssize_t result;
    int flags;
} rows[] = {
    {{.exs_evt_type = EXS_EVT_CONNECT}, 0, 0},
    {{.exs_evt_type = EXS_EVT_SHUTDOWN}, 0, 0},
    {{.exs_evt_type = EXS_EVT_CLOSE}, 0, 0},
    {{.exs_evt_type = EXS_EVT_ACCEPT, .exs_evt_union.exs_evt_accept.exs_evt_newsocket = 77}, 77, 0},
    {{.exs_evt_type = EXS_EVT_POLL, .exs_evt_union.exs_evt_poll.exs_evt_ready = 3}, 3, 0},
    {{.exs_evt_type = EXS_EVT_SEND,
      .exs_evt_union.exs_evt_xfer = {.exs_evt_length = LENGTH, .exs_evt_flags = FLAGS}},
     LENGTH,
     FLAGS},
    {{.exs_evt_type = EXS_EVT_RECV,
      .exs_evt_union.exs_evt_xfer = {.exs_evt_length = LENGTH, .exs_evt_flags = FLAGS}},
     LENGTH,
     FLAGS},
    {{.exs_evt_type = EXS_EVT_RREAD,
      .exs_evt_union.exs_evt_xfer = {.exs_evt_length = LENGTH, .exs_evt_flags = FLAGS}},
     LENGTH,
     FLAGS},
    {{.exs_evt_type = EXS_EVT_RWRITE,
      .exs_evt_union.exs_evt_xfer = {.exs_evt_length = LENGTH, .exs_evt_flags = FLAGS}},
     LENGTH,
     FLAGS},
    {{.exs_evt_type = EXS_EVT_SENDMSG,
      .exs_evt_union.exs_evt_xfermsg = {.exs_evt_length = LENGTH + 1, .exs_evt_flags = FLAGS}},
     LENGTH + 1,
     FLAGS},
    {{.exs_evt_type = EXS_EVT_RECVMSG,
      .exs_evt_union.exs_evt_xfermsg = {.exs_evt_length = LENGTH + 1, .exs_evt_flags = FLAGS}},
     LENGTH + 1,
     FLAGS},
    {{.exs_evt_type = EXS_EVT_SENDFILE,
      .exs_evt_union.exs_evt_xferfile = {.exs_evt_length = LENGTH + 2, .exs_evt_flags = FLAGS}},
     LENGTH + 2,
     FLAGS},
    {{.exs_evt_type = EXS_EVT_RECVFILE,
      .exs_evt_union.exs_evt_xferfile = {.exs_evt_length = LENGTH + 2, .exs_evt_flags = FLAGS}},
     LENGTH + 2,
     FLAGS},
};

START_TEST(each_type)
{
    unsigned tried = 0;

    for (int i = 0; i < COUNT(rows); i++) {
        exs_event_t event = rows[i].event;

        ck_assert_int_eq(exs_event_result(&event), rows[i].result);
        ck_assert_int_eq(exs_event_flags(&event), rows[i].flags);
        event.exs_evt_errno = EIO;
        ck_assert_int_eq(exs_event_result(&event), -EIO);
        ck_assert_int_eq(exs_event_flags(&event), rows[i].flags);
        tried |= 1u << event.exs_evt_type;
    }
    for (int type = 1; type <= EXS_EVT_POLL; type++)
        ck_assert_msg(tried & 1u << type, "no row has %s", exs_strevent(type));
}
END_TEST

/* A receive that is cancelled after some bytes: the result is the error, and the union has the number of bytes. */
START_TEST(error_and_bytes)
{
    struct pair pair;
    char text[8];

    pair_open(&pair, AF_INET, SOCK_STREAM);
    must(exs_recv(pair.server, text, sizeof(text), MSG_WAITALL, pair.server_box->queue, NULL, NULL));
    must(exs_send(pair.client, "one", 3, 0, pair.client_box->queue, NULL, NULL));
    exs_event_t event = take_good(pair.client_box, EXS_EVT_SEND, pair.client);

    ck_assert_int_eq(exs_event_result(&event), 3);
    exs_pollfd_t fd = {.exs_fd = pair.client, .exs_events = EXS_POLLOUT};
    must(exs_poll(&fd, 1, 0, NULL, pair.client_box->queue, NULL));
    event = take_good(pair.client_box, EXS_EVT_POLL, -1);
    ck_assert_int_eq(exs_event_result(&event), 1);
    must(exs_cancel(pair.server, NULL, 0));
    event = take_failed(pair.server_box, EXS_EVT_RECV, pair.server, ECANCELED);
    ck_assert_int_eq(exs_event_result(&event), -ECANCELED);
    ck_assert_uint_le(event.exs_evt_union.exs_evt_xfer.exs_evt_length, 3);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_result");

    tcase_add_test(add_bare_case(suite, "each type", 5), each_type);
    tcase_add_test(add_case(suite, "an error and bytes", 10), error_and_bytes);
    return run_suite(suite);
}
