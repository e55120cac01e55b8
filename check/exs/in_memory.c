/* SPDX-License-Identifier: BSD-2-Clause */
/* in_memory.c - see in_memory.h. */
#include "in_memory.h"

#include <poll.h>

#define TURNS 8 /* passes over the queue, for work that takes several */

static const struct timeval at_once;
exs_qhandle_t queue;

void memory_begin(const struct mock_config *config)
{
    must(unsetenv("EXS_DEVICE"));
    mock_reset(config);
    init_library();
    queue = exs_qcreate(0);
    ck_assert_ptr_ne(queue, EXS_QHANDLE_INVALID);
}

void memory_end(void)
{
    must(exs_qdelete(queue));
    must(exs_fini());
    peer_reset();
    mock_end();
}

/* ---- Events and completions --------------------------------------------------------------------------- */

void go_on(void)
{
    struct input none = {0};
    struct mock_id *id;

    LIST_FOREACH (id, &mock_ids, link) {
        news_next(id, &none);
    }
}

void send_all(void)
{
    struct mock_id *id;

    LIST_FOREACH (id, &mock_ids, link) {
        struct mock_qp *qp = mock_qp_of(&id->id);

        while (qp != NULL && mock_sending(qp) != NULL)
            mock_sent(qp, IBV_WC_SUCCESS);
    }
}

exs_event_t expect(int type, int socket, int error)
{
    exs_event_t event = {0};
    int count = 0;

    for (int turn = 0; turn < TURNS && count == 0; turn++)
        must(count = exs_qdequeue(queue, &event, 1, &at_once));
    ck_assert_msg(count == 1, "there is no %s", exs_strevent(type));
    ck_assert_str_eq(exs_strevent(event.exs_evt_type), exs_strevent(type));
    ck_assert_int_eq(event.exs_evt_socket, socket);
    ck_assert_str_eq(strerrorname_np(event.exs_evt_errno), strerrorname_np(error));
    return event;
}

void expect_nothing(void)
{
    exs_event_t event;

    for (int turn = 0; turn < TURNS; turn++)
        ck_assert_int_eq(exs_qdequeue(queue, &event, 1, &at_once), 0);
}

void expect_rest(void)
{
    struct pollfd fd = {.fd = exs_qfd(queue), .events = POLLIN};

    expect_nothing();
    ck_assert_int_eq(poll(&fd, 1, 0), 0);
}

/* ---- Sockets ------------------------------------------------------------------------------------------- */

int begin_to_connect(void)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = 7};
    int socket = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(socket);
    must(exs_connect(socket, (const struct sockaddr *)&to, sizeof(to), 0, NULL, queue, NULL));
    return socket;
}

void go_on_connecting(int steps)
{
    for (int step = 0; step < steps; step++) {
        expect_nothing();
        go_on();
    }
}

int connect_one(void)
{
    int socket = begin_to_connect();

    go_on_connecting(3);
    expect(EXS_EVT_CONNECT, socket, 0);
    return socket;
}

void close_one(int socket)
{
    must(exs_close(socket, 0, queue, NULL));
    send_all();
    expect(EXS_EVT_CLOSE, socket, 0);
}
