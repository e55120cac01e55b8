/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_removed.c - a device is removed while it is in use, as rdma-core and the kernel report it: the
 * connection manager has an event, calls fail, and posted work requests get no completions. Uses the device in
 * memory (check/fuzz/mock.h), which checks that no object of a context outlives it.
 */
#include "in_memory.h"

static uint8_t in[5000], out[5000];

static void begin(void)
{
    const struct mock_config config = {.max_request = 1u << 30, .max_wr = 64, .max_cqe = 65536, .reads = 16};

    memory_begin(&config);
}

/* ---- The removal -------------------------------------------------------------------------------------- */

static struct ibv_context *replace(void)
{
    struct ibv_context *context = mock_replace(&rdma_device);

    ck_assert_ptr_nonnull(context);
    return context;
}

static void expect_nothing_left(void)
{
    ck_assert_int_eq(mock_count.qps + mock_count.mrs + mock_count.pds, 0);
    ck_assert_int_eq(mock_count.cqs + mock_count.channels, 0);
}

/* ---- Sockets ------------------------------------------------------------------------------------------- */

static void expect_device(int socket, const char *name)
{
    char device[64];

    must(exs_getdevice(socket, device, sizeof(device)));
    ck_assert_str_eq(device, name);
}

static int listen_somewhere(exs_acceptaddr_t *element)
{
    int listener = exs_socket(PF_INET, SOCK_STREAM, 0);

    must(listener);
    must(exs_listen(listener, 4));
    if (element != NULL)
        must(exs_accept(listener, element, 1, 0, queue));
    return listener;
}

/* Finds a listening identifier of this device, or of any device if NULL. Returns NULL if there is none. */
static struct mock_id *find_listening(const struct device *device)
{
    struct mock_id *id;

    LIST_FOREACH (id, &mock_ids, link) {
        if (id->listening && (device == NULL || id->device == device))
            break;
    }
    return id;
}

static void ask_listener(void)
{
    struct input none = {0};
    struct peer *peer = peer_new(NULL);
    struct hello mine = peer_hello(peer, &none, SOCK_STREAM);
    uint8_t bytes[HELLO_SIZE];

    xs_hello_pack(&mine, bytes);
    news_request(find_listening(&rdma_device), peer, bytes, sizeof(bytes));
}

static void tell_of_removal(struct mock_id *id)
{
    ck_assert_ptr_nonnull(id);
    mock_cm_event(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0, 0, 0);
}

/* ---- Connections ----------------------------------------------------------------------------------------- */

enum { AT_ONCE, TOLD_FIRST, SLOWLY, ORDERS };

/* The removal, in three orders of its steps. An operation does not complete while the device may still access
 * its memory. */
static void take_away(struct ibv_context *context, int order)
{
    if (order == SLOWLY) {
        mock_refuse(context);
        mock_remove(context);
        expect_nothing();
        ck_assert(mock_in_use(out, sizeof(out)));
    } else if (order == TOLD_FIRST) {
        mock_remove(context);
        return;
    }
    mock_take_back(context);
}

START_TEST(each_operation_ends_once)
{
    int socket = connect_one();
    exs_mhandle_t region = exs_mregister(out, sizeof(out), 0);

    must(exs_recv(socket, in, sizeof(in), 0, queue, NULL, NULL));
    must(exs_send(socket, out, sizeof(out), 0, queue, NULL, region));
    expect_nothing();
    struct ibv_context *gone = replace();

    take_away(gone, _i);
    expect(EXS_EVT_SEND, socket, ECONNRESET);
    expect(EXS_EVT_RECV, socket, ECONNRESET);
    if (_i == TOLD_FIRST)
        mock_take_back(gone);
    if (_i == AT_ONCE)
        mock_remove(gone);
    expect_rest();
    must_fail(exs_send(socket, out, sizeof(out), 0, queue, NULL, region), ECONNRESET);
    must_fail(exs_recv(socket, in, sizeof(in), 0, queue, NULL, NULL), ECONNRESET);
    must(exs_mderegister(region, 0));
    close_one(socket);
    expect_nothing_left();
    expect_rest();
}
END_TEST

/* A new device serves connections while those of a removed one still exist, and takes its place. Three removals
 * in a row. */
START_TEST(another_device_serves)
{
    int socket = connect_one(), other;

    for (int i = 0; i < 3; i++) {
        struct ibv_context *gone = replace();

        mock_take_back(gone);
        mock_remove(gone);
        expect_rest();
        other = connect_one();
        close_one(socket);
        socket = other;
    }
    close_one(socket);
    expect_nothing_left();
    expect_rest();
}
END_TEST

START_TEST(arming_fails_first)
{
    int socket = connect_one();

    must(exs_recv(socket, in, sizeof(in), 0, queue, NULL, NULL));
    must(exs_send(socket, out, sizeof(out), 0, queue, NULL, NULL));
    struct ibv_context *gone = replace();

    mock_refuse(gone);
    send_all();
    expect(EXS_EVT_SEND, socket, 0);
    expect_nothing();
    mock_take_back(gone);
    expect(EXS_EVT_RECV, socket, ECONNRESET);
    mock_remove(gone);
    expect_rest();
    close_one(socket);
    expect_nothing_left();
}
END_TEST

START_TEST(a_close_ends)
{
    int socket = connect_one();

    must(exs_close(socket, 0, queue, NULL));
    expect_nothing();
    mock_take_back(replace());
    expect(EXS_EVT_CLOSE, socket, 0);
    expect_nothing_left();
    expect_rest();
}
END_TEST

/* ---- Connections that are being established -------------------------------------------------------------- */

/* In each step of the connection's setup: the event of the step or that of the removal is first. */
START_TEST(another_device_is_tried)
{
    int socket = begin_to_connect(), steps = _i / 2;

    go_on_connecting(steps);
    if (_i % 2 == 0)
        expect_nothing();
    struct ibv_context *gone = replace();

    mock_remove(gone);
    mock_take_back(gone);
    go_on_connecting(3);
    expect(EXS_EVT_CONNECT, socket, 0);
    expect_device(socket, "soft0");
    close_one(socket);
    expect_rest();
}
END_TEST

START_TEST(no_other_device_is_left)
{
    struct mock_id *id;

    mock_config.cm_unreachable = true; /* at the first device */
    int socket = begin_to_connect();

    go_on_connecting(2);
    expect_nothing();
    id = LIST_FIRST(&mock_ids);
    ck_assert_ptr_eq(id->device, &soft_device);
    tell_of_removal(id);
    expect(EXS_EVT_CONNECT, socket, ECONNRESET);
    close_one(socket);
}
END_TEST

/* The application does not see that a half-open connection was dropped: its accept keeps waiting. */
START_TEST(an_accept_waits_on)
{
    exs_acceptaddr_t element = {0};
    int listener = listen_somewhere(&element);

    ask_listener();
    expect_nothing();
    ck_assert_int_eq(mock_count.qps, 1);
    struct ibv_context *gone = replace();

    if (_i < 2)
        mock_take_back(gone);
    if (_i == 0)
        expect_nothing();
    mock_remove(gone);
    if (_i == 3)
        mock_take_back(gone);
    expect_nothing();
    expect_nothing_left();
    ask_listener();
    expect_nothing();
    go_on();
    exs_event_t event = expect(EXS_EVT_ACCEPT, listener, 0);

    close_one(event.exs_evt_union.exs_evt_accept.exs_evt_newsocket);
    close_one(listener);
    expect_rest();
}
END_TEST

/* ---- Listeners ------------------------------------------------------------------------------------------- */

START_TEST(accepts_end_with_the_last_device)
{
    exs_acceptaddr_t element = {0};
    int listener = listen_somewhere(&element);

    tell_of_removal(find_listening(&rdma_device));
    expect_nothing();
    expect_device(listener, "soft");
    tell_of_removal(find_listening(&soft_device));
    expect(EXS_EVT_ACCEPT, listener, ENODEV);
    must_fail(exs_accept(listener, &element, 1, 0, queue), ENODEV);
    expect_rest();
    close_one(listener);
}
END_TEST

START_TEST(polls_are_told)
{
    int listener = listen_somewhere(NULL);
    exs_pollfd_t fd = {.exs_fd = listener, .exs_events = EXS_POLLIN};

    must(exs_poll(&fd, 1, 0, NULL, queue, NULL));
    for (int left = 2; left > 0; left--) {
        expect_nothing();
        tell_of_removal(find_listening(NULL));
    }
    expect(EXS_EVT_POLL, -1, 0);
    ck_assert_int_eq(fd.exs_revents, EXS_POLLIN | EXS_POLLERR);
    close_one(listener);
}
END_TEST

static TCase *add(Suite *suite, const char *name)
{
    TCase *tests = add_bare_case(suite, name, 10);

    tcase_add_checked_fixture(tests, begin, memory_end);
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("removed");
    TCase *connections = add(suite, "connections"), *on_their_way = add(suite, "on their way"),
          *listeners = add(suite, "listeners");

    tcase_add_loop_test(connections, each_operation_ends_once, 0, ORDERS);
    tcase_add_test(connections, another_device_serves);
    tcase_add_test(connections, arming_fails_first);
    tcase_add_test(connections, a_close_ends);
    tcase_add_loop_test(on_their_way, another_device_is_tried, 0, 6);
    tcase_add_test(on_their_way, no_other_device_is_left);
    tcase_add_loop_test(on_their_way, an_accept_waits_on, 0, 4);
    tcase_add_test(listeners, accepts_end_with_the_last_device);
    tcase_add_test(listeners, polls_are_told);
    return run_suite(suite);
}
